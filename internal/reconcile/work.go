package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
)

// stepLimit bounds how long a step may take, so that a driver that does not
// answer does not keep a worker for ever. What takes long by nature is asked
// for again instead.
const stepLimit = time.Minute

// steps is a worker: it makes steps until the context ends.
func (r *Reconciler) steps(ctx context.Context) {
	for j := r.take(ctx); j != nil; j = r.take(ctx) {
		again, err := r.step(ctx, j.task)
		r.put(ctx, j, again, err)
	}
}

// take waits for a job that is ready; nil: the context has ended.
func (r *Reconciler) take(ctx context.Context) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.ready) == 0 && ctx.Err() == nil {
		r.work.Wait()
	}
	if ctx.Err() != nil {
		return nil
	}
	j := r.ready[0]
	r.ready = r.ready[1:]
	j.phase = active
	r.active++
	return j
}

// put puts a job where it belongs after a step.
func (r *Reconciler) put(ctx context.Context, j *job, again time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	if err == nil {
		j.failures = 0
	}
	switch {
	case ctx.Err() != nil:
		// Perhaps it was us who interrupted the step. The next start sweeps.
		delete(r.jobs, j.task)
	case err != nil:
		j.failures++
		again := pace(j.failures, j.name(), j.account, j.id)
		r.report(j.name(), err, "account", j.account, "id", j.id, "failures", j.failures, "again_in", again)
		r.wait(j, r.Clock.Now().Add(again))
	case j.woken:
		r.Count(j.name(), Done)
		r.enqueue(j)
	case !again.IsZero():
		r.Count(j.name(), Waiting)
		r.wait(j, again)
	default:
		r.Count(j.name(), Done)
		delete(r.jobs, j.task)
	}
	r.moved.Broadcast()
}

// report counts and logs a failure of what is counted under the name.
func (r *Reconciler) report(name string, err error, attrs ...any) {
	attrs = append([]any{"loop", name, "error", err}, attrs...)
	if _, ok := errors.AsType[*panicked](err); ok {
		r.Count(name, Panicked)
		r.Log.Error("a step panicked", attrs...)
		return
	}
	r.Count(name, Failed)
	r.Log.Warn("a step failed", attrs...)
}

// panicked is the error of a step that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// contain is deferred, and makes a panic an error like any other.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = &panicked{p, debug.Stack()}
	}
}

// step makes a step.
func (r *Reconciler) step(ctx context.Context, t task) (again time.Time, err error) {
	defer contain(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.Clock.At(r.Clock.Now().Add(stepLimit), cancel).Stop()
	switch {
	case t.isSweep():
		return r.sweep(ctx, t.loop)
	case r.Mine(t.account):
		return t.loop.Reconcile(ctx, t.account, t.id)
	}
	return time.Time{}, nil
}

// sweep looks for all that a loop may have to do: what the store says is not
// settled, and what the driver has and the store has not, or has otherwise.
func (r *Reconciler) sweep(ctx context.Context, l *loop) (again time.Time, err error) {
	accounts, err := r.db.Pending(ctx)
	if err != nil {
		return again, fmt.Errorf("listing the unsettled accounts: %w", err)
	}
	kind := l.Kind().Facts().Name
	err = r.views(ctx, accounts, func(snap *store.Snapshot) {
		for o := range snap.Scan(kind, 0) {
			if pending(o) {
				r.look(task{l, snap.Account(), o.ID})
			}
		}
	})
	if err != nil {
		return again, err
	}
	// The driver mostly has what the store has. A step for each of that, as often
	// as nodes sweep, would be most of what they do.
	type seen struct {
		id    string
		drift bool
	}
	found := map[string][]seen{}
	err = l.Observe(ctx, func(account, id string, drift bool) { found[account] = append(found[account], seen{id, drift}) })
	if err != nil {
		return again, fmt.Errorf("observing the driver: %w", err)
	}
	err = r.views(ctx, slices.Sorted(maps.Keys(found)), func(snap *store.Snapshot) {
		for _, seen := range found[snap.Account()] {
			if o, ok := snap.Get(kind, seen.id); !ok || seen.drift || pending(o) {
				r.look(task{l, snap.Account(), seen.id})
			}
		}
	})
	if err != nil {
		return again, err
	}
	return r.Clock.Now().Add(r.Sweep), nil
}

// viewed is how many accounts are viewed at once: enough to share a question to
// the journal, and few enough to be held in memory.
const viewed = 100

// views hands over those of the accounts that are this node's, as they are now.
func (r *Reconciler) views(ctx context.Context, accounts []string, each func(*store.Snapshot)) error {
	accounts = slices.DeleteFunc(accounts, func(account string) bool { return !r.Mine(account) })
	for some := range slices.Chunk(accounts, viewed) {
		snapshots, err := r.db.Store.Views(ctx, some)
		if err != nil {
			return err
		}
		for _, snap := range snapshots {
			each(snap)
		}
	}
	return nil
}

// pending reports whether a loop must look at an object.
func pending(o *store.Object) bool {
	u, ok := o.Value.(interface{ Pending() bool })
	return o.DeletedAt != 0 || ok && u.Pending()
}

// look wakes a task.
func (r *Reconciler) look(t task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake(t)
}
