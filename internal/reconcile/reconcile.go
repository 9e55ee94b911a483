// Package reconcile runs the loops that bring the driver to what the store
// says. It knows no family: a [Loop] says which kind of resource it is about
// and how to take one of them a step further.
//
// A loop is woken by committed changes, by times that it asked for, by what it
// hears of the driver, and by a sweep at the start and from time to time. A wake-up says where to look and
// nothing else: it may come twice or get lost, and the next sweep finds what
// was missed. A step looks at the state, asks the driver outside of any
// transaction, and notes what came of it in a short one. One resource has one
// step at a time; a step that fails is repeated at a growing pace.
//
// The package also removes deleted resources once they were readable for as
// long as their kind keeps them.
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

// Loop brings the resources of one kind to the driver.
type Loop interface {
	// Kind is the kind whose changes wake the loop. A resource of it that has
	// a method Pending() bool says with it whether a sweep must look at it.
	Kind() resource.Any

	// Reconcile takes a resource as far as it goes now, be it to its end if the
	// store does not have it any more. It may be called for one that needs
	// nothing. It answers when it wants to be called again, if it does. An
	// error means again later; the driver and the store are as if the step was
	// interrupted, so a step that was is just done again.
	Reconcile(ctx context.Context, account, id string) (again time.Time, err error)

	// Observe finds the resources that the driver has, so that a sweep looks at
	// those that the store has forgotten.
	Observe(ctx context.Context, found Found) error
}

// Found is called for each resource that a driver has. Those that are up to date
// need no look, unless drift says that the driver may have something else of
// them than was asked for.
type Found func(account, id string, drift bool)

// Outcome is how a step ended.
type Outcome string

// The outcomes that are counted.
const (
	Done     Outcome = "done"     // nothing is left to do
	Waiting  Outcome = "waiting"  // it asked to be called again
	Failed   Outcome = "failed"   // it will be repeated
	Panicked Outcome = "panicked" // it will be repeated, and somebody should look
)

// Options configures a [Reconciler].
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger // nil: no log

	// Workers bounds how many steps run at once; 64 if zero. Steps mostly wait
	// for their transactions, and those that wait at the same time share a commit.
	Workers int

	// Sweep is the time between two sweeps of a loop; 5 minutes if zero.
	Sweep time.Duration

	// Mine says whether this node runs the loops of an account; nil: of all.
	Mine func(account string) bool

	// Count is told of each step and how it ended; nil: nobody is. A loop is
	// named for its kind; "Net sweep" and "Vm purge" are counted apart, and so
	// is "Vm listening" when it fails.
	Count func(loop string, outcome Outcome)
}

// Reconciler runs loops. It is safe for concurrent use.
type Reconciler struct {
	Options
	db *resource.DB

	mu     sync.Mutex // guards what follows, and comes before the clock's
	moved  *sync.Cond // whenever a job moves on, or a context ends: for who waits until all is done
	work   *sync.Cond // whenever a job is ready, which one worker takes, or a context ends
	state  running
	loops  map[string][]*loop // by the name of their kind
	jobs   map[task]*job
	ready  []*job // in the order in which they became so
	active int    // how many jobs are at a worker
}

// running says where a reconciler is in its life.
type running int

const (
	idle running = iota
	started
	ended
)

// ErrEnded answers who waits for a reconciler that has ended.
var ErrEnded = errors.New("the loops have ended")

// New makes a reconciler. It does nothing before [Reconciler.Run].
func New(o Options) *Reconciler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Workers == 0 {
		o.Workers = 64
	}
	if o.Sweep == 0 {
		o.Sweep = 5 * time.Minute
	}
	if o.Mine == nil {
		o.Mine = func(string) bool { return true }
	}
	if o.Count == nil {
		o.Count = func(string, Outcome) {}
	}
	r := &Reconciler{Options: o, loops: map[string][]*loop{}, jobs: map[task]*job{}}
	r.moved, r.work = sync.NewCond(&r.mu), sync.NewCond(&r.mu)
	return r
}

// loop is a registered loop.
type loop struct {
	Loop
	name string // in the log and the counters
}

// Run sweeps once and then runs the loops, and the one that removes what was
// deleted long ago, until the context ends and the steps under way have
// returned. It is called once.
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
	r.moved.Broadcast()
	r.mu.Unlock()

	defer context.AfterFunc(ctx, r.move)()
	var under sync.WaitGroup
	for range r.Workers {
		under.Go(func() { r.steps(ctx) })
	}
	for _, l := range listeners {
		under.Go(func() { r.listen(ctx, l, l.Loop.(Listener)) })
	}
	under.Wait()

	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.loops, r.jobs, r.ready = ended, nil, nil, nil
	r.moved.Broadcast()
}

// add registers a loop and has it sweep. The caller holds the mutex.
func (r *Reconciler) add(l Loop, name string) *loop {
	added := &loop{l, name}
	r.loops[l.Kind().Facts().Name] = append(r.loops[l.Kind().Facts().Name], added)
	r.wake(task{loop: added})
	return added
}

// Changed wakes the loops of what a transaction has changed. It is what
// [store.Options] calls Changed, and returns at once.
func (r *Reconciler) Changed(changes []store.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		for _, l := range r.loops[c.Kind] {
			r.wake(task{l, c.Account, c.ID})
		}
	}
}

// LookAgain has all loops sweep, for when [Options.Mine] has come to say more.
func (r *Reconciler) LookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, loops := range r.loops {
		for _, l := range loops {
			r.wake(task{loop: l})
		}
	}
}

// WaitIdle waits until nothing is left to do now. It answers when something will
// be, the next regular sweep apart; never if the answer is zero. A test moves
// its clock there and settles again.
func (r *Reconciler) WaitIdle(ctx context.Context) (next time.Time, err error) {
	defer context.AfterFunc(ctx, r.move)()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return time.Time{}, err
		}
		if r.state == ended {
			return time.Time{}, ErrEnded
		}
		if next, settled := r.settled(); settled {
			return next, nil
		}
		r.moved.Wait()
	}
}

// settled reports whether nothing is left to do now, and when something will
// be. The caller holds the mutex.
func (r *Reconciler) settled() (next time.Time, settled bool) {
	if r.state != started || r.active > 0 || len(r.ready) > 0 {
		return next, false
	}
	now := r.Clock.Now()
	for _, j := range r.jobs {
		if !j.due.After(now) {
			return next, false
		}
		if regular := j.isSweep() && j.failures == 0; !regular && (next.IsZero() || j.due.Before(next)) {
			next = j.due
		}
	}
	return next, true
}

// move makes those who wait look again.
func (r *Reconciler) move() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved.Broadcast()
	r.work.Broadcast()
}
