package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Nic is a network interface card in a [Subnet]. Whoever uses an address of a
// Subnet has it through a NIC: VMs, and services such as a [NatService], whose
// NICs nobody is shown. A VM of the public Cloud has one as well, in no Subnet.
type Nic struct {
	// The account ID of the owner of the NIC.
	AccountId   id.Account `json:"-" ref:"-"`
	Description string     // The description of the NIC.
	// Whether the NIC only receives and sends packets that are addressed to or by it.
	IsSourceDestChecked bool
	// The VM that the NIC is linked to; absent if it is not.
	LinkNic *LinkNic
	// The public IP of the primary private IP; absent if it has none.
	LinkPublicIp *LinkPublicIp `json:"-"`
	MacAddress   string        // The MAC address of the NIC.
	// The ID of the Net that the NIC is in, which its Subnet keeps.
	NetId id.Net `ref:"weak"`
	NicId id.Nic // The ID of the NIC.
	// The private DNS name of the NIC: that of its primary private IP.
	PrivateDnsName string `json:"-"`
	// The private IPs of the NIC. The first one is the primary one.
	PrivateIps     []PrivateIp
	SecurityGroups []SecurityGroupLight // The security groups that the NIC is in, by ID.
	// The state of the NIC, which follows from its link.
	State         NicState  `json:"-"`
	SubnetId      id.Subnet // The ID of the Subnet that the NIC is in.
	SubregionName string    // The Subregion of the Subnet.
	Tags          []api.Tag // The tags of the NIC.

	// Service is the ID of the service, or of the VM of the public Cloud, that
	// the region made the NIC for; empty: it is the account's own, and shown.
	Service string `wire:"-"`
	// LoadBalancerName is the load balancer that Service names; empty: it is
	// something else.
	LoadBalancerName id.LoadBalancer `wire:"-" ref:"weak"`
	// Places are the addresses of the NIC with their Subnet. That they are
	// unique is what gives an address one owner only.
	Places []string `wire:"-"`
	// EphemeralIP says that the NIC gets an ephemeral public IP whenever it has none
	// of the account's.
	EphemeralIP bool `wire:"-"`
	// Told is the generation of the Net that told the driver of the NIC last.
	Told uint64 `wire:"-"`
}

// PrivateIp is an address of a NIC in its Subnet.
type PrivateIp struct {
	IsPrimary bool // Whether it is the primary private IP of the NIC.
	// The public IP that stands for it on the Internet; absent if it has none.
	LinkPublicIp   *LinkPublicIp `json:"-"`
	PrivateDnsName string        `json:"-"` // The private DNS name of the address.
	PrivateIp      api.IPv4      // The address.
}

// LinkPublicIp is a public IP as its NIC shows it.
type LinkPublicIp struct {
	// The ID of the link. Absent if the public IP is ephemeral.
	LinkPublicIpId id.LinkPublicIp `ref:"-"`
	PublicDnsName  string          // The public DNS name of the address.
	PublicIp       api.IPv4        // The public IP.
	// The account ID of the owner of the public IP. Absent if the public IP is ephemeral.
	PublicIpAccountId id.Account `ref:"-"`
	// The ID of the public IP. Absent if the public IP is ephemeral.
	PublicIpId id.PublicIp `ref:"-"`
}

// SecurityGroupLight is a security group as its members show it.
type SecurityGroupLight struct {
	SecurityGroupId   id.SecurityGroup // The ID of the security group.
	SecurityGroupName string           `json:"-"` // The name of the security group.
}

// Nics are the NICs of the region.
var Nics = &resource.Kind[Nic, id.Nic]{
	Name:     "Nic",
	Tag:      "network-interface",
	NotFound: apierror.NicNotFound,
	Unique:   []string{"Places", "MacAddress", "LinkNic.LinkNicId"},
	Conflict: apierror.InUse,
}

// NicState is the state of a NIC.
type NicState string

// The states of a NIC.
const (
	NicAvailable NicState = "available"
	NicInUse     NicState = "in-use"
)

// Literals implements [api.Enum].
func (NicState) Literals() []string { return []string{"available", "attaching", "in-use", "detaching"} }

// nicMeters read how many security groups a NIC has: a VM is in those of its
// NICs.
func nicMeters() []resource.Meter {
	return []resource.Meter{resource.GlobalMeter("vm_sg_limit", func(tx *resource.Tx) (most int) {
		for _, n := range Nics.Each(tx, 0) {
			most = max(most, len(n.SecurityGroups))
		}
		return most
	})}
}

func nicActions(region Region) []api.Action {
	r := api.NewResource(Nics, region.ShowNic)
	return []api.Action{
		api.Create(r, createNic, region.connect),
		api.Read[ReadNicsRequest](r),
		api.Update(r, updateNic),
		api.Delete[DeleteNicRequest](r, keepLinked, disconnect),
		api.Do("Nic", linkNic),
		api.Command("Nic", unlinkNic),
		api.Command("Nic", linkPrivateIps),
		api.Command("Nic", unlinkPrivateIps),
	}
}

// Hidden reports that the region made the NIC for a service.
func (n *Nic) Hidden() bool { return n.Service != "" }

// ShowNic completes a NIC, of whatever making, with all that is shown of it.
// What it answers is not to be stored.
func (region Region) ShowNic(tx *resource.Tx, n *Nic) *Nic {
	n.AccountId = id.Account(tx.Account())
	n.State = NicAvailable
	if n.LinkNic != nil {
		link := *n.LinkNic
		link.VmAccountId = n.AccountId
		n.LinkNic, n.State = &link, NicInUse
	}
	n.PrivateIps = slices.Clone(n.PrivateIps)
	for i := range n.PrivateIps {
		n.PrivateIps[i].PrivateDnsName = region.privateName(n.PrivateIps[i].PrivateIp)
	}
	for ip := range PublicIps.Where(tx, "NicId", string(n.NicId)) {
		if i := slices.Index(n.addresses(), ip.PrivateIp); i >= 0 {
			n.PrivateIps[i].LinkPublicIp = region.linkOf(tx, ip)
		}
	}
	n.PrivateDnsName, n.LinkPublicIp = n.PrivateIps[0].PrivateDnsName, n.PrivateIps[0].LinkPublicIp
	n.SecurityGroups = slices.Clone(n.SecurityGroups)
	for i, g := range n.SecurityGroups {
		if group := SecurityGroups.Find(tx, g.SecurityGroupId); group != nil {
			n.SecurityGroups[i].SecurityGroupName = group.SecurityGroupName
		}
	}
	slices.SortFunc(n.SecurityGroups, func(a, b SecurityGroupLight) int { return cmp.Compare(a.SecurityGroupId, b.SecurityGroupId) })
	return n
}

// OwnNic finds a NIC that is the account's own, and none that the region made
// for its own needs.
func OwnNic(tx *resource.Tx, nicID id.Nic) (*Nic, error) {
	n, err := Nics.Get(tx, nicID)
	if err == nil && n.Hidden() {
		return nil, Nics.ErrNotFound(nicID)
	}
	return n, err
}

// shownAs is what a caller knows of a NIC: its ID, or that of the service that
// it was made for.
func (n *Nic) shownAs() string {
	switch {
	case n.LoadBalancerName != "":
		return "the load balancer " + n.Service
	case n.Hidden():
		return n.Service
	case n.LinkNic != nil:
		return fmt.Sprintf("%s of %s", n.NicId, n.LinkNic.VmId)
	}
	return string(n.NicId)
}

// setAddresses sets the private IPs of a NIC, the primary one first.
func (n *Nic) setAddresses(ips []api.IPv4) {
	n.PrivateIps, n.Places = nil, nil
	for i, ip := range ips {
		n.PrivateIps = append(n.PrivateIps, PrivateIp{IsPrimary: i == 0, PrivateIp: ip})
		if n.SubnetId != "" { // in the public Cloud, takenAddresses keeps them unique
			n.Places = append(n.Places, place(n.SubnetId, ip))
		}
	}
}

// addresses are the private IPs of a NIC, the primary one first.
func (n *Nic) addresses() []api.IPv4 {
	ips := make([]api.IPv4, len(n.PrivateIps))
	for i, p := range n.PrivateIps {
		ips[i] = p.PrivateIp
	}
	return ips
}

// save writes a NIC that the driver must hear of.
func (n *Nic) save(tx *resource.Tx) error {
	if err := Nics.Put(tx, n); err != nil {
		return err
	}
	return n.touch(tx)
}

// touch makes the driver hear of a change of a NIC, if it is in a Net.
func (n *Nic) touch(tx *resource.Tx) error {
	if n.LinkNic != nil {
		tx.Touch(n.LinkNic.VmId)
	}
	if n.NetId == "" {
		return nil
	}
	if err := touch(tx, n.NetId); err != nil {
		return err
	}
	net, err := Nets.Get(tx, n.NetId)
	if err != nil {
		return err
	}
	n.Told = net.Generation
	return Nics.Put(tx, n)
}

// IsApplied reports whether the driver has the NIC as it is.
func (n *Nic) IsApplied(tx *resource.Tx) bool {
	net, err := Nets.Get(tx, n.NetId)
	return n.NetId == "" || err == nil && net.ObservedGeneration >= n.Told
}

// Remove deletes a NIC, whatever it is linked to: its private addresses are
// free again, public IPs of the account's are unlinked, and one that the region
// lent goes back.
func (n *Nic) Remove(tx *resource.Tx) error {
	if err := n.leave(tx); err != nil {
		return err
	}
	if err := disconnect(tx, n); err != nil {
		return err
	}
	return Nics.Delete(tx, n)
}

// disconnect is what goes before the end of a NIC.
func disconnect(tx *resource.Tx, n *Nic) error {
	if err := n.UnlinkPublicIps(tx); err != nil {
		return err
	}
	if n.SubnetId == "" {
		return releaseAddress(tx, n.PrivateIps[0].PrivateIp)
	}
	return n.touch(tx)
}

// SetSecurityGroups puts a NIC into other security groups, all of its Net, or
// of the public Cloud. There is at least one.
func (n *Nic) SetSecurityGroups(tx *resource.Tx, groups []id.SecurityGroup) (err error) {
	if n.SecurityGroups, err = groupsIn(tx, n.NetId, groups); err != nil {
		return err
	}
	return n.save(tx)
}

// CheckSource says whether a NIC only receives and sends packets that are
// addressed to or by it.
func (n *Nic) CheckSource(tx *resource.Tx, checked bool) error {
	n.IsSourceDestChecked = checked
	return n.save(tx)
}

// ReadNicsRequest asks for NICs.
type ReadNicsRequest struct {
	Filters *FiltersNic // Which NICs to list; all of them if absent.
	api.Page
}

// FiltersNic selects NICs.
type FiltersNic struct {
	Descriptions []string // The descriptions of the NICs.
	// Whether the NICs only receive and send packets that are addressed to or by them.
	IsSourceDestCheck *bool `path:"IsSourceDestChecked"`
	// Whether the NICs are deleted when the VMs that they are linked to are.
	LinkNicDeleteOnVmDeletion *bool
	// The numbers of the NICs among those of their VMs.
	LinkNicDeviceNumbers []int
	// The IDs of the links of the NICs.
	LinkNicLinkNicIds []id.LinkNic
	// The numbers of the NICs among those of their VMs.
	LinkNicSortNumbers []int `path:"LinkNic.DeviceNumber"`
	// The states of the links.
	LinkNicStates []LinkNicState
	// The account IDs of the owners of the VMs that the NICs are linked to.
	LinkNicVmAccountIds []id.Account
	// The IDs of the VMs that the NICs are linked to.
	LinkNicVmIds []id.Vm
	// The account IDs of the owners of the public IPs of the NICs.
	LinkPublicIpAccountIds []id.Account `path:"LinkPublicIp.PublicIpAccountId"`
	// The IDs of the links between public IPs and the NICs.
	LinkPublicIpLinkPublicIpIds []id.LinkPublicIp
	// The public DNS names of the NICs.
	LinkPublicIpPublicDnsNames []string
	// The IDs of the public IPs of the NICs.
	LinkPublicIpPublicIpIds []id.PublicIp
	// The public IPs of the NICs.
	LinkPublicIpPublicIps []api.IPv4
	MacAddresses          []string // The MAC addresses of the NICs.
	NetIds                []id.Net // The IDs of the Nets that the NICs are in.
	NicIds                []id.Nic // The IDs of the NICs.
	// The private DNS names of the NICs: those of their primary private IPs.
	PrivateDnsNames []string
	// The account IDs of the owners of the public IPs of any private IPs of the NICs.
	PrivateIpsLinkPublicIpAccountIds []id.Account `path:"PrivateIps.LinkPublicIp.PublicIpAccountId"`
	// The public IPs of any private IPs of the NICs.
	PrivateIpsLinkPublicIpPublicIps []api.IPv4
	// Whether the NICs have a primary private IP, or, if false, secondary ones.
	PrivateIpsPrimaryIp *bool `path:"PrivateIps.IsPrimary"`
	// The private IPs of the NICs.
	PrivateIpsPrivateIps []api.IPv4
	// The IDs of the security groups that the NICs are in.
	SecurityGroupIds []id.SecurityGroup `path:"SecurityGroups.SecurityGroupId"`
	// The names of the security groups that the NICs are in.
	SecurityGroupNames []string   `path:"SecurityGroups.SecurityGroupName"`
	States             []NicState // The states of the NICs.
	// The IDs of the Subnets that the NICs are in.
	SubnetIds      []id.Subnet
	SubregionNames []string // The Subregions that the NICs are in.
	api.TagFilters
}

// UpdateNicRequest changes a NIC: at least one thing of it.
type UpdateNicRequest struct {
	Description *string          // Another description of the NIC.
	LinkNic     *LinkNicToUpdate // A change of the link between the NIC and its VM.
	NicId       id.Nic           `api:"required"` // The ID of the NIC.
	// The IDs of the security groups of its Net that the NIC shall be in, at least one.
	SecurityGroupIds []id.SecurityGroup
}

// LinkNicToUpdate is a change of the link between a NIC and its VM.
type LinkNicToUpdate struct {
	// Whether the NIC is deleted when the VM is; otherwise it is unlinked then.
	DeleteOnVmDeletion *bool
	LinkNicId          id.LinkNic // The ID of the link.
}

func updateNic(tx *resource.Tx, n *Nic, req *UpdateNicRequest) (err error) {
	if req.Description == nil && req.LinkNic == nil && len(req.SecurityGroupIds) == 0 {
		return apierror.MissingParameter.Errorf("At least one of Description, LinkNic and SecurityGroupIds is required.")
	}
	if req.Description != nil {
		n.Description = *req.Description
	}
	if change := req.LinkNic; change != nil {
		if change.LinkNicId == "" {
			return apierror.MissingParameter.Errorf("LinkNic.LinkNicId is required.")
		}
		if n.LinkNic == nil || n.LinkNic.LinkNicId != change.LinkNicId {
			return apierror.NicLinkNotFound.Errorf("The NIC %s has no link '%s'.", n.NicId, change.LinkNicId)
		}
		if change.DeleteOnVmDeletion != nil {
			link := *n.LinkNic
			link.DeleteOnVmDeletion = *change.DeleteOnVmDeletion
			n.LinkNic = &link
		}
	}
	if len(req.SecurityGroupIds) > 0 {
		return n.SetSecurityGroups(tx, req.SecurityGroupIds)
	}
	return nil
}

// DeleteNicRequest deletes a NIC that is linked to no VM. Its private addresses
// are free again, and its public IPs are unlinked.
type DeleteNicRequest struct {
	NicId id.Nic `api:"required"` // The ID of the NIC to delete.
}

func keepLinked(_ *resource.Tx, n *Nic) error {
	if n.LinkNic != nil {
		return apierror.InUse.Errorf("The NIC %s is linked to %s: unlink it first.", n.NicId, n.LinkNic.VmId)
	}
	return nil
}

// wantNics adds the NICs in a Net to what the driver must have.
func wantNics(tx *resource.Tx, net *Net, want *driver.Net) error {
	for n := range Nics.Where(tx, "NetId", string(net.NetId)) {
		nic := driver.Nic{ID: string(n.NicId), Subnet: string(n.SubnetId), MAC: n.MacAddress, SourceDestCheck: n.IsSourceDestChecked}
		if n.LinkNic != nil {
			nic.Machine, nic.Device = string(n.LinkNic.VmId), n.LinkNic.DeviceNumber
		}
		for _, g := range n.SecurityGroups {
			nic.SecurityGroups = append(nic.SecurityGroups, string(g.SecurityGroupId))
		}
		public := map[api.IPv4]netip.Addr{}
		for ip := range PublicIps.Where(tx, "NicId", string(n.NicId)) {
			public[ip.PrivateIp] = addrOf(ip.PublicIp)
		}
		for _, ip := range n.addresses() {
			nic.Addresses = append(nic.Addresses, driver.Address{Private: addrOf(ip), Public: public[ip]})
		}
		want.Nics = append(want.Nics, nic)
	}
	return nil
}

// addrOf is an address as drivers have it.
func addrOf(ip api.IPv4) netip.Addr { return netip.MustParseAddr(string(ip)) }
