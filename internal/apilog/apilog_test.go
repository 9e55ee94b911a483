package apilog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	alice = "000000000001"
	bob   = "000000000002"
)

// start is when the tests begin: in the middle of a day.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// openLog opens a log that is as o says and else: in memory, with a clock that
// stands two days after start, silent, and flushed by queries only.
func openLog(t testing.TB, o Options) *Archive {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return start.Add(48 * time.Hour) }
	}
	if o.After == nil {
		o.After = func(time.Duration) <-chan time.Time { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// call is a row that a test knows again by its id.
func call(account, id string, date time.Time) *Record {
	return &Record{AccountID: account, RequestID: id, Date: date}
}

// query asks for everything of an account.
func query(account string) Query {
	return Query{AccountID: account, After: start.AddDate(-1, 0, 0), Before: start.AddDate(1, 0, 0), Limit: 1000}
}

// ids are the request ids of the page that q asks for.
func ids(t testing.TB, l *Archive, q Query) []string {
	t.Helper()
	records, _, err := l.Query(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return idsOf(records)
}

func idsOf(records []Record) []string {
	list := []string{}
	for _, r := range records {
		list = append(list, r.RequestID)
	}
	return list
}

// everyStorage runs a test on files and in memory.
func everyStorage(t *testing.T, test func(t *testing.T, o Options)) {
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		test(t, Options{Dir: filepath.Join(t.TempDir(), "log")})
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, Options{})
	})
}

func TestARowComesBackWhole(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
		want := Record{
			AccountID: alice, AccessKey: "ABC", Action: "ReadVms", API: "oapi", Version: "1.42", IP: "192.0.2.1",
			UserAgent: "osc-cli", RequestID: "a", Date: start.Add(123 * time.Millisecond), Duration: 47 * time.Microsecond,
			HeaderRaw: `Host: x\nAccept: */*`, PayloadRaw: "nul \x00, no UTF-8 \xff, é",
			HeaderSize: 1, PayloadSize: 2, ResponseSize: 3, Status: 200,
		}
		appended := want
		appended.Date = want.Date.Add(456 * time.Microsecond).In(time.FixedZone("", 3600))
		appended.Duration += 89
		l.Append(&appended)
		l.Append(&Record{AccountID: alice, Date: start.Add(time.Second)})

		got, next, err := l.Query(t.Context(), query(alice))
		if diff := cmp.Diff([]Record{want, {AccountID: alice, Date: start.Add(time.Second)}}, got); diff != "" || next != nil || err != nil {
			t.Errorf("Query: next %v, err %v, records (-want +got):\n%s", next, err, diff)
		}
	})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{})
	for i, r := range []Record{
		{AccessKey: "K1", Action: "ReadVms", API: "oapi", IP: "192.0.2.1", UserAgent: "cli", Status: 200},
		{AccessKey: "K2", Action: "ReadVms", API: "oapi", IP: "192.0.2.2", UserAgent: "sdk", Status: 400},
		{AccessKey: "K3", Action: "CreateVms", API: "fcu", IP: "192.0.2.1", UserAgent: "sdk \"2\"", Status: 500},
		{AccessKey: "", Action: "readvms", API: "oapi", IP: "2001:db8::1", UserAgent: "", Status: 200},
	} {
		r.AccountID, r.RequestID, r.Date = alice, fmt.Sprint(i), start.Add(time.Duration(i)*time.Millisecond)
		l.Append(&r)
	}
	for _, test := range []struct {
		name string
		set  func(*Query)
		want string
	}{
		{"none", func(q *Query) {}, "0123"},
		{"access keys", func(q *Query) { q.AccessKeys = []string{"K1", "K3", "K4"} }, "02"},
		{"no access key", func(q *Query) { q.AccessKeys = []string{""} }, "3"},
		{"actions, by case", func(q *Query) { q.Actions = []string{"ReadVms"} }, "01"},
		{"APIs", func(q *Query) { q.APIs = []string{"oapi"} }, "013"},
		{"IPs", func(q *Query) { q.IPs = []string{"192.0.2.1", "2001:db8::1"} }, "023"},
		{"user agents", func(q *Query) { q.UserAgents = []string{`sdk "2"`, "cli"} }, "02"},
		{"request ids", func(q *Query) { q.RequestIDs = []string{"3", "1"} }, "13"},
		{"statuses", func(q *Query) { q.Statuses = []int{200, 500} }, "023"},
		{"two sets", func(q *Query) { q.Actions, q.Statuses = []string{"ReadVms", "CreateVms"}, []int{400, 500} }, "12"},
		{"all sets", func(q *Query) {
			q.AccessKeys, q.Actions, q.APIs, q.IPs = []string{"K2"}, []string{"ReadVms"}, []string{"oapi"}, []string{"192.0.2.2"}
			q.UserAgents, q.RequestIDs, q.Statuses = []string{"sdk"}, []string{"1"}, []int{400}
		}, "1"},
		{"sets that exclude each other", func(q *Query) { q.APIs, q.Statuses = []string{"fcu"}, []int{200} }, ""},
		{"after is in", func(q *Query) { q.After = start.Add(1 * time.Millisecond) }, "123"},
		{"after, between milliseconds", func(q *Query) { q.After = start.Add(1*time.Millisecond + 1) }, "23"},
		{"before is out", func(q *Query) { q.Before = start.Add(2 * time.Millisecond) }, "01"},
		{"before, between milliseconds", func(q *Query) { q.Before = start.Add(2*time.Millisecond + 1) }, "012"},
		{"an empty interval", func(q *Query) { q.After, q.Before = start, start }, ""},
		{"an interval that ends before it begins", func(q *Query) { q.After, q.Before = q.Before, q.After }, ""},
		{"a quote is no SQL", func(q *Query) { q.Actions = []string{`' OR 1=1 --`} }, ""},
	} {
		q := query(alice)
		test.set(&q)
		if got := strings.Join(ids(t, l, q), ""); got != test.want {
			t.Errorf("%s: got rows %q, want %q", test.name, got, test.want)
		}
	}
}

func TestAccountsAreApart(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{})
	for i := range 10 {
		l.Append(call(alice, fmt.Sprint("a", i), start))
		l.Append(call(bob, fmt.Sprint("b", i), start))
	}
	for account, want := range map[string]string{
		alice: "a0a1a2a3a4a5a6a7a8a9", bob: "b0b1b2b3b4b5b6b7b8b9", "": "", "%": "", "000000000003": "",
	} {
		if got := strings.Join(ids(t, l, query(account)), ""); got != want {
			t.Errorf("the calls of %q: got %s, want %s", account, got, want)
		}
	}
	q := query(alice)
	q.RequestIDs = []string{"a1", "b1"}
	if got := strings.Join(ids(t, l, q), ""); got != "a1" {
		t.Errorf("asked with another account's request id: got %s, want a1", got)
	}
}

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
	q.AccessKeys, q.Actions, q.APIs, q.IPs, q.RequestIDs, q.Statuses = []string{"a"}, []string{"b"}, []string{"c"}, []string{"d"}, []string{"e"}, []int{1}
	sql, _, err := q.sql()
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

// However a walk and new calls interleave, the walk meets the rows that were
// there when it began, and later ones with later dates, once and in order.
func TestPagesAreStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, err := Open(Options{
			Now:   func() time.Time { return start.Add(48 * time.Hour) },
			After: func(time.Duration) <-chan time.Time { return nil },
			Log:   slog.New(slog.DiscardHandler),
		})
		if err != nil {
			rt.Fatal(err)
		}
		defer l.Close()
		type row struct {
			id   string
			date time.Time
		}
		var all []row
		latest := start
		appendRows := func(label string, earliest time.Time) {
			for range rapid.IntRange(0, 15).Draw(rt, label) {
				// Hours make days, zeros make rows of the same date.
				date := earliest.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 13}).Draw(rt, "hours")) * time.Hour)
				r := row{fmt.Sprint(len(all)), date}
				all = append(all, r)
				l.Append(call(alice, r.id, r.date))
				l.Append(call(bob, r.id, r.date))
				if date.After(latest) {
					latest = date
				}
			}
		}
		appendRows("rows at first", start)

		q := query(alice)
		q.Limit = rapid.IntRange(1, 7).Draw(rt, "limit")
		var got []string
		for {
			records, next, err := l.Query(t.Context(), q)
			if err != nil {
				rt.Fatal(err)
			}
			if len(records) > q.Limit || next != nil && len(records) < q.Limit {
				rt.Fatalf("a page of %d rows, limit %d, next %v", len(records), q.Limit, next)
			}
			got = append(got, idsOf(records)...)
			if next == nil {
				break
			}
			q.From = next
			if len(all) < 40 {
				appendRows("rows between pages", latest)
			}
		}
		want := slices.Clone(all)
		slices.SortStableFunc(want, func(a, b row) int { return a.date.Compare(b.date) })
		wantIDs := []string{}
		for _, r := range want {
			wantIDs = append(wantIDs, r.id)
		}
		if diff := cmp.Diff(wantIDs, append([]string{}, got...)); diff != "" {
			rt.Errorf("the walk by %d met (-want +got):\n%s", q.Limit, diff)
		}
	})
}

// A call that took long is appended with a date that a walk has passed. It
// must not make the walk meet a row twice.
func TestALateRowShiftsNoPage(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{})
	for i := range 4 {
		l.Append(call(alice, fmt.Sprint(i), start.Add(time.Duration(i)*time.Second)))
	}
	q := query(alice)
	q.Limit = 2
	first, next, err := l.Query(t.Context(), q)
	if err != nil || next == nil {
		t.Fatal(next, err)
	}
	l.Append(call(alice, "late", start))
	q.From = next
	if got := strings.Join(append(idsOf(first), ids(t, l, q)...), ""); got != "0123" {
		t.Errorf("the walk met %s, want 0123", got)
	}
	if got := strings.Join(ids(t, l, query(alice)), " "); got != "0 late 1 2 3" {
		t.Errorf("the next walk met %s, want 0 late 1 2 3", got)
	}
}

func TestRowsAreKept32Days(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		now := start
		o.Now = func() time.Time { return now }
		l := openLog(t, o)
		for i := range 34 {
			now = start.AddDate(0, 0, i)
			l.Append(call(alice, fmt.Sprint(i), now))
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// 33 days have passed, and the row of day 1 is 32 days old.
		var want []string
		for i := 1; i < 34; i++ {
			want = append(want, fmt.Sprint(i))
		}
		if diff := cmp.Diff(want, ids(t, l, query(alice))); diff != "" {
			t.Errorf("after 33 days (-want +got):\n%s", diff)
		}
		now = now.Add(time.Millisecond)
		if diff := cmp.Diff(want[1:], ids(t, l, query(alice))); diff != "" {
			t.Errorf("a millisecond later (-want +got):\n%s", diff)
		}
		if o.Dir == "" {
			return
		}
		names := glob(t, o.Dir, "*.db")
		if len(names) != 33 || names[0] != "2026-11-21.db" {
			t.Errorf("there are %d files from %s on, want 33 from 2026-11-21.db on", len(names), names[0])
		}
		if beside := glob(t, o.Dir, "2026-11-20*"); len(beside) > 0 {
			t.Errorf("the day that was dropped left %q", beside)
		}
		writers := 0
		for _, f := range l.days.files {
			if f.writer != nil {
				writers++
			}
		}
		if writers > 2 || len(l.days.idle) > idleReaders {
			t.Errorf("%d files are open to write and %d to read, want at most 2 and %d", writers, len(l.days.idle), idleReaders)
		}

		// A log that was closed for long drops what is too old when it opens.
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		now = now.AddDate(0, 0, 30)
		openLog(t, o)
		if names := glob(t, o.Dir, "*"); len(names) != 3 {
			t.Errorf("30 days later there are %q, want 3 files", names)
		}
	})
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

func TestDropBefore(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
		for i := range 3 {
			l.Append(call(alice, fmt.Sprint(i), start.AddDate(0, 0, i-1)))
		}
		if got := strings.Join(ids(t, l, query(alice)), ""); got != "012" {
			t.Fatalf("before: got %s, want 012", got)
		}
		if err := l.DropBefore(start.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(ids(t, l, query(alice)), ""); got != "12" {
			t.Errorf("after: got %s, want 12: the day itself stays", got)
		}
	})
}

func TestReopen(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir()}
	for i := range 3 {
		l := openLog(t, o)
		l.Append(call(alice, fmt.Sprint(i), start))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); !errors.Is(err, errClosed) {
			t.Errorf("closed again: %v, want %v", err, errClosed)
		}
		if _, _, err := l.Query(t.Context(), query(alice)); !errors.Is(err, errClosed) {
			t.Errorf("a query of a closed log: %v, want %v", err, errClosed)
		}
	}
	if got := strings.Join(ids(t, openLog(t, o), query(alice)), ""); got != "012" {
		t.Errorf("after three lives: got %s, want 012", got)
	}
	if names := glob(t, o.Dir, "*.db"); !slices.Equal(names, []string{"2026-11-20.db"}) {
		t.Errorf("the files are %q", names)
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
			for _, f := range l.days.between(dayOf(0), dayOf(1<<60)) {
				conn, err := l.days.connect(f, 0)
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
		}{{2, 0, 0}, {1, 99 * time.Millisecond, 0}, {0, time.Millisecond, 3}, {0, time.Hour, 3}, {1, 99 * time.Millisecond, 3}, {0, time.Millisecond, 4}} {
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

// When the disk stands still, callers fill the memory they may and wait.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, each = 8, 50
		r := call(alice, "a", start)
		r.PayloadRaw = strings.Repeat("x", 10_000)
		l := openLog(t, Options{Memory: 500_000})
		l.turn <- struct{}{} // the disk stands still
		returned := make(chan struct{}, callers*each)
		for range callers {
			go func() {
				for range each {
					l.Append(r)
					returned <- struct{}{}
				}
			}()
		}
		synctest.Wait() // until every caller is done or waits
		if n := len(returned); n == 0 || n >= callers*each {
			t.Errorf("%d calls of %d returned while the disk stood still, want some", n, callers*each)
		}
		if size := l.slab.size(); size < l.bound || size > l.bound+11_000 {
			t.Errorf("%d bytes are held, want %d and at most a row more", size, l.bound)
		}
		<-l.turn // it goes on
		synctest.Wait()
		if n := len(returned); n != callers*each {
			t.Errorf("%d calls of %d returned in the end", n, callers*each)
		}
		if n := len(ids(t, l, query(alice))); n != callers*each {
			t.Errorf("%d rows are found, want %d", n, callers*each)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestFlushGivesUpWaiting(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{})
	l.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Flush: %v, want %v", err, context.Canceled)
	}
	if _, _, err := l.Query(ctx, query(alice)); !errors.Is(err, context.Canceled) {
		t.Errorf("Query: %v, want %v", err, context.Canceled)
	}
	<-l.turn
}

// Callers append and read their own rows at once, while a day that is read is
// dropped and comes back.
func TestTogether(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		const callers, each = 6, 25
		o.After, o.Memory = time.After, 20_000
		l := openLog(t, o)
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				account := fmt.Sprint("account ", i)
				for n := range each {
					l.Append(call(account, fmt.Sprint(n), start.Add(time.Duration(n)*30*time.Minute))) // into the next day
					q := query(account)
					q.RequestIDs = []string{fmt.Sprint(n)}
					records, _, err := l.Query(t.Context(), q)
					if err != nil || len(records) != 1 {
						t.Errorf("%s did not find its call %d: %d records, %v", account, n, len(records), err)
					}
				}
				if n := len(ids(t, l, query(account))); n != each {
					t.Errorf("%s found %d calls, want %d", account, n, each)
				}
			})
		}
		group.Go(func() {
			for range each {
				l.Append(call("old", "old", start.AddDate(0, 0, -1)))
				if err := l.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				if err := l.DropBefore(start); err != nil {
					t.Error(err)
				}
			}
		})
		group.Wait()
		if f := l.days.file(dayOf(start.UnixMilli())); f.busy != 0 {
			t.Errorf("%d readers were not given back", f.busy)
		}
		for _, r := range l.days.idle {
			if l.days.files[r.file.day] != r.file {
				t.Errorf("a reader of %s is kept, and the file was dropped", r.file.day)
			}
		}
	})
}

// A query whose caller went away ends, and its connection serves the next one.
func TestAQueryIsInterrupted(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{Dir: t.TempDir()})
	l.Append(call(alice, "0", start))
	ids(t, l, query(alice))
	f := l.days.file(dayOf(start.UnixMilli()))
	ctx, cancel := context.WithCancel(t.Context())
	err := l.read(ctx, f, func(conn *sqlite.Conn) error {
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
	if n := len(l.days.idle); n != 1 {
		t.Errorf("%d readers are open, want the same one again", n)
	}
}

// Around midnight the rows of two days come mixed.
func TestMidnight(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{Dir: t.TempDir()})
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for i, offset := range []time.Duration{-2, 1, -1, 0, 2, -3} {
		l.Append(call(alice, fmt.Sprint(i), midnight.Add(offset*time.Millisecond)))
	}
	if got := strings.Join(ids(t, l, query(alice)), ""); got != "502314" {
		t.Errorf("got %s, want 502314", got)
	}
	if names := glob(t, l.days.dir, "*.db"); !slices.Equal(names, []string{"2026-11-20.db", "2026-11-21.db"}) {
		t.Errorf("the files are %q", names)
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
	f := l.days.file(dayOf(start.UnixMilli()))
	var group, reading sync.WaitGroup
	reading.Add(2)
	for range 2 {
		group.Go(func() {
			err := l.read(t.Context(), f, func(*sqlite.Conn) error {
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
	if err := sqlitex.Execute(l.days.file(dayOf(start.UnixMilli())).writer, "PRAGMA max_page_count = 8", nil); err != nil {
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

func TestDayOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		milli int64
		want  string
	}{
		{0, "1970-01-01"}, {dayMillis - 1, "1970-01-01"}, {dayMillis, "1970-01-02"},
		{-1, "1969-12-31"}, {-dayMillis, "1969-12-31"}, {-dayMillis - 1, "1969-12-30"},
	} {
		if got := dayOf(test.milli).String(); got != test.want {
			t.Errorf("dayOf(%d) is %s, want %s", test.milli, got, test.want)
		}
	}
}

// What cannot be written is lost and told, and the log goes on.
func TestRowsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	l := openLog(t, Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&told, nil))})
	inTheWay := filepath.Join(l.days.dir, "2026-11-20.db")
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
