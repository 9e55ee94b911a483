package apilog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// schema creates a day's table. seq counts the rows of the day in the order of
// writing. The index has an account's rows in the order of a query, with the
// columns of filters, so that rows that do not match are skipped without being
// read: ten times faster when few match, for a quarter more disk. The user
// agent is too long for that.
const schema = `
CREATE TABLE IF NOT EXISTS call (
	seq           INTEGER PRIMARY KEY,
	date          INTEGER NOT NULL, -- milliseconds since 1970, UTC
	duration      INTEGER NOT NULL, -- microseconds
	header_size   INTEGER NOT NULL,
	payload_size  INTEGER NOT NULL,
	response_size INTEGER NOT NULL,
	status        INTEGER NOT NULL,
	account       TEXT NOT NULL,
	access_key    TEXT NOT NULL,
	action        TEXT NOT NULL,
	api           TEXT NOT NULL,
	version       TEXT NOT NULL,
	ip            TEXT NOT NULL,
	user_agent    TEXT NOT NULL,
	request_id    TEXT NOT NULL,
	header        TEXT NOT NULL,
	payload       TEXT NOT NULL,
	decision      TEXT NOT NULL DEFAULT '' -- files of earlier programs lack it
);
CREATE INDEX IF NOT EXISTS call_account_date
	ON call (account, date, seq, status, action, access_key, api, ip, request_id);
`

// rowsAtOnce is how many rows one statement inserts, which costs a fifth less
// than a statement each.
const rowsAtOnce = 32

var insertOne, insertMany = insertion(1), insertion(rowsAtOnce)

// insertion returns a statement in which SQLite assigns seq. OR FAIL keeps the
// rows before one that fails: being able to undo them would cost more than they
// do, and the transaction is rolled back in any case.
func insertion(rows int) string {
	row := ", (NULL" + strings.Repeat(", ?", numberCount+textCount) + ")"
	return "INSERT OR FAIL INTO call VALUES " + strings.Repeat(row, rows)[len(", "):]
}

// files stores the days in SQLite, in a database each.
//
// Each has one connection for writing and some for reading. The holder of the
// Archive's turn writes and removes files; a query borrows a reader. SQLite's
// write-ahead log keeps the two from blocking each other. Days in memory have
// none: a write waits for the queries of its day.
type files struct {
	dir  string // empty for days in memory
	uri  string // prefix of the databases in memory
	log  *slog.Logger
	turn chan struct{} // the Archive's; taken before mu

	mu    sync.Mutex    // guards the fields below
	files map[day]*file // open for queries
	idle  []reader      // not in use, least recently used first
	freed sync.Cond     // a reader was returned
}

// A file is the database of a day.
type file struct {
	day    day
	path   string
	writer *sqlite.Conn // nil if not open; guarded by the turn
	busy   int          // readers in use; guarded by files.mu
}

// A reader is a connection for queries.
type reader struct {
	file *file
	conn *sqlite.Conn
}

// idleReaders is the maximum number of idle readers: enough for four callers
// that read the last 48 hours, which touch three days, without opening a file.
const idleReaders = 12

// logsInMemory numbers the logs of this process that are kept in memory,
// because their databases share a namespace.
var logsInMemory atomic.Int64

func openFiles(dir string, turn chan struct{}, log *slog.Logger) (*files, error) {
	d := &files{dir: dir, log: log, turn: turn, files: map[day]*file{}}
	d.freed.L = &d.mu
	if dir == "" {
		d.uri = fmt.Sprintf("file:/apilog-%d/", logsInMemory.Add(1))
		return d, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the API log: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing the API log: %w", err)
	}
	for _, entry := range entries {
		if day, rest, ok := dayOfName(entry.Name()); ok && rest == "" {
			d.files[day] = d.file(day)
		}
	}
	return d, nil
}

// dayOfName returns the day that a name in the directory belongs to. rest is
// empty for the day's database, and not for SQLite's auxiliary files and
// damaged databases that were set aside.
func dayOfName(name string) (d day, rest string, ok bool) {
	date, rest, ok := strings.Cut(name, ".db")
	d, err := parseDay(date)
	return d, rest, ok && err == nil
}

// write implements [days]. A file that turns out to be unusable is set aside,
// and its day starts anew.
func (d *files) write(_ context.Context, on day, rows rowReader) error {
	f := d.file(on)
	err := d.insert(f, rows)
	if !unusable(err) {
		return err
	}
	if err := d.setAside(f, err); err != nil {
		return err
	}
	return d.insert(d.file(on), rows)
}

// file returns the file of a day, which may be new.
func (d *files) file(on day) *file {
	if f := d.files[on]; f != nil {
		return f
	}
	if d.dir == "" {
		return &file{day: on, path: d.uri + on.String() + "?vfs=memdb"}
	}
	return &file{day: on, path: filepath.Join(d.dir, on.String()+".db")}
}

// insert writes rows in one transaction.
func (d *files) insert(f *file, rows rowReader) (err error) {
	if f.writer == nil {
		if err := d.openWriter(f); err != nil {
			return err
		}
	}
	defer func() {
		// A connection that failed is not used again. Closing it rolls back the
		// transaction.
		if err != nil {
			_ = f.writer.Close()
			f.writer = nil
		}
	}()
	if err := sqlitex.Execute(f.writer, "BEGIN IMMEDIATE", nil); err != nil {
		return err
	}
	for rows.more() {
		at, sql := rowsAtOnce, insertMany
		if rows.rows() < rowsAtOnce {
			at, sql = 1, insertOne
		}
		stmt, err := f.writer.Prepare(sql)
		if err != nil {
			return err
		}
		for i := range at {
			bind(stmt, i, &rows)
		}
		if _, err := stmt.Step(); err != nil {
			return err
		}
		if err := stmt.Reset(); err != nil {
			return err
		}
	}
	return sqlitex.Execute(f.writer, "COMMIT", nil)
}

// bind binds the next row to the parameters of row i of stmt.
func bind(stmt *sqlite.Stmt, i int, rows *rowReader) {
	numbers, texts := rows.next()
	param := 1 + i*(numberCount+textCount)
	for i, number := range numbers {
		stmt.BindInt64(param+i, number)
	}
	for i, text := range texts {
		stmt.BindText(param+numberCount+i, text)
	}
}

// openWriter opens f for writing, and makes it visible to queries. It closes
// the writers of days that are not its neighbours: around midnight two days are
// written, and never three.
func (d *files) openWriter(f *file) error {
	if d.dir != "" {
		// SQLite would create a file that every user can read.
		made, err := os.OpenFile(f.path, os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := made.Close(); err != nil {
			return err
		}
	}
	conn, err := d.connect(f, sqlite.OpenCreate|sqlite.OpenWAL)
	if err != nil {
		return err
	}
	err = errors.Join(
		sqlitex.ExecuteTransient(conn, "PRAGMA synchronous = NORMAL", nil),
		sqlitex.ExecuteScript(conn, schema, nil),
		addDecision(conn),
	)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	f.writer = conn

	d.mu.Lock()
	d.files[f.day] = f
	d.mu.Unlock()

	if d.dir == "" {
		return nil // a day in memory lasts as long as its writer
	}
	for _, other := range d.files {
		if other.writer != nil && (other.day < f.day-1 || f.day+1 < other.day) {
			if err := other.writer.Close(); err != nil {
				d.log.Warn("closing a day of the API log failed", "file", other.path, "cause", err)
			}
			other.writer = nil
		}
	}
	return nil
}

// addDecision adds the column of decisions to a file that an earlier program made.
func addDecision(conn *sqlite.Conn) error {
	has := false
	err := sqlitex.ExecuteTransient(conn, "SELECT 1 FROM pragma_table_info('call') WHERE name = 'decision'", &sqlitex.ExecOptions{
		ResultFunc: func(*sqlite.Stmt) error { has = true; return nil },
	})
	if err != nil || has {
		return err
	}
	return sqlitex.ExecuteTransient(conn, "ALTER TABLE call ADD COLUMN decision TEXT NOT NULL DEFAULT ''", nil)
}

func (d *files) connect(f *file, flags sqlite.OpenFlags) (*sqlite.Conn, error) {
	if d.dir == "" {
		flags |= sqlite.OpenURI
	}
	return sqlite.OpenConn(f.path, sqlite.OpenReadWrite, flags)
}

// list lists the files of the days from first to last, in order.
func (d *files) list(first, last day) []*file {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*file
	for _, f := range d.files {
		if first <= f.day && f.day <= last {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *file) int { return cmp.Compare(a.day, b.day) })
	return list
}

// between implements [days].
func (d *files) between(_ context.Context, first, last day) ([]day, error) {
	var list []day
	for _, f := range d.list(first, last) {
		list = append(list, f.day)
	}
	return list, nil
}

// find implements [days].
func (d *files) find(ctx context.Context, on day, s *search, p *page) error {
	d.mu.Lock()
	f := d.files[on]
	d.mu.Unlock()
	if f == nil {
		return nil
	}
	return d.read(ctx, f, func(conn *sqlite.Conn) error { return fill(conn, s, p) })
}

// read calls fn with a connection to f, unless f was removed. A file that turns
// out to be unusable is set aside, as if it had no rows.
func (d *files) read(ctx context.Context, f *file, fn func(*sqlite.Conn) error) error {
	r, ok, err := d.take(f)
	if ok {
		r.conn.SetInterrupt(ctx.Done())
		err = fn(r.conn)
		r.conn.SetInterrupt(nil)
		d.give(r)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !unusable(err) {
		return err
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.files[f.day] != f {
		return nil // another caller has set it aside
	}
	return d.setAside(f, err)
}

// fill adds the rows of a day to a page.
func fill(conn *sqlite.Conn, s *search, p *page) error {
	sql, sets, err := s.sqlite()
	if err != nil {
		return err
	}
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	stmt.BindText(1, s.AccountID)
	stmt.BindInt64(2, s.from.Date)
	stmt.BindInt64(3, s.from.Seq)
	stmt.BindInt64(4, s.until)
	stmt.BindInt64(5, int64(p.room()+1)) // one more shows whether another page follows
	for i, set := range sets {
		stmt.BindText(6+i, set)
	}
	for {
		if found, err := stmt.Step(); err != nil || !found {
			return errors.Join(err, stmt.Reset())
		}
		at := Position{Seq: stmt.ColumnInt64(0), Date: stmt.ColumnInt64(1)}
		added := p.add(at, func(r *Record) {
			r.Date = time.UnixMilli(at.Date).UTC()
			r.Duration = time.Duration(stmt.ColumnInt64(2)) * time.Microsecond
			r.HeaderSize = stmt.ColumnInt(3)
			r.PayloadSize = stmt.ColumnInt(4)
			r.ResponseSize = stmt.ColumnInt(5)
			r.Status = stmt.ColumnInt(6)
			for i, text := range r.texts() {
				if column := 1 + numberCount + i; column < stmt.ColumnCount() {
					*text = stmt.ColumnText(column)
				}
			}
		})
		if !added {
			return stmt.Reset()
		}
	}
}

// sqlite returns the statement of the search, and the values of its filters as
// JSON lists. Searches with the same filters share a statement, so few are ever
// prepared.
func (s *search) sqlite() (string, []string, error) {
	sql := `SELECT * FROM call WHERE account = ?1 AND date >= ?2 AND (date > ?2 OR seq > ?3) AND date < ?4`
	var sets []string
	for _, f := range s.filters() {
		set, err := json.Marshal(f.set)
		if err != nil {
			return "", nil, err
		}
		sets = append(sets, string(set))
		sql += fmt.Sprintf(` AND %s IN (SELECT value FROM json_each(?%d))`, f.column, 5+len(sets))
	}
	return sql + ` ORDER BY date, seq LIMIT ?5`, sets, nil
}

// take borrows a reader of f; ok is false if f was removed meanwhile.
func (d *files) take(f *file) (r reader, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[f.day] != f {
		return reader{}, false, nil
	}
	f.busy++
	for i, r := range slices.Backward(d.idle) {
		if r.file == f {
			d.idle = slices.Delete(d.idle, i, i+1)
			return r, true, nil
		}
	}

	// After a crash this reads the whole write-ahead log, so mu is not held.
	d.mu.Unlock()
	conn, err := d.connect(f, 0)
	if err != nil && d.dir != "" {
		if _, missing := os.Stat(f.path); missing != nil {
			err = missing // SQLite only reports that it cannot open it
		}
	}
	d.mu.Lock()
	if err != nil {
		f.busy--
		d.freed.Broadcast()
	}
	return reader{f, conn}, err == nil, err
}

// give returns a reader.
func (d *files) give(r reader) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.file.busy--
	if d.files[r.file.day] != r.file {
		_ = r.conn.Close() // a reader has nothing to lose
	} else if d.idle = append(d.idle, r); len(d.idle) > idleReaders {
		_ = d.idle[0].conn.Close()
		d.idle = slices.Delete(d.idle, 0, 1)
	}
	d.freed.Broadcast()
}

// forget closes f once the queries that read it are done.
func (d *files) forget(f *file) error {
	d.mu.Lock()
	delete(d.files, f.day)
	d.idle = slices.DeleteFunc(d.idle, func(r reader) bool {
		if r.file == f {
			_ = r.conn.Close()
		}
		return r.file == f
	})
	for f.busy > 0 {
		d.freed.Wait()
	}
	d.mu.Unlock()
	if f.writer == nil {
		return nil
	}
	return f.writer.Close()
}

// drop implements [days]. It also removes databases that were set aside.
func (d *files) drop(_ context.Context, first day) error {
	var failed []error
	for _, f := range d.list(math.MinInt64, first-1) {
		failed = append(failed, d.forget(f))
	}
	if d.dir == "" {
		return errors.Join(failed...)
	}
	entries, err := os.ReadDir(d.dir)
	failed = append(failed, err)
	for _, entry := range entries {
		if on, _, ok := dayOfName(entry.Name()); ok && on < first {
			failed = append(failed, os.Remove(filepath.Join(d.dir, entry.Name())))
		}
	}
	return errors.Join(failed...)
}

// sizes implements [days].
func (d *files) sizes(context.Context) ([]daySize, error) {
	bytes := map[day]int64{}
	if d.dir == "" {
		for _, f := range d.list(math.MinInt64, math.MaxInt64) {
			if f.writer == nil {
				continue // the day was lost with its writer
			}
			used, err := usedBy(f.writer)
			if err != nil {
				return nil, err
			}
			bytes[f.day] = used
		}
	} else {
		entries, err := os.ReadDir(d.dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			on, _, ok := dayOfName(entry.Name())
			if !ok {
				continue
			}
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // SQLite removes what it no longer needs
			}
			if err != nil {
				return nil, err
			}
			bytes[on] += info.Size()
		}
	}
	var list []daySize
	for _, on := range slices.Sorted(maps.Keys(bytes)) {
		list = append(list, daySize{on, bytes[on]})
	}
	return list, nil
}

// usedBy returns the size of a database without its free pages. A database
// never shrinks: new rows reuse the free pages.
func usedBy(conn *sqlite.Conn) (bytes int64, err error) {
	const used = `SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size`
	err = sqlitex.Execute(conn, used, &sqlitex.ExecOptions{ResultFunc: func(stmt *sqlite.Stmt) error {
		bytes = stmt.ColumnInt64(0)
		return nil
	}})
	return bytes, err
}

// A trim deletes a few rows at a time, so that it does not delete too many, and
// a limited number of times, so that new rows do not wait for long.
const (
	trimSteps = 16
	trimRows  = 4096
)

// trim implements [days].
func (d *files) trim(ctx context.Context, on day, bytes int64) (err error) {
	f := d.file(on)
	if f.writer == nil {
		if err := d.openWriter(f); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil { // as after an insertion that failed
			_ = f.writer.Close()
			f.writer = nil
		}
	}()
	for range trimSteps {
		used, err := usedBy(f.writer)
		if err != nil || used <= bytes || ctx.Err() != nil {
			return err
		}
		const oldest = `DELETE FROM call WHERE seq < (SELECT min(seq) + min(?, (max(seq) - min(seq)) / 16 + 1) FROM call)`
		if err := sqlitex.Execute(f.writer, oldest, &sqlitex.ExecOptions{Args: []any{trimRows}}); err != nil {
			return err
		}
		if f.writer.Changes() == 0 {
			return nil
		}
	}
	return nil
}

// unusable reports whether err is about the file itself, so that a retry is
// useless: it is damaged, or was removed.
func unusable(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return true
	}
	return errors.Is(err, fs.ErrNotExist)
}

// setAside renames the file of a day, so that an operator can examine it and
// the day can start anew. If SQLite has left a write-ahead log, it is renamed
// too.
func (d *files) setAside(f *file, cause error) error {
	_ = d.forget(f) // the error of closing a damaged file adds nothing
	aside := f.path + ".damaged"
	for n := 2; exists(aside); n++ {
		aside = fmt.Sprintf("%s.damaged-%d", f.path, n)
	}
	for _, part := range []string{"", "-wal"} {
		if err := os.Rename(f.path+part, aside+part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("setting the damaged %s aside: %w", f.path, err)
		}
	}
	d.log.Error("a day of the API log is damaged or missing: it was set aside, and the day starts anew", "file", f.path, "aside", aside,
		"cause", cause)
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// close implements [days].
func (d *files) close() error {
	var failed []error
	for _, f := range d.list(math.MinInt64, math.MaxInt64) {
		failed = append(failed, d.forget(f))
	}
	return errors.Join(failed...)
}
