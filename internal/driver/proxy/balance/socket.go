package balance

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

var errPermission = fs.ErrPermission

// plain is an error without the addresses that package net puts before it.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// socket is where the load balancer listens. What it does with a connection is
// said by the listener that has its port when the connection comes.
type socket struct {
	b       *Balancer
	at      port
	failure error // why it cannot be opened; then it has nothing else

	tcp    net.Listener
	web    *http.Server
	feed   *feed // connections for web
	udp    *net.UDPConn
	ending chan struct{} // closed when the socket stops listening
	wait   sync.WaitGroup

	clients associations // of udp
}

// open opens a socket.
func (b *Balancer) open(at port) (*socket, error) {
	s := &socket{b: b, at: at, ending: make(chan struct{})}
	where := netip.AddrPortFrom(b.Address, uint16(at.number))
	if at.udp {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(where))
		if err != nil {
			return nil, err
		}
		s.udp = conn
		s.clients.of = map[netip.AddrPort]*association{}
		s.wait.Go(s.receive)
		return s, nil
	}
	listening, err := net.Listen("tcp", where.String())
	if err != nil {
		return nil, err
	}
	s.tcp = listening
	s.feed = &feed{conns: make(chan net.Conn), closed: make(chan struct{}), at: listening.Addr()}
	s.web = &http.Server{
		Handler:           handler{b, at},
		ReadHeaderTimeout: b.Idle, IdleTimeout: b.Idle, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), // clients could fill any log with what they send
	}
	s.wait.Go(func() { _ = s.web.Serve(s.feed) }) // it ends when it is shut down
	s.wait.Go(s.accept)
	return s, nil
}

// maxHeader bounds the header of a request, in bytes.
const maxHeader = 64 << 10

// stop stops listening: another socket may have the port from now on.
func (s *socket) stop() {
	if s.failure != nil {
		return
	}
	close(s.ending)
	if s.udp != nil {
		_ = s.udp.Close() // nothing is lost with it
		return
	}
	_ = s.tcp.Close() // nothing is lost with it
}

// close ends what a stopped socket has begun: HTTP requests under way have until the
// context ends. Connections of TCP and SSL go on.
func (s *socket) close(ctx context.Context) {
	switch {
	case s.failure != nil:
		return
	case s.udp != nil:
		s.clients.end()
	case s.web.Shutdown(ctx) != nil:
		_ = s.web.Close() // what a connection says when it is cut adds nothing
	}
	s.wait.Wait()
}

// accept takes connections until the socket is closed.
func (s *socket) accept() {
	for {
		conn, err := s.tcp.Accept()
		if err != nil {
			select {
			case <-s.ending:
				return
			case <-s.b.After(50 * time.Millisecond): // too many files are open, most likely
				continue
			}
		}
		select {
		case s.b.slots <- struct{}{}:
		case <-s.ending:
			_ = conn.Close()
			return
		}
		s.b.counters.active.Add(1)
		go s.serve(&client{TCPConn: conn.(*net.TCPConn), b: s.b})
	}
}

// serve does with a connection what the listener says.
func (s *socket) serve(c *client) {
	l := s.b.current.Load().listeners[s.at]
	switch {
	case l == nil:
		_ = c.Close()
	case l.Protocol == "HTTP":
		s.feed.give(c)
	case l.Protocol == "HTTPS":
		s.feed.give(tlsServer(c, l))
	default:
		s.b.forward(c, l)
	}
}

// client is a connection of a client, which has a slot until it is closed.
type client struct {
	*net.TCPConn
	b    *Balancer
	once sync.Once
}

// Close implements [net.Conn].
func (c *client) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() {
		c.b.counters.active.Add(-1)
		<-c.b.slots
	})
	return err
}

// feed hands connections to an HTTP server.
type feed struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
	at     net.Addr
}

func (f *feed) give(c net.Conn) {
	select {
	case f.conns <- c:
	case <-f.closed:
		_ = c.Close()
	}
}

// Accept implements [net.Listener].
func (f *feed) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (f *feed) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// Addr implements [net.Listener].
func (f *feed) Addr() net.Addr { return f.at }
