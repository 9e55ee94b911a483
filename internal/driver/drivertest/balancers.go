package drivertest

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// Balancers tests a driver of load balancers, whose backends do not listen. open
// gives a driver without load balancers, and a function that returns once its
// clock shows at least the given time.
func Balancers(t *testing.T, open func(t *testing.T) (drivers driver.Balancers, until func(time.Time))) {
	run(t, func(t *testing.T) methods[driver.Balancer] {
		drivers, until := open(t)
		return methods[driver.Balancer]{drivers.EnsureBalancer, drivers.RemoveBalancer, balancersOf(drivers), until}
	}, balancer, changedBalancer, withoutKeys)
	tests := map[string]func(*testing.T, driver.Balancers, func(time.Time)){
		"each backend has a health":       testHealth,
		"one load balancer is found":      testBalancer,
		"a name resolves to its balancer": testResolve,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivers, until := open(t)
			test(t, drivers, until)
		})
	}
}

// balancersOf observes load balancers whatever the health of their backends.
func balancersOf(drivers driver.Balancers) func(context.Context) ([]driver.Balancer, error) {
	return func(ctx context.Context) (balancers []driver.Balancer, err error) {
		seen, err := drivers.ObserveBalancers(ctx)
		for _, s := range seen {
			balancers = append(balancers, s.Balancer)
		}
		return balancers, err
	}
}

func balancerSubject(t *testing.T, drivers driver.Balancers, until func(time.Time)) subject[driver.Balancer] {
	return subject[driver.Balancer]{T: t, methods: methods[driver.Balancer]{
		ensure: drivers.EnsureBalancer, remove: drivers.RemoveBalancer, observe: balancersOf(drivers), until: until,
	}}
}

func testHealth(t *testing.T, drivers driver.Balancers, until func(time.Time)) {
	s := balancerSubject(t, drivers, until)
	for _, b := range []driver.Balancer{balancer(one), changedBalancer(balancer(one))} {
		s.make(b)
		status, ok, err := drivers.Balancer(t.Context(), b.Account, b.ID)
		if err != nil || !ok {
			t.Fatalf("the status of a load balancer: %t, %v", ok, err)
		}
		var want, got []string
		for _, backend := range b.Backends {
			want = append(want, backend.ID)
		}
		for _, h := range status.Health {
			got = append(got, h.ID)
			address := b.Backends[slices.IndexFunc(b.Backends, func(b driver.Backend) bool { return b.ID == h.ID })].Address
			if (h.State == driver.HealthNoAddress) == address.IsValid() || h.State != driver.Healthy && h.Reason == "" {
				t.Errorf("the backend %s with the address %s is %+v", h.ID, address, h)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("the status has the health of %q, want %q", got, want)
		}
	}
}

func testBalancer(t *testing.T, drivers driver.Balancers, until func(time.Time)) {
	s := balancerSubject(t, drivers, until)
	find := func(want bool) {
		t.Helper()
		status, ok, err := drivers.Balancer(t.Context(), one.Account, one.ID)
		if err != nil || ok != want || ok && (status.Key() != one || !status.Address.IsValid()) {
			t.Errorf("a load balancer is found: %t, want %t, %v at %s, %v", ok, want, status.Key(), status.Address, err)
		}
	}
	find(false)
	s.make(balancer(other))
	find(false)
	s.make(balancer(one))
	find(true)
	s.unmake(balancer(one))
	find(false)
}

func testResolve(t *testing.T, drivers driver.Balancers, until func(time.Time)) {
	s := balancerSubject(t, drivers, until)
	resolves := func(name string, want netip.Addr) {
		t.Helper()
		got, ok, err := drivers.ResolveBalancer(t.Context(), name)
		if err != nil || ok != want.IsValid() || got != want {
			t.Errorf("%s resolves to %s, %t, %v, want %s", name, got, ok, err, want)
		}
	}
	b := balancer(one)
	resolves(b.DnsName, netip.Addr{})
	s.make(b)
	status, _, err := drivers.Balancer(t.Context(), b.Account, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	resolves(b.DnsName, status.Address)
	resolves("other."+b.DnsName, netip.Addr{})
	s.make(changedBalancer(b))
	resolves(b.DnsName, netip.Addr{})
	s.unmake(b)
	resolves(changedBalancer(b).DnsName, netip.Addr{})
}

// withoutKeys is a load balancer as it is observed.
func withoutKeys(b driver.Balancer) driver.Balancer {
	b.Certificates = slices.Clone(b.Certificates)
	for i := range b.Certificates {
		b.Certificates[i].PrivateKey = nil
	}
	return b
}

// balancer is a load balancer with everything that one can have. Nothing listens
// where its backends are, and none of its ports needs a privilege.
func balancer(key driver.Key) driver.Balancer {
	return driver.Balancer{
		Account: key.Account, ID: key.ID, Generation: key.Generation,
		Name: "web", DnsName: key.ID + "." + key.Account + ".lbu.example.com", Internal: true, Subregions: []string{"eu-west-2a"},
		Net: "vpc-00000001", Subnets: []string{"subnet-00000001"}, SecurityGroups: []string{"sg-00000001", "sg-00000002"},
		Private: addr("10.0.0.4"), Public: addr("198.51.100.1"),
		Listeners: []driver.Listener{
			{
				Port: 8443, Protocol: "HTTPS", BackendPort: 8081, BackendProtocol: "HTTP", Certificate: "one",
				Stickiness: &driver.Stickiness{Cookie: "SESSION", Period: time.Hour},
				Rules: []driver.ListenerRule{
					{ID: "1", Priority: 10, Host: "*.example.com", Path: "/shop/*", Backends: []string{"i-00000001", "198.51.100.9"}},
					{ID: "2", Priority: 20, Path: "/img/?", Backends: []string{"i-00000001"}},
				},
			},
			{Port: 8444, Protocol: "SSL", BackendPort: 8082, BackendProtocol: "TCP", Certificate: "one"},
			{Port: 8053, Protocol: "TCP", BackendPort: 8053, BackendProtocol: "TCP"},
			{Port: 8053, Protocol: "UDP", BackendPort: 8053, BackendProtocol: "UDP"},
		},
		Certificates: []driver.Certificate{certificate("one")},
		Backends: []driver.Backend{
			{ID: "i-00000001", Address: addr("127.0.0.1")}, {ID: "i-00000002"}, {ID: "198.51.100.9", Address: addr("127.0.0.1")},
		},
		SecuredCookies: true,
		HealthCheck: driver.HealthCheck{
			Protocol: "HTTP", Port: 1, Path: "/health", Interval: 30 * time.Second, Timeout: 5 * time.Second, Healthy: 10, Unhealthy: 2,
		},
		AccessLog: &driver.AccessLog{Bucket: "logs", Prefix: "web/one", Interval: 5 * time.Minute},
	}
}

// changedBalancer is a load balancer at a later generation, with nothing as it was.
func changedBalancer(b driver.Balancer) driver.Balancer {
	return driver.Balancer{
		Account: b.Account, ID: b.ID, Generation: b.Generation + 1,
		Name: "shop", DnsName: "changed-" + b.DnsName, Subregions: []string{"eu-west-2b"},
		Public: addr("198.51.100.2"),
		Listeners: []driver.Listener{
			{Port: 8443, Protocol: "HTTP", BackendPort: 8081, BackendProtocol: "HTTPS", Stickiness: &driver.Stickiness{}},
			{Port: 8054, Protocol: "TCP", BackendPort: 8054, BackendProtocol: "SSL"},
			{Port: 8445, Protocol: "HTTPS", BackendPort: 8081, BackendProtocol: "HTTP", Certificate: "two"},
		},
		Certificates: []driver.Certificate{certificate("two")},
		Backends:     []driver.Backend{{ID: "i-00000001", Address: addr("127.0.0.2")}, {ID: "i-00000003", Address: addr("127.0.0.3")}},
		HealthCheck:  driver.HealthCheck{Protocol: "TCP", Port: 2, Interval: 5 * time.Second, Timeout: 2 * time.Second, Healthy: 2, Unhealthy: 3},
	}
}

// certificate is a certificate for *.example.com, the same for the same ID.
func certificate(id string) driver.Certificate {
	key := sampleKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: id}, DNSNames: []string{"*.example.com"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
	}
	certificate, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return driver.Certificate{
		ID:         id,
		Chain:      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		PrivateKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// sampleKey is the private key of all samples. Its signatures need no randomness.
var sampleKey = sync.OnceValue(func() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) })
