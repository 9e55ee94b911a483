package gate

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLockGrowsAndStopsGrowing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		failures int
		want     time.Duration
	}{
		{1, 0}, {3, 0}, {4, time.Minute}, {5, 0}, {7, 0}, {8, 2 * time.Minute}, {9, 0}, {36, 9 * time.Minute},
		{40, 10 * time.Minute}, {43, 0}, {44, 10 * time.Minute}, {400, 10 * time.Minute},
	} {
		t.Run(fmt.Sprint(test.failures), func(t *testing.T) {
			t.Parallel()
			var lock Lock
			now := testTime
			for range test.failures {
				if lock.Locked(now) {
					now = lock.Until
				}
				lock = lock.Fail(now)
			}
			if got := max(lock.Until.Sub(now), 0); got != test.want {
				t.Errorf("after %d failures locked for %s, want %s", test.failures, got, test.want)
			}
			if lock.Locked(now) != (test.want > 0) {
				t.Errorf("after %d failures Locked is %v", test.failures, lock.Locked(now))
			}
			if refused := lock.Fail(now); test.want > 0 && refused != lock {
				t.Errorf("an attempt refused unheard made %+v of %+v", refused, lock)
			}
			if lock.Locked(now.Add(test.want)) {
				t.Error("still locked when the time is over")
			}
		})
	}
}

func TestLockAsJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		lock Lock
		want string
	}{
		{"zero", Lock{}, `{}`},
		{"locked", Lock{Failures: 4, Until: testTime}, `{"Failures":4,"Until":"2026-03-14T09:26:53Z"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text, err := json.Marshal(test.lock)
			if err != nil || string(text) != test.want {
				t.Fatalf("marshalled to %s (%v), want %s", text, err, test.want)
			}
			var back Lock
			if err := json.Unmarshal(text, &back); err != nil || back != test.lock {
				t.Errorf("came back as %+v (%v), want %+v", back, err, test.lock)
			}
		})
	}
}

// Any attempts at any pace are counted and refused as a list of failures says.
func TestLockKeepsTheRule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		strangers := NewStrangers(1)
		var lock Lock
		var failures []time.Time
		now := testTime
		for range rapid.IntRange(0, 80).Draw(t, "attempts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 12*60).Draw(t, "seconds")) * time.Second)

			refused := false
			if n := len(failures); n > 0 && n%4 == 0 {
				minutes := n / 4
				if minutes > 10 {
					minutes = 10
				}
				refused = now.Sub(failures[n-1]).Minutes() < float64(minutes)
			}
			if got := lock.Locked(now); got != refused {
				t.Fatalf("Locked = %v after %d failures, want %v", got, len(failures), refused)
			}
			if got := strangers.Fail("name", now); got != refused {
				t.Fatalf("a stranger is locked: %v after %d failures, want %v", got, len(failures), refused)
			}
			lock = lock.Fail(now)
			if !refused {
				failures = append(failures, now)
			}
			if lock.Failures != len(failures) {
				t.Fatalf("%d failures are counted, want %d", lock.Failures, len(failures))
			}
		}
	})
}

func TestStrangersCountAtOnce(t *testing.T) {
	t.Parallel()
	strangers := NewStrangers(100)
	var counted [3]atomic.Int32
	var all sync.WaitGroup
	for name := range counted {
		for range 64 {
			all.Go(func() {
				if !strangers.Fail(fmt.Sprint("stranger ", name), testTime) {
					counted[name].Add(1)
				}
			})
		}
	}
	all.Wait()
	for name := range counted {
		if got := counted[name].Load(); got != 4 {
			t.Errorf("of 64 attempts as stranger %d, %d were heard, want 4", name, got)
		}
	}
}

func TestStrangersForgetTheOldest(t *testing.T) {
	t.Parallel()
	const size = 10
	strangers := NewStrangers(size)
	lock := func(name string) (heard int) {
		for !strangers.Fail(name, testTime) {
			heard++
		}
		return heard
	}
	lock("first")
	for i := range 1000 {
		if i < size-1 && !strangers.Fail("first", testTime) {
			t.Fatalf("the first name is forgotten after %d others", i)
		}
		strangers.Fail(fmt.Sprint(i), testTime)
	}
	if got := lock("first"); got != 4 {
		t.Errorf("forgotten, the first name was heard %d times, want 4", got)
	}
	if got := len(strangers.locks.entries); got != size {
		t.Errorf("%d names are remembered, want %d", got, size)
	}
}
