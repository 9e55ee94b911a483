package sqljournal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

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
	if err := j.Fill(t.Context(), filled, false); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[uint64]error{0: nil, 1: store.ErrForgotten, 4: store.ErrForgotten, 5: nil} {
		if now, err := j.Since(t.Context(), "one", version, func(store.Row) error { return nil }); !errors.Is(err, want) || err == nil && now != 5 {
			t.Errorf("since version %d there is version %d and the error %v, want 5 or %v", version, now, err, want)
		}
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
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	j = openTest(t, crashed)
	defer j.Close()
	if n, err := j.Count(t.Context()); err != nil || n != 1 || rows(t, j) != 1 {
		t.Errorf("%d rows are there (%v), want the 1 from before", n, err)
	}
}
