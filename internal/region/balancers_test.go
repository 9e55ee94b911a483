package region

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// measured are load balancers as a driver lists them.
type measured struct {
	driver.Balancers
	seen []driver.BalancerStatus
	err  error
}

func (m measured) ObserveBalancers(context.Context) ([]driver.BalancerStatus, error) {
	return m.seen, m.err
}

func TestBalancerMetrics(t *testing.T) {
	t.Parallel()
	latency := make([]uint64, len(driver.LatencyBounds)+1)
	latency[0], latency[2], latency[len(latency)-1] = 3, 2, 1
	seen := []driver.BalancerStatus{{
		Balancer: driver.Balancer{Account: "000000000001", ID: "web"}, Reason: "Port 80 cannot be opened.",
		Health:   []driver.BackendHealth{{State: driver.Healthy}, {State: driver.Healthy}, {State: driver.HealthFailing}},
		Counters: driver.BalancerCounters{Requests: 6, Errors: 1, Active: 2, Received: 10, Sent: 20, Latency: latency, Elapsed: 90 * time.Second},
	}}
	m := &balancerMetrics{measured{err: errors.New("one does not respond"), seen: seen}, slog.New(slog.NewTextHandler(io.Discard, nil))}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	got := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(got, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`backends{account="000000000001",balancer="web",health="failing"} 1`,
		`backends{account="000000000001",balancer="web",health="healthy"} 2`,
		`backends{account="000000000001",balancer="web",health="no address"} 0`,
		`degraded{account="000000000001",balancer="web"} 1`,
		`errors_total{account="000000000001",balancer="web"} 1`,
		`requests_total{account="000000000001",balancer="web"} 6`,
		`connections{account="000000000001",balancer="web"} 2`,
		`received_bytes_total{account="000000000001",balancer="web"} 10`,
		`sent_bytes_total{account="000000000001",balancer="web"} 20`,
		`request_seconds_bucket{account="000000000001",balancer="web",le="0.001"} 3`,
		`request_seconds_bucket{account="000000000001",balancer="web",le="0.01"} 5`,
		`request_seconds_bucket{account="000000000001",balancer="web",le="10"} 5`,
		`request_seconds_bucket{account="000000000001",balancer="web",le="+Inf"} 6`,
		`request_seconds_sum{account="000000000001",balancer="web"} 90`,
	} {
		if !strings.Contains(got.Body.String(), "\nbastide_balancer_"+want+"\n") {
			t.Errorf("the metrics have no line bastide_balancer_%s:\n%s", want, got.Body)
		}
	}
}
