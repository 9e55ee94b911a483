package directory

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/objectstoretest"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string, now func() time.Time) *Store {
	t.Helper()
	s, err := Open(dir, []byte("key"), now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	objectstoretest.Run(t, func(t *testing.T) (objectstore.Store, objectstore.Bucket) {
		return open(t, t.TempDir(), time.Now), objectstore.Bucket{Name: "bucket"}
	})
}

// No name leads out of the directory, or to what is being written.
func TestNames(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	s := open(t, filepath.Join(above, "objects"), time.Now)
	for _, test := range []struct {
		name, bucket, key string
		code              fault.Code
	}{
		{"up", "bucket", "../../secret", fault.InvalidValue},
		{"up in the middle", "bucket", "a/../../../secret", fault.InvalidValue},
		{"from the root", "bucket", "/etc/passwd", fault.InvalidValue},
		{"nothing", "bucket", "", fault.InvalidValue},
		{"a directory", "bucket", "exports/", fault.InvalidValue},
		{"what is being written", "bucket", ".partial-1", fault.InvalidValue},
		{"a bucket up", "..", "secret", fault.BucketNotFound},
		{"this directory", ".", "secret", fault.BucketNotFound},
		{"no bucket", "", "secret", fault.BucketNotFound},
		{"a bucket with a slash", "a/b", "secret", fault.BucketNotFound},
		{"a bucket of what is being written", ".partial-1", "secret", fault.BucketNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := s.Put(t.Context(), objectstore.Bucket{Name: test.bucket}, test.key, strings.NewReader("x"), 1); !test.code.Is(err) {
				t.Errorf("got %v, want %s", err, test.code)
			}
		})
	}
	if got, _ := os.ReadDir(above); len(got) != 1 {
		t.Errorf("there are %v beside the store", got)
	}
}

// A key that goes on after another one cannot be a file; nothing is left behind.
func TestKeyBelowAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, b := open(t, dir, time.Now), objectstore.Bucket{Name: "bucket"}
	for _, test := range []struct {
		key  string
		fine bool
	}{{"a", true}, {"a/b", false}, {"c/d", true}, {"c", false}} {
		if err := s.Put(t.Context(), b, test.key, strings.NewReader("x"), 1); (err == nil) != test.fine || err != nil && !fault.InvalidValue.Is(err) {
			t.Errorf("%s: %v", test.key, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, partial+"*")); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// Two processes may have one directory, and one may have ended while it wrote.
func TestSharedDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, partial+"1"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := objectstore.Bucket{Name: "bucket"}
	for range 2 {
		if err := open(t, dir, time.Now).Put(t.Context(), b, "one", strings.NewReader("x"), 1); err != nil {
			t.Error(err)
		}
	}
	if half, err := os.ReadFile(filepath.Join(dir, partial+"1")); string(half) != "half" {
		t.Errorf("what another one writes is %q, %v", half, err)
	}
}

// A URL ends with its time, and with the key that signed it.
func TestSignedURL(t *testing.T) {
	t.Parallel()
	c := clock.NewVirtual(start)
	dir := t.TempDir()
	s, b := open(t, dir, c.Now), objectstore.Bucket{Name: "bucket"}
	if err := s.Put(t.Context(), b, "one two?.json", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	url, err := s.Sign(t.Context(), b, "one two?.json", 30*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(s *Store, url string) error {
		_, err := s.Fetch(context.Background(), url, 10)
		return err
	}
	if err := fetch(s, url); err != nil {
		t.Errorf("%s: %v", url, err)
	}
	other, err := Open(dir, []byte("another key"), c.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := fetch(other, url); !fault.ManifestNotFound.Is(err) {
		t.Errorf("another key: %v", err)
	}
	c.Advance(objectstore.MaxLifetime)
	if err := fetch(s, url); err != nil {
		t.Errorf("at the last moment: %v", err)
	}
	c.Advance(time.Second)
	if err := fetch(s, url); !fault.ManifestNotFound.Is(err) || !strings.Contains(err.Error(), "2026-11-27T10:00:00Z") {
		t.Errorf("after seven days: %v", err)
	}
	if err := fetch(s, strings.Replace(url, "Expires=1", "Expires=2", 1)); !fault.ManifestNotFound.Is(err) {
		t.Errorf("with another time: %v", err)
	}
}

// What is not the store's own URL is a stranger's.
func TestStrangers(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), time.Now)
	for _, url := range []string{"file:///etc/passwd", "http://127.0.0.1:1/x", "bucket/key", "http://[::1]/"} {
		if _, err := s.Fetch(t.Context(), url, 10); !fault.InvalidURL.Is(err) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
