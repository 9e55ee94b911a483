package sqljournal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Check reads all of region.db and returns an error if a page of it is damaged.
// Commits and loads go on meanwhile; the log is kept from starting anew, and
// grows. What is inside of documents is not checked: they have no checksum.
func (j *SQLite) Check(ctx context.Context) error {
	return j.explain(ctx, j.check(ctx))
}

func (j *SQLite) check(ctx context.Context) (err error) {
	// Not one of the readers: they are for loads, which do not take as long.
	conn, err := sqlite.OpenConn(filepath.Join(j.dir, File), sqlite.OpenReadOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	conn.SetInterrupt(ctx.Done())
	return sqlitex.ExecuteTransient(conn, "PRAGMA quick_check(1)", &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error {
			if found := stmt.ColumnText(0); found != "ok" {
				return fmt.Errorf("%w: %s", sqlite.ResultCorrupt.ToError(), found)
			}
			return nil
		},
	})
}

// Damage is the first error that says that pages of region.db cannot be read or
// written; nil: there was none. It is not forgotten: a page that could be read
// now and then is no reason to go on.
func (j *SQLite) Damage() error {
	if err := j.damage.Load(); err != nil {
		return *err
	}
	return nil
}

// damaged notes an error as the damage.
func (j *SQLite) damaged(err error) error {
	j.damage.CompareAndSwap(nil, &err)
	return err
}
