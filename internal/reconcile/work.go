package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// reconcileLimit bounds how long a call may take, so that a driver that does
// not return does not keep a worker for ever. A driver returns [driver.Later]
// for what takes longer.
const reconcileLimit = time.Minute

// runWorker runs jobs until the context ends.
func (r *Reconciler) runWorker(ctx context.Context) {
	for j := r.next(ctx); j != nil; j = r.next(ctx) {
		requeueAfter, err := r.reconcile(ctx, j.task)
		r.finish(ctx, j, requeueAfter, err)
	}
}

// next waits for a job that is ready; nil: the context has ended.
func (r *Reconciler) next(ctx context.Context) *job {
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

// finish removes or requeues a job after its call has returned.
func (r *Reconciler) finish(ctx context.Context, j *job, requeueAfter time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	if err == nil {
		j.failures = 0
	}
	switch {
	case ctx.Err() != nil:
		// The end of the context may have interrupted the call. The next start
		// resyncs.
		delete(r.jobs, j.task)
	case err != nil:
		j.failures++
		requeueAfter := backoff(j.failures, j.name(), j.account, j.id)
		r.report(j.name(), err, "account", j.account, "id", j.id, "failures", j.failures, "again_in", requeueAfter)
		r.wait(j, r.Clock.Now().Add(requeueAfter))
	case j.woken:
		r.Count(j.name(), Done)
		r.enqueue(j)
	case !requeueAfter.IsZero():
		r.Count(j.name(), Waiting)
		r.wait(j, requeueAfter)
	default:
		r.Count(j.name(), Done)
		delete(r.jobs, j.task)
	}
	r.progress.Broadcast()
}

// report counts and logs a failure under the given name.
func (r *Reconciler) report(name string, err error, attrs ...any) {
	attrs = append([]any{"loop", name, "error", err}, attrs...)
	if _, ok := errors.AsType[*panicked](err); ok {
		r.Count(name, Panicked)
		r.Log.Error("a loop panicked", attrs...)
		return
	}
	r.Count(name, Failed)
	r.Log.Warn("a loop failed", attrs...)
}

// panicked is the error of a call that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// contain, deferred, turns a panic into an error.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = &panicked{p, debug.Stack()}
	}
}

// reconcile runs a task once.
func (r *Reconciler) reconcile(ctx context.Context, t task) (requeueAfter time.Time, err error) {
	defer contain(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.Clock.At(r.Clock.Now().Add(reconcileLimit), cancel).Stop()
	switch {
	case t.isResync():
		return r.resync(ctx, t.loop)
	case r.Mine(t.account):
		return t.loop.Reconcile(ctx, t.account, t.id)
	}
	return time.Time{}, nil
}

// resync wakes a loop for each resource that is pending in the store, that the
// driver has and the store has not, or that has drifted.
func (r *Reconciler) resync(ctx context.Context, l *loop) (requeueAfter time.Time, err error) {
	accounts, err := r.db.Pending(ctx)
	if err != nil {
		return requeueAfter, fmt.Errorf("listing the accounts with pending resources: %w", err)
	}
	kind := l.Kind().Facts().Name
	err = r.eachSnapshot(ctx, accounts, func(snap *store.Snapshot) {
		for o := range snap.Scan(kind, 0) {
			if pending(o) {
				r.trigger(task{l, snap.Account(), o.ID})
			}
		}
	})
	if err != nil {
		return requeueAfter, err
	}
	// Most of what the driver has is up to date. Without this filter each
	// resync of each node would reconcile all of it.
	type seen struct {
		id    string
		drift bool
	}
	found := map[string][]seen{}
	err = l.Observe(ctx, func(account, id string, drift bool) { found[account] = append(found[account], seen{id, drift}) })
	if err != nil {
		return requeueAfter, fmt.Errorf("observing the driver: %w", err)
	}
	err = r.eachSnapshot(ctx, slices.Sorted(maps.Keys(found)), func(snap *store.Snapshot) {
		for _, seen := range found[snap.Account()] {
			if o, ok := snap.Get(kind, seen.id); !ok || seen.drift || pending(o) {
				r.trigger(task{l, snap.Account(), seen.id})
			}
		}
	})
	if err != nil {
		return requeueAfter, err
	}
	return r.Clock.Now().Add(r.ResyncEvery), nil
}

// viewBatch is how many accounts are viewed at once: enough to share a query to
// the journal, and few enough to be held in memory.
const viewBatch = 100

// eachSnapshot calls each with the current snapshot of the accounts whose loops
// run on this node.
func (r *Reconciler) eachSnapshot(ctx context.Context, accounts []string, each func(*store.Snapshot)) error {
	accounts = slices.DeleteFunc(accounts, func(account string) bool { return !r.Mine(account) })
	for some := range slices.Chunk(accounts, viewBatch) {
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

// pending reports whether an object is deleted or waits for the driver.
func pending(o *store.Object) bool {
	return o.DeletedAt != 0 || resource.IsPending(o.Value)
}

// trigger is wake for callers that do not hold the mutex.
func (r *Reconciler) trigger(t task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake(t)
}
