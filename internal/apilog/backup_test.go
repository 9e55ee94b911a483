package apilog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestBackupHasEveryRow(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{Dir: filepath.Join(t.TempDir(), "log")})
	var want []string
	for day := range 4 {
		for n := range 10 {
			want = append(want, fmt.Sprintf("%d-%d", day, n))
			l.Append(call(alice, want[len(want)-1], start.AddDate(0, 0, day-2).Add(time.Duration(n))))
		}
		if day == 1 { // the others wait in memory
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := l.Backup(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	l.Append(call(alice, "later", start))
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := glob(t, to, "*"), []string{"2026-11-18.db", "2026-11-19.db", "2026-11-20.db", "2026-11-21.db"}; !slices.Equal(got, want) {
		t.Errorf("the copy has the files %q, want %q", got, want)
	}
	for _, path := range append(glob(t, to, "*"), ".") {
		if info, err := os.Stat(filepath.Join(to, path)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v (%v)", path, info.Mode(), err)
		}
	}
	if got := ids(t, openLog(t, Options{Dir: to}), query(alice)); !slices.Equal(got, want) {
		t.Errorf("the copy has the rows %q, want %q", got, want)
	}
	if got := len(ids(t, l, query(alice))); got != len(want)+1 {
		t.Errorf("the log has %d rows, want %d", got, len(want)+1)
	}
}

// Rows are appended, found and dropped meanwhile.
func TestBackupBesideTheRest(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{Dir: filepath.Join(t.TempDir(), "log")})
	const writers, rows = 4, 500
	var all sync.WaitGroup
	began := make(chan struct{}, writers)
	for w := range writers {
		all.Go(func() {
			for n := range rows {
				l.Append(call(alice, fmt.Sprint(w, "-", n), start.Add(time.Duration(n)*time.Microsecond)))
				if n == 50 {
					began <- struct{}{}
				}
				if n%100 != 99 {
					continue
				}
				if _, _, err := l.Query(t.Context(), query(alice)); err != nil {
					t.Error(err)
				}
				if err := l.DropBefore(start.AddDate(0, 0, -1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range writers {
		<-began
	}
	q := query(alice)
	q.Limit = writers * rows
	for i := range 5 {
		to := filepath.Join(t.TempDir(), fmt.Sprint("copy", i))
		before := ids(t, l, q)
		if err := l.Backup(t.Context(), to); err != nil {
			t.Error(err)
			break
		}
		have := map[string]bool{}
		for _, id := range ids(t, openLog(t, Options{Dir: to}), q) {
			have[id] = true
		}
		for _, id := range before {
			if !have[id] {
				t.Errorf("the row %s was there before the backup, and is not in it", id)
			}
		}
	}
	all.Wait()
}

// A damaged day costs its own rows, as it does when it is queried.
func TestBackupOfADamagedDay(t *testing.T) {
	t.Parallel()
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	l := openLog(t, o)
	for day := range 3 {
		l.Append(call(alice, fmt.Sprint(day), start.AddDate(0, 0, day-2)))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "2026-11-19.db"), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := openLog(t, o).Backup(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if got, want := glob(t, to, "*"), []string{"2026-11-18.db", "2026-11-20.db"}; !slices.Equal(got, want) {
		t.Errorf("the copy has the files %q, want %q", got, want)
	}
	if got, want := glob(t, o.Dir, "*.damaged"), []string{"2026-11-19.db.damaged"}; !slices.Equal(got, want) {
		t.Errorf("%q are set aside, want %q", got, want)
	}
}

func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	l := openLog(t, Options{Dir: filepath.Join(t.TempDir(), "log")})
	l.Append(call(alice, "a", start))
	if err := l.Backup(t.Context(), t.TempDir()); !errors.Is(err, os.ErrExist) {
		t.Errorf("a directory that is there was answered %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Backup(ctx, filepath.Join(t.TempDir(), "copy")); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled backup answered %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Backup(t.Context(), filepath.Join(t.TempDir(), "copy")); !errors.Is(err, errClosed) {
		t.Errorf("a closed log answered %v", err)
	}
}
