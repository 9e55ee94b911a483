package sim

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// value is what a driver has: it is known by its key.
type value interface{ Key() driver.Key }

// place is where a value is kept, whatever its generation.
type place struct{ account, id string }

// thing is a value in the driver. A change that comes while another is under
// way joins it, so that what is changed often still gets somewhere.
type thing[V value] struct {
	is       *V        // nil: there is none
	since    time.Time // when it came to be there, as it is or as it was
	becomes  *V        // what the change under way leads to; nil: none
	changing bool
	began    time.Time // when the change under way was asked for
	due      time.Time // when it is done
}

// asked is what the thing was last asked to be.
func (t *thing[V]) asked() *V {
	if t.changing {
		return t.becomes
	}
	return t.is
}

// change begins a change, or joins the one under way.
func (t *thing[V]) change(to *V, now time.Time, takes time.Duration) {
	if !t.changing {
		t.changing, t.began, t.due = true, now, now.Add(takes)
	}
	t.becomes = to
}

// done ends the change under way.
func (t *thing[V]) done() {
	since := t.since
	if t.is == nil {
		since = t.due
	}
	*t = thing[V]{is: t.becomes, since: since}
}

// things are all values of one kind in a driver, guarded by its mutex.
type things[V value] struct {
	sim   *Driver
	kind  string        // its name in those of the methods
	own   func(V) V     // a copy that shares nothing with the value
	named func(place) V // a value of which there is only the name
	at    map[place]*thing[V]

	// What is particular to the kind; nil: nothing is.
	refuse func(V) error // why what is asked for cannot be
	// what is there resists to become the value, for now
	holds  func(place, *V) bool
	became func(at place, is *V, now time.Time) // told of each change once it is done
}

func newThings[V value](w *Driver, kind string, own func(V) V, named func(place) V) things[V] {
	return things[V]{sim: w, kind: kind, own: own, named: named, at: map[place]*thing[V]{}}
}

func (s *things[V]) ensure(ctx context.Context, v V) error {
	s.sim.mu.Lock()
	defer s.sim.mu.Unlock()
	if err := s.sim.fault(ctx, "Ensure"+s.kind); err != nil {
		return err
	}
	return s.put(v)
}

// put asks for a value. The caller holds the mutex.
func (s *things[V]) put(v V) error {
	key := v.Key()
	at := place{key.Account, key.ID}
	asked := s.thing(at).asked()
	if asked != nil && (*asked).Key().Generation > key.Generation {
		return driver.ErrStale
	}
	if asked == nil || (*asked).Key().Generation < key.Generation {
		if s.refuse != nil {
			if err := s.refuse(v); err != nil {
				return err
			}
		}
		t, own := s.thing(at), s.own(v)
		t.change(&own, s.sim.now(), s.sim.takes("Ensure"+s.kind))
		s.at[at] = t
	}
	return s.answer(at)
}

// make asks for a value that is not made at once, and answers when there is
// more to tell of it. The caller holds the mutex.
func (s *things[V]) make(v V) error {
	err := s.put(v)
	key := v.Key()
	if t := s.thing(place{key.Account, key.ID}); err == (driver.Later{At: t.due}) && t.is == nil {
		_, next := t.quarters(s.sim.now())
		return driver.Later{At: next}
	}
	return err
}

func (s *things[V]) remove(ctx context.Context, account, id string) error {
	s.sim.mu.Lock()
	defer s.sim.mu.Unlock()
	if err := s.sim.fault(ctx, "Remove"+s.kind); err != nil {
		return err
	}
	at := place{account, id}
	if s.thing(at).asked() != nil {
		s.thing(at).change(nil, s.sim.now(), s.sim.takes("Remove"+s.kind))
	}
	return s.answer(at)
}

// thing is the thing at a place as it is now; one that is not kept if nothing
// is there.
func (s *things[V]) thing(at place) *thing[V] {
	t := s.at[at]
	if t == nil {
		return &thing[V]{}
	}
	now := s.sim.now()
	switch {
	case !t.changing || t.due.After(now):
		return t
	case s.holds != nil && s.holds(at, t.becomes):
		t.due = now.Add(max(s.sim.delay, time.Second))
		return t
	}
	done := t.due
	t.done()
	if t.is == nil {
		delete(s.at, at)
	}
	if s.became != nil {
		s.became(at, t.is, done)
	}
	return t
}

// answer says whether the thing is what it was asked to be.
func (s *things[V]) answer(at place) error {
	if t := s.thing(at); t.changing {
		return driver.Later{At: t.due}
	}
	return nil
}

func (s *things[V]) observe(ctx context.Context) ([]V, error) {
	s.sim.mu.Lock()
	defer s.sim.mu.Unlock()
	if err := s.sim.fault(ctx, "Observe"+s.kind+"s"); err != nil {
		return nil, err
	}
	return s.seen(), nil
}

// seen are the things as they are now, and the names of those being made.
func (s *things[V]) seen() (seen []V) {
	for at := range s.at {
		if v, ok := s.look(at); ok {
			seen = append(seen, v)
		}
	}
	return seen
}

// look is the thing at a place as it is now, or only its name if it is being
// made; ok is false if there is nothing.
func (s *things[V]) look(at place) (v V, ok bool) {
	switch t := s.thing(at); {
	case t.is != nil:
		return s.own(*t.is), true
	case t.asked() != nil:
		return s.named(at), true
	}
	return v, false
}

// progress is how much of a thing is made, in percent. All of it is once it is
// there and well.
func (s *things[V]) progress(at place, well bool) int {
	t := s.thing(at)
	switch {
	case t.is == nil:
		quarters, _ := t.quarters(s.sim.now())
		return 25 * quarters
	case !well:
		return 99
	}
	return 100
}

// quarters is how many quarters of the time that a change takes are over, and
// when the next one is.
func (t *thing[V]) quarters(now time.Time) (over int, next time.Time) {
	total := t.due.Sub(t.began)
	for over < 3 && !now.Before(t.began.Add(total*time.Duration(over+1)/4)) {
		over++
	}
	return over, t.began.Add(total * time.Duration(over+1) / 4)
}
