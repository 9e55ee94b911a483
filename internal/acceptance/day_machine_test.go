package acceptance

import (
	"context"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// guests has the guest of a machine shut down, or its host fail.
func (d *day) guests(t *rapid.T) {
	machines, err := d.w.sim.ObserveMachines(context.Background())
	if err != nil {
		t.Fatalf("observing the driver: %v", err)
	}
	if len(machines) == 0 {
		return
	}
	slices.SortFunc(machines, func(a, b driver.MachineStatus) int { return strings.Compare(a.Account+a.ID, b.Account+b.ID) })
	m := rapid.SampledFrom(machines).Draw(t, "machine")
	if rapid.Bool().Draw(t, "guest") {
		d.w.sim.ShutDownGuest(m.Account, m.ID)
	} else {
		d.w.sim.FailHost(m.Account, m.ID)
	}
}

// checkVms makes sure that every VM has come to rest and has a primary NIC and its
// volumes, and that what is linked to a VM is linked to one that is there.
func (d *day) checkVms(name string) {
	d.w.view(name, func(tx *resource.Tx) error {
		groups := map[compute.VmGroupState]bool{compute.VmGroupAvailable: true}
		for g := range compute.VmGroups.All(tx) {
			if !groups[g.State] {
				d.w.t.Errorf("the VM group %s stays %s", g.VmGroupId, g.State)
			}
		}
		for v := range compute.Vms.All(tx) {
			if v.Pending() || v.State != compute.VmRunning && v.State != compute.VmStopped || v.Running != (v.State == compute.VmRunning) {
				d.w.t.Errorf("the VM %s stays %s, at %d of %d", v.VmId, v.State, v.ObservedGeneration, v.Generation)
			}
			if nics := network.VmNics(tx, v.VmId); len(nics) == 0 || nics[0].LinkNic.DeviceNumber != 0 {
				d.w.t.Errorf("the VM %s has the NICs %v", v.VmId, nics)
			}
		}
		return nil
	})
}

// checkMachines makes sure that the driver has the machines of the VMs that there
// are, on or off as they are, and no others.
func (d *day) checkMachines() {
	want, got := map[string]bool{}, map[string]bool{}
	for _, name := range d.people {
		for _, o := range d.objects(name, "Vm") {
			want[o.ID] = o.Value.(*compute.Vm).Running
		}
	}
	machines, err := d.w.sim.ObserveMachines(context.Background())
	if err != nil {
		d.w.t.Fatalf("observing the driver: %v", err)
	}
	for _, m := range machines {
		got[m.ID] = m.On
	}
	if !maps.Equal(want, got) {
		d.w.t.Errorf("the driver has the machines %v, and the store the VMs %v", got, want)
	}
}
