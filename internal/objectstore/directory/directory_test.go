package directory

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/clock"
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
		code              apierror.Code
	}{
		{"up", "bucket", "../../secret", apierror.InvalidValue},
		{"up in the middle", "bucket", "a/../../../secret", apierror.InvalidValue},
		{"from the root", "bucket", "/etc/passwd", apierror.InvalidValue},
		{"nothing", "bucket", "", apierror.InvalidValue},
		{"a directory", "bucket", "exports/", apierror.InvalidValue},
		{"what is being written", "bucket", ".partial-1", apierror.InvalidValue},
		{"the owner", "bucket", ".owner", apierror.InvalidValue},
		{"the owner, where letters have no case", "bucket", ".Owner", apierror.InvalidValue},
		{"an owner below", "bucket", "a/.owner/b", apierror.InvalidValue},
		{"a bucket of the owner", ".owner", "secret", apierror.BucketNotFound},
		{"a bucket up", "..", "secret", apierror.BucketNotFound},
		{"this directory", ".", "secret", apierror.BucketNotFound},
		{"no bucket", "", "secret", apierror.BucketNotFound},
		{"a bucket with a slash", "a/b", "secret", apierror.BucketNotFound},
		{"a bucket of what is being written", ".partial-1", "secret", apierror.BucketNotFound},
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
		if err := s.Put(t.Context(), b, test.key, strings.NewReader("x"), 1); (err == nil) != test.fine || err != nil &&
			!apierror.InvalidValue.Is(err) {
			t.Errorf("%s: %v", test.key, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, partial+"*")); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// A bucket belongs to the account that was the first to write to it, also after
// a restart.
func TestOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	alice, bob := objectstore.Bucket{Name: "bucket", Account: "111111111111"}, objectstore.Bucket{Name: "bucket", Account: "222222222222"}
	s := open(t, dir, time.Now)
	for _, b := range []objectstore.Bucket{alice, bob} {
		if err := s.CheckBucket(t.Context(), b); err != nil {
			t.Errorf("before anything is written: %v", err)
		}
	}
	if err := s.Put(t.Context(), alice, "one", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.CheckBucket(t.Context(), bob); !apierror.StoreUnreachable.Is(err) || !strings.Contains(err.Error(), "'bucket'") {
			t.Errorf("the bucket of another account: %v", err)
		}
		for _, key := range []string{"one", "two", "a/../../bucket/one"} {
			if err := s.Put(t.Context(), bob, key, strings.NewReader("y"), 1); !apierror.StoreUnreachable.Is(err) {
				t.Errorf("%s is put into the bucket of another account: %v", key, err)
			}
		}
		if err := s.Put(t.Context(), alice, "two", strings.NewReader("x"), 1); err != nil {
			t.Errorf("the owner is refused: %v", err)
		}
		s = open(t, dir, time.Now)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "bucket", "one")); string(text) != "x" {
		t.Errorf("the object is %q, %v", text, err)
	}
	other := objectstore.Bucket{Name: "other", Account: bob.Account}
	if err := s.Put(t.Context(), other, "one", strings.NewReader("y"), 1); err != nil {
		t.Errorf("a bucket of its own: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, partial+"*")); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// Of accounts that write to a new bucket at once, by two processes, one gets it.
func TestOwnerOfManyAtOnce(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		dir := t.TempDir()
		stores := []*Store{open(t, dir, time.Now), open(t, dir, time.Now)}
		var all sync.WaitGroup
		var wrote sync.Map
		for account := range 8 {
			all.Go(func() {
				b := objectstore.Bucket{Name: "bucket", Account: strconv.Itoa(account)}
				switch err := stores[account%2].Put(t.Context(), b, b.Account, strings.NewReader("x"), 1); {
				case err == nil:
					wrote.Store(b.Account, true)
				case !apierror.StoreUnreachable.Is(err):
					t.Errorf("%s: %v", b.Account, err)
				}
			})
		}
		all.Wait()
		found, err := os.ReadDir(filepath.Join(dir, "bucket"))
		if err != nil || len(found) != 2 || found[0].Name() != ownerFile {
			t.Fatalf("round %d: in the bucket are %v, %v", round, found, err)
		}
		winner := found[1].Name()
		if _, ok := wrote.Load(winner); !ok {
			t.Errorf("%s has written and was told that it has not", winner)
		}
		if owner, err := os.ReadFile(filepath.Join(dir, "bucket", ownerFile)); string(owner) != winner+"\n" {
			t.Errorf("%s has written, and the owner is %q, %v", winner, owner, err)
		}
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
	if err := fetch(other, url); !apierror.ManifestNotFound.Is(err) {
		t.Errorf("another key: %v", err)
	}
	c.Advance(objectstore.MaxLifetime)
	if err := fetch(s, url); err != nil {
		t.Errorf("at the last moment: %v", err)
	}
	c.Advance(time.Second)
	if err := fetch(s, url); !apierror.ManifestNotFound.Is(err) || !strings.Contains(err.Error(), "2026-11-27T10:00:00Z") {
		t.Errorf("after seven days: %v", err)
	}
	if err := fetch(s, strings.Replace(url, "Expires=1", "Expires=2", 1)); !apierror.ManifestNotFound.Is(err) {
		t.Errorf("with another time: %v", err)
	}
}

// What is not the store's own URL is a stranger's.
func TestStrangers(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), time.Now)
	for _, url := range []string{"file:///etc/passwd", "http://127.0.0.1:1/x", "bucket/key", "http://[::1]/"} {
		if _, err := s.Fetch(t.Context(), url, 10); !apierror.InvalidURL.Is(err) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
