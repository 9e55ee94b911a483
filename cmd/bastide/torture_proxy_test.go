package main

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// proxy stands between nodes and their database. It can lose answers: the
// database has then done what it was told, and the node cannot know. To end the
// database's process hardly ever does that.
type proxy struct {
	network, address string // of the database

	mu    sync.Mutex // guards links
	links map[*link]bool
}

// link is a connection through the proxy.
type link struct{ losing atomic.Bool }

// throughProxy is the URL of the database by way of a new proxy.
func throughProxy(t *testing.T, database string) (string, *proxy) {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{links: map[*link]bool{}}
	p.network, p.address = pgconn.NetworkAddress(config.Host, config.Port)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	q := u.Query()
	q.Del("host")
	q.Del("port")
	u.Host, u.RawQuery = l.Addr().String(), q.Encode()
	return u.String(), p
}

func (p *proxy) serve(node net.Conn) {
	defer node.Close()
	database, err := net.Dial(p.network, p.address)
	if err != nil {
		return
	}
	defer database.Close()
	l := &link{}
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	go func() {
		pass(database, node, func() bool { return false })
		_ = database.Close()
	}()
	pass(node, database, l.losing.Load)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// pass hands on what comes, until it is to be lost.
func pass(to, from net.Conn, lose func() bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || lose() {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// loseAnswers loses the next answer on every connection, and with it the
// connection.
func (p *proxy) loseAnswers() (links int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.losing.Store(true)
	}
	return len(p.links)
}
