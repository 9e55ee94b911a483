// Package drivertest has the tests that every driver passes: the promises of
// package driver.
package drivertest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	gocmp "github.com/google/go-cmp/cmp"
)

// methods are the methods of a driver for one kind of value.
type methods[V driver.Value] struct {
	ensure  func(context.Context, V) error
	remove  func(ctx context.Context, account, id string) error
	observe func(context.Context) ([]V, error)
	until   func(time.Time) // returns once the clock of the driver shows at least the time
}

// subject is a driver under test, and the values it is tested with.
type subject[V driver.Value] struct {
	*testing.T
	methods[V]

	// sample returns a value with every field set, and changed returns its next
	// generation, which differs in everything that can change.
	sample  func(driver.Key) V
	changed func(V) V
	shown   func(V) V // the value as Observe returns it
}

// run tests a driver with one kind of value. open returns an empty driver.
func run[V driver.Value](t *testing.T, open func(*testing.T) methods[V], sample func(driver.Key) V, changed, shown func(V) V) {
	tests := []struct {
		name string
		run  func(subject[V])
	}{
		{"an empty driver has nothing", testEmpty[V]},
		{"a value is as it was asked for", testEnsure[V]},
		{"asked twice is the same as once", testTwice[V]},
		{"a value becomes what it is changed to", testChange[V]},
		{"changes asked for at once end in the last", testChangeWithoutWaiting[V]},
		{"an older generation is refused", testStale[V]},
		{"a value being made is seen", testBeingMade[V]},
		{"a removed value is gone", testRemove[V]},
		{"removing nothing succeeds", testRemoveNothing[V]},
		{"removed while it is made", testRemoveWithoutWaiting[V]},
		{"a removed value may come back", testComeBack[V]},
		{"accounts do not share values", testAccounts[V]},
		{"values may be alike but for their names", testAlike[V]},
		{"the driver keeps its own copy", testCopy[V]},
		{"calls at once end in the newest", testAtOnce[V]},
		{"an ended call changes nothing", testEnded[V]},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(subject[V]{t, open(t), sample, changed, shown})
		})
	}
}

// patience is how often a driver may return Later for one change.
const patience = 100

// done repeats a call until its change is no longer under way.
func (s subject[V]) done(what string, call func() error) {
	s.Helper()
	for range patience {
		err := call()
		later, ok := errors.AsType[driver.Later](err)
		if !ok {
			if err != nil {
				s.Fatalf("%s: %v", what, err)
			}
			return
		}
		s.until(later.At)
	}
	s.Fatalf("%s: still under way after %d calls", what, patience)
}

// make asks for a value until the driver has it.
func (s subject[V]) make(v V) {
	s.Helper()
	s.done("ensuring "+v.Key().ID, func() error { return s.ensure(s.Context(), v) })
}

// unmake asks for a removal until the driver has nothing left.
func (s subject[V]) unmake(v V) {
	s.Helper()
	key := v.Key()
	s.done("removing "+key.ID, func() error { return s.remove(s.Context(), key.Account, key.ID) })
}

// ask checks the error of a call, which may be that its change is under way.
func (s subject[V]) ask(err error) {
	s.Helper()
	if _, under := errors.AsType[driver.Later](err); err != nil && !under {
		s.Fatal(err)
	}
}

// sees returns the values that the driver has.
func (s subject[V]) sees() []V {
	s.Helper()
	got, err := s.observe(s.Context())
	if err != nil {
		s.Fatalf("observing: %v", err)
	}
	return got
}

// has compares what the driver has with what it should have.
func (s subject[V]) has(want ...V) {
	s.Helper()
	for i := range want {
		want[i] = s.shown(want[i])
	}
	if diff := gocmp.Diff(want, s.sees(), Equal()); diff != "" {
		s.Errorf("what the driver has (-want +got):\n%s", diff)
	}
}

const alice, bob = "000000000001", "000000000002"

// one and other are the keys that the tests use.
var (
	one   = driver.Key{Account: alice, ID: "id-00000001", Generation: 3}
	other = driver.Key{Account: alice, ID: "id-00000002", Generation: 1}
)

func testEmpty[V driver.Value](s subject[V]) { s.has() }

func testEnsure[V driver.Value](s subject[V]) {
	s.make(s.sample(one))
	s.has(s.sample(one))
}

func testTwice[V driver.Value](s subject[V]) {
	s.make(s.sample(one))
	s.make(s.sample(one))
	s.has(s.sample(one))
}

func testChange[V driver.Value](s subject[V]) {
	s.make(s.sample(one))
	s.make(s.changed(s.sample(one)))
	s.has(s.changed(s.sample(one)))
}

func testChangeWithoutWaiting[V driver.Value](s subject[V]) {
	s.ask(s.ensure(s.Context(), s.sample(one)))
	s.ask(s.ensure(s.Context(), s.changed(s.sample(one))))
	s.make(s.changed(s.sample(one)))
	s.has(s.changed(s.sample(one)))
}

func testStale[V driver.Value](s subject[V]) {
	old, young := s.sample(one), s.changed(s.sample(one))
	s.ask(s.ensure(s.Context(), young))
	if err := s.ensure(s.Context(), old); !errors.Is(err, driver.ErrStale) {
		s.Errorf("generation 3 after 4, perhaps under way: got %v, want ErrStale", err)
	}
	s.make(young)
	if err := s.ensure(s.Context(), old); !errors.Is(err, driver.ErrStale) {
		s.Errorf("generation 3 after 4: got %v, want ErrStale", err)
	}
	s.has(young)
}

func testBeingMade[V driver.Value](s subject[V]) {
	s.ask(s.ensure(s.Context(), s.sample(one)))
	got := s.sees()
	if len(got) != 1 || got[0].Key().Account != one.Account || got[0].Key().ID != one.ID {
		s.Errorf("once a value was asked for, the driver shows %+v", got)
	}
}

func testRemove[V driver.Value](s subject[V]) {
	s.make(s.sample(one))
	s.make(s.sample(other))
	s.unmake(s.sample(one))
	s.has(s.sample(other))
}

func testRemoveNothing[V driver.Value](s subject[V]) {
	s.unmake(s.sample(one))
	s.make(s.sample(one))
	s.unmake(s.sample(one))
	s.unmake(s.sample(one))
	s.has()
}

func testRemoveWithoutWaiting[V driver.Value](s subject[V]) {
	s.ask(s.ensure(s.Context(), s.sample(one)))
	s.unmake(s.sample(one))
	s.has()
}

// A copy of a region that is put back has lower generations than the one it
// replaces, whose values were removed first.
func testComeBack[V driver.Value](s subject[V]) {
	s.make(s.changed(s.sample(one)))
	s.unmake(s.sample(one))
	s.make(s.sample(one))
	s.has(s.sample(one))
}

func testAccounts[V driver.Value](s subject[V]) {
	foreign := driver.Key{Account: bob, ID: one.ID, Generation: one.Generation - 1}
	s.make(s.sample(one))
	s.make(s.sample(foreign))
	s.has(s.sample(one), s.sample(foreign))
	s.unmake(s.sample(one))
	s.has(s.sample(foreign))
}

func testAlike[V driver.Value](s subject[V]) {
	s.make(s.sample(one))
	s.make(s.sample(other))
	s.has(s.sample(one), s.sample(other))
}

func testCopy[V driver.Value](s subject[V]) {
	v := s.sample(one)
	s.make(v)
	scribble(reflect.ValueOf(v))
	s.has(s.sample(one))

	for _, seen := range s.sees() {
		scribble(reflect.ValueOf(seen))
	}
	s.has(s.sample(one))
}

// scribble zeroes everything that a value shares with its copies.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanInterface() {
				scribble(field)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
			v.Index(i).SetZero()
		}
	case reflect.Map:
		v.Clear()
	case reflect.Pointer:
		if !v.IsNil() {
			v.Elem().SetZero()
		}
	}
}

func testAtOnce[V driver.Value](s subject[V]) {
	const generations = 20
	var calls sync.WaitGroup
	for i := range generations {
		key := one
		key.Generation = uint64(i + 1)
		calls.Go(func() {
			err := s.ensure(s.Context(), s.sample(key))
			if _, under := errors.AsType[driver.Later](err); err != nil && !under && !errors.Is(err, driver.ErrStale) {
				s.Errorf("ensuring generation %d: %v", key.Generation, err)
			}
			if _, err := s.observe(s.Context()); err != nil {
				s.Errorf("observing: %v", err)
			}
		})
	}
	calls.Wait()
	newest := one
	newest.Generation = generations
	s.make(s.sample(newest))
	s.has(s.sample(newest))
}

func testEnded[V driver.Value](s subject[V]) {
	ended, end := context.WithCancel(s.Context())
	end()
	if err := s.ensure(ended, s.sample(one)); !errors.Is(err, context.Canceled) {
		s.Errorf("ensuring when the call has ended: got %v, want its context's error", err)
	}
	s.has()
	s.make(s.sample(one))
	if err := s.remove(ended, one.Account, one.ID); !errors.Is(err, context.Canceled) {
		s.Errorf("removing when the call has ended: got %v, want its context's error", err)
	}
	if _, err := s.observe(ended); !errors.Is(err, context.Canceled) {
		s.Errorf("observing when the call has ended: got %v, want its context's error", err)
	}
	s.has(s.sample(one))
}
