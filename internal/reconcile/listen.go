package reconcile

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
)

// Listener is a [Loop] whose driver notifies it of changes, so that they are
// seen before the next resync.
type Listener interface {
	Loop

	// Listen calls notify for each resource that the driver has changed, until
	// the context ends or the connection fails. It may miss some, which resyncs
	// find. notify does not block.
	Listen(ctx context.Context, notify func(account, id string)) error
}

// listen wakes a loop for each notification, until the context ends. When
// listening fails it is retried with backoff, each time with a resync for what
// was missed.
func (r *Reconciler) listen(ctx context.Context, l *loop, listener Listener) {
	name := l.name + " listening"
	for failures := 0; ; {
		began := r.Clock.Now()
		err := listenOnce(ctx, listener, func(account, id string) { r.trigger(task{l, account, id}) })
		if ctx.Err() != nil {
			return
		}
		if r.Clock.Now().Sub(began) > maxBackoff { // it went well for a while
			failures = 0
		}
		failures++
		requeueAfter := backoff(failures, name)
		r.report(name, err, "failures", failures, "again_in", requeueAfter)
		if !sleep(ctx, r.Clock, r.Clock.Now().Add(requeueAfter)) {
			return
		}
		r.trigger(task{loop: l})
	}
}

// listenOnce is Listen with panics turned into errors.
func listenOnce(ctx context.Context, listener Listener, notify func(account, id string)) (err error) {
	defer contain(&err)
	return listener.Listen(ctx, notify)
}

// sleep waits until the given time and returns true, or false if the context
// ends first.
func sleep(ctx context.Context, c clock.Clock, until time.Time) bool {
	elapsed := make(chan struct{})
	defer c.At(until, func() { close(elapsed) }).Stop()
	select {
	case <-elapsed:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
