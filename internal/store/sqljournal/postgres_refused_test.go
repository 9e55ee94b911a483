package sqljournal

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

// refusing makes the database refuse what is written to a table, with a state of
// the standard: at the statement, or only when the transaction ends.
func refusing(t *testing.T, url, table, state string, atCommit bool) (end func()) {
	t.Helper()
	trigger := "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON " + table
	if atCommit {
		trigger = "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON " + table + " DEFERRABLE INITIALLY DEFERRED"
	}
	postgrestest.Exec(t, url,
		fmt.Sprintf("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'injected' USING "+
			"ERRCODE = '%s'; END $$", state),
		trigger+" FOR EACH ROW EXECUTE FUNCTION refuse()")
	return func() {
		t.Helper()
		postgrestest.Exec(t, url, "DROP TRIGGER refuse ON "+table, "DROP FUNCTION refuse")
	}
}

// What the database refuses leaves nothing: that is known, and the node goes on
// as soon as the database does.
func TestPostgresRefusedCommits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, state string
		words       string // for the operator
		again       bool   // it is done again, and in the end given up
	}{
		{"disk full", "53100", "no room is left", false},
		{"out of memory", "53200", "SQLSTATE 53200", false},
		{"a limit of its configuration", "53400", "SQLSTATE 53400", false},
		{"read-only", "25006", "cannot be written to", false},
		{"canceled", "57014", "SQLSTATE 57014", false},
		{"a limit of the program", "54000", "SQLSTATE 54000", false},
		{"broken inside", "XX000", "SQLSTATE XX000", false},
		{"a file that cannot be written", "58030", "SQLSTATE 58030", false},
		{"met another", "40001", "SQLSTATE 40001", true},
	} {
		for _, table := range []string{"resource", "account", "writer"} {
			for when, atCommit := range map[string]bool{"at a statement": false, "at the commit": true} {
				t.Run(fmt.Sprintf("%s, %s of %s", c.name, when, table), func(t *testing.T) {
					t.Parallel()
					url := postgrestest.Start(t)
					j := openPostgres(t, url)
					pauses := 0
					s := storetest.Open(j, func(o *store.Options) {
						o.After = func(time.Duration) <-chan time.Time {
							pauses++
							now := make(chan time.Time)
							close(now)
							return now
						}
					})
					defer s.Close()
					put := func(id string) error {
						return s.Update(t.Context(), "one", func(tx *store.Tx) error {
							tx.In("one").Put("box", id, storetest.Thing{Name: id})
							tx.In("two").Put("box", id, storetest.Thing{Name: id})
							return nil
						})
					}
					if err := put("a"); err != nil {
						t.Fatal(err)
					}
					end := refusing(t, url, table, c.state, atCommit)
					err := put("b")
					contains(t, err, "injected", c.words)
					if errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrAgain) != c.again || c.again != (pauses > 0) {
						t.Errorf("after %d pauses it answered %v, want that nothing was written, and that it can be done again: %t", pauses, err, c.again)
					}
					for _, account := range []string{"one", "two"} {
						snap, err := s.View(t.Context(), account)
						if err != nil {
							t.Fatal(err)
						}
						if snap.Version() != 1 || snap.Count("box") != 1 {
							t.Errorf("%s is at version %d with %d boxes, want what was there before", account, snap.Version(), snap.Count("box"))
						}
					}
					if rows := ask[int](t, url, "SELECT count(*) FROM resource"); rows != 2 {
						t.Errorf("the database has %d rows, want the two from before", rows)
					}
					if len(j.writers) != cap(j.writers) {
						t.Errorf("%d of %d writers are left", len(j.writers), cap(j.writers))
					}
					end()
					if err := put("b"); err != nil {
						t.Errorf("once it no longer refuses, a commit answers %v", err)
					}
					select {
					case err := <-s.Failed():
						t.Errorf("the store stopped: %v", err)
					default:
					}
				})
			}
		}
	}
}
