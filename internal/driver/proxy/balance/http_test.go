package balance

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// web is a listener of HTTP at port 8080.
func web(f *farm) driver.Listener {
	return driver.Listener{Port: 8080, Protocol: "HTTP", BackendPort: f.port, BackendProtocol: "HTTP"}
}

// Requests go to the healthy backends in turn, as many to each.
func TestRoundRobin(t *testing.T) {
	t.Parallel()
	f := raise(t, nil, "a", "b", "c")
	s := balance(t, f.port)
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{web(f)}, f.all })
	s.healthy("a", "b", "c")
	url := "http://" + s.at(8080)
	for name, n := range spreadOf(t, url, 30) {
		if n != 10 {
			t.Errorf("of 30 requests %s got %d, want 10", name, n)
		}
	}
	s.apply(func(b *driver.Balancer) { b.Backends = f.with("a", "c") })
	if got := spreadOf(t, url, 30); got["a"] != 15 || got["c"] != 15 {
		t.Errorf("of 30 requests %v, want 15 each for a and c", got)
	}
	c := s.Status().Counters
	if c.Requests != 60 || c.Errors != 0 || c.Sent == 0 || sum(c.Latency) != 60 || c.Elapsed == 0 {
		t.Errorf("after 60 requests the counters are %+v", c)
	}
}

func sum(counts []uint64) (total uint64) {
	for _, n := range counts {
		total += n
	}
	return total
}

// A backend that stops to listen fails as many checks as it takes, and is healthy
// again after as many that succeed. Meanwhile no request fails: one that it does
// not accept goes to the next one.
func TestHealthTransitions(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	f := raise(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" && broken.Load() && w.Header().Get("Backend") == "b" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		_, _ = io.WriteString(w, w.Header().Get("Backend"))
	}), "a", "b")
	s := balance(t, f.port)
	s.value.HealthCheck.Protocol, s.value.HealthCheck.Path = "HTTP", "/health"
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{web(f)}, f.all })
	s.healthy("a", "b")
	broken.Store(true)
	s.healthy("a")
	for _, h := range s.Status().Health {
		if h.ID == "b" && (h.State != driver.HealthFailing || !strings.Contains(h.Reason, "418")) {
			t.Errorf("a backend whose checks get 418 is %+v", h)
		}
	}
	if got := spreadOf(t, "http://"+s.at(8080), 10); got["a"] != 10 {
		t.Errorf("while b is failing, %v", got)
	}
	broken.Store(false)
	s.healthy("a", "b")

	f.servers["b"].Listener.Close()
	f.servers["b"].CloseClientConnections()
	if got := spreadOf(t, "http://"+s.at(8080), 20); got["a"] != 20 {
		t.Errorf("right after b has stopped to listen, %v", got)
	}
	s.healthy("a")
	s.apply(func(b *driver.Balancer) { b.Backends = f.with("b") })
	response, _ := ask(t, newClient(t), "http://"+s.at(8080))
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without a healthy backend the status is %d, want 503", response.StatusCode)
	}
	if c := s.Status().Counters; c.Errors != 1 {
		t.Errorf("after one request without a backend, %d errors are counted", c.Errors)
	}
}

// A request that a backend does not accept goes to the next one with all that the
// client sends, whatever its method.
func TestBodyIsSentOnce(t *testing.T) {
	t.Parallel()
	f := raise(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Method, " ", n, " ", err)
	}), "a", "b")
	s := balance(t, f.port)
	s.value.HealthCheck.Interval = time.Hour // so that the second one stays healthy
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{web(f)}, f.all })
	s.healthy("a", "b")
	f.servers["b"].Listener.Close()
	f.servers["b"].CloseClientConnections()
	client := newClient(t)
	for range 6 {
		response, err := client.Post("http://"+s.at(8080), "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if want := "POST 1048576 <nil>"; err != nil || string(body) != want {
			t.Errorf("the backend gets %q, want %q: %v", body, want, err)
		}
	}
	if c := s.Status().Counters; c.Errors != 0 || c.Received != 6<<20 {
		t.Errorf("the counters are %+v", c)
	}
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	how := driver.HealthCheck{Healthy: 3, Unhealthy: 2}
	fails := fmt.Errorf("It fails.")
	be := &backend{state: driver.HealthPending}
	for i, step := range []struct {
		err  error
		want driver.Health
	}{
		{fails, driver.HealthPending}, {nil, driver.Healthy}, {fails, driver.Healthy}, {nil, driver.Healthy}, {fails, driver.Healthy},
		{fails, driver.HealthFailing}, {nil, driver.HealthFailing}, {nil, driver.HealthFailing}, {fails, driver.HealthFailing},
		{nil, driver.HealthFailing}, {nil, driver.HealthFailing}, {nil, driver.Healthy},
	} {
		was := be.state
		if changed := be.checked(how, step.err); be.state != step.want || changed != (was != be.state) {
			t.Errorf("check %d makes of %s a backend that is %s, want %s", i, was, be.state, step.want)
		}
	}
	never := &backend{state: driver.HealthPending}
	never.checked(how, fails)
	never.checked(how, fails)
	if never.state != driver.HealthFailing || never.reason != fails.Error() {
		t.Errorf("a new backend that failed twice is %s: %s", never.state, never.reason)
	}
}

// Checks of all protocols find what listens, and what does not.
func TestChecks(t *testing.T) {
	t.Parallel()
	plain := raise(t, nil, "a")
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	securePort := secure.Listener.Addr().(*net.TCPAddr).Port
	for _, c := range []struct {
		protocol string
		port     int
		host     string
		ok       bool
	}{
		{"TCP", plain.port, plain.all[0].Address.String(), true},
		{"HTTP", plain.port, plain.all[0].Address.String(), true},
		{"SSL", plain.port, plain.all[0].Address.String(), false},
		{"HTTPS", plain.port, plain.all[0].Address.String(), false},
		{"SSL", securePort, "127.0.0.1", true},
		{"HTTPS", securePort, "127.0.0.1", true},
		{"HTTP", securePort, "127.0.0.1", false},
		{"TCP", 1, plain.all[0].Address.String(), false},
	} {
		s := balance(t, c.port)
		s.value.HealthCheck.Protocol = c.protocol
		address := addr(c.host)
		s.apply(func(b *driver.Balancer) { b.Backends = []driver.Backend{{ID: "x", Address: address}} })
		eventually(t, "a check", func() bool { return s.Status().Health[0].State != driver.HealthPending })
		if h := s.Status().Health[0]; (h.State == driver.Healthy) != c.ok {
			t.Errorf("%s at a port of %s: %+v", c.protocol, c.host, h)
		}
	}
}

// What the region keeps to itself is never reached, whatever an account names.
func TestReach(t *testing.T) {
	t.Parallel()
	f := raise(t, nil, "a")
	at := f.all[0].Address.String()
	for name, c := range map[string]struct {
		address string
		reach   Reach
		want    string
	}{
		"an address of a link": {"169.254.169.254", Reach{}, "forwards nothing to 169.254.169.254"},
		"no address":           {"0.0.0.0", Reach{}, "forwards nothing"},
		"no address at all":    {"0.0.0.0", Reach{Ranges: prefixes("0.0.0.0/0")}, "forwards nothing"},
		"beside the ranges":    {at, Reach{Ranges: prefixes("10.0.0.0/8")}, "forwards nothing"},
		"the region itself":    {at, Reach{Own: ports(at, f.port)}, "the region itself listens there"},
		"wherever it listens":  {at, Reach{Own: ports("0.0.0.0", f.port)}, "the region itself listens there"},
		"inside the ranges":    {at, Reach{Ranges: prefixes("127.0.0.0/8")}, ""},
	} {
		s := balance(t, f.port)
		s.value.Generation = 1
		s.value.Listeners = []driver.Listener{web(f)}
		s.value.Backends = []driver.Backend{{ID: "x", Address: addr(c.address)}}
		if err := s.Apply(s.value, c.reach); err != nil {
			t.Fatal(err)
		}
		want := driver.HealthFailing
		if c.want == "" {
			want = driver.Healthy
		}
		eventually(t, name, func() bool { return s.Status().Health[0].State == want })
		if h := s.Status().Health[0]; !strings.Contains(h.Reason, c.want) {
			t.Errorf("%s: %q, want %q", name, h.Reason, c.want)
		}
	}
}

// A port that needs a privilege is explained with the settings that help.
func TestExplain(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"Port 80 of 127.0.0.1 cannot be opened, because the process may not open ports below 1024: allow it with the capability " +
			"cap_net_bind_service (setcap cap_net_bind_service=+ep on the program) or with the setting " +
			"net.ipv4.ip_unprivileged_port_start=0 of sysctl.": &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)},
		"Port 80 of 127.0.0.1 cannot be opened: bind: address already in use.": &net.OpError{
			Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE),
		},
	} {
		if got := explain(addr("127.0.0.1"), 80, err); got != want {
			t.Errorf("%v is explained by %q, want %q", err, got, want)
		}
	}
}

// A load balancer does not forward to itself.
func TestNoLoop(t *testing.T) {
	t.Parallel()
	s := balance(t, 8080)
	s.apply(func(b *driver.Balancer) {
		b.Listeners = []driver.Listener{{Port: 8080, Protocol: "HTTP", BackendPort: 8080, BackendProtocol: "HTTP"}}
		b.Backends = []driver.Backend{{ID: "itself", Address: s.Address}}
	})
	if h := s.Status().Health[0]; h.State != driver.HealthFailing || !strings.Contains(h.Reason, "forwards nothing to "+s.Address.String()) {
		t.Errorf("a load balancer behind itself is %+v", h)
	}
}

// A change under load fails no request: rules, backends, the health check, cookies
// and listeners change while four clients send 10,000 requests.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	f := raise(t, nil, "a", "b", "c")
	s := balance(t, f.port)
	authority := newAuthority()
	certificates := []driver.Certificate{authority.sign(t, "one", "web.example.com"), authority.sign(t, "two", "web.example.com")}
	secure := driver.Listener{Port: 8443, Protocol: "HTTPS", BackendPort: f.port, BackendProtocol: "HTTP", Certificate: "one"}
	s.apply(func(b *driver.Balancer) {
		b.Listeners, b.Backends, b.Certificates = []driver.Listener{web(f), secure}, f.all, certificates
	})
	s.healthy("a", "b", "c")

	const requests, clients = 10_000, 4
	changes := make(chan int, requests) // which request brings each
	var sent atomic.Int64
	var load sync.WaitGroup
	for range clients {
		transport := authority.transport()
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		load.Go(func() {
			for n := sent.Add(1); n <= requests; n = sent.Add(1) {
				if n%20 == 0 {
					changes <- int(n / 20)
				}
				url := "http://" + s.at(8080) + "/shop/" + fmt.Sprint(n)
				if n%8 == 0 {
					url = "https://" + s.at(8443)
				}
				response, err := client.Get(url)
				if err != nil {
					t.Errorf("request %d: %v", n, err)
					return
				}
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("request %d: %d, %v", n, response.StatusCode, err)
				}
			}
		})
	}
	go func() {
		load.Wait()
		close(changes)
	}()
	for n := range changes {
		s.apply(func(b *driver.Balancer) {
			l, secured := web(f), secure
			if n%2 == 0 {
				b.Backends = f.with("a", "b")
				l.Rules = []driver.ListenerRule{{ID: "1", Priority: 1, Path: "/shop/*", Backends: []string{"a"}}}
				l.Stickiness = &driver.Stickiness{}
				secured.Certificate = "two"
				b.HealthCheck.Interval = 7 * time.Millisecond
			} else {
				b.Backends = f.all
				b.HealthCheck.Interval = 5 * time.Millisecond
			}
			b.Listeners = []driver.Listener{l, secured}
			if n%3 == 0 {
				b.Listeners = append(b.Listeners, driver.Listener{Port: 8090, Protocol: "TCP", BackendPort: f.port, BackendProtocol: "TCP"})
			}
		})
	}
}

// What the backend gets says who asks and how, and what the client said of that
// stays.
func TestForwardedHeaders(t *testing.T) {
	t.Parallel()
	f := raise(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		fmt.Fprintln(w, r.Host, r.RequestURI, h["X-Forwarded-For"], h["X-Forwarded-Proto"], h["X-Forwarded-Port"], h["User-Agent"], h["X-Secret"])
	}), "a")
	s := balance(t, f.port)
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{web(f)}, f.all })
	s.healthy("a")
	got := get(t, newClient(t), "http://"+s.at(8080)+"/a%2Fb;c?q=1;2&%zz", func(r *http.Request) {
		r.Host = "shop.example.com"
		r.Header = http.Header{
			"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "User-Agent": {"test"},
			"Connection": {"X-Forwarded-For, X-Secret"}, "X-Secret": {"1"},
		}
	})
	if want := "shop.example.com /a%2Fb;c?q=1;2&%zz [192.0.2.1, 127.0.0.1] [http] [8080] [test] []\n"; got != want {
		t.Errorf("the backend gets %q, want %q", got, want)
	}
}

// A request that says in two ways how long it is cannot hide another one.
func TestNoSmuggling(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	f := raise(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d %q", r.Method, r.URL.Path, r.ContentLength, body)
	}), "a")
	s := balance(t, f.port)
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{web(f)}, f.all })
	s.healthy("a")
	for name, c := range map[string]struct{ request, status string }{
		"a length and chunks": {"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		"two lengths":       {"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400"},
		"odd chunks":        {"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501"},
		"a space in a name": {"GET /x HTTP/1.1\r\nHost : a\r\n\r\n", "400"},
		"a connection":      {"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", "405"},
	} {
		before := asked.Load()
		conn := dial(t, s.at(8080))
		if _, err := io.WriteString(conn, c.request); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, _ := io.ReadAll(response.Body)
		if c.status == "" {
			// Chunks count, and what follows them is a request of its own by the client's own hand.
			if !strings.Contains(string(body), `POST /x -1 ""`) && !strings.Contains(string(body), `POST /x 0 ""`) {
				t.Errorf("%s: the backend got %s", name, body)
			}
			continue
		}
		if !strings.HasPrefix(response.Status, c.status) || asked.Load() != before {
			t.Errorf("%s: %s, and the backend got %d requests", name, response.Status, asked.Load()-before)
		}
	}
}

// The certificate is the listener's, for Go's client and for curl, with HTTP/2.
func TestTLS(t *testing.T) {
	t.Parallel()
	f := raise(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto"), " ", r.Header.Get("X-Forwarded-Port"))
	}), "a")
	s := balance(t, f.port)
	authority := newAuthority()
	one, two := authority.sign(t, "one", "web.example.com"), authority.sign(t, "two", "web.example.com")
	listener := driver.Listener{Port: 8443, Protocol: "HTTPS", BackendPort: f.port, BackendProtocol: "HTTP", Certificate: "one"}
	s.apply(func(b *driver.Balancer) {
		b.Listeners, b.Backends, b.Certificates = []driver.Listener{listener}, f.all, []driver.Certificate{one, two}
	})
	s.healthy("a")
	asks := func(want string) {
		t.Helper()
		transport := authority.transport()
		defer transport.CloseIdleConnections()
		response, body := ask(t, &http.Client{Transport: transport}, "https://"+s.at(8443))
		if got := response.TLS.PeerCertificates[0].Subject.CommonName; got != want || response.ProtoMajor != 2 || body != "https 8443" {
			t.Errorf("the certificate is %s, want %s; %s; %s", got, want, response.Proto, body)
		}
	}
	asks("one")
	listener.Certificate = "two"
	s.apply(func(b *driver.Balancer) { b.Listeners = []driver.Listener{listener} })
	asks("two")

	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, authority.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), curl, "--silent", "--show-error", "--noproxy", "*", "--cacert", file,
		"--resolve", "web.example.com:8443:"+s.Address.String(), "https://web.example.com:8443/").CombinedOutput()
	if err != nil || string(out) != "https 8443" {
		t.Errorf("curl: %v: %s", err, out)
	}
	if out, err = exec.CommandContext(t.Context(), curl, "--silent", "--noproxy", "*", "--cacert", file,
		"--resolve", "other.example.com:8443:"+s.Address.String(), "https://other.example.com:8443/").CombinedOutput(); err == nil {
		t.Errorf("curl trusts the certificate for another name: %s", out)
	}
}

// A certificate that does not match its key changes nothing.
func TestBadCertificate(t *testing.T) {
	t.Parallel()
	f := raise(t, nil, "a")
	s := balance(t, f.port)
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{web(f)}, f.all })
	s.healthy("a")
	one, two := newAuthority().sign(t, "one", "a"), newAuthority().sign(t, "two", "a")
	one.PrivateKey = two.PrivateKey
	bad := s.value
	bad.Generation++
	bad.Certificates = []driver.Certificate{one}
	bad.Listeners = nil
	if _, refused := s.Apply(bad, Reach{}).(driver.Never); !refused {
		t.Error("a key of another certificate is taken")
	}
	if got := spreadOf(t, "http://"+s.at(8080), 1); got["a"] != 1 || s.Value().Generation != s.value.Generation {
		t.Error("what was refused has changed something")
	}
	if strings.Contains(fmt.Sprint(s.Status()), string(one.PrivateKey)) {
		t.Error("the status has a private key")
	}
}

// A connection that becomes another protocol's, such as WebSocket, is joined both
// ways.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	f := raise(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			text, err := buffered.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, strings.ToUpper(text))
		}
	}), "a")
	s := balance(t, f.port)
	// Plain requests get the status 400, so that only connections are checked.
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{web(f)}, f.all })
	s.healthy("a")
	conn := dial(t, s.at(8080))
	asked := "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
	if _, err := io.WriteString(conn, asked); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", response, err)
	}
	for _, text := range []string{"hello", "again"} {
		fmt.Fprintln(conn, text)
		if got := line(t, reader); got != strings.ToUpper(text) {
			t.Errorf("%s is returned as %q", text, got)
		}
	}
	// A change of the configuration does not cut it.
	s.apply(func(b *driver.Balancer) { b.Backends = nil })
	fmt.Fprintln(conn, "still")
	if got := line(t, reader); got != "STILL" {
		t.Errorf("after the backend was deregistered: %q", got)
	}
}

// Requests are streamed in both directions at once.
func TestStreaming(t *testing.T) {
	t.Parallel()
	f := raise(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, strings.ToUpper(lines.Text()))
			_ = control.Flush()
		}
	}), "a")
	s := balance(t, f.port)
	authority := newAuthority()
	s.apply(func(b *driver.Balancer) {
		b.Listeners = []driver.Listener{{Port: 8443, Protocol: "HTTPS", BackendPort: f.port, BackendProtocol: "HTTP", Certificate: "one"}}
		b.Backends, b.Certificates = f.all, []driver.Certificate{authority.sign(t, "one", "web.example.com")}
	})
	s.healthy("a")
	transport := authority.transport()
	defer transport.CloseIdleConnections()
	body, send := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.at(8443), body)
	if err != nil {
		t.Fatal(err)
	}
	go fmt.Fprintln(send, "hello")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	if got := line(t, reader); got != "HELLO" {
		t.Errorf("the first line is %q", got)
	}
	fmt.Fprintln(send, "again")
	if got := line(t, reader); got != "AGAIN" {
		t.Errorf("the second line is %q", got)
	}
	_ = send.Close()
}

// A backend that says nothing for too long is given up with the status 504, and
// one that ends without a response with 502.
func TestIdleBackend(t *testing.T) {
	t.Parallel()
	f := raise(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	}), "a")
	s := balance(t, f.port, func(o *Options) { o.Idle = 60 * time.Millisecond })
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{web(f)}, f.all })
	s.healthy("a")
	for path, want := range map[string]int{"/wait": http.StatusGatewayTimeout, "/end": http.StatusBadGateway} {
		if response, _ := ask(t, newClient(t), "http://"+s.at(8080)+path); response.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, response.StatusCode, want)
		}
	}
	// So is a client that does not send what it has announced.
	conn := dial(t, s.at(8080))
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost")
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("a client that is silent gets %v, want the end", err)
	}
}
