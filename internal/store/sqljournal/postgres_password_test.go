package sqljournal

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The password comes from the URL, from what the program was given, or from where
// PostgreSQL's own programs look.
func TestPostgresPassword(t *testing.T) {
	passfile := filepath.Join(t.TempDir(), "passfile")
	if err := os.WriteFile(passfile, []byte("db:5432:region:bastide:of the file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const address = "postgres://bastide@db:5432/region"
	for _, c := range []struct {
		name, address, given string
		environment          map[string]string
		want                 string // empty: it is refused
	}{
		{"in the URL", "postgres://bastide:hunter2@db:5432/region", "", nil, "hunter2"},
		{"given", address, "hunter2", nil, "hunter2"},
		{"given, before the environment's", address, "hunter2", map[string]string{"PGPASSWORD": "other"}, "hunter2"},
		{"in the environment", address, "", map[string]string{"PGPASSWORD": "hunter2"}, "hunter2"},
		{"in a file of the environment", address, "", map[string]string{"PGPASSFILE": passfile}, "of the file"},
		{"in a file of the URL", address + "?passfile=" + passfile, "", nil, "of the file"},
		{"given twice", "postgres://bastide:hunter2@db:5432/region", "hunter3", nil, ""},
		{"given twice, as a parameter", address + "?password=hunter2", "hunter3", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.environment {
				t.Setenv(name, value)
			}
			config, err := (&Postgres{password: c.given, random: rand.Reader}).configure(c.address)
			switch {
			case c.want == "" && (err == nil || strings.Contains(err.Error(), "hunter")):
				t.Errorf("it is refused with %v", err)
			case c.want != "" && err != nil:
				t.Error(err)
			case c.want != "" && config.ConnConfig.Password != c.want:
				t.Errorf("the password is %q, want %q", config.ConnConfig.Password, c.want)
			}
		})
	}
}
