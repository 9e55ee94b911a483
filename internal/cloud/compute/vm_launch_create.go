package compute

import (
	"maps"
	"sort"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// launch creates as many VMs of a plan as there is room for, between two numbers.
func (region Region) launch(tx *resource.Tx, p *launchPlan, least, most int) ([]*Vm, error) {
	if most > 1 && p.nics.singleVm != "" {
		return nil, apierror.InvalidParameterSet.Errorf("%s is for one VM, and MaxVmsCount is %d.", p.nics.singleVm, most)
	}
	used := usageOf(tx)
	n := sort.Search(most, func(i int) bool { return used.checkRoom(tx, p, i+1) != nil })
	if n < least {
		return nil, used.checkRoom(tx, p, least)
	}
	vms := make([]*Vm, 0, n)
	for i := range n {
		v, err := region.createVm(tx, p, i, &used.storage)
		if err != nil {
			return nil, err
		}
		vms = append(vms, v)
	}
	return vms, nil
}

// usage is what an account uses before a launch, for each quota that a VM counts to.
type usage struct {
	fleet   fleet
	volumes int
	storage storage
}

func usageOf(tx *resource.Tx) usage {
	return usage{fleet: fleetOf(tx), volumes: Volumes.Count(tx), storage: storageOf(tx)}
}

// checkRoom refuses n VMs of a plan if a quota, a Subnet or the answer has no room
// for them.
func (u *usage) checkRoom(tx *resource.Tx, p *launchPlan, n int) error {
	if total := n * p.userDataLength; total > maxUserDataPerCall {
		return apierror.InvalidLength.Errorf(
			"UserData of %d characters for %d VMs (MinVmsCount) are %d in total. The maximum is %d, which allows at most %d such VMs.",
			p.userDataLength, n, total, maxUserDataPerCall, maxUserDataPerCall/p.userDataLength)
	}
	if err := tx.CheckLimit("vm_limit", apierror.TooManyVms, u.fleet.vms+n); err != nil {
		return err
	}
	if err := u.fleet.grow(tx, n*p.vm.Vcores, n*p.vm.Memory); err != nil {
		return err
	}
	if err := u.checkVolumes(tx, p.disks, n); err != nil {
		return err
	}
	return p.nics.checkRoom(tx, n)
}

// checkVolumes refuses n times the disks of a VM if the quotas of volumes do not
// allow them.
func (u *usage) checkVolumes(tx *resource.Tx, disks []plannedDisk, n int) error {
	if err := tx.CheckLimit("volume_limit", apierror.TooManyVolumes, u.volumes+n*len(disks)); err != nil {
		return err
	}
	total := u.storage
	total.types = maps.Clone(u.storage.types)
	for _, d := range disks {
		p := d.volume.parameters()
		p.Size, p.Iops = n*p.Size, n*p.Iops
		if err := total.change(tx, VolumeUpdateParameters{}, p); err != nil {
			return err
		}
	}
	return nil
}

// createVm creates a VM of a plan, with its NICs and volumes.
func (region Region) createVm(tx *resource.Tx, p *launchPlan, number int, used *storage) (*Vm, error) {
	v := p.vm
	v.LaunchNumber = number
	if err := Vms.Insert(tx, &v); err != nil {
		return nil, err
	}
	if err := p.nics.connect(tx, region.Network, &v); err != nil {
		return nil, err
	}
	if v.Running {
		if err := region.assignPublicIP(tx, &v); err != nil {
			return nil, err
		}
	}
	for _, d := range p.disks {
		volume := d.volume
		volume.linkTo(tx, v.VmId, d.device, d.deleteWithVm)
		if err := used.insert(tx, &volume); err != nil {
			return nil, err
		}
	}
	return &v, nil
}
