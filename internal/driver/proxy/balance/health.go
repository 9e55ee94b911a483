package balance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// backendKey names a backend. One whose address changes is another one.
type backendKey struct {
	id      string
	address netip.Addr
}

func keyOf(b driver.Backend) backendKey { return backendKey{b.ID, b.Address} }

// backend is a machine that requests are forwarded to.
type backend struct {
	backendKey
	cookie string
	stop   context.CancelFunc // ends its health checks

	mu      sync.Mutex // guards what follows; taken after the mutex of the Balancer
	state   driver.Health
	reason  string
	good    int       // consecutive checks that have succeeded
	bad     int       // consecutive checks that have failed
	removed time.Time // when it ceased to be a backend; zero: it is one
}

func (be *backend) healthy() bool {
	be.mu.Lock()
	defer be.mu.Unlock()
	return be.state == driver.Healthy
}

func (be *backend) status() driver.BackendHealth {
	be.mu.Lock()
	defer be.mu.Unlock()
	return driver.BackendHealth{ID: be.id, State: be.state, Reason: be.reason}
}

// drainedFor is for how long the backend has not been one; 0 if it is.
func (be *backend) drainedFor(now time.Time) time.Duration {
	be.mu.Lock()
	defer be.mu.Unlock()
	if be.removed.IsZero() {
		return 0
	}
	return now.Sub(be.removed)
}

// takeBackends begins to check the backends of a value, and ends to check the
// others. recheck is whether all are checked in another way than before. The
// caller holds the mutex.
func (b *Balancer) takeBackends(v driver.Balancer, recheck bool) {
	wanted := map[backendKey]bool{}
	for _, named := range v.Backends {
		key := keyOf(named)
		wanted[key] = true
		be := b.backends[key]
		if be != nil && !recheck {
			continue
		}
		if be == nil {
			be = &backend{backendKey: key, cookie: cookieOf(v.Account, v.ID, named.ID)}
			be.set(driver.HealthPending, "It has not been checked yet.")
			b.backends[key] = be
		} else {
			be.stop()
		}
		b.check(be, v.HealthCheck)
	}
	for key, be := range b.backends {
		if !wanted[key] {
			be.stop()
			be.mu.Lock()
			be.removed = b.Now()
			be.mu.Unlock()
			delete(b.backends, key)
		}
	}
}

// check checks a backend from now on.
func (b *Balancer) check(be *backend, how driver.HealthCheck) {
	ctx, stop := context.WithCancel(b.running)
	be.stop = stop
	if !be.address.IsValid() {
		be.set(driver.HealthNoAddress, "The VM has no address.")
		return
	}
	if !b.allowed(be.address) {
		be.set(driver.HealthFailing, fmt.Sprintf("The region forwards nothing to %s.", be.address))
		return
	}
	b.wait.Go(func() {
		for {
			err := b.probe(ctx, how, be.address)
			if ctx.Err() != nil {
				return
			}
			b.note(be, how, err)
			select {
			case <-ctx.Done():
				return
			case <-b.After(how.Interval):
			}
		}
	})
}

// checked notes the result of a check, and reports whether the state is another
// one now.
func (be *backend) checked(how driver.HealthCheck, err error) (changed bool) {
	be.mu.Lock()
	defer be.mu.Unlock()
	was := be.state
	if err != nil {
		be.good, be.bad, be.reason = 0, be.bad+1, err.Error()
		if be.bad >= how.Unhealthy {
			be.state = driver.HealthFailing
		}
		return be.state != was
	}
	be.good, be.bad = be.good+1, 0
	if was == driver.HealthPending || be.good >= how.Healthy {
		be.state = driver.Healthy
	}
	if be.state == driver.Healthy {
		be.reason = ""
	}
	return be.state != was
}

// note notes the result of a check, by which the load balancer goes from then on.
func (b *Balancer) note(be *backend, how driver.HealthCheck, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if be.checked(how, err) {
		now := b.current.Load()
		b.current.Store(b.compile(now.value, now.reach, now.certificates))
	}
}

// set notes a state that does not come from checks.
func (be *backend) set(state driver.Health, reason string) {
	be.mu.Lock()
	defer be.mu.Unlock()
	be.state, be.reason = state, reason
}

// allowed reports whether backends may be at an address.
func (b *Balancer) allowed(address netip.Addr) bool {
	address = address.Unmap()
	ranges := b.reach.Load().Ranges
	switch {
	case address.IsUnspecified() || address.IsMulticast() || address == b.Address:
		return false
	case ranges == nil:
		return !address.IsLinkLocalUnicast()
	}
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(address) })
}

// connect opens a connection to a backend, unless the region itself listens there.
func (b *Balancer) connect(ctx context.Context, address netip.Addr, number int) (*net.TCPConn, error) {
	for _, own := range b.reach.Load().Own {
		if int(own.Port()) == number && (own.Addr().IsUnspecified() || own.Addr().Unmap() == address.Unmap()) {
			return nil, errOwn
		}
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(address, uint16(number)).String())
	if err != nil {
		return nil, plain(err)
	}
	return conn.(*net.TCPConn), nil
}

var errOwn = errors.New("the region itself listens there")

// probe checks a backend once. Its error is for people.
func (b *Balancer) probe(ctx context.Context, how driver.HealthCheck, address netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, how.Timeout)
	defer cancel()
	opened, err := b.connect(ctx, address, how.Port)
	if err != nil {
		return fmt.Errorf("A connection to port %d fails: %w.", how.Port, err)
	}
	defer opened.Close()
	conn := net.Conn(opened)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if isTLS(how.Protocol) {
		secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // backends have certificates of their own making
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("The TLS handshake at port %d fails: %w.", how.Port, plain(err))
		}
		conn = secure
	}
	if how.Protocol != "HTTP" && how.Protocol != "HTTPS" {
		return nil
	}
	return getPage(ctx, conn, "http://"+netip.AddrPortFrom(address, uint16(how.Port)).String()+"/"+strings.TrimPrefix(how.Path, "/"), how.Port)
}

// getPage asks for a page over a connection of its own.
func getPage(ctx context.Context, conn net.Conn, url string, port int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("The path cannot be asked for: %w.", err)
	}
	request.Header.Set("User-Agent", "LBU-HealthChecker/1.0")
	client := http.Transport{
		DisableKeepAlives:      true,
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		MaxResponseHeaderBytes: 64 << 10,
	}
	response, err := client.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("A request to port %d fails: %w.", port, plain(err))
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // what it says does not matter
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("A request to port %d gets the status %d in place of 200.", port, response.StatusCode)
	}
	return nil
}
