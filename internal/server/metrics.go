package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bastide-cloud/bastide/internal/api"
)

// Metrics are the metrics of calls.
type Metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec

	unrecorded prometheus.Counter
}

// NewMetrics returns registered metrics of calls.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bastide_calls_total", Help: "Calls by action and error code; no code for success.",
		}, []string{"action", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bastide_call_seconds", Help: "Time from the request to its response.",
			Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3},
		}, []string{"action"}),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bastide_calls_unrecorded_total", Help: "Calls without a proven caller that came too fast to be in the API log.",
		}),
	}
	r.MustRegister(m.calls, m.seconds, m.unrecorded)
	return m
}

// call counts a call. Unknown actions share one label, because labels from
// strangers would fill the memory.
func (m *Metrics) call(x *exchange, actions *api.API, took time.Duration) {
	name := "unknown"
	if a, err := actions.Find(x.call.Action, api.Latest); err == nil {
		name = a.Name
	}
	m.calls.WithLabelValues(name, x.code).Inc()
	m.seconds.WithLabelValues(name).Observe(took.Seconds())
}
