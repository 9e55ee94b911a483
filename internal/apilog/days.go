package apilog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

// A day is a UTC day, counted from 1970.
type day int64

const dayMillis = 24 * 60 * 60 * 1000

func dayOf(milli int64) day {
	d := milli / dayMillis
	if milli%dayMillis < 0 {
		d-- // before 1970, where division rounds the other way
	}
	return day(d)
}

func (d day) String() string {
	return time.UnixMilli(int64(d) * dayMillis).UTC().Format(time.DateOnly)
}

// dayOfName is the day a name in the directory belongs to. A day has its
// database, what SQLite keeps beside it, and what was set aside as damaged;
// rest tells them apart and is empty for the database.
func dayOfName(name string) (d day, rest string, ok bool) {
	date, rest, ok := strings.Cut(name, ".db")
	t, err := time.Parse(time.DateOnly, date)
	return dayOf(t.UnixMilli()), rest, ok && err == nil
}

// days are the databases, one a day.
//
// Each has a connection that writes and some that read. Whoever holds the
// Log's turn writes, and takes files away; a query takes a reader and gives it
// back. SQLite's write-ahead log keeps the two out of each other's way. Days
// in memory have none, and there a write waits for the queries of its day.
type days struct {
	dir string // empty for days in memory
	uri string // of the days in memory, up to the date
	log *slog.Logger

	mu    sync.Mutex    // guards the rest
	files map[day]*file // those that can be read
	idle  []reader      // no query has them; the one that was used longest ago is first
	freed sync.Cond     // a reader of a file that is taken away was closed
}

// A file is the database of a day, until the day is dropped or its file is
// found damaged.
type file struct {
	day    day
	path   string
	writer *sqlite.Conn // nil when not open; for the holder of the turn
	busy   int          // readers that queries have; guarded by days.mu
}

// A reader is a connection for queries.
type reader struct {
	file *file
	conn *sqlite.Conn
}

// idleReaders is how many readers wait for a query, so that four callers can
// read the last 48 hours, which touch three days, without opening a file.
const idleReaders = 12

// logsInMemory numbers the logs of this process that are kept in memory,
// whose databases share one space of names.
var logsInMemory atomic.Int64

func openDays(dir string, log *slog.Logger) (*days, error) {
	d := &days{dir: dir, log: log, files: map[day]*file{}}
	d.freed.L = &d.mu
	if dir == "" {
		d.uri = fmt.Sprintf("file:/apilog-%d/", logsInMemory.Add(1))
		return d, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the API log: %w", err)
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

// write writes the rows of s. A file that turns out to be unusable is set
// aside, and rows that still cannot be written are lost: the region goes on.
func (d *days) write(s *slab) error {
	rows := rowReader{numbers: s.numbers, text: string(s.text)}
	var lost []error
	for rows.more() {
		on, part := rows.splitDay()
		f := d.file(on)
		err := d.insert(f, part)
		if unusable(err) {
			err = d.setAside(f, err)
			if err == nil {
				err = d.insert(d.file(on), part)
			}
		}
		if err != nil {
			d.log.Error("rows of the API log could not be written and are lost", "day", on.String(), "rows", part.rows(), "cause", err)
			lost = append(lost, fmt.Errorf("writing the API log of %s: %w", on, err))
		}
	}
	return errors.Join(lost...)
}

// file is the file of a day, which may be new.
func (d *days) file(on day) *file {
	if f := d.files[on]; f != nil {
		return f
	}
	if d.dir == "" {
		return &file{day: on, path: d.uri + on.String() + "?vfs=memdb"}
	}
	return &file{day: on, path: filepath.Join(d.dir, on.String()+".db")}
}

// insert writes rows in one transaction.
func (d *days) insert(f *file, rows rowReader) (err error) {
	if f.writer == nil {
		if err := d.openWriter(f); err != nil {
			return err
		}
	}
	defer func() {
		// A connection that failed is not trusted again. Closing it also
		// takes back what it had written of the rows.
		if err != nil {
			_ = f.writer.Close()
			f.writer = nil
		}
	}()
	if err := sqlitex.Execute(f.writer, "BEGIN IMMEDIATE", nil); err != nil {
		return err
	}
	stmt, err := f.writer.Prepare(insertRow)
	if err != nil {
		return err
	}
	for rows.more() {
		rows.bind(stmt)
		if _, err := stmt.Step(); err != nil {
			return err
		}
		if err := stmt.Reset(); err != nil {
			return err
		}
	}
	return sqlitex.Execute(f.writer, "COMMIT", nil)
}

// openWriter opens f to write, and lets it be read from then on. It closes
// the writers of days that are not its neighbours: around midnight two days
// are written, and never three.
func (d *days) openWriter(f *file) error {
	if d.dir != "" {
		// SQLite would let everybody read what it makes.
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
	)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	f.writer = conn

	d.mu.Lock()
	d.files[f.day] = f
	d.mu.Unlock()

	if d.dir == "" {
		return nil // where a day lasts as long as a connection to it
	}
	for _, other := range d.files {
		if other.writer != nil && (other.day < f.day-1 || f.day+1 < other.day) {
			if err := other.writer.Close(); err != nil {
				d.log.Warn("a day of the API log was not closed well", "file", other.path, "cause", err)
			}
			other.writer = nil
		}
	}
	return nil
}

func (d *days) connect(f *file, flags sqlite.OpenFlags) (*sqlite.Conn, error) {
	if d.dir == "" {
		flags |= sqlite.OpenURI
	}
	return sqlite.OpenConn(f.path, sqlite.OpenReadWrite, flags)
}

// between lists the files of the days from first to last, in their order.
func (d *days) between(first, last day) []*file {
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

// take gives a reader of f, or nothing when f was taken away meanwhile.
func (d *days) take(f *file) (r reader, ok bool, err error) {
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

	// After a crash this reads the whole write-ahead log: not under mu.
	d.mu.Unlock()
	conn, err := d.connect(f, 0)
	if err != nil && d.dir != "" {
		if _, missing := os.Stat(f.path); missing != nil {
			err = missing // SQLite only says that it cannot open it
		}
	}
	d.mu.Lock()
	if err != nil {
		f.busy--
		d.freed.Broadcast()
	}
	return reader{f, conn}, err == nil, err
}

// give takes a reader back.
func (d *days) give(r reader) {
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

// forget closes f, once the queries that read it are done.
func (d *days) forget(f *file) error {
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

// drop forgets the days before first, and what was set aside of them.
func (d *days) drop(first day) error {
	var failed []error
	for _, f := range d.between(math.MinInt64, first-1) {
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

// unusable says whether err is of the file itself, so that trying again is no
// use: it is damaged, or somebody removed it.
func unusable(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return true
	}
	return errors.Is(err, fs.ErrNotExist)
}

// setAside renames the file of a day, for an operator to look into, so that the
// day can start anew. The write-ahead log is part of the file, where SQLite left
// one, and goes with it.
func (d *days) setAside(f *file, cause error) error {
	_ = d.forget(f) // what a damaged file says when it is closed adds nothing
	aside := f.path + ".damaged"
	for n := 2; exists(aside); n++ {
		aside = fmt.Sprintf("%s.damaged-%d", f.path, n)
	}
	for _, part := range []string{"", "-wal"} {
		if err := os.Rename(f.path+part, aside+part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("setting the damaged %s aside: %w", f.path, err)
		}
	}
	d.log.Error("a day of the API log is damaged or missing: it was set aside, and the day starts anew", "file", f.path, "aside", aside, "cause", cause)
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (d *days) close() error {
	var failed []error
	for _, f := range d.between(math.MinInt64, math.MaxInt64) {
		failed = append(failed, d.forget(f))
	}
	return errors.Join(failed...)
}
