package balance

import (
	"sync/atomic"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// counters count what the load balancer does.
type counters struct {
	requests, errors, received, sent, elapsed atomic.Uint64
	active                                    atomic.Int64
	latency                                   [len(driver.LatencyBounds) + 1]atomic.Uint64
}

// took counts a request by its time.
func (c *counters) took(d time.Duration) {
	at := 0
	for at < len(driver.LatencyBounds) && d > driver.LatencyBounds[at] {
		at++
	}
	c.latency[at].Add(1)
	c.elapsed.Add(uint64(max(d, 0)))
}

func (c *counters) read() driver.BalancerCounters {
	r := driver.BalancerCounters{
		Requests: c.requests.Load(), Errors: c.errors.Load(), Active: int(c.active.Load()),
		Received: c.received.Load(), Sent: c.sent.Load(), Elapsed: time.Duration(c.elapsed.Load()),
	}
	for i := range c.latency {
		r.Latency = append(r.Latency, c.latency[i].Load())
	}
	return r
}
