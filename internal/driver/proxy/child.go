package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/proxy/balance"
)

// child is a load balancer of the driver, and the process that runs it.
type child struct {
	d    *Driver
	name name
	dir  string       // the name of its directory, below the driver's
	http *http.Client // speaks to its process

	mu       sync.Mutex    // guards what follows; taken before the driver's mutex
	want     *setting      // what its process was sent last; nil: unknown
	life     chan struct{} // closed when its process has ended; nil: there is none
	removing bool
	gone     bool // it was removed
}

// name is what a child is known by, which its directory has in a file.
type name struct {
	Account, ID string
	Address     netip.Addr
}

// nameFile has the name of a child, so that it keeps its address when its process
// was killed.
const nameFile = "name.json"

func newChild(d *Driver, n name) *child {
	c := &child{d: d, name: n, dir: dirOf(n.Account, n.ID)}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.socketPath(c.dir))
	}
	c.http = &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConns: 2}}
	return c
}

func (c *child) path() string { return filepath.Join(c.d.Dir, childrenDir, c.dir) }

// ask sends a request to the process, and returns the status and the body.
func (c *child) ask(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://balancer"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// patience bounds how long a process may take to respond.
const patience = 10 * time.Second

// adopt finds a process that outlived its region, and sends it where the region says
// now that backends may be. The caller holds the mutex.
func (c *child) adopt(ctx context.Context) error {
	status, text, err := c.ask(ctx, http.MethodGet, "/setting", nil)
	switch {
	case hasEnded(err):
		return nil
	case err != nil:
		return err
	case status == http.StatusNotFound:
		c.watch() // it was started and sent nothing
		return nil
	}
	var sent setting
	if err := json.Unmarshal(text, &sent); err != nil {
		return fmt.Errorf("reading what the load balancer %s was sent: %w", c.name.ID, err)
	}
	c.want = &sent
	c.watch()
	next := sent
	next.Reach = c.d.Reach
	return c.send(ctx, next)
}

// hasEnded reports whether an error says that there is no process at a socket any
// more. One that ends just now may still take a connection.
func hasEnded(err error) bool {
	for _, ended := range []error{fs.ErrNotExist, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF} {
		if errors.Is(err, ended) {
			return true
		}
	}
	return false
}

// ensure makes the process go by a value, and starts it if there is none. The
// caller holds the mutex.
func (c *child) ensure(ctx context.Context, b driver.Balancer) error {
	if c.life == nil {
		if c.want != nil && c.want.Balancer.Generation > b.Generation {
			return driver.ErrStale
		}
		if err := c.start(); err != nil {
			return fmt.Errorf("starting the load balancer %s: %w", b.ID, err)
		}
	}
	return c.send(ctx, setting{
		Address: c.name.Address, Region: c.d.host.Region, Logs: filepath.Join(c.d.Dir, logsDir), Reach: c.d.Reach, Balancer: b,
	})
}

// send makes the process go by a setting. The caller holds the mutex.
func (c *child) send(ctx context.Context, s setting) error {
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	status, text, err := c.ask(ctx, http.MethodPut, "/setting", body)
	switch {
	case err != nil:
		return fmt.Errorf("configuring the load balancer %s: %w", c.name.ID, err)
	case status == http.StatusConflict:
		return driver.ErrStale
	case status == http.StatusUnprocessableEntity:
		return driver.Never{Why: strings.TrimSpace(string(text))}
	case status != http.StatusNoContent:
		return fmt.Errorf("configuring the load balancer %s: %s", c.name.ID, text)
	}
	c.want = &s
	return nil
}

// status asks the process how it is doing; ok is false if it does not say.
func (c *child) status(ctx context.Context) (s driver.BalancerStatus, ok bool, err error) {
	status, text, err := c.ask(ctx, http.MethodGet, "/status", nil)
	if ctx.Err() != nil {
		return s, false, ctx.Err()
	}
	if err != nil || status != http.StatusOK {
		return s, false, nil
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, false, fmt.Errorf("reading the status of the load balancer %s: %w", c.name.ID, err)
	}
	return s, true, nil
}

// start starts the process, with nothing in its environment: it needs nothing, and
// the region's has secrets. The caller holds the mutex.
func (c *child) start() (err error) {
	if err := os.MkdirAll(c.path(), 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(c.name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.path(), nameFile), text, 0o600); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(c.path(), socketName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The socket is open before the process runs, so that it need not be waited for.
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.d.socketPath(c.dir), Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	said, err := os.Create(filepath.Join(c.path(), "log"))
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := exec.Command(c.d.Command[0], append(c.d.Command[1:len(c.d.Command):len(c.d.Command)], c.path())...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = append([]string{}, c.d.Env...), said, said, []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what is typed at the region's terminal does not end it
	if c.d.Tied {
		if _, err := cmd.StdinPipe(); err != nil { // open until this process ends
			return err
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // how it ended is in its log
	c.watch()
	return nil
}

// watch notes when the process ends, and starts it again if it was not to. The
// caller holds the mutex.
func (c *child) watch() {
	life := make(chan struct{})
	c.life = life
	c.d.watching.Go(func() {
		c.live()
		close(life)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.life = nil
		c.http.CloseIdleConnections()
		if c.removing || c.want == nil || c.d.running.Err() != nil {
			return
		}
		c.d.Log.Error("a load balancer has ended by itself: it is started again", "account", c.name.Account, "balancer", c.name.ID)
		again := *c.want
		c.d.watching.Go(func() { c.revive(again) })
	})
}

// live returns when the process has ended, or when the driver does.
func (c *child) live() {
	request, err := http.NewRequestWithContext(c.d.running, http.MethodGet, "http://balancer/life", nil)
	if err != nil {
		return
	}
	response, err := c.http.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // it says nothing before it ends
}

// revive starts the process again, with a backoff, until that succeeds or another call
// has.
func (c *child) revive(last setting) {
	for {
		c.mu.Lock()
		if c.life != nil || c.removing || c.gone {
			c.mu.Unlock()
			return
		}
		err := c.ensure(c.d.running, last.Balancer)
		c.mu.Unlock()
		if err == nil || c.d.running.Err() != nil {
			return
		}
		c.d.Log.Error("a load balancer cannot be started again", "account", c.name.Account, "balancer", c.name.ID, "error", err)
		select {
		case <-c.d.running.Done():
			return
		case <-c.d.After(5 * time.Second):
		}
	}
}

// remove ends the process and removes what it has left. The caller holds the mutex,
// which is given back while the process ends.
func (c *child) remove(ctx context.Context) error {
	if life := c.life; life != nil {
		c.removing = true
		if _, _, err := c.ask(ctx, http.MethodDelete, "/", nil); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		c.mu.Unlock()
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		ended := false
		select {
		case <-life:
			ended = true
		case <-soon.Done():
		}
		c.mu.Lock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !ended:
			return driver.Later{At: c.d.host.Now().Add(time.Second)}
		case c.gone:
			return nil
		}
	}
	if err := balance.Finish(c.path(), filepath.Join(c.d.Dir, logsDir), c.d.Rand, c.d.Now()); err != nil {
		return err
	}
	if err := os.RemoveAll(c.path()); err != nil {
		return err
	}
	c.gone = true
	return nil
}
