package sqljournal

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

// Amounts are moved between accounts through three nodes, while a nemesis ends
// their connections and loses the answers to their commits: for a few seconds, or
// for the time that BASTIDE_TORTURE says.
func TestTortureLedger(t *testing.T) {
	t.Parallel()
	lasts := 4 * time.Second
	if text := os.Getenv("BASTIDE_TORTURE"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("BASTIDE_TORTURE: %v", err)
		}
	}
	base := with(t, postgrestest.Start(t), "application_name", t.Name())
	var journals []store.Journal
	var cables []*cable
	for range 3 {
		way, url := lay(t, base)
		journals, cables = append(journals, openPostgres(t, url)), append(cables, way)
	}
	ctx, end := context.WithCancel(t.Context())
	tormented := make(chan struct{})
	go func() {
		defer close(tormented)
		torment(ctx, t, base, cables)
	}()
	deadline := time.Now().Add(lasts)
	storetest.Ledger(t, func(int) bool { return time.Now().Before(deadline) }, journals...)
	end()
	<-tormented
}

// torment ends connections and loses answers until the context ends.
func torment(ctx context.Context, t *testing.T, url string, cables []*cable) {
	conn, err := pgx.Connect(ctx, with(t, url, "application_name", "nemesis"))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	ended, lost := 0, 0
	for {
		if rand.IntN(2) == 0 {
			lost++
			cables[rand.IntN(len(cables))].set(answering, nil) // one commit
		}
		_, err := conn.Exec(ctx, `SELECT pg_terminate_backend((SELECT pid FROM pg_stat_activity
			WHERE application_name = $1 ORDER BY random() LIMIT 1)), pg_sleep(0.1)`, t.Name())
		switch {
		case ctx.Err() != nil:
			t.Logf("%d connections were ended, and up to %d commits not answered", ended, lost)
			return
		case err != nil:
			t.Error(err)
			return
		}
		ended++
	}
}
