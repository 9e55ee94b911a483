package compute

import (
	"cmp"
	"slices"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NicForVmCreation is a NIC for a new VM: one that exists, or a new one.
type NicForVmCreation struct {
	// Whether a new NIC is deleted when the VM is. By default, true. One that exists is
	// unlinked then.
	DeleteOnVmDeletion *bool
	Description        string // A description of a new NIC.
	// The number of the NIC among those of the VM, between 0 and 7. It is required for a new
	// NIC. By default, the place of the NIC in the list.
	DeviceNumber *Device
	// The ID of a NIC that exists and is linked to no VM.
	NicId id.Nic
	// The private IPs of a new NIC. If none of them is the primary one, one is chosen.
	PrivateIps []network.PrivateIpLight
	// The number of secondary private IPs to choose for a new NIC. It cannot be
	// given with more than one private IP.
	SecondaryPrivateIpCount int
	// The IDs of the security groups of a new NIC. By default, the default one of the Net.
	SecurityGroupIds []id.SecurityGroup
	// The ID of the Subnet of a new NIC. It is required for one.
	SubnetId id.Subnet
}

// Device is the number of a NIC of a VM.
type Device int

// Bounds implements [api.Bounded].
func (Device) Bounds() (low, high int64) { return 0, 7 }

// plug is how a new VM is connected: by NICs in Nets, or to the public Cloud.
type plug struct {
	nics      []plannedNic       // by device number; none: in the public Cloud
	groups    []id.SecurityGroup // in the public Cloud
	addresses map[id.Subnet]int  // how many addresses one VM needs in each Subnet
	single    string             // the parameter for which there is one VM only; empty: none
}

// plannedNic is a NIC that a new VM gets.
type plannedNic struct {
	device       int
	existing     id.Nic
	made         network.NewNic // unless it exists
	deleteWithVm bool
}

// primaryNic is the description of a NIC that nobody asked for.
const primaryNic = "Primary network interface"

// plan checks how the VMs of a request are to be connected.
func (region Region) plan(tx *resource.Tx, req *CreateVmsRequest) (plug, error) {
	switch {
	case len(req.Nics) > 0:
		given := func(name string, is bool) error {
			if is {
				return apierror.IncompatibleParameters.Errorf("%s and Nics cannot be given together: each NIC says its own.", name)
			}
			return nil
		}
		if err := cmp.Or(
			given("SubnetId", req.SubnetId != ""), given("PrivateIps", len(req.PrivateIps) > 0),
			given("SecurityGroupIds", len(req.SecurityGroupIds) > 0), given("SecurityGroups", len(req.SecurityGroups) > 0),
		); err != nil {
			return plug{}, err
		}
		return planNics(tx, req.Nics)
	case req.SubnetId != "":
		return planSubnet(tx, req)
	case len(req.PrivateIps) > 0:
		return plug{}, apierror.InvalidParameterSet.Errorf("PrivateIps are for VMs in a Subnet, and SubnetId is not given.")
	}
	groups, err := groupsOf(tx, "", req)
	return plug{groups: groups}, err
}

// groupsOf are the security groups of a request, by their names and IDs.
func groupsOf(tx *resource.Tx, net id.Net, req *CreateVmsRequest) ([]id.SecurityGroup, error) {
	groups := slices.Clone(req.SecurityGroupIds)
	for _, name := range once(req.SecurityGroups) {
		g, err := network.GroupNamed(tx, net, name)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g.SecurityGroupId)
	}
	return once(groups), nil
}

// once is a list in order, with each of its members once: what is done for each
// VM of a request must not depend on how often the request says it.
func once[T cmp.Ordered](list []T) []T { return slices.Compact(slices.Sorted(slices.Values(list))) }

// planSubnet is a VM with one NIC in a Subnet.
func planSubnet(tx *resource.Tx, req *CreateVmsRequest) (plug, error) {
	subnet, err := network.Subnets.Get(tx, req.SubnetId)
	if err != nil {
		return plug{}, err
	}
	n := plannedNic{made: network.NewNic{SubnetId: req.SubnetId, Description: primaryNic}, deleteWithVm: true}
	if n.made.SecurityGroups, err = groupsOf(tx, subnet.NetId, req); err != nil {
		return plug{}, err
	}
	p := plug{}
	for i, ip := range req.PrivateIps {
		n.made.PrivateIps = append(n.made.PrivateIps, network.PrivateIpLight{IsPrimary: i == 0, PrivateIp: ip})
		p.single = "PrivateIps"
	}
	p.nics, p.addresses = []plannedNic{n}, map[id.Subnet]int{req.SubnetId: max(1, len(req.PrivateIps))}
	return p, nil
}

// planNics is a VM with the NICs of a list.
func planNics(tx *resource.Tx, wanted []NicForVmCreation) (plug, error) {
	p := plug{addresses: map[id.Subnet]int{}}
	for i, w := range wanted {
		n := plannedNic{device: i, existing: w.NicId, deleteWithVm: w.NicId == "" && (w.DeleteOnVmDeletion == nil || *w.DeleteOnVmDeletion)}
		switch {
		case w.DeviceNumber != nil:
			n.device = int(*w.DeviceNumber)
		case w.NicId == "":
			return p, apierror.MissingParameter.Errorf("Nics.%d.DeviceNumber is required.", i)
		}
		if slices.ContainsFunc(p.nics, func(other plannedNic) bool { return other.device == n.device }) {
			return p, apierror.DeviceTaken.Errorf("Two of the Nics have the DeviceNumber %d.", n.device)
		}
		if err := w.check(i); err != nil {
			return p, err
		}
		if w.NicId != "" {
			p.single = "NicId"
			nic, err := network.OwnNic(tx, w.NicId)
			switch {
			case err != nil:
				return p, err
			case nic.LinkNic != nil:
				return p, apierror.InUse.Errorf("The NIC %s is linked to %s already.", nic.NicId, nic.LinkNic.VmId)
			}
			p.nics = append(p.nics, n)
			continue
		}
		if len(w.PrivateIps) > 0 {
			p.single = "PrivateIps"
		}
		n.made = network.NewNic{
			SubnetId: w.SubnetId, Description: w.Description, PrivateIps: w.PrivateIps, Secondary: w.SecondaryPrivateIpCount, SecurityGroups: once(w.SecurityGroupIds),
		}
		p.addresses[w.SubnetId] += max(1, len(w.PrivateIps)) + w.SecondaryPrivateIpCount
		p.nics = append(p.nics, n)
	}
	slices.SortFunc(p.nics, func(a, b plannedNic) int { return cmp.Compare(a.device, b.device) })
	if p.nics[0].device != 0 {
		return p, apierror.InvalidParameter.Errorf("None of the Nics has the DeviceNumber 0: that is the primary one, which every VM has.")
	}
	return p, nil
}

// check refuses a NIC, given its place in the list, that says too little or too
// much for one that exists or a new one.
func (n *NicForVmCreation) check(i int) error {
	primaries := 0
	for _, ip := range n.PrivateIps {
		if ip.IsPrimary {
			primaries++
		}
	}
	made := n.SubnetId != "" || n.Description != "" || len(n.PrivateIps) > 0 || n.SecondaryPrivateIpCount != 0 || len(n.SecurityGroupIds) > 0
	switch {
	case n.NicId != "" && made:
		return apierror.IncompatibleParameters.Errorf("Nics.%d.NicId is that of a NIC that exists: nothing that a new one is made with can be given with it.", i)
	case n.NicId != "":
		return nil
	case n.SubnetId == "":
		return apierror.MissingParameter.Errorf("Nics.%d.SubnetId is required, or NicId.", i)
	case n.SecondaryPrivateIpCount < 0:
		return apierror.InvalidValue.Errorf("Nics.%d.SecondaryPrivateIpCount is at least 0.", i)
	case n.SecondaryPrivateIpCount > 0 && len(n.PrivateIps) > 1:
		return apierror.IncompatibleParameters.Errorf("Nics.%d.SecondaryPrivateIpCount cannot be given with more than one of PrivateIps.", i)
	case primaries > 1:
		return apierror.IncompatibleParameters.Errorf("Nics.%d.PrivateIps has %d that are the primary one.", i, primaries)
	}
	return nil
}

// place says where VMs run that are connected so. In a Net, that is where the
// Subnet is, on hardware that the Net says.
func (region Region) place(tx *resource.Tx, asked *Placement, p *plug) (Placement, error) {
	at := Placement{}
	if asked != nil {
		at = *asked
	}
	if at.Tenancy == "" {
		at.Tenancy = network.TenancyDefault
	}
	if at.SubregionName != "" {
		if err := region.checkSubregion(at.SubregionName); err != nil {
			return at, err
		}
	}
	if len(p.nics) == 0 {
		if at.SubregionName == "" {
			at.SubregionName = region.Subregions[0]
		}
		return at, nil
	}
	subregion, netID, err := p.where(tx)
	if err != nil {
		return at, err
	}
	if at.SubregionName != "" && at.SubregionName != subregion {
		return at, apierror.SubregionMismatch.Errorf("The Subnet is in %s, and Placement.SubregionName is %s.", subregion, at.SubregionName)
	}
	at.SubregionName = subregion
	net, err := network.Nets.Get(tx, netID)
	switch {
	case err != nil || net.Tenancy == network.TenancyDefault:
	case at.Tenancy == network.TenancyDefault || net.Tenancy != network.TenancyDedicated:
		at.Tenancy = net.Tenancy
	}
	return at, err
}

// where is the Subregion and the Net of the primary NIC.
func (p *plug) where(tx *resource.Tx) (subregion string, net id.Net, err error) {
	if primary := p.nics[0]; primary.existing != "" {
		n, err := network.OwnNic(tx, primary.existing)
		if err != nil {
			return "", "", err
		}
		return n.SubregionName, n.NetId, nil
	}
	s, err := network.Subnets.Get(tx, p.nics[0].made.SubnetId)
	if err != nil {
		return "", "", err
	}
	return s.SubregionName, s.NetId, nil
}

// plugIn connects a new VM.
func (region Region) plugIn(tx *resource.Tx, v *Vm, p plug) error {
	if len(p.nics) == 0 {
		_, err := region.Network.AddCloudNic(tx, v.VmId, v.Placement.SubregionName, p.groups)
		return err
	}
	for _, planned := range p.nics {
		n, err := planned.nic(tx, region.Network)
		if err != nil {
			return err
		}
		if err := n.Link(tx, v.VmId, planned.device, planned.deleteWithVm); err != nil {
			return err
		}
	}
	return nil
}

func (n *plannedNic) nic(tx *resource.Tx, region network.Region) (*network.Nic, error) {
	if n.existing != "" {
		return network.OwnNic(tx, n.existing)
	}
	return n.made.Create(tx, region)
}

// primary is the NIC by which a VM is known.
func (v *Vm) primary(tx *resource.Tx) (*network.Nic, error) {
	for _, n := range network.VmNics(tx, v.VmId) {
		return n, nil
	}
	return nil, Vms.ErrNotFound(v.VmId)
}
