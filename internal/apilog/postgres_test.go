package apilog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

// connect is a node's way to a database.
func connect(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url) // it lives until the test has cleaned up
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// tablesIn are the tables of days there are. The list of days must have the same.
func tablesIn(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	names := func(sql string) []string {
		rows, err := pool.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	made := names(`SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'api\_log\_2%' ORDER BY 1`)
	listed := names(`SELECT 'api_log_' || replace(day, '-', '') FROM api_log_day ORDER BY 1`)
	if diff := cmp.Diff(listed, made); diff != "" {
		t.Errorf("the tables are not those of the list (-list +tables):\n%s", diff)
	}
	return made
}

// time that a test has in its hands: a log flushes, loses patience and goes on
// after a pause when the test says so.
type hourglass struct {
	flush    chan time.Time
	patience chan time.Time
	last     chan time.Time
	paused   chan struct{} // a pause began
	goOn     chan time.Time
}

func newHourglass() *hourglass {
	return &hourglass{
		flush: make(chan time.Time), patience: make(chan time.Time), last: make(chan time.Time),
		paused: make(chan struct{}, 1), goOn: make(chan time.Time),
	}
}

const patience = 10 * time.Minute

func (h *hourglass) after(d time.Duration) <-chan time.Time {
	switch d {
	case 100 * time.Millisecond:
		return h.flush
	case patience:
		return h.patience
	case closePatience:
		return h.last
	}
	signal(h.paused)
	return h.goOn
}

// without lets every pause end at once, and nothing else.
func (h *hourglass) without() *hourglass {
	close(h.goOn)
	return h
}

func TestNodesBeginTogether(t *testing.T) {
	t.Parallel()
	const nodes, rows = 8, 20
	url := postgrestest.Start(t)
	logs := make([]*Archive, nodes)
	var told bytes.Buffer
	log := slog.New(slog.NewTextHandler(&told, nil))
	together := func(do func(node int)) {
		var group sync.WaitGroup
		for node := range nodes {
			group.Go(func() { do(node) })
		}
		group.Wait()
	}
	together(func(node int) {
		var err error
		logs[node], err = Open(Options{
			Postgres: connect(t, url), Now: func() time.Time { return start }, After: newHourglass().without().after, Patience: patience, Log: log,
		})
		if err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	for _, l := range logs {
		t.Cleanup(func() { _ = l.Close() })
	}
	// Each day is new to all of them, or made by one just now.
	var want []string
	for day := range 5 {
		together(func(node int) {
			for n := range rows {
				logs[node].Append(call(alice, fmt.Sprintf("%d-%d-%d", day, node, n), start.AddDate(0, 0, day)))
			}
			if err := logs[node].Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
		for node := range nodes {
			for n := range rows {
				want = append(want, fmt.Sprintf("%d-%d-%d", day, node, n))
			}
		}
	}
	slices.Sort(want)
	first := ids(t, logs[0], query(alice))
	for node, l := range logs {
		got := ids(t, l, query(alice))
		if !slices.Equal(got, first) {
			t.Errorf("node %d has the rows in another order than node 0", node)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("node %d (-want +got):\n%s", node, diff)
		}
	}
	together(func(node int) {
		if err := logs[node].DropBefore(start.AddDate(0, 0, 3)); err != nil {
			t.Error(err)
		}
	})
	if names := tablesIn(t, logs[0].days.(*tables).pool); !slices.Equal(names,
		[]string{"api_log_20261123", "api_log_20261124", "api_log_20261125"}) {
		t.Errorf("the tables are %q", names)
	}
	if told.Len() > 0 {
		t.Errorf("the operator was told %s", told.String())
	}
}

// A node sees what another one appended as soon as that has flushed, and pages
// may be asked of one node and another.
func TestNodesSeeEachOther(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	h := newHourglass()
	one := openLog(t, Options{Postgres: connect(t, url), After: h.after})
	two := openLog(t, Options{Postgres: connect(t, url)})
	one.Append(call(alice, "0", start))
	if got := ids(t, two, query(alice)); len(got) != 0 {
		t.Errorf("before the flush the other node found %q", got)
	}
	h.flush <- time.Time{}
	for len(ids(t, two, query(alice))) == 0 && t.Context().Err() == nil {
	}

	nodes := []*Archive{one, two}
	q := query(alice)
	q.Limit = 2
	var got []string
	for n := 1; ; n++ {
		node := nodes[n%2]
		if n <= 6 { // of the same date as all, so their order is that of their flushes
			node.Append(call(alice, fmt.Sprint(2*n-1), start))
			node.Append(call(alice, fmt.Sprint(2*n), start))
			if err := node.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		records, next, err := nodes[(n+1)%2].Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, idsOf(records)...)
		if next == nil {
			break
		}
		q.From = next
	}
	if want := "0 1 2 3 4 5 6 7 8 9 10 11 12"; strings.Join(got, " ") != want {
		t.Errorf("the walk over two nodes met %q, want %s", got, want)
	}
}

// One node forgets a day that another one reads and writes.
func TestAnotherNodeDropsADay(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	one := openLog(t, Options{Postgres: connect(t, url)})
	two := openLog(t, Options{Postgres: connect(t, url)})
	for n := range 3 {
		one.Append(call(alice, fmt.Sprint(n), start))
		if got := ids(t, one, query(alice)); !slices.Equal(got, []string{fmt.Sprint(n)}) {
			t.Errorf("the rows are %q, want %d", got, n)
		}
		if err := two.DropBefore(start.AddDate(0, 0, 1)); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, one, query(alice)); len(got) != 0 {
			t.Errorf("the rows of a day that was dropped are %q", got)
		}
	}
	p := page{limit: 1}
	q := query(alice)
	if err := one.days.find(t.Context(), dayOf(start.UnixMilli()), &search{Query: &q}, &p); err != nil || len(p.records) > 0 {
		t.Errorf("a day that was dropped after it was listed has %d rows, %v", len(p.records), err)
	}
}

// Whoever reads an old day for long does not stop the rows of today.
func TestADayThatIsReadIsDroppedLater(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	now := start
	pool := connect(t, postgrestest.Start(t))
	l := openLog(t, Options{Postgres: pool, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&told, nil))})
	l.Append(call(alice, "old", now))
	ids(t, l, query(alice))
	reader, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(t.Context(), "SELECT * FROM api_log_20261120"); err != nil {
		t.Fatal(err)
	}
	has := func(when, want string) {
		t.Helper()
		l.Append(call(alice, when, now))
		if got := ids(t, l, query(alice)); got[len(got)-1] != when {
			t.Errorf("%s the rows are %q", when, got)
		}
		if names := tablesIn(t, pool); names[0] != want {
			t.Errorf("%s the tables are %q, want the first to be %s", when, names, want)
		}
	}
	now = now.AddDate(0, 0, 34)
	has("while it is read", "api_log_20261120")
	if !strings.Contains(told.String(), "the table api_log_20261120 is being read") {
		t.Errorf("the operator was told %q, want the table that is being read", told.String())
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour - 1)
	has("too early", "api_log_20261120")
	now = now.Add(1)
	has("after an hour", "api_log_20261224")
	if n := strings.Count(told.String(), "level=ERROR"); n != 1 {
		t.Errorf("the operator was told %d times, want once: %s", n, told.String())
	}
}

// fragile is a connection that breaks once, at a commit.
type fragile struct {
	net.Conn
	broken *atomic.Bool // a commit came
	before bool         // it does not even go through
	cut    atomic.Bool
}

func (f *fragile) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("commit\x00")) && !f.broken.Swap(true) {
		f.cut.Store(true)
		if f.before {
			return 0, errors.Join(io.ErrClosedPipe, f.Close())
		}
	}
	return f.Conn.Write(b)
}

func (f *fragile) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.cut.Load() { // what came is the answer
		return 0, errors.Join(io.ErrUnexpectedEOF, f.Close())
	}
	return n, err
}

// Rows are there once, whether a commit is lost or only its answer.
func TestALostCommit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		before bool
	}{{"the commit", true}, {"its answer", false}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config, err := pgxpool.ParseConfig(postgrestest.Start(t))
			if err != nil {
				t.Fatal(err)
			}
			var broken atomic.Bool
			dial := config.ConnConfig.DialFunc
			config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				return &fragile{Conn: conn, broken: &broken, before: test.before}, err
			}
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			l := openLog(t, Options{Postgres: pool, After: newHourglass().without().after, Patience: patience})
			for n := range 10 {
				l.Append(call(alice, fmt.Sprint(n), start))
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			if !broken.Load() {
				t.Error("nothing was lost")
			}
			l.Append(call(alice, "10", start))
			if got := strings.Join(ids(t, l, query(alice)), " "); got != "0 1 2 3 4 5 6 7 8 9 10" {
				t.Errorf("the rows are %s, want 0 to 10 once", got)
			}
		})
	}
}

func TestTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	// The server is one for all, so they take turns.
	away := func(name string, memory int, test func(t *testing.T, l *Archive, h *hourglass, told *bytes.Buffer, back func())) {
		t.Run(name, func(t *testing.T) {
			var told bytes.Buffer
			h := newHourglass()
			l := openLog(t, Options{
				Postgres: connect(t, server.URL()), After: h.after, Patience: patience, Memory: memory,
				Log: slog.New(slog.NewTextHandler(&told, nil)),
			})
			if err := l.DropBefore(start.AddDate(0, 0, 2)); err != nil {
				t.Fatal(err)
			}
			l.Append(call(alice, "before", start))
			ids(t, l, query(alice))
			server.Stop()
			back := sync.OnceFunc(func() {
				server.Start(t)
				h.without()
			})
			defer back()
			test(t, l, h, &told, back)
		})
	}
	found := func(t *testing.T, l *Archive, want ...string) {
		t.Helper()
		if got := ids(t, l, query(alice)); !slices.Equal(got, want) {
			t.Errorf("the rows are %q, want %q", got, want)
		}
	}

	away("for a while", 0, func(t *testing.T, l *Archive, h *hourglass, told *bytes.Buffer, back func()) {
		l.Append(call(alice, "0", start))
		flushed := make(chan error)
		go func() { flushed <- l.Flush(t.Context()) }()
		select {
		case <-h.paused:
		case err := <-flushed:
			t.Fatalf("DBG %T %v", err, err)
		}
		l.Append(call(alice, "1", start))
		back()
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		found(t, l, "before", "0", "1")
		if warned, eased := strings.Count(told.String(), "level=WARN"), strings.Count(told.String(), "can be reached again"); warned != 1 ||
			eased != 1 {
			t.Errorf("the operator was told %s, want once that the database is away and once that it is back", told.String())
		}
	})

	away("for too long", 0, func(t *testing.T, l *Archive, h *hourglass, told *bytes.Buffer, back func()) {
		for n := range 3 {
			l.Append(call(alice, fmt.Sprint(n), start))
		}
		flushed := make(chan error)
		go func() { flushed <- l.Flush(t.Context()) }()
		<-h.paused
		l.Append(call(alice, "after", start))
		h.patience <- time.Time{}
		if err := <-flushed; err == nil || !strings.Contains(err.Error(), "longer than 10m0s") {
			t.Errorf("Flush: %v, want that it took too long", err)
		}
		if !strings.Contains(told.String(), "are lost") || !strings.Contains(told.String(), "rows=3") {
			t.Errorf("the operator was told %s, want that 3 rows are lost", told.String())
		}
		back()
		found(t, l, "before", "after")
	})

	away("when a query comes", 0, func(t *testing.T, l *Archive, h *hourglass, told *bytes.Buffer, back func()) {
		l.Append(call(alice, "0", start))
		ctx, cancel := context.WithCancel(t.Context())
		queried := make(chan error)
		go func() {
			_, _, err := l.Query(ctx, query(alice))
			queried <- err
		}()
		<-h.paused
		cancel() // its caller goes away, and its row stays
		if err := <-queried; !errors.Is(err, context.Canceled) {
			t.Errorf("Query: %v, want %v", err, context.Canceled)
		}
		back()
		found(t, l, "before", "0")
	})

	away("when a query has flushed", 0, func(t *testing.T, l *Archive, h *hourglass, told *bytes.Buffer, back func()) {
		queried := make(chan []string)
		go func() { queried <- ids(t, l, query(alice)) }() // there is nothing to flush
		<-h.paused
		back()
		if got := <-queried; !slices.Equal(got, []string{"before"}) {
			t.Errorf("the rows are %q, want the one before", got)
		}
	})

	away("when the log is closed", 0, func(t *testing.T, l *Archive, h *hourglass, told *bytes.Buffer, back func()) {
		l.Append(call(alice, "0", start))
		l.Append(call(alice, "1", start))
		closed := make(chan error)
		go func() { closed <- l.Close() }()
		<-h.paused
		h.last <- time.Time{}
		if err := <-closed; !errors.Is(err, errClosed) {
			t.Errorf("Close: %v, want what was lost and why", err)
		}
		if !strings.Contains(told.String(), "rows=2") {
			t.Errorf("the operator was told %s, want that 2 rows are lost", told.String())
		}
	})

	away("and calls go on", 300_000, func(t *testing.T, l *Archive, h *hourglass, told *bytes.Buffer, back func()) {
		const callers, each = 4, 40
		r := call(alice, "a", start)
		r.PayloadRaw = strings.Repeat("x", 10_000)
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range each {
					l.Append(r)
				}
			})
		}
		size := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.slab.size()
		}
		full := func() {
			for {
				<-l.full
				if size() >= l.bound { // and it was not the slab before, told of twice
					break
				}
			}
			signal(l.full) // it is for the log
		}
		<-h.paused // the first slab is full, and flushed in vain
		full()     // and so is the next one
		if size := size(); size > l.bound+11_000 {
			t.Errorf("%d bytes are held, want %d and at most a row more", size, l.bound)
		}
		h.patience <- time.Time{}
		full() // and the one after it
		back()
		group.Wait()
		lost := 0
		rows := len(ids(t, l, query(alice))) - 1
		for _, told := range regexp.MustCompile(`rows=(\d+)`).FindAllStringSubmatch(told.String(), -1) {
			n, err := strconv.Atoi(told[1])
			if err != nil {
				t.Fatal(err)
			}
			lost += n
		}
		if lost == 0 || lost+rows != callers*each {
			t.Errorf("%d rows are there and %d were told to be lost, want %d in all", rows, lost, callers*each)
		}
	})
}

func TestDatabasesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		prepare string
		options string
		want    string
	}{
		{"a newer program's", "UPDATE schema_version SET version = 3 WHERE part = 'api log'", "",
			"it was written by a newer program: its schema has version 3, and this program supports 2"},
		{"one to read", "DROP TABLE api_log_day, schema_version", "&default_transaction_read_only=on", "read-only transaction"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Start(t)
			if err := openLog(t, Options{Postgres: connect(t, url)}).Close(); err != nil {
				t.Fatal(err)
			}
			postgrestest.Exec(t, url, test.prepare)
			_, err := Open(Options{
				Postgres: connect(t, url+test.options), Now: time.Now, After: newHourglass().after, Log: slog.New(slog.DiscardHandler),
			})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "API log") {
				t.Errorf("Open: %v, want %q", err, test.want)
			}
		})
	}
	t.Run("one too many", func(t *testing.T) {
		t.Parallel()
		_, err := Open(Options{
			Postgres: connect(t, postgrestest.Start(t)), Dir: t.TempDir(), Now: time.Now, After: newHourglass().after,
			Log: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.Contains(err.Error(), "both were given") {
			t.Errorf("Open: %v, want that both were given", err)
		}
	})
}

// What the database refuses is lost at once, and the log goes on.
func TestRowsThatADatabaseRefuses(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	url := postgrestest.Start(t)
	l := openLog(t, Options{Postgres: connect(t, url), After: newHourglass().after, Patience: patience,
		Log: slog.New(slog.NewTextHandler(&told, nil))})
	postgrestest.Exec(t, url, "ALTER TABLE api_log_day RENAME TO mine")
	l.Append(call(alice, "0", start))
	l.Append(call(alice, "1", start))
	if err := l.Flush(t.Context()); sqlState(err) != undefinedTable {
		t.Errorf("Flush: %v, want that a table is missing", err)
	}
	if !strings.Contains(told.String(), "rows=2") {
		t.Errorf("the operator was told %s, want that 2 rows are lost", told.String())
	}
	postgrestest.Exec(t, url, "ALTER TABLE mine RENAME TO api_log_day")
	l.Append(call(alice, "2", start))
	if got := ids(t, l, query(alice)); !slices.Equal(got, []string{"2"}) {
		t.Errorf("the rows are %q, want 2", got)
	}
}

// A query finds the rows of its page in the index, which has them in order.
func TestAQueryReadsOnlyItsPage(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Start(t))
	l := openLog(t, Options{Postgres: pool})
	for n := range 20_000 {
		r := benchRecord()
		r.AccountID, r.RequestID, r.Date = fmt.Sprint("account ", n%10), fmt.Sprint(n), start.Add(time.Duration(n)*time.Millisecond)
		l.Append(r)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "VACUUM ANALYZE api_log_20261120"); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	// How many rows are thought to pass, and how many pages to be seen by all,
	// is a matter of random and of who else is at the server. Whether the index
	// can give the rows in order is not.
	if _, err := conn.Exec(t.Context(), "SET enable_bitmapscan = off; SET enable_seqscan = off; SET enable_sort = off"); err != nil {
		t.Fatal(err)
	}
	q := query("account 5")
	q.AccessKeys, q.Actions, q.APIs, q.IPs, q.RequestIDs, q.Statuses = []string{"a"}, []string{"b", "c"}, []string{"c"}, []string{"d"},
		[]string{"e"}, []int{1, 2}
	for name, s := range map[string]*search{
		"with all filters": {Query: &q, until: 1 << 60},
		"without any":      {Query: &Query{AccountID: "account 5"}, until: 1 << 60},
	} {
		sql, args := s.postgres(dayOf(start.UnixMilli()), 101)
		rows, err := conn.Query(t.Context(), "EXPLAIN "+sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, "Index Only Scan using api_log_20261120_account_date") || strings.Contains(plan, "Seq Scan") ||
			strings.Contains(plan, "Sort") {
			t.Errorf("%s, the plan is\n%s", name, plan)
		}
	}
}
