package apilog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// filesOf is the SQLite part of a log.
func filesOf(l *Archive) *files { return l.days.(*files) }

// Rows of other accounts must not even be passed over: with them, the time of
// a query would grow with the region.
func TestAQueryReadsOnlyItsAccount(t *testing.T) {
	t.Parallel()
	conn, err := sqlite.OpenConn(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteScript(conn, schema, nil); err != nil {
		t.Fatal(err)
	}
	q := query(alice)
	q.AccessKeys, q.Actions, q.APIs, q.IPs, q.RequestIDs, q.Statuses = []string{"a"}, []string{"b"}, []string{"c"}, []string{"d"},
		[]string{"e"}, []int{1}
	sql, _, err := (&search{Query: &q}).sqlite()
	if err != nil {
		t.Fatal(err)
	}
	stmt, err := conn.Prepare("EXPLAIN QUERY PLAN " + sql)
	if err != nil {
		t.Fatal(err)
	}
	var plan []string
	for {
		if found, err := stmt.Step(); err != nil {
			t.Fatal(err)
		} else if !found {
			break
		}
		plan = append(plan, stmt.GetText("detail"))
	}
	if want := "SEARCH call USING INDEX call_account_date (account=? AND date>? AND date<?)"; plan[0] != want {
		t.Errorf("the plan begins with %s, want %s", plan[0], want)
	}
	if slices.ContainsFunc(plan, func(line string) bool { return strings.Contains(line, "TEMP B-TREE") }) {
		t.Errorf("rows are sorted, and the index should have them in order: %q", plan)
	}
}

// The files as they are after a flush are what a killed process leaves behind.
func TestACrashKeepsWhatWasFlushed(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir()}
	l := openLog(t, o)
	for i := range 3 {
		l.Append(call(alice, fmt.Sprint(i), start))
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.Append(call(alice, "not flushed", start))

	left := Options{Dir: t.TempDir()}
	if err := os.CopyFS(left.Dir, os.DirFS(o.Dir)); err != nil {
		t.Fatal(err)
	}
	after := openLog(t, left)
	if got := strings.Join(ids(t, after, query(alice)), ""); got != "012" {
		t.Errorf("after the crash: got %s, want 012", got)
	}
	after.Append(call(alice, "3", start))
	if got := strings.Join(ids(t, after, query(alice)), ""); got != "0123" {
		t.Errorf("appended after the crash: got %s, want 0123", got)
	}
}

func TestRowsAreWrittenAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, Options{Dir: t.TempDir(), After: time.After})
		written := func() int {
			synctest.Wait()
			rows := 0
			for _, f := range filesOf(l).list(dayOf(0), dayOf(1<<60)) {
				conn, err := filesOf(l).connect(f, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				n, err := sqlitex.ResultInt(conn.Prep("SELECT count(*) FROM call"))
				if err != nil {
					t.Fatal(err)
				}
				rows += n
			}
			return rows
		}
		for i, step := range []struct {
			appended int
			passed   time.Duration
			want     int
		}{{2, 0, 0}, {1, 99 * time.Millisecond, 0}, {0, time.Millisecond, 3}, {0, time.Hour, 3}, {1, 99 * time.Millisecond, 3},
			{0, time.Millisecond, 4}} {
			for range step.appended {
				l.Append(call(alice, "a", start))
			}
			time.Sleep(step.passed) // of the bubble's clock
			if got := written(); got != step.want {
				t.Errorf("step %d: %d rows are written, want %d", i, got, step.want)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A query whose caller went away ends, and its connection serves the next one.
func TestAQueryIsInterrupted(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{Dir: t.TempDir()})
	l.Append(call(alice, "0", start))
	ids(t, l, query(alice))
	f := filesOf(l).file(dayOf(start.UnixMilli()))
	ctx, cancel := context.WithCancel(t.Context())
	err := filesOf(l).read(ctx, f, func(conn *sqlite.Conn) error {
		cancel()
		n, err := sqlitex.ResultInt(conn.Prep("SELECT count(*) FROM call"))
		if err == nil {
			t.Errorf("the connection went on and counted %d rows", n)
		}
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := strings.Join(ids(t, l, query(alice)), ""); got != "0" {
		t.Errorf("the next query found %q, want 0", got)
	}
	if n := len(filesOf(l).idle); n != 1 {
		t.Errorf("%d readers are open, want the same one again", n)
	}
}

// A damaged file is set aside, told, and costs no more than its own rows.
func TestDamage(t *testing.T) {
	t.Parallel()
	const rows = 500
	damages := map[string]func(t *testing.T, path string){
		"no database": func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("this is not a database, and long enough to be read as one"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"overwritten": func(t *testing.T, path string) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := 8192; i < len(content); i++ {
				content[i] = 0xa5
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"cut": func(t *testing.T, path string) {
			if err := os.Truncate(path, 10_000); err != nil {
				t.Fatal(err)
			}
		},
		"removed": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	}
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		for _, finder := range []string{"a query", "an append"} {
			t.Run(name+", found by "+finder, func(t *testing.T) {
				t.Parallel()
				var told bytes.Buffer
				o := Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&told, nil))}
				l := openLog(t, o)
				for i := range rows {
					l.Append(call(alice, fmt.Sprint(i), start))
				}
				l.Append(call(alice, "tomorrow", start.AddDate(0, 0, 1)))
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(o.Dir, "2026-11-20.db")
				l = nil
				if name != "removed" {
					damages[name](t, path)
					l = openLog(t, o)
				} else { // under a running log
					l = openLog(t, o)
					damages[name](t, path)
				}
				if finder == "an append" {
					l.Append(call(alice, "new", start))
					if err := l.Flush(t.Context()); err != nil {
						t.Errorf("Flush: %v", err)
					}
				}
				found := ids(t, l, query(alice))
				if found[len(found)-1] != "tomorrow" {
					t.Errorf("the query ends with %s, want tomorrow's row", found[len(found)-1])
				}
				l.Append(call(alice, "newer", start))
				found = ids(t, l, query(alice))
				want := []string{"newer", "tomorrow"}
				if finder == "an append" {
					want = append([]string{"new"}, want...)
				}
				if !slices.Equal(found, want) {
					t.Errorf("after all: got %q, want %q", found, want)
				}
				aside := glob(t, o.Dir, "*.damaged")
				if name != "removed" && !slices.Equal(aside, []string{"2026-11-20.db.damaged"}) {
					t.Errorf("set aside are %q", aside)
				}
				if !(name == "removed" && finder == "an append") && !strings.Contains(told.String(), "2026-11-20.db") {
					t.Errorf("the operator was told %q, want the name of the file", told.String())
				}
			})
		}
	}
}

// What a killed process left beside a damaged file must not come back in the
// new one.
func TestDamageAfterACrash(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir()}
	l := openLog(t, o)
	l.Append(call(alice, "old", start))
	if err := l.Close(); err != nil { // now all is in the file, and the log is empty
		t.Fatal(err)
	}
	l = openLog(t, o)
	l.Append(call(alice, "old", start))
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := Options{Dir: t.TempDir()}
	if err := os.CopyFS(left.Dir, os.DirFS(o.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left.Dir, "2026-11-20.db"), bytes.Repeat([]byte("no database"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	after := openLog(t, left)
	after.Append(call(alice, "new", start))
	if got := ids(t, after, query(alice)); !slices.Equal(got, []string{"new"}) {
		t.Errorf("got %q, want the new row", got)
	}
	if got, want := glob(t, left.Dir, "*.damaged"), []string{"2026-11-20.db.damaged"}; !slices.Equal(got, want) {
		t.Errorf("set aside are %q, want %q", got, want)
	}
}

// Queries that find the damage together set the file aside once.
func TestDamageFoundTwice(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	l := openLog(t, Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&told, nil))})
	l.Append(call(alice, "old", start))
	ids(t, l, query(alice))
	f := filesOf(l).file(dayOf(start.UnixMilli()))
	var group, reading sync.WaitGroup
	reading.Add(2)
	for range 2 {
		group.Go(func() {
			err := filesOf(l).read(t.Context(), f, func(*sqlite.Conn) error {
				reading.Done()
				reading.Wait()
				return sqlite.ResultCorrupt.ToError()
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := strings.Count(told.String(), "damaged or missing"); n != 1 {
		t.Errorf("the operator was told %d times, want once: %s", n, told.String())
	}
	l.Append(call(alice, "new", start))
	if got := ids(t, l, query(alice)); !slices.Equal(got, []string{"new"}) {
		t.Errorf("got %q, want the new row", got)
	}
}

// A batch that does not fit on the disk is lost as a whole, and the next one
// is written when there is room again.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{Dir: t.TempDir()})
	l.Append(call(alice, "before", start))
	ids(t, l, query(alice))
	if err := sqlitex.Execute(filesOf(l).file(dayOf(start.UnixMilli())).writer, "PRAGMA max_page_count = 8", nil); err != nil {
		t.Fatal(err)
	}
	large := call(alice, "large", start)
	large.PayloadRaw = strings.Repeat("x", 40_000)
	l.Append(call(alice, "with the large one", start))
	l.Append(large)
	if err := l.Flush(t.Context()); sqlite.ErrCode(err) != sqlite.ResultFull {
		t.Errorf("Flush: %v, want that the disk is full", err)
	}
	large.RequestID = "after" // the limit was the connection's, so a new one has room
	l.Append(large)
	if got := ids(t, l, query(alice)); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("got %q, want the rows before and after", got)
	}
}

// What cannot be written is lost and told, and the log goes on.
func TestRowsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	l := openLog(t, Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&told, nil))})
	inTheWay := filepath.Join(filesOf(l).dir, "2026-11-20.db")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	l.Append(call(alice, "0", start))
	l.Append(call(alice, "1", start.AddDate(0, 0, 1)))
	l.Append(call(alice, "2", start))
	if err := l.Flush(t.Context()); err == nil {
		t.Error("Flush: no error, and two rows could not be written")
	}
	if !strings.Contains(told.String(), "rows=1") {
		t.Errorf("the operator was told %q, want how many rows are lost", told.String())
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	l.Append(call(alice, "3", start))
	if got := strings.Join(ids(t, l, query(alice)), ""); got != "31" {
		t.Errorf("got %s, want 31", got)
	}
}
