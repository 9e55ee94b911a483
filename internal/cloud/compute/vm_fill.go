package compute

import (
	"maps"
	"sort"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// fleet is what the VMs of an account have together.
type fleet struct{ vms, cores, memory int }

func fleetOf(tx *resource.Tx) fleet {
	sums := Vms.Sums(tx)
	return fleet{vms: Vms.Count(tx), cores: int(sums[0]), memory: int(sums[1])}
}

// grow refuses more cores and memory than the quotas allow. What was above a
// limit already may stay.
func (f fleet) grow(tx *resource.Tx, cores, memory int) error {
	if cores > 0 {
		if err := tx.CheckLimit("core_limit", apierror.TooManyCores, f.cores+cores); err != nil {
			return err
		}
	}
	if memory > 0 {
		return tx.CheckLimit("memory_limit", apierror.TooMuchMemory, f.memory+memory)
	}
	return nil
}

func vmMeters() []resource.Meter {
	read := func(quota string, use func(fleet) int) resource.Meter {
		return resource.GlobalMeter(quota, func(tx *resource.Tx) int { return use(fleetOf(tx)) })
	}
	return []resource.Meter{
		read("core_limit", func(f fleet) int { return f.cores }),
		read("memory_limit", func(f fleet) int { return f.memory }),
	}
}

// fill makes as many VMs of an order as there is room for, between two numbers.
func (region Region) fill(tx *resource.Tx, o *order, least, most int) ([]*Vm, error) {
	if most > 1 && o.plug.single != "" {
		return nil, apierror.InvalidParameterSet.Errorf("%s is for one VM, and the call makes up to %d.", o.plug.single, most)
	}
	used, storage, volumes := fleetOf(tx), storageOf(tx), Volumes.Count(tx)
	fits := func(n int) error {
		if n*o.userData > maxUserDataPerCall {
			return apierror.InvalidLength.Errorf("UserData of %d characters for %d VMs (MinVmsCount) are %d: one call takes %d, and so makes at most %d such VMs.",
				o.userData, n, n*o.userData, maxUserDataPerCall, maxUserDataPerCall/o.userData)
		}
		if err := tx.CheckLimit("vm_limit", apierror.TooManyVms, used.vms+n); err != nil {
			return err
		}
		if err := used.grow(tx, n*o.vm.Vcores, n*o.vm.Memory); err != nil {
			return err
		}
		if err := tx.CheckLimit("volume_limit", apierror.TooManyVolumes, volumes+n*len(o.disks)); err != nil {
			return err
		}
		total := storage
		total.types = maps.Clone(storage.types)
		for _, d := range o.disks {
			p := d.volume.parameters()
			p.Size, p.Iops = n*p.Size, n*p.Iops
			if err := total.change(tx, VolumeUpdateParameters{}, p); err != nil {
				return err
			}
		}
		return o.plug.fits(tx, n)
	}
	n := sort.Search(most, func(i int) bool { return fits(i+1) != nil })
	if n < least {
		return nil, fits(least)
	}
	var made []*Vm
	for i := range n {
		v, err := region.makeVm(tx, o, i, &storage)
		if err != nil {
			return nil, err
		}
		made = append(made, v)
	}
	return made, nil
}

// makeVm makes one VM of an order, with its NICs and volumes.
func (region Region) makeVm(tx *resource.Tx, o *order, number int, used *storage) (*Vm, error) {
	v := o.vm
	v.LaunchNumber = number
	if err := Vms.Insert(tx, &v); err != nil {
		return nil, err
	}
	if err := region.plugIn(tx, &v, o.plug); err != nil {
		return nil, err
	}
	if v.Running {
		if err := region.goPublic(tx, &v); err != nil {
			return nil, err
		}
	}
	for _, d := range o.disks {
		volume := d.volume
		volume.linkTo(tx, v.VmId, d.device, d.deleteWithVm)
		if err := used.insert(tx, &volume); err != nil {
			return nil, err
		}
	}
	return &v, nil
}

// fits refuses more VMs than there are addresses for in each of the Subnets.
func (p plug) fits(tx *resource.Tx, n int) error {
	for subnet, each := range p.addresses {
		if free := network.FreeIps(tx, subnet); n*each > free {
			return apierror.InsufficientCapacity.Errorf("The Subnet %s has %d free addresses left, and %d are needed.", subnet, free, n*each)
		}
	}
	return nil
}
