package region

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal"
)

func options(data string, seed byte) Options {
	return Options{Data: data, Region: "eu-west-2", Domain: "bastide.localhost", Driver: sim.Start(0),
		Clock: clock.System(), Rand: rand.NewChaCha8([32]byte{seed}), Logger: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, o Options) *Region {
	t.Helper()
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func says(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("the error is %v, want one with %q", err, words)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A copy is a region: it runs as the one it was made of, beside it.
func TestACopyIsARegion(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		data := filepath.Join(t.TempDir(), "data")
		o := options(data, 1)
		r, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		root := r.Founded
		if err := root.Shown(); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(data, "tls"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "tls", "ca.pem"), []byte("an authority"), 0o644); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "copy")
		var made *Copy
		if running {
			if _, err := Backup(t.Context(), o, to); !errors.Is(err, sqljournal.ErrInUse) {
				t.Errorf("a region that runs was answered %v", err)
			}
			made, err = r.Backup(t.Context(), data, to)
		}
		if closed := r.Close(); closed != nil {
			t.Fatal(closed)
		}
		if !running {
			made, err = Backup(t.Context(), o, to)
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"apilog", "master.key", "region.db", "root-credentials.json", "tls"}; !slices.Equal(names(t, to), want) {
			t.Errorf("the copy has %q, want %q", names(t, to), want)
		}
		if made.Dir != to || made.Bytes < 4096 || made.MasterKey != "" || !strings.Contains(made.String(), "has the master key") ||
			!strings.Contains(made.String(), "bastide serve --data "+to) {
			t.Errorf("the backup says %+v: %s", *made, made)
		}
		err = filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			want := os.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if info, err := d.Info(); err != nil || info.Mode().Perm() != want {
				t.Errorf("the mode of %s is %v (%v), want %v", path, info.Mode(), err, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		first, second := open(t, options(data, 2)), open(t, options(to, 3))
		if first.Founded != nil || second.Founded != nil {
			t.Error("a region was founded anew")
		}
		if kept, err := ReadRoot(to); err != nil || kept.SecretKey != root.SecretKey {
			t.Errorf("the copy has the credentials %v (%v)", kept, err)
		}
	}
}

// A region that has not run for long is copied as it was left. The next start
// drops what is too old of its API log, a backup does not.
func TestBackupDropsNothing(t *testing.T) {
	t.Parallel()
	o := options(filepath.Join(t.TempDir(), "data"), 1)
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(o.Data, "apilog", "2020-01-01.db")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if _, err := Backup(t.Context(), o, to); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{o.Data, to} {
		if _, err := os.Stat(filepath.Join(dir, "apilog", "2020-01-01.db")); err != nil {
			t.Error(err)
		}
	}
}

// A master key that is kept elsewhere stays there.
func TestBackupLeavesAKeyWhereItIs(t *testing.T) {
	t.Parallel()
	o := options(filepath.Join(t.TempDir(), "data"), 1)
	o.MasterKey = filepath.Join(t.TempDir(), "the.key")
	r := open(t, o)
	to := filepath.Join(t.TempDir(), "copy")
	made, err := r.Backup(t.Context(), "", to)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(names(t, to), "master.key") {
		t.Error("the key is in the copy")
	}
	if made.MasterKey != o.MasterKey || !strings.Contains(made.String(), "not in it") ||
		!strings.Contains(made.String(), "--data "+to+" --master-key "+o.MasterKey) {
		t.Errorf("the backup says %+v: %s", *made, made)
	}
	without := options(to, 2)
	_, err = Open(t.Context(), without)
	says(t, err, "master.key")
	without.MasterKey = o.MasterKey
	open(t, without)
}

func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	r := open(t, options(data, 1))
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	free := filepath.Join(t.TempDir(), "copy")
	for _, c := range []struct {
		name      string
		ctx       context.Context
		data, dir string
		want      string
	}{
		{"a directory that is not empty", t.Context(), data, full, full + " is not empty"},
		{"the region's own directory", t.Context(), data, data, data + " is not empty"},
		{"a file", t.Context(), data, filepath.Join(full, "file"), "not a directory"},
		{"a directory in none", t.Context(), data, filepath.Join(free, "in", "none"), "no such file"},
		{"a directory somewhere", t.Context(), data, "copy", "absolute"},
		{"another region", t.Context(), full, free, "this region is the one in " + data},
		{"who gave up", canceled, data, free, "context canceled"},
	} {
		_, err := r.Backup(c.ctx, c.data, c.dir)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s was answered %v, want %q", c.name, err, c.want)
		}
		if _, err := os.Stat(free); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something is left of the copy: %v", c.name, err)
		}
	}
	if got := names(t, full); !slices.Equal(got, []string{"file"}) {
		t.Errorf("the directory that was not empty now has %q", got)
	}
	empty := t.TempDir()
	_, err := r.Backup(canceled, data, empty)
	says(t, err, "context canceled")
	if left := names(t, empty); len(left) > 0 {
		t.Errorf("%q is left of a copy that was given up", left)
	}
	memory := open(t, options("", 2))
	_, err = memory.Backup(t.Context(), "", free)
	says(t, err, "no data directory")
	_, err = Backup(t.Context(), options(filepath.Join(t.TempDir(), "absent"), 3), free)
	says(t, err, "there is no region in ")
}

// Of those who want the same directory one gets it.
func TestBackupsToTheSamePlace(t *testing.T) {
	t.Parallel()
	r := open(t, options(filepath.Join(t.TempDir(), "data"), 1))
	to := filepath.Join(t.TempDir(), "copy")
	answers := make(chan error)
	const callers = 4
	for range callers {
		go func() {
			_, err := r.Backup(t.Context(), "", to)
			answers <- err
		}()
	}
	made := 0
	for range callers {
		if <-answers == nil {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d of %d backups were made to one directory", made, callers)
	}
	open(t, options(to, 2))
}

// What a backup that was killed has left does not start.
func TestHalfACopyDoesNotStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "copy")
	if _, err := claim(dir); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), options(dir, 1))
	says(t, err, "region.db in "+dir+" is damaged")
	text, err := os.ReadFile(filepath.Join(dir, "region.db"))
	if err != nil || !strings.Contains(string(text), "the backup did not end") {
		t.Errorf("the file says %q (%v)", text, err)
	}
}
