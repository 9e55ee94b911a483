package apilog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The pauses between attempts grow from the first to the longest.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

var (
	errAgain = errors.New("it can be retried at once")
	errLost  = errors.New("the connection was lost")
)

// patiently runs do until it succeeds, fails for good, or ctx ends.
func (t *tables) patiently(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := t.once(ctx, do)
		switch {
		case err == nil:
			if t.away.Swap(false) {
				t.log.Info("the database of the API log can be reached again")
			}
			return nil
		case ctx.Err() != nil:
			return gaveUp(ctx, last)
		case errors.Is(err, errAgain):
			continue
		case !passes(err):
			return err
		}
		last = err
		if !t.away.Swap(true) {
			t.log.Warn("the database of the API log cannot be reached: waiting for it", "cause", err)
		}
		select {
		case <-t.after(pause):
		case <-ctx.Done():
			return gaveUp(ctx, last)
		}
	}
}

// gaveUp returns why waiting ended, with the error of the last attempt.
func gaveUp(ctx context.Context, last error) error {
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), last)
}

// once runs do on a connection.
func (t *tables) once(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = do(ctx, conn.Conn())
	if err != nil && conn.Conn().IsClosed() {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// passes reports whether an error may pass: the database cannot be reached,
// cannot serve now, or had a conflicting transaction.
func passes(err error) bool {
	switch code := sqlState(err); {
	case code == "":
		_, connecting := errors.AsType[*pgconn.ConnectError](err)
		return connecting || errors.Is(err, errLost)
	case strings.HasPrefix(code, "08"): // a proxy could not reach the database
		return true
	default:
		return slices.Contains([]string{
			"57P01", "57P02", "57P03", // it stops, has crashed, or starts
			"53300",          // it has no connection left
			"40001", "40P01", // serialization failure, deadlock
		}, code)
	}
}

// sqlState returns the code of a server's error; empty for other errors.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
