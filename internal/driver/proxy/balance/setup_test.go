package balance

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// addresses are given out one by one, so that tests at the same time do not share
// any: those of load balancers are below 127.65.0.0, those of backends below 127.66.0.0.
var addresses atomic.Uint32

func newAddress() netip.Addr {
	n := addresses.Add(1)
	return netip.AddrFrom4([4]byte{127, 65, byte(n >> 8), byte(n)})
}

// subject is a load balancer under test, with its value.
type subject struct {
	*testing.T
	*Balancer
	value driver.Balancer
}

// balance starts a load balancer that checks TCP connections quickly, to what
// listens at the backends' port.
func balance(t *testing.T, port int, change ...func(*Options)) *subject {
	t.Helper()
	o := Options{
		Address: newAddress(), Region: "eu-west-2", Dir: t.TempDir(), Logs: t.TempDir(), Rand: rand.Reader,
		Now: time.Now, After: time.After, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, c := range change {
		c(&o)
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{T: t, Balancer: b, value: driver.Balancer{
		Account: "000000000001", ID: "web", Name: "web", DnsName: "web.example.com",
		HealthCheck: driver.HealthCheck{
			Protocol: "TCP", Port: port, Interval: 5 * time.Millisecond, Timeout: time.Second, Healthy: 2, Unhealthy: 2,
		},
	}}
	t.Cleanup(func() {
		ended, end := context.WithCancel(context.Background())
		end()
		if err := b.Close(ended); err != nil {
			t.Error(err)
		}
	})
	return s
}

// apply changes the value and makes the load balancer go by it.
func (s *subject) apply(change func(*driver.Balancer)) {
	s.Helper()
	change(&s.value)
	s.value.Generation++
	if err := s.Apply(s.value, Reach{}); err != nil {
		s.Fatal(err)
	}
	if reason := s.Status().Reason; reason != "" {
		s.Fatal(reason)
	}
}

// eventually waits for something that the network and other goroutines bring
// about.
func eventually(t *testing.T, what string, come func() bool) {
	t.Helper()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !come() {
		select {
		case <-late.C:
			t.Fatalf("it does not come: %s", what)
		case <-again.C:
		}
	}
}

// healthy waits until these backends are healthy, and no others.
func (s *subject) healthy(ids ...string) {
	s.Helper()
	slices.Sort(ids)
	eventually(s.T, fmt.Sprintf("only %q are healthy", ids), func() bool {
		var got []string
		for _, h := range s.Status().Health {
			if h.State == driver.Healthy {
				got = append(got, h.ID)
			}
		}
		slices.Sort(got)
		return slices.Equal(got, ids)
	})
}

// at is a port of the load balancer.
func (s *subject) at(port int) string {
	return net.JoinHostPort(s.Address.String(), strconv.Itoa(port))
}

// farm is HTTP servers, each at an address of its own and all at the same port.
type farm struct {
	port    int
	servers map[string]*httptest.Server
	all     []driver.Backend
}

// raise starts servers, which say their names in each response unless the handler
// does something else.
func raise(t *testing.T, handler http.Handler, names ...string) *farm {
	t.Helper()
	f := &farm{servers: map[string]*httptest.Server{}}
	for _, name := range names {
		address := newAddress()
		listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), strconv.Itoa(f.port)))
		if err != nil {
			t.Fatal(err)
		}
		f.port = listener.Addr().(*net.TCPAddr).Port
		own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Backend", name)
			if handler != nil {
				handler.ServeHTTP(w, r)
				return
			}
			_, _ = io.WriteString(w, name)
		})
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: own}}
		server.Start()
		t.Cleanup(server.Close)
		f.servers[name] = server
		f.all = append(f.all, driver.Backend{ID: name, Address: address})
	}
	return f
}

// with are the backends of these names.
func (f *farm) with(names ...string) (backends []driver.Backend) {
	for _, b := range f.all {
		if slices.Contains(names, b.ID) {
			backends = append(backends, b)
		}
	}
	return backends
}

// get asks for a page and returns the body; a status other than 200 is an error.
func get(t *testing.T, client *http.Client, url string, change ...func(*http.Request)) string {
	t.Helper()
	_, body := ask(t, client, url, change...)
	return body
}

func ask(t *testing.T, client *http.Client, url string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(request)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// newClient is a client with connections of its own.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// spreadOf is how often each backend gets one of so many requests.
func spreadOf(t *testing.T, url string, requests int) map[string]int {
	t.Helper()
	got := map[string]int{}
	client := newClient(t)
	for range requests {
		got[get(t, client, url)]++
	}
	return got
}

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

var newAuthority = sync.OnceValue(func() *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{key, cert, pool}
})

// sign makes a certificate for a name.
func (a *authority) sign(t *testing.T, id, name string) driver.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: id}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Certificate{
		ID:         id,
		Chain:      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		PrivateKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// dial opens a connection that ends with the test.
func dial(t *testing.T, at string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// line reads a line from a connection.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(text, "\r\n")
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// transport is for clients that trust the authority, and ask for web.example.com.
func (a *authority) transport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool, ServerName: "web.example.com"}, ForceAttemptHTTP2: true}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func ports(address string, port int) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(addr(address), uint16(port))}
}
