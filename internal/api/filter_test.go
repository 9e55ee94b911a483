package api

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/resource"
)

// passes says in plain words what the filters of gardens mean. It is what the
// derived filters are compared with.
func passes(f *FiltersGarden, g *garden) bool {
	tag := func(match func(Tag) bool) bool { return slices.ContainsFunc(g.Tags, match) }
	return (len(f.GardenIds) == 0 || slices.Contains(f.GardenIds, g.GardenId)) &&
		(len(f.PlotIds) == 0 || slices.Contains(f.PlotIds, g.PlotId)) &&
		(len(f.Titles) == 0 || slices.ContainsFunc(f.Titles, func(pattern string) bool {
			// Titles have no slash and no bracket, where path.Match differs.
			ok, _ := path.Match(pattern, g.Title)
			return ok
		})) &&
		(len(f.Berries) == 0 || slices.Contains(f.Berries, g.Berry)) &&
		(len(f.Boxes) == 0 || slices.Contains(f.Boxes, g.Box)) &&
		(f.Open == nil || *f.Open == g.Open) &&
		(len(f.Sizes) == 0 || slices.Contains(f.Sizes, g.Size)) &&
		(len(f.Shares) == 0 || slices.Contains(f.Shares, g.Share)) &&
		(f.Planted == nil || *f.Planted == g.Planted) &&
		(f.From == nil || *f.From <= g.Planted) &&
		(f.To == nil || *f.To >= g.Planted) &&
		(len(f.BedFlowers) == 0 || slices.ContainsFunc(g.Beds, func(b bed) bool { return slices.Contains(f.BedFlowers, b.Flower) })) &&
		(len(f.BedRows) == 0 || slices.ContainsFunc(g.Beds, func(b bed) bool { return slices.Contains(f.BedRows, b.Rows) })) &&
		(len(f.InBeds) == 0 || slices.ContainsFunc(g.Beds, func(b bed) bool { return slices.Contains(f.InBeds, 7*b.Rows) })) &&
		(len(f.Areas) == 0 || slices.Contains(f.Areas, 10*g.Size)) &&
		(len(f.TagKeys) == 0 || tag(func(t Tag) bool { return slices.Contains(f.TagKeys, t.Key) })) &&
		(len(f.TagValues) == 0 || tag(func(t Tag) bool { return slices.Contains(f.TagValues, t.Value) })) &&
		(len(f.Tags) == 0 || tag(func(t Tag) bool { return slices.Contains(f.Tags, t.Key+"="+t.Value) })) &&
		(len(f.Labels) == 0 || tag(func(t Tag) bool {
			return slices.ContainsFunc(f.Labels, func(l resource.Tag) bool {
				return (l.Key == "" || l.Key == t.Key) && (l.Value == "" || l.Value == t.Value)
			})
		}))
}

// few draws one of few values, so that filters hit.
func few[V any](t *rapid.T, label string, values ...V) V {
	return rapid.SampledFrom(values).Draw(t, label)
}

// some draws a list of few values, often none. Now and then it is long, although it
// says no more.
func some[V any](t *rapid.T, label string, values ...V) []V {
	if rapid.IntRange(0, 3).Draw(t, label+"?") > 0 {
		return nil
	}
	list := rapid.SliceOfN(rapid.SampledFrom(values), 0, 3).Draw(t, label)
	return slices.Repeat(list, rapid.SampledFrom([]int{1, 1, fewValues + 1}).Draw(t, label+" said"))
}

func TestFiltersMeanWhatTheySay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newTown(t)
		defer w.db.Close()
		var all []*garden
		for i := range rapid.IntRange(0, 8).Draw(t, "gardens") {
			g := &garden{
				Title: fmt.Sprint(few(t, "title", "Eden", "Kew", ""), " ", i), Berry: few(t, "berry", "red", "blue", ""),
				Box: few(t, "box", "a", "b"), Open: few(t, "open", true, false), Size: few(t, "size", 1, 2), Share: few(t, "share", 0.5, 1),
				Planted: few(t, "planted", DateTime(0), 86_400_000),
			}
			for range rapid.IntRange(0, 2).Draw(t, "beds") {
				g.Beds = append(g.Beds, bed{Flower: few(t, "flower", "rose", "iris"), Rows: few(t, "rows", 1, 2, 3)})
			}
			for _, key := range some(t, "keys", "k", "l:m", "n=o") {
				g.Tags = append(g.Tags, Tag{Key: key, Value: few(t, "value", "", "v", ":w", "x=y")})
			}
			if len(all) > 0 && rapid.Bool().Draw(t, "the same plot") {
				g.PlotId = all[0].PlotId
			}
			all = append(all, w.plant(g))
		}
		filters := &FiltersGarden{
			Titles: some(t, "titles", "Eden 0", "Kew*", "* 1", "?den ?", "*", " 2"), Berries: some(t, "berries", "red", "green", ""),
			Boxes: some(t, "boxes", "a", "c"), Sizes: some(t, "sizes", 1, 3), Shares: some(t, "shares", 0.5, 2),
			BedFlowers: some(t, "flowers", "rose", "tulip"), BedRows: some(t, "bed rows", 2, 3), InBeds: some(t, "in beds", 7, 21, 8),
			Areas: some(t, "areas", 10, 30),
			Labels: some(t, "labels", resource.Tag{Key: "k"}, resource.Tag{Key: "k", Value: "v"}, resource.Tag{Value: ":w"},
				resource.Tag{Key: "m"}, resource.Tag{}),
			TagFilters: TagFilters{
				TagKeys: some(t, "tag keys", "k", "n=o"), TagValues: some(t, "tag values", "v", ""), Tags: some(t, "tags", "k=v", "l:m=:w", "n=o=x=y"),
			},
		}
		if len(all) > 0 {
			ids, plots := []gardenID{"garden-00000000"}, []plotID{"plot-00000000"}
			for _, g := range all {
				ids, plots = append(ids, g.GardenId), append(plots, g.PlotId)
			}
			filters.GardenIds, filters.PlotIds = some(t, "ids", ids...), some(t, "plots", plots...)
		}
		if rapid.IntRange(0, 3).Draw(t, "by open") == 0 {
			filters.Open = new(bool)
		}
		want := []string{}
		for _, g := range all {
			if passes(filters, g) {
				want = append(want, g.Title)
			}
		}
		body, err := json.Marshal(map[string]any{"Filters": filters})
		if err != nil {
			t.Fatal(err)
		}
		// A nil filter is written as null, which is none.
		var answer struct{ Gardens []struct{ Title string } }
		if err := json.Unmarshal([]byte(w.ask("ReadGardens", string(body))), &answer); err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, g := range answer.Gardens {
			got = append(got, g.Title)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s selects %q, want %q", body, got, want)
		}
	})
}

// A resource is not compared with each of many values. Only patterns are tried one
// by one, and of those only what has a * or a ?.
func TestManyValuesBecomeASet(t *testing.T) {
	t.Parallel()
	s := newSelection(reflect.TypeFor[FiltersGarden](), reflect.TypeFor[garden]())
	many := slices.Repeat([]string{"rose"}, fewValues+1)
	sizes := slices.Repeat([]int{1}, fewValues+1)
	asked := s.ask(reflect.ValueOf(FiltersGarden{
		Titles: append(many, "Kew*"), BedFlowers: many, Sizes: sizes, Labels: slices.Repeat([]resource.Tag{{Key: "k"}}, fewValues+1),
		TagFilters: TagFilters{TagKeys: many, TagValues: many, Tags: many},
	}))
	all := slices.Concat(asked.stored, asked.computed)
	if len(all) != 7 {
		t.Fatalf("%d filters are asked for, want 7", len(all))
	}
	for _, c := range all {
		if got := len(c.texts) + len(c.numbers); !c.isSet || got != 1 {
			t.Errorf("%s: %d values in a set (%t), want 1", c.name, got, c.isSet)
		}
		if c.glob != slices.Equal(c.globs, []string{"Kew*"}) {
			t.Errorf("%s tries %q one by one", c.name, c.globs)
		}
	}
}

func TestFilterByDate(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.plant(&garden{Title: "old", Planted: 86_400_000})
	w.plant(&garden{Title: "new", Planted: 86_400_001})
	for filters, want := range map[string][]string{
		`{"Planted": "1970-01-02"}`:            {"old"},
		`{"From": "1970-01-02"}`:               {"old", "new"},
		`{"From": "1970-01-02T00:00:00.001Z"}`: {"new"},
		`{"From": "1970-01-02T00:00:00.002Z"}`: nil,
		`{"To": "1970-01-02T00:00:00.001Z"}`:   {"old", "new"},
		`{"To": "1970-01-02"}`:                 {"old"},
		`{"To": "1970-01-01"}`:                 nil,
		`{"From": "1970-01-02T00:00:00.001Z", "To": "1970-01-02T00:00:00.001Z"}`: {"new"},
		`{"From": "1970-01-03", "To": "1970-01-01"}`:                             nil,
	} {
		if _, got := w.page("ReadGardens", `{"Filters": `+filters+`}`); !slices.Equal(got, want) {
			t.Errorf("%s selects %q, want %q", filters, got, want)
		}
	}
}

func TestNoFilters(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.plant(&garden{Title: "only"})
	for _, body := range []string{``, `{}`, `{"Filters":null}`, `{"Filters":{}}`, `{"Filters":{"Titles":[],"Open":null,"TagKeys":[]}}`} {
		if got := w.ask("ReadGardens", body); !strings.Contains(got, "only") {
			t.Errorf("%q selects %s", body, got)
		}
	}
}

func TestFiltersThatSelectByNothing(t *testing.T) {
	t.Parallel()
	for name, filters := range map[string]any{
		"no such field": struct{ Colours []string }{},
		"no such path": struct {
			Titles []string `path:"Beds.Title"`
		}{},
		"no such part": struct {
			Titles []string `path:"Title.Length"`
		}{},
		"another type": struct{ Sizes []string }{},
		"a type by another path": struct {
			Titles []string `path:"Beds.Rows"`
		}{},
		"a boolean by a text": struct{ Open *string }{},
		"no such inner field": struct{ BedTitles []string }{},
		"a struct":            struct{ Beds []string }{},
		"a bound of texts": struct {
			First *string `path:"Title" match:"from"`
		}{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Errorf("%T is accepted", filters)
				}
			}()
			newSelection(reflect.TypeOf(filters), reflect.TypeFor[garden]())
		})
	}
}

// The name of a filter spells a path through structs and lists of structs.
func TestNamesSpellPaths(t *testing.T) {
	t.Parallel()
	type fence struct{ Height, Entries, Entry int }
	type shed struct {
		Fence    *fence
		ToolName string
	}
	type yard struct {
		Sheds     []shed
		Tool      *struct{ Name string }
		ToolName  string
		ShedFence struct{ Height, Colour int }
		Ivy, Boxes, Lilies,
		Sizes, Size int
	}
	for name, want := range map[string][]string{
		"ToolName":         {"ToolName"}, // before Tool.Name: it is the field of that name
		"ToolNames":        {"Tool.Name", "ToolName"},
		"Ivies":            {"Ivy"},
		"Boxes":            {"Boxes"},
		"Sizes":            {"Sizes"},
		"ShedToolNames":    {"Sheds.ToolName"},
		"ShedFenceHeights": {"Sheds.Fence.Height", "ShedFence.Height"},
		"ShedFenceColours": {"ShedFence.Colour"},
		"ShedsFenceEntry":  {"Sheds.Fence.Entry"},
		"ShedFenceEntries": {"Sheds.Fence.Entries"},
		"Sheds":            nil,
		"Colours":          nil,
	} {
		if got := spelledPaths(name, reflect.TypeFor[yard]()); !slices.Equal(got, want) {
			t.Errorf("%s spells %q, want %q", name, got, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a filter that spells two paths is accepted")
		}
	}()
	newSelection(reflect.TypeFor[struct{ ToolNames []string }](), reflect.TypeFor[yard]())
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"**", "", true}, {"?", "", false}, {"?", "é", true},
		{"??", "é", false}, {"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "abcabc", true}, {"a*b", "abc", false}, {"*b*", "abc", true},
		{"a?c", "abc", true}, {"Debian-12-*", "Debian-12-2026", true}, {"Debian-12-*", "Debian-11-2026", false},
		{"ubuntu/*", "ubuntu/images/noble", true}, {"a[bc]", "a[bc]", true}, {"a[bc]", "ab", false}, {`a\*`, `a\b`, true}, {"[", "[", true},
		{"*aab", "aaaab", true}, {"a*a*a*b", strings.Repeat("a", 1000), false}, {"*?", "", false}, {"*??1", "éz1é1", true}, {"*?1", "1", false},
	} {
		if got := glob(tt.pattern, tt.text); got != tt.want {
			t.Errorf("glob(%q, %.20q) = %v, want %v", tt.pattern, tt.text, got, tt.want)
		}
	}
}
