package compute

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// launchPlan is a checked request for VMs that are alike.
type launchPlan struct {
	vm             Vm // what the VMs have in common
	nics           nicPlan
	disks          []plannedDisk
	userDataLength int // characters in Base64
}

// planLaunch checks a request. It writes nothing but user data that are stored
// apart from their VMs.
func (region Region) planLaunch(tx *resource.Tx, req *CreateVmsRequest) (*launchPlan, error) {
	owner, image, err := launchable(tx, req.ImageId)
	switch {
	case err != nil:
		return nil, err
	case req.BsuOptimized:
		return nil, apierror.InvalidConfiguration.Errorf("BsuOptimized is not available.")
	}
	p := &launchPlan{vm: newVm(tx, image, req), userDataLength: len(req.UserData)}
	if err := region.configure(tx, &p.vm, image, req); err != nil {
		return nil, err
	}
	if p.nics, err = planNics(tx, req); err != nil {
		return nil, err
	}
	if err := region.setPlacement(tx, &p.vm, req.Placement, p.nics); err != nil {
		return nil, err
	}
	p.disks, err = region.planDisks(tx, owner, image, p.vm.Placement.SubregionName, req.BlockDeviceMappings)
	return p, err
}

// newVm returns a VM with what follows from its image and a request by itself.
func newVm(tx *resource.Tx, image *Image, req *CreateVmsRequest) Vm {
	v := Vm{
		Architecture: string(image.Architecture), ClientToken: string(req.ClientToken), CreationDate: api.At(tx.Now()),
		DeletionProtection: req.DeletionProtection, Hypervisor: "xen", ImageId: image.ImageId, KeypairName: req.KeypairName,
		NestedVirtualization: req.NestedVirtualization, ProductCodes: image.ProductCodes,
		RootDeviceName: image.RootDeviceName, RootDeviceType: "ebs",
		ReservationId: "r-" + resource.Random(tx.Rand(), 8, resource.Hexadecimal),
		Running:       req.BootOnCreation, PrivateOnly: req.UserData.orders().privateOnly, Generation: 1,
	}
	if req.ClientToken != "" {
		v.Asked = digest(req)
	}
	if req.BootOnCreation {
		v.Boots = 1
	}
	return v
}

// configure sets the options of a new VM.
func (region Region) configure(tx *resource.Tx, v *Vm, image *Image, req *CreateVmsRequest) error {
	if err := v.setUserData(tx, req.UserData); err != nil {
		return err
	}
	if err := v.setShutdown(req.VmInitiatedShutdownBehavior, req.ShutdownBehaviorConfiguration); err != nil {
		return err
	}
	if err := v.setKeypair(tx, req.KeypairName); err != nil {
		return err
	}
	if err := v.setBoot(image, req); err != nil {
		return err
	}
	name := req.VmType
	if name == "" {
		name = defaultVmType
	}
	return region.setType(v, name, req.Performance)
}

// setPlacement sets where a new VM runs: in the requested Subregion, or in that of
// its Subnet.
func (region Region) setPlacement(tx *resource.Tx, v *Vm, asked *Placement, nics nicPlan) error {
	at := Placement{}
	if asked != nil {
		at = *asked
	}
	if at.Tenancy == "" {
		at.Tenancy = network.TenancyDefault
	}
	if at.SubregionName != "" {
		if err := region.checkSubregion(at.SubregionName); err != nil {
			return err
		}
	}
	if len(nics.list) > 0 {
		if err := at.inNet(tx, nics.list[0]); err != nil {
			return err
		}
	}
	if at.SubregionName == "" {
		at.SubregionName = region.Subregions[0]
	}
	v.Placement = at
	if err := v.joinDedicatedGroup(tx); err != nil {
		return err
	}
	return v.checkNested()
}
