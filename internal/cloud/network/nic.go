package network

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// Nic is a network interface card in a [Subnet]. Whoever uses an address of a
// Subnet has it through a NIC: VMs, and services such as a [NatService], whose
// NICs nobody is shown.
type Nic struct {
	AccountId           id.Account           `json:"-" ref:"-"` // The account ID of the owner of the NIC.
	Description         string               // The description of the NIC.
	IsSourceDestChecked bool                 // Whether the NIC only receives and sends packets that are addressed to or by it.
	LinkNic             *LinkNic             // The VM that the NIC is linked to; absent if it is not.
	LinkPublicIp        *LinkPublicIp        `json:"-"` // The public IP of the primary private IP; absent if it has none.
	MacAddress          string               // The MAC address of the NIC.
	NetId               id.Net               // The ID of the Net that the NIC is in.
	NicId               id.Nic               // The ID of the NIC.
	PrivateDnsName      string               `json:"-"` // The private DNS name of the NIC: that of its primary private IP.
	PrivateIps          []PrivateIp          // The private IPs of the NIC. The first one is the primary one.
	SecurityGroups      []SecurityGroupLight // The security groups that the NIC is in.
	State               NicState             `json:"-"` // The state of the NIC, which follows from its link.
	SubnetId            id.Subnet            // The ID of the Subnet that the NIC is in.
	SubregionName       string               // The Subregion of the Subnet.
	Tags                []api.Tag            // The tags of the NIC.

	// Service is the ID of the service that the region made the NIC for;
	// empty: it is the account's own, and shown.
	Service string `wire:"-"`
	// Places are the addresses of the NIC with their Subnet. That they are
	// unique is what gives an address one owner only.
	Places []string `wire:"-"`
}

// PrivateIp is an address of a NIC in its Subnet.
type PrivateIp struct {
	IsPrimary      bool          // Whether it is the primary private IP of the NIC.
	LinkPublicIp   *LinkPublicIp `json:"-"` // The public IP that stands for it on the Internet; absent if it has none.
	PrivateDnsName string        `json:"-"` // The private DNS name of the address.
	PrivateIp      api.IPv4      // The address.
}

// LinkNic is the link between a NIC and a VM.
type LinkNic struct {
	DeleteOnVmDeletion bool         // Whether the NIC is deleted when the VM is.
	DeviceNumber       int          // The number of the NIC among those of the VM, between 0 and 7. 0 is the primary one.
	LinkNicId          id.LinkNic   `ref:"-"` // The ID of the link.
	State              LinkNicState // The state of the link.
	VmAccountId        id.Account   `json:"-" ref:"-"` // The account ID of the owner of the VM.
	VmId               id.Vm        `ref:"weak"`       // The ID of the VM.
}

// LinkPublicIp is a public IP as its NIC shows it.
type LinkPublicIp struct {
	LinkPublicIpId    id.LinkPublicIp `ref:"-"` // The ID of the link. Absent if the region chose the public IP.
	PublicDnsName     string          // The public DNS name of the address.
	PublicIp          api.IPv4        // The public IP.
	PublicIpAccountId id.Account      `ref:"-"` // The account ID of the owner of the public IP.
	PublicIpId        id.PublicIp     `ref:"-"` // The ID of the public IP. Absent if the region chose it.
}

// SecurityGroupLight is a security group as its members show it.
type SecurityGroupLight struct {
	SecurityGroupId   id.SecurityGroup // The ID of the security group.
	SecurityGroupName string           `json:"-"` // The name of the security group.
}

// Nics are the NICs of the region.
var Nics = &kind.Kind[Nic, id.Nic]{
	Name:    "Nic",
	Tag:     "network-interface",
	Missing: fault.ObjectNotFound, // the catalogue has no code for NICs
	Unique:  []string{"Places", "MacAddress", "LinkNic.LinkNicId"},
	Taken:   fault.InUse,
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

// LinkNicState is the state of the link between a NIC and a VM.
type LinkNicState string

// LinkNicAttached is the state of every link: it works at once, and is gone
// at once.
const LinkNicAttached LinkNicState = "attached"

// Literals implements [api.Enum].
func (LinkNicState) Literals() []string {
	return []string{"attaching", "attached", "detaching", "detached"}
}

// add makes a NIC in its Subnet, with the given addresses, of which the first
// is the primary one, or with one that is free. The NIC says its SubnetId, its
// groups and what it is for.
func (n *Nic) add(tx *kind.Tx, ips ...api.IPv4) error {
	subnet, err := Subnets.Get(tx, n.SubnetId)
	if err != nil {
		return err
	}
	n.NetId, n.SubregionName = subnet.NetId, subnet.SubregionName
	n.MacAddress = randomMac(tx)
	if len(ips) == 0 {
		chosen, err := subnet.choose(tx, nil)
		if err != nil {
			return err
		}
		ips = []api.IPv4{chosen}
	}
	for i, ip := range ips {
		n.PrivateIps = append(n.PrivateIps, PrivateIp{IsPrimary: i == 0, PrivateIp: ip})
		n.Places = append(n.Places, subnet.place(ip))
	}
	if err := Nics.Insert(tx, n); err != nil {
		return err
	}
	return touch(tx, n.NetId)
}

// randomMac is an address that no manufacturer gives, for a single receiver.
func randomMac(tx *kind.Tx) string {
	digits := kind.Random(tx.Chance(), 10, kind.Hexadecimal)
	mac := "aa"
	for i := 0; i < len(digits); i += 2 {
		mac += ":" + digits[i:i+2]
	}
	return mac
}
