package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/proxy/balance"
)

// setting is the whole configuration of a process.
type setting struct {
	Address  netip.Addr
	Region   string
	Logs     string // the directory where finished access logs are put
	Reach    balance.Reach
	Balancer driver.Balancer
}

// Process is what a child process runs: one load balancer, which is configured over a
// socket. It outlives the process that started it, and ends when it is asked to, when
// its directory is gone, or with its parent if it is tied to it.
type Process struct {
	Dir    string       // has its socket and its unfinished access log
	Listen net.Listener // the socket
	Tied   io.Reader    // ends when the process must end; nil: never

	Rand  io.Reader
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// socketName is the name of the socket in the directory of a process.
const socketName = "socket"

// grace bounds how long connections under way may go on when a load balancer ends.
const grace = 10 * time.Second

// Run runs the load balancer until it is asked to end, or the context ends.
func (p *Process) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := &serving{Process: p, end: end, life: ctx}
	server := &http.Server{Handler: s.routes(), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(p.Listen) }() // it ends when it is closed
	if p.Tied != nil {
		go func() {
			_, _ = io.Copy(io.Discard, p.Tied) // whatever ends it
			end()
		}()
	}
	p.waitForEnd(ctx)
	end()
	closing, done := context.WithTimeout(context.Background(), grace)
	defer done()
	err := s.close(closing)
	return errors.Join(err, server.Close())
}

// waitForEnd waits until the context ends or the socket is not in its directory any
// more.
func (p *Process) waitForEnd(ctx context.Context) {
	socket := filepath.Join(p.Dir, socketName)
	was, err := os.Lstat(socket)
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-p.After(5 * time.Second):
		}
		var is os.FileInfo
		if is, err = os.Lstat(socket); err == nil && !os.SameFile(was, is) {
			return
		}
	}
}

// serving is what a process is asked over its socket.
type serving struct {
	*Process
	end  context.CancelFunc
	life context.Context

	mu       sync.Mutex // guards what follows
	balancer *balance.Balancer
	setting  setting
	closed   bool
}

func (s *serving) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /setting", s.put)
	mux.HandleFunc("GET /setting", s.get)
	mux.HandleFunc("GET /status", s.status)
	mux.HandleFunc("DELETE /", func(http.ResponseWriter, *http.Request) { s.end() })
	mux.HandleFunc("GET /life", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		// It is cut when the process ends, and not before connections under way have.
		<-r.Context().Done()
	})
	return mux
}

// put makes the load balancer go by a setting.
func (s *serving) put(w http.ResponseWriter, r *http.Request) {
	var next setting
	if err := json.NewDecoder(r.Body).Decode(&next); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	err := s.apply(next)
	var never driver.Never
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, driver.ErrStale):
		w.WriteHeader(http.StatusConflict)
	case errors.As(err, &never):
		http.Error(w, never.Why, http.StatusUnprocessableEntity)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (s *serving) apply(next setting) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.life.Err() != nil {
		return errors.New("the load balancer is ending")
	}
	if s.balancer == nil {
		b, err := balance.New(balance.Options{
			Address: next.Address, Region: next.Region, Dir: s.Dir, Logs: next.Logs, Rand: s.Rand, Now: s.Now, After: s.After, Log: s.Log,
		})
		if err != nil {
			return err
		}
		s.balancer = b
	}
	if err := s.balancer.Apply(next.Balancer, next.Reach); err != nil {
		return err
	}
	s.setting = next
	return nil
}

func (s *serving) get(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.balancer == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(s.setting) // the region may have gone
}

func (s *serving) status(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	b := s.balancer
	s.mu.Unlock()
	if b == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(b.Status()) // the region may have gone
}

func (s *serving) close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.balancer == nil {
		return nil
	}
	if err := s.balancer.Close(ctx); err != nil {
		return fmt.Errorf("closing the load balancer: %w", err)
	}
	return nil
}

// Inherited is the socket that a child process gets from the one that started it.
func Inherited() (net.Listener, error) {
	file := os.NewFile(3, socketName) // after the standard ones
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("this process was not started by a region: %w", err)
	}
	return listener, nil
}
