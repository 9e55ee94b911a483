// Package sim is a driver that exists in memory only: the default driver, and
// the one of tests. It does what it is asked at once or after a delay, and
// fails, is slow and has no room when it is told to. It forgets everything when
// the process ends, and therefore does not mind when it is asked for something
// that needs what it does not know.
//
// Nothing outside of the region, and nothing inside of its machines, happens
// but what a test asks for: the clients' ends of tunnels are silent until
// [Driver.ConnectTunnel], and guests run until [Driver.ShutDownGuest].
package sim

import (
	"context"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// Driver implements the interfaces of package driver.
type Driver struct {
	// Write is set before the driver is used; nil fails all exports.
	Write driver.ExportWriter

	// After is [time.After] by the driver's clock. It bounds how long a call waits
	// for a file that is being written; nil: it waits until its context ends.
	After func(time.Duration) <-chan time.Time

	now   func() time.Time
	delay time.Duration

	life    context.Context // of what the driver does by itself, until end
	end     func()
	writing sync.WaitGroup
	writers chan struct{} // has room for those who may write a file

	mu         sync.Mutex // guards what follows
	fail       func(op string) error
	slow       func(op string) time.Duration
	nets       things[driver.Net]
	groups     things[driver.PublicGroup]
	tunnels    things[driver.Tunnel]
	clients    map[place]client
	interfaces things[driver.Interface]
	cables     map[place]*cable
	machines   things[driver.Machine]
	guests     map[place]*guest
	rooms      []Room
	watchers   map[*watcher]bool
	disks      things[driver.Disk]
	snapshots  things[driver.Snapshot]
	exports    things[driver.Export]
	writes     map[place]*write
	broken     map[string]string // why snapshots and exports fail, by id
}

// Start returns how a region starts a simulation in which each change takes the
// delay; 0 is at once.
func Start(delay time.Duration) func(driver.Host) driver.Drivers {
	return func(h driver.Host) driver.Drivers {
		w := New(h.Now, delay)
		w.Write, w.After = h.Write, h.After
		return w
	}
}

// New makes an empty driver in which each change takes the delay by the given
// clock; 0 is at once.
func New(now func() time.Time, delay time.Duration) *Driver {
	w := &Driver{
		now: now, delay: delay,
		clients: map[place]client{}, cables: map[place]*cable{}, guests: map[place]*guest{}, watchers: map[*watcher]bool{},
		writes: map[place]*write{}, broken: map[string]string{}, writers: make(chan struct{}, writesAtOnce),
	}
	w.life, w.end = context.WithCancel(context.Background())
	w.nets = newThings(w, "Net", ownNet, func(at place) driver.Net {
		return driver.Net{Account: at.account, ID: at.id}
	})
	w.groups = newThings(w, "Group", ownGroup, func(at place) driver.PublicGroup {
		return driver.PublicGroup{Account: at.account, ID: at.id}
	})
	w.tunnels = newThings(w, "Tunnel", ownTunnel, func(at place) driver.Tunnel {
		return driver.Tunnel{Account: at.account, ID: at.id}
	})
	w.interfaces = newThings(w, "Interface", ownInterface, func(at place) driver.Interface {
		return driver.Interface{Account: at.account, ID: at.id}
	})
	w.machines = newThings(w, "Machine", ownMachine, func(at place) driver.Machine {
		return driver.Machine{Account: at.account, ID: at.id}
	})
	w.machines.refuse, w.machines.holds, w.machines.became = w.noRoom, w.resists, w.power
	w.disks = newThings(w, "Disk", ownDisk, func(at place) driver.Disk {
		return driver.Disk{Account: at.account, ID: at.id}
	})
	w.snapshots = newThings(w, "Snapshot", ownSnapshot, func(at place) driver.Snapshot {
		return driver.Snapshot{Account: at.account, ID: at.id}
	})
	w.exports = newThings(w, "Export", func(e driver.Export) driver.Export { return e }, func(at place) driver.Export {
		return driver.Export{Account: at.account, ID: at.id}
	})
	w.exports.became = w.removed
	return w
}

// Fail makes every later call ask fail first, by the name of its method, and
// end with the error it gives, if any. A call that fails so has changed
// nothing. nil is no faults.
func (w *Driver) Fail(fail func(op string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

// Slow makes every change that begins later take as long as slow says, by the
// name of the method that asks for it. nil is the delay of the driver.
func (w *Driver) Slow(slow func(op string) time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = slow
}

// fault is the error with which a call is to end. The caller holds the mutex.
func (w *Driver) fault(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.fail == nil {
		return nil
	}
	return w.fail(op)
}

// takes is how long a change takes that begins now. The caller holds the mutex.
func (w *Driver) takes(op string) time.Duration {
	if w.slow == nil {
		return w.delay
	}
	return w.slow(op)
}
