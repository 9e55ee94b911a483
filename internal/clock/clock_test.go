package clock_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func TestVirtualCallsInOrder(t *testing.T) {
	t.Parallel()
	v := clock.NewVirtual(start)
	var calls []string
	note := func(name string) func() {
		return func() { calls = append(calls, name+" "+v.Now().Sub(start).String()) }
	}
	v.At(start.Add(3*time.Second), note("third"))
	v.At(start.Add(time.Second), note("first"))
	v.At(start.Add(2*time.Second), note("second"))
	v.At(start.Add(2*time.Second), note("second, made later"))
	stopped := v.At(start.Add(2*time.Second), note("stopped"))
	v.At(start.Add(time.Hour), note("too late"))

	if !stopped.Stop() {
		t.Error("a timer that is to come says that it cannot be stopped")
	}
	if stopped.Stop() {
		t.Error("a timer that was stopped says that it was stopped again")
	}
	v.Advance(10 * time.Second)

	want := []string{"first 1s", "second 2s", "second, made later 2s", "third 3s"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls: got %q, want %q", calls, want)
	}
	if got := v.Now(); !got.Equal(start.Add(10 * time.Second)) {
		t.Errorf("the clock shows %s after 10 s", got)
	}
}

// A timer that a call sets is made in the same move if it is due by its end.
func TestVirtualTimerSetByACall(t *testing.T) {
	t.Parallel()
	v := clock.NewVirtual(start)
	beats := 0
	var beat func()
	beat = func() {
		beats++
		v.At(v.Now().Add(time.Second), beat)
	}
	v.At(start.Add(time.Second), beat)
	v.Advance(5 * time.Second)
	if beats != 5 {
		t.Errorf("a beat each second beat %d times in 5 s", beats)
	}
}

func TestVirtualDoesNotGoBack(t *testing.T) {
	t.Parallel()
	v := clock.NewVirtual(start)
	v.AdvanceTo(start.Add(-time.Hour))
	if got := v.Now(); !got.Equal(start) {
		t.Errorf("the clock went back to %s", got)
	}
}

// Whatever timers are set, they come in order and at their time.
func TestVirtualOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := clock.NewVirtual(start)
		var due, called []time.Time
		for _, s := range rapid.SliceOf(rapid.IntRange(1, 50)).Draw(t, "seconds") {
			at := start.Add(time.Duration(s) * time.Second)
			due = append(due, at)
			v.At(at, func() { called = append(called, v.Now()) })
		}
		for _, s := range rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "moves") {
			v.Advance(time.Duration(s) * time.Second)
		}
		slices.SortFunc(due, time.Time.Compare)
		n, _ := slices.BinarySearchFunc(due, v.Now().Add(1), time.Time.Compare)
		if !slices.EqualFunc(called, due[:n], time.Time.Equal) {
			t.Fatalf("at %s: called at %v, due at %v", v.Now(), called, due[:n])
		}
	})
}

func TestBothCallAtOnceForThePast(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]clock.Clock{"system": clock.System(), "virtual": clock.NewVirtual(start)} {
		t.Run(name, func(t *testing.T) {
			called := make(chan bool)
			timer := c.At(c.Now().Add(-time.Minute), func() { close(called) })
			<-called
			if timer.Stop() {
				t.Error("a timer that was called says that it was stopped")
			}
		})
	}
}

func TestSystem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.System()
		due, called := c.Now().Add(time.Minute), make(chan time.Time, 1)
		c.At(due, func() { called <- c.Now() })
		if got := <-called; !got.Equal(due) {
			t.Errorf("called at %s instead of %s", got, due)
		}
	})
}
