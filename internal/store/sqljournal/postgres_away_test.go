package sqljournal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

// cable is the way to a database, which can be cut. What is done to it is done
// to the connections it has and to those to come.
type cable struct {
	listener net.Listener
	network  string
	address  string

	mu    sync.Mutex // guards what follows
	cut   cut
	ended func() // called once, when the cable has cut or swallowed something
	conns map[net.Conn]bool
}

// cut is what a cable does to what comes.
type cut int

const (
	whole     cut = iota
	asking        // cuts before a question goes through
	answering     // lets a commit go through, and cuts before its answer does
	silent        // lets nothing through, and does not cut
	torn          // cuts all connections, and those to come
)

// cancelRequest begins the message by which a client that has lost a connection
// asks for its work to be stopped. It is lost, too.
var cancelRequest = []byte{0, 0, 0, 16, 4, 210, 22, 46}

// lay puts a cable before the database, and answers the URL through it.
func lay(t *testing.T, address string) (*cable, string) {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{conns: map[net.Conn]bool{}, network: "tcp", address: fmt.Sprintf("%s:%d", config.Host, config.Port)}
	if strings.HasPrefix(config.Host, "/") {
		c.network, c.address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	}
	if c.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.listener.Close()
		c.set(torn, nil)
	})
	go c.serve()
	u, err := url.Parse(with(t, address, "sslmode", "disable"))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Del("host")
	u.RawQuery = q.Encode()
	u.Host = c.listener.Addr().String()
	return c, u.String()
}

func (c *cable) set(to cut, ended func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.ended = to, ended
	if to == torn {
		for conn := range c.conns {
			conn.Close()
		}
	}
}

func (c *cable) serve() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(c.network, c.address)
		if err != nil || !c.take(client, server) {
			client.Close()
			continue
		}
		go c.carry(server, client, asking)
		go c.carry(client, server, answering)
	}
}

func (c *cable) take(client, server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == torn {
		server.Close()
		return false
	}
	c.conns[client], c.conns[server] = true, true
	return true
}

// carry carries what comes from one end to the other.
func (c *cable) carry(to, from net.Conn, direction cut) {
	defer to.Close()
	defer from.Close()
	piece := make([]byte, 1<<16)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		switch c.decide(piece[:n], direction) {
		case whole:
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		case silent:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
			return
		}
	}
}

func (c *cable) decide(piece []byte, direction cut) cut {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case bytes.HasPrefix(piece, cancelRequest):
		return torn
	case c.cut == silent:
		if c.ended != nil {
			c.ended()
			c.ended = nil
		}
		return silent
	case c.cut == torn:
		return torn
	case c.cut != direction, direction == answering && !bytes.Contains(piece, []byte("COMMIT\x00")):
		return whole
	}
	if c.cut = whole; c.ended != nil {
		c.ended()
	}
	return torn
}

// pausing is a clock whose pauses are over when the test says so. Its patience
// is the machine's.
type pausing struct {
	patience time.Duration
	begun    chan struct{}
	over     chan time.Time
}

func newPausing(patience time.Duration) *pausing {
	return &pausing{patience: patience, begun: make(chan struct{}, 1000), over: make(chan time.Time)}
}

func (p *pausing) after(d time.Duration) <-chan time.Time {
	if d == p.patience {
		return time.After(d)
	}
	p.begun <- struct{}{}
	return p.over
}

// A commit whose answer was lost is looked up, however far others went on.
func TestPostgresLostCommits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		lose   cut
		others int // commits that others make to the account meanwhile
		made   bool
	}{
		{name: "before it began", lose: asking},
		{name: "before its answer", lose: answering, made: true},
		{name: "before it began, and others went on", lose: asking, others: 50},
		{name: "before its answer, and others went on", lose: answering, others: 50, made: true},
	} {
		for _, before := range []uint64{0, 1} {
			t.Run(fmt.Sprintf("%s, at version %d", c.name, before), func(t *testing.T) {
				t.Parallel()
				base := postgrestest.Start(t)
				other := openPostgres(t, base)
				for range before {
					if err := count(t, other); err != nil {
						t.Fatal(err)
					}
				}
				clock := newPausing(time.Minute)
				way, url := lay(t, base)
				j := openPostgres(t, url, After(clock.after))
				for range cap(j.writers) {
					// All have made commits before.
					if err := j.Commit(t.Context(), []store.Batch{{Account: "two", Version: 1}}); err != nil {
						t.Fatal(err)
					}
				}
				tx, err := j.Lock(t.Context(), []string{"one"})
				if err != nil {
					t.Fatal(err)
				}
				way.set(c.lose, func() { way.cut = torn })
				done := make(chan error)
				go func() { done <- tx.Commit(t.Context(), batchTest(before+1, `{"mine":true}`)) }()

				// It looks for what became of it, and is kept from the database.
				<-clock.begun
				for range c.others {
					if err := count(t, other); err != nil {
						t.Fatal(err)
					}
				}
				way.set(whole, nil)
				close(clock.over)
				err = <-done
				if c.made && err != nil || !c.made && !errors.Is(err, store.ErrAgain) {
					t.Errorf("it was made: %t, and answered %v", c.made, err)
				}
				if is := ask[int](t, base, `SELECT count(*) FROM resource WHERE doc = '{"mine":true}'`) == 1; is != c.made {
					t.Errorf("it was made: %t, want %t", is, c.made)
				}
				if len(j.writers) != cap(j.writers) {
					t.Errorf("%d of %d writers are left", len(j.writers), cap(j.writers))
				}
			})
		}
	}
}

// count commits the next version of the account, whatever it is.
func count(t *testing.T, j *Postgres) error {
	t.Helper()
	tx, err := j.Lock(t.Context(), []string{"one"})
	if err != nil {
		return err
	}
	version := tx.Versions()["one"] + 1
	return tx.Commit(t.Context(), []store.Batch{{Account: "one", Version: version, Rows: []store.Row{
		{Kind: "box", ID: fmt.Sprint("count ", version), Version: version, Seq: version, Doc: []byte(`{}`)},
	}}})
}

// While the server still works on a commit, nobody says that it was not made.
func TestPostgresLostCommitUnderWay(t *testing.T) {
	t.Parallel()
	base := postgrestest.Start(t)
	way, url := lay(t, with(t, base, "application_name", t.Name()))
	end, done := slowCommit(t, base, url, t.Context())
	way.set(torn, nil)
	way.set(whole, nil)
	// It waits for its account now, which the commit under way holds.
	waiting(t, base, t.Name(), 2)
	end()
	err := <-done
	is := ask[int](t, base, `SELECT count(*) FROM resource WHERE doc = '{"mine":true}'`) == 1
	if is && err != nil || !is && !errors.Is(err, store.ErrAgain) {
		t.Errorf("the commit was made: %t, and answered %v", is, err)
	}
}

// A commit that has begun is carried through, though its caller has gone.
func TestPostgresCommitIsCarriedThrough(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	end, done := slowCommit(t, url, with(t, url, "application_name", t.Name()), ctx)
	cancel()
	end()
	if err := <-done; err != nil {
		t.Errorf("it answered %v", err)
	}
	if n := ask[int](t, url, `SELECT count(*) FROM resource WHERE doc = '{"mine":true}'`); n != 1 {
		t.Errorf("it has written %d rows, want 1", n)
	}
}

// A journal that is told to commit, and not to lock, does it again by itself.
func TestPostgresCommitsAgain(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	j := openPostgres(t, with(t, url, "application_name", t.Name()))
	if err := j.Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Fatal(err)
	}
	end := hold(t, url, "SELECT FROM resource FOR UPDATE")
	done := make(chan error)
	go func() { done <- j.Commit(t.Context(), batchTest(1, `{"mine":true}`)) }()
	waiting(t, url, t.Name(), 1)
	killBackends(t, url, t.Name())
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := ask[int](t, url, `SELECT count(*) FROM resource WHERE doc = '{"mine":true}'`); n != 1 {
		t.Errorf("it has written %d rows, want 1", n)
	}
}

// slowCommit begins a commit that waits for somebody else to end: they hold the
// row that it writes to.
func slowCommit(t *testing.T, base, url string, ctx context.Context) (end func(...string), done chan error) {
	t.Helper()
	j := openPostgres(t, url)
	if err := j.Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Fatal(err)
	}
	end = hold(t, base, "SELECT FROM resource FOR UPDATE")
	tx, err := j.Lock(t.Context(), []string{"one"})
	if err != nil {
		t.Fatal(err)
	}
	done = make(chan error, 1)
	go func() { done <- tx.Commit(ctx, batchTest(1, `{"mine":true}`)) }()
	waiting(t, base, t.Name(), 1)
	return end, done
}

// A database that only reads, as a standby does, may be behind: nobody asks it.
func TestPostgresDoesNotAskAStandby(t *testing.T) {
	t.Parallel()
	base := postgrestest.Start(t)
	openPostgres(t, base)
	role, schema := newRole(t, base), ask[string](t, base, "SELECT current_schema()::text")
	postgrestest.Exec(t, base, "GRANT USAGE ON SCHEMA "+schema+" TO "+role, "GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO "+role)
	clock := newPausing(time.Minute)
	j := openPostgres(t, with(t, as(t, base, role), "application_name", t.Name()), After(clock.after))
	postgrestest.Exec(t, base, "ALTER ROLE "+role+" SET default_transaction_read_only = on")
	killBackends(t, base, t.Name())
	done := make(chan error)
	go func() {
		_, err := j.Versions(t.Context(), []string{"one"})
		done <- err
	}()
	for range 3 {
		select {
		case <-clock.begun:
			clock.over <- time.Time{}
		case err := <-done:
			t.Fatalf("it was asked, and answered %v", err)
		}
	}
	postgrestest.Exec(t, base, "ALTER ROLE "+role+" RESET default_transaction_read_only")
	close(clock.over)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// killBackends ends all connections of a program's name.
func killBackends(t *testing.T, url, name string) {
	t.Helper()
	if ended := ask[int](t, url, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '"+name+
		"'"); ended == 0 {
		t.Error("there was no connection to end")
	}
}

func TestPostgresKilledBackends(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	j := openPostgres(t, with(t, url, "application_name", t.Name()))
	kill := func() { killBackends(t, url, t.Name()) }

	tx, err := j.Lock(t.Context(), []string{"one"})
	if err != nil {
		t.Fatal(err)
	}
	kill()
	if err := tx.Commit(t.Context(), batchTest(1, `{}`)); !errors.Is(err, store.ErrAgain) {
		t.Errorf("a commit without its connection answered %v", err)
	}
	if tx, err = j.Lock(t.Context(), []string{"one"}); err != nil {
		t.Fatal(err)
	}
	kill()
	if _, err := tx.Since(t.Context(), "one", 0, func(store.Row) error { return nil }); !errors.Is(err, store.ErrAgain) {
		t.Errorf("a transaction without its connection answered %v", err)
	}
	tx.Rollback(t.Context())
	if err := j.Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Error(err)
	}
	for range 3 {
		kill()
		versions, err := j.Versions(t.Context(), []string{"one"})
		if err != nil || versions["one"] != 1 {
			t.Errorf("the version is %d (%v), want 1", versions["one"], err)
		}
	}
}

// Connections are killed while many count. What was answered is there, once.
func TestPostgresCountsWhileKilled(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	const writers, each = 6, 40
	name := "to be killed " + t.Name()
	killer, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer killer.Close(context.Background())
	var wg sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		j := openPostgres(t, with(t, url, "application_name", name))
		wg.Go(func() {
			for i := 0; i < each; {
				tx, err := j.Lock(t.Context(), []string{"one"})
				if err != nil {
					t.Error(err)
					return
				}
				n := tx.Versions()["one"] + 1
				err = tx.Commit(t.Context(), []store.Batch{{Account: "one", Version: n, Rows: []store.Row{
					{Kind: "box", ID: fmt.Sprintf("%d-%d", w, i), Version: n, Seq: n, Doc: []byte(`{}`)},
				}}})
				switch {
				case err == nil:
					i++
				case !errors.Is(err, store.ErrAgain):
					t.Error(err)
					return
				}
			}
		})
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	kills := 0
	for ; ; kills++ {
		_, err := killer.Exec(t.Context(), "SELECT pg_sleep(0.02), pg_terminate_backend((SELECT pid FROM pg_stat_activity WHERE "+
			"application_name = $1 ORDER BY random() LIMIT 1))", name)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		default:
			continue
		}
		break
	}
	t.Logf("%d connections were killed", kills)
	if n := ask[int](t, url, "SELECT count(*) FROM resource"); n != writers*each {
		t.Errorf("%d rows are there, want %d", n, writers*each)
	}
	if version := ask[int](t, url, "SELECT version FROM account"); version != writers*each {
		t.Errorf("%d commits were made, want %d", version, writers*each)
	}
}

// A database that is away is waited for, and nothing needs a restart.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	clock := newPausing(time.Minute)
	var told lines
	j := openPostgres(t, server.URL(), After(clock.after), PostgresLog(slog.New(slog.NewTextHandler(&told, nil))))
	if err := j.Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Fatal(err)
	}
	tx, err := j.Lock(t.Context(), []string{"two"})
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()

	calls := map[string]func() error{
		"Versions": func() error {
			versions, err := j.Versions(t.Context(), []string{"one"})
			if err == nil && versions["one"] != 1 {
				err = fmt.Errorf("one is at version %d", versions["one"])
			}
			return err
		},
		"Since": func() error {
			version, err := j.Since(t.Context(), "one", 0, func(store.Row) error { return nil })
			if err == nil && version != 1 {
				err = fmt.Errorf("one is at version %d", version)
			}
			return err
		},
		"Load": func() error {
			_, err := j.Load(t.Context(), "one", func(store.Row) error { return nil })
			return err
		},
		"Unsettled": func() error {
			_, err := j.Pending(t.Context())
			return err
		},
		"Lock": func() error {
			tx, err := j.Lock(t.Context(), []string{"one"})
			if err == nil {
				tx.Rollback(t.Context())
			}
			return err
		},
		"Journal.Commit": func() error {
			return j.Commit(t.Context(), []store.Batch{{Account: "three", Version: 1}})
		},
		"Locked.Commit": func() error {
			err := tx.Commit(t.Context(), []store.Batch{{Account: "two", Version: 1}})
			if !errors.Is(err, store.ErrAgain) {
				return fmt.Errorf("it answered %w", err)
			}
			return nil
		},
	}
	var wg sync.WaitGroup
	for name, call := range calls {
		wg.Go(func() {
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		if _, err := j.Versions(ctx, []string{"one"}); !errors.Is(err, context.Canceled) {
			t.Errorf("a question that was canceled meanwhile answered %v", err)
		}
	})
	for range len(calls) + 1 {
		<-clock.begun
	}
	cancel()
	server.Start(t)
	close(clock.over)
	wg.Wait()
	for _, want := range []string{"level=WARN", "is away", "level=INFO", "is back", "postgres"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("the operator is told\n%s, want %q", &told, want)
		}
	}
}

// lines is a text that several write.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A database that stays away is an error in the end.
func TestPostgresStaysAway(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]cut{"torn": torn, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way, url := lay(t, postgrestest.Start(t))
			clock := newImpatient()
			j := openPostgres(t, strings.Replace(url, "@", ":"+secret+"@", 1), After(clock.after), Patience(time.Hour))
			swallowed := make(chan struct{}, 1)
			way.set(how, func() { swallowed <- struct{}{} })
			done := make(chan error)
			go func() {
				_, err := j.Versions(t.Context(), []string{"one"})
				done <- err
			}()
			if how == silent {
				<-swallowed
			} else {
				var pauses []time.Duration
				for range 30 {
					pauses = append(pauses, <-clock.pauses)
				}
				if !growing(pauses) {
					t.Errorf("the pauses are %v, want that they grow up to a bound", pauses)
				}
			}
			close(clock.over)
			err := <-done
			contains(t, err, "1h0m0s", `the database "postgres" on 127.0.0.1`)
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error %q has the password", err)
			}
		})
	}
}

// Nobody guesses what became of a commit when the database stays away.
func TestPostgresStaysAwayFromACommit(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]cut{"torn": torn, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way, url := lay(t, postgrestest.Start(t))
			clock := newImpatient()
			j := openPostgres(t, url, After(clock.after), Patience(time.Hour))
			tx, err := j.Lock(t.Context(), []string{"one"})
			if err != nil {
				t.Fatal(err)
			}
			swallowed := make(chan struct{}, 1)
			way.set(how, func() { swallowed <- struct{}{} })
			done := make(chan error)
			go func() { done <- tx.Commit(t.Context(), batchTest(1, `{}`)) }()
			if how == silent {
				<-swallowed
			} else {
				<-clock.pauses
			}
			close(clock.over)
			err = <-done
			contains(t, err, "unknown", "1h0m0s")
			if errors.Is(err, store.ErrAgain) || !errors.Is(err, store.ErrUnknown) {
				t.Errorf("it is unknown whether it was made, and it answered %v", err)
			}
			if len(j.writers) != cap(j.writers) || len(j.waiting) != 0 {
				t.Errorf("%d of %d writers are left, and %d places are taken", len(j.writers), cap(j.writers), len(j.waiting))
			}
		})
	}
}

// A commit that the primary has made and no standby has confirmed is not answered
// as made: a failover would lose it.
func TestPostgresWithoutItsStandby(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	j := openPostgres(t, server.URL(), Patience(2*time.Second))
	if err := j.Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Fatal(err)
	}
	standby := func(name string) {
		t.Helper()
		postgrestest.Exec(t, server.URL(), "ALTER SYSTEM SET synchronous_standby_names = '"+name+"'", "SELECT pg_reload_conf()")
		for ask[string](t, server.URL(), "SELECT current_setting('synchronous_standby_names') FROM pg_sleep(0.01)") != name {
		}
	}
	standby("absent")
	if err := count(t, j); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("without the standby a commit answered %v, want that its outcome is unknown", err)
	}
	if n := ask[int](t, server.URL(), "SELECT count(*) FROM resource"); n != 2 {
		t.Errorf("the primary has %d rows, want 2: then nothing is proven", n)
	}
	standby("")
	if err := count(t, j); err != nil {
		t.Errorf("when none is wanted any more a commit answered %v", err)
	}
	if len(j.writers) != cap(j.writers) {
		t.Errorf("%d of %d writers are left", len(j.writers), cap(j.writers))
	}
}

// impatient is a clock whose patience, an hour, is over when the test says so.
// Its pauses take no time until then.
type impatient struct {
	over   chan time.Time
	pauses chan time.Duration
}

func newImpatient() *impatient {
	return &impatient{make(chan time.Time), make(chan time.Duration)}
}

func (i *impatient) after(d time.Duration) <-chan time.Time {
	if d == time.Hour {
		return i.over
	}
	select {
	case i.pauses <- d:
	case <-i.over:
	}
	now := make(chan time.Time)
	close(now)
	return now
}

// growing reports whether each pause is as long as it should be, give or take
// random, and random plays its part.
func growing(pauses []time.Duration) bool {
	want, varied := firstPause, false
	for _, p := range pauses {
		if p < want || p > want*3/2 {
			return false
		}
		varied = varied || p != want
		want = min(2*want, longestPause)
	}
	return varied && pauses[len(pauses)-1] >= longestPause
}

// What nodes leave behind that are no more is removed in the end.
func TestPostgresBuriesDeadWriters(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	j := openPostgres(t, url)
	for range cap(j.writers) {
		if err := count(t, j); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int { return ask[int](t, url, "SELECT count(*) FROM writer") }
	living := left()
	postgrestest.Exec(t, url, "INSERT INTO writer (id, commits, at) VALUES (1, 1, now() - INTERVAL '25 hours')")
	openPostgres(t, url)
	if got := left(); got != living || living == 0 {
		t.Errorf("%d writers are left, want the living %d", got, living)
	}
}

func TestPostgresWithoutChance(t *testing.T) {
	t.Parallel()
	_, err := OpenPostgres(t.Context(), postgrestest.Start(t), After(time.After), Rand(strings.NewReader("short")))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without chance the journal answers %v", err)
	}
}
