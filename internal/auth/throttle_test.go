package auth

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseLimits(t *testing.T) {
	t.Parallel()
	slow := func() map[string]Rate { return DefaultLimits().Calls }
	for _, test := range []struct {
		text string
		want *Limits
		ok   bool
	}{
		{"on", DefaultLimits(), true},
		{"off", nil, true},
		{"200/s,50/s", &Limits{Rate{200, 200}, Rate{50, 50}, slow()}, true},
		{"200/s, 30000/m", &Limits{Rate{200, 200}, Rate{500, 30000}, slow()}, true},
		{"60/m,6/m", &Limits{Rate{1, 60}, Rate{0.1, 6}, map[string]Rate{"SendResetPasswordEmail": {5.0 / 60, 5}}}, true},
		{"", nil, false},
		{"On", nil, false},
		{"200/s", nil, false},
		{"200/s,", nil, false},
		{"200,50", nil, false},
		{"200/s,50/h", nil, false},
		{"200/s,0/s", nil, false},
		{"-1/s,50/s", nil, false},
		{"1.5/s,50/s", nil, false},
		{"9999999/s,50/s", nil, false},
		{"200/s,50/s,10/s", nil, false},
	} {
		t.Run(test.text, func(t *testing.T) {
			t.Parallel()
			got, err := ParseLimits(test.text)
			if (err == nil) != test.ok || !reflect.DeepEqual(got, test.want) {
				t.Errorf("ParseLimits(%q) = %+v, %v; want %+v", test.text, got, err, test.want)
			}
		})
	}
}

func TestThrottleSaysWhichLimit(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(&Limits{
		PerAccount: Rate{PerSecond: 2, Burst: 3},
		PerCall:    Rate{PerSecond: 1, Burst: 2},
		Calls:      map[string]Rate{"Slow": {PerSecond: 0.1, Burst: 1}, "Free": {}},
	}, 100)
	now := testTime
	for i, step := range []struct {
		account, call string
		after         time.Duration
		want          Verdict
		wait          time.Duration
	}{
		{"alice", "ReadVms", 0, OK, 0},
		{"alice", "ReadVms", 0, OK, 0},
		{"alice", "ReadVms", 0, OverCall, time.Second},
		{"alice", "ReadNets", 0, OK, 0},
		{"alice", "ReadNets", 0, OverAccount, 500 * time.Millisecond},
		{"bob", "ReadVms", 0, OK, 0},
		{"alice", "ReadNets", 500 * time.Millisecond, OK, 0},
		{"alice", "ReadVms", 0, OverCall, 500 * time.Millisecond},
		{"alice", "Slow", 500 * time.Millisecond, OK, 0},
		{"alice", "Slow", 0, OverCall, 10 * time.Second},
		{"alice", "Slow", 9999 * time.Millisecond, OverCall, time.Millisecond},
		{"alice", "Slow", time.Millisecond, OK, 0},
		{"alice", "Free", 0, OK, 0},
		{"alice", "Free", 0, OK, 0},
		{"alice", "Free", 0, OverAccount, 500 * time.Millisecond},
	} {
		now = now.Add(step.after)
		if got, wait := throttle.Allow(step.account, step.call, now); got != step.want || wait != step.wait {
			t.Errorf("step %d, %s %s: verdict %d, wait %s; want %d, %s", i, step.account, step.call, got, wait, step.want, step.wait)
		}
	}
}

func TestNoLimits(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(nil, 1)
	for range 10_000 {
		if verdict, wait := throttle.Allow("alice", "ReadVms", testTime); verdict != OK || wait != 0 {
			t.Fatalf("verdict %d, wait %s without limits", verdict, wait)
		}
	}
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(&Limits{PerCall: Rate{PerSecond: 1, Burst: 5}}, 10)
	throttle.Allow("alice", "ReadVms", testTime)
	verdict, wait := throttle.Allow("alice", "ReadVms", testTime.Add(-time.Hour))
	if verdict != OverCall || wait != time.Second {
		t.Errorf("verdict %d, wait %s an hour back; want an empty bucket that waits a second", verdict, wait)
	}
}

// A token bucket as one counts it by hand, in nanoseconds worth of tokens.
type countedBucket struct {
	held, token, whole int64
	last               time.Time
}

func (b *countedBucket) refill(now time.Time) {
	b.held = min(b.held+int64(now.Sub(b.last)), b.whole)
	b.last = now
}

func (b *countedBucket) missing() time.Duration { return time.Duration(max(b.token-b.held, 0)) }

func TestThrottleCountsTokens(t *testing.T) {
	t.Parallel()
	rates := rapid.Custom(func(t *rapid.T) Rate {
		return Rate{
			PerSecond: rapid.SampledFrom([]float64{0.01, 0.5, 1, 4, 100, 500}).Draw(t, "per second"),
			Burst:     rapid.IntRange(1, 8).Draw(t, "burst"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		limits := &Limits{
			PerAccount: rates.Draw(t, "account"),
			PerCall:    rates.Draw(t, "call"),
			Calls:      map[string]Rate{"Slow": rates.Draw(t, "slow")},
		}
		throttle := NewThrottle(limits, 100)
		buckets := map[string]*countedBucket{}
		now := testTime
		find := func(name string, r Rate) *countedBucket {
			b, ok := buckets[name]
			if !ok {
				token := int64(float64(time.Second) / r.PerSecond)
				b = &countedBucket{held: token * int64(r.Burst), token: token, whole: token * int64(r.Burst), last: now}
				buckets[name] = b
			}
			b.refill(now)
			return b
		}
		for range rapid.IntRange(0, 200).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 2, 10, 250, 1000, 60_000}).Draw(t, "pause")) * time.Millisecond)
			account := rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "account")
			call := rapid.SampledFrom([]string{"ReadVms", "ReadNets", "Slow"}).Draw(t, "call")
			rate := limits.PerCall
			if r, ok := limits.Calls[call]; ok {
				rate = r
			}
			ofCall, ofAccount := find(account+" "+call, rate), find(account, limits.PerAccount)

			want, wait := OK, time.Duration(0)
			switch {
			case ofCall.missing() > 0:
				want, wait = OverCall, ofCall.missing()
			case ofAccount.missing() > 0:
				want, wait = OverAccount, ofAccount.missing()
			default:
				ofCall.held -= ofCall.token
				ofAccount.held -= ofAccount.token
			}
			if got, after := throttle.Allow(account, call, now); got != want || after != wait {
				t.Fatalf("%s %s: verdict %d, wait %s; want %d, %s", account, call, got, after, want, wait)
			}
		}
	})
}

func TestThrottleIsBoundedAndShared(t *testing.T) {
	t.Parallel()
	const size = 100
	throttle := NewThrottle(&Limits{
		PerAccount: Rate{PerSecond: 1, Burst: 1000},
		PerCall:    Rate{PerSecond: 1, Burst: 50},
		Calls:      map[string]Rate{"Slow": {PerSecond: 0.1, Burst: 1}},
	}, size)
	throttle.Allow("alice", "Slow", testTime)
	var passed atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if verdict, _ := throttle.Allow("bob", "ReadVms", testTime); verdict == OK {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if got := passed.Load(); got != 50 {
		t.Errorf("%d of 160 requests passed, want 50", got)
	}

	for i := range 10_000 {
		throttle.Allow(fmt.Sprint("account ", i), "ReadVms", testTime)
	}
	if got := len(throttle.buckets.entries); got != size {
		t.Errorf("%d buckets are kept, want %d", got, size)
	}
	if verdict, _ := throttle.Allow("alice", "Slow", testTime); verdict != OverCall {
		t.Error("ordinary traffic made a slow call's bucket forgotten")
	}
}

func BenchmarkAllow(b *testing.B) {
	throttle := NewThrottle(DefaultLimits(), 1<<16)
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("%012d", i)
	}
	b.Run("few accounts", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			throttle.Allow(names[i%8], "ReadVms", testTime.Add(time.Duration(i)*time.Millisecond))
		}
	})
	b.Run("many accounts", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			throttle.Allow(names[i%len(names)], "ReadVms", testTime.Add(time.Duration(i)*time.Millisecond))
		}
	})
}
