package network

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// CreateNicRequest asks for a NIC in a Subnet.
type CreateNicRequest struct {
	Description string // A description of the NIC.
	// The private IPs of the NIC. If none of them is the primary one, one is chosen in the
	// range of the Subnet.
	PrivateIps []PrivateIpLight
	// The IDs of security groups of the Net for the NIC. By default, the default one of the
	// Net.
	SecurityGroupIds []id.SecurityGroup
	// The ID of the Subnet to create the NIC in.
	SubnetId id.Subnet `api:"required"`
}

func createNic(tx *resource.Tx, req *CreateNicRequest) (*Nic, error) {
	w := NewNic{SubnetId: req.SubnetId, Description: req.Description, PrivateIps: req.PrivateIps, SecurityGroups: req.SecurityGroupIds}
	return w.plan(tx)
}

// NewNic is a NIC in the making.
type NewNic struct {
	SubnetId       id.Subnet
	Description    string
	PrivateIps     []PrivateIpLight   // if none of them is the primary one, one is chosen
	Secondary      int                // how many secondary ones are chosen besides
	SecurityGroups []id.SecurityGroup // none: the default one of the Net
}

// PrivateIpLight is a private IP that a new NIC shall have.
type PrivateIpLight struct {
	IsPrimary bool // Whether it is the primary private IP of the NIC.
	// The address, inside the range of the Subnet and none of its first four or its last.
	PrivateIp api.IPv4
}

// Create makes the NIC, with a public IP if its Subnet says so.
func (w NewNic) Create(tx *resource.Tx, region Region) (*Nic, error) {
	n, err := w.plan(tx)
	if err != nil {
		return nil, err
	}
	if err := Nics.Insert(tx, n); err != nil {
		return nil, err
	}
	return n, region.connect(tx, n)
}

// plan is the NIC before it is there.
func (w NewNic) plan(tx *resource.Tx) (*Nic, error) {
	subnet, err := Subnets.Get(tx, w.SubnetId)
	if err != nil {
		return nil, err
	}
	groups, err := groupsIn(tx, subnet.NetId, w.SecurityGroups)
	if err != nil {
		return nil, err
	}
	ips, err := w.addresses(tx, subnet)
	if err != nil {
		return nil, err
	}
	n := &Nic{Description: w.Description, IsSourceDestChecked: true, SecurityGroups: groups, SubnetId: w.SubnetId}
	return n, n.fill(tx, ips...)
}

// maxPrivateIps is how many private IPs a NIC can have: as many as a VM of the
// type that can have most of them.
const maxPrivateIps = 30

// checkPrivateIps refuses more private IPs than a NIC can have.
func checkPrivateIps(n int) error {
	if n > maxPrivateIps {
		return apierror.TooManyPrivateIps.Errorf("The NIC would have %d private IPs: it can have %d.", n, maxPrivateIps)
	}
	return nil
}

// addresses returns the private IPs of the new NIC, the primary one first.
func (w NewNic) addresses(tx *resource.Tx, subnet *Subnet) ([]api.IPv4, error) {
	// This bounds the work that follows, after which the whole number is known.
	if err := checkPrivateIps(len(w.PrivateIps)); err != nil {
		return nil, err
	}
	primary, ips, err := w.given(tx, subnet)
	if err != nil {
		return nil, err
	}
	if err := checkPrivateIps(1 + len(ips) + w.Secondary); err != nil {
		return nil, err
	}
	if primary == "" {
		chosen, err := subnet.choose(tx, ips)
		if err != nil {
			return nil, err
		}
		primary = chosen
	}
	return subnet.chooseMore(tx, slices.Insert(ips, 0, primary), w.Secondary)
}

// given returns the private IPs of the request, the primary one, which may be
// empty, apart from the others.
func (w NewNic) given(tx *resource.Tx, subnet *Subnet) (primary api.IPv4, others []api.IPv4, err error) {
	for i, given := range w.PrivateIps {
		ip := given.PrivateIp
		if ip == "" {
			return "", nil, apierror.MissingParameter.Errorf("PrivateIps.%d.PrivateIp is required.", i)
		}
		if slices.Contains(others, ip) || ip == primary {
			return "", nil, apierror.InvalidParameter.Errorf("Two of PrivateIps are %s.", ip)
		}
		if err := subnet.checkUsable(ip); err != nil {
			return "", nil, err
		}
		if holder := subnet.holder(tx, ip); holder != nil {
			return "", nil, apierror.InvalidParameter.Errorf("The private IP %s is used by %s.", ip, holder.shownAs())
		}
		switch {
		case !given.IsPrimary:
			others = append(others, ip)
		case primary != "":
			return "", nil, apierror.InvalidParameter.Errorf("Both %s and %s are given as the primary private IP. The maximum is 1.", primary, ip)
		default:
			primary = ip
		}
	}
	return primary, others, nil
}

// groupsIn are security groups of a Net, or of the public Cloud if there is no
// Net, by their ids; none: the default one.
func groupsIn(tx *resource.Tx, netID id.Net, ids []id.SecurityGroup) (groups []SecurityGroupLight, err error) {
	if len(ids) == 0 {
		chosen, err := defaultGroupOf(tx, netID)
		if err != nil {
			return nil, err
		}
		ids = []id.SecurityGroup{chosen}
	}
	for _, groupID := range distinct(ids) {
		group, err := SecurityGroups.Get(tx, groupID)
		if err != nil {
			return nil, err
		}
		switch {
		case group.NetId == netID:
			groups = append(groups, SecurityGroupLight{SecurityGroupId: groupID})
		case netID == "":
			return nil, apierror.NotInPublicCloud.Errorf("The security group %s is of %s, not of the public Cloud.", groupID, group.NetId)
		default:
			return nil, apierror.NotInNet.Errorf("The security group %s is not of %s.", groupID, netID)
		}
	}
	return groups, tx.CheckLimit("vm_sg_limit", apierror.TooManyNicSecurityGroups, len(groups))
}

// add makes a NIC in its Subnet, with the given addresses, of which the first
// is the primary one, or with one that is free. The NIC says its SubnetId, its
// groups and what it is for.
func (n *Nic) add(tx *resource.Tx, ips ...api.IPv4) error {
	if err := n.fill(tx, ips...); err != nil {
		return err
	}
	if err := Nics.Insert(tx, n); err != nil {
		return err
	}
	return n.touch(tx)
}

// fill gives a NIC all that follows from its Subnet and its addresses.
func (n *Nic) fill(tx *resource.Tx, ips ...api.IPv4) error {
	subnet, err := Subnets.Get(tx, n.SubnetId)
	if err != nil {
		return err
	}
	if len(ips) == 0 {
		if ips, err = subnet.chooseMore(tx, nil, 1); err != nil {
			return err
		}
	}
	n.NetId, n.SubregionName = subnet.NetId, subnet.SubregionName
	n.MacAddress = randomMac(tx)
	n.setAddresses(ips)
	return nil
}

// randomMac is an address that no manufacturer gives, for a single receiver,
// and that no NIC of the account has.
func randomMac(tx *resource.Tx) string {
	for {
		digits := resource.Random(tx.Rand(), 10, resource.Hexadecimal)
		mac := "aa"
		for i := 0; i < len(digits); i += 2 {
			mac += ":" + digits[i:i+2]
		}
		if first(Nics.Where(tx, "MacAddress", mac)) == nil {
			return mac
		}
	}
}

// connect does what follows the making of a NIC in a Net: the driver hears of
// it, and it gets a public IP if its Subnet says so.
func (region Region) connect(tx *resource.Tx, n *Nic) error {
	subnet, err := Subnets.Get(tx, n.SubnetId)
	if err != nil {
		return err
	}
	if subnet.MapPublicIpOnLaunch {
		if err := region.assignEphemeralIP(tx, n); err != nil {
			return err
		}
	}
	return n.touch(tx)
}
