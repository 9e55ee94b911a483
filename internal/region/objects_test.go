package region

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// images are the names of the region's own images, and the version of their
// account.
func images(t *testing.T, r *Region) (names string, version uint64) {
	t.Helper()
	err := r.DB.View(t.Context(), resource.Caller{Account: string(id.Outscale)}, func(tx *resource.Tx) error {
		names, version = "", tx.Version()
		for i := range compute.Images.All(tx) {
			names += " " + i.ImageName
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, version
}

// A region has its images from the first start on, and others if its operator
// says so. A start that changes nothing writes nothing.
func TestImagesOfARegion(t *testing.T) {
	t.Parallel()
	o := options(filepath.Join(t.TempDir(), "data"), 1)
	starts := []struct {
		images  []compute.PublicImage
		want    string
		changes bool
	}{
		{nil, "Debian-12", true},
		{nil, "Debian-12", false},
		{compute.PublicImages()[1:2], " Debian-13-2026.01.12-0", true},
		{compute.PublicImages()[1:2], " Debian-13-2026.01.12-0", false},
		{[]compute.PublicImage{}, "", true},
	}
	before := uint64(0)
	for n, start := range starts {
		o.Images = start.images
		r, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		names, version := images(t, r)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if fine := names == start.want || start.images == nil && strings.Contains(names, start.want); !fine ||
			(version > before) != start.changes {
			t.Errorf("start %d: the images are%s at version %d after %d", n+1, names, version, before)
		}
		before = version
	}
}

// export has the driver of a region write an export.
func export(t *testing.T, r *Region, object string) {
	t.Helper()
	e := driver.Export{Format: "raw", Bucket: "bucket", Object: object}
	if err := r.drivers.(*sim.Driver).Write(context.Background(), e, 5, io.LimitReader(strings.NewReader("content"), 5),
		func(int) {}); err != nil {
		t.Fatal(err)
	}
}

func TestObjectsAreInTheDataDirectory(t *testing.T) {
	t.Parallel()
	data, elsewhere := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "objects")
	for dir, url := range map[string]string{filepath.Join(data, "objects"): "", elsewhere: "file://" + elsewhere} {
		o := options(data, 1)
		o.ObjectStore.URL = url
		r, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		export(t, r, "a/b.raw")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "bucket", "a", "b.raw")); !bytes.Equal(got, []byte("conte")) {
			t.Errorf("in %s is %q, %v", dir, got, err)
		}
	}
}

// Files are made in the data directory: there may be no other. What was left
// there by a process that was killed is gone after the start of the next one.
func TestFilesAreMadeInTheDataDirectory(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	t.Setenv("TMPDIR", nowhere)
	data := filepath.Join(t.TempDir(), "data")
	left := filepath.Join(data, "exporting", "export-1")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), options(data, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	export(t, r, "a.raw")
	if got := names(t, filepath.Join(data, "exporting")); len(got) != 0 {
		t.Errorf("%v is left", got)
	}
}

// A region without a directory leaves nothing behind.
func TestObjectsEndWithTheRegion(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	r, err := Open(t.Context(), options("", 1))
	if err != nil {
		t.Fatal(err)
	}
	export(t, r, "a.raw")
	if got := names(t, temporary); len(got) != 1 {
		t.Errorf("there are %v", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if got := names(t, temporary); len(got) != 0 {
		t.Errorf("%v is left", got)
	}
}

func TestObjectStoreRefused(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"ftp://example.com":                 "neither http:",
		"objects":                           "neither http:",
		"file://host/dir":                   "neither http:",
		"https://":                          "not a URL",
		"https://key:hunter2@example.com":   "into the environment",
		"https://key:hunter2@exa mple.com/": "cannot be read",
	} {
		o := options("", 1)
		o.ObjectStore.URL = url
		r, err := Open(t.Context(), o)
		if err == nil {
			r.Close()
		}
		says(t, err, want)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v tells the secret", err)
		}
	}
	o := options("", 1)
	o.ObjectStore = ObjectStore{URL: "https://oos.example.com?region=eu-west-2", AccessKey: "key", SecretKey: "secret"}
	open(t, o)
}
