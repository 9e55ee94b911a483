// Package driver defines what a region asks of the infrastructure that it runs
// on. A driver is one way to provide it: a simulation, or real machines and
// networks.
//
// A driver has three verbs. Ensure takes the whole desired value and applies
// it. Remove removes all traces of a value. Observe lists what exists. Only
// loops call a driver, and they may repeat any call, because after a crash they
// do not know whether the driver got it. Values are plain data that a driver
// may keep.
package driver

import (
	"context"
	"errors"
	"io"
	"time"
)

// Drivers is everything that a region runs on.
type Drivers interface {
	Networks
	PublicCloud
	Links
	Cables
	Disks
	Machines
	Balancers

	// Close stops the drivers' background work. No method is called after it.
	Close()
}

// Host is what a region provides to its drivers.
type Host struct {
	Now   func() time.Time                     // the region's clock
	After func(time.Duration) <-chan time.Time // time.After by that clock
	Write ExportWriter                         // writes exports to their object store

	Region string       // the name of the region, which the names of access logs contain
	Put    ObjectWriter // writes access logs to their buckets
}

// ObjectWriter writes an object of an account, size bytes, to a bucket. It replaces
// an object of the same key.
type ObjectWriter func(ctx context.Context, account, bucket, key string, content io.ReaderAt, size int64) error

// ExportWriter writes the content of an export, size bytes, to the object that
// the export names, and may call done to report progress. A nil content stands
// for zeroes. An error fails the export for good, unless the context has ended.
type ExportWriter func(ctx context.Context, e Export, size int64, content io.Reader, done func(percent int)) error

// ErrStale refuses a value that is older than the newest one that the driver
// has been asked for: the caller has missed a change. Nothing is changed.
var ErrStale = errors.New("the driver was asked for a newer generation already")

// Key is the name and generation of a value. Every kind of value that a driver
// is asked for has one.
type Key struct {
	Account, ID string // together they name the value: an id is unique in its account

	// Generation grows with each change of the value. The same generation is
	// the same value.
	Generation uint64
}

// Value is what a driver is asked for, or what it reports of that.
type Value interface{ Key() Key }

// Later is the error of a call that was accepted and whose change is under way.
// A caller that must know when it is done repeats the call, best at the given
// time: a call before it is too early, a later one does no harm.
type Later struct{ At time.Time }

func (l Later) Error() string {
	return "the change is under way until " + l.At.Format(time.RFC3339Nano)
}

// UntilDone separates a change that is under way from a failure. requeueAfter
// is when to call again; it is zero if the change is done or has failed.
func UntilDone(err error) (requeueAfter time.Time, failure error) {
	if later, ok := errors.AsType[Later](err); ok {
		return later.At, nil
	}
	return time.Time{}, err
}

// Never is the error of a call that cannot succeed, however often it is
// repeated: for example, the source of a disk is gone. Nothing is changed.
type Never struct{ Why string } // a sentence

func (n Never) Error() string { return n.Why }
