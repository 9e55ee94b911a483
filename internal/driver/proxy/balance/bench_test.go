package balance

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// BenchmarkRequests compares requests that go to a server with those that go
// through a load balancer of HTTP or TCP, all in one process.
func BenchmarkRequests(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	balancer, err := New(Options{
		Address: newAddress(), Dir: b.TempDir(), Logs: b.TempDir(), Rand: zeroes{}, Now: time.Now, After: time.After,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer balancer.Close(b.Context())
	if err := balancer.Apply(driver.Balancer{
		Listeners: []driver.Listener{
			{Port: 8080, Protocol: "HTTP", BackendPort: port, BackendProtocol: "HTTP"},
			{Port: 8081, Protocol: "TCP", BackendPort: port, BackendProtocol: "TCP"},
		},
		Backends:    []driver.Backend{{ID: "a", Address: addr("127.0.0.1")}},
		HealthCheck: driver.HealthCheck{Protocol: "TCP", Port: port, Interval: time.Minute, Timeout: time.Second, Healthy: 2, Unhealthy: 2},
	}, Reach{}); err != nil {
		b.Fatal(err)
	}
	for balancer.Status().Health[0].State != driver.Healthy {
		<-time.After(time.Millisecond)
	}
	at := func(port int) string {
		return "http://" + net.JoinHostPort(balancer.Address.String(), strconv.Itoa(port))
	}
	for _, way := range []struct{ name, url string }{{"direct", server.URL}, {"HTTP", at(8080)}, {"TCP", at(8081)}} {
		b.Run(way.name, func(b *testing.B) {
			transport := &http.Transport{MaxIdleConnsPerHost: 64}
			defer transport.CloseIdleConnections()
			b.SetParallelism(16)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					response, err := (&http.Client{Transport: transport}).Get(way.url)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			})
		})
	}
}

// zeroes is a source without randomness.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { return len(p), nil }
