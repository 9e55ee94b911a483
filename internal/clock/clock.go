// Package clock is the time of a region: the machine's, or a clock that stands
// still until it is moved. Nothing below cmd reads the time from elsewhere, so
// moving the clock moves the whole region.
package clock

import "time"

// Clock returns the time and calls back at a given time.
type Clock interface {
	Now() time.Time
	// At calls f at time t, or immediately if t has passed. The call runs on
	// another goroutine, and f must not block, because other timers may wait
	// for it.
	At(t time.Time, f func()) Timer
}

// Timer is a pending call.
type Timer interface {
	// Stop prevents the call. It returns false if the call was made already.
	Stop() bool
}

// System returns the clock of the machine.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) At(t time.Time, f func()) Timer { return time.AfterFunc(time.Until(t), f) }
