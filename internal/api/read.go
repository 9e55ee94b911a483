package api

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Source is what a read action lists: the resources of a kind, or values that
// a function makes.
type Source[V any] interface {
	// names are the family and the member of the answer.
	names() (family, plural string)
	// stored is the type that filters select by before the view is applied.
	stored() reflect.Type
	// each yields the values that may pass, in a lasting order, each with its
	// position and how it is shown.
	each(tx *resource.Tx, s *selection, filters reflect.Value, after Position) iter.Seq2[Position, candidate[V]]
}

// candidate is a value that filters have not seen yet. Of many, few may pass: they
// share the function that shows one of them.
type candidate[V any] struct {
	stored reflect.Value
	show   func(stored reflect.Value) *V
}

func (r Resource[T, I, V]) names() (string, string) {
	return r.family, r.kind.Facts().Plural
}

func (r Resource[T, I, V]) stored() reflect.Type { return reflect.TypeFor[T]() }

func (r Resource[T, I, V]) each(tx *resource.Tx, s *selection, filters reflect.Value, after Position) iter.Seq2[Position, candidate[V]] {
	all := r.kind.Each(tx, after.Seq)
	if s != nil {
		all = r.kind.Select(tx, after.Seq, func(path string) ([]string, bool) { return s.wanted(filters, path) })
	}
	show := func(stored reflect.Value) *V { return r.show(tx, stored.Addr().Interface().(*T)) }
	return func(yield func(Position, candidate[V]) bool) {
		for seq, v := range all {
			if !resource.IsHidden(v) && !yield(Position{Seq: seq}, candidate[V]{reflect.ValueOf(v).Elem(), show}) {
				return
			}
		}
	}
}

// Foreign is a resource of another account that the caller's may see.
type Foreign[T any] struct {
	At    Position     // which stays the same from call to call
	Owner *resource.Tx // over the account that has it
	Value *T           // a copy, without what only its owner is shown
}

// Also returns a source that lists the account's own resources and then the
// resources of other accounts that others yields, whose positions ascend and
// are higher than all own ones. ids are the IDs that the caller asks for, and
// others may leave out the rest; nil asks for all.
func (r Resource[T, I, V]) Also(others func(tx *resource.Tx, ids []string) iter.Seq[Foreign[T]]) Source[V] {
	t := reflect.TypeFor[T]()
	return also[T, I, V]{r, t.Field(idField[I](t)).Name, others}
}

type also[T any, I resource.ID, V any] struct {
	Resource[T, I, V]
	id     string // the field of the resource's own id
	others func(*resource.Tx, []string) iter.Seq[Foreign[T]]
}

func (s also[T, I, V]) each(tx *resource.Tx, selection *selection, filters reflect.Value, after Position) iter.Seq2[Position,
	candidate[V]] {
	return func(yield func(Position, candidate[V]) bool) {
		for at, own := range s.Resource.each(tx, selection, filters, after) {
			if !yield(at, own) {
				return
			}
		}
		var ids []string
		if selection != nil {
			ids, _ = selection.wanted(filters, s.id)
		}
		for f := range s.others(tx, ids) {
			c := candidate[V]{reflect.ValueOf(f.Value).Elem(), func(reflect.Value) *V { return s.show(f.Owner, f.Value) }}
			if f.At.After(after) && !resource.IsHidden(f.Value) && !yield(f.At, c) {
				return
			}
		}
	}
}

// Values is a source of values that a function makes, with positions that rise
// and stay the same from call to call.
func Values[V any](family, plural string, list func(*resource.Tx) iter.Seq2[Position, V]) Source[V] {
	return values[V]{family, plural, list}
}

// Fixed is a source of values that do not change while the region runs.
func Fixed[V any](family, plural string, list []V) Source[V] {
	return Values(family, plural, func(*resource.Tx) iter.Seq2[Position, V] {
		return func(yield func(Position, V) bool) {
			for i, v := range list {
				if !yield(Position{Seq: uint64(i) + 1}, v) {
					return
				}
			}
		}
	})
}

type values[V any] struct {
	family, plural string
	list           func(*resource.Tx) iter.Seq2[Position, V]
}

func (s values[V]) names() (string, string) { return s.family, s.plural }

func (s values[V]) stored() reflect.Type { return reflect.TypeFor[V]() }

func (s values[V]) each(tx *resource.Tx, _ *selection, _ reflect.Value, after Position) iter.Seq2[Position, candidate[V]] {
	show := func(stored reflect.Value) *V { return stored.Addr().Interface().(*V) }
	return func(yield func(Position, candidate[V]) bool) {
		for position, v := range s.list(tx) {
			if position.After(after) && !yield(position, candidate[V]{reflect.ValueOf(&v).Elem(), show}) {
				return
			}
		}
	}
}

// Includer is a request that lists only some values, whatever its filters say.
type Includer[V any] interface{ Includes(*V) bool }

// Read is the action that lists what a source has, as its request asks: a field
// Filters, if it has one, selects; an embedded [Page] or [IndexPage] makes
// pages.
func Read[Req, V any](source Source[V]) Action {
	a, l := newList[Req](source, func(shown []*V) []*V { return shown })
	l.cuts = true
	return a
}

// ReadGrouped is Read for an answer that nests its values: filters select
// single values, a page has so many of them, and group makes of those shown the
// list that the answer holds. Such values are small: their page ends by their
// number only.
func ReadGrouped[Req, V, G any](source Source[V], group func([]*V) []*G) Action {
	a, _ := newList[Req](source, group)
	return a
}

func newList[Req, V, G any](source Source[V], group func([]*V) []*G) (Action, *list[V, G]) {
	req := reflect.TypeFor[Req]()
	family, plural := source.names()
	a := Action{Name: actionName(req), Family: family, Request: req, Reads: true}
	l := &list[V, G]{source: source, group: group, action: a.Name, schema: SchemaName(req), filters: -1}
	members := []reflect.StructField{{Name: plural, Type: reflect.TypeFor[[]*G]()}}
	for i := range req.NumField() {
		switch f := req.Field(i); {
		case f.Name == "Filters":
			l.filters, l.selection = i, newSelection(f.Type.Elem(), source.stored())
		case f.Type == reflect.TypeFor[Page]():
			l.page = func(v reflect.Value) any { return v.Field(i).Interface() }
			members = append(members, reflect.StructField{Name: "NextPage", Type: reflect.TypeFor[NextPage](), Anonymous: true})
		case f.Type == reflect.TypeFor[IndexPage]():
			l.page = func(v reflect.Value) any { return v.Field(i).Interface() }
			members = append(members, reflect.StructField{Name: "IndexedPage", Type: reflect.TypeFor[IndexedPage](), Anonymous: true})
		}
	}
	a.Response = reflect.StructOf(members)
	l.response = a.Response
	a.run = l.run
	return a, l
}

// list is a read action at work.
type list[V, G any] struct {
	source    Source[V]
	group     func([]*V) []*G
	action    string
	schema    string // of the request
	filters   int    // the field of the request, or -1
	selection *selection
	page      func(reflect.Value) any // the Page or IndexPage of a request; nil: it has none
	response  reflect.Type
	cuts      bool // its pages end by bytes, too: the answer has one item per value
}

func (l *list[V, G]) run(c *Call) (response reflect.Value, err error) {
	req := reflect.ValueOf(c.Request).Elem()
	response = reflect.New(l.response).Elem()
	return response, c.view(func(tx *resource.Tx) error {
		response.SetZero()
		var page any
		// A version without pages gets all at once.
		if l.page != nil && c.Version.Has(l.schema, "ResultsPerPage") {
			page = l.page(req)
		}
		switch page := page.(type) {
		case Page:
			after, err := c.pager.Position(c.Caller.Account, l.action, page.NextPageToken)
			if err != nil {
				return err
			}
			shown, positions, more := l.collect(tx, req, after, 0, int(page.ResultsPerPage))
			token := func(shown int) string { return c.pager.Token(c.Caller.Account, l.action, positions[shown-1]) }
			end := NextPage{}
			if more {
				end.NextPageToken = token(len(shown))
			}
			if l.cuts {
				end.rest = &rest{token}
			}
			response.Field(0).Set(reflect.ValueOf(l.group(shown)))
			response.Field(1).Set(reflect.ValueOf(end))
		case IndexPage:
			shown, _, more := l.collect(tx, req, Position{}, max(page.FirstItem, 0), int(page.ResultsPerPage))
			response.Field(0).Set(reflect.ValueOf(l.group(shown)))
			response.Field(1).Set(reflect.ValueOf(IndexedPage{more, page.ResultsPerPage, more, l.cuts}))
		default:
			shown, _, _ := l.collect(tx, req, Position{}, 0, -1)
			response.Field(0).Set(reflect.ValueOf(l.group(shown)))
			return l.checkWhole(tx, shown, c.Version)
		}
		return nil
	})
}

// checkWhole refuses a list that is too large for a response without pages.
func (l *list[V, G]) checkWhole(tx *resource.Tx, shown []*V, version Version) error {
	size, one := 0, []byte(nil)
	for _, v := range shown {
		tx.Spend(1)
		one = Append(one[:0], reflect.ValueOf(v), version)
		if size += len(one); size <= wholeBytes {
			continue
		}
		advice := "Ask for less with Filters."
		if l.page != nil {
			advice = fmt.Sprintf("Ask for less with Filters, or call version %s or later, which has pages.",
				lifetimes[member{l.schema, "ResultsPerPage"}].since)
		}
		return apierror.InsufficientCapacity.Errorf("%s would return more than %d bytes, and version %s has no pages. %s", l.action, wholeBytes,
			version, advice)
	}
	return nil
}

// collect shows up to size values that pass the filters, after a position and
// after skipping some. It returns the position of each and whether more values
// pass.
func (l *list[V, G]) collect(tx *resource.Tx, req reflect.Value, after Position, skip, size int) (shown []*V, positions []Position,
	more bool) {
	var filters reflect.Value
	selection, asked := l.selection, question{}
	if l.filters >= 0 {
		if p := req.Field(l.filters); p.IsNil() {
			selection = nil
		} else {
			filters = p.Elem()
			asked = selection.ask(filters)
		}
	}
	includes, _ := req.Addr().Interface().(Includer[V])
	steps := 1 + asked.patterns()
	for position, c := range l.source.each(tx, selection, filters, after) {
		if tx.Spend(steps); !asked.stored.pass(c.stored) {
			continue
		}
		var v *V
		if includes != nil || len(asked.computed) > 0 {
			v = c.show(c.stored)
			if includes != nil && !includes.Includes(v) || !asked.computed.pass(reflect.ValueOf(v).Elem()) {
				continue
			}
		}
		if skip > 0 {
			skip--
			continue
		}
		if len(shown) == size {
			return shown, positions, true
		}
		if v == nil {
			v = c.show(c.stored)
		}
		shown, positions = append(shown, v), append(positions, position)
	}
	return shown, positions, false
}
