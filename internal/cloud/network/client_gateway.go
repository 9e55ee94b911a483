package network

import (
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// ClientGateway is the client's end of VPN connections, as the client describes
// it.
type ClientGateway struct {
	BgpAsn          int64            // The autonomous system number of the client's network in BGP.
	ClientGatewayId id.ClientGateway // The ID of the client gateway.
	ConnectionType  ConnectionType   // The type of VPN connection that it supports.
	PublicIp        api.IPv4         // The public IP of the client gateway.
	State           GatewayState     // The state of the client gateway.
	Tags            []api.Tag        // The tags of the client gateway.
}

// ClientGateways are the client gateways of the region.
var ClientGateways = &kind.Kind[ClientGateway, id.ClientGateway]{
	Name:    "ClientGateway",
	Tag:     "customer-gateway",
	Missing: fault.ClientGatewayNotFound,
	Held:    fault.ClientGatewayInUse,
	Quota:   &kind.Quota{Name: "cgw_limit", Code: fault.TooManyClientGateways},
	Keep:    time.Hour,
}
