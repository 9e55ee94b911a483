// Package clock gives a region its time: the machine's, or one that stands
// still until it is moved. Nothing below cmd reads the time from elsewhere, so
// a region whose clock is moved is moved as a whole.
package clock

import "time"

// Clock tells the time and calls back when a time has come.
type Clock interface {
	Now() time.Time
	// At calls f once the time is t, or right away if it is already. The call
	// comes on a goroutine that At's caller does not wait for, and must return
	// at once: other timers may wait behind it.
	At(t time.Time, f func()) Timer
}

// Timer is a call that is still to come.
type Timer interface {
	// Stop prevents the call. It reports false if the call was made already.
	Stop() bool
}

// System is the clock of the machine.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) At(t time.Time, f func()) Timer { return time.AfterFunc(time.Until(t), f) }
