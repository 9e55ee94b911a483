package sqljournal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

func TestSQLiteDump(t *testing.T) {
	storetest.RunDump(t, func(t *testing.T) storetest.Opener {
		dir := t.TempDir()
		return func() (store.Journal, error) { return Open(context.Background(), dir) }
	})
}

func TestPostgresDump(t *testing.T) {
	storetest.RunDump(t, setupPostgres)
}

// A node that was at any version of an account before it was filled has no way
// to follow: it loads the account.
func TestPostgresFillForgets(t *testing.T) {
	t.Parallel()
	j := openPostgres(t, postgrestest.Start(t))
	filled := func(yield func(store.Batch, error) bool) {
		yield(store.Batch{Account: "one", Version: 5, Rows: []store.Row{{Kind: "box", ID: "a", Version: 3, Seq: 3, Doc: []byte(`{}`)}}}, nil)
	}
	if err := j.Fill(t.Context(), filled, store.OntoEmpty); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[uint64]error{0: nil, 1: store.ErrForgotten, 4: store.ErrForgotten, 5: nil} {
		if now, err := j.Since(t.Context(), "one", version, func(store.Row) error { return nil }); !errors.Is(err, want) || err == nil &&
			now != 5 {
			t.Errorf("since version %d there is version %d and the error %v, want 5 or %v", version, now, err, want)
		}
	}
}

// While a node runs, what it runs on is not replaced, unless somebody insists.
func TestPostgresFillUnderNodes(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t)
	node, j := openPostgres(t, url), openPostgres(t, url)
	if err := node.Commit(t.Context(), batchTest(1, `{"mine":true}`)); err != nil {
		t.Fatal(err)
	}
	lease := func(life time.Duration) {
		t.Helper()
		if _, err := node.Lease(t.Context(), "a", []string{"loops"}, life); err != nil {
			t.Fatal(err)
		}
	}
	lease(time.Hour)
	asked := false
	fill := func(onto store.Onto) error {
		asked = false
		return j.Fill(t.Context(), func(yield func(store.Batch, error) bool) {
			asked = true
			yield(store.Batch{Account: "one", Version: 1}, nil)
		}, onto)
	}
	rows := func() int { return ask[int](t, url, "SELECT count(*) FROM resource") }
	for _, onto := range []store.Onto{store.OntoEmpty, store.OntoStopped} {
		err := fill(onto)
		if !errors.Is(err, store.ErrRunning) || !strings.Contains(err.Error(), "1 of them") || asked || rows() != 1 {
			t.Errorf("under a node it answered %v, asked for batches: %t, and left %d rows", err, asked, rows())
		}
	}
	if err := fill(store.OntoRunning); err != nil || rows() != 0 {
		t.Errorf("when told to it answered %v, and left %d rows", err, rows())
	}
	if err := node.Release(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := fill(store.OntoStopped); err != nil {
		t.Errorf("when the node has ended it answered %v", err)
	}
	// One that was killed counts until its lease has ended, by itself.
	lease(100 * time.Millisecond)
	for deadline := time.Now().Add(time.Minute); ; {
		err := fill(store.OntoStopped)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrRunning) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	// Nobody takes a lease while it is being filled.
	late := openPostgres(t, with(t, url, "application_name", t.Name()))
	err := j.Fill(t.Context(), func(yield func(store.Batch, error) bool) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := late.Lease(ctx, "b", []string{"loops"}, time.Hour)
			done <- err
		}()
		waiting(t, url, t.Name(), 1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a node that wanted a lease meanwhile was answered %v", err)
		}
	}, store.OntoStopped)
	if err != nil {
		t.Error(err)
	}
}

// Commits go on beside a backup, which has those that were answered before.
func TestBackupOfAnOpenJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	defer j.Close()
	commitTest(t, j, 1, `{"n":1}`)
	to := filepath.Join(t.TempDir(), "there")
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	// A commit half way is not in the copy, and does not keep it waiting.
	j.writing.Lock()
	end, err := sqlitex.ImmediateTransaction(j.writer)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.writeRow("one", batchTest(2, `{}`)[0].Rows[0]); err != nil {
		t.Fatal(err)
	}
	if err := j.Backup(t.Context(), filepath.Join(to, File)); err != nil {
		t.Fatal(err)
	}
	end(&err)
	j.writing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(to, File))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the copy is %v (%v), want 0600", info.Mode(), err)
	}
	copied := openTest(t, to)
	defer copied.Close()
	if n := rows(t, copied); n != 1 {
		t.Errorf("the copy has %d rows, want the 1 that was committed", n)
	}
	commitTest(t, copied, 3, `{}`)
	if n := rows(t, j); n != 2 {
		t.Errorf("the journal has %d rows, want 2: the copy is another", n)
	}
}

func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	defer j.Close()
	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, j.Backup(t.Context(), taken), taken, "exists")
	if text, err := os.ReadFile(taken); err != nil || string(text) != "mine" {
		t.Errorf("the file that was there is now %q (%v)", text, err)
	}
	contains(t, j.Backup(t.Context(), filepath.Join(dir, "absent", "file")), "absent")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Backup(ctx, filepath.Join(t.TempDir(), "copy")); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled backup answered %v", err)
	}
}

// A process that dies while it fills a journal leaves it as it was.
func TestFillIsCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	defer j.Close()
	commitTest(t, j, 1, `{}`)
	// With little memory SQLite writes rows to the log that are not committed.
	if err := sqlitex.ExecuteTransient(j.writer, "PRAGMA cache_size = 10", nil); err != nil {
		t.Fatal(err)
	}
	var crashed string
	err := j.Fill(t.Context(), func(yield func(store.Batch, error) bool) {
		for batch, err := range benchBatches(2000) {
			if !yield(batch, err) {
				return
			}
		}
		if crashed = copyCrashed(t, dir); len(snapshot(t, crashed)["region.db-wal"]) < 1<<20 {
			t.Error("nothing was written when it was cut off")
		}
	}, store.OntoStopped)
	if err != nil {
		t.Fatal(err)
	}
	j = openTest(t, crashed)
	defer j.Close()
	if n, err := j.Count(t.Context()); err != nil || n != 1 || rows(t, j) != 1 {
		t.Errorf("%d rows are there (%v), want the 1 from before", n, err)
	}
}
