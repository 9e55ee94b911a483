package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bastide-cloud/bastide/internal/server"
)

// A web page reaches the administration of this machine under a name of its own
// that leads here. Its requests name it.
func TestTheAdministrationAnswersToItsOwnNames(t *testing.T) {
	t.Parallel()
	copies := 0
	h := server.Admin(server.AdminOptions{
		Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }, Host: "region.internal",
		Backup: func(context.Context, string, string, string) (fmt.Stringer, error) {
			copies++
			return &bytes.Buffer{}, nil
		},
	})
	for host, want := range map[string]int{
		"127.0.0.1:4281": 200, "127.0.0.1": 200, "192.0.2.1:80": 200, "[::1]:4281": 200, "[::1]": 200, "localhost:4281": 200, "LOCALHOST": 200,
		"region.internal:4281": 200, "Region.internal": 200, "": 200, // HTTP/1.0
		"evil.example:4281": 421, "evil.example": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421,
		"region.internal.evil.example:4281": 421, "region": 421, "[evil]:4281": 421, "2130706433": 421, ":4281:": 421,
	} {
		for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/pprof/", "/backup"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if path == "/backup" {
				r.Method = http.MethodPost
				r.Header.Set("Origin", "http://"+host) // as of a page of that very host
				r.Header.Set("Sec-Fetch-Site", "same-origin")
			}
			r.Host = host
			before := copies
			answer := serve(h, r)
			if answer.Code != want {
				t.Errorf("%s of the host %q: got %d, want %d", path, host, answer.Code, want)
			}
			if want == 421 && (copies != before || !strings.Contains(answer.Body.String(), "--admin")) {
				t.Errorf("%s of the host %q: it is copied or the answer does not help: %s", path, host, answer.Body)
			}
		}
	}
}

func TestTheCommandLineIsNoProfile(t *testing.T) {
	t.Parallel()
	h := server.Admin(server.AdminOptions{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }})
	if got := serve(h, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/debug/pprof/cmdline", nil)); got.Code != http.StatusNotFound {
		t.Errorf("the command line: %d, %q; want 404", got.Code, got.Body)
	}
}
