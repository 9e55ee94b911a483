package sim

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/metadata"
)

var _ driver.Machines = (*Driver)(nil)

// EnsureMachine implements [driver.Machines].
func (w *Driver) EnsureMachine(ctx context.Context, m driver.Machine) error {
	return w.machines.ensure(ctx, m)
}

// RemoveMachine implements [driver.Machines].
func (w *Driver) RemoveMachine(ctx context.Context, account, id string) error {
	return w.machines.remove(ctx, account, id)
}

// ObserveMachines implements [driver.Machines].
func (w *Driver) ObserveMachines(ctx context.Context) (seen []driver.MachineStatus, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "ObserveMachines"); err != nil {
		return nil, err
	}
	for _, m := range w.machines.seen() {
		s := w.machineStatus(m)
		s.Console = nil
		seen = append(seen, s)
	}
	return seen, nil
}

// Machine implements [driver.Machines]. The simulation forgets at a restart: that
// somebody has missed a machine is news to whoever can bring it back.
func (w *Driver) Machine(ctx context.Context, account, id string) (status driver.MachineStatus, ok bool, err error) {
	if status, ok, err = w.machine(ctx, account, id); err == nil && !ok {
		w.tell(account, id)
	}
	return status, ok, err
}

func (w *Driver) machine(ctx context.Context, account, id string) (driver.MachineStatus, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "Machine"); err != nil {
		return driver.MachineStatus{}, false, err
	}
	m, ok := w.machines.look(place{account, id})
	if !ok {
		return driver.MachineStatus{}, false, nil
	}
	return w.machineStatus(m), true, nil
}

// machineStatus says how a machine is doing. The caller holds the mutex.
func (w *Driver) machineStatus(m driver.Machine) driver.MachineStatus {
	s := driver.MachineStatus{Machine: m}
	g := w.guests[place{m.Account, m.ID}]
	if g == nil {
		s.Reason = "it is being made"
		return s
	}
	s.On, s.OffBy, s.Console, s.Password = g.on, g.offBy, slices.Clone(g.console), slices.Clone(g.password)
	switch g.offBy {
	case driver.ByGuest:
		s.Reason = "its guest has shut down"
	case driver.ByHost:
		s.Reason = "its host has failed"
	}
	return s
}

// MetadataService is what a machine finds at the address of its metadata
// service; ok is false if there is no such machine.
func (w *Driver) MetadataService(account, id string) (service http.Handler, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.machines.thing(place{account, id})
	if t.is == nil {
		return nil, false
	}
	paths := maps.Clone(t.is.Metadata)
	if paths == nil {
		paths = map[string]string{}
	}
	// All machines of a Subregion are on one host.
	paths["placement/server"] = t.is.Subregion + "-host"
	paths["placement/cluster"] = t.is.Subregion + "-cluster"
	return metadata.Handler(paths, slices.Clone(t.is.UserData)), true
}

// Room is how much all machines that are on may have together in a Subregion,
// of one model of processors.
type Room struct {
	Subregion, CpuModel string // an empty model is all of them
	Cores, Memory       int    // memory is in GiB
}

// Limit gives the driver so much room. What no room is about has no limit, and
// machines that are on stay on. None at all is a driver without limits.
func (w *Driver) Limit(rooms ...Room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rooms = rooms
}

func (r Room) holds(m *driver.Machine) bool {
	return r.Subregion == m.Subregion && (r.CpuModel == "" || r.CpuModel == m.CpuModel)
}

// noRoom refuses a machine that is to be started if it does not fit beside
// those that are on.
func (w *Driver) noRoom(m driver.Machine) error {
	at := place{m.Account, m.ID}
	if !w.guests[at].starts(&m) || w.stays(at, &m) {
		return nil
	}
	for _, r := range w.rooms {
		if !r.holds(&m) {
			continue
		}
		cores, memory := m.Cores, m.Memory
		for other := range w.machines.at {
			if o := w.occupies(other); other != at && o != nil && r.holds(o) {
				cores, memory = cores+o.Cores, memory+o.Memory
			}
		}
		if cores > r.Cores || memory > r.Memory {
			return driver.NoCapacity{What: fmt.Sprintf("%d cores and %d GiB of memory in %s", m.Cores, m.Memory, m.Subregion)}
		}
	}
	return nil
}

// stays reports whether a machine needs no other room than it has.
func (w *Driver) stays(at place, m *driver.Machine) bool {
	o := w.occupies(at)
	return o != nil && o.Subregion == m.Subregion && o.CpuModel == m.CpuModel && o.Cores >= m.Cores && o.Memory >= m.Memory
}

// occupies is the machine at a place that is on or about to be; nil: none is.
func (w *Driver) occupies(at place) *driver.Machine {
	t := w.machines.thing(at)
	g := w.guests[at]
	switch {
	case t.becomes != nil && g.starts(t.becomes):
		return t.becomes
	case g != nil && g.on:
		return t.is
	}
	return nil
}

// watcher is somebody who is told what machines do by themselves.
type watcher struct{ changed func(account, id string) }

// WatchMachines implements [driver.Machines].
func (w *Driver) WatchMachines(ctx context.Context, changed func(account, id string)) error {
	self := &watcher{changed}
	w.mu.Lock()
	if err := w.fault(ctx, "WatchMachines"); err != nil {
		w.mu.Unlock()
		return err
	}
	w.watchers[self] = true
	w.mu.Unlock()

	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watchers, self)
	return ctx.Err()
}

// tell tells those who watch of a machine. They may ask the driver what has
// happened, so the caller does not hold the mutex.
func (w *Driver) tell(account, id string) {
	w.mu.Lock()
	watchers := slices.Collect(maps.Keys(w.watchers))
	w.mu.Unlock()
	for _, watcher := range watchers {
		watcher.changed(account, id)
	}
}

// ShutDownGuest has the guest of a machine shut down by itself, and does
// nothing if it is not on.
func (w *Driver) ShutDownGuest(account, id string) {
	w.turnedOff(account, id, driver.ByGuest, func(m *driver.Machine) string { return m.OnGuest })
}

// FailHost has the host of a machine fail, and does nothing if it is not on.
func (w *Driver) FailHost(account, id string) {
	w.turnedOff(account, id, driver.ByHost, func(m *driver.Machine) string { return m.OnHost })
}

func (w *Driver) turnedOff(account, id string, by driver.Cause, then func(*driver.Machine) string) {
	if w.turnOff(place{account, id}, by, then) {
		w.tell(account, id)
	}
}

// turnOff turns a machine off, for a cause, and reports whether it was on.
func (w *Driver) turnOff(at place, by driver.Cause, then func(*driver.Machine) string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.machines.thing(at)
	g := w.guests[at]
	if g == nil || !g.on {
		return false
	}
	g.stop(by)
	if by == driver.ByGuest {
		g.say(w.now(), "the guest shuts down")
	}
	if then(t.is) == "restart" {
		g.start(t.is, w.now())
	}
	return true
}

// DeafenGuest makes the guest of a machine go on when it is asked to shut down,
// until it runs no more.
func (w *Driver) DeafenGuest(account, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := place{account, id}
	w.machines.thing(at)
	if g := w.guests[at]; g != nil {
		g.deaf = g.on
	}
}

// resists reports whether a guest does not let its machine be turned off.
func (w *Driver) resists(at place, to *driver.Machine) bool {
	g := w.guests[at]
	return to != nil && !to.On && !to.Forced && g != nil && g.deaf
}

// power turns a machine on or off as it was asked to be.
func (w *Driver) power(at place, m *driver.Machine, now time.Time) {
	g := w.guests[at]
	switch {
	case m == nil:
		delete(w.guests, at)
		return
	case g == nil:
		g = &guest{}
		w.guests[at] = g
	}
	starts := g.starts(m)
	if g.on && (starts || !m.On) {
		if !m.Forced {
			g.say(now, "the power button is pressed")
		}
		g.stop("")
	}
	switch {
	case starts:
		g.start(m, now)
	case !m.On:
		g.offBy = ""
	}
	g.wanted = m.On
}

// ownMachine is a copy that shares nothing with the machine.
func ownMachine(m driver.Machine) driver.Machine {
	m.Affinities = slices.Clone(m.Affinities)
	m.Gpus = slices.Clone(m.Gpus)
	m.Disks = slices.Clone(m.Disks)
	m.Nics = own(m.Nics, func(n *driver.MachineNic) {
		n.Private, n.Groups = slices.Clone(n.Private), slices.Clone(n.Groups)
	})
	m.UserData = slices.Clone(m.UserData)
	m.Keys = slices.Clone(m.Keys)
	m.Metadata = maps.Clone(m.Metadata)
	return m
}
