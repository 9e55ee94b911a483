package reconcile

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
)

// Listener is a [Loop] that the driver tells when something happens to a
// resource, so that nobody waits for a sweep.
type Listener interface {
	Loop

	// Listen calls heard for each resource that something happens to, until the
	// context ends or the driver cannot be heard. It may miss some, which sweeps
	// find. heard returns at once.
	Listen(ctx context.Context, heard func(account, id string)) error
}

// listen wakes a loop whenever the driver says so, until the context ends. While
// the driver cannot be heard it is asked again at the pace of steps that fail,
// each time with a sweep for what was missed.
func (r *Reconciler) listen(ctx context.Context, l *loop, drivers Listener) {
	name := l.name + " listening"
	for failures := 0; ; {
		began := r.Clock.Now()
		err := hear(ctx, drivers, func(account, id string) { r.look(task{l, account, id}) })
		if ctx.Err() != nil {
			return
		}
		if r.Clock.Now().Sub(began) > lastPace { // it went well for a while
			failures = 0
		}
		failures++
		again := pace(failures, name)
		r.report(name, err, "failures", failures, "again_in", again)
		if !sleep(ctx, r.Clock, r.Clock.Now().Add(again)) {
			return
		}
		r.look(task{loop: l})
	}
}

// hear listens once. A panic is an error like any other.
func hear(ctx context.Context, drivers Listener, heard func(account, id string)) (err error) {
	defer contain(&err)
	return drivers.Listen(ctx, heard)
}

// sleep answers at the time; false: the context has ended.
func sleep(ctx context.Context, c clock.Clock, until time.Time) bool {
	come := make(chan struct{})
	defer c.At(until, func() { close(come) }).Stop()
	select {
	case <-come:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
