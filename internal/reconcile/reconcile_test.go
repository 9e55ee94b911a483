package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// Lamp is a resource whose driver is a light that is on or off.
type Lamp struct {
	LampId lampID
	Lit    bool
}

func (l *Lamp) Pending() bool { return !l.Lit }

type lampID string

func (lampID) Form() resource.Form {
	return resource.Form{Prefix: "lamp-", Length: 8, Alphabet: resource.Hexadecimal}
}

const keep = time.Hour

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// house is a store of lamps and the loops over them, under a clock that the
// test moves.
type harness struct {
	*testing.T
	lamps *resource.Kind[Lamp, lampID]
	db    *resource.DB
	clock *clock.Virtual
	loops atomic.Pointer[reconcile.Reconciler] // those that are notified of changes
	log   safeBuffer

	mu       sync.Mutex
	outcomes map[string]int
}

// safeBuffer is a log that a test may read while others write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func setup(t *testing.T) *harness {
	h := &harness{T: t, clock: clock.NewVirtual(start), outcomes: map[string]int{}}
	h.lamps = &resource.Kind[Lamp, lampID]{Name: "Lamp", Retention: keep}
	h.db = resource.Open(resource.Options{
		Kinds: []resource.Any{h.lamps}, Now: h.clock.Now, Rand: rand.NewChaCha8([32]byte{}),
		Changed: func(changes []store.Change) {
			if r := h.loops.Load(); r != nil {
				r.Changed(changes)
			}
		},
	})
	t.Cleanup(func() { h.db.Close() })
	return h
}

// run starts loops that are notified of changes, and lets them resync. They end with the test, or when the
// returned function is called.
func (h *harness) run(loop *lampLoop, with ...func(*reconcile.Options)) (*reconcile.Reconciler, func()) {
	h.Helper()
	loop.harness = h
	return h.runLoop(loop, with...)
}

func (h *harness) runLoop(loop reconcile.Loop, with ...func(*reconcile.Options)) (*reconcile.Reconciler, func()) {
	h.Helper()
	o := reconcile.Options{Clock: h.clock, Log: slog.New(slog.NewTextHandler(&h.log, nil)), Count: h.count}
	for _, f := range with {
		f(&o)
	}
	r := reconcile.New(o)
	h.loops.Store(r)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx, h.db, loop)
	}()
	end := func() {
		cancel()
		<-ended
	}
	h.Cleanup(end)
	h.waitIdle(r)
	return r, end
}

func (h *harness) count(loop string, outcome reconcile.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes[loop+" "+string(outcome)]++
}

func (h *harness) counted(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.outcomes[what]
}

func (h *harness) update(account string, fn func(*resource.Tx) error) {
	h.Helper()
	if err := h.db.Update(context.Background(), resource.Caller{Account: account}, fn); err != nil {
		h.Fatal(err)
	}
}

// insert makes a lamp that must be lit.
func (h *harness) insert(account string) lampID {
	h.Helper()
	l := &Lamp{}
	h.update(account, func(tx *resource.Tx) error { return h.lamps.Insert(tx, l) })
	return l.LampId
}

// touch changes a lamp in nothing.
func (h *harness) touch(account string, id lampID) {
	h.Helper()
	h.update(account, func(tx *resource.Tx) error {
		l, err := h.lamps.Get(tx, id)
		if err != nil {
			return err
		}
		return h.lamps.Put(tx, l)
	})
}

// lit counts the lamps of an account that are lit.
func (h *harness) lit(account string) (n int) {
	h.Helper()
	err := h.db.View(context.Background(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
		for l := range h.lamps.All(tx) {
			if l.Lit {
				n++
			}
		}
		return nil
	})
	if err != nil {
		h.Fatal(err)
	}
	return n
}

// waitIdle waits until the loops are idle, and returns the time until their next job.
func (h *harness) waitIdle(r *reconcile.Reconciler) time.Duration {
	h.Helper()
	next, err := r.WaitIdle(context.Background())
	if err != nil {
		h.Fatal(err)
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(h.clock.Now())
}

// lampLoop lights lamps.
type lampLoop struct {
	harness *harness
	// nil: nothing comes before
	before func(ctx context.Context, account, id string) (requeueAfter time.Time, err error)
	// nil: the driver has nothing
	observe func(reconcile.Found) error
	calls   atomic.Int64
}

func (l *lampLoop) Kind() resource.Any { return l.harness.lamps }

func (l *lampLoop) Reconcile(ctx context.Context, account, id string) (requeueAfter time.Time, err error) {
	l.calls.Add(1)
	if l.before != nil {
		if requeueAfter, err := l.before(ctx, account, id); err != nil || !requeueAfter.IsZero() {
			return requeueAfter, err
		}
	}
	return requeueAfter, l.harness.db.Update(ctx, resource.Caller{Account: account}, func(tx *resource.Tx) error {
		if !l.harness.lamps.Has(tx, lampID(id)) {
			return nil
		}
		lamp, err := l.harness.lamps.Get(tx, lampID(id))
		if err != nil || lamp.Lit {
			return err
		}
		lamp.Lit = true
		return l.harness.lamps.Put(tx, lamp)
	})
}

func (l *lampLoop) Observe(_ context.Context, found reconcile.Found) error {
	if l.observe == nil {
		return nil
	}
	return l.observe(found)
}

func TestWokenByChanges(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r, _ := h.run(&lampLoop{})
	for range 3 {
		h.insert("alice")
	}
	h.insert("bob")
	if next := h.waitIdle(r); next != 0 {
		t.Errorf("something is left to do in %s", next)
	}
	if a, b := h.lit("alice"), h.lit("bob"); a != 3 || b != 1 {
		t.Errorf("lit are %d of 3 lamps of alice and %d of 1 of bob", a, b)
	}
}

func TestWorkLeftFromBefore(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.insert("alice")
	r, _ := h.run(&lampLoop{})
	h.waitIdle(r)
	if h.lit("alice") != 1 {
		t.Error("a lamp that was there before the loops is not lit")
	}
}

func TestLostWakeUp(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r, _ := h.run(&lampLoop{}, func(o *reconcile.Options) { o.ResyncEvery = 10 * time.Minute })
	h.waitIdle(r)
	h.loops.Store(nil) // the loops are not notified of the next change
	h.insert("alice")

	if next := h.waitIdle(r); next != 0 {
		t.Errorf("something is left to do in %s: the loops were notified of a change", next)
	}
	h.clock.Advance(10*time.Minute - time.Second)
	if h.waitIdle(r); h.lit("alice") != 0 {
		t.Error("the lamp is lit before the resync")
	}
	h.clock.Advance(time.Second)
	if h.waitIdle(r); h.lit("alice") != 1 {
		t.Error("the resync has not found the lamp")
	}
}

func TestWakeUpsDuringACallMakeOneMore(t *testing.T) {
	t.Parallel()
	h := setup(t)
	entered, release := make(chan bool), make(chan bool)
	var inside atomic.Int64
	loop := &lampLoop{before: func(context.Context, string, string) (time.Time, error) {
		if inside.Add(1) > 1 {
			t.Error("two calls for one lamp at a time")
		}
		defer inside.Add(-1)
		entered <- true
		<-release
		return time.Time{}, nil
	}}
	r, _ := h.run(loop)
	id := h.insert("alice")
	<-entered
	for range 5 {
		h.touch("alice", id)
	}
	release <- true // the call lights the lamp, which is a change too
	<-entered
	release <- true
	h.waitIdle(r)
	if n := loop.calls.Load(); n != 2 {
		t.Errorf("a call and changes during it made %d calls, want 2", n)
	}
}

// unstoppable is a clock whose timers are always stopped too late.
type unstoppable struct{ clock.Clock }

func (c unstoppable) At(t time.Time, f func()) clock.Timer {
	c.Clock.At(t, f)
	return c
}

func (unstoppable) Stop() bool { return false }

func TestAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, stoppable := range []bool{true, false} {
		t.Run(fmt.Sprintf("with timers that can be stopped: %t", stoppable), func(t *testing.T) {
			t.Parallel()
			testAskedForAgain(t, func(o *reconcile.Options) {
				if !stoppable {
					o.Clock = unstoppable{o.Clock}
				}
			})
		})
	}
}

func testAskedForAgain(t *testing.T, with func(*reconcile.Options)) {
	h := setup(t)
	ready := start.Add(7 * time.Second)
	loop := &lampLoop{before: func(context.Context, string, string) (time.Time, error) {
		if h.clock.Now().Before(ready) {
			return ready, nil
		}
		return time.Time{}, nil
	}}
	r, _ := h.run(loop, with)
	id := h.insert("alice")
	if next := h.waitIdle(r); next != 7*time.Second {
		t.Errorf("the next call is due in %s, want 7s", next)
	}
	h.touch("alice", id)
	if next := h.waitIdle(r); next != 7*time.Second || loop.calls.Load() != 2 {
		t.Errorf("woken early: %d calls and the next in %s, want 2 and 7s", loop.calls.Load(), next)
	}
	h.clock.Advance(7 * time.Second)
	if next := h.waitIdle(r); next != 0 || h.lit("alice") != 1 {
		t.Errorf("when it is due: lit %d of 1, and more to do in %s", h.lit("alice"), next)
	}
	// One call lights the lamp, and one looks at what that has changed.
	if n := loop.calls.Load(); n != 4 {
		t.Errorf("a time that has come makes %d calls, want 2", n-2)
	}
	if got := h.counted("Lamp waiting"); got != 2 {
		t.Errorf("%d calls are counted that asked for another, want 2", got)
	}
}

// A call may ask for a time that has come already: it is not settled then.
func TestAskedForAgainInThePast(t *testing.T) {
	t.Parallel()
	h := setup(t)
	var asked sync.Map
	loop := &lampLoop{before: func(_ context.Context, _, id string) (time.Time, error) {
		if _, before := asked.LoadOrStore(id, true); !before {
			return start.Add(-time.Second), nil
		}
		return time.Time{}, nil
	}}
	r, _ := h.run(loop)
	for n := range 100 {
		h.insert("alice")
		if next := h.waitIdle(r); next != 0 || h.lit("alice") != n+1 {
			t.Fatalf("lit %d of %d, and more to do in %s", h.lit("alice"), n+1, next)
		}
	}
}

var errDark = errors.New("the power is off")

func TestFailuresAreRepeatedWithBackoff(t *testing.T) {
	t.Parallel()
	h := setup(t)
	const failures = 12
	var left atomic.Int64
	left.Store(failures)
	loop := &lampLoop{before: func(context.Context, string, string) (time.Time, error) {
		if left.Add(-1) >= 0 {
			return time.Time{}, errDark
		}
		return time.Time{}, nil
	}}
	r, _ := h.run(loop)
	h.insert("alice")
	longest := time.Second
	for i := range failures {
		next := h.waitIdle(r)
		if next <= longest/2 || next > longest {
			t.Errorf("after failure %d it is repeated in %s, want between %s and %s", i+1, next, longest/2, longest)
		}
		longest = min(2*longest, 2*time.Minute)
		h.clock.Advance(next)
	}
	if next := h.waitIdle(r); next != 0 || h.lit("alice") != 1 {
		t.Errorf("after the last failure: lit %d of 1, and more to do in %s", h.lit("alice"), next)
	}
	if got := h.counted("Lamp failed"); got != failures {
		t.Errorf("%d failures are counted, want %d", got, failures)
	}
	if !strings.Contains(h.log.String(), errDark.Error()) {
		t.Errorf("the log does not say why: %s", &h.log)
	}
}

// A call that succeeds, though there is more to do, begins the backoff anew.
func TestBackoffBeginsAnew(t *testing.T) {
	t.Parallel()
	h := setup(t)
	results := make(chan error)
	loop := &lampLoop{before: func(context.Context, string, string) (time.Time, error) {
		return time.Time{}, <-results
	}}
	r, _ := h.run(loop)
	id := h.insert("alice")
	for range 5 {
		results <- errDark
		h.clock.Advance(h.waitIdle(r))
	}
	h.touch("alice", id)
	results <- nil // it lights the lamp, and so looks at it again
	results <- errDark
	if next := h.waitIdle(r); next > time.Second {
		t.Errorf("the first failure after a success is repeated in %s, want within 1s", next)
	}
	close(results)
}

func TestJobsThatFailTogetherComeBackApart(t *testing.T) {
	t.Parallel()
	h := setup(t)
	loop := &lampLoop{before: func(context.Context, string, string) (time.Time, error) { return time.Time{}, errDark }}
	r, _ := h.run(loop)
	for range 8 {
		h.insert("alice")
	}
	times := 0
	for end := start.Add(time.Second); ; times++ {
		next := h.waitIdle(r)
		if h.clock.Now().Add(next).After(end) {
			break
		}
		h.clock.Advance(next)
	}
	if times < 8 {
		t.Errorf("8 jobs that failed at once came back at %d times in the next second", times)
	}
}

func TestAChangeDoesNotHurryWhatFails(t *testing.T) {
	t.Parallel()
	h := setup(t)
	loop := &lampLoop{before: func(context.Context, string, string) (time.Time, error) { return time.Time{}, errDark }}
	r, _ := h.run(loop)
	id := h.insert("alice")
	h.waitIdle(r)
	for range 5 {
		h.touch("alice", id)
	}
	h.waitIdle(r)
	if n := loop.calls.Load(); n != 1 {
		t.Errorf("a call that failed was repeated %d times because of changes", n-1)
	}
}

func TestPanicsAreContained(t *testing.T) {
	t.Parallel()
	h := setup(t)
	var broken atomic.Bool
	broken.Store(true)
	loop := &lampLoop{before: func(_ context.Context, account, _ string) (time.Time, error) {
		if account == "alice" && broken.Load() {
			panic("the bulb burst")
		}
		return time.Time{}, nil
	}}
	r, _ := h.run(loop, func(o *reconcile.Options) { o.Workers = 1 })
	h.insert("alice")
	h.insert("bob")
	next := h.waitIdle(r)
	if next == 0 {
		t.Error("a call that panicked is not repeated")
	}
	if h.lit("bob") != 1 {
		t.Error("a panic in a call for alice keeps bob in the dark")
	}
	if got := h.counted("Lamp panicked"); got != 1 {
		t.Errorf("%d panics are counted, want 1", got)
	}
	if log := h.log.String(); !strings.Contains(log, "the bulb burst") || !strings.Contains(log, "reconcile_test.go") {
		t.Errorf("the log does not say what panicked and where: %s", log)
	}
	broken.Store(false)
	h.clock.Advance(next)
	if h.waitIdle(r); h.lit("alice") != 1 {
		t.Error("the call was not repeated after its panic")
	}
}

func TestWorkersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := setup(t)
		release := make(chan bool)
		var inside atomic.Int64
		loop := &lampLoop{before: func(context.Context, string, string) (time.Time, error) {
			if n := inside.Add(1); n > 2 {
				t.Errorf("%d calls are under way with 2 workers", n)
			}
			<-release
			inside.Add(-1)
			return time.Time{}, nil
		}}
		r, _ := h.run(loop, func(o *reconcile.Options) { o.Workers = 2 })
		for range 5 {
			h.insert("alice")
		}
		synctest.Wait()
		if n := inside.Load(); n != 2 {
			t.Errorf("%d calls are under way with 5 to do and 2 workers", n)
		}
		close(release)
		h.waitIdle(r)
		if h.lit("alice") != 5 {
			t.Errorf("%d of 5 lamps are lit", h.lit("alice"))
		}
	})
}

func TestACallThatTakesTooLongIsInterrupted(t *testing.T) {
	t.Parallel()
	h := setup(t)
	entered := make(chan bool, 1)
	var stuck atomic.Bool
	stuck.Store(true)
	loop := &lampLoop{before: func(ctx context.Context, _, _ string) (time.Time, error) {
		if !stuck.Load() {
			return time.Time{}, nil
		}
		entered <- true
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}}
	r, _ := h.run(loop)
	h.insert("alice")
	<-entered
	stuck.Store(false)
	h.clock.Advance(time.Minute)
	next := h.waitIdle(r)
	if h.counted("Lamp failed") != 1 || next == 0 {
		t.Errorf("%d failures are counted and the next call is in %s, want 1 failure and a repetition", h.counted("Lamp failed"), next)
	}
	h.clock.Advance(next)
	if h.waitIdle(r); h.lit("alice") != 1 {
		t.Error("the call was not repeated after it was interrupted")
	}
}

func TestOthersAccountsAreLeftAlone(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.insert("alice")
	h.insert("bob")
	loop := &lampLoop{observe: func(found reconcile.Found) error {
		found("bob", "lamp-00000000", false)
		return nil
	}}
	r, _ := h.run(loop, func(o *reconcile.Options) { o.Mine = func(account string) bool { return account == "alice" } })
	h.insert("bob")
	h.waitIdle(r)
	if a, b := h.lit("alice"), h.lit("bob"); a != 1 || b != 0 {
		t.Errorf("lit are %d of 1 lamps of alice, which are ours, and %d of bob, which are not", a, b)
	}
}

func TestResyncsLookAtWhatTheDriverHas(t *testing.T) {
	t.Parallel()
	h := setup(t)
	var failing atomic.Bool
	failing.Store(true)
	var seen atomic.Pointer[string]
	loop := &lampLoop{
		observe: func(found reconcile.Found) error {
			if failing.Load() {
				return errDark
			}
			found("alice", "lamp-00000000", false)
			return nil
		},
		before: func(_ context.Context, account, id string) (time.Time, error) {
			seen.Store(new(account + " " + id))
			return time.Time{}, nil
		},
	}
	r, _ := h.run(loop)
	next := h.waitIdle(r)
	if next == 0 || next > time.Second {
		t.Errorf("a resync that failed is repeated in %s, want within 1s", next)
	}
	failing.Store(false)
	h.clock.Advance(next)
	h.waitIdle(r)
	if got := seen.Load(); got == nil || *got != "alice lamp-00000000" {
		t.Errorf("the resync has not found what the driver has: %v", got)
	}
}

// What the driver and the store both have, in the state that it should be in, is
// nearly everything.
func TestResyncsSkipWhatIsUpToDate(t *testing.T) {
	t.Parallel()
	h := setup(t)
	lit := h.insert("alice")
	var reconciled []string
	var mu sync.Mutex // guards reconciled
	loop := &lampLoop{
		observe: func(found reconcile.Found) error {
			found("alice", string(lit), false)
			found("alice", "lamp-00000000", false)
			found("bob", string(lit), false)
			return nil
		},
		before: func(_ context.Context, account, id string) (time.Time, error) {
			mu.Lock()
			defer mu.Unlock()
			reconciled = append(reconciled, account+" "+id)
			return time.Time{}, nil
		},
	}
	r, _ := h.run(loop, func(o *reconcile.Options) { o.ResyncEvery = time.Second })
	mu.Lock()
	reconciled = nil // the lamp was lit by now
	mu.Unlock()
	h.clock.Advance(time.Second)
	h.waitIdle(r)
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(reconciled)
	if want := []string{"alice lamp-00000000", "bob " + string(lit)}; !slices.Equal(reconciled, want) {
		t.Errorf("a resync made calls of %q, want %q", reconciled, want)
	}
}

// Of what is up to date, resyncs look at what the driver has otherwise.
func TestResyncsLookAtDrift(t *testing.T) {
	t.Parallel()
	h := setup(t)
	steady, flickering := h.insert("alice"), h.insert("alice")
	h.insert("alice")
	var reconciled []string
	var mu sync.Mutex // guards reconciled
	loop := &lampLoop{
		harness: h,
		observe: func(found reconcile.Found) error {
			found("alice", string(steady), false)
			found("alice", string(flickering), true)
			return nil
		},
		before: func(_ context.Context, account, id string) (time.Time, error) {
			mu.Lock()
			defer mu.Unlock()
			reconciled = append(reconciled, account+" "+id)
			return time.Time{}, nil
		},
	}
	r, _ := h.runLoop(loop, func(o *reconcile.Options) { o.ResyncEvery = time.Second })
	mu.Lock()
	reconciled = nil // the lamps were lit by now
	mu.Unlock()
	h.clock.Advance(time.Second)
	h.waitIdle(r)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"alice " + string(flickering)}; !slices.Equal(reconciled, want) {
		t.Errorf("a resync made calls of %q, want %q", reconciled, want)
	}
}

func TestRestartDuringACall(t *testing.T) {
	t.Parallel()
	h := setup(t)
	entered := make(chan bool)
	first := &lampLoop{before: func(ctx context.Context, _, _ string) (time.Time, error) {
		entered <- true
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}}
	r, end := h.run(first)
	h.insert("alice")
	<-entered
	end()
	if _, err := r.WaitIdle(t.Context()); !errors.Is(err, reconcile.ErrEnded) {
		t.Errorf("waiting for loops that have ended: got %v, want ErrEnded", err)
	}
	if got := h.counted("Lamp failed"); got != 0 {
		t.Errorf("an end counts as %d failures", got)
	}
	h.insert("alice") // without loops it is only stored

	requeueAfter, _ := h.run(&lampLoop{})
	if h.waitIdle(requeueAfter); h.lit("alice") != 2 {
		t.Errorf("after the next start %d of 2 lamps are lit", h.lit("alice"))
	}
}

func TestDeletedResourcesArePurged(t *testing.T) {
	t.Parallel()
	h := setup(t)
	known := func(id lampID) bool {
		snap, err := h.db.Store.View(t.Context(), "alice")
		if err != nil {
			t.Fatal(err)
		}
		_, ok := snap.Get("Lamp", string(id))
		return ok
	}
	remove := func(id lampID) {
		h.update("alice", func(tx *resource.Tx) error {
			l, err := h.lamps.Get(tx, id)
			if err != nil {
				return err
			}
			l.Lit = true // so that only its end is left to see to
			return h.lamps.Delete(tx, l)
		})
	}
	first, second, stays := h.insert("alice"), h.insert("alice"), h.insert("alice")
	remove(first)
	h.clock.Advance(time.Minute)
	r, _ := h.run(&lampLoop{})
	remove(second)

	if next := h.waitIdle(r); next != keep-time.Minute || !known(first) || !known(second) {
		t.Fatalf("deleted a minute ago: known %t, deleted now: known %t, next purge in %s; want both, and %s", known(first), known(second),
			next, keep-time.Minute)
	}
	h.clock.Advance(keep - time.Minute)
	if next := h.waitIdle(r); next != time.Minute || known(first) || !known(second) {
		t.Fatalf("deleted an hour ago: known %t, later: known %t, next purge in %s; want the later one, and 1m", known(first), known(second),
			next)
	}
	h.clock.Advance(time.Minute)
	if next := h.waitIdle(r); next != 0 || known(second) || !known(stays) {
		t.Errorf("deleted an hour ago: known %t, never deleted: known %t, next purge in %s", known(second), known(stays), next)
	}
	if got := h.counted("Lamp purge failed"); got != 0 {
		t.Errorf("%d purges failed", got)
	}
}

func TestWaitIdleEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := reconcile.New(reconcile.Options{Clock: clock.NewVirtual(start)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.WaitIdle(ctx) // of loops that never start
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func ExampleReconciler_WaitIdle() {
	region := clock.NewVirtual(start)
	r := reconcile.New(reconcile.Options{Clock: region})
	db := resource.Open(resource.Options{Now: region.Now, Changed: r.Changed})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go r.Run(ctx, db)

	// Move the clock until nothing is left to do at any time.
	next, err := r.WaitIdle(ctx)
	for ; err == nil && !next.IsZero(); next, err = r.WaitIdle(ctx) {
		region.AdvanceTo(next)
	}
	fmt.Println(next.IsZero(), err)
	// Output: true <nil>
}
