package network

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ClientGateway is the client's end of VPN connections, as the client describes
// it.
type ClientGateway struct {
	BgpAsn          GatewayAsn       // The autonomous system number of the client's network in BGP.
	ClientGatewayId id.ClientGateway // The ID of the client gateway.
	ConnectionType  ConnectionType   // The type of VPN connection that it supports.
	PublicIp        api.IPv4         // The public IP of the client gateway.
	State           GatewayState     // The state of the client gateway.
	Tags            []api.Tag        // The tags of the client gateway.
}

// ClientGateways are the client gateways of the region.
var ClientGateways = &resource.Kind[ClientGateway, id.ClientGateway]{
	Name:      "ClientGateway",
	Tag:       "customer-gateway",
	NotFound:  apierror.ClientGatewayNotFound,
	InUse:     apierror.ClientGatewayInUse,
	Quota:     &resource.Quota{Name: "cgw_limit", Code: apierror.TooManyClientGateways},
	Life:      gatewayLife,
	Retention: time.Hour,
}

// GatewayAsn is the number of an autonomous system that a client's network can
// be.
type GatewayAsn int64

// regionAsn is the number of our own autonomous system, towards tunnels.
const regionAsn GatewayAsn = 50624

// ownAsns are the numbers that the regions of the real service have themselves.
var ownAsns = []GatewayAsn{regionAsn, 53306, 132418}

// Bounds implements [api.Bounded]: a number has 32 bits, and 0 is none.
func (GatewayAsn) Bounds() (low, high int64) { return 1, 1<<32 - 1 }

// Check reports a number that no client can have.
func (n GatewayAsn) Check() error {
	if low, high := n.Bounds(); int64(n) < low || int64(n) > high {
		return apierror.InvalidAsn.Errorf("%d is not between %d and %d.", n, low, high)
	}
	if slices.Contains(ownAsns, n) {
		return apierror.InvalidAsn.Errorf("%d is a number of the regions themselves.", n)
	}
	return nil
}

func clientGatewayActions() []api.Action {
	r := api.NewResource(ClientGateways, api.Plain[ClientGateway])
	return []api.Action{
		api.Create(r, createClientGateway),
		api.Read[ReadClientGatewaysRequest](r),
		api.Delete[DeleteClientGatewayRequest](r),
	}
}

// CreateClientGatewayRequest describes the client's end of VPN connections.
type CreateClientGatewayRequest struct {
	// The autonomous system number of the client's network, between 1 and 4294967295 but for
	// 50624, 53306 and 132418. Who has none takes one between 64512 and 65534 or between
	// 4200000000 and 4294967295.
	BgpAsn GatewayAsn `api:"required"`
	// The type of VPN connection that it supports: always `ipsec.1`.
	ConnectionType ConnectionType `api:"required"`
	PublicIp       api.IPv4       `api:"required"` // The fixed public IP of the client gateway.
}

func createClientGateway(_ *resource.Tx, req *CreateClientGatewayRequest) (*ClientGateway, error) {
	if !isPublic(req.PublicIp) {
		return nil, apierror.InvalidIPAddress.Errorf("The PublicIp %s is not an address that can be reached over the Internet.", req.PublicIp)
	}
	return &ClientGateway{BgpAsn: req.BgpAsn, ConnectionType: req.ConnectionType, PublicIp: req.PublicIp}, nil
}

// unreachable are the ranges of IPv4 that nobody has on the Internet. Those for
// documents and for tests are not among them: the published examples have
// addresses of the first, and the pool of this region is of the second.
var unreachable = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"), // groups, and what is set aside
}

// isPublic reports whether a machine on the Internet can have the address.
func isPublic(ip api.IPv4) bool {
	a := netip.MustParseAddr(string(ip))
	return !slices.ContainsFunc(unreachable, func(r netip.Prefix) bool { return r.Contains(a) })
}

// ReadClientGatewaysRequest asks for client gateways. Deleted ones are among
// them for an hour.
type ReadClientGatewaysRequest struct {
	Filters *FiltersClientGateway // Which client gateways to list; all of them if absent.
	api.Page
}

// FiltersClientGateway selects client gateways.
type FiltersClientGateway struct {
	BgpAsns          []GatewayAsn       // The autonomous system numbers of the clients' networks.
	ClientGatewayIds []id.ClientGateway // The IDs of the client gateways.
	ConnectionTypes  []ConnectionType   // The types of VPN connection that they support.
	PublicIps        []api.IPv4         // The public IPs of the client gateways.
	States           []GatewayState     // The states of the client gateways.
	api.TagFilters
}

// DeleteClientGatewayRequest deletes a client gateway that no VPN connection
// leads to any more.
type DeleteClientGatewayRequest struct {
	ClientGatewayId id.ClientGateway `api:"required"` // The ID of the client gateway to delete.
}
