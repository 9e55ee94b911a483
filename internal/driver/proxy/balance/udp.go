package balance

import (
	"errors"
	"net"
	"net/netip"
	"sync"
)

// associations are the clients of a UDP socket, each with a backend.
type associations struct {
	mu sync.Mutex // guards of
	of map[netip.AddrPort]*association
}

// association is a client of UDP: what it sends goes to one backend as long as it
// is not silent for too long.
type association struct {
	backend *backend
	conn    *net.UDPConn
	work    *work
}

// maxPacket is the size of the largest packet of UDP, in bytes.
const maxPacket = 64 << 10

// receive forwards what clients send, until the socket is closed.
func (s *socket) receive() {
	packet := make([]byte, maxPacket)
	for {
		n, from, err := s.udp.ReadFromUDPAddrPort(packet)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // what a client's host says of an earlier packet
		}
		s.b.counters.received.Add(uint64(n))
		l := s.b.current.Load().listeners[s.at]
		if l == nil {
			continue
		}
		if a := s.associate(from, l); a != nil {
			a.work.active.Store(s.b.Now().UnixNano())
			_, _ = a.conn.Write(packet[:n]) // a packet may be lost
		}
	}
}

// associate returns the association of a client, or makes one; nil: there is no
// backend, or there are too many clients. One whose backend is not healthy any
// more is made anew.
func (s *socket) associate(from netip.AddrPort, l *listener) *association {
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	a := s.clients.of[from]
	if a != nil && l.all.has(a.backend) {
		return a
	}
	if a != nil {
		_ = a.conn.Close() // which ends it
		delete(s.clients.of, from)
	}
	s.b.counters.requests.Add(1)
	be := l.all.next(nil)
	if be == nil {
		s.b.counters.errors.Add(1)
		return nil
	}
	select {
	case s.b.slots <- struct{}{}:
	default:
		s.b.counters.errors.Add(1)
		return nil
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(be.address, uint16(l.BackendPort))))
	if err != nil {
		<-s.b.slots
		s.b.counters.errors.Add(1)
		return nil
	}
	s.b.counters.active.Add(1)
	a = &association{backend: be, conn: conn}
	a.work = s.b.begin(be, func() { _ = conn.Close() })
	s.clients.of[from] = a
	s.wait.Go(func() { s.forwardBack(a, from) })
	return a
}

// forwardBack forwards what the backend of an association sends, until it ends.
func (s *socket) forwardBack(a *association, to netip.AddrPort) {
	packet := make([]byte, maxPacket)
	for {
		n, err := a.conn.Read(packet)
		if err != nil {
			break // it was closed, or the backend does not listen
		}
		a.work.active.Store(s.b.Now().UnixNano())
		s.b.counters.sent.Add(uint64(n))
		_, _ = s.udp.WriteToUDPAddrPort(packet[:n], to) // a packet may be lost
	}
	_ = a.conn.Close()
	s.b.done(a.work)
	s.clients.mu.Lock()
	if s.clients.of[to] == a {
		delete(s.clients.of, to)
	}
	s.clients.mu.Unlock()
	s.b.counters.active.Add(-1)
	<-s.b.slots
}

// end ends all associations.
func (c *associations) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.of {
		_ = a.conn.Close()
	}
}
