package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/store"
)

// model is what a store should be: a map of accounts, each a map of objects.
type model map[string]*account

type account struct {
	version uint64
	last    uint64 // the highest Seq ever given
	objects map[place]object
}

type place struct{ kind, id string }

type object struct {
	seq   uint64
	gone  int64
	thing Thing
}

func (m model) account(name string) *account {
	if m[name] == nil {
		m[name] = &account{objects: map[place]object{}}
	}
	return m[name]
}

func (m model) clone() model {
	c := model{}
	for name, a := range m {
		c[name] = &account{a.version, a.last, maps.Clone(a.objects)}
	}
	return c
}

// step is one thing that a transaction does.
type step struct {
	verb    string
	account string
	at      place
	thing   Thing
}

// plan is a transaction: its steps, and how it ends.
type plan struct {
	steps []step
	look  bool // at all there is, after each step
	end   string
}

// Few names, so that the steps meet.
var (
	accounts = rapid.SampledFrom([]string{"one", "two", "three"})
	kinds    = rapid.SampledFrom([]string{"box", "lid"})
	ids      = rapid.SampledFrom([]string{"a", "A", "b", "c", "d"})
	words    = rapid.SampledFrom([]string{"", "red", "Red", "blue"})
	steps    = rapid.Custom(func(t *rapid.T) step {
		thing := Thing{Name: words.Draw(t, "name"), Busy: rapid.Bool().Draw(t, "busy"), Text: rapid.String().Draw(t, "text")}
		for range rapid.IntRange(0, 2).Draw(t, "parts") {
			thing.Parts = append(thing.Parts, words.Draw(t, "part"))
		}
		return step{
			verb:    rapid.SampledFrom([]string{"put", "put", "bury", "remove"}).Draw(t, "verb"),
			account: accounts.Draw(t, "account"),
			at:      place{kinds.Draw(t, "kind"), ids.Draw(t, "id")},
			thing:   thing,
		}
	})
	plans = rapid.Custom(func(t *rapid.T) plan {
		return plan{
			steps: rapid.SliceOfN(steps, 0, 8).Draw(t, "steps"),
			look:  rapid.Bool().Draw(t, "look"),
			end:   rapid.SampledFrom([]string{"well", "well", "well", "in an error", "in a panic"}).Draw(t, "end"),
		}
	})
)

// follow carries out the plan in the transaction and in the model.
func (p plan) follow(tx *store.Tx, m model) error {
	written := map[string]bool{}
	for _, s := range p.steps {
		d, a := tx.In(s.account), m.account(s.account)
		old, exists := a.objects[s.at]
		switch s.verb {
		case "put":
			d.Put(s.at.kind, s.at.id, s.thing)
			a.objects[s.at] = object{old.seq, 0, s.thing}
		case "bury":
			d.SoftDelete(s.at.kind, s.at.id, s.thing, tx.Now())
			a.objects[s.at] = object{old.seq, tx.Now().UnixMilli(), s.thing}
		case "remove":
			d.Remove(s.at.kind, s.at.id)
			delete(a.objects, s.at)
			if !exists {
				continue // nothing is written
			}
		}
		if !written[s.account] {
			written[s.account] = true
			a.version++
		}
		if now, ok := a.objects[s.at]; ok && !exists {
			o, ok := d.Get(s.at.kind, s.at.id)
			if !ok || o.Seq <= a.last {
				return fmt.Errorf("%v was made as %v, want a Seq above %d", s.at, o, a.last)
			}
			now.seq, a.last = o.Seq, o.Seq
			a.objects[s.at] = now
		}
		// A transaction reads its own writes.
		if !p.look {
			continue
		}
		if err := a.check(d); err != nil {
			return fmt.Errorf("in a transaction, after a %s of %v: %w", s.verb, s.at, err)
		}
	}
	return nil
}

var errPlanned = errors.New("planned")

// run carries out the plan in the store. The closure moves the model on as its
// last deed: closures run one after the other, so the model sees their order.
func (p plan) run(t *testing.T, s *store.Store, m *model) error {
	err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
		next := m.clone()
		if err := p.follow(tx, next); err != nil {
			return err
		}
		switch p.end {
		case "in an error":
			return errPlanned
		case "in a panic":
			panic(errPlanned)
		}
		*m = next
		return nil
	})
	panicked, ok := errors.AsType[*store.Panic](err)
	switch {
	case p.end == "in an error" && err == errPlanned, p.end == "in a panic" && ok && panicked.Value == errPlanned, p.end == "well" &&
		err == nil:
		return nil
	}
	return fmt.Errorf("a transaction that ends %s answered %v", p.end, err)
}

// inOrder returns the objects of a kind in order of creation.
func (a *account) inOrder(kind string) (places []place) {
	for p := range a.objects {
		if p.kind == kind {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(x, y place) int { return cmp.Compare(a.objects[x].seq, a.objects[y].seq) })
	return places
}

// reader is a snapshot or a draft.
type reader interface {
	Account() string
	Version() uint64
	Get(kind, id string) (*store.Object, bool)
	Scan(kind string, after uint64) iter.Seq[*store.Object]
	Find(kind string, key store.Key) iter.Seq[*store.Object]
	Count(kind string) int
	Sums(kind string) store.Amounts
}

// check compares all that a reader answers with the model.
func (a *account) check(snap reader) error {
	if snap.Version() != a.version {
		return fmt.Errorf("%s is at version %d, want %d", snap.Account(), snap.Version(), a.version)
	}
	for _, kind := range []Kind{Box, Lid} {
		name := kind.Name()
		places := a.inOrder(name)
		living := 0
		var sums store.Amounts
		found := map[store.Key][]string{}
		for _, p := range places {
			want := a.objects[p]
			o, ok := snap.Get(name, p.id)
			if !ok || o.ID != p.id || o.Seq != want.seq || o.DeletedAt != want.gone || !reflect.DeepEqual(o.Value, want.thing) {
				return fmt.Errorf("%v in %s is %+v, want %+v", p, snap.Account(), o, want)
			}
			if want.gone != 0 {
				continue
			}
			living++
			for i, n := range kind.Amounts(want.thing) {
				sums[i] += n
			}
			for _, k := range kind.Keys(want.thing) {
				if !slices.Contains(found[k], p.id) {
					found[k] = append(found[k], p.id)
				}
			}
		}
		if snap.Count(name) != living {
			return fmt.Errorf("%s has %d living of %s, want %d", snap.Account(), snap.Count(name), name, living)
		}
		if snap.Sums(name) != sums {
			return fmt.Errorf("%s of %s add up to %d, want %d", name, snap.Account(), snap.Sums(name), sums)
		}
		// From the start, from the middle and from the end.
		for _, after := range []uint64{0, a.last / 2, a.last, math.MaxInt64} {
			var want, got []string
			for _, p := range places {
				if a.objects[p].seq > after {
					want = append(want, p.id)
				}
			}
			for o := range snap.Scan(name, after) {
				got = append(got, o.ID)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("%s lists %q of %s after %d, want %q", snap.Account(), got, name, after, want)
			}
		}
		for _, index := range []string{"name", "part", "no such index"} {
			for _, word := range []string{"", "red", "Red", "blue"} {
				key := store.Key{Index: index, Value: word}
				var got []string
				for o := range snap.Find(name, key) {
					got = append(got, o.ID)
				}
				if !slices.Equal(got, found[key]) {
					return fmt.Errorf("%s finds %q of %s by %v, want %q", snap.Account(), got, name, key, found[key])
				}
			}
		}
		if _, ok := snap.Get(name, "never made"); ok {
			return fmt.Errorf("%s has what was never made", snap.Account())
		}
	}
	return nil
}

// compare compares the whole store with the model.
func (m model) compare(t *testing.T, s *store.Store) error {
	var pending []string
	for _, name := range []string{"one", "three", "two"} {
		snap, err := s.View(t.Context(), name)
		if err != nil {
			return err
		}
		a := m.account(name)
		if err := a.check(snap); err != nil {
			return err
		}
		for _, o := range a.objects {
			if o.thing.Busy || o.gone != 0 {
				pending = append(pending, name)
				break
			}
		}
	}
	got, err := s.Pending(t.Context())
	if err != nil {
		return err
	}
	if slices.Sort(got); !slices.Equal(got, pending) {
		return fmt.Errorf("the pending accounts are %q, want %q", got, pending)
	}
	return nil
}

func behavesLikeMap(t *testing.T, setup func(*testing.T) Opener) {
	behaves(t, setup, false)
}

func behavesLikeDurableMap(t *testing.T, setup func(*testing.T) Opener) {
	behaves(t, setup, true)
}

func behaves(t *testing.T, setup func(*testing.T) Opener, durable bool) {
	rapid.Check(t, func(rt *rapid.T) {
		open := setup(t)
		start := func() *store.Store {
			j, err := open()
			if err != nil {
				rt.Fatalf("opening the journal: %v", err)
			}
			bytes := int64(0)
			if durable {
				bytes = rapid.SampledFrom([]int64{0, 1, 300}).Draw(rt, "memory")
			}
			return Open(j, memory(bytes))
		}
		s, m := start(), model{}
		defer func() { s.Close() }()

		actions := map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if err := m.compare(t, s); err != nil {
					rt.Fatal(err)
				}
			},
			"one transaction": func(rt *rapid.T) {
				if err := plans.Draw(rt, "plan").run(t, s, &m); err != nil {
					rt.Fatal(err)
				}
			},
			// Most of these share a commit.
			"several at once": func(rt *rapid.T) {
				several := rapid.SliceOfN(plans, 2, 6).Draw(rt, "plans")
				errs := make([]error, len(several))
				var wg sync.WaitGroup
				for i, p := range several {
					wg.Go(func() { errs[i] = p.run(t, s, &m) })
				}
				wg.Wait()
				if err := errors.Join(errs...); err != nil {
					rt.Fatal(err)
				}
			},
		}
		if durable {
			actions["open again"] = func(rt *rapid.T) {
				if rapid.IntRange(0, 2).Draw(rt, "stay open") > 0 {
					return // most of the time goes into transactions
				}
				if err := s.Close(); err != nil {
					rt.Fatalf("closing: %v", err)
				}
				s = start()
			}
		}
		rt.Repeat(actions)
	})
}
