package apilog

import (
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

// Days that an earlier program wrote have no decisions. They are read as they are, and
// get the column when they are written to.
func TestDaysWithoutDecisions(t *testing.T) {
	t.Parallel()
	const forget = "ALTER TABLE %s DROP COLUMN decision"
	check := func(t *testing.T, o Options, forget func()) {
		t.Helper()
		l := openLog(t, o)
		l.Append(call(alice, "before", start))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		forget()
		l = openLog(t, o)
		if got := ids(t, l, query(alice)); strings.Join(got, " ") != "before" {
			t.Errorf("read as it was: %q", got)
		}
		decided := call(alice, "after", start)
		decided.Decision = "denied by a policy"
		l.Append(decided)
		records, _, err := l.Query(t.Context(), query(alice))
		if err != nil || len(records) != 2 || records[0].Decision != "" || records[1].Decision != decided.Decision {
			t.Errorf("written to: %+v, %v", records, err)
		}
	}
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		check(t, Options{Dir: dir}, func() {
			conn, err := sqlite.OpenConn(filepath.Join(dir, "2026-11-20.db"), sqlite.OpenReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := sqlitex.ExecuteTransient(conn, strings.Replace(forget, "%s", "call", 1), nil); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := postgrestest.Start(t)
		check(t, Options{Postgres: connect(t, url)}, func() {
			for _, table := range []string{"api_log_20261120", "api_log_20261121"} {
				postgrestest.Exec(t, url, strings.Replace(forget, "%s", table, 1))
			}
			postgrestest.Exec(t, url, "UPDATE schema_version SET version = 1 WHERE part = 'api log'")
		})
	})
}
