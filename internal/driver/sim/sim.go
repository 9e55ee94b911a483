// Package sim is a world that exists in memory only: the default driver, and
// the one of tests. It does what it is asked at once or after a delay, and
// fails when it is told to. It forgets everything when the process ends.
//
// Nothing outside of the region is simulated but what a test asks for: the
// clients' ends of tunnels are silent until [World.ConnectTunnel].
package sim

import (
	"context"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// World implements the interfaces of package driver.
type World struct {
	now   func() time.Time
	delay time.Duration

	mu         sync.Mutex // guards what follows
	fail       func(op string) error
	nets       things[driver.Net]
	tunnels    things[driver.Tunnel]
	clients    map[place]client
	interfaces things[driver.Interface]
	cables     map[place]*cable
}

// New makes an empty world in which each change takes the delay by the given
// clock; 0 is at once.
func New(now func() time.Time, delay time.Duration) *World {
	w := &World{now: now, delay: delay, clients: map[place]client{}, cables: map[place]*cable{}}
	w.nets = newThings(w, "Net", ownNet, func(at place) driver.Net {
		return driver.Net{Account: at.account, ID: at.id}
	})
	w.tunnels = newThings(w, "Tunnel", ownTunnel, func(at place) driver.Tunnel {
		return driver.Tunnel{Account: at.account, ID: at.id}
	})
	w.interfaces = newThings(w, "Interface", ownInterface, func(at place) driver.Interface {
		return driver.Interface{Account: at.account, ID: at.id}
	})
	return w
}

// Fail makes every later call ask fail first, by the name of its method, and
// end with the error it gives, if any. A call that fails so has changed
// nothing. nil is no faults.
func (w *World) Fail(fail func(op string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

// fault is the error with which a call is to end. The caller holds the mutex.
func (w *World) fault(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.fail == nil {
		return nil
	}
	return w.fail(op)
}
