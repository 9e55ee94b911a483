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

// nicPlan is how each new VM of a request is connected: by NICs in Nets, or to the
// public Cloud.
type nicPlan struct {
	list      []plannedNic       // in the order of device numbers; empty: in the public Cloud
	groups    []id.SecurityGroup // in the public Cloud
	addresses map[id.Subnet]int  // the number of addresses that one VM needs, by Subnet
	singleVm  string             // a parameter that limits the request to one VM; empty: there is none
}

// plannedNic is a NIC of a new VM.
type plannedNic struct {
	device       int
	existing     id.Nic         // empty: it will be created
	created      network.NewNic // unless it exists
	deleteWithVm bool
}

// defaultNicDescription is the description of a primary NIC that no request describes.
const defaultNicDescription = "Primary network interface"

// planNics checks how the VMs of a request will be connected.
func planNics(tx *resource.Tx, req *CreateVmsRequest) (nicPlan, error) {
	switch {
	case len(req.Nics) > 0:
		if err := req.checkOnlyNics(); err != nil {
			return nicPlan{}, err
		}
		return planListedNics(tx, req.Nics)
	case req.SubnetId != "":
		return planNicInSubnet(tx, req)
	case len(req.PrivateIps) > 0:
		return nicPlan{}, apierror.InvalidParameterSet.Errorf("PrivateIps are for VMs in a Subnet, and SubnetId is not given.")
	}
	groups, err := req.securityGroups(tx, "")
	return nicPlan{groups: groups}, err
}

// checkOnlyNics refuses parameters that each of Nics has for itself.
func (req *CreateVmsRequest) checkOnlyNics() error {
	refuse := func(name string, given bool) error {
		if given {
			return apierror.IncompatibleParameters.Errorf("%s and Nics cannot be given together: give it in each of Nics.", name)
		}
		return nil
	}
	return cmp.Or(
		refuse("SubnetId", req.SubnetId != ""), refuse("PrivateIps", len(req.PrivateIps) > 0),
		refuse("SecurityGroupIds", len(req.SecurityGroupIds) > 0), refuse("SecurityGroups", len(req.SecurityGroups) > 0),
	)
}

// securityGroups returns the security groups of a request, which names them or
// gives their IDs. An empty ID of a Net stands for the public Cloud.
func (req *CreateVmsRequest) securityGroups(tx *resource.Tx, net id.Net) ([]id.SecurityGroup, error) {
	groups := slices.Clone(req.SecurityGroupIds)
	for _, name := range distinct(req.SecurityGroups) {
		g, err := network.GroupNamed(tx, net, name)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g.SecurityGroupId)
	}
	return distinct(groups), nil
}

// distinct returns the values of a list in order, each once, because the work for
// each VM of a request must not grow with repetitions in the request.
func distinct[T cmp.Ordered](list []T) []T { return slices.Compact(slices.Sorted(slices.Values(list))) }

// planNicInSubnet plans one NIC, in the Subnet of the request.
func planNicInSubnet(tx *resource.Tx, req *CreateVmsRequest) (nicPlan, error) {
	subnet, err := network.Subnets.Get(tx, req.SubnetId)
	if err != nil {
		return nicPlan{}, err
	}
	n := plannedNic{created: network.NewNic{SubnetId: req.SubnetId, Description: defaultNicDescription}, deleteWithVm: true}
	if n.created.SecurityGroups, err = req.securityGroups(tx, subnet.NetId); err != nil {
		return nicPlan{}, err
	}
	p := nicPlan{}
	for i, ip := range req.PrivateIps {
		n.created.PrivateIps = append(n.created.PrivateIps, network.PrivateIpLight{IsPrimary: i == 0, PrivateIp: ip})
		p.singleVm = "PrivateIps"
	}
	p.list, p.addresses = []plannedNic{n}, map[id.Subnet]int{req.SubnetId: max(1, len(req.PrivateIps))}
	return p, nil
}

// planListedNics plans the NICs that a request lists.
func planListedNics(tx *resource.Tx, wanted []NicForVmCreation) (nicPlan, error) {
	p := nicPlan{addresses: map[id.Subnet]int{}}
	for i, w := range wanted {
		if w.DeviceNumber == nil && w.NicId == "" {
			return p, apierror.MissingParameter.Errorf("Nics.%d.DeviceNumber is required.", i)
		}
		n := w.planned(i)
		if slices.ContainsFunc(p.list, func(other plannedNic) bool { return other.device == n.device }) {
			return p, apierror.DeviceTaken.Errorf("Two of the Nics have the DeviceNumber %d.", n.device)
		}
		if err := w.check(i); err != nil {
			return p, err
		}
		if err := p.add(tx, n); err != nil {
			return p, err
		}
	}
	slices.SortFunc(p.list, func(a, b plannedNic) int { return cmp.Compare(a.device, b.device) })
	if p.list[0].device != 0 {
		return p, apierror.InvalidParameter.Errorf("None of the Nics has the DeviceNumber 0: every VM has a primary NIC.")
	}
	return p, nil
}

// planned returns the NIC that is at place i of a request.
func (n *NicForVmCreation) planned(i int) plannedNic {
	device := i
	if n.DeviceNumber != nil {
		device = int(*n.DeviceNumber)
	}
	if n.NicId != "" {
		return plannedNic{device: device, existing: n.NicId}
	}
	return plannedNic{
		device: device, deleteWithVm: n.DeleteOnVmDeletion == nil || *n.DeleteOnVmDeletion,
		created: network.NewNic{
			SubnetId: n.SubnetId, Description: n.Description, PrivateIps: n.PrivateIps, Secondary: n.SecondaryPrivateIpCount,
			SecurityGroups: distinct(n.SecurityGroupIds),
		},
	}
}

// add adds a NIC to the plan, and refuses an existing one that cannot be linked.
func (p *nicPlan) add(tx *resource.Tx, n plannedNic) error {
	p.list = append(p.list, n)
	if n.existing == "" {
		if len(n.created.PrivateIps) > 0 {
			p.singleVm = "PrivateIps"
		}
		p.addresses[n.created.SubnetId] += max(1, len(n.created.PrivateIps)) + n.created.Secondary
		return nil
	}
	p.singleVm = "NicId"
	nic, err := network.OwnNic(tx, n.existing)
	if err == nil && nic.LinkNic != nil {
		err = apierror.InUse.Errorf("The NIC %s is linked to the VM %s.", nic.NicId, nic.LinkNic.VmId)
	}
	return err
}

// check refuses a NIC, given its place in the list, whose parameters are neither
// those of an existing NIC nor those of a new one.
func (n *NicForVmCreation) check(i int) error {
	if n.NicId != "" {
		if n.describesNew() {
			return apierror.IncompatibleParameters.Errorf("Nics.%d.NicId names an existing NIC: parameters of a new one cannot be given with it.", i)
		}
		return nil
	}
	primaries := 0
	for _, ip := range n.PrivateIps {
		if ip.IsPrimary {
			primaries++
		}
	}
	switch {
	case n.SubnetId == "":
		return apierror.MissingParameter.Errorf("Nics.%d.SubnetId or Nics.%d.NicId is required.", i, i)
	case n.SecondaryPrivateIpCount < 0:
		return apierror.InvalidValue.Errorf("Nics.%d.SecondaryPrivateIpCount is %d. The minimum is 0.", i, n.SecondaryPrivateIpCount)
	case n.SecondaryPrivateIpCount > 0 && len(n.PrivateIps) > 1:
		return apierror.IncompatibleParameters.Errorf("Nics.%d.SecondaryPrivateIpCount cannot be given with more than one of PrivateIps.", i)
	case primaries > 1:
		return apierror.IncompatibleParameters.Errorf("Nics.%d.PrivateIps has %d primary IPs. The maximum is 1.", i, primaries)
	}
	return nil
}

// describesNew reports whether a parameter is given that only a new NIC has.
func (n *NicForVmCreation) describesNew() bool {
	return n.SubnetId != "" || n.Description != "" || len(n.PrivateIps) > 0 || n.SecondaryPrivateIpCount != 0 || len(n.SecurityGroupIds) > 0
}

// inNet sets the Subregion to that of the primary NIC, and the tenancy to that of
// its Net where the Net requires one.
func (at *Placement) inNet(tx *resource.Tx, primary plannedNic) error {
	subregion, netID, err := primary.where(tx)
	if err != nil {
		return err
	}
	if at.SubregionName != "" && at.SubregionName != subregion {
		return apierror.SubregionMismatch.Errorf("The Subnet is in %s, and Placement.SubregionName is %s.", subregion, at.SubregionName)
	}
	at.SubregionName = subregion
	net, err := network.Nets.Get(tx, netID)
	if err != nil || net.Tenancy == network.TenancyDefault {
		return err
	}
	if at.Tenancy == network.TenancyDefault || net.Tenancy != network.TenancyDedicated {
		at.Tenancy = net.Tenancy
	}
	return nil
}

// where returns the Subregion and the Net of the NIC.
func (n *plannedNic) where(tx *resource.Tx) (subregion string, net id.Net, err error) {
	if n.existing != "" {
		nic, err := network.OwnNic(tx, n.existing)
		if err != nil {
			return "", "", err
		}
		return nic.SubregionName, nic.NetId, nil
	}
	s, err := network.Subnets.Get(tx, n.created.SubnetId)
	if err != nil {
		return "", "", err
	}
	return s.SubregionName, s.NetId, nil
}

// connect links the NICs of the plan to a new VM.
func (p *nicPlan) connect(tx *resource.Tx, region network.Region, v *Vm) error {
	if len(p.list) == 0 {
		_, err := region.AddCloudNic(tx, v.VmId, v.Placement.SubregionName, p.groups)
		return err
	}
	for _, planned := range p.list {
		n, err := planned.ensure(tx, region)
		if err != nil {
			return err
		}
		if err := n.Link(tx, v.VmId, planned.device, planned.deleteWithVm); err != nil {
			return err
		}
	}
	return nil
}

// ensure returns the existing NIC, or creates it.
func (n *plannedNic) ensure(tx *resource.Tx, region network.Region) (*network.Nic, error) {
	if n.existing != "" {
		return network.OwnNic(tx, n.existing)
	}
	return n.created.Create(tx, region)
}

// checkRoom refuses n VMs if a Subnet has too few free addresses for them.
func (p *nicPlan) checkRoom(tx *resource.Tx, n int) error {
	for subnet, each := range p.addresses {
		if free := network.FreeIps(tx, subnet); n*each > free {
			return apierror.InsufficientCapacity.Errorf("The Subnet %s has %d free addresses, and %d are needed.", subnet, free, n*each)
		}
	}
	return nil
}
