package compute

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The life cycles in the documentation are drawn from the tables that the loops
// go by. `DRAW=1 go test -run TestLives` draws them anew.
func TestLives(t *testing.T) {
	t.Parallel()
	type life interface {
		Check() error
		Mermaid() string
	}
	var drawn strings.Builder
	drawn.WriteString("# The lives of compute resources\n\nDrawn by `DRAW=1 go test ./internal/cloud/compute -run TestLives` from the tables that the loops go by.\n")
	for _, l := range []struct {
		of string
		life
	}{
		{"VM", vmLife},
		{"VM group", vmGroupLife},
		{"Volume", volumeLife},
		{"Volume on a VM", volumeLinkLife},
		{"Update of a volume", volumeUpdateLife},
		{"Snapshot", snapshotLife},
		{"Image", imageLife},
		{"Export of an image", imageExportLife},
		{"Export of a snapshot", snapshotExportLife},
		{"Flexible GPU", gpuLife},
	} {
		if err := l.Check(); err != nil {
			t.Errorf("%s: %v", l.of, err)
		}
		fmt.Fprintf(&drawn, "\n## %s\n\n```mermaid\n%s\n```\n", l.of, strings.TrimSpace(l.Mermaid()))
	}
	const page = "../../../docs/life.md"
	if os.Getenv("DRAW") != "" {
		if err := os.WriteFile(page, []byte(drawn.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != drawn.String() {
		t.Errorf("%s does not show the tables: draw it anew", page)
	}
}
