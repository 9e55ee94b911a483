package sqljournal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

// leaseTest is nodes that share leases of one database.
type leaseTest struct {
	*testing.T
	url   string
	life  time.Duration
	nodes map[string]*Postgres
	names []string
}

func setupLeases(t *testing.T, life time.Duration, nodes ...string) *leaseTest {
	l := &leaseTest{T: t, url: postgrestest.Start(t), life: life, nodes: map[string]*Postgres{}}
	for i := range 16 {
		l.names = append(l.names, fmt.Sprintf("loops %02d", i))
	}
	for _, node := range nodes {
		l.nodes[node] = openPostgres(t, l.url)
	}
	return l
}

// lease leases once, and answers what the node holds.
func (l *leaseTest) lease(node string) (held []string) {
	l.Helper()
	held, err := l.nodes[node].Lease(l.Context(), node, l.names, l.life)
	if err != nil {
		l.Fatal(err)
	}
	return held
}

// holds leases once, and checks how much the node holds.
func (l *leaseTest) holds(node string, want int) {
	l.Helper()
	if held := l.lease(node); len(held) != want {
		l.Errorf("%s holds %q, want %d names", node, held, want)
	}
}

// shared has the nodes renew in turn until each name is held by one of them, and
// no node holds more than its share.
func (l *leaseTest) shared(share int, nodes ...string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 30*time.Second)
	defer cancel()
	for {
		fair := true
		var all []string
		for _, node := range nodes {
			held := l.lease(node)
			fair = fair && len(held) <= share
			all = append(all, held...)
		}
		if slices.Sort(all); fair && slices.Equal(all, l.names) {
			return
		}
		if _, err := l.nodes[nodes[0]].Pool().Exec(ctx, "SELECT pg_sleep(0.01)"); err != nil {
			l.Fatalf("%q hold %q, and should hold up to %d names each: %v", nodes, all, share, err)
		}
	}
}

func TestLeasesAreShared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		nodes []string
		share int
	}{
		{"by one", []string{"a"}, 16},
		{"by two", []string{"a", "b"}, 8},
		{"by three", []string{"a", "b", "c"}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := setupLeases(t, 300*time.Millisecond, c.nodes...)
			l.holds("a", 16)
			l.shared(c.share, c.nodes...)
		})
	}
}

// What a node holds nobody else gets, though that is above its share, until its
// life has ended: it may be paused.
func TestLeaseIsHeldForItsLife(t *testing.T) {
	t.Parallel()
	l := setupLeases(t, time.Hour, "a", "b")
	l.holds("a", 16)
	for range 3 {
		l.holds("b", 0)
		l.holds("a", 8)
	}
}

func TestLeasesOfTheDeadMove(t *testing.T) {
	t.Parallel()
	l := setupLeases(t, 300*time.Millisecond, "a", "b")
	l.shared(8, "a", "b")
	l.nodes["a"].Close()
	l.shared(16, "b")
	if rows := ask[int](t, l.url, "SELECT count(*) FROM lease WHERE holder = 'a'"); rows != 0 {
		t.Errorf("%d rows are left of the dead node", rows)
	}
}

// The life is long, so nothing but the release moves a lease.
func TestReleaseMovesLeasesAtOnce(t *testing.T) {
	t.Parallel()
	l := setupLeases(t, time.Hour, "a", "b")
	l.holds("a", 16)
	l.holds("b", 0)
	for range 2 {
		if err := l.nodes["a"].Release(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	l.holds("b", 16)
	l.holds("a", 0)
}

// A lease that has waited does not end before one that was asked for meanwhile.
func TestLifeCountsFromTheTurn(t *testing.T) {
	t.Parallel()
	l := setupLeases(t, time.Hour)
	l.nodes["a"] = openPostgres(t, with(t, l.url, "application_name", t.Name()))
	end := hold(t, l.url, postgresTurn)
	done := make(chan error)
	go func() {
		_, err := l.nodes["a"].Lease(t.Context(), "a", l.names, l.life)
		done <- err
	}()
	waiting(t, l.url, t.Name(), 1)
	asked := ask[string](t, l.url, "SELECT clock_timestamp()::text")
	end()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	const early = "SELECT count(*) FROM lease WHERE holder = 'a' AND until < '%s'::timestamptz + INTERVAL '1 hour'"
	if rows := ask[int](t, l.url, fmt.Sprintf(early, asked)); rows != 0 {
		t.Errorf("%d leases end too early", rows)
	}
}

// A database of the first version gets the leases.
func TestPostgresSchemaWithoutLeases(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	postgrestest.Exec(t, url, postgresSchemaTable, postgresSchemaRow, strings.Join(postgresMigrations[0], ";"),
		"UPDATE schema_version SET version = 1")
	held, err := openPostgres(t, url).Lease(t.Context(), "a", []string{"loops"}, time.Hour)
	if err != nil || len(held) != 1 {
		t.Errorf("got %v, %v", held, err)
	}
}
