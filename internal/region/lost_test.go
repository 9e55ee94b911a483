package region

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

// contents are all files below a directory, and what is in them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// foundAndClose founds a region, shows its credentials and closes it.
func foundAndClose(t *testing.T, o Options) {
	t.Helper()
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Founded == nil {
		t.Error("no region was founded")
	} else if err := r.Unshown.Shown(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// A directory whose region.db is lost is not that of a new region, unless the
// operator says so. A refusal changes nothing.
func TestLostState(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		lose func(file string) error
		also []string // what else is lost
		want string   // in the refusal; empty: a region is founded
	}{
		{"missing", os.Remove, nil, "has left root-credentials.json and apilog, and its region.db is gone or empty"},
		{"empty", func(file string) error { return os.Truncate(file, 0) }, nil, "gone or empty"},
		{"only the log is left", os.Remove, []string{RootFile, keyFile}, "has left apilog,"},
		{"only the credentials are left", os.Remove, []string{logDir, keyFile}, "has left root-credentials.json,"},
		{"only the master key is left", os.Remove, []string{logDir, RootFile}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			foundAndClose(t, options(data, 1))
			if err := test.lose(filepath.Join(data, "region.db")); err != nil {
				t.Fatal(err)
			}
			for _, name := range test.also {
				if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
					t.Fatal(err)
				}
			}
			o := options(data, 2)
			if test.want != "" {
				before := contents(t, data)
				_, err := Open(t.Context(), o)
				says(t, err, test.want)
				says(t, err, data)
				says(t, err, "--found-anew")
				after := contents(t, data)
				for name, text := range after {
					if was, ok := before[name]; !ok || was != text {
						t.Errorf("the refusal has changed %s", name)
					}
				}
				if len(after) != len(before) {
					t.Errorf("the refusal has left %d files of %d", len(after), len(before))
				}
				o.FoundAnew = true
			}
			foundAndClose(t, o)
		})
	}
}

// An empty database is refused as well where a region has left its credentials:
// they would be replaced.
func TestLostDatabase(t *testing.T) {
	t.Parallel()
	o := options(filepath.Join(t.TempDir(), "data"), 1)
	o.Postgres = postgrestest.Start(t)
	foundAndClose(t, o)
	o.Postgres = postgrestest.Start(t)
	_, err := Open(t.Context(), o)
	says(t, err, "has left root-credentials.json, and the database holds none")
	o.FoundAnew = true
	foundAndClose(t, o)
}
