package network

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NewBalancerNic is the NIC in the making by which a load balancer is connected.
// No caller is shown it.
type NewBalancerNic struct {
	LoadBalancer   id.LoadBalancer
	SubnetId       id.Subnet          // empty: in the public Cloud
	SubregionName  string             // in the public Cloud
	SecurityGroups []id.SecurityGroup // at least one in a Net
	InternetFacing bool               // it has a public IP
	PublicIp       string             // the account's; empty: an ephemeral one
}

// Create makes the NIC.
func (w NewBalancerNic) Create(tx *resource.Tx, region Region) (*Nic, error) {
	n := &Nic{IsSourceDestChecked: true, Service: string(w.LoadBalancer), LoadBalancerName: w.LoadBalancer, EphemeralIP: w.InternetFacing}
	make := w.joinCloud
	if w.SubnetId != "" {
		make = w.joinSubnet
	}
	if err := make(tx, n); err != nil {
		return nil, err
	}
	if !w.InternetFacing {
		return n, nil
	}
	if n.NetId != "" && first(InternetServices.Of(tx, n.NetId)) == nil {
		return nil, apierror.GatewayNotLinked.Errorf(
			"The Net %s has no internet service, which an internet-facing load balancer needs: link one first.", n.NetId)
	}
	if w.PublicIp != "" {
		return n, region.SetBalancerIp(tx, n, w.PublicIp)
	}
	if err := region.assignEphemeralIP(tx, n); err != nil {
		return nil, err
	}
	return n, n.touch(tx)
}

func (w NewBalancerNic) joinSubnet(tx *resource.Tx, n *Nic) error {
	subnet, err := Subnets.Get(tx, w.SubnetId)
	if err != nil {
		return err
	}
	n.SubnetId = w.SubnetId
	if n.SecurityGroups, err = groupsIn(tx, subnet.NetId, w.SecurityGroups); err != nil {
		return err
	}
	return n.add(tx)
}

func (w NewBalancerNic) joinCloud(tx *resource.Tx, n *Nic) (err error) {
	if len(w.SecurityGroups) > 0 {
		if n.SecurityGroups, err = groupsIn(tx, "", w.SecurityGroups); err != nil {
			return err
		}
	}
	ip, err := allocateAddress(tx, publicCloud)
	if err != nil {
		return err
	}
	n.SubregionName, n.MacAddress = w.SubregionName, randomMac(tx)
	n.setAddresses([]api.IPv4{ip})
	return Nics.Insert(tx, n)
}

// SetBalancerIp gives the NIC of a load balancer a public IP of the account's, which
// nothing else uses, or, if that is empty, an ephemeral one. Its former
// one is unlinked, or goes back.
func (region Region) SetBalancerIp(tx *resource.Tx, n *Nic, address string) error {
	private := n.PrivateIps[0].PrivateIp
	if address == "" {
		if old := n.publicIp(tx, private); old != nil && !old.Ephemeral {
			return region.release(tx, old)
		}
		return nil
	}
	if api.IPv4(address).Check() != nil {
		return apierror.InvalidBalancerIp.Errorf("The PublicIp '%.100s' is not an IPv4 address.", address)
	}
	ip, err := findPublicIp(tx, api.IPv4(address), "")
	switch {
	case err != nil:
		return err
	case ip.NicId == n.NicId:
		return nil
	}
	if err := ip.checkMovable(tx); err != nil {
		return err
	}
	if ip.NicId != "" {
		return apierror.InUse.Errorf("The public IP %s is linked already, as %s.", ip.PublicIp, ip.LinkPublicIpId)
	}
	return region.link(tx, ip, n, private, true)
}

// SetBalancerGroups puts the NIC of a load balancer into other security groups. No
// groups: the default one of its Net, and none in the public Cloud.
func (n *Nic) SetBalancerGroups(tx *resource.Tx, groups []id.SecurityGroup) error {
	if n.NetId == "" && len(groups) == 0 {
		n.SecurityGroups = nil
		return n.save(tx)
	}
	return n.SetSecurityGroups(tx, groups)
}

// PublicAddress is the public IP of the primary private IP of the NIC; empty: it
// has none.
func (n *Nic) PublicAddress(tx *resource.Tx) api.IPv4 {
	if ip := n.publicIp(tx, n.PrivateIps[0].PrivateIp); ip != nil {
		return ip.PublicIp
	}
	return ""
}

// CheckBackendIp refuses an address for a backend that machines cannot have, or that
// is one of the region's public IPs and not the account's: another account's and
// one that is free look alike. Addresses elsewhere are the caller's affair.
func (region Region) CheckBackendIp(tx *resource.Tx, address api.IPv4) error {
	ip := addrOf(address)
	if ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || address == "255.255.255.255" {
		return apierror.InvalidIPAddress.Errorf("The BackendIps have %s, which is no address of a machine.", address)
	}
	for _, r := range region.PublicIps {
		if r.Prefix().Contains(ip) && first(PublicIps.Where(tx, "PublicIp", string(address))) == nil {
			return apierror.PublicIpNotFound.NotFound("BackendIps", string(address))
		}
	}
	return nil
}
