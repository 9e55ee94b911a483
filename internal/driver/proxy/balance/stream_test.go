package balance

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// echoes is TCP servers at the same port that say their names and then repeat what
// they get, and whether they do over TLS.
func echoes(t *testing.T, config *tls.Config, names ...string) (backends []driver.Backend, port int) {
	t.Helper()
	for _, name := range names {
		address := newAddress()
		listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		port = listener.Addr().(*net.TCPAddr).Port
		t.Cleanup(func() { _ = listener.Close() })
		if config != nil {
			listener = tls.NewListener(listener, config)
		}
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					fmt.Fprintln(conn, name)
					_, _ = io.Copy(conn, conn)
					fmt.Fprintln(conn, "end of "+name)
				}()
			}
		}()
		backends = append(backends, driver.Backend{ID: name, Address: address})
	}
	return backends, port
}

// conversation says something over a connection, ends its own direction, and
// returns who is at the other end and what came back.
func conversation(t *testing.T, conn net.Conn, text []byte) (name string, back []byte) {
	t.Helper()
	reader := bufio.NewReader(conn)
	name = line(t, reader)
	go func() {
		_, _ = conn.Write(text)
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	back, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return name, back
}

// Connections go to the backends in turn, and end in each direction on their own.
func TestTCP(t *testing.T) {
	t.Parallel()
	backends, port := echoes(t, nil, "a", "b")
	s := balance(t, port)
	s.apply(func(b *driver.Balancer) {
		b.Backends = backends
		b.Listeners = []driver.Listener{{Port: 5432, Protocol: "TCP", BackendPort: port, BackendProtocol: "TCP",
			Rules: []driver.ListenerRule{{ID: "passed over", Priority: 1, Host: "*", Backends: []string{"a"}}}}}
	})
	s.healthy("a", "b")
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<14) // 256 KiB
	got := map[string]int{}
	for range 10 {
		name, back := conversation(t, dial(t, s.at(5432)), text)
		got[name]++
		if want := string(text) + "end of " + name + "\n"; string(back) != want {
			t.Errorf("%s returned %d bytes, want %d", name, len(back), len(want))
		}
	}
	if got["a"] != 5 || got["b"] != 5 {
		t.Errorf("of 10 connections %v, want 5 each", got)
	}
	eventually(t, "no connection is left", func() bool { return s.Status().Counters.Active == 0 })
	c := s.Status().Counters
	if c.Requests != 10 || c.Received != uint64(10*len(text)) || c.Sent <= c.Received {
		t.Errorf("the counters are %+v", c)
	}
}

// SSL ends at the load balancer, and may begin anew behind it.
func TestSSL(t *testing.T) {
	t.Parallel()
	authority := newAuthority()
	certificate := authority.sign(t, "one", "db.example.com")
	pair, err := tls.X509KeyPair(certificate.Chain, certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for behind, config := range map[string]*tls.Config{"TCP": nil, "SSL": {Certificates: []tls.Certificate{pair}}} {
		backends, port := echoes(t, config, "a")
		s := balance(t, port)
		s.apply(func(b *driver.Balancer) {
			b.Backends, b.Certificates = backends, []driver.Certificate{certificate}
			b.Listeners = []driver.Listener{{Port: 5433, Protocol: "SSL", BackendPort: port, BackendProtocol: behind, Certificate: "one"}}
		})
		s.healthy("a")
		conn, err := tls.Dial("tcp", s.at(5433), &tls.Config{RootCAs: authority.pool, ServerName: "db.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if name, back := conversation(t, conn, []byte("hello\n")); name != "a" || string(back) != "hello\nend of a\n" {
			t.Errorf("over SSL to %s, %s returns %q", behind, name, back)
		}
	}
}

// A connection on which nothing happens is cut, and one on which something does is
// not, be it in one direction only.
func TestIdleConnection(t *testing.T) {
	t.Parallel()
	backends, port := echoes(t, nil, "a")
	s := balance(t, port, func(o *Options) { o.Idle = 200 * time.Millisecond })
	s.apply(func(b *driver.Balancer) {
		b.Backends = backends
		b.Listeners = []driver.Listener{{Port: 5432, Protocol: "TCP", BackendPort: port, BackendProtocol: "TCP"}}
	})
	s.healthy("a")
	idle, busy := dial(t, s.at(5432)), dial(t, s.at(5432))
	reader := bufio.NewReader(busy)
	line(t, reader)
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		_, _ = io.Copy(io.Discard, idle)
	}()
	for done := false; !done; {
		fmt.Fprintln(busy, "tick")
		if got := line(t, reader); got != "tick" {
			t.Fatalf("a busy connection returns %q", got)
		}
		select {
		case <-cut:
			done = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	fmt.Fprintln(busy, "after")
	if got := line(t, reader); got != "after" {
		t.Errorf("once an idle connection was cut, a busy one returns %q", got)
	}
}

// Connections to a backend that is deregistered go on for a time, and new ones do
// not go there.
func TestDraining(t *testing.T) {
	t.Parallel()
	backends, port := echoes(t, nil, "a", "b")
	var later atomic.Int64 // than the machine's time
	s := balance(t, port, func(o *Options) {
		o.Idle, o.Drain = time.Hour, 5*time.Minute
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		o.After = func(d time.Duration) <-chan time.Time { return time.After(min(d, 5*time.Millisecond)) }
	})
	s.apply(func(b *driver.Balancer) {
		b.Backends = backends[:1]
		b.Listeners = []driver.Listener{{Port: 5432, Protocol: "TCP", BackendPort: port, BackendProtocol: "TCP"}}
	})
	s.healthy("a")
	old := dial(t, s.at(5432))
	reader := bufio.NewReader(old)
	line(t, reader)
	s.apply(func(b *driver.Balancer) { b.Backends = backends[1:] })
	s.healthy("b")
	if got := line(t, bufio.NewReader(dial(t, s.at(5432)))); got != "b" {
		t.Errorf("a new connection goes to %s", got)
	}
	fmt.Fprintln(old, "still")
	if got := line(t, reader); got != "still" {
		t.Errorf("an old connection returns %q", got)
	}
	later.Store(int64(5 * time.Minute))
	if text, err := reader.ReadString('\n'); err == nil {
		t.Errorf("after five minutes an old connection returns %q", text)
	}
}

// There are no more connections than there is room for, and a client that waits gets
// its own when another one ends.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	backends, port := echoes(t, nil, "a")
	s := balance(t, port, func(o *Options) { o.Connections = 2 })
	s.apply(func(b *driver.Balancer) {
		b.Backends = backends
		b.Listeners = []driver.Listener{{Port: 5432, Protocol: "TCP", BackendPort: port, BackendProtocol: "TCP"}}
	})
	s.healthy("a")
	first, second := dial(t, s.at(5432)), dial(t, s.at(5432))
	line(t, bufio.NewReader(first))
	line(t, bufio.NewReader(second))
	third := dial(t, s.at(5432)) // the kernel takes it
	if active := s.Status().Counters.Active; active != 2 {
		t.Errorf("%d connections are active, want 2", active)
	}
	_ = first.Close()
	if got := line(t, bufio.NewReader(third)); got != "a" {
		t.Errorf("the third connection gets %q", got)
	}
}

// Each client of UDP keeps its backend, and clients go to the backends in turn.
func TestUDP(t *testing.T) {
	t.Parallel()
	var backends []driver.Backend
	port := 0
	for _, name := range []string{"a", "b"} {
		address := newAddress()
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, uint16(port))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		port = conn.LocalAddr().(*net.UDPAddr).Port
		// The health check is of TCP.
		listener, err := net.Listen("tcp", netip.AddrPortFrom(address, uint16(port)).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			packet := make([]byte, 1500)
			for {
				n, from, err := conn.ReadFromUDPAddrPort(packet)
				if err != nil {
					return
				}
				_, _ = conn.WriteToUDPAddrPort(append([]byte(name+" "), packet[:n]...), from)
			}
		}()
		backends = append(backends, driver.Backend{ID: name, Address: address})
	}
	var later atomic.Int64 // than the machine's time
	s := balance(t, port, func(o *Options) {
		o.Connections, o.Idle = 4, time.Hour
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		o.After = func(d time.Duration) <-chan time.Time { return time.After(min(d, 5*time.Millisecond)) }
	})
	s.apply(func(b *driver.Balancer) {
		b.Backends = backends
		b.Listeners = []driver.Listener{{Port: 5353, Protocol: "UDP", BackendPort: port, BackendProtocol: "UDP"}}
	})
	s.healthy("a", "b")
	got := map[string]int{}
	for range 4 {
		client, err := net.Dial("udp", s.at(5353))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		own := ""
		for n := range 5 {
			fmt.Fprintf(client, "packet %d", n)
			packet := make([]byte, 1500)
			length, err := client.Read(packet)
			if err != nil {
				t.Fatal(err)
			}
			name, text, _ := bytes.Cut(packet[:length], []byte(" "))
			if own == "" {
				own = string(name)
				got[own]++
			}
			if string(name) != own || string(text) != fmt.Sprintf("packet %d", n) {
				t.Errorf("packet %d of a client of %s comes back from %s as %q", n, own, name, text)
			}
		}
	}
	if got["a"] != 2 || got["b"] != 2 {
		t.Errorf("of 4 clients %v, want 2 each", got)
	}
	// A fifth client has no room, until another one has been silent for too long.
	client, err := net.Dial("udp", s.at(5353))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fmt.Fprint(client, "one too many")
	eventually(t, "the packet is refused", func() bool { return s.Status().Counters.Errors == 1 })
	if c := s.Status().Counters; c.Requests != 5 || c.Active != 4 {
		t.Errorf("the counters are %+v", c)
	}
	later.Store(int64(time.Hour))
	eventually(t, "silent clients are forgotten", func() bool { return s.Status().Counters.Active == 0 })
	fmt.Fprint(client, "again")
	if n, err := client.Read(make([]byte, 1500)); n != len("a again") || err != nil {
		t.Errorf("%d bytes come back, %v", n, err)
	}
}
