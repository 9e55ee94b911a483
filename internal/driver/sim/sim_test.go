package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/drivertest"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// paces are those of the drivers that every suite runs in.
var paces = map[string]time.Duration{"at once": 0, "delayed": 3 * time.Second}

// suites runs the tests of every driver in drivers of each pace.
func suites[D any](t *testing.T, run func(*testing.T, func(*testing.T) (D, func(time.Time)))) {
	for name, delay := range paces {
		t.Run(name, func(t *testing.T) {
			run(t, func(*testing.T) (D, func(time.Time)) {
				c := clock.NewVirtual(start)
				drv := sim.New(c.Now, delay)
				drv.Write = func(context.Context, driver.Export, int64, io.Reader, func(int)) error { return nil }
				return any(drv).(D), c.AdvanceTo
			})
		})
	}
}

func TestNetworks(t *testing.T)    { t.Parallel(); suites(t, drivertest.Networks) }
func TestPublicCloud(t *testing.T) { t.Parallel(); suites(t, drivertest.PublicCloud) }
func TestLinks(t *testing.T)       { t.Parallel(); suites(t, drivertest.Links) }
func TestMachines(t *testing.T)    { t.Parallel(); suites(t, drivertest.Machines) }
func TestDisks(t *testing.T)       { t.Parallel(); suites(t, drivertest.Disks) }
func TestBalancers(t *testing.T)   { t.Parallel(); suites(t, drivertest.Balancers) }

var net = driver.Net{Account: "000000000001", ID: "vpc-00000001", Generation: 1, IpRange: netip.MustParsePrefix("10.0.0.0/16")}

// count is the number of Nets in the driver that have a range.
func count(t *testing.T, drv *sim.Driver) (n int) {
	t.Helper()
	nets, err := drv.ObserveNets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, net := range nets {
		if net.IpRange.IsValid() {
			n++
		}
	}
	return n
}

func TestDelay(t *testing.T) {
	t.Parallel()
	c := clock.NewVirtual(start)
	drv := sim.New(c.Now, 3*time.Second)

	due := driver.Later{At: start.Add(3 * time.Second)}
	if err := drv.EnsureNet(t.Context(), net); err != due {
		t.Errorf("a change that takes 3 s: got %v, want %v", err, due)
	}
	c.Advance(2 * time.Second)
	if n := count(t, drv); n != 0 {
		t.Errorf("after 2 of 3 s the driver has %d Nets", n)
	}
	// What comes in between is done at the same time.
	next := net
	next.Generation++
	if err := drv.EnsureNet(t.Context(), next); err != due {
		t.Errorf("a change during a change: got %v, want %v", err, due)
	}
	c.Advance(time.Second)
	if n := count(t, drv); n != 1 {
		t.Errorf("after 3 s the driver has %d Nets", n)
	}
	if err := drv.EnsureNet(t.Context(), next); err != nil {
		t.Errorf("asked again once it is done: %v", err)
	}
	due = driver.Later{At: start.Add(6 * time.Second)}
	if err := drv.RemoveNet(t.Context(), net.Account, net.ID); err != due {
		t.Errorf("a removal that takes 3 s: got %v, want %v", err, due)
	}
	if n := count(t, drv); n != 1 {
		t.Errorf("a Net whose removal is under way is not there")
	}
	c.Advance(3 * time.Second)
	if n := count(t, drv); n != 0 {
		t.Errorf("after its removal the driver has %d Nets", n)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const account = "000000000001"
	tunnel := driver.Tunnel{Account: account, ID: "vpn-00000001", Generation: 1}
	link := driver.Interface{Account: account, ID: "dxvif-00000001", Generation: 1}
	machine := driver.Machine{Account: account, ID: "i-00000001", Generation: 1, On: true}
	disk := driver.Disk{Account: account, ID: "vol-00000001", Generation: 1}
	snapshot := driver.Snapshot{Account: account, ID: "snap-00000001", Generation: 1}
	export := driver.Export{Account: account, ID: "snap-export-00000001", Generation: 1}
	// Each call makes a difference only after the ones before it.
	calls := []struct {
		op   string
		call func(context.Context, *sim.Driver) error
	}{
		{"EnsureNet", func(ctx context.Context, drv *sim.Driver) error { return drv.EnsureNet(ctx, net) }},
		{"EnsureTunnel", func(ctx context.Context, drv *sim.Driver) error { return drv.EnsureTunnel(ctx, tunnel) }},
		{"EnsureInterface", func(ctx context.Context, drv *sim.Driver) error { return drv.EnsureInterface(ctx, link) }},
		{"EnsureMachine", func(ctx context.Context, drv *sim.Driver) error { return drv.EnsureMachine(ctx, machine) }},
		{"EnsureDisk", func(ctx context.Context, drv *sim.Driver) error { return drv.EnsureDisk(ctx, disk) }},
		{"EnsureSnapshot", func(ctx context.Context, drv *sim.Driver) error { return drv.EnsureSnapshot(ctx, snapshot) }},
		{"EnsureExport", func(ctx context.Context, drv *sim.Driver) error { return drv.EnsureExport(ctx, export) }},
		{"ObserveNets", func(ctx context.Context, drv *sim.Driver) error { _, err := drv.ObserveNets(ctx); return err }},
		{"ObserveTunnels", func(ctx context.Context, drv *sim.Driver) error { _, err := drv.ObserveTunnels(ctx); return err }},
		{"ObserveInterfaces", func(ctx context.Context, drv *sim.Driver) error { _, err := drv.ObserveInterfaces(ctx); return err }},
		{"ObserveMachines", func(ctx context.Context, drv *sim.Driver) error { _, err := drv.ObserveMachines(ctx); return err }},
		{"ObserveDisks", func(ctx context.Context, drv *sim.Driver) error { _, err := drv.ObserveDisks(ctx); return err }},
		{"ObserveSnapshots", func(ctx context.Context, drv *sim.Driver) error { _, err := drv.ObserveSnapshots(ctx); return err }},
		{"ObserveExports", func(ctx context.Context, drv *sim.Driver) error { _, err := drv.ObserveExports(ctx); return err }},
		{"Machine", func(ctx context.Context, drv *sim.Driver) error {
			_, _, err := drv.Machine(ctx, account, machine.ID)
			return err
		}},
		{"Snapshot", func(ctx context.Context, drv *sim.Driver) error {
			_, _, err := drv.Snapshot(ctx, account, snapshot.ID)
			return err
		}},
		{"Export", func(ctx context.Context, drv *sim.Driver) error {
			_, _, err := drv.Export(ctx, account, export.ID)
			return err
		}},
		{"RemoveNet", func(ctx context.Context, drv *sim.Driver) error { return drv.RemoveNet(ctx, account, net.ID) }},
		{"RemoveTunnel", func(ctx context.Context, drv *sim.Driver) error { return drv.RemoveTunnel(ctx, account, tunnel.ID) }},
		{"RemoveInterface", func(ctx context.Context, drv *sim.Driver) error { return drv.RemoveInterface(ctx, account, link.ID) }},
		{"RemoveMachine", func(ctx context.Context, drv *sim.Driver) error { return drv.RemoveMachine(ctx, account, machine.ID) }},
		{"RemoveDisk", func(ctx context.Context, drv *sim.Driver) error { return drv.RemoveDisk(ctx, account, disk.ID) }},
		{"RemoveSnapshot", func(ctx context.Context, drv *sim.Driver) error { return drv.RemoveSnapshot(ctx, account, snapshot.ID) }},
		{"RemoveExport", func(ctx context.Context, drv *sim.Driver) error { return drv.RemoveExport(ctx, account, export.ID) }},
	}
	drv := sim.New(clock.NewVirtual(start).Now, 0)
	has := func() string {
		nets, err := drv.ObserveNets(t.Context())
		tunnels, tunnelsErr := drv.ObserveTunnels(t.Context())
		links, linksErr := drv.ObserveInterfaces(t.Context())
		machines, machinesErr := drv.ObserveMachines(t.Context())
		disks, disksErr := drv.ObserveDisks(t.Context())
		snapshots, snapshotsErr := drv.ObserveSnapshots(t.Context())
		exports, exportsErr := drv.ObserveExports(t.Context())
		if err := errors.Join(err, tunnelsErr, linksErr, machinesErr, disksErr, snapshotsErr, exportsErr); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(nets, tunnels, links, machines, disks, snapshots, exports)
	}
	broken := errors.New("the cable is cut")
	failing := func(which func(op string) bool) {
		drv.Fail(func(op string) error {
			if which(op) {
				return broken
			}
			return nil
		})
	}
	for _, c := range calls {
		before := has()
		failing(func(op string) bool { return op == c.op })
		if err := c.call(t.Context(), drv); err != broken {
			t.Errorf("%s: got %v, want %v", c.op, err, broken)
		}
		drv.Fail(nil)
		if after := has(); after != before {
			t.Errorf("%s failed and changed the driver from %s to %s", c.op, before, after)
		}
		failing(func(op string) bool { return op != c.op })
		if err := c.call(t.Context(), drv); err != nil {
			t.Errorf("%s when all other methods fail: %v", c.op, err)
		}
		drv.Fail(nil)
		changes := strings.HasPrefix(c.op, "Ensure") || strings.HasPrefix(c.op, "Remove")
		if changes != (has() != before) {
			t.Errorf("%s has changed the driver: %t, want %t", c.op, !changes, changes)
		}
	}
}

// A change may be told to take its time, and one that is under way takes what it
// began with.
func TestSlow(t *testing.T) {
	t.Parallel()
	c := clock.NewVirtual(start)
	drv := sim.New(c.Now, time.Second)
	drv.Slow(func(op string) time.Duration {
		if op == "EnsureDisk" {
			return time.Hour
		}
		return 0
	})
	disk := driver.Disk{Account: net.Account, ID: "vol-00000001", Generation: 1}
	steps := []struct {
		name string
		call func() error
		want error
	}{
		{"a slow change", func() error { return drv.EnsureDisk(t.Context(), disk) }, driver.Later{At: start.Add(time.Hour)}},
		{"another change", func() error { return drv.EnsureNet(t.Context(), net) }, nil},
		{"a slow change, when nothing is slow any more", func() error { drv.Slow(nil); return drv.EnsureDisk(t.Context(), disk) },
			driver.Later{At: start.Add(time.Hour)}},
		{"a change at the pace of the driver", func() error { return drv.RemoveNet(t.Context(), net.Account, net.ID) },
			driver.Later{At: start.Add(time.Second)}},
		{"a slow change, when it is due", func() error { c.Advance(time.Hour); return drv.EnsureDisk(t.Context(), disk) }, nil},
	}
	for _, step := range steps {
		if err := step.call(); err != step.want {
			t.Errorf("%s: got %v, want %v", step.name, err, step.want)
		}
	}
}
