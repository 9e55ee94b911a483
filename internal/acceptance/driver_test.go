package acceptance

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/region"
)

// obliging are drivers that have whatever they are asked for, at once, and
// remember no more than what it is called. They stand for drivers that the region
// does not know.
type obliging struct {
	mu  sync.Mutex // guards has
	has map[string]driver.MachineStatus
}

func (o *obliging) ensure(kind string, at driver.Key, on bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.has[kind+" "+at.ID] = driver.MachineStatus{Machine: driver.Machine{Account: at.Account, ID: at.ID, Generation: at.Generation}, On: on}
	return nil
}

func (o *obliging) remove(kind, id string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.has, kind+" "+id)
	return nil
}

func (o *obliging) get(kind, id string) (driver.MachineStatus, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.has[kind+" "+id]
	return s, ok
}

func key(account, id string, generation uint64) driver.Key {
	return driver.Key{Account: account, ID: id, Generation: generation}
}

func (*obliging) Close() {}

func (o *obliging) EnsureNet(_ context.Context, n driver.Net) error {
	return o.ensure("Net", key(n.Account, n.ID, n.Generation), true)
}
func (o *obliging) RemoveNet(_ context.Context, _, id string) error           { return o.remove("Net", id) }
func (*obliging) ObserveNets(context.Context) ([]driver.Net, error)           { return nil, nil }
func (*obliging) EnsureGroup(context.Context, driver.PublicGroup) error       { return nil }
func (*obliging) RemoveGroup(_ context.Context, _, _ string) error            { return nil }
func (*obliging) ObserveGroups(context.Context) ([]driver.PublicGroup, error) { return nil, nil }

func (*obliging) EnsureTunnel(context.Context, driver.Tunnel) error                 { return nil }
func (*obliging) RemoveTunnel(_ context.Context, _, _ string) error                 { return nil }
func (*obliging) ObserveTunnels(context.Context) ([]driver.TunnelStatus, error)     { return nil, nil }
func (*obliging) EnsureInterface(context.Context, driver.Interface) error           { return nil }
func (*obliging) RemoveInterface(_ context.Context, _, _ string) error              { return nil }
func (*obliging) ObserveInterfaces(context.Context) ([]driver.Interface, error)     { return nil, nil }
func (*obliging) EnsurePort(context.Context, driver.Cable) error                    { return nil }
func (*obliging) EnsureCable(context.Context, driver.Cable) error                   { return nil }
func (*obliging) RemoveCable(_ context.Context, _, _ string) error                  { return nil }
func (*obliging) ObserveCables(context.Context) ([]driver.Cable, error)             { return nil, nil }
func (*obliging) EnsureDisk(context.Context, driver.Disk) error                     { return nil }
func (*obliging) RemoveDisk(_ context.Context, _, _ string) error                   { return nil }
func (*obliging) ObserveDisks(context.Context) ([]driver.Disk, error)               { return nil, nil }
func (*obliging) EnsureSnapshot(context.Context, driver.Snapshot) error             { return nil }
func (*obliging) RemoveSnapshot(_ context.Context, _, _ string) error               { return nil }
func (*obliging) ObserveSnapshots(context.Context) ([]driver.SnapshotStatus, error) { return nil, nil }
func (*obliging) Snapshot(_ context.Context, account, id string) (driver.SnapshotStatus, bool, error) {
	return driver.SnapshotStatus{Snapshot: driver.Snapshot{Account: account, ID: id}}, true, nil
}
func (*obliging) EnsureExport(context.Context, driver.Export) error             { return nil }
func (*obliging) RemoveExport(_ context.Context, _, _ string) error             { return nil }
func (*obliging) ObserveExports(context.Context) ([]driver.ExportStatus, error) { return nil, nil }
func (*obliging) Export(_ context.Context, account, id string) (driver.ExportStatus, bool, error) {
	return driver.ExportStatus{Export: driver.Export{Account: account, ID: id}}, true, nil
}

func (*obliging) EnsureBalancer(context.Context, driver.Balancer) error             { return nil }
func (*obliging) RemoveBalancer(_ context.Context, _, _ string) error               { return nil }
func (*obliging) ObserveBalancers(context.Context) ([]driver.BalancerStatus, error) { return nil, nil }
func (*obliging) ResolveBalancer(context.Context, string) (netip.Addr, bool, error) {
	return netip.Addr{}, false, nil
}
func (*obliging) Balancer(_ context.Context, account, id string) (driver.BalancerStatus, bool, error) {
	return driver.BalancerStatus{Balancer: driver.Balancer{Account: account, ID: id}}, true, nil
}

func (o *obliging) EnsureMachine(_ context.Context, m driver.Machine) error {
	return o.ensure("Machine", key(m.Account, m.ID, m.Generation), m.On)
}
func (o *obliging) RemoveMachine(_ context.Context, _, id string) error {
	return o.remove("Machine", id)
}
func (*obliging) ObserveMachines(context.Context) ([]driver.MachineStatus, error) { return nil, nil }
func (o *obliging) Machine(_ context.Context, _, id string) (driver.MachineStatus, bool, error) {
	s, ok := o.get("Machine", id)
	return s, ok, nil
}
func (*obliging) WatchMachines(ctx context.Context, _ func(account, id string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// A region runs on drivers that it does not know.
func TestRegionOnOtherDrivers(t *testing.T) {
	t.Parallel()
	backend := &obliging{has: map[string]driver.MachineStatus{}}
	w := newTestRegion(t, func(o *region.Options) {
		o.Driver = func(driver.Host) driver.Drivers { return backend }
	})
	alice := w.as("alice")
	net := alice.must("CreateNet", `{"IpRange": "10.0.0.0/16"}`).at("Net.NetId")
	subnet := alice.must("CreateSubnet", `{"NetId": "`+net+`", "IpRange": "10.0.0.0/24"}`).at("Subnet.SubnetId")
	vm := alice.must("CreateVms", `{"ImageId": "ami-deb12000", "SubnetId": "`+subnet+`"}`).at("Vms.0.VmId")
	w.settle()
	if got := alice.must("ReadVms", `{}`).at("Vms.0.State"); got != "running" {
		t.Errorf("the VM is %s, want running", got)
	}
	for _, kind := range []string{"Net " + net, "Machine " + vm} {
		if _, ok := backend.has[kind]; !ok {
			t.Errorf("the drivers were not asked for the %s", kind)
		}
	}
	alice.must("DeleteVms", `{"VmIds": ["`+vm+`"]}`)
	w.settle()
	if _, ok := backend.get("Machine", vm); ok {
		t.Error("the machine is left")
	}
}
