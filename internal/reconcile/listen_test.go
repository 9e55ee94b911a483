package reconcile_test

import (
	"context"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// listeningLoop is notified as the test says.
type listeningLoop struct {
	lampLoop
	listen func(ctx context.Context, notify func(account, id string)) error
}

func (l *listeningLoop) Listen(ctx context.Context, notify func(account, id string)) error {
	return l.listen(ctx, notify)
}

// A notification reconciles a resource that is up to date, at once.
func TestNotificationsReconcile(t *testing.T) {
	t.Parallel()
	h := setup(t)
	lamp := h.insert("alice")
	reconciled := make(chan string, 10)
	hear := make(chan func(account, id string), 1)
	loop := &listeningLoop{
		lampLoop: lampLoop{harness: h, before: func(_ context.Context, account, id string) (time.Time, error) {
			reconciled <- account + " " + id
			return time.Time{}, nil
		}},
		listen: func(ctx context.Context, notify func(account, id string)) error {
			hear <- notify
			<-ctx.Done()
			return ctx.Err()
		},
	}
	r, end := h.runLoop(loop)
	<-reconciled // of the first resync
	(<-hear)("alice", string(lamp))
	h.waitIdle(r)
	if got, want := <-reconciled, "alice "+string(lamp); got != want {
		t.Errorf("a call was made of %s, want %s", got, want)
	}
	end()
	if got := h.counted("Lamp listening failed"); got != 0 {
		t.Errorf("an end counts as %d failures to listen", got)
	}
}

// A driver that fails is listened to again, with backoff, and each
// time a resync finds what was missed. Once it was up for long, the pace
// begins anew.
func TestListeningIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := setup(t)
		var mu sync.Mutex // guards what follows
		var tries []time.Duration
		resyncs, deaf := 0, true
		var hang chan bool
		loop := &listeningLoop{
			lampLoop: lampLoop{harness: h, observe: func(reconcile.Found) error {
				mu.Lock()
				defer mu.Unlock()
				resyncs++
				return nil
			}},
			listen: func(context.Context, func(account, id string)) error {
				mu.Lock()
				tries = append(tries, h.clock.Now().Sub(start))
				fails, up := deaf, hang
				mu.Unlock()
				if len(tries) == 2 {
					panic("the line is cut")
				}
				if !fails {
					<-up
				}
				return errDark
			},
		}
		_, end := h.runLoop(loop)
		run := func(seconds int) (at []time.Duration) {
			mu.Lock()
			before := len(tries)
			mu.Unlock()
			for range seconds {
				synctest.Wait()
				h.clock.Advance(time.Second)
				synctest.Wait()
			}
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(tries[before:])
		}
		synctest.Wait()
		run(900)
		var pauses []time.Duration
		for i, at := range tries[1:] {
			pauses = append(pauses, at-tries[i])
		}
		for i, pause := range pauses {
			longest := min(time.Second<<i, 2*time.Minute)
			if pause < longest/2 || pause > longest+time.Second { // a tick of this clock is a second
				t.Errorf("after failure %d it is tried again in %s, want %s at most and half of it at least", i+1, pause, longest)
			}
		}
		if len(tries) < 10 {
			t.Errorf("in 15 minutes it was tried %d times", len(tries))
		}
		if resyncs < len(tries) {
			t.Errorf("after %d failures there were %d resyncs", len(tries), resyncs)
		}
		if log := h.log.String(); !strings.Contains(log, "Lamp listening") || !strings.Contains(log, "the line is cut") {
			t.Errorf("the log says nothing of it:\n%s", log)
		}

		mu.Lock()
		deaf, hang = false, make(chan bool)
		mu.Unlock()
		if got := run(600); len(got) != 1 {
			t.Errorf("while it is up it is tried %d times more", len(got))
		}
		mu.Lock()
		deaf = true
		close(hang)
		mu.Unlock()
		if got := run(3); len(got) < 2 {
			t.Errorf("after it was up for long it is tried %d times in 3 s", len(got))
		}
		end()
	})
}
