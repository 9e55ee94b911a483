package network

import (
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// VirtualGateway is where VPN connections and DirectLink interfaces end, and
// the way of the [Net] that it is linked to into them.
type VirtualGateway struct {
	ConnectionType           ConnectionType            // The type of VPN connection that it supports.
	NetToVirtualGatewayLinks []NetToVirtualGatewayLink // The Net that it is linked to, and those that it was linked to.
	State                    GatewayState              // The state of the virtual gateway.
	Tags                     []api.Tag                 // The tags of the virtual gateway.
	VirtualGatewayId         id.VirtualGateway         // The ID of the virtual gateway.

	// NetId is the Net that it is linked to now: what keeps the Net.
	NetId id.Net `wire:"-"`
}

// NetToVirtualGatewayLink is the link between a virtual gateway and a Net.
type NetToVirtualGatewayLink struct {
	NetId id.Net           `ref:"-"` // The ID of the Net.
	State GatewayLinkState // The state of the link.
}

// VirtualGateways are the virtual gateways of the region.
var VirtualGateways = &kind.Kind[VirtualGateway, id.VirtualGateway]{
	Name:    "VirtualGateway",
	Tag:     "virtual-private-gateway",
	Missing: fault.VirtualGatewayNotFound,
	Held:    fault.InUse,
	// The catalogue has no code for too many virtual gateways: that of their links is nearest.
	Quota: &kind.Quota{Name: "vpg_limit", Code: fault.TooManyVirtualGatewayLinks},
	Keep:  time.Hour,
}

// ConnectionType is the type of a VPN connection.
type ConnectionType string

// Ipsec is the only type.
const Ipsec ConnectionType = "ipsec.1"

// Literals implements [api.Enum].
func (ConnectionType) Literals() []string { return []string{"ipsec.1"} }

// GatewayState is the state of a virtual gateway, a client gateway or a VPN
// connection.
type GatewayState string

// The states of gateways and connections.
const (
	GatewayPending   GatewayState = "pending"
	GatewayAvailable GatewayState = "available"
	GatewayDeleting  GatewayState = "deleting"
	GatewayDeleted   GatewayState = "deleted"
)

// Literals implements [api.Enum].
func (GatewayState) Literals() []string {
	return []string{"pending", "available", "deleting", "deleted"}
}

// GatewayLinkState is the state of the link between a virtual gateway and a Net.
type GatewayLinkState string

// The states of a link.
const (
	GatewayAttached GatewayLinkState = "attached"
	GatewayDetached GatewayLinkState = "detached"
)

// Literals implements [api.Enum].
func (GatewayLinkState) Literals() []string {
	return []string{"attaching", "attached", "detaching", "detached"}
}
