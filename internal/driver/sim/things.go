package sim

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// value is what a world has: it is known by its key.
type value interface{ Key() driver.Key }

// place is where a value is kept, whatever its generation.
type place struct{ account, id string }

// thing is a value in the world. A change that comes while another is under
// way joins it, so that what is changed often still gets somewhere.
type thing[V value] struct {
	is       *V        // nil: there is none
	since    time.Time // when it came to be there, as it is or as it was
	becomes  *V        // what the change under way leads to; nil: none
	changing bool
	due      time.Time // when the change under way is done
}

// asked is what the thing was last asked to be.
func (t *thing[V]) asked() *V {
	if t.changing {
		return t.becomes
	}
	return t.is
}

// settle ends the change under way once it is due.
func (t *thing[V]) settle(now time.Time) {
	if !t.changing || t.due.After(now) {
		return
	}
	since := t.since
	if t.is == nil {
		since = t.due
	}
	*t = thing[V]{is: t.becomes, since: since}
}

// change begins a change, or joins the one under way.
func (t *thing[V]) change(to *V, due time.Time) {
	if !t.changing {
		t.changing, t.due = true, due
	}
	t.becomes = to
}

// things are all values of one kind in a world, guarded by its mutex.
type things[V value] struct {
	world *World
	kind  string        // its name in those of the methods
	own   func(V) V     // a copy that shares nothing with the value
	named func(place) V // a value of which there is only the name
	at    map[place]*thing[V]
}

func newThings[V value](w *World, kind string, own func(V) V, named func(place) V) things[V] {
	return things[V]{w, kind, own, named, map[place]*thing[V]{}}
}

func (s *things[V]) ensure(ctx context.Context, v V) error {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if err := s.world.fault(ctx, "Ensure"+s.kind); err != nil {
		return err
	}
	key := v.Key()
	at := place{key.Account, key.ID}
	asked := s.thing(at).asked()
	if asked != nil && (*asked).Key().Generation > key.Generation {
		return driver.ErrStale
	}
	if asked == nil || (*asked).Key().Generation < key.Generation {
		own := s.own(v)
		s.thing(at).change(&own, s.world.now().Add(s.world.delay))
	}
	return s.answer(at)
}

func (s *things[V]) remove(ctx context.Context, account, id string) error {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if err := s.world.fault(ctx, "Remove"+s.kind); err != nil {
		return err
	}
	at := place{account, id}
	if s.thing(at).asked() != nil {
		s.thing(at).change(nil, s.world.now().Add(s.world.delay))
	}
	return s.answer(at)
}

// thing is the thing at a place as it is now.
func (s *things[V]) thing(at place) *thing[V] {
	if s.at[at] == nil {
		s.at[at] = &thing[V]{}
	}
	s.at[at].settle(s.world.now())
	return s.at[at]
}

// answer says whether the thing is what it was asked to be, and forgets it if
// that is nothing.
func (s *things[V]) answer(at place) error {
	t := s.thing(at)
	if t.changing {
		return driver.Later{At: t.due}
	}
	if t.is == nil {
		delete(s.at, at)
	}
	return nil
}

func (s *things[V]) observe(ctx context.Context) ([]V, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if err := s.world.fault(ctx, "Observe"+s.kind+"s"); err != nil {
		return nil, err
	}
	return s.seen(), nil
}

// seen are the things as they are now, and the names of those being made.
func (s *things[V]) seen() (seen []V) {
	for at := range s.at {
		switch t := s.thing(at); {
		case t.is != nil:
			seen = append(seen, s.own(*t.is))
		case t.asked() != nil:
			seen = append(seen, s.named(at))
		}
	}
	return seen
}
