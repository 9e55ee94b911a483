package reconcile

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Ops say how the resources of one kind are brought to a driver. T is the
// resource, W what the driver must have of it, and S what the driver reports of
// it. [For] makes a loop of them, whose steps are the same for all kinds:
//
//   - what the store does not have is removed from the driver;
//   - for what is up to date nothing is done, save to inspect it;
//   - of anything else, what is wanted is ensured, and that is noted in a
//     transaction of its own.
//
// A resource that has the method Pending() bool is up to date when that
// returns false. Note, Progress and Fail get the resource as it is by then, if it
// is still there, and write it if they change it. Of a resource with the fields
// Generation and ObservedGeneration, a later generation is not noted upon, and ObservedGeneration is
// set before Note.
type Ops[T, W, S any] struct {
	// Want returns what the driver must have of a resource; nil: there is nothing
	// to ask of it now. again is when to look again, unless something wakes the
	// loop.
	Want func(tx *resource.Tx, v *T) (want *W, again time.Time, err error)

	// Ensure makes the driver have it. It may report how far that is, also beside
	// the error [driver.Later].
	Ensure func(ctx context.Context, want W) (S, error)

	// Remove makes the driver have nothing of a resource; nil: it never has.
	Remove func(ctx context.Context, account, id string) error

	// Note notes that the driver has what was wanted; nil: the resource is written
	// with its new ObservedGeneration.
	Note func(tx *resource.Tx, v *T, want W, report S) error

	// Progress notes how far the driver is with what takes until a time; nil:
	// nothing is noted.
	Progress func(tx *resource.Tx, v *T, want W, report S, until time.Time) error

	// Fail notes that the driver refuses what is wanted; nil: that is an error
	// like any other.
	Fail func(tx *resource.Tx, v *T, want W, why driver.Refusal) error

	// Ending reports whether a resource ends once the driver has nothing of it,
	// which Ended then notes; nil: the store has none that ends.
	Ending func(v *T) bool
	Ended  func(tx *resource.Tx, v *T) error

	// Inspect looks at what the driver has of a resource that is up to date, and
	// returns how to note it; nil: there is nothing to note. Inspect itself is nil
	// where a driver does nothing by itself.
	Inspect func(ctx context.Context, account string, v *T) (note func(tx *resource.Tx, v *T) error, err error)

	// Observe is as in [Loop]; nil: the driver has nothing of the kind.
	Observe func(ctx context.Context, found Found) error
}

// For makes the loop of a kind.
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

func (l *opsLoop[T, I, W, S]) Reconcile(ctx context.Context, account, id string) (again time.Time, err error) {
	v, want, again, err := l.look(ctx, account, I(id))
	switch {
	case err != nil:
		return again, err
	case v == nil:
		return l.remove(ctx, account, id)
	case l.Ending != nil && l.Ending(v):
		if again, err = l.remove(ctx, account, id); err != nil || !again.IsZero() {
			return again, err
		}
		return again, l.note(ctx, account, I(id), l.Ended)
	case want != nil:
		return l.ensure(ctx, account, I(id), *want, generation(v))
	case l.Inspect == nil || !upToDate(v):
		return again, nil
	}
	note, err := l.Inspect(ctx, account, v)
	if err != nil || note == nil {
		return again, err
	}
	return again, l.note(ctx, account, I(id), note)
}

// look returns a resource and what the driver must have of it.
func (l *opsLoop[T, I, W, S]) look(ctx context.Context, account string, id I) (v *T, want *W, again time.Time, err error) {
	err = l.db.View(ctx, resource.Caller{Account: account}, func(tx *resource.Tx) (err error) {
		want, again = nil, time.Time{}
		if v = l.kind.Find(tx, id); v != nil && !upToDate(v) && (l.Ending == nil || !l.Ending(v)) {
			want, again, err = l.Want(tx, v)
		}
		return err
	})
	return v, want, again, err
}

func (l *opsLoop[T, I, W, S]) remove(ctx context.Context, account, id string) (again time.Time, err error) {
	if l.Remove == nil {
		return again, nil
	}
	return driver.UntilDone(l.Remove(ctx, account, id))
}

// ensure asks the driver for what a generation of a resource wants, and notes
// what came of it.
func (l *opsLoop[T, I, W, S]) ensure(ctx context.Context, account string, id I, want W, asked uint64) (again time.Time, err error) {
	report, err := l.Ensure(ctx, want)
	again, err = driver.UntilDone(err)
	refusal, refused := errors.AsType[driver.Refusal](err)
	switch {
	case refused && l.Fail != nil:
		return again, l.note(ctx, account, id, func(tx *resource.Tx, v *T) error {
			if generation(v) != asked {
				return nil
			}
			return l.Fail(tx, v, want, refusal)
		})
	case err != nil:
		return again, err
	case again.IsZero():
		return again, l.note(ctx, account, id, func(tx *resource.Tx, v *T) error {
			if !apply(v, asked) {
				return nil
			}
			if l.Note == nil {
				return l.kind.Put(tx, v)
			}
			return l.Note(tx, v, want, report)
		})
	case l.Progress == nil:
		return again, nil
	}
	return again, l.note(ctx, account, id, func(tx *resource.Tx, v *T) error {
		if generation(v) != asked {
			return nil
		}
		return l.Progress(tx, v, want, report, again)
	})
}

// note runs fn in a transaction over a resource, if it is still there.
func (l *opsLoop[T, I, W, S]) note(ctx context.Context, account string, id I, fn func(*resource.Tx, *T) error) error {
	return l.db.Update(ctx, resource.Caller{Account: account}, func(tx *resource.Tx) error {
		if v := l.kind.Find(tx, id); v != nil {
			return fn(tx, v)
		}
		return nil
	})
}

func upToDate(v any) bool {
	u, ok := v.(interface{ Pending() bool })
	return ok && !u.Pending()
}

// generation is that of a resource; 0 if it has none.
func generation(v any) uint64 {
	if f := reflect.ValueOf(v).Elem().FieldByName("Generation"); f.IsValid() {
		return f.Uint()
	}
	return 0
}

// apply notes in a resource that the driver has a generation of it, unless it is
// known to have a newer one. A resource without a generation is not the driver's:
// what is noted of it is something else.
func apply(v any, generation uint64) bool {
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
