package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bastide-cloud/bastide/internal/server"
	"github.com/bastide-cloud/bastide/internal/wire"
	"github.com/bastide-cloud/bastide/internal/wire/oapi"
)

// A pipeListener accepts the other ends of pipes, which have no room: what is
// written to them waits until it is read.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.done)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// dial is the client's end of a new connection.
func (l *pipeListener) dial() net.Conn {
	client, served := net.Pipe()
	l.conns <- served
	return client
}

// serveIn serves a handler in a bubble, until the test ends.
func serveIn(h http.Handler, change func(*http.Server)) (l *pipeListener, end func()) {
	l = newPipeListener()
	s := server.HTTP(h, time.Now)
	change(s)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(server.CutStalled(l, time.Now)) // it ends with the test
	}()
	return l, func() {
		_ = s.Close()
		<-ended
	}
}

var large = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(make([]byte, 1<<20))
})

// Clients that pipeline requests and read nothing are cut.
func TestClientsThatDoNotReadAreCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, end := serveIn(server.New(server.Options{OpenAPI: make([]byte, 600<<10)}), func(*http.Server) {})
		defer end()
		var clients []net.Conn
		for range 300 {
			c := l.dial()
			go func() {
				_, _ = io.WriteString(c, "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\nGET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
			}()
			clients = append(clients, c)
		}
		began := time.Now()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		for i, c := range clients {
			// What a connection that was cut has left is its end.
			if n, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Fatalf("client %d, which read nothing for %v, gets %d bytes and %v", i, time.Since(began), n, err)
			}
		}
	})
}

// A client that reads slowly gets all of a large answer, in more time than a
// deadline for the whole would give it.
func TestClientsThatReadSlowlyAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, end := serveIn(large, func(*http.Server) {})
		defer end()
		c := l.dial()
		go func() { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
		began, got := time.Now(), 0
		response, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		part := make([]byte, 32<<10)
		for {
			n, err := io.ReadFull(response.Body, part)
			if got += n; err != nil {
				break
			}
			time.Sleep(10 * time.Second)
		}
		if got != 1<<20 || time.Since(began) < time.Minute {
			t.Errorf("a slow client gets %d bytes in %v, want %d in minutes", got, time.Since(began), 1<<20)
		}
	})
}

// A client that reads one small answer and not the next is cut as well.
func TestClientsThatStopReadingAreCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, end := serveIn(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(*http.Server) {})
		defer end()
		client := l.dial()
		defer client.Close()
		ask := func() error {
			_, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: region\r\n\r\n")
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		if _, err := http.ReadResponse(bufio.NewReaderSize(client, 4096), nil); err != nil {
			t.Fatal(err)
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // by the bubble's clock
		if err := ask(); err == nil {
			t.Error("a client that does not read its second answer is served on")
		}
	})
}

// Clients of HTTP/2 stop single streams.
func TestStreamsThatAreNotReadAreCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/small" {
				return
			}
			_, err := w.Write(make([]byte, 32<<20)) // more than a client takes in before it is read
			ended <- err
		})
		var speak http.Protocols
		speak.SetUnencryptedHTTP2(true)
		l, end := serveIn(h, func(s *http.Server) { s.Protocols = &speak })
		defer end()
		transport := &http.Transport{
			Protocols:   &speak,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil },
		}
		defer transport.CloseIdleConnections()
		client := http.Client{Transport: transport}
		unread, err := client.Get("http://region/")
		if err != nil {
			t.Fatal(err)
		}
		defer unread.Body.Close()
		began := time.Now()
		if err := <-ended; err == nil || time.Since(began) < 29*time.Second || time.Since(began) > time.Minute {
			t.Errorf("a stream that is not read ends after %v with %v, want an error after 30s", time.Since(began), err)
		}
		small, err := client.Get("http://region/small")
		if err != nil {
			t.Fatalf("another stream of the connection: %v", err)
		}
		small.Body.Close()
	})
}

// waiting is a protocol whose calls last until their context ends.
type waiting struct {
	oapi.Protocol
	begun chan string
	ended chan error
}

func (p waiting) Decode(r *http.Request, body []byte) (wire.Call, error) {
	p.begun <- string(body)
	<-r.Context().Done()
	p.ended <- r.Context().Err()
	return p.Protocol.Decode(r, body)
}

// The work for a client that has hung up ends: net/http notices that once the
// body was read.
func TestHangingUpEndsTheCall(t *testing.T) {
	t.Parallel()
	o := openRegion(t).Handler.(*server.Server).Options
	calls := waiting{begun: make(chan string), ended: make(chan error)}
	o.Protocols = []wire.Protocol{calls}
	listening := httptest.NewServer(server.New(o))
	defer listening.Close()
	for name, request := range map[string]string{
		"a body of known length": "Content-Length: 2\r\n\r\n{}",
		"a body in chunks":       "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		c, err := net.Dial("tcp", listening.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST /api/v1/ReadNets HTTP/1.1\r\nHost: x\r\n"+request); err != nil {
			t.Fatal(err)
		}
		if body := <-calls.begun; body != "{}" {
			t.Errorf("%s: the call begins with the body %q", name, body)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-calls.ended; err != context.Canceled {
			t.Errorf("%s: the call ends with %v", name, err)
		}
	}
}

// The deadline of one answer is not that of another, long after.
func TestIdleConnectionsAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, end := serveIn(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(*http.Server) {})
		defer end()
		client := l.dial()
		defer client.Close()
		answers := bufio.NewReader(client)
		for _, idle := range []time.Duration{0, time.Second / 2, time.Minute} {
			time.Sleep(idle) // by the bubble's clock
			if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: region\r\n\r\n"); err != nil {
				t.Fatalf("after %s: %v", idle, err)
			}
			r, err := http.ReadResponse(answers, nil)
			if err != nil || r.StatusCode != http.StatusOK {
				t.Fatalf("after %s the answer is %v (%v)", idle, r, err)
			}
			_ = r.Body.Close()
		}
	})
}
