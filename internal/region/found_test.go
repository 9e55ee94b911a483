package region

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ending is a source of randomness that ends a context at the n-th time that it
// is read.
type ending struct {
	io.Reader
	reads int
	end   func()
}

func (e *ending) Read(p []byte) (int, error) {
	if e.reads--; e.reads == 0 {
		e.end()
	}
	return e.Reader.Read(p)
}

// credentials are the names of the files of credentials in a directory.
func credentials(t *testing.T, data string) []string {
	t.Helper()
	return slices.DeleteFunc(names(t, data), func(name string) bool { return !strings.HasPrefix(name, RootFile) })
}

// A founding that is interrupted leaves no credentials, and the next start
// founds the region; or else the region was founded, and the next start shows
// them.
func TestInterruptedFounding(t *testing.T) {
	t.Parallel()
	var before, after int // the foundings that were interrupted before and after their commit
	for reads := 1; ; reads++ {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		data := filepath.Join(t.TempDir(), "data")
		o := options(data, 1)
		random := &ending{o.Rand, reads, end}
		o.Rand = random
		r, err := Open(ctx, o)
		if err == nil {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if random.reads > 0 {
				break // it was over before
			}
			continue
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted at the read %d: %v", reads, err)
		}
		left := credentials(t, data)
		if r, err = Open(t.Context(), options(data, 2)); err != nil {
			t.Fatal(err)
		}
		switch {
		case r.Founded != nil:
			before++
			if len(left) != 0 {
				t.Errorf("interrupted at the read %d, it leaves %q and no region", reads, left)
			}
		case r.Unshown == nil:
			t.Errorf("interrupted at the read %d, it leaves a region and %q, which are not shown", reads, left)
		default:
			after++
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if before < 5 || after == 0 {
		t.Errorf("%d foundings were interrupted before their commit and %d after it", before, after)
	}
}

// Credentials that no start has shown are shown by the next one, but for what
// the operator has given; those that never became valid are removed.
func TestCredentialsAreShownOnce(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(data, RootFile+".FOREIGN")
	if err := os.WriteFile(foreign, []byte(`{"account_id": "123456789012", "access_key": "FOREIGN"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(data, 1)
	o.Root.Password = "a password that was given"
	var first *Root
	for start := range 3 {
		r, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		root := r.Unshown
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		o.Root = Root{} // the next start is told nothing
		switch start {
		case 0:
			first = root
			if left := credentials(t, data); len(left) != 1 || root == nil || left[0] != filepath.Base(root.unconfirmed()) {
				t.Errorf("before they are shown, there are %q", left)
			}
		case 1:
			if root == nil || root.SecretKey != first.SecretKey || root.Password != first.Password {
				t.Fatalf("the second start has %v to show, not %v", root, first)
			}
			if text := root.String(); !strings.Contains(text, root.SecretKey) || strings.Contains(text, root.Password) ||
				!strings.Contains(text, "password    (as given)") {
				t.Errorf("it shows\n%s", text)
			}
			if err := root.Shown(); err != nil {
				t.Error(err)
			}
		case 2:
			if root != nil {
				t.Errorf("the third start has %v to show", root)
			}
			if kept, err := ReadRoot(data); err != nil || kept.SecretKey != first.SecretKey || kept.Password != first.Password {
				t.Errorf("kept are %v, %v", kept, err)
			}
		}
	}
}

// What is wrong with the options is found before anything is made.
func TestNothingIsMadeOfWrongOptions(t *testing.T) {
	t.Parallel()
	o := options(filepath.Join(t.TempDir(), "data"), 1)
	o.ObjectStore.URL = "ftp://example.com"
	_, err := Open(t.Context(), o)
	says(t, err, "object store")
	if _, err := os.Stat(o.Data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
}
