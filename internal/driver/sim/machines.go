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
func (drv *Driver) EnsureMachine(ctx context.Context, m driver.Machine) error {
	return drv.machines.ensure(ctx, m)
}

// RemoveMachine implements [driver.Machines].
func (drv *Driver) RemoveMachine(ctx context.Context, account, id string) error {
	return drv.machines.remove(ctx, account, id)
}

// ObserveMachines implements [driver.Machines].
func (drv *Driver) ObserveMachines(ctx context.Context) (list []driver.MachineStatus, err error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "ObserveMachines"); err != nil {
		return nil, err
	}
	for _, m := range drv.machines.list() {
		s := drv.machineStatus(m)
		s.Console = nil
		list = append(list, s)
	}
	return list, nil
}

// Machine implements [driver.Machines]. The simulation loses its machines at a
// restart. A machine that is missing is reported to the watchers, so that the
// loop creates it again.
func (drv *Driver) Machine(ctx context.Context, account, id string) (status driver.MachineStatus, ok bool, err error) {
	if status, ok, err = drv.machine(ctx, account, id); err == nil && !ok {
		drv.notify(account, id)
	}
	return status, ok, err
}

func (drv *Driver) machine(ctx context.Context, account, id string) (driver.MachineStatus, bool, error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "Machine"); err != nil {
		return driver.MachineStatus{}, false, err
	}
	m, ok := drv.machines.get(place{account, id})
	if !ok {
		return driver.MachineStatus{}, false, nil
	}
	return drv.machineStatus(m), true, nil
}

// machineStatus returns the status of a machine. The caller holds the mutex.
func (drv *Driver) machineStatus(m driver.Machine) driver.MachineStatus {
	s := driver.MachineStatus{Machine: m}
	g := drv.guests[place{m.Account, m.ID}]
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

// MetadataService returns what a machine finds at the address of its metadata
// service; ok is false if there is no such machine.
func (drv *Driver) MetadataService(account, id string) (service http.Handler, ok bool) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	t := drv.machines.item(place{account, id})
	if t.current == nil {
		return nil, false
	}
	paths := maps.Clone(t.current.Metadata)
	if paths == nil {
		paths = map[string]string{}
	}
	// All machines of a Subregion are on one host.
	paths["placement/server"] = t.current.Subregion + "-host"
	paths["placement/cluster"] = t.current.Subregion + "-cluster"
	return metadata.Handler(paths, slices.Clone(t.current.UserData)), true
}

// Room is the capacity for all machines that are on in a Subregion, for one CPU
// model.
type Room struct {
	Subregion, CpuModel string // an empty model covers all of them
	Cores, Memory       int    // memory is in GiB
}

// Limit sets the capacity. Machines that no room covers are not limited, and
// machines that are on stay on. No rooms mean no limits.
func (drv *Driver) Limit(rooms ...Room) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	drv.rooms = rooms
}

func (r Room) covers(m *driver.Machine) bool {
	return r.Subregion == m.Subregion && (r.CpuModel == "" || r.CpuModel == m.CpuModel)
}

// noRoom returns [driver.NoCapacity] if a machine must be started and does not
// fit beside the machines that are on.
func (drv *Driver) noRoom(m driver.Machine) error {
	at := place{m.Account, m.ID}
	if !drv.guests[at].starts(&m) || drv.stays(at, &m) {
		return nil
	}
	for _, r := range drv.rooms {
		if !r.covers(&m) {
			continue
		}
		cores, memory := m.Cores, m.Memory
		for other := range drv.machines.at {
			if o := drv.occupies(other); other != at && o != nil && r.covers(o) {
				cores, memory = cores+o.Cores, memory+o.Memory
			}
		}
		if cores > r.Cores || memory > r.Memory {
			return driver.NoCapacity{What: fmt.Sprintf("%d cores and %d GiB of memory in %s", m.Cores, m.Memory, m.Subregion)}
		}
	}
	return nil
}

// stays reports whether a machine fits into the room that it occupies already.
func (drv *Driver) stays(at place, m *driver.Machine) bool {
	o := drv.occupies(at)
	return o != nil && o.Subregion == m.Subregion && o.CpuModel == m.CpuModel && o.Cores >= m.Cores && o.Memory >= m.Memory
}

// occupies returns the machine at a place that is on or about to be; nil: there
// is none.
func (drv *Driver) occupies(at place) *driver.Machine {
	t := drv.machines.item(at)
	g := drv.guests[at]
	switch {
	case t.target != nil && g.starts(t.target):
		return t.target
	case g != nil && g.on:
		return t.current
	}
	return nil
}

// watcher is a call of WatchMachines.
type watcher struct{ changed func(account, id string) }

// WatchMachines implements [driver.Machines].
func (drv *Driver) WatchMachines(ctx context.Context, changed func(account, id string)) error {
	self := &watcher{changed}
	drv.mu.Lock()
	if err := drv.fault(ctx, "WatchMachines"); err != nil {
		drv.mu.Unlock()
		return err
	}
	drv.watchers[self] = true
	drv.mu.Unlock()

	<-ctx.Done()
	drv.mu.Lock()
	defer drv.mu.Unlock()
	delete(drv.watchers, self)
	return ctx.Err()
}

// notify notifies the watchers of a machine. They may call the driver, so the
// caller must not hold the mutex.
func (drv *Driver) notify(account, id string) {
	drv.mu.Lock()
	watchers := slices.Collect(maps.Keys(drv.watchers))
	drv.mu.Unlock()
	for _, watcher := range watchers {
		watcher.changed(account, id)
	}
}

// ShutDownGuest makes the guest of a machine shut down by itself. It does
// nothing if the machine is off.
func (drv *Driver) ShutDownGuest(account, id string) {
	drv.turnedOff(account, id, driver.ByGuest, func(m *driver.Machine) string { return m.OnGuest })
}

// FailHost makes the host of a machine fail. It does nothing if the machine is
// off.
func (drv *Driver) FailHost(account, id string) {
	drv.turnedOff(account, id, driver.ByHost, func(m *driver.Machine) string { return m.OnHost })
}

func (drv *Driver) turnedOff(account, id string, by driver.Cause, then func(*driver.Machine) string) {
	if drv.turnOff(place{account, id}, by, then) {
		drv.notify(account, id)
	}
}

// turnOff turns a machine off, with a cause, and reports whether it was on.
func (drv *Driver) turnOff(at place, by driver.Cause, then func(*driver.Machine) string) bool {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	t := drv.machines.item(at)
	g := drv.guests[at]
	if g == nil || !g.on {
		return false
	}
	g.stop(by)
	if by == driver.ByGuest {
		g.print(drv.now(), "the guest shuts down")
	}
	if then(t.current) == "restart" {
		g.start(t.current, drv.now())
	}
	return true
}

// DeafenGuest makes the guest of a machine ignore requests to shut down, until
// it is off.
func (drv *Driver) DeafenGuest(account, id string) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	at := place{account, id}
	drv.machines.item(at)
	if g := drv.guests[at]; g != nil {
		g.ignoresShutdown = g.on
	}
}

// resists reports whether a guest ignores the request to turn its machine off.
func (drv *Driver) resists(at place, to *driver.Machine) bool {
	g := drv.guests[at]
	return to != nil && !to.On && !to.Forced && g != nil && g.ignoresShutdown
}

// power turns a machine on or off as requested.
func (drv *Driver) power(at place, m *driver.Machine, now time.Time) {
	g := drv.guests[at]
	switch {
	case m == nil:
		delete(drv.guests, at)
		return
	case g == nil:
		g = &guest{}
		drv.guests[at] = g
	}
	starts := g.starts(m)
	if g.on && (starts || !m.On) {
		if !m.Forced {
			g.print(now, "the power button is pressed")
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

// ownMachine returns a copy that shares nothing with the machine.
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
