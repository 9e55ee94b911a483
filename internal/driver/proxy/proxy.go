// Package proxy is a driver of load balancers that really balance: each is a child
// process of the same program, at an address of its own on this machine.
//
// A child gets its whole configuration over a socket in its directory. It outlives a
// restart and a kill of the region, goes on balancing meanwhile, and is found again
// by its socket. Private keys go over the socket and are in no file.
package proxy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/proxy/balance"
)

// Options configures a [Driver].
type Options struct {
	Dir       string       // has the sockets of load balancers, and access logs that are not published yet
	Addresses netip.Prefix // that load balancers get
	Reach     balance.Reach
	Command   []string // runs a [Process], whose directory comes last
	Env       []string // of that; nil: nothing
	Tied      bool     // load balancers end with this process, because no other one will find them

	Rand  io.Reader
	Now   func() time.Time                     // the machine's clock: traffic does not go by another one
	After func(time.Duration) <-chan time.Time // time.After by that clock
	Log   *slog.Logger
}

// The directories in Options.Dir.
const (
	childrenDir = "children"
	logsDir     = "logs"
)

// Driver implements [driver.Balancers].
type Driver struct {
	Options
	host driver.Host
	root *os.File // the directory of children

	running  context.Context // of what the driver does by itself, until end
	end      context.CancelFunc
	watching sync.WaitGroup
	failing  string // why an access log could not be published the last time; of publishAll only

	mu       sync.Mutex // guards what follows
	children map[place]*child
	names    map[string]*child // by DNS name, in lower case
}

// place is where a load balancer is kept.
type place struct{ account, id string }

var _ driver.Balancers = (*Driver)(nil)

// Open finds the load balancers that run, and publishes their access logs from now
// on.
func Open(ctx context.Context, o Options, host driver.Host) (*Driver, error) {
	d := &Driver{Options: o, host: host, children: map[place]*child{}, names: map[string]*child{}}
	for _, dir := range []string{childrenDir, logsDir} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if d.root, err = os.Open(filepath.Join(o.Dir, childrenDir)); err != nil {
		return nil, err
	}
	d.running, d.end = context.WithCancel(context.Background())
	found, err := os.ReadDir(d.root.Name())
	if err == nil {
		err = d.adopt(ctx, found)
	}
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("finding the load balancers that run: %w", err)
	}
	d.watching.Go(d.publishing)
	return d, nil
}

// adopt finds the children of these directories.
func (d *Driver) adopt(ctx context.Context, found []fs.DirEntry) error {
	var adopting sync.WaitGroup
	failures := make([]error, len(found))
	for i, dir := range found {
		text, err := os.ReadFile(filepath.Join(d.root.Name(), dir.Name(), nameFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was being made
		}
		var n name
		if err = cmp.Or(err, json.Unmarshal(text, &n)); err != nil {
			return err
		}
		c := newChild(d, n)
		d.children[place{n.Account, n.ID}] = c
		adopting.Go(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			failures[i] = c.adopt(ctx)
			if c.want != nil {
				d.index(c, c.want.Balancer.DnsName)
			}
		})
	}
	adopting.Wait()
	return errors.Join(failures...)
}

// Close ends what the driver does by itself. Load balancers go on, unless they are
// tied to this process.
func (d *Driver) Close() {
	d.mu.Lock()
	var tied []*child
	if d.Tied {
		for _, c := range d.children {
			tied = append(tied, c)
		}
	}
	d.mu.Unlock()
	var ending sync.WaitGroup
	for _, c := range tied {
		ending.Go(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			_ = c.remove(context.Background()) // one that does not end soon ends with this process
		})
	}
	ending.Wait()
	d.end()
	d.watching.Wait()
	if d.Tied {
		d.publishAll(context.Background())
	}
	_ = d.root.Close() // it was only read
}

// dirOf is the name of the directory of a load balancer, whose own name may be any
// text.
func dirOf(account, id string) string {
	sum := sha256.Sum256([]byte(account + "\x00" + id))
	return hex.EncodeToString(sum[:10])
}

// socketPath is a path to the socket of a directory. A path to a socket has about
// 100 characters at most, so that a longer one goes by the open directory.
func (d *Driver) socketPath(dir string) string {
	path := filepath.Join(d.root.Name(), dir, socketName)
	if len(path) <= 100 {
		return path
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s/%s", d.root.Fd(), dir, socketName)
}

// child returns the load balancer at a place, or makes one that has an address and
// no process.
func (d *Driver) child(account, id string) (*child, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := place{account, id}
	if c := d.children[at]; c != nil {
		return c, nil
	}
	address, err := d.freeAddress(account, id)
	if err != nil {
		return nil, err
	}
	c := newChild(d, name{account, id, address})
	d.children[at] = c
	return c, nil
}

// freeAddress chooses an address for a load balancer: the same as often as it can,
// so that one that comes back is where it was. The caller holds the mutex.
func (d *Driver) freeAddress(account, id string) (netip.Addr, error) {
	used := map[netip.Addr]bool{}
	for _, c := range d.children {
		used[c.name.Address] = true
	}
	bits := d.Addresses.Addr().BitLen() - d.Addresses.Bits()
	size := uint64(1) << min(bits, 32)
	// The first and the last address of a range mean something else to networks.
	first, count := uint64(0), size
	if size > 2 {
		first, count = 1, size-2
	}
	sum := sha256.Sum256([]byte(account + "\x00" + id))
	at := binary.BigEndian.Uint64(sum[:8]) % count
	for range min(count, uint64(len(used))+1) {
		address := nth(d.Addresses.Masked().Addr(), first+at)
		if !used[address] {
			return address, nil
		}
		at = (at + 1) % count
	}
	return netip.Addr{}, driver.NoCapacity{What: fmt.Sprintf("another load balancer: all %d addresses of %s are in use", count, d.Addresses)}
}

// nth is the address that comes so many after another one.
func nth(a netip.Addr, n uint64) netip.Addr {
	bytes := a.As16()
	low := binary.BigEndian.Uint64(bytes[8:]) + n
	binary.BigEndian.PutUint64(bytes[8:], low)
	next := netip.AddrFrom16(bytes)
	if a.Is4() {
		return next.Unmap()
	}
	return next
}

// index makes a DNS name lead to a load balancer, and no other name.
func (d *Driver) index(c *child, dnsName string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, other := range d.names {
		if other == c {
			delete(d.names, name)
		}
	}
	if dnsName != "" {
		d.names[strings.ToLower(dnsName)] = c
	}
}

// EnsureBalancer implements [driver.Balancers].
func (d *Driver) EnsureBalancer(ctx context.Context, b driver.Balancer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := balance.Check(b); err != nil {
		return err
	}
	c, err := d.child(b.Account, b.ID)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removing || c.gone {
		return driver.Later{At: d.host.Now().Add(time.Second)} // it ends, and comes back after that
	}
	if err := c.ensure(ctx, b); err != nil {
		return err
	}
	d.index(c, b.DnsName)
	return nil
}

// RemoveBalancer implements [driver.Balancers].
func (d *Driver) RemoveBalancer(ctx context.Context, account, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := place{account, id}
	d.mu.Lock()
	c := d.children[at]
	d.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.remove(ctx); err != nil {
		return err
	}
	d.index(c, "")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.children[at] == c {
		delete(d.children, at)
	}
	return nil
}

// ObserveBalancers implements [driver.Balancers].
func (d *Driver) ObserveBalancers(ctx context.Context) ([]driver.BalancerStatus, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	var all []*child
	for _, c := range d.children {
		all = append(all, c)
	}
	d.mu.Unlock()
	seen, failures := make([]driver.BalancerStatus, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	places := make(chan struct{}, 16)
	for i, c := range all {
		places <- struct{}{}
		asking.Go(func() {
			seen[i], failures[i] = c.observe(ctx)
			<-places
		})
	}
	asking.Wait()
	return seen, errors.Join(failures...)
}

// observe is the status of the load balancer, or only its name if its process does
// not run.
func (c *child) observe(ctx context.Context) (driver.BalancerStatus, error) {
	s, ok, err := c.status(ctx)
	if err != nil || ok {
		return s, err
	}
	return driver.BalancerStatus{
		Balancer: driver.Balancer{Account: c.name.Account, ID: c.name.ID}, Reason: "Its process does not run.",
	}, nil
}

// Balancer implements [driver.Balancers].
func (d *Driver) Balancer(ctx context.Context, account, id string) (status driver.BalancerStatus, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return status, false, err
	}
	d.mu.Lock()
	c := d.children[place{account, id}]
	d.mu.Unlock()
	if c == nil {
		return status, false, nil
	}
	status, err = c.observe(ctx)
	return status, err == nil, err
}

// ResolveBalancer implements [driver.Balancers].
func (d *Driver) ResolveBalancer(ctx context.Context, dnsName string) (netip.Addr, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.names[strings.ToLower(dnsName)]; c != nil {
		return c.name.Address, true, ctx.Err()
	}
	return netip.Addr{}, false, ctx.Err()
}
