package apilog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Backup copies the log to a directory, which it makes, with every row appended
// before it was called. Rows are appended and found meanwhile. A day that is
// dropped or found damaged meanwhile is not in the copy, which ends on the disk
// before Backup returns. A log in PostgreSQL is copied with the tools of that.
func (l *Archive) Backup(ctx context.Context, dir string) error {
	files, ok := l.days.(*files)
	if !ok {
		return errors.New("the API log is in a database, and is copied with the rest of it")
	}
	// Rows that cannot be written are lost, and that was told. The copy has what
	// the log has.
	if err := l.Flush(ctx); errors.Is(err, errClosed) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, f := range files.list(math.MinInt64, math.MaxInt64) {
		to := filepath.Join(dir, f.day.String()+".db")
		if err := files.read(ctx, f, func(conn *sqlite.Conn) error { return copyDay(conn, to) }); err != nil {
			return fmt.Errorf("copying the API log of %s: %w", f.day, err)
		}
	}
	made, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(made.Sync(), made.Close())
}

// copyDay leaves nothing when it fails.
func copyDay(conn *sqlite.Conn, to string) (err error) {
	// SQLite would let everybody read what it makes, and takes an empty file.
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(to)
		}
	}()
	if err := sqlitex.ExecuteTransient(conn, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{to}}); err != nil {
		return err
	}
	return f.Sync()
}
