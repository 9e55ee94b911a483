package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/region"
)

// The region's names are served where --dns says, and that of the API leads to where
// it is served.
func TestDNS(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "data"), "--dns", "127.0.0.1:0", "--balancers", "proxy", "--balancer-addresses", "127.69.0.0/24")
	_, at, ok := strings.Cut(p.output(), "The region's names are served at ")
	if !ok {
		t.Fatalf("the region does not say where its names are served:\n%s", p.output())
	}
	at, _, _ = strings.Cut(at, "\n")
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, at)
	}}
	for name, want := range map[string]string{
		"api.eu-west-2.bastide.localhost.": "127.0.0.1", "ip-10-0-0-4.eu-west-2.compute.internal.": "10.0.0.4",
		"web-1.eu-west-2.lbu.bastide.localhost.": "",
	} {
		got, err := resolver.LookupHost(t.Context(), name)
		if want == "" && err == nil || want != "" && (err != nil || got[0] != want) {
			t.Errorf("%s resolves to %q, %v, want %q", name, got, err, want)
		}
	}
	p.stop(t)
}

func TestBadBalancing(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]balancing{
		`--balancers: "haproxy" is neither sim nor proxy`: {driver: "haproxy"},
		`--balancer-addresses: "127.0.0.1" is not a range of at least two addresses, such as 127.64.0.0/16`: {
			driver: "proxy", addresses: "127.0.0.1",
		},
		`--balancer-addresses: "127.0.0.1/32" is not a range of at least two addresses, such as 127.64.0.0/16`: {
			driver: "proxy", addresses: "127.0.0.1/32",
		},
		`--balancer-backends: "home" is not a range such as 10.0.0.0/8`: {
			driver: "proxy", addresses: "127.64.0.0/16", backends: "10.0.0.0/8, home",
		},
	} {
		if err := b.options(&region.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", b, err, want)
		}
	}
	many := balancing{driver: "proxy", addresses: "127.64.0.0/16"}
	if err := many.options(&region.Options{Postgres: "postgres://db/region"}); err == nil || !strings.Contains(err.Error(), "one machine") {
		t.Errorf("load balancers of many nodes: %v", err)
	}
}

// What only a region can start says so when it is started by hand.
func TestBalancerByHand(t *testing.T) {
	t.Parallel()
	out, err := program(t, balancerCommand, t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "was not started by a region") {
		t.Errorf("%v: %s", err, out)
	}
}
