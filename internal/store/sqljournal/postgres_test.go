package sqljournal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

func TestPostgres(t *testing.T) {
	storetest.Run(t, setupPostgres)
}

func TestPostgresShared(t *testing.T) {
	storetest.RunShared(t, setupPostgres)
}

func setupPostgres(t *testing.T) storetest.Opener {
	url := postgrestest.Start(t)
	return func() (store.Journal, error) {
		return OpenPostgres(context.Background(), url, After(time.After), Rand(rand.Reader))
	}
}

func openPostgres(t *testing.T, url string, opts ...PostgresOption) *Postgres {
	t.Helper()
	j, err := OpenPostgres(t.Context(), url, append([]PostgresOption{After(time.After), Rand(rand.Reader)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// refused is the error of a database that is not opened. It never has the
// password of these tests.
func refused(t *testing.T, url string, words ...string) {
	t.Helper()
	j, err := OpenPostgres(t.Context(), url, After(time.After), Rand(rand.Reader))
	if err == nil {
		j.Close()
	}
	contains(t, err, words...)
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error %q has the password", err)
	}
}

const secret = "s3cr3t"

// with answers the URL with other parameters.
func with(t *testing.T, address string, parameters ...string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(parameters); i += 2 {
		q.Set(parameters[i], parameters[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// ask asks the database something on a connection of its own.
func ask[T any](t *testing.T, url, question string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	return answer
}

func TestPostgresURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, url string
		words     []string
	}{
		{"of something else", "mysql://bastide:" + secret + "@db/bastide", []string{"not understood", "postgres://"}},
		{"in the other form", "host=db password=" + secret, []string{"not understood"}},
		{"with a # in the password", "postgres://bastide:" + secret + "#/x@db/bastide", []string{"not understood", "%XX"}},
		{"with a port that is none", "postgres://bastide:" + secret + "@db:0/bastide", []string{"db:0", "cannot be used"}},
		{"with a mode that is none", "postgres://bastide:" + secret + "@db/bastide?sslmode=" + secret, nil},
		{"with a file that is not there", "postgres://bastide:" + secret + "@db/bastide?sslmode=verify-full&sslrootcert=/no/such",
			[]string{"db", "/no/such"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.url, c.words...)
		})
	}
}

func TestPostgresThatIsNotThere(t *testing.T) {
	t.Parallel()
	refused(t, "postgres://bastide:"+secret+"@127.0.0.1:1/region", `"region"`, "127.0.0.1:1", "cannot be reached", "refused")
	refused(t, "postgres://bastide:"+secret+"@127.0.0.1:1,127.0.0.1:2/region", "127.0.0.1:1, 127.0.0.1:2", "cannot be reached")
	refused(t, "postgres://bastide:"+secret+"@/region?host=/no/such", `"region"`, "/no/such:5432", "cannot be reached")

	base := postgrestest.Start(t)
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/nothing"
	u.User = url.UserPassword(u.User.Username(), secret)
	refused(t, u.String(), `"nothing"`, "does not exist")
	u.Path = "/postgres"
	u.User = url.UserPassword("stranger", secret)
	refused(t, u.String(), `"postgres"`, `"stranger"`, "not let")
}

// newRole makes a user who may do nothing yet.
func newRole(t *testing.T, url string) (name string) {
	t.Helper()
	name = "role_" + strings.ToLower(rand.Text())
	postgrestest.Exec(t, url, "CREATE ROLE "+name+" LOGIN")
	t.Cleanup(func() { postgrestest.Exec(t, url, "DROP OWNED BY "+name, "DROP ROLE "+name) })
	return name
}

func as(t *testing.T, address, role string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, secret)
	return u.String()
}

func TestPostgresThatIsOnlyRead(t *testing.T) {
	t.Parallel()
	base := postgrestest.Start(t)
	schema := ask[string](t, base, "SELECT current_schema()::text")
	reader := newRole(t, base)
	postgrestest.Exec(t, base, "GRANT USAGE ON SCHEMA "+schema+" TO "+reader)

	refused(t, as(t, base, reader), reader, "cannot be written to", schema)
	if tables := countTables(t, base); tables != 0 {
		t.Errorf("a refusal left %d tables", tables)
	}
	openPostgres(t, base)
	refused(t, as(t, base, reader), reader, "cannot be written to")
	postgrestest.Exec(t, base, "GRANT SELECT ON ALL TABLES IN SCHEMA "+schema+" TO "+reader)
	refused(t, as(t, base, reader), reader, "cannot be written to")
	refused(t, with(t, base, "default_transaction_read_only", "on"), "cannot be written to", "read-only")

	// Whoever may write to the tables need not be able to make them.
	postgrestest.Exec(t, base, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO "+reader)
	if err := openPostgres(t, as(t, base, reader)).Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Error(err)
	}
}

func TestPostgresNewerSchema(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	j := openPostgres(t, url)
	if err := j.Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Fatal(err)
	}
	if version := ask[int](t, url, "SELECT version FROM schema_version"); version != len(postgresMigrations) {
		t.Errorf("the schema that was made has version %d, want %d", version, len(postgresMigrations))
	}
	const all = `SELECT (SELECT json_agg(c ORDER BY table_name, column_name)::text
			FROM information_schema.columns c WHERE table_schema = current_schema())
		|| (SELECT json_agg(a)::text FROM account a) || (SELECT json_agg(r)::text FROM resource r)
		|| (SELECT json_agg(v)::text FROM schema_version v)`
	newer := len(postgresMigrations) + 1
	postgrestest.Exec(t, url, fmt.Sprintf("UPDATE schema_version SET version = %d", newer), "ALTER TABLE resource ADD COLUMN news text")
	before := ask[string](t, url, all)
	refused(t, url, "newer program", fmt.Sprintf("version %d", newer), fmt.Sprintf("knows %d", newer-1))
	if now := ask[string](t, url, all); now != before {
		t.Errorf("the refusal has changed\n%s to\n%s", before, now)
	}
}

// Nodes that start together on an empty database make the tables once.
func TestPostgresSchemaIsMadeOnce(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			j, err := OpenPostgres(t.Context(), url, After(time.After), Rand(rand.Reader))
			if err != nil {
				t.Error(err)
				return
			}
			defer j.Close()
			if err := j.Commit(t.Context(), batchTest(1, `{}`)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if rows := ask[int](t, url, "SELECT count(*) FROM schema_version"); rows != 1 {
		t.Errorf("the schema has %d versions", rows)
	}
}

// A database that does not undo a change of the schema is left half-way by a
// crash, and the next start goes on.
func TestPostgresSchemaHalfMade(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	postgrestest.Exec(t, url, postgresSchemaTable, postgresSchemaRow, postgresMigrations[0][0])
	if err := openPostgres(t, url).Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Error(err)
	}
}

// A node waits for one that changes the schema, and sees what that has made.
func TestPostgresSchemaIsLocked(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	postgrestest.Exec(t, url, postgresSchemaTable, postgresSchemaRow)
	newer := len(postgresMigrations) + 1
	end := hold(t, url, "SELECT FROM schema_version FOR UPDATE")
	done := make(chan error)
	go func() {
		_, err := OpenPostgres(t.Context(), with(t, url, "application_name", t.Name()), After(time.After), Rand(rand.Reader))
		done <- err
	}()
	waiting(t, url, t.Name(), 1)
	end(fmt.Sprintf("UPDATE schema_version SET version = %d", newer))
	contains(t, <-done, "newer program", fmt.Sprintf("version %d", newer))
	if tables := countTables(t, url); tables != 1 {
		t.Errorf("there are %d tables, want the schema's version alone", tables)
	}
}

// hold runs a statement in a transaction of somebody else's, which stays open
// until it is ended with some more.
func hold(t *testing.T, url, statement string) (end func(more ...string)) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	run := func(statements ...string) {
		t.Helper()
		for _, s := range statements {
			if _, err := conn.Exec(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	}
	run("BEGIN", statement)
	return func(more ...string) { run(append(more, "COMMIT")...) }
}

// waiting returns once so many connections of a name wait for a lock.
func waiting(t *testing.T, url, name string, want int) {
	t.Helper()
	const question = "SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity USING (pid), pg_sleep(0.01) WHERE NOT " +
		"granted AND application_name = '%s'"
	for tries := 1; ; tries++ {
		n := ask[int](t, url, fmt.Sprintf(question, name))
		if n >= want {
			return
		}
		if tries == 3000 {
			t.Fatalf("%d connections wait for a lock, want %d", n, want)
		}
	}
}

func countTables(t *testing.T, url string) int {
	t.Helper()
	return ask[int](t, url, "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()")
}

func TestPostgresOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"account", "resource", "writer"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Start(t)
			postgrestest.Exec(t, url, "CREATE TABLE "+table+" (id bigint PRIMARY KEY, name text)")
			refused(t, url, "another", "does not exist")
			if tables := countTables(t, url); tables != 1 {
				t.Errorf("after the refusal there are %d tables, want the one from before", tables)
			}
		})
	}
}

func TestPostgresOperatorsReadDocuments(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	if err := openPostgres(t, url).Commit(t.Context(), batchTest(1, `{"Name": "küche", "Size": 3}`)); err != nil {
		t.Fatal(err)
	}
	if got := ask[string](t, url, `SELECT doc::json ->> 'Name' FROM resource WHERE doc::json ->> 'Size' = '3'`); got != "küche" {
		t.Errorf("an operator reads %q, want küche", got)
	}
}

// The pauses that a journal makes are before it tries something again. Two that
// lock the same accounts in different orders would have to.
func TestPostgresLocksInOneOrder(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	pauses := make(chan time.Duration, 1000)
	after := func(d time.Duration) <-chan time.Time {
		if d != time.Minute {
			pauses <- d
		}
		return time.After(d)
	}
	accounts := []string{"b", "A", "a", "B", "é", "_", "new"}
	var wg sync.WaitGroup
	for range 4 {
		j := openPostgres(t, url, After(after))
		wg.Go(func() {
			for round := range 25 {
				accounts := slices.Clone(accounts)
				accounts = append(accounts, fmt.Sprint(round/2))
				slices.Sort(accounts)
				if round%2 == 0 {
					slices.Reverse(accounts)
				}
				tx, err := j.Lock(t.Context(), accounts)
				if err != nil {
					t.Error(err)
					return
				}
				if round%3 == 0 {
					tx.Rollback(t.Context())
				} else if err := tx.Commit(t.Context(), []store.Batch{{Account: accounts[0], Version: 1}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(pauses); n > 0 {
		t.Errorf("those who lock have met %d times", n)
	}
}

// As many transactions as there can be wait for one another. A read goes its
// way, and so does a transaction over what is free.
func TestPostgresReadsDoNotWait(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	j := openPostgres(t, with(t, url, "application_name", t.Name()), PoolSize(5))
	tx, err := j.Lock(t.Context(), []string{"one"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := j.Lock(ctx, []string{"one"}); !errors.Is(err, context.Canceled) {
				t.Errorf("who waits for an account is answered %v", err)
			}
		})
	}
	waiting(t, url, t.Name(), cap(j.waiting)-1)
	if _, err := j.Versions(t.Context(), []string{"one"}); err != nil {
		t.Error(err)
	}
	if _, err := j.Since(t.Context(), "one", 0, func(store.Row) error { return nil }); err != nil {
		t.Error(err)
	}
	free, err := j.TryLock(t.Context(), []string{"one"})
	if err != nil {
		t.Fatal(err)
	}
	if held := free.Versions(); len(held) > 0 {
		t.Errorf("who does not wait holds %v", held)
	}
	free.Rollback(t.Context())
	cancel()
	wg.Wait()
	if err := tx.Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Error(err)
	}
	if len(j.writers) != cap(j.writers) || len(j.waiting) != 0 {
		t.Errorf("%d of %d writers are left, and %d places are taken", len(j.writers), cap(j.writers), len(j.waiting))
	}
}

// What the database refuses fails its own account, and none of those whose
// updates shared the transaction.
func TestPostgresRefusesOneOfMany(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	j := openPostgres(t, url)
	s := storetest.Open(openPostgres(t, url))
	defer s.Close()
	const accounts = 20
	for a := range accounts {
		if err := j.Commit(t.Context(), []store.Batch{{Account: fmt.Sprint(a), Version: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for a := range accounts {
		account, id := fmt.Sprint(a), "x"
		if a == accounts/2 {
			id = "a zero byte \x00"
		}
		wg.Go(func() {
			err := s.Update(t.Context(), account, func(tx *store.Tx) error {
				tx.In(account).Put("box", id, storetest.Thing{})
				return nil
			})
			if (err != nil) != (id != "x") {
				t.Errorf("an update with the id %q answered %v", id, err)
			}
		})
	}
	wg.Wait()
	versions, err := j.Versions(t.Context(), []string{"0", fmt.Sprint(accounts / 2)})
	if err != nil || versions["0"] != 2 || versions[fmt.Sprint(accounts/2)] != 1 {
		t.Errorf("the accounts are at %v (%v), want 2 and 1", versions, err)
	}
}

// A node that stands still in a transaction loses it.
func TestPostgresDoesNotWaitForTheStill(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	still, other := openPostgres(t, with(t, url, "idle_in_transaction_session_timeout", "100ms")), openPostgres(t, url)
	tx, err := still.Lock(t.Context(), []string{"one"})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Commit(t.Context(), batchTest(1, `{}`)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context(), batchTest(1, `{"late":true}`)); !errors.Is(err, store.ErrAgain) {
		t.Errorf("a commit that came too late answered %v, want that it can be done again", err)
	}
	var bound string
	if err := other.pool.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&bound); err != nil || bound != "10s" {
		t.Errorf("without a parameter in the URL the bound is %q (%v), want 10s", bound, err)
	}
}

func TestPostgresPool(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	for _, c := range []struct {
		name string
		url  string
		opts []PostgresOption
		want int32
	}{
		{"by default", url, nil, 16},
		{"by the URL", with(t, url, "pool_max_conns", "5"), nil, 5},
		{"by the option", with(t, url, "pool_max_conns", "5"), []PostgresOption{PoolSize(7)}, 7},
		{"too small", url, []PostgresOption{PoolSize(1)}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := openPostgres(t, c.url, c.opts...)
			if got := j.pool.Config().MaxConns; got != c.want || len(j.writers) >= int(got) || len(j.writers) == 0 {
				t.Errorf("there are %d connections and %d writers, want %d and fewer", got, len(j.writers), c.want)
			}
		})
	}
}

func TestPostgresErrorsForOperators(t *testing.T) {
	t.Parallel()
	j := &Postgres{name: `the database "region" on db:5432`, user: "bastide"}
	for code, want := range map[string]string{
		"28P01": `not let the user "bastide" in`,
		"28000": `not let the user "bastide" in`,
		"3D000": "does not exist",
		"42501": `cannot be written to by the user "bastide"`,
		"25006": `cannot be written to by the user "bastide"`,
		"42703": "another one?",
		"53100": "no room is left",
		"22021": "SQLSTATE 22021", // nothing to add
	} {
		err := j.explain(fmt.Errorf("exec: %w", &pgconn.PgError{Severity: "ERROR", Code: code, Message: "the reason"}))
		contains(t, err, want, "the reason", "region", "db:5432")
	}
}

func TestPostgresNeedsAClock(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]PostgresOption{"no clock": {Rand(rand.Reader)}, "no chance": {After(time.After)}} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the journal was opened all the same")
				}
			}()
			_, _ = OpenPostgres(t.Context(), "postgres://db/region", opts...)
		})
	}
}
