package auth

import (
	"encoding/json"
	"fmt"
	"net/netip"
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
		{"locked", Lock{Failures: 4, Until: testTime, Last: testTime},
			`{"Failures":4,"Until":"2026-03-14T09:26:53Z","Last":"2026-03-14T09:26:53Z"}`},
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
			if got := strangers.Fail("name", "192.0.2.1", now); got != refused {
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
				if !strangers.Fail(fmt.Sprint("stranger ", name), "192.0.2.1", testTime) {
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
		for !strangers.Fail(name, "192.0.2.1", testTime) {
			heard++
		}
		return heard
	}
	lock("first")
	for i := range 1000 {
		if i < size-1 && !strangers.Fail("first", "192.0.2.1", testTime) {
			t.Fatalf("the first name is forgotten after %d others", i)
		}
		strangers.Fail(fmt.Sprint(i), "192.0.2.1", testTime)
	}
	if got := lock("first"); got != 4 {
		t.Errorf("forgotten, the first name was heard %d times, want 4", got)
	}
	if got := len(strangers.locks.entries); got != size {
		t.Errorf("%d names are remembered, want %d", got, size)
	}
}

// As many addresses as there is room for are locked as if each were alone.
func TestAddressesAreCountedApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var locks Locks
		alone := map[string]Lock{}
		now := testTime
		for range rapid.IntRange(0, 200).Draw(t, "attempts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 10*60).Draw(t, "seconds")) * time.Second)
			from := fmt.Sprint("192.0.2.", rapid.IntRange(1, maxAddresses).Draw(t, "address"))
			if got, want := locks.Locked(from, now), alone[from].Locked(now); got != want {
				t.Fatalf("%s is locked: %v, want %v", from, got, want)
			}
			if before := locks; rapid.Bool().Draw(t, "right") {
				if !locks.Locked(from, now) {
					locks = locks.Succeed(from, now)
					delete(alone, from)
				}
			} else {
				locks = locks.Fail(from, now)
				alone[from] = alone[from].Fail(now)
				if before.Counts(from) && !before.Locked(from, now) && &before.Addresses[0] == &locks.Addresses[0] {
					t.Fatal("a list was changed that a snapshot may have")
				}
			}
		}
		if locks.Lock != (Lock{}) {
			t.Errorf("the lock of all others is %+v", locks.Lock)
		}
	})
}

// However many addresses guess, few guesses are checked before all are refused.
func TestManyAddressesShareALock(t *testing.T) {
	t.Parallel()
	var locks Locks
	try := func(now time.Time) (checked int) {
		for i := range 10_000 {
			from := fmt.Sprintf("192.0.%d.%d", i/100, i%100)
			if !locks.Locked(from, now) {
				checked++
				locks = locks.Fail(from, now)
			}
		}
		return checked
	}
	now := testTime
	if got, want := try(now), maxAddresses+failuresPerLock; got != want {
		t.Errorf("%d guesses are checked, want %d", got, want)
	}
	if !locks.Locked("203.0.113.1", now) {
		t.Error("an address that has not failed is not locked")
	}
	for minutes := 1; minutes <= maxLockSteps; minutes++ {
		now = now.Add(time.Duration(minutes) * time.Minute)
		if got := try(now); got > maxAddresses+failuresPerLock || got < failuresPerLock {
			t.Errorf("%d guesses are checked after the lock of %d minutes", got, minutes)
		}
	}
	if got := len(locks.Addresses); got != maxAddresses {
		t.Errorf("%d addresses are counted apart, want %d", got, maxAddresses)
	}

	// After a quiet hour an address has a lock of its own again.
	now = now.Add(quiet)
	locks = locks.Fail("203.0.113.1", now)
	if !locks.Counts("203.0.113.1") || locks.Counts("192.0.0.0") || len(locks.Addresses) != maxAddresses {
		t.Errorf("after a quiet hour: %+v", locks)
	}
	if locks = locks.Succeed("203.0.113.1", now); locks.Lock != (Lock{}) {
		t.Errorf("after a quiet hour all others have the lock %+v", locks.Lock)
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "::1": "::/64",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := Source(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s comes from %s, want %s", address, got, want)
		}
	}
	if got := Source(netip.Addr{}); got != "invalid IP" {
		t.Errorf("no address comes from %s", got)
	}
}
