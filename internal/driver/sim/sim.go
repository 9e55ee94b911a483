// Package sim is the simulation: a driver in memory, which is the default
// driver and the driver of tests. It applies changes at once or after a delay,
// and injects failures, slowness and lack of capacity on request. It loses
// everything when the process ends, and therefore accepts values that refer to
// others that it does not have.
//
// Nothing happens by itself outside of the region or inside of its machines:
// the clients' ends of tunnels do not respond before [Driver.ConnectTunnel],
// and guests run until [Driver.ShutDownGuest].
package sim

import (
	"context"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// Driver implements the interfaces of package driver.
type Driver struct {
	// Write must be set before the driver is used; if it is nil, all exports
	// fail.
	Write driver.ExportWriter

	// After is [time.After] by the driver's clock. It bounds how long a call
	// waits for a file that is being written; if it is nil, the call waits
	// until its context ends.
	After func(time.Duration) <-chan time.Time

	now   func() time.Time
	delay time.Duration

	background context.Context // of background work
	end        func()
	writing    sync.WaitGroup
	writers    chan struct{} // a semaphore of maxWrites

	mu         sync.Mutex // guards the fields below
	fail       func(op string) error
	slow       func(op string) time.Duration
	nets       items[driver.Net]
	groups     items[driver.PublicGroup]
	tunnels    items[driver.Tunnel]
	clients    map[place]client
	interfaces items[driver.Interface]
	cables     map[place]*cable
	machines   items[driver.Machine]
	guests     map[place]*guest
	rooms      []Room
	watchers   map[*watcher]bool
	disks      items[driver.Disk]
	snapshots  items[driver.Snapshot]
	exports    items[driver.Export]
	writes     map[place]*write
	broken     map[string]string // why snapshots and exports fail, by ID
	balancers  items[driver.Balancer]
	health     func(account, balancer string, backend driver.Backend) driver.BackendHealth
}

// Start returns a constructor for a region's options: it makes a simulation in
// which each change takes the delay, which may be 0.
func Start(delay time.Duration) func(driver.Host) driver.Drivers {
	return func(h driver.Host) driver.Drivers {
		drv := New(h.Now, delay)
		drv.Write, drv.After = h.Write, h.After
		return drv
	}
}

// New returns an empty driver in which each change takes the delay by the given
// clock.
func New(now func() time.Time, delay time.Duration) *Driver {
	drv := &Driver{
		now: now, delay: delay,
		clients: map[place]client{}, cables: map[place]*cable{}, guests: map[place]*guest{}, watchers: map[*watcher]bool{},
		writes: map[place]*write{}, broken: map[string]string{}, writers: make(chan struct{}, maxWrites),
	}
	drv.background, drv.end = context.WithCancel(context.Background())
	drv.nets = newItems(drv, "Net", ownNet, func(at place) driver.Net {
		return driver.Net{Account: at.account, ID: at.id}
	})
	drv.groups = newItems(drv, "Group", ownGroup, func(at place) driver.PublicGroup {
		return driver.PublicGroup{Account: at.account, ID: at.id}
	})
	drv.tunnels = newItems(drv, "Tunnel", ownTunnel, func(at place) driver.Tunnel {
		return driver.Tunnel{Account: at.account, ID: at.id}
	})
	drv.interfaces = newItems(drv, "Interface", ownInterface, func(at place) driver.Interface {
		return driver.Interface{Account: at.account, ID: at.id}
	})
	drv.machines = newItems(drv, "Machine", ownMachine, func(at place) driver.Machine {
		return driver.Machine{Account: at.account, ID: at.id}
	})
	drv.machines.refuse, drv.machines.blocked, drv.machines.onChange = drv.noRoom, drv.resists, drv.power
	drv.disks = newItems(drv, "Disk", ownDisk, func(at place) driver.Disk {
		return driver.Disk{Account: at.account, ID: at.id}
	})
	drv.snapshots = newItems(drv, "Snapshot", ownSnapshot, func(at place) driver.Snapshot {
		return driver.Snapshot{Account: at.account, ID: at.id}
	})
	drv.exports = newItems(drv, "Export", func(e driver.Export) driver.Export { return e }, func(at place) driver.Export {
		return driver.Export{Account: at.account, ID: at.id}
	})
	drv.exports.onChange = drv.removed
	drv.balancers = newItems(drv, "Balancer", ownBalancer, func(at place) driver.Balancer {
		return driver.Balancer{Account: at.account, ID: at.id}
	})
	drv.health = healthByAddress
	return drv
}

// Fail injects failures: every later call first calls fail with the name of its
// method, and returns the error if there is one, without changing anything. nil
// stops the failures.
func (drv *Driver) Fail(fail func(op string) error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	drv.fail = fail
}

// Slow sets the duration of every change that begins later, by the name of the
// method that asks for it. nil restores the delay of the driver.
func (drv *Driver) Slow(slow func(op string) time.Duration) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	drv.slow = slow
}

// fault returns the injected failure of a call, or its context's error.
func (drv *Driver) fault(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if drv.fail == nil {
		return nil
	}
	return drv.fail(op)
}

// duration returns how long a change takes that begins now. The caller holds
// the mutex.
func (drv *Driver) duration(op string) time.Duration {
	if drv.slow == nil {
		return drv.delay
	}
	return drv.slow(op)
}
