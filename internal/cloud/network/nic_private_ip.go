package network

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// LinkPrivateIpsRequest gives a NIC secondary private IPs: those of the list,
// or so many that are chosen, or one.
type LinkPrivateIpsRequest struct {
	// Whether an address that is a secondary one of another NIC in the Subnet is taken from it.
	AllowRelink bool
	NicId       id.Nic `api:"required"` // The ID of the NIC.
	// The addresses, inside the range of the Subnet and none of its first four or its last.
	PrivateIps              []api.IPv4
	SecondaryPrivateIpCount *int // The number of addresses to choose.
}

func linkPrivateIps(tx *resource.Tx, req *LinkPrivateIpsRequest) error {
	n, err := OwnNic(tx, req.NicId)
	if err != nil {
		return err
	}
	subnet, err := Subnets.Get(tx, n.SubnetId)
	if err != nil {
		return err
	}
	count := 1
	if req.SecondaryPrivateIpCount != nil {
		count = *req.SecondaryPrivateIpCount
	}
	switch {
	case len(req.PrivateIps) > 0 && req.SecondaryPrivateIpCount != nil:
		return apierror.IncompatibleParameters.Errorf("PrivateIps and SecondaryPrivateIpCount cannot be given together.")
	case len(req.PrivateIps) > 0:
		return n.takeAddresses(tx, subnet, req.PrivateIps, req.AllowRelink)
	case count < 1:
		return apierror.InvalidValue.Errorf("SecondaryPrivateIpCount is at least 1.")
	}
	if err := checkPrivateIps(len(n.PrivateIps) + count); err != nil {
		return err
	}
	ips, err := subnet.chooseMore(tx, n.addresses(), count)
	if err != nil {
		return err
	}
	n.setAddresses(ips)
	return n.save(tx)
}

// takeAddresses gives a NIC more addresses, with relink also those of other NICs. It
// keeps those that
// it has.
func (n *Nic) takeAddresses(tx *resource.Tx, subnet *Subnet, wanted []api.IPv4, relink bool) error {
	ips := n.addresses()
	for _, ip := range wanted {
		if slices.Contains(ips, ip) {
			continue
		}
		if err := subnet.checkUsable(ip); err != nil {
			return err
		}
		if holder := subnet.holder(tx, ip); holder != nil {
			if ip == holder.PrivateIps[0].PrivateIp {
				return apierror.InvalidParameter.Errorf("The private IP %s is the primary one of %s, which keeps it.", ip, holder.shownAs())
			}
			if !relink {
				return apierror.InvalidParameter.Errorf("The private IP %s is one of %s. AllowRelink moves it.", ip, holder.shownAs())
			}
			if err := holder.yield(tx, n, ip); err != nil {
				return err
			}
		}
		ips = append(ips, ip)
		if err := checkPrivateIps(len(ips)); err != nil {
			return err
		}
	}
	n.setAddresses(ips)
	return n.save(tx)
}

// yield takes a secondary address from a NIC for another one. The public IP of
// the address goes with it.
func (n *Nic) yield(tx *resource.Tx, to *Nic, ip api.IPv4) error {
	n.setAddresses(slices.DeleteFunc(n.addresses(), func(other api.IPv4) bool { return other == ip }))
	if err := n.save(tx); err != nil {
		return err
	}
	if public := n.publicIp(tx, ip); public != nil {
		public.NicId = to.NicId
		return PublicIps.Put(tx, public)
	}
	return nil
}

// UnlinkPrivateIpsRequest takes secondary private IPs from a NIC. Their public
// IPs are unlinked.
type UnlinkPrivateIpsRequest struct {
	NicId      id.Nic     `api:"required"` // The ID of the NIC.
	PrivateIps []api.IPv4 `api:"required"` // One or more secondary private IPs of the NIC.
}

func unlinkPrivateIps(tx *resource.Tx, req *UnlinkPrivateIpsRequest) error {
	n, err := OwnNic(tx, req.NicId)
	if err != nil {
		return err
	}
	if len(req.PrivateIps) == 0 {
		return apierror.MissingParameter.Errorf("PrivateIps is empty: name at least one.")
	}
	ips := n.addresses()
	for _, ip := range distinct(req.PrivateIps) {
		switch slices.Index(ips, ip) {
		case 0:
			return apierror.InvalidParameter.Errorf("The private IP %s is the primary one of %s, which keeps it.", ip, n.NicId)
		case -1:
			return apierror.PrivateIpsNotLinked.Errorf("The private IP %s is not one of %s.", ip, n.NicId)
		}
		if public := n.publicIp(tx, ip); public != nil {
			if err := public.unlink(tx); err != nil {
				return err
			}
		}
	}
	n.setAddresses(slices.DeleteFunc(ips, func(ip api.IPv4) bool { return slices.Contains(req.PrivateIps, ip) }))
	return n.save(tx)
}
