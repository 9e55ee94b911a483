package sqljournal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// File is the name of the journal's file in its directory.
const File = "region.db"

// Backup writes what the journal holds at one moment, and nothing that was not
// committed, to a file that there is not yet. Commits and loads go on meanwhile;
// the log is kept from starting anew, and grows. The file is whole and on the disk
// when Backup answers nil.
func (j *SQLite) Backup(ctx context.Context, file string) error {
	err := j.copyTo(ctx, file)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("copying %s in %s to %s: %w", File, j.dir, file, err)
	}
	return nil
}

func (j *SQLite) copyTo(ctx context.Context, file string) (err error) {
	// SQLite would let everybody read what it makes, and takes an empty file.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// Not one of the readers: they are for loads, which do not take as long.
	conn, err := sqlite.OpenConn(filepath.Join(j.dir, File), sqlite.OpenReadOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	conn.SetInterrupt(ctx.Done())
	if err := sqlitex.ExecuteTransient(conn, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{file}}); err != nil {
		return err
	}
	return f.Sync()
}
