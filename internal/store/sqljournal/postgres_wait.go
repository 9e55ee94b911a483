package sqljournal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bastide-cloud/bastide/internal/store"
)

// The pauses before something is tried again grow from the first to the
// longest, and are up to half as long again, so that nodes do not come back to
// the database all at once.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

// patiently does something until it succeeds, fails in a way that waiting does
// not mend, or takes longer than the journal has patience.
func (j *Postgres) patiently(ctx context.Context, do func(context.Context) error) error {
	limited, cancel := j.limited(ctx)
	defer cancel()
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := do(limited)
		switch {
		case err == nil:
			if j.away.Swap(false) {
				j.log.Info("the database is back", "database", j.name)
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case limited.Err() != nil && last == nil:
			return fmt.Errorf("%s did not do its work within %v: it is busy, out of reach, or another transaction holds an account", j.name,
				j.patience)
		case limited.Err() != nil:
			return fmt.Errorf("%s did not do its work within %v: %w", j.name, j.patience, last)
		case !met(err) && !gone(err):
			return j.explain(err)
		}
		last = j.explain(err)
		if gone(err) && !j.away.Swap(true) {
			j.log.Warn("the database is away, and is waited for", "database", j.name, "error", last)
		}
		select {
		case <-j.after(j.jittered(pause)):
		case <-limited.Done():
		}
	}
}

// limited is the context until the journal's patience is at its end.
func (j *Postgres) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	limit := j.after(j.patience)
	go func() {
		defer cancel()
		select {
		case <-limit:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (j *Postgres) jittered(pause time.Duration) time.Duration {
	// Without random all pauses are short ones: no harm is done.
	n, _ := j.number()
	return pause + time.Duration(n%uint64(pause/2))
}

// with does something on a connection.
func (j *Postgres) with(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := j.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return outcome(conn, do(conn.Conn()))
}

// errLost says that the connection broke.
var errLost = errors.New("the connection was lost")

// outcome is the error of what was done on a connection, and says if that was
// lost.
func outcome(conn *pgxpool.Conn, err error) error {
	if err != nil && conn.Conn().IsClosed() {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// gone reports whether an error is that the database cannot be reached, or not
// now.
func gone(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		// A server that answers knows whether there is a point in waiting.
		_, answered := errors.AsType[*pgconn.PgError](err)
		return !answered || notYet(err)
	}
	return errors.Is(err, errLost) || notYet(err)
}

// notYet reports whether the server has said that it cannot serve now.
func notYet(err error) bool {
	switch code := sqlState(err); code {
	case "57P01", "57P02", "57P03", // it stops, crashed, or starts
		"53300": // it has no connection left
		return true
	default:
		return strings.HasPrefix(code, "08") // what it stands for could not be reached
	}
}

// met reports whether a transaction has written nothing because of another one.
func met(err error) bool {
	return errors.Is(err, store.ErrAgain) || slices.Contains([]string{"40001", "40P01"}, sqlState(err))
}

// sqlState is the code of a server's error, empty if it is no such error.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// explain makes of an error what an operator needs: which database, and what
// can be done. It never holds the password.
func (j *Postgres) explain(err error) error {
	if err == nil || errors.Is(err, store.ErrForgotten) {
		return err
	}
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		if errors.Is(err, errReadOnly) {
			return fmt.Errorf("%s cannot be written to: %w", j.name, errReadOnly)
		}
		if sqlState(err) == "" {
			return fmt.Errorf("%s cannot be reached: %w", j.name, brief(err))
		}
	}
	switch code := sqlState(err); code {
	case "28P01", "28000":
		return fmt.Errorf("%s does not let the user %q in: %w", j.name, j.user, brief(err))
	case "3D000":
		return fmt.Errorf("%s does not exist: %w", j.name, brief(err))
	case "42501", "25006":
		return fmt.Errorf("%s cannot be written to by the user %q: %w", j.name, j.user, brief(err))
	case "42P01", "42703", "42804":
		return fmt.Errorf("%s has no tables as this program makes them: does it belong to another one? %w", j.name, brief(err))
	case "53100":
		return fmt.Errorf("no room is left on the disk of %s: %w", j.name, brief(err))
	}
	return fmt.Errorf("%s: %w", j.name, brief(err))
}

// brief leaves out what the driver says around an error.
func brief(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return e.Unwrap()
	}
	return err
}
