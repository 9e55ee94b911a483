package apilog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
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

// everyStorage runs a test on files, in memory and on PostgreSQL.
func everyStorage(t *testing.T, test func(t *testing.T, o Options)) {
	for _, storage := range []struct {
		name    string
		options func(t *testing.T) Options
	}{
		{"files", func(t *testing.T) Options { return Options{Dir: filepath.Join(t.TempDir(), "log")} }},
		{"memory", func(t *testing.T) Options { return Options{} }},
		{"postgres", func(t *testing.T) Options { return Options{Postgres: connect(t, postgrestest.Start(t))} }},
	} {
		t.Run(storage.name, func(t *testing.T) {
			t.Parallel()
			test(t, storage.options(t))
		})
	}
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
			Decision: "allowed by Statement[0] of a policy",
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
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
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
	})
}

func TestAccountsAreApart(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
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
	})
}

// However a walk and new calls interleave, the walk meets the rows that were
// there when it began, and later ones with later dates, once and in order.
func TestPagesAreStable(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
		walks := 0
		rapid.Check(t, func(rt *rapid.T) {
			walks++
			account := fmt.Sprint("account ", walks)
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
					l.Append(call(account, r.id, r.date))
					l.Append(call(bob, r.id, r.date))
					if date.After(latest) {
						latest = date
					}
				}
			}
			appendRows("rows at first", start)

			q := query(account)
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
	})
}

// A call that took long is appended with a date that a walk has passed. It
// must not make the walk meet a row twice.
func TestALateRowShiftsNoPage(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
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
	})
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
		if o.Postgres != nil {
			names := tablesIn(t, o.Postgres)
			if len(names) != 34 || names[0] != "api_log_20261121" || names[33] != "api_log_20261224" {
				t.Errorf("there are the tables %q, want 33 from api_log_20261121 on and the one of tomorrow", names)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			now = now.AddDate(0, 0, 30)
			openLog(t, o)
			if names := tablesIn(t, o.Postgres); len(names) != 4 {
				t.Errorf("30 days later there are %q, want 4 tables", names)
			}
			return
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
		for _, f := range filesOf(l).files {
			if f.writer != nil {
				writers++
			}
		}
		if readers := len(filesOf(l).idle); writers > 2 || readers > idleReaders {
			t.Errorf("%d files are open to write and %d to read, want at most 2 and %d", writers, readers, idleReaders)
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
	everyStorage(t, func(t *testing.T, o Options) {
		if o.Dir == "" && o.Postgres == nil {
			return // what is in memory ends with Close
		}
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
		if o.Dir == "" {
			return
		}
		if names := glob(t, o.Dir, "*.db"); !slices.Equal(names, []string{"2026-11-20.db"}) {
			t.Errorf("the files are %q", names)
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
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
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
	})
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
		files, ok := l.days.(*files)
		if !ok {
			if n := o.Postgres.Stat().AcquiredConns(); n != 0 {
				t.Errorf("%d connections were not given back", n)
			}
			return
		}
		if f := files.file(dayOf(start.UnixMilli())); f.busy != 0 {
			t.Errorf("%d readers were not given back", f.busy)
		}
		for _, r := range files.idle {
			if files.files[r.file.day] != r.file {
				t.Errorf("a reader of %s is kept, and the file was dropped", r.file.day)
			}
		}
	})
}

// Around midnight the rows of two days come mixed.
func TestMidnight(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
		midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		for i, offset := range []time.Duration{-2, 1, -1, 0, 2, -3} {
			l.Append(call(alice, fmt.Sprint(i), midnight.Add(offset*time.Millisecond)))
		}
		if got := strings.Join(ids(t, l, query(alice)), ""); got != "502314" {
			t.Errorf("got %s, want 502314", got)
		}
		days, err := l.days.between(t.Context(), dayOf(start.UnixMilli()), dayOf(midnight.UnixMilli()))
		if got := fmt.Sprint(days); got != "[2026-11-20 2026-11-21]" || err != nil {
			t.Errorf("the days are %s, %v", got, err)
		}
	})
}

// Whatever a stranger sends, the rows beside it are kept.
func TestStrangeTexts(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		// What is random is not made shorter by a database that compresses.
		var long strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&long, "%x", sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
		}
		var want []Record
		for i, text := range []string{"", string(all), long.String(), "usual"} {
			r := Record{
				AccountID: alice, AccessKey: text, Action: text, API: text, Version: text, IP: text, UserAgent: text,
				RequestID: fmt.Sprint(i, text), Date: start.Add(time.Duration(i) * time.Second), HeaderRaw: text, PayloadRaw: text,
			}
			l.Append(&r)
			for _, name := range []*string{&r.AccessKey, &r.Action, &r.API, &r.IP, &r.RequestID} {
				*name = (*name)[:min(len(*name), maxName)]
			}
			want = append(want, r)
		}
		got, _, err := l.Query(t.Context(), query(alice))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Query: %v, records (-want +got):\n%s", err, diff)
		}
		if o.Postgres == nil {
			return // a set is JSON there, which has no such bytes
		}
		q := query(alice)
		q.UserAgents = []string{string(all)}
		if got := ids(t, l, q); len(got) != 1 {
			t.Errorf("%d rows have the user agent of all bytes, want 1", len(got))
		}
	})
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

// A page ends before the record that makes it larger than it may be, and has
// one record at least.
func TestPagesEndByBytes(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		l := openLog(t, o)
		for i, size := range []int{30, 40, 30, 1, 500, 100} {
			r := call(alice, fmt.Sprint(i), start.Add(time.Duration(i)*20*time.Hour)) // on three days
			r.PayloadRaw = strings.Repeat("x", size)
			l.Append(r)
		}
		q := query(alice)
		q.After, q.Bytes, q.Size = start.AddDate(0, 0, -1), 100, func(r *Record) int { return len(r.PayloadRaw) }
		for i, want := range [][]string{{"0", "1", "2"}, {"3"}, {"4"}, {"5"}} {
			records, next, err := l.Query(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if got := idsOf(records); !slices.Equal(got, want) || (next == nil) != (i == 3) {
				t.Fatalf("page %d has %q, more: %v; want %q", i+1, got, next, want)
			}
			q.From = next
		}
	})
}
