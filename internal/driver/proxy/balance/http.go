package balance

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds how long a backend may take to accept a connection.
const dialTimeout = 5 * time.Second

// maxTries bounds how many backends are tried for a request or a connection, when
// they do not accept connections.
const maxTries = 3

func tlsServer(c net.Conn, l *listener) *tls.Conn { return tls.Server(c, l.tls) }

// newProxy makes what forwards HTTP, and what has the connections to backends,
// which changes of the configuration do not touch.
func (b *Balancer) newProxy() (*http.Transport, *httputil.ReverseProxy) {
	transport := &http.Transport{
		DialContext: b.dial,
		// Certificates of backends are of their own making.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, TLSHandshakeTimeout: dialTimeout,
		DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: b.Idle, MaxResponseHeaderBytes: 1 << 20,
		ExpectContinueTimeout: time.Second,
	}
	return transport, &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: spread{transport}, ModifyResponse: modify, ErrorHandler: fail, BufferPool: &buffers{},
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// unreachable is the error of a connection to a backend that was not accepted: the
// backend has received nothing.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

// dial opens a connection to a backend, which ends when it is silent for too long.
func (b *Balancer) dial(ctx context.Context, _, at string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(at)
	if err != nil {
		return nil, err
	}
	conn, err := b.connect(ctx, to.Addr(), int(to.Port()))
	if err != nil {
		return nil, unreachable{err}
	}
	c := &lively{Conn: conn, b: b}
	c.touch(b.Now())
	return c, nil
}

// lively is a connection that ends when nothing is sent or received for too long.
type lively struct {
	net.Conn
	b *Balancer

	mu   sync.Mutex // guards last
	last time.Time
}

// touch puts the end off.
func (c *lively) touch(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.last) >= min(time.Second, c.b.Idle/8) {
		c.last = now
		_ = c.SetDeadline(now.Add(c.b.Idle)) // one that is closed needs none
	}
}

func (c *lively) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.touch(c.b.Now())
	}
	return n, err
}

func (c *lively) Write(p []byte) (int, error) {
	c.touch(c.b.Now())
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.touch(c.b.Now())
	}
	return n, err
}

// handler forwards the requests that come to a port.
type handler struct {
	b  *Balancer
	at port
}

// exchange is a request under way, and its response.
type exchange struct {
	http.ResponseWriter
	b        *Balancer
	listener *listener
	request  *http.Request
	control  *http.ResponseController
	cancel   context.CancelFunc
	start    time.Time

	pool    *pool
	session *backend // that the client sticks to; nil: none
	backend *backend // that the request went to last; nil: to none yet
	work    *work    // there

	sent, answered time.Time // when it was forwarded, and when the header of the response came; zero: not
	backendStatus  int       // 0: none came
	status         int       // that the client gets; 0: none yet
	written        int64     // bytes of the response's body
	deadline       time.Time // by which the client must have taken something
	failed         bool      // by the load balancer or for want of a backend

	read  atomic.Int64 // bytes of the request's body, which may be read until the exchange ends
	limit time.Time    // by which the client must have sent something
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// ServeHTTP implements [http.Handler].
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l := h.b.current.Load().listeners[h.at]
	if l == nil || !l.isHTTP() {
		// The listener went while the connection waited for a request.
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.Method == http.MethodConnect {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	x := &exchange{ResponseWriter: w, b: h.b, listener: l, control: http.NewResponseController(w), cancel: cancel, start: h.b.Now()}
	x.request = r.WithContext(context.WithValue(ctx, exchangeKey{}, x))
	x.pool = l.poolFor(r)
	x.session = x.stickyBackend()
	if r.Body != nil && r.Body != http.NoBody {
		x.request.Body = &requestBody{r.Body, x}
	}
	x.extendWriting()
	defer x.finish() // also when the proxy panics, which ends the connection
	h.b.proxy.ServeHTTP(x, x.request)
}

// finish counts and logs the exchange.
func (x *exchange) finish() {
	if x.work != nil {
		x.b.done(x.work)
	}
	c := &x.b.counters
	now := x.b.Now()
	c.requests.Add(1)
	if x.failed {
		c.errors.Add(1)
	}
	c.received.Add(uint64(x.read.Load()))
	c.sent.Add(uint64(x.written))
	c.took(now.Sub(x.start))
	x.b.log.request(x, now)
}

// rewrite makes the request that the backend gets. The host and what is asked for
// stay as the client sent them.
func rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In.Context())
	p.Out.URL.Scheme, p.Out.URL.Host = "http", "backend" // which is chosen later
	proto := "http"
	if x.listener.BackendProtocol == "HTTPS" {
		p.Out.URL.Scheme = "https"
	}
	if x.listener.tls != nil {
		proto = "https"
	}
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Host = p.In.Host
	host, _, _ := net.SplitHostPort(p.In.RemoteAddr)
	for _, before := range slices.Backward(p.In.Header["X-Forwarded-For"]) {
		host = before + ", " + host
	}
	p.Out.Header["X-Forwarded-For"] = []string{host}
	p.Out.Header["X-Forwarded-Proto"] = []string{proto}
	p.Out.Header["X-Forwarded-Port"] = []string{strconv.Itoa(x.listener.Port)}
}

var errNoBackend = errors.New("no backend is healthy")

// spread sends each request to the backend whose turn it is, and to the next one
// if that does not accept the connection.
type spread struct{ transport *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (s spread) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	var tried []*backend
	err := error(errNoBackend)
	for range maxTries {
		be := x.session
		if be == nil || slices.Contains(tried, be) {
			be = x.pool.next(tried)
		}
		if be == nil {
			return nil, err
		}
		tried = append(tried, be)
		x.backend, x.sent = be, x.b.Now()
		attempt := *r
		url := *r.URL
		url.Host = be.at(x.listener.BackendPort)
		attempt.URL = &url
		if r.Body != nil && r.Body != http.NoBody {
			attempt.Body = io.NopCloser(r.Body) // a backend that cannot be reached must not close it
		}
		var response *http.Response
		x.work = x.b.begin(be, x.cancel)
		if response, err = s.transport.RoundTrip(&attempt); err == nil {
			return response, nil
		}
		x.b.done(x.work)
		if _, ok := errors.AsType[unreachable](err); !ok {
			return nil, err
		}
	}
	return nil, err
}

// at is the address of a port of the backend.
func (be *backend) at(port int) string {
	return netip.AddrPortFrom(be.address, uint16(port)).String()
}

// modify makes of the backend's response the client's.
func modify(r *http.Response) error {
	x := exchangeOf(r.Request.Context())
	x.answered, x.backendStatus = x.b.Now(), r.StatusCode
	x.stick(r.Header)
	return nil
}

// fail is the response for want of a backend's.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	if r.Context().Err() != nil {
		return // the client has gone
	}
	x.failed = true
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errNoBackend):
		w.WriteHeader(http.StatusServiceUnavailable)
	case ok && timeout.Timeout():
		w.WriteHeader(http.StatusGatewayTimeout)
	default:
		w.WriteHeader(http.StatusBadGateway)
	}
}

// Unwrap is for [http.ResponseController].
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (x *exchange) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		x.status = status
	}
	x.extendWriting()
	x.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	x.extendWriting()
	n, err := x.ResponseWriter.Write(p)
	x.written += int64(n)
	return n, err
}

// extendWriting puts off the time by which the client must take what it is sent.
func (x *exchange) extendWriting() {
	if until := x.b.Now().Add(x.b.Idle); until.Sub(x.deadline) >= min(time.Second, x.b.Idle/8) {
		x.deadline = until
		_ = x.control.SetWriteDeadline(until) // a connection that has ended needs none
	}
}

// requestBody is what a client sends. It must not be silent for too long.
type requestBody struct {
	io.ReadCloser
	x *exchange
}

// Read implements [io.Reader].
func (b *requestBody) Read(p []byte) (int, error) {
	x := b.x
	if until := x.b.Now().Add(x.b.Idle); until.Sub(x.limit) >= min(time.Second, x.b.Idle/8) {
		x.limit = until
		_ = x.control.SetReadDeadline(until) // a connection that has ended needs none
	}
	n, err := b.ReadCloser.Read(p)
	x.read.Add(int64(n))
	if err == io.EOF {
		// A client that has sent all may wait for the response for as long as that takes.
		_ = x.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// buffers are those that bodies are copied with.
type buffers struct{ pool sync.Pool }

// Get implements [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

// Put implements [httputil.BufferPool].
func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }
