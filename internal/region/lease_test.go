package region

import (
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

// A region over a shared database holds leases once it is open, and none when it
// was closed.
func TestLeasesLastAsLongAsTheRegion(t *testing.T) {
	t.Parallel()
	o := options(filepath.Join(t.TempDir(), "data"), 1)
	o.Postgres = postgrestest.Start(t)
	conn, err := pgx.Connect(t.Context(), o.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	leased := func() (shares int) {
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM lease WHERE name LIKE 'loops %' AND until > "+
			"clock_timestamp()").Scan(&shares); err != nil {
			t.Fatal(err)
		}
		return shares
	}
	for range 2 {
		r, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := leased(); got != 16 || !r.Loops.Mine("123456789012") {
			t.Errorf("a region that is alone leases %d shares, want 16", got)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if got := leased(); got != 0 || r.Loops.Mine("123456789012") {
			t.Errorf("a region that was closed leases %d shares", got)
		}
	}
}
