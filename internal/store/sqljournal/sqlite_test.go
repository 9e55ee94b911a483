package sqljournal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		dir := t.TempDir()
		return func() (store.Journal, error) { return Open(context.Background(), dir) }
	})
}

func openTest(t *testing.T, dir string, opts ...Option) *SQLite {
	t.Helper()
	j, err := Open(t.Context(), dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func closeTest(t *testing.T, j *SQLite) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func commitTest(t *testing.T, j *SQLite, version uint64, doc string) {
	t.Helper()
	if err := j.Commit(t.Context(), batchTest(version, doc)); err != nil {
		t.Fatal(err)
	}
}

func batchTest(version uint64, doc string) []store.Batch {
	return []store.Batch{{Account: "one", Version: version, Rows: []store.Row{
		{Kind: "box", ID: fmt.Sprint(version), Version: version, Seq: version, Doc: []byte(doc)},
	}}}
}

// rows counts the rows of the account that batchTest writes to.
func rows(t *testing.T, j *SQLite) (n int) {
	t.Helper()
	if _, err := j.Load(t.Context(), "one", func(store.Row) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// edit does to a file that no journal has open what another program might.
func edit(t *testing.T, dir, script string) {
	t.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(dir, "region.db"), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteScript(conn, script, nil), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

func contains(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("there is no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
}

func TestDirectoryHasOneOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	_, err := Open(t.Context(), dir)
	contains(t, err, dir, "another running process", fmt.Sprint(os.Getpid()))
	commitTest(t, j, 1, `{}`)
	closeTest(t, j)
	j = openTest(t, dir)
	defer j.Close()
	if n := rows(t, j); n != 1 {
		t.Errorf("%d rows are left, want 1", n)
	}
}

func TestDirectoryIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by", "open")
	j := openTest(t, dir)
	defer j.Close()
	commitTest(t, j, 1, `{}`)
	for name, want := range map[string]os.FileMode{"../../../made": 0o700, "..": 0o700, ".": 0o700, "LOCK": 0o600, "region.db": 0o600,
		"region.db-wal": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("the mode of %s is %o, want %o", name, got, want)
		}
	}
}

// snapshot reads the files of a directory, but for what SQLite and the lock
// keep beside the data.
func snapshot(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range []string{"region.db", "region.db-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		files[name] = b
	}
	return files
}

// copyCrashed copies the data of a journal that is open, as a crash leaves it.
func copyCrashed(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	for name, b := range snapshot(t, from) {
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(t *testing.T) (dir string)
	}{
		{"closed well", func(t *testing.T) string {
			dir := t.TempDir()
			closeTest(t, openTest(t, dir))
			edit(t, dir, "PRAGMA user_version = 2")
			return dir
		}},
		{"crashed", func(t *testing.T) string {
			dir := t.TempDir()
			j := openTest(t, dir)
			defer j.Close()
			commitTest(t, j, 1, `{}`)
			if err := sqlitex.ExecuteTransient(j.writer, "PRAGMA user_version = 2", nil); err != nil {
				t.Fatal(err)
			}
			return copyCrashed(t, dir)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := c.make(t)
			before := snapshot(t, dir)
			_, err := Open(t.Context(), dir)
			contains(t, err, dir, "newer program", "version 2", "knows 1")
			for name, b := range snapshot(t, dir) {
				if !bytes.Equal(b, before[name]) {
					t.Errorf("%s was changed", name)
				}
			}
			// The refusal leaves the directory to the program that can read it.
			lock, err := lockDirectory(dir)
			if err != nil {
				t.Fatal(err)
			}
			lock.Close()
		})
	}
}

func TestWhatIsNoDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "region.db"), bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), dir)
	contains(t, err, dir, "damaged")
}

// Garbage in a page is found by a check, and by the load that meets it; from
// then on the journal is damaged.
func TestGarbagePage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		meet func(*testing.T, *SQLite) error
	}{
		{"checked", func(t *testing.T, j *SQLite) error { return j.Check(t.Context()) }},
		{"loaded", func(t *testing.T, j *SQLite) error {
			_, err := j.Load(t.Context(), "one", func(store.Row) error { return nil })
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j := openTest(t, dir)
			for version := range uint64(300) {
				commitTest(t, j, version+1, `"`+strings.Repeat("x", 1000)+`"`)
			}
			if err := c.meet(t, j); err != nil || j.Damage() != nil {
				t.Errorf("a whole file: %v, %v", err, j.Damage())
			}
			closeTest(t, j)
			file := filepath.Join(dir, "region.db")
			pages, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			copy(pages[len(pages)/2/sqlitePage*sqlitePage:], bytes.Repeat([]byte("garbage!"), sqlitePage/8))
			if err := os.WriteFile(file, pages, 0o600); err != nil {
				t.Fatal(err)
			}
			j = openTest(t, dir)
			defer j.Close()
			if err := j.Damage(); err != nil {
				t.Errorf("it is damaged before anything is read: %v", err)
			}
			contains(t, c.meet(t, j), dir, "damaged")
			if _, err := j.Load(t.Context(), "two", func(store.Row) error { return nil }); err != nil {
				t.Errorf("what can be read is not: %v", err)
			}
			contains(t, j.Damage(), dir, "damaged")
		})
	}
}

// A check that is given up is no damage.
func TestCheckIsGivenUp(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	defer j.Close()
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := j.Check(ctx); !errors.Is(err, context.Canceled) || j.Damage() != nil {
		t.Errorf("the check ends with %v, and the damage is %v", err, j.Damage())
	}
}

// The schema that is made is of the version that is checked.
func TestSchemaVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closeTest(t, openTest(t, dir))
	version, err := sqliteFileVersion(filepath.Join(dir, "region.db"))
	if err != nil || version != sqliteVersion {
		t.Errorf("a new file has schema version %d (%v), want %d", version, err, sqliteVersion)
	}
}

// Only with these two does a commit wait for the disk and a load for nobody.
func TestDurability(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	defer j.Close()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		got, err := sqlitex.ResultText(j.writer.Prep("PRAGMA " + pragma))
		if err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", pragma, got, err, want)
		}
	}
}

func TestOperatorsReadDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	defer j.Close()
	commitTest(t, j, 1, `{"Name": "küche", "Size": 3}`)
	conn, err := sqlite.OpenConn(filepath.Join(dir, "region.db"), sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := sqlitex.ResultText(conn.Prep(`SELECT doc ->> 'Name' || ' ' || typeof(doc) FROM resource WHERE doc ->> 'Size' = 3`))
	if err != nil || got != "küche text" {
		t.Errorf("an operator reads %q (%v), want küche text", got, err)
	}
}

func TestNoRoomLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	commitTest(t, j, 1, `{}`)
	if err := sqlitex.ExecuteTransient(j.writer, "PRAGMA max_page_count = 100", nil); err != nil {
		t.Fatal(err)
	}
	// The first row finds room, the second does not.
	batches := append(batchTest(2, `{}`), store.Batch{Account: "two", Version: 1, Rows: []store.Row{
		{Kind: "box", ID: "large", Doc: bytes.Repeat([]byte(" "), 1<<20)},
	}})
	contains(t, j.Commit(t.Context(), batches), dir, "no room is left")
	for range 2 {
		if n := rows(t, j); n != 1 {
			t.Errorf("%d rows are there, want the 1 from before", n)
		}
		version, err := j.Load(t.Context(), "two", func(store.Row) error { return nil })
		if err != nil || version != 0 {
			t.Errorf("two is at version %d (%v), want none", version, err)
		}
		closeTest(t, j)
		j = openTest(t, dir)
	}
	closeTest(t, j)
}

// A program that writes by hand and does not end is named as the reason.
func TestOtherWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	defer j.Close()
	j.writer.SetBusyTimeout(0)
	conn, err := sqlite.OpenConn(filepath.Join(dir, "region.db"), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil); err != nil {
		t.Fatal(err)
	}
	contains(t, j.Commit(t.Context(), batchTest(1, `{}`)), dir, "another program")
	if err := sqlitex.ExecuteTransient(conn, "ROLLBACK", nil); err != nil {
		t.Fatal(err)
	}
	commitTest(t, j, 1, `{}`)
}

func TestErrorsForOperators(t *testing.T) {
	t.Parallel()
	j := &SQLite{dir: "/the/directory"}
	for code, want := range map[sqlite.ResultCode]string{
		sqlite.ResultFull:         "no room is left",
		sqlite.ResultIOErrFsync:   "the disk of /the/directory does not",
		sqlite.ResultIOErrWrite:   "the disk of /the/directory does not",
		sqlite.ResultCorrupt:      "damaged",
		sqlite.ResultNotADB:       "damaged",
		sqlite.ResultReadOnly:     "may not be written",
		sqlite.ResultCantOpen:     "may not be written",
		sqlite.ResultBusySnapshot: "another program",
		sqlite.ResultInterrupt:    "was closed",
		sqlite.ResultMismatch:     "mismatch", // nothing to add
	} {
		err := j.explain(context.Background(), fmt.Errorf("step: %w", code.ToError()))
		contains(t, err, want, code.ToError().Error())
	}
}

// A load goes on while a commit is half way.
func TestLoadDoesNotWait(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	defer j.Close()
	commitTest(t, j, 1, `{}`)
	j.writing.Lock()
	end, err := sqlitex.ImmediateTransaction(j.writer)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.writeRow("one", batchTest(2, `{}`)[0].Rows[0]); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, j); n != 1 {
		t.Errorf("%d rows are loaded, want the 1 that was committed", n)
	}
	if _, err := j.Pending(t.Context()); err != nil {
		t.Error(err)
	}
	end(&err)
	j.writing.Unlock()
	if n := rows(t, j); n != 2 {
		t.Errorf("%d rows are loaded after the commit, want 2", n)
	}
}

// pace makes checkpoints come after so many bytes.
func pace(every, restartAbove int64) Option {
	return func(j *SQLite) { j.checkpointer.every, j.checkpointer.restartAbove = every, restartAbove }
}

// A reader keeps the first checkpoint from copying all of a log. If the log is
// large a second one does, once the reader has gone, and the log starts anew.
func TestLogStartsAnew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		restartAbove int64
		reading      bool // on and on
		anew         bool
	}{
		{name: "small", restartAbove: 1 << 30},
		{name: "large", restartAbove: 1 << 20, anew: true},
		{name: "large and still read", restartAbove: 1 << 20, reading: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			told := make(chan struct{}, 1)
			log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
				told <- struct{}{}
				return len(p), nil
			}), &slog.HandlerOptions{Level: slog.LevelDebug}))
			j := openTest(t, t.TempDir(), pace(1<<62, c.restartAbove), Log(log))
			defer j.Close()
			doc := `"` + strings.Repeat("x", 100_000) + `"`
			commitTest(t, j, 1, doc)

			reading, enough, left := make(chan struct{}), make(chan struct{}), make(chan error)
			go func() {
				_, err := j.Load(t.Context(), "one", func(store.Row) error {
					close(reading)
					<-enough
					return nil
				})
				left <- err
			}()
			<-reading
			for version := range uint64(20) {
				commitTest(t, j, version+2, doc)
			}
			j.writing.Lock() // so that the second checkpoint waits
			done := make(chan error, 1)
			go func() { done <- j.checkpoint() }()
			select {
			case <-told:
			case err := <-done:
				done <- err
			}
			if !c.reading {
				close(enough)
				if err := <-left; err != nil {
					t.Error(err)
				}
			}
			j.writing.Unlock()
			if err := <-done; err != nil {
				t.Error(err)
			}
			commitTest(t, j, 22, doc)
			size, err := j.checkpointer.run("PASSIVE")
			if err != nil || size < 1<<20 != c.anew {
				t.Errorf("after 2 MB of commits and one more the log has %d bytes (%v), want that it starts anew: %t", size, err, c.anew)
			}
			if c.reading {
				close(enough)
				if err := <-left; err != nil {
					t.Error(err)
				}
			}
			if n := rows(t, j); n != 22 {
				t.Errorf("%d rows are there, want 22", n)
			}
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The commits wake the checkpointer, which copies the log while nobody asks.
func TestCommitsWakeTheCheckpointer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, pace(100_000, 1<<62))
	defer j.Close()
	grown := func() bool {
		info, err := os.Stat(filepath.Join(dir, "region.db"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size() > 50_000
	}
	for version := uint64(1); !grown(); version++ {
		if version > 5000 {
			t.Fatal("100 MB of commits woke nobody")
		}
		commitTest(t, j, version, `"`+strings.Repeat("x", 20_000)+`"`)
	}
}

// logSize is the size of the log in a directory.
func logSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, "region.db-wal"))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A process that is killed leaves its log to the next one, which copies it: the
// log does not grow from one to the next.
func TestLogOfKilledProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	doc := `"` + strings.Repeat("x", 20_000) + `"`
	version := uint64(0)
	var first int64
	for process := range 5 {
		j := openTest(t, dir)
		if left := logSize(t, dir); left != 0 {
			t.Errorf("after the start of process %d the log has %d bytes", process, left)
		}
		for range 20 {
			version++
			commitTest(t, j, version, doc)
		}
		if process == 0 {
			first = logSize(t, dir)
		}
		if size := logSize(t, dir); first < 400_000 || size > first*3/2 {
			t.Errorf("process %d leaves a log of %d bytes, the first one left %d", process, size, first)
		}
		if n := rows(t, j); n != int(version) {
			t.Errorf("process %d has %d rows, want %d", process, n, version)
		}
		dir = copyCrashed(t, dir)
		closeTest(t, j)
	}
}

// What cannot be copied at the start, because an operator reads, is copied once
// there is something to commit.
func TestLogThatIsReadAtTheStart(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	commitTest(t, j, 1, `"`+strings.Repeat("x", 100_000)+`"`)
	dir := copyCrashed(t, j.dir)
	closeTest(t, j)
	operator, err := sqlite.OpenConn(filepath.Join(dir, "region.db"), sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	for _, query := range []string{"BEGIN", "SELECT count(*) FROM resource"} {
		if err := sqlitex.ExecuteTransient(operator, query, nil); err != nil {
			t.Fatal(err)
		}
	}
	j = openTest(t, dir)
	defer j.Close()
	if size := logSize(t, dir); size < 100_000 || j.checkpointer.written < 100_000 {
		t.Errorf("the log has %d bytes, of which %d await a checkpoint", size, j.checkpointer.written)
	}
}

// A disk that takes nothing does not prevent a start, and a start can be given up.
func TestLogThatCannotBeCopiedAtTheStart(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	j := openTest(t, t.TempDir(), Log(slog.New(slog.NewTextHandler(&told, nil))))
	defer j.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := j.copyLeft(ended); !errors.Is(err, context.Canceled) || told.Len() > 0 {
		t.Errorf("a start that was given up: %v, told is %q", err, &told)
	}
	if err := j.checkpointer.conn.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if j.checkpointer.conn, err = sqlite.OpenConn(":memory:"); err != nil {
		t.Fatal(err)
	}
	refuse := sqlite.AuthorizeFunc(func(sqlite.Action) sqlite.AuthResult { return sqlite.AuthResultDeny })
	if err := j.checkpointer.conn.SetAuthorizer(refuse); err != nil {
		t.Fatal(err)
	}
	if err := j.copyLeft(t.Context()); err != nil || !strings.Contains(told.String(), "level=ERROR") ||
		j.checkpointer.written < j.checkpointer.every {
		t.Errorf("%v, told is %q, %d bytes await a checkpoint", err, &told, j.checkpointer.written)
	}
}

// The log is no longer than it is taken for, or checkpoints would come late; and
// not by far shorter, or they would come for little.
func TestEstimateOfTheLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ accounts, rows, bytes int }{{1, 1, 300}, {2, 1, 300}, {1, 5, 900}, {3, 2, 20_000}} {
		dir := t.TempDir()
		j := openTest(t, dir, pace(1<<62, 1<<62))
		for version := range uint64(300) {
			var batches []store.Batch
			for a := range c.accounts {
				b := store.Batch{Account: fmt.Sprintf("%012d", (version*7919+uint64(a))%97), Version: version, Pending: int(version % 2)}
				for r := range c.rows {
					id := fmt.Sprintf("box-%08x", (version*2654435761+uint64(r))%(1<<32))
					b.Rows = append(b.Rows, store.Row{Kind: "box", ID: id, Doc: []byte(`"` + strings.Repeat("x", c.bytes) + `"`)})
				}
				batches = append(batches, b)
			}
			if err := j.Commit(t.Context(), batches); err != nil {
				t.Fatal(err)
			}
		}
		if is, taken := logSize(t, dir), j.checkpointer.written; is > taken*11/10 || is < taken/4 {
			t.Errorf("commits of %+v make a log of %d bytes, which is taken for %d", c, is, taken)
		}
		closeTest(t, j)
	}
}

// A checkpoint that fails is told of, and commits go on.
func TestFailingCheckpoint(t *testing.T) {
	t.Parallel()
	told := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		told <- string(p)
		return len(p), nil
	}), nil))
	j := openTest(t, t.TempDir(), pace(1, 1<<62), Log(log))
	defer j.Close()
	interrupted := make(chan struct{})
	close(interrupted)
	j.checkpointer.conn.SetInterrupt(interrupted)
	commitTest(t, j, 1, `{}`)
	if line := <-told; !strings.Contains(line, "level=ERROR") || !strings.Contains(line, j.dir) {
		t.Errorf("the failure is told as %q", line)
	}
	commitTest(t, j, 2, `{}`)
}

func TestCloseLeavesOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	commitTest(t, j, 1, `{}`)
	closeTest(t, j)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"LOCK", "region.db"}) {
		t.Errorf("the directory has %q, want LOCK and region.db", names)
	}
}
