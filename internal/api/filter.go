package api

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/kind"
)

// TagFilters are the three filters that every resource with tags has.
type TagFilters struct {
	TagKeys   []string // The keys of the tags.
	TagValues []string // The values of the tags.
	Tags      []string // The key/value combinations of the tags, in the form TAGKEY=TAGVALUE.
}

// tags is the type of a filter that asks for tags as they are listed. What they
// say of the resource is no part of the question.
var tags = reflect.TypeFor[[]kind.Tag]()

// selection is the filters of a read action, joined to the fields of the
// resource they select by.
type selection struct {
	filters []filter
}

// filter selects by one field of a Filters struct. A resource passes if any
// value at the path equals any value of the filter.
type filter struct {
	name  string
	index []int // of the filter in the Filters struct
	path  kind.Path
	glob  bool                                              // `match:"glob"`: in values, * stands for any text and ? for any character
	bound int                                               // `match:"from"`, 1: the value is the least that passes; `match:"to"`, -1: the greatest
	match func(tag *kind.ResourceTag, v reflect.Value) bool // for the filters by tag
	late  bool                                              // on a field that a view computes
}

// newSelection finds for each filter the field it selects by: the one of the
// same name, the one it is the plural of, or the one its `path:` tag names. It
// panics for a filter that finds none, or one of another type.
func newSelection(filters, resource reflect.Type) *selection {
	s := &selection{}
	for _, f := range reflect.VisibleFields(filters) {
		if f.Anonymous {
			continue
		}
		c := filter{name: f.Name, index: f.Index, glob: f.Tag.Get("match") == "glob", bound: bounds[f.Tag.Get("match")]}
		name := f.Tag.Get("path")
		switch {
		case len(f.Index) > 1: // of TagFilters
			name, c.match = "Tags", map[string]func(*kind.ResourceTag, reflect.Value) bool{
				"TagKeys":   func(t *kind.ResourceTag, v reflect.Value) bool { return t.Key == v.String() },
				"TagValues": func(t *kind.ResourceTag, v reflect.Value) bool { return t.Value == v.String() },
				"Tags":      func(t *kind.ResourceTag, v reflect.Value) bool { return isPair(v.String(), t.Key, t.Value) },
			}[f.Name]
		case f.Type == tags:
			name, c.match = "Tags", func(t *kind.ResourceTag, v reflect.Value) bool {
				want := v.Interface().(kind.Tag)
				return (want.Key == "" || want.Key == t.Key) && (want.Value == "" || want.Value == t.Value)
			}
		case name == "":
			name = fieldFor(f.Name, resource)
		}
		p, err := kind.ParsePath(resource, name)
		if err != nil {
			panic(fmt.Sprintf("api: the filter %s.%s finds no field: %v", filters, f.Name, err))
		}
		if c.bound != 0 && basic(p.Type) != reflect.Int {
			panic(fmt.Sprintf("api: the filter %s.%s is a bound, and %s is no number and no time", filters, f.Name, name))
		}
		if c.match == nil && basic(f.Type) != basic(p.Type) {
			panic(fmt.Sprintf("api: the filter %s.%s is a %s, and %s is a %s", filters, f.Name, f.Type, name, p.Type))
		}
		c.path = p
		c.late = p.Computed
		s.filters = append(s.filters, c)
	}
	return s
}

// isPair reports whether a text is key=value. Keys may have a = in them, and so
// may values.
func isPair(text, key, value string) bool {
	return len(text) == len(key)+1+len(value) && text[:len(key)] == key && text[len(key)] == '=' && text[len(key)+1:] == value
}

// bounds are the ways to match by order.
var bounds = map[string]int{"from": 1, "to": -1}

// basic is the kind of a type's values, those that compare taken as one.
func basic(t reflect.Type) reflect.Kind {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Int64 {
		return reflect.Int
	}
	return t.Kind()
}

// fieldFor is the field that a filter is the plural of.
func fieldFor(plural string, t reflect.Type) string {
	names := []string{plural, strings.TrimSuffix(plural, "s"), strings.TrimSuffix(plural, "es")}
	if stem, ok := strings.CutSuffix(plural, "ies"); ok {
		names = append(names, stem+"y")
	}
	for _, name := range names {
		if _, ok := t.FieldByName(name); ok {
			return name
		}
	}
	return plural
}

// values are the texts or numbers that a filter asks for; none: it was not given.
func (f *filter) values(filters reflect.Value) reflect.Value {
	v := filters.FieldByIndex(f.index)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v
}

// given reports whether the filter was given. An empty list selects everything:
// clients send it for a filter they do not use.
func given(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil()
	case reflect.Slice:
		return v.Len() > 0
	}
	return true
}

// question is the filters that a request gives: those on stored fields, and those
// on computed ones.
type question struct{ stored, computed conditions }

// condition is a filter and what it asks for.
type condition struct {
	*filter
	want reflect.Value
}

// conditions are all to be met.
type conditions []condition

// ask takes the filters of a request. They are looked at once, and not for each
// resource again: a family may have many, and a request has few.
func (s *selection) ask(filters reflect.Value) (q question) {
	for i := range s.filters {
		f := &s.filters[i]
		want := f.values(filters)
		if !given(want) {
			continue
		}
		to := &q.stored
		if f.late {
			to = &q.computed
		}
		*to = append(*to, condition{f, want})
	}
	return q
}

// pass reports whether the resource passes all filters.
func (all conditions) pass(resource reflect.Value) bool {
	for _, c := range all {
		if !c.passes(c.want, resource) {
			return false
		}
	}
	return true
}

func (f *filter) passes(want, resource reflect.Value) bool {
	// Each stops at the first hit, so that it reports false for a hit.
	return !f.path.Each(resource, func(v reflect.Value) bool { return !f.hit(want, v) })
}

func (f *filter) hit(want, v reflect.Value) bool {
	switch {
	case f.bound != 0:
		return cmp.Compare(v.Int(), want.Int()) != -f.bound
	case want.Kind() != reflect.Slice:
		return equal(want, v)
	}
	for i := range want.Len() {
		w := want.Index(i)
		switch {
		case f.match != nil:
			if f.match(v.Addr().Interface().(*kind.ResourceTag), w) {
				return true
			}
		case f.glob:
			if glob(w.String(), v.String()) {
				return true
			}
		case equal(w, v):
			return true
		}
	}
	return false
}

// glob reports whether a text fits a pattern, in which * stands for any text and
// ? for any character. There is no other meaning in it: names hold brackets and
// slashes.
func glob(pattern, text string) bool {
	star, from := -1, 0 // the last * of the pattern, and where what follows it was last tried
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && pattern[p] == '?':
			p, t = p+1, next(text, t)
		case p < len(pattern) && pattern[p] == text[t]:
			p, t = p+1, t+1
		case star >= 0:
			from = next(text, from)
			p, t = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// next is where the character after the one at i begins.
func next(text string, i int) int {
	_, size := utf8.DecodeRuneInString(text[i:])
	return i + size
}

func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Float64:
		return a.Float() == b.Float()
	}
	return a.Int() == b.Int()
}

// wanted are the values that the filters ask for at a path, if a filter by
// exact text on that path was given.
func (s *selection) wanted(filters reflect.Value, name string) ([]string, bool) {
	i := slices.IndexFunc(s.filters, func(f filter) bool { return f.path.Name == name && !f.glob && f.match == nil })
	if i < 0 {
		return nil, false
	}
	want := s.filters[i].values(filters)
	if want.Kind() != reflect.Slice || want.Len() == 0 || want.Type().Elem().Kind() != reflect.String {
		return nil, false
	}
	texts := make([]string, want.Len())
	for j := range texts {
		texts[j] = want.Index(j).String()
	}
	return texts, true
}
