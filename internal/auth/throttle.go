package auth

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rate is a sustained number of requests per second, and how many may come at
// once. The zero Rate sets no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Limits are the rates at which an account may call. A nil *Limits sets no
// limit.
type Limits struct {
	PerAccount Rate            // all calls of an account together
	PerCall    Rate            // each call of an account, by name
	Calls      map[string]Rate // calls whose rate differs from PerCall
}

// passwordCheck is the call that each check of a password counts as, whatever
// action it is for.
const passwordCheck = "a password"

// DefaultLimits leave room for Terraform at ten parallel operations, for CSI
// drivers and for whole test suites; the SDKs hold themselves to about five
// requests per second. Calls that can guess a password or fill a mailbox are
// held to a human's rate.
func DefaultLimits() *Limits {
	return &Limits{
		PerAccount: Rate{PerSecond: 500, Burst: 1000},
		PerCall:    Rate{PerSecond: 200, Burst: 400},
		Calls: map[string]Rate{
			passwordCheck:            {PerSecond: 2, Burst: 20},
			"CheckAuthentication":    {PerSecond: 2, Burst: 20},
			"ResetAccountPassword":   {PerSecond: 10.0 / 60, Burst: 10},
			"SendResetPasswordEmail": {PerSecond: 5.0 / 60, Burst: 5},
		},
	}
}

// ParseLimits reads "on" for the [DefaultLimits], "off" for none, or two
// rates, for an account and for each of its calls: "200/s,50/s". A rate is per
// second or per minute ("90/m"), and as many may come at once. Calls that are
// stricter by default stay so.
func ParseLimits(s string) (*Limits, error) {
	switch s {
	case "on":
		return DefaultLimits(), nil
	case "off":
		return nil, nil
	}
	perAccount, perCall, ok := strings.Cut(s, ",")
	if !ok {
		return nil, fmt.Errorf("the throttle %q is neither on, off, nor two rates such as 200/s,50/s", s)
	}
	limits := DefaultLimits()
	var err error
	if limits.PerAccount, err = parseRate(perAccount); err != nil {
		return nil, err
	}
	if limits.PerCall, err = parseRate(perCall); err != nil {
		return nil, err
	}
	maps.DeleteFunc(limits.Calls, func(_ string, r Rate) bool { return r.PerSecond >= limits.PerCall.PerSecond })
	return limits, nil
}

func parseRate(s string) (Rate, error) {
	// More than a million a second is no limit, but "off" misspelt.
	const most = 1_000_000
	count, unit, _ := strings.Cut(strings.TrimSpace(s), "/")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > most || (unit != "s" && unit != "m") {
		return Rate{}, fmt.Errorf("the rate %q is not a number from 1 to %d followed by /s or /m", s, most)
	}
	if unit == "m" {
		return Rate{PerSecond: float64(n) / 60, Burst: n}, nil
	}
	return Rate{PerSecond: float64(n), Burst: n}, nil
}

// Verdict is the decision of a [Throttle] on a request.
type Verdict int

const (
	OK          Verdict = iota // the request may pass
	OverCall                   // the account makes this call too often
	OverAccount                // the account makes too many calls
)

// Throttle holds accounts to their limits with token buckets, in bounded
// memory: the buckets used longest ago are forgotten first, and a bucket that
// had the time to fill again is forgotten without harm. It is safe for
// concurrent use.
type Throttle struct {
	perAccount, perCall interval
	calls               map[string]interval

	mu      sync.Mutex // guards both tables
	buckets *lru[bucketName, bucket]
	// The calls that Limits name are the slow ones. Their buckets are apart,
	// so that ordinary traffic never pushes one out before it is full again.
	slow *lru[bucketName, bucket]
}

// A bucketName with no call is the bucket of the whole account.
type bucketName struct{ account, call string }

// NewThrottle returns a Throttle with room for a number of buckets: an account
// uses one for itself and one for each of its calls. Nil limits let everything
// pass.
func NewThrottle(limits *Limits, entries int) *Throttle {
	if limits == nil {
		limits = &Limits{}
	}
	t := &Throttle{
		perAccount: newInterval(limits.PerAccount),
		perCall:    newInterval(limits.PerCall),
		calls:      map[string]interval{},
		buckets:    newLRU[bucketName, bucket](max(entries, 2)), // one request holds two at once
		slow:       newLRU[bucketName, bucket](entries),
	}
	for call, rate := range limits.Calls {
		t.calls[call] = newInterval(rate)
	}
	return t
}

// Allow decides on one call of an account. A request that is refused takes
// nothing from any bucket, and may come again after retryAfter.
func (t *Throttle) Allow(account, call string, now time.Time) (verdict Verdict, retryAfter time.Duration) {
	table, callInterval := t.buckets, t.perCall
	if p, ok := t.calls[call]; ok {
		table, callInterval = t.slow, p
	}
	at := now.UnixNano()

	t.mu.Lock()
	defer t.mu.Unlock()
	ofCall, ofAccount := table.at(bucketName{account, call}), t.buckets.at(bucketName{account, ""})
	if wait := callInterval.wait(*ofCall, at); wait > 0 {
		return OverCall, wait
	}
	if wait := t.perAccount.wait(*ofAccount, at); wait > 0 {
		return OverAccount, wait
	}
	*ofCall, *ofAccount = callInterval.take(*ofCall, at), t.perAccount.take(*ofAccount, at)
	return OK, 0
}

// A bucket of tokens is known by the time at which it will be full again, in
// nanoseconds since 1970: it misses what flows in until then.
type bucket int64

// interval is a Rate in nanoseconds.
type interval struct {
	token int64 // the time in which one token flows in
	whole int64 // the time in which an empty bucket becomes full
}

func newInterval(r Rate) interval {
	if r.PerSecond <= 0 {
		return interval{}
	}
	token := int64(float64(time.Second) / r.PerSecond)
	return interval{token: token, whole: token * int64(max(r.Burst, 1))}
}

// take returns the bucket with one token less.
func (p interval) take(b bucket, now int64) bucket {
	// No bucket is emptier than empty, even if the clock was set back.
	full := min(max(int64(b), now), now+p.whole)
	return bucket(full + p.token)
}

// wait returns how long the bucket needs until it has a token.
func (p interval) wait(b bucket, now int64) time.Duration {
	return time.Duration(max(int64(p.take(b, now))-now-p.whole, 0))
}
