package server

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// HTTP returns the server for a listener, which should be a [CutStalled] one.
// It bounds the resources of slow or silent clients. now is the machine's
// clock, because network deadlines use it.
func HTTP(h http.Handler, now func() time.Time) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 {
				w = &streamWriter{w, http.NewResponseController(w), now}
			}
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

// A client must take in each writeChunk bytes of what it is sent within
// writeTime, or its connection ends. http.Server.WriteTimeout does not do: it
// bounds a whole answer, and a large one may take long to a client that reads.
const (
	writeChunk = 64 << 10
	writeTime  = 30 * time.Second
)

// deadlined is what is written to with a deadline.
type deadlined interface {
	SetWriteDeadline(time.Time) error
	Write([]byte) (int, error)
}

// writeInTime writes b in parts, each with a deadline of its own.
func writeInTime(to deadlined, b []byte, now func() time.Time) (n int, err error) {
	for {
		if err := to.SetWriteDeadline(now().Add(writeTime)); err != nil {
			return n, err
		}
		written, err := to.Write(b[n:min(n+writeChunk, len(b))])
		n += written
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// CutStalled returns a listener whose connections end when the client does not
// read what it is sent. TLS is layered on top of it. now is the machine's
// clock.
func CutStalled(l net.Listener, now func() time.Time) net.Listener {
	return cutting{l, now}
}

type cutting struct {
	net.Listener
	now func() time.Time
}

func (l cutting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cuttingConn{Conn: conn, now: l.now}, nil
}

type cuttingConn struct {
	net.Conn
	now func() time.Time
	set atomic.Int64 // when the deadline was set last, in Unix nanoseconds
}

// deadlineAge is how long a deadline does for other writes as well, because
// setting one costs a tenth of a write. A client is cut so much earlier.
const deadlineAge = time.Second

func (c *cuttingConn) Write(b []byte) (int, error) {
	now := c.now()
	if len(b) <= writeChunk && now.Sub(time.Unix(0, c.set.Load())) < deadlineAge {
		return c.Conn.Write(b)
	}
	c.set.Store(now.UnixNano())
	return writeInTime(c.Conn, b, c.now)
}

// SetWriteDeadline leaves the deadline as it is when net/http lifts it after an
// answer: the next write may rely on it.
func (c *cuttingConn) SetWriteDeadline(at time.Time) error {
	if at.IsZero() {
		return nil
	}
	c.set.Store(0)
	return c.Conn.SetWriteDeadline(at)
}

// CloseWrite is what net/http asks of a connection so that the last answer
// arrives although the client still sends.
func (c *cuttingConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// A streamWriter writes to a stream of HTTP/2. A client that reads nothing from
// a stream stops that stream and not its connection, where nothing is written
// then, so streams have deadlines of their own.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
}

func (w *streamWriter) Write(b []byte) (int, error) {
	return writeInTime(stream{w}, b, w.now)
}

// stream is what a streamWriter writes to.
type stream struct{ *streamWriter }

func (s stream) SetWriteDeadline(at time.Time) error { return s.control.SetWriteDeadline(at) }
func (s stream) Write(b []byte) (int, error)         { return s.ResponseWriter.Write(b) }

// Unwrap is for [http.ResponseController].
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
