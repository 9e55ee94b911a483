// Package sqljournal keeps the rows of a store.Store in an SQL database, in two
// tables: account, with a version per account, and resource, with a JSON
// document per object. An operator may read both while the region runs.
//
// What one dialect of SQL says in its own way is in a file named for it.
package sqljournal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/bastide-cloud/bastide/internal/store"
)

// SQLite is a journal in one file, region.db, in a directory that belongs to
// one process at a time.
//
// A commit is durable when Commit returns: it is in the write-ahead log
// region.db-wal, which was synced. Later it is copied to region.db in the
// background. So the two files belong together: while the region runs, a copy
// of region.db alone is not a backup.
type SQLite struct {
	dir  string
	log  *slog.Logger
	lock *os.File

	// writing guards the writer. The checkpointer holds it, too, while it
	// starts the log anew.
	writing sync.Mutex
	writer  *sqlite.Conn

	readers      *sqlitex.Pool
	checkpointer *checkpointer

	damage atomic.Pointer[error] // the first error that says that pages cannot be read
}

// Option changes what [Open] does by default.
type Option func(*SQLite)

// Log gives the journal a logger for what it does on its own: its checkpoints
// and what hinders them.
func Log(log *slog.Logger) Option {
	return func(j *SQLite) { j.log = log }
}

// sqliteVersion is the version of the schema that this program reads and
// writes. The file says which one it has in its user_version.
const sqliteVersion = 1

// The rows of an account are found by an index, and the table itself only grows
// at its end: clustered by that key it took 3 times the disk and 5 times as long
// to load. The short rows of account are clustered. Text compares byte by byte.
const sqliteSchema = `
CREATE TABLE account (
	id        TEXT    NOT NULL PRIMARY KEY,
	version   INTEGER NOT NULL, -- counts the transactions that wrote to the account
	unsettled INTEGER NOT NULL  -- how many of its objects a loop must look at
) STRICT, WITHOUT ROWID;

CREATE INDEX account_unsettled ON account (id) WHERE unsettled > 0;

CREATE TABLE resource (
	account TEXT    NOT NULL,
	kind    TEXT    NOT NULL,
	id      TEXT    NOT NULL,
	version INTEGER NOT NULL, -- of the account when the row was written
	seq     INTEGER NOT NULL, -- the order of creation within the account
	gone    INTEGER NOT NULL, -- when it was deleted, in Unix milliseconds; 0: it lives
	doc     TEXT    NOT NULL  -- JSON
) STRICT;

CREATE UNIQUE INDEX resource_key ON resource (account, kind, id);

PRAGMA user_version = 1;
`

// Rows are written by a statement each. One of many rows is slower: it must be
// able to undo the first ones, and keeps a journal of its own for that.
const (
	sqlitePutAccount = `INSERT INTO account (id, version, unsettled) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, unsettled = excluded.unsettled`
	sqlitePutRow = `INSERT INTO resource (account, kind, id, version, seq, gone, doc) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (account, kind, id) DO UPDATE SET version = excluded.version, seq = excluded.seq, gone = excluded.gone, doc = excluded.doc`
	sqliteRemoveRow = `DELETE FROM resource WHERE account = ? AND kind = ? AND id = ?`
	sqliteUnsettled = `SELECT id FROM account WHERE unsettled > 0 ORDER BY id`
)

// A single statement, because it sees a single moment: the version belongs to
// the rows. An account without rows is one row of nulls.
const sqliteLoad = `SELECT a.version, r.kind, r.id, r.version, r.seq, r.gone, r.doc
	FROM account a LEFT JOIN resource r ON r.account = a.id WHERE a.id = ?`

// Open opens the journal in the directory, which it makes if there is none. It
// refuses one that another process has open, and one that a newer program wrote.
// The context bounds the opening only.
func Open(ctx context.Context, dir string, opts ...Option) (_ *SQLite, err error) {
	j := &SQLite{dir: dir, log: slog.New(slog.DiscardHandler), checkpointer: newCheckpointer()}
	for _, o := range opts {
		o(j)
	}
	if j.lock, err = lockDirectory(dir); err != nil {
		return nil, err
	}
	if err := j.connect(ctx); err != nil {
		return nil, errors.Join(j.explain(ctx, err), j.disconnect())
	}
	go j.checkpoints()
	return j, nil
}

func (j *SQLite) connect(ctx context.Context) (err error) {
	path := filepath.Join(j.dir, File)
	// SQLite would make a file that everybody may read.
	f, err := os.OpenFile(path, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	version, err := sqliteFileVersion(path)
	if err != nil {
		return err
	}
	if version > sqliteVersion {
		return fmt.Errorf("%s was written by a newer program: its schema has version %d, and this program knows %d", path, version, sqliteVersion)
	}

	if j.writer, err = sqlite.OpenConn(path, sqlite.OpenReadWrite); err != nil {
		return err
	}
	// An operator who writes by hand makes a commit wait, but not for ever.
	j.writer.SetBusyTimeout(10 * time.Second)
	j.writer.SetInterrupt(ctx.Done())
	defer j.writer.SetInterrupt(nil)
	for _, pragma := range []string{
		"PRAGMA journal_mode = wal", // a file keeps that it has a log
		"PRAGMA synchronous = full", // each commit waits for the disk
		"PRAGMA wal_autocheckpoint = 0",
		"PRAGMA cache_size = -32768", // KiB, for the pages of the index that commits come back to
	} {
		if err := sqlitex.ExecuteTransient(j.writer, pragma, nil); err != nil {
			return err
		}
	}
	if version == 0 {
		if err := sqlitex.ExecuteScript(j.writer, sqliteSchema, nil); err != nil {
			return err
		}
	}
	j.readers, err = sqlitex.NewPool(path, sqlitex.PoolOptions{
		Flags:    sqlite.OpenReadOnly,
		PoolSize: max(4, runtime.GOMAXPROCS(0)),
	})
	if err != nil {
		return err
	}
	if err := j.checkpointer.connect(path); err != nil {
		return err
	}
	return j.copyLeft(ctx)
}

// sqliteFileVersion reads the version of a file's schema without changing the
// file; 0 if it is empty.
func sqliteFileVersion(path string) (version int, err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	stmt, err := conn.Prepare("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	return sqlitex.ResultInt(stmt)
}

// Load implements [store.Journal]. It never waits for a commit.
func (j *SQLite) Load(ctx context.Context, account string, each func(store.Row) error) (version uint64, err error) {
	conn, err := j.readers.Take(ctx)
	if err != nil {
		return 0, err
	}
	defer j.readers.Put(conn)
	stmt, err := conn.Prepare(sqliteLoad)
	if err != nil {
		return 0, j.explain(ctx, err)
	}
	defer stmt.Reset()
	stmt.BindText(1, account)
	for {
		found, err := stmt.Step()
		if err != nil {
			return 0, j.explain(ctx, err)
		}
		if !found {
			return version, nil
		}
		version = uint64(stmt.ColumnInt64(0))
		if row := sqliteRow(stmt, 1); row != nil {
			if err := each(*row); err != nil {
				return 0, err
			}
		}
	}
}

// sqliteRow reads the columns of a row; nil: there is none.
func sqliteRow(stmt *sqlite.Stmt, from int) *store.Row {
	if stmt.ColumnIsNull(from) {
		return nil
	}
	doc := make([]byte, stmt.ColumnLen(from+5))
	stmt.ColumnBytes(from+5, doc)
	return &store.Row{
		Kind:      stmt.ColumnText(from),
		ID:        stmt.ColumnText(from + 1),
		Version:   uint64(stmt.ColumnInt64(from + 2)),
		Seq:       uint64(stmt.ColumnInt64(from + 3)),
		DeletedAt: stmt.ColumnInt64(from + 4),
		Doc:       doc,
	}
}

// Commit implements [store.Journal]. When it returns nil, the batches survive a
// power failure. When it returns an error, none of them is visible; whether
// they survive is unknown only if the disk failed.
func (j *SQLite) Commit(ctx context.Context, batches []store.Batch) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.writer.SetInterrupt(ctx.Done())
	defer j.writer.SetInterrupt(nil)
	if err := j.write(batches); err != nil {
		return j.explain(ctx, err)
	}
	j.checkpointer.committed(batches)
	return nil
}

// write is one transaction.
func (j *SQLite) write(batches []store.Batch) (err error) {
	end, err := sqlitex.ImmediateTransaction(j.writer)
	if err != nil {
		return err
	}
	defer end(&err)
	for _, b := range batches {
		if err := j.writeBatch(b); err != nil {
			return err
		}
	}
	return nil
}

func (j *SQLite) writeBatch(b store.Batch) error {
	stmt, err := j.writer.Prepare(sqlitePutAccount)
	if err != nil {
		return err
	}
	stmt.BindText(1, b.Account)
	stmt.BindInt64(2, int64(b.Version))
	stmt.BindInt64(3, int64(b.Pending))
	if _, err := stmt.Step(); err != nil {
		return err
	}
	for _, r := range b.Rows {
		if err := j.writeRow(b.Account, r); err != nil {
			return err
		}
	}
	return nil
}

func (j *SQLite) writeRow(account string, r store.Row) error {
	query := sqlitePutRow
	if r.Doc == nil {
		query = sqliteRemoveRow
	}
	stmt, err := j.writer.Prepare(query)
	if err != nil {
		return err
	}
	stmt.BindText(1, account)
	stmt.BindText(2, r.Kind)
	stmt.BindText(3, r.ID)
	if r.Doc != nil {
		stmt.BindInt64(4, int64(r.Version))
		stmt.BindInt64(5, int64(r.Seq))
		stmt.BindInt64(6, r.DeletedAt)
		stmt.BindText(7, string(r.Doc)) // as text, which SQLite's JSON functions take
	}
	_, err = stmt.Step()
	return err
}

// Pending implements [store.Journal].
func (j *SQLite) Pending(ctx context.Context) (accounts []string, err error) {
	conn, err := j.readers.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer j.readers.Put(conn)
	err = sqlitex.Execute(conn, sqliteUnsettled, &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error {
			accounts = append(accounts, stmt.ColumnText(0))
			return nil
		},
	})
	return accounts, j.explain(ctx, err)
}

// Close implements [store.Journal]. It ends the loads under way, copies the log
// to region.db, removes it, and leaves the directory to others.
func (j *SQLite) Close() error {
	j.checkpointer.stop()
	return j.explain(context.Background(), j.disconnect())
}

// disconnect closes what is open. The writer is the last connection, and as such
// it copies the log and removes it.
func (j *SQLite) disconnect() error {
	var errs []error
	if j.readers != nil {
		errs = append(errs, j.readers.Close())
	}
	if j.checkpointer.conn != nil {
		errs = append(errs, j.checkpointer.conn.Close())
	}
	if j.writer != nil {
		errs = append(errs, j.writer.Close())
	}
	return errors.Join(append(errs, j.lock.Close())...)
}

// explain adds to an error of SQLite what an operator makes of it.
func (j *SQLite) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultInterrupt:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("the journal in %s was closed meanwhile: %w", j.dir, err)
	case sqlite.ResultFull:
		return fmt.Errorf("no room is left on the disk of %s: %w", j.dir, err)
	case sqlite.ResultIOErr:
		return j.damaged(fmt.Errorf("the disk of %s does not read or write as it should: %w", j.dir, err))
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return j.damaged(fmt.Errorf("region.db in %s is damaged, or is no database: %w", j.dir, err))
	case sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultCantOpen:
		return fmt.Errorf("region.db in %s may not be written by this user: %w", j.dir, err)
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return fmt.Errorf("another program writes to region.db in %s and does not end: %w", j.dir, err)
	}
	return err
}
