package network

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// PublicIp is an address on the Internet that an account has to itself until
// it gives it back.
type PublicIp struct {
	// The ID of the link between the public IP and a NIC; absent if there is none.
	LinkPublicIpId id.LinkPublicIp `ref:"-"`
	// The ID of the NAT service that the public IP is of; absent if there is none.
	NatServiceId id.NatService
	// The IDs of the Net access points that use the public IP: always absent here.
	NetAccessPointIds []id.NetAccessPoint `json:"-" ref:"-" wire:"omitempty"`
	// The account ID of the owner of the NIC.
	NicAccountId id.Account `json:"-" ref:"-"`
	// The ID of the NIC that the public IP is linked to.
	NicId id.Nic `ref:"weak"`
	// The private IP of the NIC that the public IP stands for; absent if there is none.
	PrivateIp  api.IPv4    `wire:"omitempty"`
	PublicIp   api.IPv4    // The public IP.
	PublicIpId id.PublicIp // The ID of the public IP.
	Tags       []api.Tag   // The tags of the public IP.
	// The ID of the VM that the NIC is linked to.
	VmId id.Vm `json:"-" ref:"-"`

	// Ephemeral says that the region assigned the address to the NIC until the NIC is
	// deleted or its VM stops. The account does not own it, and does not list it.
	Ephemeral bool `wire:"-"`
	// Placement is where the public IP is used.
	Placement Placement `json:"-" wire:"-"`
}

// PublicIps are the public IPs of the region.
var PublicIps = &resource.Kind[PublicIp, id.PublicIp]{
	Name:     "PublicIp",
	Tag:      "public-ip",
	NotFound: apierror.PublicIpNotFound,
	InUse:    apierror.InUse,
	Unique:   []string{"PublicIp", "LinkPublicIpId"},
	Conflict: apierror.AlreadyExists,
}

// Placement is where a public IP is used.
type Placement string

// The placements: a public IP that is linked to nothing may be for either, and
// counts as one for Nets.
const (
	InPublicCloud Placement = "standard"
	InNet         Placement = "vpc"
)

// publicIpMeters read how many public IPs an account has of its own.
func publicIpMeters() []resource.Meter {
	return []resource.Meter{resource.GlobalMeter("ip_limit", ownPublicIps)}
}

// ownPublicIps is how many public IPs an account has, without those lent to it.
func ownPublicIps(tx *resource.Tx) (n int) {
	for _, ip := range PublicIps.Each(tx, 0) {
		if !ip.Ephemeral {
			n++
		}
	}
	return n
}

func publicIpActions(region Region) []api.Action {
	r := api.NewResource(PublicIps, viewPublicIp)
	return []api.Action{
		api.Create(r, region.createPublicIp),
		api.Read[ReadPublicIpsRequest](r),
		api.Command("PublicIp", region.deletePublicIp),
		api.Do("PublicIp", region.linkPublicIp),
		api.Command("PublicIp", region.unlinkPublicIp),
	}
}

// Hidden reports that the region lends the address.
func (ip *PublicIp) Hidden() bool { return ip.Ephemeral }

func viewPublicIp(tx *resource.Tx, ip *PublicIp) *PublicIp {
	ip.Placement = InNet
	if n := Nics.Find(tx, ip.NicId); n != nil {
		ip.NicAccountId = id.Account(tx.Account())
		if n.LinkNic != nil {
			ip.VmId = n.LinkNic.VmId
		}
		if n.NetId == "" {
			ip.Placement = InPublicCloud
		}
	}
	return ip
}

// linkOf is a public IP as its NIC shows it.
func (region Region) linkOf(tx *resource.Tx, ip *PublicIp) *LinkPublicIp {
	link := &LinkPublicIp{PublicDnsName: region.publicName(ip.PublicIp), PublicIp: ip.PublicIp}
	if !ip.Ephemeral {
		link.LinkPublicIpId, link.PublicIpAccountId, link.PublicIpId = ip.LinkPublicIpId, id.Account(tx.Account()), ip.PublicIpId
	}
	return link
}

// CreatePublicIpRequest asks for a public IP.
type CreatePublicIpRequest struct{}

func (region Region) createPublicIp(tx *resource.Tx, _ *CreatePublicIpRequest) (*PublicIp, error) {
	if err := tx.CheckLimit("ip_limit", apierror.TooManyPublicIps, ownPublicIps(tx)+1); err != nil {
		return nil, err
	}
	ip, err := allocateAddress(tx, region.PublicIps)
	return &PublicIp{PublicIp: ip}, err
}

// ReadPublicIpsRequest asks for public IPs.
type ReadPublicIpsRequest struct {
	Filters *FiltersPublicIp // Which public IPs to list; all of them if absent.
	api.Page
}

// FiltersPublicIp selects public IPs.
type FiltersPublicIp struct {
	LinkPublicIpIds []id.LinkPublicIp // The IDs of the links between public IPs and NICs.
	NicAccountIds   []id.Account      // The account IDs of the owners of the NICs.
	NicIds          []id.Nic          // The IDs of the NICs that the public IPs are linked to.
	// `standard` for public IPs of VMs in the public Cloud, `vpc` for all others.
	Placements  []Placement
	PrivateIps  []api.IPv4    // The private IPs that the public IPs stand for.
	PublicIpIds []id.PublicIp // The IDs of the public IPs.
	PublicIps   []api.IPv4    // The public IPs.
	VmIds       []id.Vm       // The IDs of the VMs.
	api.TagFilters
}

// findPublicIp finds a public IP of the account by its address or its id, of
// which one is given.
func findPublicIp(tx *resource.Tx, address api.IPv4, publicIpID id.PublicIp) (*PublicIp, error) {
	switch {
	case address == "" && publicIpID == "":
		return nil, apierror.MissingParameter.Errorf("PublicIp or PublicIpId is required.")
	case address != "" && publicIpID != "":
		return nil, apierror.IncompatibleParameters.Errorf("PublicIp and PublicIpId cannot be given together.")
	case address != "":
		ip := first(PublicIps.Where(tx, "PublicIp", string(address)))
		if ip == nil || ip.Hidden() {
			return nil, apierror.PublicIpNotFound.NotFound("PublicIp", string(address))
		}
		return ip, nil
	}
	ip, err := PublicIps.Get(tx, publicIpID)
	if err == nil && ip.Hidden() {
		return nil, PublicIps.ErrNotFound(publicIpID)
	}
	return ip, err
}

// checkMovable refuses to take a public IP from a service: it has it as long as
// it is there.
func (ip *PublicIp) checkMovable(tx *resource.Tx) error {
	if ip.NatServiceId != "" {
		return apierror.InUse.Errorf("The public IP %s is of %s, which keeps it.", ip.PublicIp, ip.NatServiceId)
	}
	if n := Nics.Find(tx, ip.NicId); n != nil && n.Hidden() && n.LinkNic == nil {
		return apierror.PublicIpLocked.Errorf("The public IP %s is of %s, which keeps it.", ip.PublicIp, n.shownAs())
	}
	return nil
}

// DeletePublicIpRequest gives a public IP back, to the region. One that is
// linked in a Net is unlinked first; in the public Cloud it is unlinked by this.
type DeletePublicIpRequest struct {
	PublicIp   api.IPv4    // The public IP. It is required unless PublicIpId is given.
	PublicIpId id.PublicIp // The ID of the public IP. It is required unless PublicIp is given.
}

func (region Region) deletePublicIp(tx *resource.Tx, req *DeletePublicIpRequest) error {
	ip, err := findPublicIp(tx, req.PublicIp, req.PublicIpId)
	if err != nil {
		return err
	}
	if err := ip.checkMovable(tx); err != nil {
		return err
	}
	if n := Nics.Find(tx, ip.NicId); n != nil {
		if n.NetId != "" {
			return apierror.InUse.Errorf("The public IP %s is linked to %s: unlink it first.", ip.PublicIp, n.shownAs())
		}
		if err := region.release(tx, ip); err != nil {
			return err
		}
	}
	if err := releaseAddress(tx, ip.PublicIp); err != nil {
		return err
	}
	return PublicIps.Delete(tx, ip)
}
