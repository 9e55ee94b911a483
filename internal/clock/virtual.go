package clock

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Virtual is a clock that stands still until it is moved. It makes the calls
// that become due on the goroutine that moves it, in the order of their times
// and then of their creation, each while the clock shows its time. So the same
// moves always have the same effects.
type Virtual struct {
	mu     sync.Mutex // guards the fields below; never held during a call
	now    time.Time
	made   int
	timers []*timer // by due time
}

type timer struct {
	clock *Virtual
	at    time.Time
	seq   int
	f     func()
}

// NewVirtual returns a clock that shows the given time.
func NewVirtual(now time.Time) *Virtual { return &Virtual{now: now} }

// Now implements [Clock].
func (v *Virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// At implements [Clock].
func (v *Virtual) At(t time.Time, f func()) Timer {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made++
	added := &timer{clock: v, at: t, seq: v.made, f: f}
	if !t.After(v.now) {
		go f()
		return added
	}
	i, _ := slices.BinarySearchFunc(v.timers, added, compareTimers)
	v.timers = slices.Insert(v.timers, i, added)
	return added
}

func compareTimers(a, b *timer) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.seq, b.seq)) }

// Stop implements [Timer].
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	i := slices.Index(t.clock.timers, t)
	if i < 0 {
		return false
	}
	t.clock.timers = slices.Delete(t.clock.timers, i, i+1)
	return true
}

// Advance moves the clock forward.
func (v *Virtual) Advance(d time.Duration) { v.AdvanceTo(v.Now().Add(d)) }

// AdvanceTo moves the clock forward to a time, stopping at each timer on the
// way. It does nothing if the time has passed already.
func (v *Virtual) AdvanceTo(t time.Time) {
	for due := v.next(t); due != nil; due = v.next(t) {
		due.f()
	}
}

// next moves the clock to the first timer that is due by t and removes the
// timer, or moves the clock to t if there is none.
func (v *Virtual) next(t time.Time) *timer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.timers) == 0 || v.timers[0].at.After(t) {
		if t.After(v.now) {
			v.now = t
		}
		return nil
	}
	due := v.timers[0]
	v.timers = slices.Delete(v.timers, 0, 1)
	v.now = due.at
	return due
}
