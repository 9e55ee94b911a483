package reconcile

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Ops declares how the resources of one kind are reconciled. T is the stored
// resource, W the value that the driver gets, and S what the driver reports.
// [For] makes a loop of it that works the same way for all kinds:
//
//   - a resource that the store does not have is removed from the driver;
//   - a resource that is up to date is only inspected;
//   - any other resource is ensured, and the result is recorded in a
//     transaction of its own.
//
// A resource with a method Pending() bool is up to date when that returns
// false. Note, Progress, Never and NoCapacity get the resource as it is by then, and are not
// called if it is gone; they must put it if they change it. If the resource has
// the fields Generation and ObservedGeneration, results for an older generation
// are dropped, and ObservedGeneration is set before Note.
type Ops[T, W, S any] struct {
	// Want returns the value to ensure; nil: there is nothing to ask of the
	// driver until something wakes the loop, or until the time of the error
	// [driver.Later].
	Want func(tx *resource.Tx, v *T) (*W, error)

	// Ensure asks the driver for the wanted value. It may report progress, also
	// beside the error [driver.Later].
	Ensure func(ctx context.Context, want W) (S, error)

	// Remove removes a resource from the driver; nil: the driver never has one.
	Remove func(ctx context.Context, account, id string) error

	// Note records that the wanted value is applied; nil: only
	// ObservedGeneration is recorded.
	Note func(tx *resource.Tx, v *T, want W, report S) error

	// Progress records how far the driver has come with work that lasts until
	// the given time; nil: nothing is recorded.
	Progress func(tx *resource.Tx, v *T, want W, report S, until time.Time) error

	// Never records that the driver can never apply what is wanted, and
	// NoCapacity that it has no room for it; nil: that is an error like any other.
	Never      func(tx *resource.Tx, v *T, why driver.Never) error
	NoCapacity func(tx *resource.Tx, v *T) error

	// Ending reports whether a resource must be removed from the driver, which
	// Ended then records; nil: the store keeps no such resource.
	Ending func(v *T) bool
	Ended  func(tx *resource.Tx, v *T) error

	// Inspect looks at what the driver has of a resource that is up to date,
	// and returns a function that records it; nil: there is nothing to record.
	// The field is nil for kinds that a driver does not change by itself.
	Inspect func(ctx context.Context, account string, v *T) (note func(tx *resource.Tx, v *T) error, err error)

	// Observe is [Loop.Observe]; nil: the driver has nothing of the kind.
	Observe func(ctx context.Context, found Found) error
}

// For returns the loop of a kind.
func For[T any, I resource.ID, W, S any](db *resource.DB, k *resource.Kind[T, I], ops Ops[T, W, S]) Loop {
	return &opsLoop[T, I, W, S]{ops, db, k}
}

type opsLoop[T any, I resource.ID, W, S any] struct {
	Ops[T, W, S]
	db   *resource.DB
	kind *resource.Kind[T, I]
}

func (l *opsLoop[T, I, W, S]) Kind() resource.Any { return l.kind }

func (l *opsLoop[T, I, W, S]) Observe(ctx context.Context, found Found) error {
	if l.Ops.Observe == nil {
		return nil
	}
	return l.Ops.Observe(ctx, found)
}

func (l *opsLoop[T, I, W, S]) Reconcile(ctx context.Context, account, id string) (requeueAfter time.Time, err error) {
	v, want, requeueAfter, err := l.load(ctx, account, I(id))
	switch {
	case err != nil:
		return requeueAfter, err
	case v == nil:
		return l.remove(ctx, account, id)
	case l.Ending != nil && l.Ending(v):
		if requeueAfter, err = l.remove(ctx, account, id); err != nil || !requeueAfter.IsZero() {
			return requeueAfter, err
		}
		return requeueAfter, l.note(ctx, account, I(id), l.Ended)
	case want != nil:
		return l.ensure(ctx, account, I(id), *want, generation(v))
	case l.Inspect == nil || !upToDate(v):
		return requeueAfter, nil
	}
	note, err := l.Inspect(ctx, account, v)
	if err != nil || note == nil {
		return requeueAfter, err
	}
	return requeueAfter, l.note(ctx, account, I(id), note)
}

// load returns a resource and the value to ensure.
func (l *opsLoop[T, I, W, S]) load(ctx context.Context, account string, id I) (v *T, want *W, requeueAfter time.Time, err error) {
	err = l.db.View(ctx, resource.Caller{Account: account}, func(tx *resource.Tx) (err error) {
		want, requeueAfter = nil, time.Time{}
		if v = l.kind.Find(tx, id); v != nil && !upToDate(v) && (l.Ending == nil || !l.Ending(v)) {
			want, err = l.Want(tx, v)
			requeueAfter, err = driver.UntilDone(err)
		}
		return err
	})
	return v, want, requeueAfter, err
}

func (l *opsLoop[T, I, W, S]) remove(ctx context.Context, account, id string) (requeueAfter time.Time, err error) {
	if l.Remove == nil {
		return requeueAfter, nil
	}
	return driver.UntilDone(l.Remove(ctx, account, id))
}

// ensure asks the driver for the wanted value of generation asked, and records
// the result.
func (l *opsLoop[T, I, W, S]) ensure(ctx context.Context, account string, id I, want W, asked uint64) (requeueAfter time.Time, err error) {
	report, err := l.Ensure(ctx, want)
	requeueAfter, err = driver.UntilDone(err)
	switch refused := l.refused(err); {
	case refused != nil:
		return requeueAfter, l.note(ctx, account, id, func(tx *resource.Tx, v *T) error {
			if generation(v) != asked {
				return nil
			}
			return refused(tx, v)
		})
	case err != nil:
		return requeueAfter, err
	case requeueAfter.IsZero():
		return requeueAfter, l.note(ctx, account, id, func(tx *resource.Tx, v *T) error {
			if !observe(v, asked) {
				return nil
			}
			if l.Note == nil {
				return l.kind.Put(tx, v)
			}
			return l.Note(tx, v, want, report)
		})
	case l.Progress == nil:
		return requeueAfter, nil
	}
	return requeueAfter, l.note(ctx, account, id, func(tx *resource.Tx, v *T) error {
		if generation(v) != asked {
			return nil
		}
		return l.Progress(tx, v, want, report, requeueAfter)
	})
}

// refused returns what records an error of the driver; nil: it is retried.
func (l *opsLoop[T, I, W, S]) refused(err error) func(*resource.Tx, *T) error {
	if _, full := errors.AsType[driver.NoCapacity](err); full {
		return l.NoCapacity
	}
	if why, never := errors.AsType[driver.Never](err); never && l.Never != nil {
		return func(tx *resource.Tx, v *T) error { return l.Never(tx, v, why) }
	}
	return nil
}

// note runs fn in a transaction with the resource, if it still exists.
func (l *opsLoop[T, I, W, S]) note(ctx context.Context, account string, id I, fn func(*resource.Tx, *T) error) error {
	return l.db.Update(ctx, resource.Caller{Account: account}, func(tx *resource.Tx) error {
		if v := l.kind.Find(tx, id); v != nil {
			return fn(tx, v)
		}
		return nil
	})
}

func upToDate(v any) bool {
	_, ok := v.(resource.Pending)
	return ok && !resource.IsPending(v)
}

// generation returns the Generation of a resource; 0 if it has none.
func generation(v any) uint64 {
	if f := reflect.ValueOf(v).Elem().FieldByName("Generation"); f.IsValid() {
		return f.Uint()
	}
	return 0
}

// observe sets the ObservedGeneration of a resource and reports whether it did:
// not if a newer one is recorded already. A resource without generations is
// always recorded.
func observe(v any, generation uint64) bool {
	f := reflect.ValueOf(v).Elem().FieldByName("ObservedGeneration")
	if !f.IsValid() || generation == 0 {
		return true
	}
	if f.Uint() >= generation {
		return false
	}
	f.SetUint(generation)
	return true
}
