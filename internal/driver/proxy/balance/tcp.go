package balance

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// halfCloser is a connection of which one direction can be ended.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// chunk is how many bytes are forwarded before that is noted.
const chunk = 64 << 10

// forward joins a connection of TCP or SSL to a backend until both have ended it.
func (b *Balancer) forward(c *client, l *listener) {
	defer c.Close()
	start := b.Now()
	b.counters.requests.Add(1)
	session := &session{client: c.RemoteAddr(), listener: l, start: start}
	defer func() { b.log.connection(session, b.Now()) }()

	ctx, cancel := context.WithTimeout(b.running, max(dialTimeout, b.Idle))
	defer cancel()
	// A connection that needs no encryption is forwarded inside the kernel.
	var front halfCloser = c.TCPConn
	if l.tls != nil {
		secure := tls.Server(c.TCPConn, l.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return
		}
		state := secure.ConnectionState()
		session.tls, front = &state, secure
	}
	be, back := b.connectNext(ctx, l)
	if back == nil {
		b.counters.errors.Add(1)
		session.failed = true
		return
	}
	defer back.Close()
	session.backend, session.sent = be, b.Now()
	var once sync.Once
	end := func() {
		once.Do(func() {
			_ = c.TCPConn.Close()
			_ = back.Close()
		})
	}
	w := b.begin(be, end)
	defer b.done(w)
	w.active.Store(b.Now().UnixNano())
	var both sync.WaitGroup
	both.Go(func() { b.pump(back, front, w, end, &session.read, &b.counters.received) })
	b.pump(front, back, w, end, &session.written, &b.counters.sent)
	both.Wait()
}

// connectNext connects to the backend whose turn it is, or to the next one that accepts
// the connection.
func (b *Balancer) connectNext(ctx context.Context, l *listener) (*backend, halfCloser) {
	var tried []*backend
	for range maxTries {
		be := l.all.next(tried)
		if be == nil {
			return nil, nil
		}
		tried = append(tried, be)
		conn, err := b.connect(ctx, be.address, l.BackendPort)
		if err != nil {
			continue
		}
		if l.BackendProtocol != "SSL" {
			return be, conn
		}
		secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // backends have certificates of their own making
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			continue
		}
		return be, secure
	}
	return nil, nil
}

// pump forwards one direction until it ends. An error ends both.
func (b *Balancer) pump(to, from halfCloser, w *work, end func(), count *int64, total *atomic.Uint64) {
	for {
		// What is read slowly must be noted now and then, lest it looks idle.
		_ = from.SetReadDeadline(b.Now().Add(b.Idle / 2))
		n, err := io.CopyN(to, from, chunk)
		if n > 0 {
			*count += n
			total.Add(uint64(n))
			w.active.Store(b.Now().UnixNano())
		}
		switch {
		case err == nil || errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, io.EOF):
			if to.CloseWrite() != nil {
				end()
			}
			return
		default:
			end()
			return
		}
	}
}

// session is a connection of TCP or SSL, for the access log.
type session struct {
	client        net.Addr
	listener      *listener
	backend       *backend // nil: none could be reached
	tls           *tls.ConnectionState
	start, sent   time.Time
	read, written int64
	failed        bool
}
