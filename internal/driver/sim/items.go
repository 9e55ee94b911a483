package sim

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// place identifies a value, whatever its generation.
type place struct{ account, id string }

// item is a value and the change under way. A change that is requested while
// another is under way joins it, so that a value that changes often makes
// progress.
type item[V driver.Value] struct {
	current  *V        // nil: it does not exist
	since    time.Time // when it began to exist, in any generation
	target   *V        // the result of the change under way; nil: a removal
	changing bool
	began    time.Time // when the change under way was requested
	due      time.Time // when it will be done
}

// requested returns the value that was requested last; nil: its removal.
func (t *item[V]) requested() *V {
	if t.changing {
		return t.target
	}
	return t.current
}

// change starts a change, or joins the one under way.
func (t *item[V]) change(to *V, now time.Time, duration time.Duration) {
	if !t.changing {
		t.changing, t.began, t.due = true, now, now.Add(duration)
	}
	t.target = to
}

// complete completes the change under way.
func (t *item[V]) complete() {
	since := t.since
	if t.current == nil {
		since = t.due
	}
	*t = item[V]{current: t.target, since: since}
}

// items are all values of one kind, guarded by the driver's mutex.
type items[V driver.Value] struct {
	sim      *Driver
	kind     string        // as in the names of the methods
	own      func(V) V     // returns a copy that shares nothing with the value
	nameOnly func(place) V // returns a value with only a name
	at       map[place]*item[V]

	// Hooks of the kind; each may be nil.
	refuse func(V) error // returns why a value cannot be applied
	// reports whether the current value does not let the change happen now
	blocked  func(place, *V) bool
	onChange func(at place, current *V, now time.Time) // called when a change is done
}

func newItems[V driver.Value](drv *Driver, kind string, own func(V) V, nameOnly func(place) V) items[V] {
	return items[V]{sim: drv, kind: kind, own: own, nameOnly: nameOnly, at: map[place]*item[V]{}}
}

func (s *items[V]) ensure(ctx context.Context, v V) error {
	s.sim.mu.Lock()
	defer s.sim.mu.Unlock()
	if err := s.sim.fault(ctx, "Ensure"+s.kind); err != nil {
		return err
	}
	return s.put(v)
}

// put requests a value. The caller holds the mutex.
func (s *items[V]) put(v V) error {
	key := v.Key()
	at := place{key.Account, key.ID}
	requested := s.item(at).requested()
	if requested != nil && (*requested).Key().Generation > key.Generation {
		return driver.ErrStale
	}
	if requested == nil || (*requested).Key().Generation < key.Generation {
		if s.refuse != nil {
			if err := s.refuse(v); err != nil {
				return err
			}
		}
		t, own := s.item(at), s.own(v)
		t.change(&own, s.sim.now(), s.sim.duration("Ensure"+s.kind))
		s.at[at] = t
	}
	return s.result(at)
}

// build requests a value that takes time, and returns Later with the time of
// its next progress.
func (s *items[V]) build(v V) error {
	err := s.put(v)
	key := v.Key()
	if t := s.item(place{key.Account, key.ID}); err == (driver.Later{At: t.due}) && t.current == nil {
		_, next := t.quarters(s.sim.now())
		return driver.Later{At: next}
	}
	return err
}

func (s *items[V]) remove(ctx context.Context, account, id string) error {
	s.sim.mu.Lock()
	defer s.sim.mu.Unlock()
	if err := s.sim.fault(ctx, "Remove"+s.kind); err != nil {
		return err
	}
	at := place{account, id}
	if s.item(at).requested() != nil {
		s.item(at).change(nil, s.sim.now(), s.sim.duration("Remove"+s.kind))
	}
	return s.result(at)
}

// item returns the item at a place as it is now; an empty one that is not
// stored if there is none.
func (s *items[V]) item(at place) *item[V] {
	t := s.at[at]
	if t == nil {
		return &item[V]{}
	}
	now := s.sim.now()
	switch {
	case !t.changing || t.due.After(now):
		return t
	case s.blocked != nil && s.blocked(at, t.target):
		t.due = now.Add(max(s.sim.delay, time.Second))
		return t
	}
	done := t.due
	t.complete()
	if t.current == nil {
		delete(s.at, at)
	}
	if s.onChange != nil {
		s.onChange(at, t.current, done)
	}
	return t
}

// result returns [driver.Later] while a change is under way, and nil otherwise.
func (s *items[V]) result(at place) error {
	if t := s.item(at); t.changing {
		return driver.Later{At: t.due}
	}
	return nil
}

func (s *items[V]) observe(ctx context.Context) ([]V, error) {
	s.sim.mu.Lock()
	defer s.sim.mu.Unlock()
	if err := s.sim.fault(ctx, "Observe"+s.kind+"s"); err != nil {
		return nil, err
	}
	return s.list(), nil
}

// list returns the values as they are now, and the names of those being made.
func (s *items[V]) list() (list []V) {
	for at := range s.at {
		if v, ok := s.get(at); ok {
			list = append(list, v)
		}
	}
	return list
}

// get returns the value at a place as it is now, or only its name if it is
// being made; ok is false if there is neither.
func (s *items[V]) get(at place) (v V, ok bool) {
	switch t := s.item(at); {
	case t.current != nil:
		return s.own(*t.current), true
	case t.requested() != nil:
		return s.nameOnly(at), true
	}
	return v, false
}

// progress returns how much of a value is made, in percent: 100 once it exists
// and finished is true.
func (s *items[V]) progress(at place, finished bool) int {
	t := s.item(at)
	switch {
	case t.current == nil:
		quarters, _ := t.quarters(s.sim.now())
		return 25 * quarters
	case !finished:
		return 99
	}
	return 100
}

// quarters returns how many quarters of the duration of a change have passed,
// and when the next one will have.
func (t *item[V]) quarters(now time.Time) (done int, next time.Time) {
	total := t.due.Sub(t.began)
	for done < 3 && !now.Before(t.began.Add(total*time.Duration(done+1)/4)) {
		done++
	}
	return done, t.began.Add(total * time.Duration(done+1) / 4)
}
