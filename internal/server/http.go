package server

import (
	"net"
	"net/http"
	"time"
)

// HTTP makes the server of a listener, which should be one of [CutStalled]. It
// bounds what a slow or silent client can hold. now is the time of the machine,
// as deadlines of the network are.
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

// writeInTime writes b in parts, each with a deadline of its own.
func writeInTime(b []byte, now func() time.Time, setDeadline func(time.Time) error, write func([]byte) (int, error)) (n int, err error) {
	for {
		if err := setDeadline(now().Add(writeTime)); err != nil {
			return n, err
		}
		written, err := write(b[n:min(n+writeChunk, len(b))])
		n += written
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// CutStalled makes a listener whose connections end when the client does not
// read what it is sent. TLS comes on top of it. now is the time of the machine.
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
	return &cuttingConn{conn, l.now}, nil
}

type cuttingConn struct {
	net.Conn
	now func() time.Time
}

func (c *cuttingConn) Write(b []byte) (int, error) {
	return writeInTime(b, c.now, c.SetWriteDeadline, c.Conn.Write)
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
	return writeInTime(b, w.now, w.control.SetWriteDeadline, w.ResponseWriter.Write)
}

// Unwrap is for [http.ResponseController].
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
