// Package balance is a load balancer in one process: it listens at an address,
// forwards what comes to the backends that it finds healthy, and logs it.
//
// All that it goes by is one immutable value behind an atomic pointer. A change
// swaps the pointer: what is under way ends by the value it began with, and
// sockets that stay are not touched, so that no connection is cut and no request
// fails.
package balance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// Options configures a [Balancer].
type Options struct {
	Address netip.Addr // where it listens
	Region  string     // the name of the region, for the names of access logs
	Dir     string     // where the access log is written
	Logs    string     // where finished access logs are put, so that they are published; on the same disk
	Rand    io.Reader  // for the names of access logs
	Now     func() time.Time
	After   func(time.Duration) <-chan time.Time // when health is checked, and what is idle is looked for
	Log     *slog.Logger

	Idle        time.Duration // how long a connection may be silent; 0: a minute
	Drain       time.Duration // how long connections to a backend may go on that is not one any more; 0: 5 minutes
	Connections int           // how many connections of clients there may be at once, and clients of UDP; 0: 10000
}

// Reach is where backends may be.
type Reach struct {
	Ranges []netip.Prefix   // nil: all that is not special, such as addresses of links
	Own    []netip.AddrPort // where the region itself listens, and no backend may be
}

// Balancer is a load balancer that runs.
type Balancer struct {
	Options

	current   atomic.Pointer[config]
	reach     atomic.Pointer[Reach]
	proxy     *httputil.ReverseProxy
	transport *http.Transport
	slots     chan struct{} // has room for connections of clients
	counters  counters
	log       *accessLog

	running context.Context // of health checks and of tick, until end
	end     context.CancelFunc
	wait    sync.WaitGroup // for them

	mu       sync.Mutex // guards what follows, and changes of current
	sockets  map[port]*socket
	backends map[backendKey]*backend
	turns    map[turnKey]*atomic.Uint64
	works    map[*work]bool // connections and requests under way
}

// New starts a load balancer that listens to nothing yet.
func New(o Options) (*Balancer, error) {
	if o.Idle == 0 {
		o.Idle = time.Minute
	}
	if o.Drain == 0 {
		o.Drain = 5 * time.Minute
	}
	if o.Connections == 0 {
		o.Connections = 10_000
	}
	b := &Balancer{
		Options: o, slots: make(chan struct{}, o.Connections),
		sockets: map[port]*socket{}, backends: map[backendKey]*backend{}, turns: map[turnKey]*atomic.Uint64{}, works: map[*work]bool{},
	}
	var err error
	if b.log, err = openAccessLog(b.Options); err != nil {
		return nil, err
	}
	b.transport, b.proxy = b.newProxy()
	b.current.Store(&config{})
	b.running, b.end = context.WithCancel(context.Background())
	b.wait.Go(b.ticks)
	return b, nil
}

// Apply makes the load balancer go by a value. It refuses one that is older than
// the one it goes by with [driver.ErrStale], and one that cannot be, because a
// certificate does not match its key, with [driver.Never].
func (b *Balancer) Apply(v driver.Balancer, reach Reach) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.current.Load()
	if was.value.Generation > v.Generation {
		return driver.ErrStale
	}
	certificates, err := parseCertificates(v)
	if err != nil {
		return err
	}
	b.reach.Store(&reach)
	b.takeBackends(v, was.value.HealthCheck != v.HealthCheck || !reflect.DeepEqual(was.reach, reach))
	b.current.Store(b.compile(v, reach, certificates))
	b.log.use(v)
	b.openSockets()
	return nil
}

// Value is the value that the load balancer goes by, with private keys.
func (b *Balancer) Value() driver.Balancer { return b.current.Load().value }

// Status is how the load balancer is doing.
func (b *Balancer) Status() driver.BalancerStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.current.Load()
	s := driver.BalancerStatus{Balancer: now.value, Address: b.Address, Counters: b.counters.read()}
	s.Certificates = nil
	for _, c := range now.value.Certificates {
		c.PrivateKey = nil
		s.Certificates = append(s.Certificates, c)
	}
	for _, be := range now.backends {
		s.Health = append(s.Health, be.status())
	}
	for _, l := range now.value.Listeners {
		if socket := b.sockets[portOf(l)]; socket != nil && socket.failure != nil {
			s.Reason = strings.TrimSpace(s.Reason + " " + explain(b.Address, l.Port, socket.failure))
		}
	}
	return s
}

// Close stops listening, waits for what is under way until the context ends, then
// cuts it, and leaves the access log ready to be published.
func (b *Balancer) Close(ctx context.Context) error {
	b.mu.Lock()
	var closing sync.WaitGroup
	for at, s := range b.sockets {
		s.stop()
		closing.Go(func() { s.close(ctx) })
		delete(b.sockets, at)
	}
	b.mu.Unlock()
	closing.Wait()
	for b.busy() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-b.After(20 * time.Millisecond):
		}
	}
	b.end()
	b.wait.Wait()
	b.mu.Lock()
	for w := range b.works {
		w.end()
	}
	b.mu.Unlock()
	b.transport.CloseIdleConnections()
	return b.log.close()
}

func (b *Balancer) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.works) > 0
}

// port is where a socket is open.
type port struct {
	number int
	udp    bool
}

func portOf(l driver.Listener) port { return port{l.Port, l.Protocol == "UDP"} }

// openSockets opens those that listeners need and are not open, and closes the
// others. The caller holds the mutex.
func (b *Balancer) openSockets() {
	listeners := b.current.Load().listeners
	for at, s := range b.sockets {
		if listeners[at] == nil {
			delete(b.sockets, at)
			s.stop()
			b.wait.Go(func() { s.close(b.running) })
		}
	}
	for at := range listeners {
		s := b.sockets[at]
		if s != nil && s.failure == nil {
			continue
		}
		opened, err := b.open(at)
		if err != nil && (s == nil || s.failure.Error() != err.Error()) {
			v := b.Value()
			b.Log.Error("a listener cannot be opened", "account", v.Account, "balancer", v.Name, "reason", explain(b.Address, at.number, err))
		}
		if err != nil {
			opened = &socket{b: b, at: at, failure: err}
		}
		b.sockets[at] = opened
	}
}

// retry opens the sockets that could not be opened before.
func (b *Balancer) retry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sockets {
		if s.failure != nil {
			b.openSockets()
			return
		}
	}
}

// explain says why a socket cannot be opened, and what helps.
func explain(address netip.Addr, number int, err error) string {
	said := fmt.Sprintf("Port %d of %s cannot be opened", number, address)
	if errors.Is(err, errPermission) {
		return said + ", because the process may not open ports below 1024: allow it with the capability cap_net_bind_service " +
			"(setcap cap_net_bind_service=+ep on the program) or with the setting net.ipv4.ip_unprivileged_port_start=0 of sysctl."
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return said + ": " + err.Error() + "."
}

// work is a connection or a request under way to a backend.
type work struct {
	backend *backend
	active  atomic.Int64 // when something was last sent or received, in nanoseconds since 1970; 0: it ends by itself when it is idle
	end     func()
}

// begin notes that something is under way.
func (b *Balancer) begin(be *backend, end func()) *work {
	w := &work{backend: be, end: end}
	b.mu.Lock()
	b.works[w] = true
	b.mu.Unlock()
	return w
}

func (b *Balancer) done(w *work) {
	b.mu.Lock()
	delete(b.works, w)
	b.mu.Unlock()
}

// ticks does the periodic work, until the balancer ends.
func (b *Balancer) ticks() {
	every := min(time.Second, b.Idle/4)
	for n := 1; ; n++ {
		select {
		case <-b.running.Done():
			return
		case <-b.After(every):
		}
		if err := b.log.tick(b.Now()); err != nil {
			b.Log.Error("the access log cannot be written", "error", err)
		}
		b.cutIdle()
		if n%5 == 0 {
			b.retry()
		}
	}
}

// cutIdle ends what has been silent for too long, and what still goes to backends
// that have been drained for long enough.
func (b *Balancer) cutIdle() {
	now := b.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.works {
		active := w.active.Load()
		idle := active != 0 && now.Sub(time.Unix(0, active)) >= b.Idle
		if idle || w.backend.drainedFor(now) >= b.Drain {
			w.end()
		}
	}
}
