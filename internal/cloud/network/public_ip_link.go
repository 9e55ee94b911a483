package network

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// publicIp is the public IP of a private one of the NIC, or nil.
func (n *Nic) publicIp(tx *resource.Tx, private api.IPv4) *PublicIp {
	for ip := range PublicIps.Where(tx, "NicId", string(n.NicId)) {
		if ip.PrivateIp == private {
			return ip
		}
	}
	return nil
}

// unlink unlinks a public IP from its NIC. An ephemeral one is released.
func (ip *PublicIp) unlink(tx *resource.Tx) error {
	n, err := Nics.Get(tx, ip.NicId)
	if err != nil {
		return err
	}
	if ip.Ephemeral {
		if err := releaseAddress(tx, ip.PublicIp); err != nil {
			return err
		}
		if err := PublicIps.Delete(tx, ip); err != nil {
			return err
		}
		return n.touch(tx)
	}
	ip.LinkPublicIpId, ip.NicId, ip.PrivateIp = "", "", ""
	if err := PublicIps.Put(tx, ip); err != nil {
		return err
	}
	return n.touch(tx)
}

// release unlinks a public IP from its NIC, which then gets an ephemeral one if it
// has them.
func (region Region) release(tx *resource.Tx, ip *PublicIp) error {
	n, err := Nics.Get(tx, ip.NicId)
	if err != nil {
		return err
	}
	if err := ip.unlink(tx); err != nil || !n.EphemeralIP {
		return err
	}
	return region.assignEphemeralIP(tx, n)
}

// assignEphemeralIP gives the primary private IP of a NIC a public IP of the
// region's choice.
func (region Region) assignEphemeralIP(tx *resource.Tx, n *Nic) error {
	ip, err := allocateAddress(tx, region.PublicIps)
	if err != nil {
		return err
	}
	return PublicIps.Insert(tx, &PublicIp{PublicIp: ip, NicId: n.NicId, PrivateIp: n.PrivateIps[0].PrivateIp, Ephemeral: true})
}

// AssignEphemeralIP gives a NIC of the public Cloud an ephemeral public IP whenever
// it has none of the account's, from now on until [Nic.UnlinkPublicIps] or
// [Nic.OnVmStopped]: as long as its VM runs.
func (region Region) AssignEphemeralIP(tx *resource.Tx, n *Nic) error {
	n.EphemeralIP = true
	if err := Nics.Put(tx, n); err != nil {
		return err
	}
	if n.publicIp(tx, n.PrivateIps[0].PrivateIp) != nil {
		return nil
	}
	return region.assignEphemeralIP(tx, n)
}

// UnlinkPublicIps unlinks all public IPs from a NIC, and ends the assignment of
// ephemeral ones.
func (n *Nic) UnlinkPublicIps(tx *resource.Tx) error {
	for ip := range PublicIps.Where(tx, "NicId", string(n.NicId)) {
		if err := ip.unlink(tx); err != nil {
			return err
		}
	}
	if !n.EphemeralIP {
		return nil
	}
	n.EphemeralIP = false
	return Nics.Put(tx, n)
}

// OnVmStopped unlinks the public IPs of a NIC whose VM has stopped, except for keep
// and, in a Net, an ephemeral one.
func (n *Nic) OnVmStopped(tx *resource.Tx, keep api.IPv4) error {
	for ip := range PublicIps.Where(tx, "NicId", string(n.NicId)) {
		if ip.PublicIp == keep || ip.Ephemeral && n.NetId != "" {
			continue
		}
		if err := ip.unlink(tx); err != nil {
			return err
		}
	}
	own, err := Nics.Get(tx, n.NicId)
	if err != nil || !own.EphemeralIP {
		return err
	}
	own.EphemeralIP = false
	return Nics.Put(tx, own)
}

// LinkIfFree links a public IP of the account to the primary private IP of a NIC,
// if the account has it and it is linked to nothing else.
func (region Region) LinkIfFree(tx *resource.Tx, n *Nic, address api.IPv4) error {
	ip := first(PublicIps.Where(tx, "PublicIp", string(address)))
	if ip == nil || ip.Hidden() || ip.NicId != "" || ip.checkMovable(tx) != nil {
		return nil
	}
	return region.link(tx, ip, n, n.PrivateIps[0].PrivateIp, true)
}

// LinkPublicIpRequest links a public IP to a private one, of a NIC or of the
// primary NIC of a VM. A NIC in a Net needs a Net with an internet service.
type LinkPublicIpRequest struct {
	// Whether the public IP is taken from where it is linked, and the private IP loses another
	// public one. By default, true in the public Cloud and false in a Net.
	AllowRelink *bool
	// The ID of the NIC, in a Net. It is required if the VM has several NICs.
	NicId      id.Nic
	PrivateIp  api.IPv4    // The private IP, primary or secondary. By default, the primary one.
	PublicIp   api.IPv4    // The public IP. It is required unless PublicIpId is given.
	PublicIpId id.PublicIp // The ID of the public IP. It is required unless PublicIp is given.
	VmId       id.Vm       // The ID of the VM. It is required unless NicId is given.
}

// LinkPublicIpResponse says which link was made.
type LinkPublicIpResponse struct {
	LinkPublicIpId id.LinkPublicIp // The ID of the link between the public IP and the NIC.
}

// target is the NIC that the request is about.
func (req *LinkPublicIpRequest) target(tx *resource.Tx) (*Nic, error) {
	switch {
	case req.VmId == "" && req.NicId == "":
		return nil, apierror.MissingParameter.Errorf("VmId or NicId is required.")
	case req.VmId != "" && req.NicId != "":
		return nil, apierror.IncompatibleParameters.Errorf("VmId and NicId cannot be given together.")
	case req.NicId != "":
		return OwnNic(tx, req.NicId)
	}
	nics, err := vmNics(tx, req.VmId)
	switch {
	case err != nil:
		return nil, err
	case len(nics) > 1:
		return nil, apierror.MissingParameter.Errorf("NicId is required instead of VmId: %s has %d NICs.", req.VmId, len(nics))
	}
	return nics[0], nil
}

func (region Region) linkPublicIp(tx *resource.Tx, req *LinkPublicIpRequest) (*LinkPublicIpResponse, error) {
	n, err := req.target(tx)
	if err != nil {
		return nil, err
	}
	ip, err := findPublicIp(tx, req.PublicIp, req.PublicIpId)
	if err != nil {
		return nil, err
	}
	if err := ip.checkMovable(tx); err != nil {
		return nil, err
	}
	private := req.PrivateIp
	if private == "" {
		private = n.PrivateIps[0].PrivateIp
	}
	if !slices.Contains(n.addresses(), private) {
		return nil, apierror.InvalidParameter.Errorf("The private IP %s is not one of %s.", private, n.shownAs())
	}
	if n.NetId != "" && first(InternetServices.Of(tx, n.NetId)) == nil {
		return nil, apierror.GatewayNotLinked.Errorf("The Net %s has no internet service: link one first.", n.NetId)
	}
	if ip.NicId == n.NicId && ip.PrivateIp == private { // it is there already
		return &LinkPublicIpResponse{ip.LinkPublicIpId}, nil
	}
	relink := n.NetId == ""
	if req.AllowRelink != nil {
		relink = *req.AllowRelink
	}
	if err := region.link(tx, ip, n, private, relink); err != nil {
		return nil, err
	}
	return &LinkPublicIpResponse{ip.LinkPublicIpId}, nil
}

// link makes a public IP stand for a private one of the NIC, in place of the
// one that does so far.
func (region Region) link(tx *resource.Tx, ip *PublicIp, n *Nic, private api.IPv4, relink bool) error {
	if ip.NicId != "" {
		if !relink {
			return apierror.InUse.Errorf("The public IP %s is linked already, as %s. AllowRelink moves it.", ip.PublicIp, ip.LinkPublicIpId)
		}
		if err := region.release(tx, ip); err != nil {
			return err
		}
	}
	if old := n.publicIp(tx, private); old != nil {
		if !relink && !old.Ephemeral {
			return apierror.InUse.Errorf(
				"The private IP %s of %s has the public IP %s. AllowRelink replaces it.", private, n.shownAs(), old.PublicIp)
		}
		if err := old.unlink(tx); err != nil {
			return err
		}
	}
	ip.NicId, ip.PrivateIp = n.NicId, private
	ip.LinkPublicIpId = unused[id.LinkPublicIp](tx,
		func(link string) bool { return first(PublicIps.Where(tx, "LinkPublicIpId", link)) != nil })
	if err := PublicIps.Put(tx, ip); err != nil {
		return err
	}
	return n.touch(tx)
}

// UnlinkPublicIpRequest takes a public IP from the NIC that it is linked to.
// One of a NAT service stays with it.
type UnlinkPublicIpRequest struct {
	LinkPublicIpId id.LinkPublicIp // The ID of the link. It is required unless PublicIp is given.
	PublicIp       api.IPv4        // The public IP. It is required unless LinkPublicIpId is given.
}

func (region Region) unlinkPublicIp(tx *resource.Tx, req *UnlinkPublicIpRequest) error {
	ip, err := req.find(tx)
	if err != nil {
		return err
	}
	if err := ip.checkMovable(tx); err != nil {
		return err
	}
	if ip.NicId == "" {
		return apierror.PublicIpLinkNotFound.Errorf("The public IP %s is linked to nothing.", ip.PublicIp)
	}
	return region.release(tx, ip)
}

// find is the public IP that the request is about.
func (req *UnlinkPublicIpRequest) find(tx *resource.Tx) (*PublicIp, error) {
	switch {
	case req.LinkPublicIpId == "" && req.PublicIp == "":
		return nil, apierror.MissingParameter.Errorf("LinkPublicIpId or PublicIp is required.")
	case req.LinkPublicIpId != "" && req.PublicIp != "":
		return nil, apierror.IncompatibleParameters.Errorf("LinkPublicIpId and PublicIp cannot be given together.")
	case req.PublicIp != "":
		return findPublicIp(tx, req.PublicIp, "")
	}
	ip := first(PublicIps.Where(tx, "LinkPublicIpId", string(req.LinkPublicIpId)))
	if ip == nil {
		return nil, apierror.PublicIpLinkNotFound.NotFound("LinkPublicIpId", string(req.LinkPublicIpId))
	}
	return ip, nil
}
