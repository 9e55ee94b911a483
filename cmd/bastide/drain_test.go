package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bastide-cloud/bastide/internal/server"
)

// oneConn is a listener that accepts one end of a pipe, and then nothing.
type oneConn struct {
	conn chan net.Conn
	done chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l oneConn) Close() error {
	close(l.done)
	return nil
}

func (l oneConn) Addr() net.Addr { return &net.UnixAddr{} }

// Calls have ten seconds to end after SIGTERM. Then their work is told to end,
// and then clients that do not read are cut, so that the program always ends.
func TestCallsEndAfterTheDrain(t *testing.T) {
	t.Parallel()
	const unread = "an answer that is not read"
	for _, test := range []struct {
		name  string
		call  http.HandlerFunc
		whole bool
		took  time.Duration
	}{
		{"a call that ends", func(http.ResponseWriter, *http.Request) { <-time.After(9 * time.Second) }, true, 9 * time.Second},
		{"a call that ends with its context", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false, drain},
		{unread, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }, false, drain + lastCall},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, served := net.Pipe()
				l := oneConn{make(chan net.Conn, 1), make(chan struct{})}
				l.conn <- served
				calls, endCalls := context.WithCancel(context.Background())
				defer endCalls()
				s := server.HTTP(test.call, time.Now)
				s.BaseContext = func(net.Listener) context.Context { return calls }
				ended := make(chan error)
				go func() { ended <- serving(s.Serve(l)) }()
				if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if test.name != unread {
					go func() { _, _ = io.Copy(io.Discard, client) }()
				}
				synctest.Wait()
				began := time.Now()
				whole := shutDown([]*http.Server{s}, endCalls)
				// Shutdown looks for idle connections at most half a second late.
				if took := time.Since(began); whole != test.whole || took < test.took || took > test.took+500*time.Millisecond {
					t.Errorf("it ends after %v, all calls ended: %v; want %v, %v", took, whole, test.took, test.whole)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
