// Package resource gives the rules typed resources over the store: ids,
// references, indexes, unique keys, tags and quotas.
//
// A [Kind] is a value beside its Go type that states facts: name, tag type,
// quota, unique keys, how long a resource stays readable once deleted. What
// follows from the facts is done here, once for all kinds: a field whose type
// is another kind's id is a reference, must lead to a living resource of the
// same account, and keeps that resource from being deleted.
package resource

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/store"
)

// Kind states the facts of the resources stored as T and identified by I.
//
// A stored struct may have the methods of [Pending], [Hidden] and [Summed], and may
// tag its fields:
//   - `json:"-"`: never stored; a view computes it.
//   - `wire:"-"`: stored and never shown.
//   - `ref:"-"`: an id that is no reference: another account's, or one that may
//     outlive its target.
//   - `ref:"weak"`: a reference that does not keep its target; the rule that
//     deletes the target sees to it.
type Kind[T any, I ID] struct {
	Name     string        // as the API calls one of them: "Subnet"
	Plural   string        // as the API calls several; Name and an s if empty
	Tag      string        // the resource type in ReadTags; empty: it has no tags
	NotFound apierror.Code // when there is none of an id; ObjectNotFound if zero
	InUse    apierror.Code // when a reference keeps it from being deleted; InUse if zero
	Quota    *Quota

	// Unique names fields whose value no two existing resources of the account
	// share. A second one is refused with Conflict.
	Unique   []string
	Conflict apierror.Code

	// Life says which events lead from which state to which; nil: it has no
	// states. The state is the field of T that has their type. A resource whose
	// state does not allow an event is refused with Forbidden; InvalidState if
	// zero.
	Life      lifecycle.Life
	Forbidden apierror.Code

	// Retention is how long a deleted resource stays readable.
	Retention time.Duration

	// ToldTags means that drivers see the tags, so a change of them raises
	// Generation.
	ToldTags bool

	once  sync.Once
	shape *shape
}

// Quota says which limit counts the resources of a kind.
type Quota struct {
	Name string        // as ReadQuotas calls it
	Code apierror.Code // when it is reached
	// the field of the reference that is counted on its own: "NetId" counts per Net
	Per string
}

// Secret is a text that is sealed wherever it leaves memory, and never shown.
type Secret string

// String keeps a secret out of logs and messages.
func (Secret) String() string { return "*****" }

// GoString keeps a secret out of %#v.
func (Secret) GoString() string { return "*****" }

// MarshalText keeps a secret out of what is logged as JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte("*****"), nil }

// Any is a kind of whatever type. Only Kind implements it.
type Any interface {
	// Facts are what generic code may know of the kind.
	Facts() Facts
	// Purge removes the deleted resources that were kept for long enough.
	Purge(*Tx) (next time.Time)
	codec(Sealer) store.Codec
	layout() *shape
	missing(id string) error
	change(tx *Tx, id string, change func(resource reflect.Value))
}

// Facts are the facts of a kind without its types.
type Facts struct {
	Name, Plural, Tag string
	Quota             *Quota
	Retention         time.Duration
	ToldTags          bool
	Life              lifecycle.Life
	Type              reflect.Type // of the stored struct
	ID                reflect.Type
}

// Facts implements [Any].
func (k *Kind[T, I]) Facts() Facts {
	plural := k.Plural
	if plural == "" {
		plural = k.Name + "s"
	}
	return Facts{k.Name, plural, k.Tag, k.Quota, k.Retention, k.ToldTags, k.Life, reflect.TypeFor[T](), reflect.TypeFor[I]()}
}

// shape is what reflection finds in T, once.
type shape struct {
	id       int // the field that holds the resource's own id
	refs     []ref
	unique   []Path
	tags     int   // the field that holds the tags, or -1
	computed []int // the fields that are never stored
	secrets  bool
	sums     []string // the names of what the resources add up to; nil: nothing

	// Of a kind with a life: the field that holds the state, the transitions
	// from each state, and the states at the end.
	state []int
	edges map[string][]lifecycle.Edge
	ends  map[string]bool
}

// ref is a reference: a path to ids of another kind.
type ref struct {
	Path
	weak bool
}

func (k *Kind[T, I]) layout() *shape {
	k.once.Do(func() { k.shape = k.inspect() })
	return k.shape
}

// inspect panics if T and the facts contradict each other, which is a
// programming error.
func (k *Kind[T, I]) inspect() *shape {
	t := reflect.TypeFor[T]()
	sh := &shape{id: -1, tags: -1}
	mistake := func(format string, args ...any) { panic("kind " + k.Name + ": " + fmt.Sprintf(format, args...)) }
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Type == reflect.TypeFor[I]() && sh.id < 0:
			sh.id = i
		case f.Tag.Get("json") == "-":
			sh.computed = append(sh.computed, i)
		case f.Type == reflect.TypeFor[[]ResourceTag]():
			sh.tags = i
		}
	}
	if sh.id < 0 {
		mistake("%s has no field of the type %s", t, reflect.TypeFor[I]())
	}
	for _, p := range Paths(t, isOpaque) {
		mistake("%s is a %s, where no reference and no secret would be found", p.Name, p.Type)
	}
	strong := Paths(t, func(f reflect.StructField) bool { return isRef(f) && f.Tag.Get("ref") == "" })
	weak := Paths(t, func(f reflect.StructField) bool { return isRef(f) && f.Tag.Get("ref") == "weak" })
	for _, p := range strong {
		if p.Name != t.Field(sh.id).Name {
			sh.refs = append(sh.refs, ref{Path: p})
		}
	}
	for _, p := range weak {
		sh.refs = append(sh.refs, ref{Path: p, weak: true})
	}
	if q := k.Quota; q != nil && q.Per != "" && !slices.ContainsFunc(sh.refs, func(r ref) bool { return r.Name == q.Per && r.flat != nil }) {
		mistake("a quota per %s, which is no reference", q.Per)
	}
	for _, name := range k.Unique {
		p, err := ParsePath(t, name)
		if err != nil {
			mistake("unique key: %v", err)
		}
		if p.Type.Kind() != reflect.String {
			mistake("unique key: %s is no text", name)
		}
		sh.unique = append(sh.unique, p)
	}
	secret := func(f reflect.StructField) bool { e, _ := element(f.Type); return e == reflect.TypeFor[Secret]() }
	sh.secrets = len(Paths(t, secret)) > 0
	if err := inspectMethods(t, sh); err != nil {
		mistake("%v", err)
	}
	if k.ToldTags && !hasGeneration(t, generationField) {
		mistake("its driver sees the tags, and it has no %s", generationField)
	}
	if k.Life != nil {
		if err := k.inspectLife(sh); err != nil {
			mistake("%v", err)
		}
	}
	return sh
}

func isRef(f reflect.StructField) bool {
	e, _ := element(f.Type)
	_, ok := FormOf(e)
	return ok
}

// isOpaque reports a stored field that no path leads into.
func isOpaque(f reflect.StructField) bool {
	e, _ := element(f.Type)
	return f.Tag.Get("json") != "-" && slices.Contains([]reflect.Kind{reflect.Map, reflect.Array, reflect.Interface}, e.Kind())
}

// Get finds a resource that is not deleted. In a transaction that writes there
// is one value per resource: a rule and the functions that it calls change and
// put the same one. Its slices and pointers are shared with readers: a rule
// that changes a list makes a new one.
func (k *Kind[T, I]) Get(tx *Tx, id I) (*T, error) {
	if v := k.Find(tx, id); v != nil {
		return v, nil
	}
	return nil, k.missing(string(id))
}

// Find returns the resource that Get finds, or nil instead of an error.
func (k *Kind[T, I]) Find(tx *Tx, id I) *T {
	o, ok := tx.snapshot().Get(k.Name, string(id))
	if !ok || o.DeletedAt != 0 {
		return nil
	}
	return k.own(tx, o)
}

// Lookup is the resource that Find finds, or else one that was deleted and that its
// kind keeps readable; nil: there is neither. What was deleted is a copy.
func (k *Kind[T, I]) Lookup(tx *Tx, id I) *T {
	if v := k.Find(tx, id); v != nil {
		return v
	}
	o, ok := tx.snapshot().Get(k.Name, string(id))
	if !ok {
		return nil
	}
	v := *o.Value.(*T)
	return &v
}

// Has reports whether there is a living resource of this id.
func (k *Kind[T, I]) Has(tx *Tx, id I) bool {
	o, ok := tx.snapshot().Get(k.Name, string(id))
	return ok && o.DeletedAt == 0
}

// own is the value of an object that a rule can write to: a copy, which a
// transaction that writes makes once.
func (k *Kind[T, I]) own(tx *Tx, o *store.Object) *T {
	if tx.write == nil {
		v := *o.Value.(*T)
		return &v
	}
	key := ownKey{tx.account, k.Name, o.ID}
	if v, ok := tx.owned[key]; ok {
		return v.(*T)
	}
	v := *o.Value.(*T)
	tx.owned[key] = &v
	return &v
}

func (k *Kind[T, I]) missing(id string) error {
	code := k.NotFound
	if code == 0 {
		code = apierror.ObjectNotFound
	}
	return code.NotFound(reflect.TypeFor[I]().Name()+"Id", id)
}

// ErrNotFound is the refusal of an id that no resource has, or none that the
// caller may see: the two must look alike.
func (k *Kind[T, I]) ErrNotFound(id I) error { return k.missing(string(id)) }

// All yields the living resources in order of creation. While a rule looks, at
// all or at some, it may write: it goes over what was there when it began.
func (k *Kind[T, I]) All(tx *Tx) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for o := range tx.scan(k.Name, 0) {
			if o.DeletedAt == 0 && !yield(k.own(tx, o)) {
				return
			}
		}
	}
}

// Where yields the living resources whose reference or unique field has the
// value, in order of creation.
func (k *Kind[T, I]) Where(tx *Tx, field, value string) iter.Seq[*T] {
	if !k.indexed(field) {
		panic(fmt.Sprintf("kind %s: %s is no reference and no unique key", k.Name, field))
	}
	return func(yield func(*T) bool) {
		for o := range tx.find(k.Name, store.Key{Index: field, Value: value}) {
			if !yield(k.own(tx, o)) {
				return
			}
		}
	}
}

func (k *Kind[T, I]) indexed(field string) bool {
	sh := k.layout()
	return slices.ContainsFunc(sh.refs, func(r ref) bool { return r.Name == field }) ||
		slices.ContainsFunc(sh.unique, func(p Path) bool { return p.Name == field })
}

// Of yields the living resources that refer to the given one, by whichever
// field, in order of creation: the Subnets of a Net.
func (k *Kind[T, I]) Of(tx *Tx, target any) iter.Seq[*T] {
	t := reflect.TypeOf(target)
	var fields []string
	for _, r := range k.layout().refs {
		if r.Type == t {
			fields = append(fields, r.Name)
		}
	}
	value := reflect.ValueOf(target).String()
	switch len(fields) {
	case 0:
		panic(fmt.Sprintf("kind %s: nothing in %s refers to a %s", k.Name, reflect.TypeFor[T](), t))
	case 1:
		return k.Where(tx, fields[0], value)
	}
	return func(yield func(*T) bool) {
		var found []*store.Object
		for _, field := range fields {
			found = slices.AppendSeq(found, tx.find(k.Name, store.Key{Index: field, Value: value}))
		}
		for _, o := range ordered(found) {
			if !yield(k.own(tx, o)) {
				return
			}
		}
	}
}

// ordered puts objects in order of creation, each once.
func ordered(found []*store.Object) []*store.Object {
	slices.SortFunc(found, func(a, b *store.Object) int { return cmp.Compare(a.Seq, b.Seq) })
	return slices.Compact(found)
}

// Count is the number of living resources.
func (k *Kind[T, I]) Count(tx *Tx) int { return tx.snapshot().Count(k.Name) }

// Insert makes a resource, with an id of its own if it has none yet, and in the
// state in which its life begins.
func (k *Kind[T, I]) Insert(tx *Tx, v *T) error {
	if k.Life != nil {
		return k.begin(tx, v)
	}
	return k.insert(tx, v)
}

func (k *Kind[T, I]) insert(tx *Tx, v *T) error {
	id := reflect.ValueOf(v).Elem().Field(k.layout().id)
	if id.Len() == 0 {
		id.SetString(string(k.NewID(tx)))
	} else if k.known(tx, id.String()) {
		return apierror.AlreadyExists.Errorf("The %s '%s' exists already.", k.Name, id.String())
	}
	if err := k.checkQuota(tx, reflect.ValueOf(v).Elem()); err != nil {
		return err
	}
	return k.put(tx, v)
}

// NewID chooses an id that no resource has in any of the accounts, those still
// readable after their end included.
func (k *Kind[T, I]) NewID(accounts ...*Tx) I {
	var form I
	if form.Form() == (Form{}) {
		panic("kind " + k.Name + ": a rule names what it inserts")
	}
	for {
		id := form.Form().Random(accounts[0].Rand())
		if !slices.ContainsFunc(accounts, func(tx *Tx) bool { return k.known(tx, id) }) {
			return I(id)
		}
	}
}

func (k *Kind[T, I]) known(tx *Tx, id string) bool {
	_, ok := tx.snapshot().Get(k.Name, id)
	return ok
}

func (k *Kind[T, I]) checkQuota(tx *Tx, v reflect.Value) error {
	if k.Quota == nil {
		return nil
	}
	limit, ok := tx.Limit(k.Quota.Name)
	if !ok {
		return nil
	}
	used := Used(tx, k, v)
	if used >= limit {
		return k.Quota.Code.Errorf("The quota %s is reached: %d of %d are used.", k.Quota.Name, used, limit)
	}
	return nil
}

// Put writes a resource, after checking its references and unique keys. Its
// state is what it was: see [Transition].
func (k *Kind[T, I]) Put(tx *Tx, v *T) error {
	if k.Life != nil {
		k.checkState(tx, v)
	}
	return k.put(tx, v)
}

func (k *Kind[T, I]) put(tx *Tx, v *T) error {
	stored := k.stored(v)
	sh, rv := k.layout(), reflect.ValueOf(stored).Elem()
	id := rv.Field(sh.id).String()
	key := ownKey{tx.account, k.Name, id}
	if owned, ok := tx.owned[key]; ok && owned != any(v) {
		panic(fmt.Sprintf("kind %s: a rule puts another value of %s than the one that Get returned", k.Name, id))
	}
	for _, r := range sh.refs {
		if err := tx.checkRef(r, rv); err != nil {
			return err
		}
	}
	for _, p := range sh.unique {
		var err error
		p.Each(rv, func(f reflect.Value) bool {
			for o := range tx.find(k.Name, store.Key{Index: p.Name, Value: f.String()}) {
				if o.ID != id {
					err = k.Conflict.Errorf("The %s '%s' is used already.", p.Name, f.String())
				}
			}
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	tx.draft().Put(k.Name, id, stored)
	tx.owned[key] = v
	return nil
}

// stored is v as the store keeps it: a copy, without the fields that a restart
// would lose.
func (k *Kind[T, I]) stored(v *T) *T {
	copied := *v
	for _, i := range k.layout().computed {
		reflect.ValueOf(&copied).Elem().Field(i).SetZero()
	}
	return &copied
}

// Delete removes a resource that nothing refers to, by the event with which its
// life ends from its state. If its kind keeps deleted resources, it stays readable
// as v leaves it.
func (k *Kind[T, I]) Delete(tx *Tx, v *T) error {
	if k.Life != nil {
		return k.end(tx, v)
	}
	return k.remove(tx, v)
}

func (k *Kind[T, I]) remove(tx *Tx, v *T) error {
	id := reflect.ValueOf(v).Elem().Field(k.layout().id).String()
	if !k.Has(tx, I(id)) {
		return k.missing(id)
	}
	if holders := tx.holders(reflect.TypeFor[I](), id); len(holders) > 0 {
		code := k.InUse
		if code == 0 {
			code = apierror.InUse
		}
		return code.Errorf("The %s %s is in use by %s.", k.Name, id, strings.Join(holders, ", "))
	}
	delete(tx.owned, ownKey{tx.account, k.Name, id})
	if k.Retention == 0 {
		tx.draft().Remove(k.Name, id)
		return nil
	}
	tx.draft().SoftDelete(k.Name, id, k.stored(v), tx.Now())
	return nil
}

// Purge removes the resources whose retention has passed, and returns when the
// next one is due, if any.
func (k *Kind[T, I]) Purge(tx *Tx) (next time.Time) {
	for o := range tx.scan(k.Name, 0) {
		if o.DeletedAt == 0 {
			continue
		}
		due := time.UnixMilli(o.DeletedAt).Add(k.Retention)
		switch {
		case !due.After(tx.Now()):
			tx.draft().Remove(k.Name, o.ID)
			if k.Life != nil {
				k.forget(tx, o.Value.(*T))
			}
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return next
}

// Each yields every resource created after the given position, including
// deleted ones that are still readable, with its own position: the order of
// creation, for pages. The yielded values are shared and must not be written
// to.
func (k *Kind[T, I]) Each(tx *Tx, after uint64) iter.Seq2[uint64, *T] {
	return func(yield func(uint64, *T) bool) {
		for o := range tx.scan(k.Name, after) {
			if !yield(o.Seq, o.Value.(*T)) {
				return
			}
		}
	}
}

// Select yields, in the order and form of Each, at least the resources whose
// fields have a wanted value. wanted returns the values that a field may have,
// if they are known; an id or an index then narrows the search.
func (k *Kind[T, I]) Select(tx *Tx, after uint64, wanted func(field string) ([]string, bool)) iter.Seq2[uint64, *T] {
	sh := k.layout()
	snap := tx.snapshot()
	var found []*store.Object
	if ids, ok := wanted(reflect.TypeFor[T]().Field(sh.id).Name); ok {
		for _, id := range ids {
			if o, ok := snap.Get(k.Name, id); ok {
				found = append(found, o)
			}
		}
	} else if field, values, ok := k.narrow(wanted); ok {
		for _, value := range values {
			found = slices.AppendSeq(found, tx.find(k.Name, store.Key{Index: field, Value: value}))
		}
	} else {
		return k.Each(tx, after)
	}
	return func(yield func(uint64, *T) bool) {
		for _, o := range ordered(found) {
			if o.Seq > after && !yield(o.Seq, o.Value.(*T)) {
				return
			}
		}
	}
}

// narrow finds an indexed field with wanted values. No index leads to what is
// deleted, so a kind that keeps deleted resources has none to narrow by; and
// none leads to a field that is empty.
func (k *Kind[T, I]) narrow(wanted func(string) ([]string, bool)) (string, []string, bool) {
	if k.Retention > 0 {
		return "", nil, false
	}
	for _, r := range k.layout().refs {
		if values, ok := wanted(r.Name); ok && !slices.Contains(values, "") {
			return r.Name, values, true
		}
	}
	for _, p := range k.layout().unique {
		if values, ok := wanted(p.Name); ok && !slices.Contains(values, "") {
			return p.Name, values, true
		}
	}
	return "", nil, false
}
