package network

import (
	"cmp"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// LinkNic is the link between a NIC and a VM.
type LinkNic struct {
	DeleteOnVmDeletion bool // Whether the NIC is deleted when the VM is.
	// The number of the NIC among those of the VM, between 0 and 7. 0 is the primary one.
	DeviceNumber int
	LinkNicId    id.LinkNic   `ref:"-"` // The ID of the link.
	State        LinkNicState // The state of the link.
	VmAccountId  id.Account   `json:"-" ref:"-"` // The account ID of the owner of the VM.
	VmId         id.Vm        `ref:"weak"`       // The ID of the VM.

	LinkDate api.DateTime `wire:"-"` // when it was linked
}

// LinkNicState is the state of the link between a NIC and a VM.
type LinkNicState string

// LinkNicAttached is the state of every link.
const LinkNicAttached LinkNicState = "attached"

// Literals implements [api.Enum].
func (LinkNicState) Literals() []string {
	return []string{"attaching", "attached", "detaching", "detached"}
}

// The events of the link between a NIC and a VM.
const (
	nicLinked   lifecycle.Event[LinkNicState] = "linked"
	nicUnlinked lifecycle.Event[LinkNicState] = "unlinked"
)

// nicLinkLife is the life of the link between a NIC and a VM, which works at once
// and is gone at once.
var nicLinkLife = lifecycle.Table[LinkNicState]{
	"":              {nicLinked: LinkNicAttached},
	LinkNicAttached: {nicUnlinked: ""},
}

// VmNics are the NICs of a VM by device number, those that nobody is shown
// among them. A VM has one as long as it is there: the primary one.
func VmNics(tx *resource.Tx, vm id.Vm) []*Nic {
	nics := slices.Collect(Nics.Where(tx, "LinkNic.VmId", string(vm)))
	slices.SortFunc(nics, func(a, b *Nic) int { return cmp.Compare(a.LinkNic.DeviceNumber, b.LinkNic.DeviceNumber) })
	return nics
}

// vmNics are the NICs of a VM that is there.
func vmNics(tx *resource.Tx, vm id.Vm) ([]*Nic, error) {
	nics := VmNics(tx, vm)
	if len(nics) == 0 || nics[0].LinkNic.DeviceNumber != 0 {
		return nil, apierror.VmNotFound.NotFound("VmId", string(vm))
	}
	return nics, nil
}

// AddCloudNic gives a VM of the public Cloud the NIC that it is connected by,
// which is its primary one and which nobody is shown. Its private address is
// one that no other VM there has. It has a public one once it is given to
// [Region.Lend]. No groups: the default one of the public Cloud.
func (region Region) AddCloudNic(tx *resource.Tx, vm id.Vm, subregion string, groups []id.SecurityGroup) (*Nic, error) {
	lights, err := groupsIn(tx, "", groups)
	if err != nil {
		return nil, err
	}
	ip, err := allocateAddress(tx, publicCloud)
	if err != nil {
		return nil, err
	}
	n := &Nic{Service: string(vm), SecurityGroups: lights, SubregionName: subregion, MacAddress: randomMac(tx)}
	n.setAddresses([]api.IPv4{ip})
	if err := n.join(tx, vm, 0, true); err != nil {
		return nil, err
	}
	if err := Nics.Insert(tx, n); err != nil {
		return nil, err
	}
	return n, n.touch(tx)
}

// Link links a NIC to a VM: device 0 makes the VM known here, and the others
// follow, from the same Net and Subregion.
func (n *Nic) Link(tx *resource.Tx, vm id.Vm, device int, deleteOnVmDeletion bool) error {
	if err := n.join(tx, vm, device, deleteOnVmDeletion); err != nil {
		return err
	}
	return n.save(tx)
}

// join is the part of [Nic.Link] before the NIC is written, be it one that is only
// being made.
func (n *Nic) join(tx *resource.Tx, vm id.Vm, device int, deleteOnVmDeletion bool) error {
	nics := VmNics(tx, vm)
	if device > 0 {
		var err error
		if nics, err = vmNics(tx, vm); err != nil {
			return err
		}
	}
	if n.LinkNic != nil {
		return apierror.InUse.Errorf("The NIC %s is linked to %s already.", n.NicId, n.LinkNic.VmId)
	}
	for _, other := range nics {
		switch {
		case other.NetId != n.NetId:
			return apierror.InvalidParameter.Errorf("The NIC %s is in %s, where %s is not.", n.NicId, n.NetId, vm)
		case other.SubregionName != n.SubregionName:
			return apierror.InvalidParameter.Errorf(
				"The NIC %s is in the Subregion %s, and %s in %s.", n.NicId, n.SubregionName, vm, other.SubregionName)
		case other.LinkNic.DeviceNumber == device:
			return apierror.DeviceTaken.Errorf("The device %d of %s is %s.", device, vm, other.NicId)
		}
	}
	n.LinkNic = &LinkNic{
		DeleteOnVmDeletion: deleteOnVmDeletion, DeviceNumber: device, VmId: vm, LinkDate: api.At(tx.Now()),
		LinkNicId: unused[id.LinkNic](tx, func(link string) bool { return first(Nics.Where(tx, "LinkNic.LinkNicId", link)) != nil }),
	}
	resource.Advance(tx, nicLinkLife, &n.LinkNic.State, nicLinked)
	return nil
}

// leave ends the link of a NIC to its VM, if it has one. The VM itself ends with the
// link of its primary NIC. The caller writes or deletes the NIC.
func (n *Nic) leave(tx *resource.Tx) error {
	if n.LinkNic == nil {
		return nil
	}
	link := *n.LinkNic
	if link.DeviceNumber == 0 {
		if err := noteVmEnd(tx, link.VmId); err != nil {
			return err
		}
	}
	n.LinkNic = nil
	tx.Touch(link.VmId)
	resource.Advance(tx, nicLinkLife, &link.State, nicUnlinked)
	return nil
}

// Unlink takes a NIC from its VM. Its public IPs stay with it.
func (n *Nic) Unlink(tx *resource.Tx) error {
	if err := n.leave(tx); err != nil {
		return err
	}
	return n.save(tx)
}

// LinkNicRequest links a NIC to a VM of the same Net and Subregion, as one of
// its further NICs.
type LinkNicRequest struct {
	// The number that the NIC shall have among those of the VM, between 1 and 7.
	DeviceNumber FurtherDevice `api:"required"`
	NicId        id.Nic        `api:"required"` // The ID of the NIC to link. It is linked to no VM.
	VmId         id.Vm         `api:"required"` // The ID of the VM.
}

// FurtherDevice is the number of a NIC of a VM that is not its primary one.
type FurtherDevice int

// Bounds implements [api.Bounded].
func (FurtherDevice) Bounds() (low, high int64) { return 1, 7 }

// LinkNicResponse says which link was made.
type LinkNicResponse struct {
	LinkNicId id.LinkNic // The ID of the link.
}

func linkNic(tx *resource.Tx, req *LinkNicRequest) (*LinkNicResponse, error) {
	n, err := OwnNic(tx, req.NicId)
	if err != nil {
		return nil, err
	}
	if err := n.Link(tx, req.VmId, int(req.DeviceNumber), false); err != nil {
		return nil, err
	}
	return &LinkNicResponse{n.LinkNic.LinkNicId}, nil
}

// UnlinkNicRequest takes a NIC, which is not the primary one, from its VM.
type UnlinkNicRequest struct {
	LinkNicId id.LinkNic `api:"required"` // The ID of the link.
}

func unlinkNic(tx *resource.Tx, req *UnlinkNicRequest) error {
	n := first(Nics.Where(tx, "LinkNic.LinkNicId", string(req.LinkNicId)))
	if n == nil || n.Hidden() {
		return apierror.NicLinkNotFound.NotFound("LinkNicId", string(req.LinkNicId))
	}
	if n.LinkNic.DeviceNumber == 0 {
		return apierror.InvalidParameter.Errorf("The NIC %s is the primary one of %s, which cannot be unlinked.", n.NicId, n.LinkNic.VmId)
	}
	return n.Unlink(tx)
}
