package cloud

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
)

// lives are the lives of all kinds, and of the parts of resources, by name.
func lives() map[string]lifecycle.Life {
	all := map[string]lifecycle.Life{}
	maps.Copy(all, network.Lives())
	maps.Copy(all, compute.Lives())
	for _, k := range Kinds() {
		if facts := k.Facts(); facts.Life != nil {
			all[facts.Name] = facts.Life
		}
	}
	return all
}

// The lives in the documentation are drawn from the tables that rules and loops go
// by. `DRAW=1 go test -run TestLives` draws them anew.
func TestLives(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString("# The lives of resources\n\n" +
		"Drawn by `DRAW=1 go test ./internal/cloud -run TestLives` from the tables that rules and loops go by.\n")
	all := lives()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name].Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		fmt.Fprintf(&page, "\n## %s\n\n```mermaid\n%s\n```\n", name, strings.TrimSpace(lifecycle.Mermaid(all[name])))
	}
	const file = "../../docs/life.md"
	if os.Getenv("DRAW") != "" {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != page.String() {
		t.Errorf("%s does not show the tables: draw it anew", file)
	}
}
