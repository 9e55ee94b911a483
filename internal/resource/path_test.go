package resource_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bastide-cloud/bastide/internal/resource"
)

// A tree of all that a path may pass.
type (
	trunk struct {
		Name     string
		Stump    branch
		Limb     *branch
		Branches []branch
		Shoots   []*branch
		Marks    []string
		Owner    *string
		Rings    [][]ring
		branch
		Crown
		hidden string
	}
	branch struct {
		Length int
		Leaf   *leaf
		Leaves []leaf
	}
	leaf  struct{ Color string }
	ring  struct{ Year int }
	Crown struct{ Height int }
)

func sample() trunk {
	return trunk{
		Name:     "oak",
		Stump:    branch{Length: 1, Leaf: &leaf{"brown"}},
		Branches: []branch{{Length: 2, Leaves: []leaf{{"green"}, {"red"}}}, {Length: 3}, {Length: 4, Leaves: []leaf{{"gold"}}}},
		Shoots:   []*branch{nil, {Length: 5, Leaf: &leaf{"pale"}}},
		Marks:    []string{"x", "y"},
		Owner:    new("squirrel"),
		Rings:    [][]ring{{{1}, {2}}, nil, {{3}}},
		Crown:    Crown{Height: 9},
		hidden:   "hollow",
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path string
		end  reflect.Type
		want []any
	}{
		{"Name", reflect.TypeFor[string](), []any{"oak"}},
		{"Stump.Length", reflect.TypeFor[int](), []any{1}},
		{"Stump.Leaf.Color", reflect.TypeFor[string](), []any{"brown"}},
		{"Limb.Length", reflect.TypeFor[int](), nil},
		{"Branches.Length", reflect.TypeFor[int](), []any{2, 3, 4}},
		{"Branches.Leaves.Color", reflect.TypeFor[string](), []any{"green", "red", "gold"}},
		{"Branches.Leaf.Color", reflect.TypeFor[string](), nil},
		{"Shoots.Length", reflect.TypeFor[int](), []any{5}},
		{"Shoots.Leaf.Color", reflect.TypeFor[string](), []any{"pale"}},
		{"Marks", reflect.TypeFor[string](), []any{"x", "y"}},
		{"Owner", reflect.TypeFor[string](), []any{"squirrel"}},
		{"Rings.Year", reflect.TypeFor[int](), []any{1, 2, 3}},
		{"Crown.Height", reflect.TypeFor[int](), []any{9}},
		{"Stump", reflect.TypeFor[branch](), []any{branch{Length: 1, Leaf: &leaf{"brown"}}}},
	} {
		t.Run(test.path, func(t *testing.T) {
			t.Parallel()
			p, err := resource.ParsePath(reflect.TypeFor[trunk](), test.path)
			if err != nil {
				t.Fatal(err)
			}
			if p.Name != test.path || p.Type != test.end {
				t.Errorf("the path is %s to a %s, want %s to a %s", p.Name, p.Type, test.path, test.end)
			}
			tree := reflect.ValueOf(sample())
			var got []any
			if !p.Each(tree, func(v reflect.Value) bool {
				got = append(got, v.Interface())
				return true
			}) {
				t.Error("Each reports a call that returned false, and there was none")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the values differ (-want +got):\n%s", diff)
			}

			calls := 0
			whole := p.Each(tree, func(reflect.Value) bool {
				calls++
				return false
			})
			if calls != min(1, len(test.want)) || whole != (len(test.want) == 0) {
				t.Errorf("after a call that returned false Each made %d calls and answered %t", calls, whole)
			}
		})
	}
}

func TestPathToNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, path, says string }{
		{"empty", "", "has no field"},
		{"unknown", "Roots", "has no field Roots"},
		{"unknown inside", "Stump.Roots", "has no field Roots"},
		{"other case", "name", "has no field name"},
		{"inside a text", "Name.Length", "string has no fields"},
		{"inside a list of texts", "Marks.Length", "string has no fields"},
		{"ends with a dot", "Stump.", "has no field"},
		{"a field of an embedded struct", "Height", "has no field Height"},
		{"a field of an embedded struct nobody sees", "Length", "has no field Length"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := resource.ParsePath(reflect.TypeFor[trunk](), test.path)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("ParsePath(%q) = %v, want an error that says %q", test.path, err, test.says)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	names := func(want func(reflect.StructField) bool) []string {
		var names []string
		for _, p := range resource.Paths(reflect.TypeFor[trunk](), want) {
			names = append(names, p.Name)
		}
		return names
	}
	all := names(func(reflect.StructField) bool { return true })
	if slices.ContainsFunc(all, func(name string) bool { return strings.HasPrefix(name, "hidden") || strings.HasPrefix(name, "branch") }) {
		t.Errorf("Paths enters fields that are not exported: %q", all)
	}
	got := names(func(f reflect.StructField) bool { return f.Name == "Color" })
	want := []string{
		"Stump.Leaf.Color", "Stump.Leaves.Color", "Limb.Leaf.Color", "Limb.Leaves.Color",
		"Branches.Leaf.Color", "Branches.Leaves.Color", "Shoots.Leaf.Color", "Shoots.Leaves.Color",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the paths to a Color differ (-want +got):\n%s", diff)
	}
	if none := names(func(reflect.StructField) bool { return false }); none != nil {
		t.Errorf("nothing was wanted, and found were %q", none)
	}
}
