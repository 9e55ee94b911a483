package network

import (
	"net/netip"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NatService lets VMs without a public IP reach the Internet, under its own.
type NatService struct {
	// The token that the creation was asked for with; absent if there was none.
	ClientToken  string        `wire:"omitempty"`
	NatServiceId id.NatService // The ID of the NAT service.
	NetId        id.Net        // The ID of the Net that it is in.
	// The public IP under which VMs reach the Internet; absent from a deleted NAT service.
	PublicIps []PublicIpLight `json:"-" wire:"omitempty"`
	State     GatewayState    // The state of the NAT service.
	SubnetId  id.Subnet       // The ID of the public Subnet that it is in.
	Tags      []api.Tag       // The tags of the NAT service.

	// NicId is the NIC that has its private address, which nobody is shown.
	NicId id.Nic `wire:"-" ref:"weak"`
}

// PublicIpLight is a public IP as a NAT service shows it.
type PublicIpLight struct {
	PublicIp   api.IPv4    // The public IP.
	PublicIpId id.PublicIp `ref:"-"` // The ID of the public IP.
}

// NatServices are the NAT services of the region.
var NatServices = &resource.Kind[NatService, id.NatService]{
	Name:      "NatService",
	Tag:       "natgateway",
	NotFound:  apierror.NatServiceNotFound,
	InUse:     apierror.InUse,
	Quota:     &resource.Quota{Name: "nat_gateway_limit", Code: apierror.TooManyNatServices},
	Unique:    []string{"ClientToken"},
	Conflict:  apierror.NatServiceExists,
	Life:      gatewayLife,
	Retention: time.Hour, // as long as AWS shows deleted ones
}

func natServiceActions() []api.Action {
	r := api.NewResource(NatServices, viewNatService)
	return []api.Action{
		api.Do("NatService", createNatService),
		api.Read[ReadNatServicesRequest](r),
		api.Delete[DeleteNatServiceRequest](r, dropNatService),
	}
}

func viewNatService(tx *resource.Tx, n *NatService) *NatService {
	for ip := range PublicIps.Of(tx, n.NatServiceId) {
		n.PublicIps = append(n.PublicIps, PublicIpLight{PublicIp: ip.PublicIp, PublicIpId: ip.PublicIpId})
	}
	return n
}

// CreateNatServiceRequest asks for a NAT service in a Subnet that has a route
// to the Internet.
type CreateNatServiceRequest struct {
	// A text of the caller's choice. A request that has the one of an earlier request, and asks
	// for the same, makes no other NAT service.
	ClientToken string
	// The ID of the public IP under which VMs reach the Internet, which nothing else uses. It
	// is the NAT service's as long as that lives.
	PublicIpId id.PublicIp `api:"required"`
	// The ID of the Subnet, which has no other NAT service.
	SubnetId id.Subnet `api:"required"`
}

// CreateNatServiceResponse shows the NAT service.
type CreateNatServiceResponse struct {
	NatService *NatService // The NAT service.
}

func createNatService(tx *resource.Tx, req *CreateNatServiceRequest) (*CreateNatServiceResponse, error) {
	for n := range NatServices.Where(tx, "ClientToken", req.ClientToken) {
		n = viewNatService(tx, n)
		if n.SubnetId != req.SubnetId || n.PublicIps[0].PublicIpId != req.PublicIpId {
			return nil, apierror.TokenMismatch.Errorf(
				"The ClientToken '%s' came with another request before, for %s.", req.ClientToken, n.NatServiceId)
		}
		return &CreateNatServiceResponse{n}, nil
	}
	subnet, err := Subnets.Get(tx, req.SubnetId)
	if err != nil {
		return nil, err
	}
	ip, err := findPublicIp(tx, "", req.PublicIpId)
	if err != nil {
		return nil, err
	}
	if ip.NicId != "" {
		return nil, apierror.InUse.Errorf("The public IP %s is linked to a NIC, as %s.", ip.PublicIp, ip.LinkPublicIpId)
	}
	if err := ip.checkMovable(tx); err != nil {
		return nil, err
	}
	if err := subnet.checkPublic(tx); err != nil {
		return nil, err
	}
	for other := range NatServices.Of(tx, subnet.SubnetId) {
		return nil, apierror.NatServiceExists.Errorf("The Subnet %s has the NAT service %s.", subnet.SubnetId, other.NatServiceId)
	}
	n := &NatService{ClientToken: req.ClientToken, NetId: subnet.NetId, SubnetId: subnet.SubnetId}
	if err := NatServices.Insert(tx, n); err != nil {
		return nil, err
	}
	nic := &Nic{SubnetId: subnet.SubnetId, Service: string(n.NatServiceId)}
	if err := nic.add(tx); err != nil {
		return nil, err
	}
	n.NicId, ip.NatServiceId = nic.NicId, n.NatServiceId
	if err := NatServices.Put(tx, n); err != nil {
		return nil, err
	}
	if err := PublicIps.Put(tx, ip); err != nil {
		return nil, err
	}
	return &CreateNatServiceResponse{viewNatService(tx, n)}, nil
}

// checkPublic refuses a Subnet that has no route to the Internet.
func (s *Subnet) checkPublic(tx *resource.Tx) error {
	table, err := s.routeTable(tx)
	if err != nil {
		return err
	}
	for _, r := range table.Routes {
		if r.leadsToInternet() && r.works(tx, s.NetId) {
			return nil
		}
	}
	return apierror.NoInternetRoute.Errorf(
		"The route table %s of the Subnet %s has no route to an internet service.", table.RouteTableId, s.SubnetId)
}

// ReadNatServicesRequest asks for NAT services, those deleted not long ago
// among them.
type ReadNatServicesRequest struct {
	Filters *FiltersNatService // Which NAT services to list; all of them if absent.
	api.Page
}

// FiltersNatService selects NAT services.
type FiltersNatService struct {
	ClientTokens  []string        // The tokens that the NAT services were asked for with.
	NatServiceIds []id.NatService // The IDs of the NAT services.
	NetIds        []id.Net        // The IDs of the Nets that the NAT services are in.
	States        []GatewayState  // The states of the NAT services.
	SubnetIds     []id.Subnet     // The IDs of the Subnets that the NAT services are in.
	api.TagFilters
}

// DeleteNatServiceRequest deletes a NAT service. Its public IP stays the
// account's; routes that lead to it stay, and lead nowhere.
type DeleteNatServiceRequest struct {
	NatServiceId id.NatService `api:"required"` // The ID of the NAT service to delete.
}

func dropNatService(tx *resource.Tx, n *NatService) error {
	for ip := range PublicIps.Of(tx, n.NatServiceId) {
		ip.NatServiceId = ""
		if err := PublicIps.Put(tx, ip); err != nil {
			return err
		}
	}
	nic, err := Nics.Get(tx, n.NicId)
	if err != nil {
		return err
	}
	if err := Nics.Delete(tx, nic); err != nil {
		return err
	}
	n.NicId = ""
	return touch(tx, n.NetId)
}

// wantNatServices adds the NAT services of a Net to what the driver must have.
func wantNatServices(tx *resource.Tx, n *Net, want *driver.Net) error {
	for nat := range NatServices.Of(tx, n.NetId) {
		wanted := driver.Nat{ID: string(nat.NatServiceId), Subnet: string(nat.SubnetId), Nic: string(nat.NicId)}
		for ip := range PublicIps.Of(tx, nat.NatServiceId) {
			public, err := netip.ParseAddr(string(ip.PublicIp))
			if err != nil {
				return err
			}
			wanted.Public = append(wanted.Public, public)
		}
		want.Nats = append(want.Nats, wanted)
	}
	return nil
}
