package region

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// balancerMetrics are the measurements of load balancers, which their driver makes.
// They are read from it when they are asked for.
type balancerMetrics struct {
	drivers driver.Balancers
	log     *slog.Logger
}

// scrapePatience bounds how long the driver may take to list its load balancers.
const scrapePatience = 5 * time.Second

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bastide_balancer_"+name, help, append([]string{"account", "balancer"}, labels...), nil)
}

var (
	balancerRequests = describe("requests_total", "Requests of HTTP; elsewhere connections, and clients of UDP.")
	balancerErrors   = describe("errors_total", "Requests for which no backend was healthy or could be reached in time.")
	balancerActive   = describe("connections", "Connections of clients, and clients of UDP, now.")
	balancerReceived = describe("received_bytes_total", "Bytes from clients.")
	balancerSent     = describe("sent_bytes_total", "Bytes to clients.")
	balancerBackends = describe("backends", "Backends by their health; the healthy ones are up.", "health")
	balancerSeconds  = describe("request_seconds", "Time from a request of HTTP to the end of its response.")
	balancerDegraded = describe("degraded", "1: the load balancer is not as it was asked to be, such as when a port cannot be opened.")
)

// Describe implements [prometheus.Collector].
func (m *balancerMetrics) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		balancerRequests, balancerErrors, balancerActive, balancerReceived, balancerSent, balancerBackends, balancerSeconds, balancerDegraded,
	} {
		all <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *balancerMetrics) Collect(all chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	seen, err := m.drivers.ObserveBalancers(ctx)
	if err != nil {
		m.log.Error("load balancers cannot be measured", "error", err)
	}
	for _, s := range seen {
		collect(s, all)
	}
}

func collect(s driver.BalancerStatus, all chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, kind, value, append([]string{s.Account, s.ID}, labels...)...)
	}
	c := s.Counters
	count(balancerRequests, prometheus.CounterValue, float64(c.Requests))
	count(balancerErrors, prometheus.CounterValue, float64(c.Errors))
	count(balancerActive, prometheus.GaugeValue, float64(c.Active))
	count(balancerReceived, prometheus.CounterValue, float64(c.Received))
	count(balancerSent, prometheus.CounterValue, float64(c.Sent))
	degraded := 0.
	if s.Reason != "" {
		degraded = 1
	}
	count(balancerDegraded, prometheus.GaugeValue, degraded)
	health := map[driver.Health]int{}
	for _, h := range s.Health {
		health[h.State]++
	}
	for _, state := range []driver.Health{driver.Healthy, driver.HealthPending, driver.HealthFailing, driver.HealthNoAddress} {
		count(balancerBackends, prometheus.GaugeValue, float64(health[state]), string(state))
	}
	buckets, total := map[float64]uint64{}, uint64(0)
	for i, n := range c.Latency {
		total += n
		if i < len(driver.LatencyBounds) {
			buckets[driver.LatencyBounds[i].Seconds()] = total
		}
	}
	all <- prometheus.MustNewConstHistogram(balancerSeconds, total, c.Elapsed.Seconds(), buckets, s.Account, s.ID)
}
