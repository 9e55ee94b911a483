package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/bastide-cloud/bastide"
)

func TestOpenAPIIsUpToDate(t *testing.T) {
	t.Parallel()
	doc, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(doc, bastide.OpenAPI) {
		t.Error("openapi.json is not what the Go types say: run make derived")
	}
}

func TestReferencesLeadSomewhere(t *testing.T) {
	t.Parallel()
	var doc map[string]any
	if err := json.Unmarshal(bastide.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	components := doc["components"].(map[string]any)
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				kind, name := filepath.Split(ref)
				section, _ := components[filepath.Base(kind)].(map[string]any)
				if section[name] == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, member := range v {
				visit(member)
			}
		case []any:
			for _, item := range v {
				visit(item)
			}
		}
	}
	visit(doc)
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := `package town

// House is where people
// live.
type House struct {
	Doors int // how to get in
	// Windows are how to look out.
	Windows, Walls int
	Roof string
}

type (
	Key  string // opens a door
	// Lock is what a [Key] fits.
	Lock string
	Bolt string
)
`
	for name, text := range map[string]string{"town.go": source, "town_test.go": "not Go", "README": "not Go either"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Describe(dir, filepath.Join(dir, "nowhere"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"town.House":         "House is where people live.",
		"town.House.Doors":   "how to get in",
		"town.House.Windows": "Windows are how to look out.",
		"town.House.Walls":   "Windows are how to look out.",
		"town.Key":           "opens a door",
		"town.Lock":          "Lock is what a [Key] fits.",
	}
	if len(got) != len(want) {
		t.Errorf("described %d names, want %d: %v", len(got), len(want), got)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is described as %q, want %q", name, got[name], text)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "broken.go"), []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Describe(dir); err == nil {
		t.Error("a file that is not Go is no error")
	}
}
