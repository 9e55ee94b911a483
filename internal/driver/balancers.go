package driver

import (
	"context"
	"net/netip"
	"time"
)

// Balancers applies the load balancers of a region. It promises what [Networks]
// promises, for values of another kind. It may be called from many goroutines at
// once.
//
// A change cuts no connection and fails no request: those under way end as they
// began, and new ones go by the new value. EnsureBalancer returns nil once new
// connections go by the value. A listener that cannot be opened, such as one on a
// port that needs a privilege, is no error: the status says why, the other
// listeners work, and the driver tries again by itself.
type Balancers interface {
	EnsureBalancer(ctx context.Context, b Balancer) error
	// RemoveBalancer stops listening, gives connections under way a short time to
	// end, and returns [Later] meanwhile. Access logs that are not published yet
	// still are.
	RemoveBalancer(ctx context.Context, account, id string) error
	// ObserveBalancers lists the load balancers of this region that the
	// infrastructure has, without private keys, with the health of their backends.
	ObserveBalancers(ctx context.Context) ([]BalancerStatus, error)
	// Balancer is the status of one load balancer; ok is false if there is none.
	Balancer(ctx context.Context, account, id string) (status BalancerStatus, ok bool, err error)
	// ResolveBalancer returns the address of the load balancer that has a DNS name;
	// ok is false if there is none, or if it has no address yet.
	ResolveBalancer(ctx context.Context, dnsName string) (address netip.Addr, ok bool, err error)
}

// Balancer is a load balancer with all that it goes by. Lists are in any order.
type Balancer struct {
	Account, ID string // together they name the load balancer
	Generation  uint64 // grows with each change

	Name       string // what its access logs are named after
	DnsName    string // the name that clients resolve
	Internal   bool   // only its Net reaches it
	Subregions []string

	// Where a driver of networks places it. All empty: the public Cloud.
	Net            string
	Subnets        []string
	SecurityGroups []string
	Private        netip.Addr // its address in the Net; zero: the driver chooses one
	Public         netip.Addr // its public address; zero: it has none

	Listeners      []Listener    // no two of them have the same port, unless one is of UDP
	Certificates   []Certificate // those that listeners name
	Backends       []Backend     // no two of them have the same ID
	HealthCheck    HealthCheck
	SecuredCookies bool       // stickiness cookies have the attribute Secure
	AccessLog      *AccessLog // nil: requests are not logged
}

// Key names the load balancer and its generation.
func (b Balancer) Key() Key { return Key{b.Account, b.ID, b.Generation} }

// Listener receives connections at a port and forwards them to backends in turn,
// those that are healthy.
type Listener struct {
	Port            int
	Protocol        string // HTTP, HTTPS, TCP, SSL or UDP
	BackendPort     int
	BackendProtocol string // HTTP or HTTPS behind HTTP and HTTPS; TCP or SSL behind TCP and SSL; UDP behind UDP
	Certificate     string // the ID of a certificate, of HTTPS and SSL

	// What follows is of HTTP and HTTPS only.

	Stickiness *Stickiness    // nil: each request goes to the next backend
	Rules      []ListenerRule // the one with the greatest priority that matches a request counts
}

// Stickiness keeps a client's requests at one backend by a cookie, as long as that
// backend is healthy.
type Stickiness struct {
	// Cookie is the name of a cookie of the application, which begins a session
	// when a backend sets it and ends it when the client sends it no more. Empty:
	// each response without a session begins one.
	Cookie string
	Period time.Duration // the age at which the cookie expires; 0: at the end of the browser's session
}

// ListenerRule forwards the requests that match both patterns to some of the
// backends.
type ListenerRule struct {
	ID       string
	Priority int // no two rules of a listener have the same; the greatest goes first

	// Patterns of the host name, whatever its case, and of the path: `*` stands for
	// any text and `?` for one character. Empty: every host or path.
	Host, Path string

	Backends []string // the IDs of some of the backends; if no healthy one is among them, requests fail
}

// Certificate proves to clients who the load balancer is.
type Certificate struct {
	ID         string
	Chain      []byte // PEM: the certificate, then the intermediate authorities, each signed by the next
	PrivateKey []byte // PEM, without passphrase; no other program may learn it, and what is observed has none
}

// Backend is a machine that requests are forwarded to.
type Backend struct {
	ID      string     // of the VM, or the text of the address of a backend by IP
	Address netip.Addr // zero: a VM that has no address, for now, such as one that is stopped
}

// HealthCheck finds which backends are healthy. A check has failed if it has not
// succeeded in time.
type HealthCheck struct {
	// HTTP or HTTPS: a GET returns the status 200; TCP: a connection opens; SSL: a
	// handshake ends. Certificates are not verified.
	Protocol          string
	Port              int
	Path              string // of HTTP and HTTPS; empty: /
	Interval, Timeout time.Duration
	Healthy           int // how many consecutive checks make a failing backend healthy again
	Unhealthy         int // how many consecutive failed checks make a healthy backend failing
}

// AccessLog says where requests are logged.
type AccessLog struct {
	Bucket   string
	Prefix   string        // of the keys of objects; empty: none
	Interval time.Duration // how often an object is published, at the multiples of it by the clock: 5 or 60 minutes
}

// BalancerStatus is a load balancer as the infrastructure has it.
type BalancerStatus struct {
	Balancer                 // as it was applied last, without private keys
	Address  netip.Addr      // where clients reach it, which DnsName resolves to; zero: nowhere yet
	Health   []BackendHealth // of each of Backends, once
	Counters BalancerCounters

	// Reason says why it is not as it was asked to be, in sentences for people, such as
	// that a port cannot be opened; empty: it is.
	Reason string
}

// BackendHealth is the health of a backend.
type BackendHealth struct {
	ID     string // of the backend
	State  Health
	Reason string // what the last failed check met, for people; empty when healthy
}

// Health is whether a backend gets requests, and if not, why.
type Health string

// The health of backends. Only a healthy one gets requests. A new backend becomes healthy by its
// first check that succeeds.
const (
	Healthy         Health = "healthy"
	HealthPending   Health = "pending"    // it was never healthy, and too few checks have failed to say that it is not
	HealthFailing   Health = "failing"    // as many consecutive checks as Unhealthy have failed
	HealthNoAddress Health = "no address" // a VM that cannot be checked
)

// BalancerCounters count from when the load balancer was made, or from a failure of its host.
type BalancerCounters struct {
	Requests uint64 // of HTTP; elsewhere connections, and clients of UDP
	Errors   uint64 // those for which no backend could be reached, or none was healthy; with HTTP status 502, 503 or 504
	Active   int    // under way now
	Received uint64 // bytes from clients
	Sent     uint64 // bytes to clients

	// Latency counts the requests of HTTP by the time from the request to the end of
	// its response, each in the first of LatencyBounds that it does not exceed, and in the last
	// place if it exceeds all. Elapsed is the sum of those times.
	Latency []uint64
	Elapsed time.Duration
}

// LatencyBounds are the bounds of BalancerCounters.Latency.
var LatencyBounds = [...]time.Duration{
	time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond,
	300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second,
}

// BalancersOnly is a driver of load balancers and of nothing else.
type BalancersOnly interface {
	Balancers

	// Close stops the driver's background work. No method is called after it.
	Close()
}

// WithBalancers returns drivers whose load balancers are another driver's.
func WithBalancers(d Drivers, b BalancersOnly) Drivers { return joined{d, b} }

type joined struct {
	Drivers
	balancers BalancersOnly
}

func (j joined) Close() {
	j.balancers.Close()
	j.Drivers.Close()
}

func (j joined) EnsureBalancer(ctx context.Context, b Balancer) error {
	return j.balancers.EnsureBalancer(ctx, b)
}

func (j joined) RemoveBalancer(ctx context.Context, account, id string) error {
	return j.balancers.RemoveBalancer(ctx, account, id)
}

func (j joined) ObserveBalancers(ctx context.Context) ([]BalancerStatus, error) {
	return j.balancers.ObserveBalancers(ctx)
}

func (j joined) Balancer(ctx context.Context, account, id string) (BalancerStatus, bool, error) {
	return j.balancers.Balancer(ctx, account, id)
}

func (j joined) ResolveBalancer(ctx context.Context, dnsName string) (netip.Addr, bool, error) {
	return j.balancers.ResolveBalancer(ctx, dnsName)
}
