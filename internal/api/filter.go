package api

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/resource"
)

// TagFilters are the three filters that every resource with tags has.
type TagFilters struct {
	TagKeys   []string // The keys of the tags.
	TagValues []string // The values of the tags.
	Tags      []string // The key/value combinations of the tags, in the form TAGKEY=TAGVALUE.
}

// tags is the type of a filter by tags in the form in which they are listed.
// Their resource is not compared.
var tags = reflect.TypeFor[[]resource.Tag]()

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
	path  resource.Path
	glob  bool // `match:"glob"`: in values, * stands for any text and ? for any character
	// `match:"from"`, 1: the value is the least that passes; `match:"to"`, -1: the greatest
	bound int
	tag   *tagFilter // of a filter by tags
	late  bool       // on a field that a view computes
}

// tagFilter is a way to ask for tags.
type tagFilter struct {
	// hit reports whether a tag has what one value of the filter asks for.
	hit func(t *resource.ResourceTag, v reflect.Value) bool
	// text is how a value stands in a set, and among looks a tag up in one.
	text  func(v reflect.Value) string
	among func(t *resource.ResourceTag, all texts) bool
}

// tagFilters are the filters in [TagFilters], by name.
var tagFilters = map[string]*tagFilter{
	"TagKeys": {
		func(t *resource.ResourceTag, v reflect.Value) bool { return t.Key == v.String() },
		reflect.Value.String, func(t *resource.ResourceTag, all texts) bool { return all.has(t.Key) },
	},
	"TagValues": {
		func(t *resource.ResourceTag, v reflect.Value) bool { return t.Value == v.String() },
		reflect.Value.String, func(t *resource.ResourceTag, all texts) bool { return all.has(t.Value) },
	},
	"Tags": {
		func(t *resource.ResourceTag, v reflect.Value) bool { return isPair(v.String(), t.Key, t.Value) },
		reflect.Value.String, func(t *resource.ResourceTag, all texts) bool { return all.has(t.Key, "=", t.Value) },
	},
}

// sep is between the key and the value of a tag in a set. It is in neither of a
// request, because it is no UTF-8.
const sep = "\xff"

// listedTags is a filter by tags as they are listed: an empty key or value stands
// for any.
var listedTags = &tagFilter{
	func(t *resource.ResourceTag, v reflect.Value) bool {
		want := v.Interface().(resource.Tag)
		return (want.Key == "" || want.Key == t.Key) && (want.Value == "" || want.Value == t.Value)
	},
	func(v reflect.Value) string {
		want := v.Interface().(resource.Tag)
		return want.Key + sep + want.Value
	},
	func(t *resource.ResourceTag, all texts) bool {
		return all.has(t.Key, sep, t.Value) || all.has(t.Key, sep) || all.has(sep, t.Value) || all.has(sep)
	},
}

// newSelection finds for each filter the field it selects by: the one that its
// `path:` tag names, or else the one that its name spells, see [spelledPaths]. It
// panics for a filter that finds none or several, or one of another type.
func newSelection(filters, owner reflect.Type) *selection {
	s := &selection{}
	for _, f := range reflect.VisibleFields(filters) {
		if f.Anonymous {
			continue
		}
		c := filter{name: f.Name, index: f.Index, glob: f.Tag.Get("match") == "glob", bound: bounds[f.Tag.Get("match")]}
		name := f.Tag.Get("path")
		switch {
		case len(f.Index) > 1: // of TagFilters
			name, c.tag = "Tags", tagFilters[f.Name]
		case f.Type == tags:
			name, c.tag = "Tags", listedTags
		case name == "":
			name = spelledPath(filters, f.Name, owner)
		}
		p, err := resource.ParsePath(owner, name)
		if err != nil {
			panic(fmt.Sprintf("api: the filter %s.%s finds no field: %v", filters, f.Name, err))
		}
		if c.bound != 0 && basic(p.Type) != reflect.Int {
			panic(fmt.Sprintf("api: the filter %s.%s is a bound, and %s is no number and no time", filters, f.Name, name))
		}
		if c.tag == nil && basic(f.Type) != basic(p.Type) {
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

// spelledPath is the path that the name of a filter spells. It panics unless there
// is exactly one.
func spelledPath(filters reflect.Type, name string, owner reflect.Type) string {
	paths := spelledPaths(name, owner)
	if len(paths) != 1 {
		panic(fmt.Sprintf("api: the filter %s.%s spells %d fields of %s, %q: its tag `path:` must name one", filters, name, len(paths), owner,
			paths))
	}
	return paths[0]
}

// spelledPaths lists the paths that the name of a filter can mean in a struct: the
// field of that name; else those that it is the plural of, or, after the name of a
// struct or the singular of a list of structs, a field of that.
// `NicLinkNicDeviceNumbers` is Nics.LinkNic.DeviceNumber.
func spelledPaths(name string, t reflect.Type) (paths []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Anonymous {
			continue
		}
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct {
			switch {
			case name == f.Name:
				return []string{name}
			case slices.Contains(singulars(name), f.Name):
				paths = append(paths, f.Name)
			}
			continue
		}
		for _, prefix := range append(singulars(f.Name), f.Name) {
			if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
				for _, path := range spelledPaths(rest, inner) {
					paths = append(paths, f.Name+"."+path)
				}
			}
		}
	}
	return paths
}

// singulars are what a name can be the plural of.
func singulars(plural string) (names []string) {
	for _, ending := range []struct{ many, one string }{{"s", ""}, {"es", ""}, {"ies", "y"}} {
		if stem, ok := strings.CutSuffix(plural, ending.many); ok {
			names = append(names, stem+ending.one)
		}
	}
	return names
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

// patterns is how many patterns a value may be tried with.
func (q question) patterns() (n int) {
	for _, all := range []conditions{q.stored, q.computed} {
		for i := range all {
			n += len(all[i].globs)
		}
	}
	return n
}

// condition is a filter and what it asks for.
type condition struct {
	*filter
	want reflect.Value

	// What want asks for if that is much, or may have patterns in it.
	isSet   bool
	texts   texts
	numbers map[int64]struct{}
	globs   []string
}

// texts is a set of texts.
type texts map[string]struct{}

// has reports whether the parts, one after the other, are in the set.
func (all texts) has(parts ...string) bool {
	var room [256]byte // for nearly all, so that a look costs no memory
	whole := room[:0]
	for _, part := range parts {
		whole = append(whole, part...)
	}
	_, ok := all[string(whole)]
	return ok
}

// fewValues is how many are compared one by one, which is faster up to there.
const fewValues = 8

// gather makes sets of what the condition asks for, so that looking at a resource
// costs the same however much that is. Only patterns are tried one by one.
func (c *condition) gather() {
	c.isSet, c.texts, c.numbers = true, texts{}, map[int64]struct{}{}
	for i := range c.want.Len() {
		switch v := c.want.Index(i); {
		case c.tag != nil:
			c.texts[c.tag.text(v)] = struct{}{}
		case c.glob && strings.ContainsAny(v.String(), "*?"):
			c.globs = append(c.globs, v.String())
		case v.Kind() == reflect.String:
			c.texts[v.String()] = struct{}{}
		default:
			c.numbers[number(v)] = struct{}{}
		}
	}
}

// number is a number as the key of a set.
func number(v reflect.Value) int64 {
	if v.CanFloat() {
		return int64(math.Float64bits(v.Float()))
	}
	return v.Int()
}

// conditions are all to be met.
type conditions []condition

// ask takes the filters of a request. They are looked at once, and not for each
// resource again: a family may have many, and a request has few.
func (s *selection) ask(filters reflect.Value) (q question) {
	for i := range s.filters {
		f := &s.filters[i]
		c := condition{filter: f, want: f.values(filters)}
		if !given(c.want) {
			continue
		}
		if c.want.Kind() == reflect.Slice && (f.glob || c.want.Len() > fewValues) {
			c.gather()
		}
		to := &q.stored
		if f.late {
			to = &q.computed
		}
		*to = append(*to, c)
	}
	return q
}

// pass reports whether the resource passes all filters.
func (all conditions) pass(resource reflect.Value) bool {
	for i := range all {
		if !all[i].passes(resource) {
			return false
		}
	}
	return true
}

func (c *condition) passes(resource reflect.Value) bool {
	// Each stops at the first hit, so that it reports false for a hit.
	return !c.path.Each(resource, func(v reflect.Value) bool { return !c.hit(v) })
}

func (c *condition) hit(v reflect.Value) bool {
	switch {
	case c.bound != 0:
		return cmp.Compare(v.Int(), c.want.Int()) != -c.bound
	case c.want.Kind() != reflect.Slice:
		return equal(c.want, v)
	case c.isSet:
		return c.among(v)
	case c.tag != nil:
		t := v.Addr().Interface().(*resource.ResourceTag)
		for i := range c.want.Len() {
			if c.tag.hit(t, c.want.Index(i)) {
				return true
			}
		}
		return false
	}
	for i := range c.want.Len() {
		if equal(c.want.Index(i), v) {
			return true
		}
	}
	return false
}

// among reports whether the sets have the value.
func (c *condition) among(v reflect.Value) bool {
	switch {
	case c.tag != nil:
		return c.tag.among(v.Addr().Interface().(*resource.ResourceTag), c.texts)
	case v.Kind() != reflect.String:
		_, ok := c.numbers[number(v)]
		return ok
	}
	text := v.String()
	if _, ok := c.texts[text]; ok {
		return true
	}
	return slices.ContainsFunc(c.globs, func(pattern string) bool { return glob(pattern, text) })
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
	i := slices.IndexFunc(s.filters, func(f filter) bool { return f.path.Name == name && !f.glob && f.tag == nil })
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
