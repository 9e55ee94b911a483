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

// Backup copies the log, with every row appended before the call, to a
// directory that it creates. Rows are appended and found meanwhile. A day that
// is dropped or found to be damaged meanwhile is not in the copy, which is on
// the disk when Backup returns. A log in PostgreSQL is copied with PostgreSQL's
// own tools.
func (l *Archive) Backup(ctx context.Context, dir string) error {
	files, ok := l.days.(*files)
	if !ok {
		return errors.New("the API log is in a database, and is copied with the rest of it")
	}
	// Rows that cannot be written are lost, which was logged. The copy has what
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

// copyDay copies a day to a new file, and removes the file if it fails.
func copyDay(conn *sqlite.Conn, to string) (err error) {
	// SQLite would create a file that every user can read. It accepts an empty
	// file.
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
