// Package reconcile runs the loops that bring the infrastructure to the state
// that the store describes. It knows no family: a [Loop] names a kind of
// resource and reconciles one resource at a time.
//
// Committed changes, requested times, notifications from the driver and a
// periodic resync wake a loop. A wake-up says where to look and nothing else:
// it may be doubled or lost, and the next resync finds what was missed.
// Reconcile looks at the stored state, calls the driver outside of any
// transaction, and records the result in a short one. Only one call at a time
// handles a resource, and a call that fails is retried with backoff.
//
// The package also purges deleted resources once their kind's retention has
// passed.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// Loop reconciles the resources of one kind with the driver.
type Loop interface {
	// Kind is the kind whose changes wake the loop. Its resources may have a
	// method Pending() bool, which reports whether a resync must look at them.
	Kind() resource.Any

	// Reconcile takes a resource as far as it can get now, including its
	// removal from the driver if the store no longer has it. It may be called
	// for a resource that is up to date. A requeueAfter that is not zero asks
	// for another call at that time. After an error the call is retried. An
	// interrupted call leaves the driver and the store in a state from which
	// the next one can go on.
	Reconcile(ctx context.Context, account, id string) (requeueAfter time.Time, err error)

	// Observe calls found for each resource that the driver has, so that a
	// resync also looks at those that the store no longer has.
	Observe(ctx context.Context, found Found) error
}

// Found is called for each resource that a driver has. A resource that is up to
// date is skipped unless drift says that what the driver has may differ from
// what it was asked for.
type Found func(account, id string, drift bool)

// Outcome is how a call of Reconcile or a resync ended.
type Outcome string

// The outcomes that are counted.
const (
	Done     Outcome = "done"     // nothing is left to do
	Waiting  Outcome = "waiting"  // it asked for another call
	Failed   Outcome = "failed"   // it will be retried
	Panicked Outcome = "panicked" // it will be retried; a bug
)

// Options configures a [Reconciler].
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger // nil: no log

	// Workers is the maximum number of concurrent calls; 64 if zero. They
	// mostly wait for their transactions, and those that wait at the same time
	// share a commit.
	Workers int

	// ResyncEvery is the time between two resyncs of a loop; 5 minutes if zero.
	ResyncEvery time.Duration

	// Mine reports whether this node runs the loops of an account; nil: it runs
	// the loops of all accounts.
	Mine func(account string) bool

	// Count is called for each outcome; nil: outcomes are not counted. loop is
	// the name of the loop's kind. Resyncs, purges and failed notifications are
	// counted apart, as "Net sweep", "Vm purge" and "Vm listening".
	Count func(loop string, outcome Outcome)
}

// Reconciler runs loops. It is safe for concurrent use.
type Reconciler struct {
	Options
	db *resource.DB

	mu       sync.Mutex // guards the fields below; locked before the clock's mutex
	progress *sync.Cond // a job has changed its phase, or a context has ended; for WaitIdle
	work     *sync.Cond // a job is ready, or a context has ended; for the workers
	state    running
	loops    map[string][]*loop // by the name of their kind
	jobs     map[task]*job
	ready    []*job // oldest first
	active   int    // number of jobs that a worker runs
}

// running is the state of a reconciler.
type running int

const (
	notStarted running = iota
	started
	ended
)

// ErrEnded is returned by [Reconciler.WaitIdle] after the reconciler has ended.
var ErrEnded = errors.New("the loops have ended")

// New returns a reconciler that does nothing before [Reconciler.Run].
func New(o Options) *Reconciler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Workers == 0 {
		o.Workers = 64
	}
	if o.ResyncEvery == 0 {
		o.ResyncEvery = 5 * time.Minute
	}
	if o.Mine == nil {
		o.Mine = func(string) bool { return true }
	}
	if o.Count == nil {
		o.Count = func(string, Outcome) {}
	}
	r := &Reconciler{Options: o, loops: map[string][]*loop{}, jobs: map[task]*job{}}
	r.progress, r.work = sync.NewCond(&r.mu), sync.NewCond(&r.mu)
	return r
}

// loop is a registered loop.
type loop struct {
	Loop
	name string // in the log and the counters
}

// Run resyncs once and then runs the loops, and a loop that purges deleted
// resources, until the context ends and the calls under way have returned. It
// may be called once.
func (r *Reconciler) Run(ctx context.Context, db *resource.DB, loops ...Loop) {
	r.mu.Lock()
	r.db, r.state = db, started
	var listeners []*loop
	for _, l := range loops {
		added := r.add(l, l.Kind().Facts().Name)
		if _, ok := l.(Listener); ok {
			listeners = append(listeners, added)
		}
	}
	for _, k := range db.Kinds() {
		if facts := k.Facts(); facts.Retention > 0 {
			r.add(&purge{db, k, r.Clock.Now}, facts.Name+" purge")
		}
	}
	r.progress.Broadcast()
	r.mu.Unlock()

	defer context.AfterFunc(ctx, r.broadcast)()
	var under sync.WaitGroup
	for range r.Workers {
		under.Go(func() { r.runWorker(ctx) })
	}
	for _, l := range listeners {
		under.Go(func() { r.listen(ctx, l, l.Loop.(Listener)) })
	}
	under.Wait()

	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.loops, r.jobs, r.ready = ended, nil, nil, nil
	r.progress.Broadcast()
}

// add registers a loop and wakes its resync. The caller holds the mutex.
func (r *Reconciler) add(l Loop, name string) *loop {
	added := &loop{l, name}
	r.loops[l.Kind().Facts().Name] = append(r.loops[l.Kind().Facts().Name], added)
	r.wake(task{loop: added})
	return added
}

// Changed wakes the loops for the resources that a transaction has changed. It
// is meant for [store.Options.Changed], and returns at once.
func (r *Reconciler) Changed(changes []store.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		for _, l := range r.loops[c.Kind] {
			r.wake(task{l, c.Account, c.ID})
		}
	}
}

// LookAgain wakes the resync of every loop, because [Options.Mine] may report
// more accounts than before.
func (r *Reconciler) LookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, loops := range r.loops {
		for _, l := range loops {
			r.wake(task{loop: l})
		}
	}
}

// WaitIdle waits until nothing is left to do now. It returns the time of the
// next job, not counting regular resyncs, or zero if there is none. A test
// moves its clock there and waits again.
func (r *Reconciler) WaitIdle(ctx context.Context) (next time.Time, err error) {
	defer context.AfterFunc(ctx, r.broadcast)()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return time.Time{}, err
		}
		if r.state == ended {
			return time.Time{}, ErrEnded
		}
		if next, idle := r.idle(); idle {
			return next, nil
		}
		r.progress.Wait()
	}
}

// idle reports whether nothing is left to do now, and the time of the next job.
func (r *Reconciler) idle() (next time.Time, idle bool) {
	if r.state != started || r.active > 0 || len(r.ready) > 0 {
		return next, false
	}
	now := r.Clock.Now()
	for _, j := range r.jobs {
		if !j.due.After(now) {
			return next, false
		}
		if periodic := j.isResync() && j.failures == 0; !periodic && (next.IsZero() || j.due.Before(next)) {
			next = j.due
		}
	}
	return next, true
}

// broadcast wakes every goroutine that waits for the reconciler, which then
// looks at its context.
func (r *Reconciler) broadcast() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.Broadcast()
	r.work.Broadcast()
}
