// Package driver says what a region asks of the driver it runs on. A driver is
// one way to do it: a simulation, or machines and networks that are really
// there.
//
// A driver is asked with three verbs. Ensure takes the whole value that is
// wanted and makes the driver have it. Remove makes the driver have nothing of
// it. Observe tells what the driver has. Only loops ask a driver, and they may
// ask anything twice: after a crash they do not know whether the driver heard
// them. Values are plain data that a driver may keep.
package driver

import (
	"context"
	"errors"
	"io"
	"time"
)

// Drivers is all that a region asks of what it runs on.
type Drivers interface {
	Networks
	PublicCloud
	Links
	Cables
	Disks
	Machines

	// Close ends what the drivers do by themselves. Nothing is asked after it.
	Close()
}

// Host is what a region gives to its drivers.
type Host struct {
	Now   func() time.Time                     // the region's clock
	After func(time.Duration) <-chan time.Time // time.After by that clock
	Write ExportWriter                         // puts exports where their objects belong
}

// ExportWriter puts the content of an export, of the given number of bytes, where
// the export says, and reports as often as it likes how much is done. No content
// is zeroes. An error fails the export for good, unless the context has ended.
type ExportWriter func(ctx context.Context, e Export, size int64, content io.Reader, done func(percent int)) error

// ErrStale refuses a value that is older than the one the driver was last asked
// for: it comes from somebody who slept through a change. The driver stays as
// it is.
var ErrStale = errors.New("the driver was asked for a newer generation already")

// Key says which value of its kind a value is, and how new: every kind of value
// that a driver is asked for has one.
type Key struct {
	Account, ID string // together they name the value: an id is unique in its account

	// Generation grows with each change of the value. The same generation is
	// the same value.
	Generation uint64
}

// Later is the error of a call that was heard and whose change is under way.
// Whoever needs to know that it is done asks the same again, best at the given
// time: earlier is too early, later does no harm.
type Later struct{ At time.Time }

func (l Later) Error() string {
	return "the change is under way until " + l.At.Format(time.RFC3339Nano)
}

// UntilDone tells the answer that a change is under way from a failure: again is
// when it to ask again; zero if the change is done or has failed.
func UntilDone(err error) (again time.Time, failure error) {
	if later, ok := errors.AsType[Later](err); ok {
		return later.At, nil
	}
	return time.Time{}, err
}

// Never is the error of a call for what cannot be done, however often it is
// asked: what a disk was to be made from is gone. The driver stays as it is.
type Never struct{ Why string } // for people

func (n Never) Error() string { return n.Why }

// Refusal is the error of a call that leaves things as they were for a reason
// that is noted and not tried again: [Never] or [NoCapacity].
type Refusal interface {
	error
	refusal()
}

func (Never) refusal()      {}
func (NoCapacity) refusal() {}
