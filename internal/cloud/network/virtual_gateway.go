package network

import (
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VirtualGateway is where VPN connections and DirectLink interfaces end, and
// the way of the [Net] that it is linked to into them.
type VirtualGateway struct {
	// The type of VPN connection that it supports.
	ConnectionType ConnectionType
	// The Net that it is linked to, then those that it was linked to, the latest first.
	NetToVirtualGatewayLinks []NetToVirtualGatewayLink
	State                    GatewayState      // The state of the virtual gateway.
	Tags                     []api.Tag         // The tags of the virtual gateway.
	VirtualGatewayId         id.VirtualGateway // The ID of the virtual gateway.

	// NetId is the Net that it is linked to now: what keeps the Net.
	NetId id.Net `wire:"-"`
}

// NetToVirtualGatewayLink is the link between a virtual gateway and a Net.
type NetToVirtualGatewayLink struct {
	NetId id.Net           `ref:"-"` // The ID of the Net.
	State GatewayLinkState // The state of the link.
}

// VirtualGateways are the virtual gateways of the region.
var VirtualGateways = &resource.Kind[VirtualGateway, id.VirtualGateway]{
	Name:     "VirtualGateway",
	Tag:      "virtual-private-gateway",
	NotFound: apierror.VirtualGatewayNotFound,
	InUse:    apierror.InUse,
	// The catalogue has no code for too many virtual gateways: that of their links is nearest.
	Quota:     &resource.Quota{Name: "vpg_limit", Code: apierror.TooManyVirtualGatewayLinks},
	Life:      gatewayLife,
	Retention: time.Hour,
}

// ConnectionType is the type of a VPN connection.
type ConnectionType string

// Ipsec is the only type.
const Ipsec ConnectionType = "ipsec.1"

// Literals implements [api.Enum].
func (ConnectionType) Literals() []string { return []string{"ipsec.1"} }

// Check reports any other type.
func (t ConnectionType) Check() error {
	if t != Ipsec {
		return apierror.InvalidVpnType.Errorf("'%s' is not a type of VPN connection: the only one is %s.", t, Ipsec)
	}
	return nil
}

// GatewayState is the state of whatever leads out of a Net: a virtual gateway, a
// client gateway, a VPN connection, a NAT service or a Net access point.
type GatewayState string

// The states of gateways and their like.
const (
	GatewayPending   GatewayState = "pending"
	GatewayAvailable GatewayState = "available"
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

// What happens to gateways and their like.
const (
	gatewayCreated   lifecycle.Event[GatewayState] = "created"
	gatewayApplied   lifecycle.Event[GatewayState] = "applied" // the driver has it
	gatewayUpdated   lifecycle.Event[GatewayState] = "updated"
	gatewayDeleted   lifecycle.Event[GatewayState] = "deleted"
	gatewayForgotten lifecycle.Event[GatewayState] = "forgotten"
)

// gatewayLife is the life of a virtual gateway, a client gateway or a NAT service:
// there is nothing to wait for at either end of it. A deleted one is only shown.
var gatewayLife = lifecycle.Table[GatewayState]{
	"":               {gatewayCreated: GatewayAvailable},
	GatewayAvailable: {gatewayDeleted: GatewayDeleted},
	GatewayDeleted:   {gatewayForgotten: ""},
}

// What happens to the link between a virtual gateway and a Net.
const (
	gatewayLinked        lifecycle.Event[GatewayLinkState] = "linked"
	gatewayUnlinked      lifecycle.Event[GatewayLinkState] = "unlinked"
	gatewayLinkForgotten lifecycle.Event[GatewayLinkState] = "forgotten" // with its Net
)

// gatewayLinkLife is the life of the link between a virtual gateway and a Net, as
// the gateway shows it.
var gatewayLinkLife = lifecycle.Table[GatewayLinkState]{
	"":              {gatewayLinked: GatewayAttached},
	GatewayAttached: {gatewayUnlinked: GatewayDetached},
	GatewayDetached: {gatewayLinked: GatewayAttached, gatewayLinkForgotten: ""},
}

func virtualGatewayActions() []api.Action {
	r := api.NewResource(VirtualGateways, api.Plain[VirtualGateway])
	return []api.Action{
		api.Create(r, createVirtualGateway),
		api.Read[ReadVirtualGatewaysRequest](r),
		api.Delete[DeleteVirtualGatewayRequest](r, deleteVirtualGateway),
		api.Do("VirtualGateway", linkVirtualGateway),
		api.Command("VirtualGateway", unlinkVirtualGateway),
		api.Do("VirtualGateway", updateRoutePropagation),
	}
}

// CreateVirtualGatewayRequest asks for a virtual gateway, which is then linked
// to a Net.
type CreateVirtualGatewayRequest struct {
	// The type of VPN connection that it shall support: always `ipsec.1`.
	ConnectionType ConnectionType `api:"required"`
}

func createVirtualGateway(_ *resource.Tx, req *CreateVirtualGatewayRequest) (*VirtualGateway, error) {
	return &VirtualGateway{ConnectionType: req.ConnectionType}, nil
}

// ReadVirtualGatewaysRequest asks for virtual gateways. Deleted ones are among
// them for an hour.
type ReadVirtualGatewaysRequest struct {
	Filters *FiltersVirtualGateway // Which virtual gateways to list; all of them if absent.
	api.Page
}

// FiltersVirtualGateway selects virtual gateways.
type FiltersVirtualGateway struct {
	ConnectionTypes []ConnectionType // The types of VPN connection that they support.
	// The IDs of the Nets that they are or were linked to.
	LinkNetIds []id.Net `path:"NetToVirtualGatewayLinks.NetId"`
	// The states of their links.
	LinkStates        []GatewayLinkState  `path:"NetToVirtualGatewayLinks.State"`
	States            []GatewayState      // The states of the virtual gateways.
	VirtualGatewayIds []id.VirtualGateway // The IDs of the virtual gateways.
	api.TagFilters
}

// DeleteVirtualGatewayRequest deletes a virtual gateway that is linked to no
// Net and that no VPN connection or DirectLink interface uses.
type DeleteVirtualGatewayRequest struct {
	VirtualGatewayId id.VirtualGateway `api:"required"` // The ID of the virtual gateway to delete.
}

func deleteVirtualGateway(_ *resource.Tx, g *VirtualGateway) error {
	if g.NetId != "" {
		return apierror.InUse.Errorf(
			"The VirtualGateway %s is linked to the Net %s: unlink it first, with UnlinkVirtualGateway.", g.VirtualGatewayId, g.NetId)
	}
	return nil
}

// LinkVirtualGatewayRequest links a virtual gateway to a Net. Neither may be
// linked already.
type LinkVirtualGatewayRequest struct {
	NetId            id.Net            `api:"required"` // The ID of the Net.
	VirtualGatewayId id.VirtualGateway `api:"required"` // The ID of the virtual gateway.
}

// LinkVirtualGatewayResponse shows the link.
type LinkVirtualGatewayResponse struct{ NetToVirtualGatewayLink *NetToVirtualGatewayLink }

func linkVirtualGateway(tx *resource.Tx, req *LinkVirtualGatewayRequest) (*LinkVirtualGatewayResponse, error) {
	gateway, err := VirtualGateways.Get(tx, req.VirtualGatewayId)
	if err != nil {
		return nil, err
	}
	if _, err := Nets.Get(tx, req.NetId); err != nil {
		return nil, err
	}
	if gateway.NetId != "" {
		return nil, apierror.GatewayLinked.Errorf("The VirtualGateway %s is linked to %s already.", gateway.VirtualGatewayId, gateway.NetId)
	}
	for other := range VirtualGateways.Of(tx, req.NetId) {
		return nil, apierror.NetLinked.Errorf("The Net %s is linked to %s already.", req.NetId, other.VirtualGatewayId)
	}
	gateway.NetId = req.NetId
	link := gateway.note(tx, req.NetId, gatewayLinked)
	return &LinkVirtualGatewayResponse{link}, gateway.moved(tx, req.NetId)
}

// UnlinkVirtualGatewayRequest ends the link between a virtual gateway and a
// Net. Route tables of the Net no longer take over routes from the gateway.
type UnlinkVirtualGatewayRequest struct {
	NetId            id.Net            `api:"required"` // The ID of the Net.
	VirtualGatewayId id.VirtualGateway `api:"required"` // The ID of the virtual gateway.
}

func unlinkVirtualGateway(tx *resource.Tx, req *UnlinkVirtualGatewayRequest) error {
	gateway, err := VirtualGateways.Get(tx, req.VirtualGatewayId)
	if err != nil {
		return err
	}
	if _, err := Nets.Get(tx, req.NetId); err != nil {
		return err
	}
	switch gateway.NetId {
	case req.NetId:
	case "":
		return apierror.GatewayNotLinked.Errorf("The VirtualGateway %s is linked to no Net.", gateway.VirtualGatewayId)
	default:
		return apierror.VirtualGatewayLinkNotFound.Errorf(
			"The VirtualGateway %s is linked to %s, not to %s.", gateway.VirtualGatewayId, gateway.NetId, req.NetId)
	}
	if err := endPropagation(tx, gateway.VirtualGatewayId); err != nil {
		return err
	}
	gateway.NetId = ""
	gateway.note(tx, req.NetId, gatewayUnlinked)
	return gateway.moved(tx, req.NetId)
}

// note lets an event happen to the link with a Net, and puts the link first in the
// list. Nets that are gone leave the list, which is so never longer than the list
// of Nets.
func (g *VirtualGateway) note(tx *resource.Tx, netID id.Net, event lifecycle.Event[GatewayLinkState]) *NetToVirtualGatewayLink {
	link := NetToVirtualGatewayLink{NetId: netID}
	others := slices.DeleteFunc(slices.Clone(g.NetToVirtualGatewayLinks), func(old NetToVirtualGatewayLink) bool {
		if old.NetId == netID {
			link = old
			return true
		}
		return !Nets.Has(tx, old.NetId) && resource.Advance(tx, gatewayLinkLife, &old.State, gatewayLinkForgotten)
	})
	resource.Advance(tx, gatewayLinkLife, &link.State, event)
	g.NetToVirtualGatewayLinks = append([]NetToVirtualGatewayLink{link}, others...)
	return &link
}

// moved writes a gateway that was linked to a Net, or unlinked from it, and
// makes the driver hear of it: of the Net and of each tunnel.
func (g *VirtualGateway) moved(tx *resource.Tx, netID id.Net) error {
	if err := VirtualGateways.Put(tx, g); err != nil {
		return err
	}
	for connection := range VpnConnections.Of(tx, g.VirtualGatewayId) {
		connection.Generation++
		if err := VpnConnections.Put(tx, connection); err != nil {
			return err
		}
	}
	if err := touchInterfaces(tx, g.VirtualGatewayId); err != nil {
		return err
	}
	return touch(tx, netID)
}

// wantVirtualGateway adds the virtual gateway of a Net to what the driver must have.
func wantVirtualGateway(tx *resource.Tx, n *Net, want *driver.Net) error {
	for g := range VirtualGateways.Of(tx, n.NetId) {
		want.VirtualGateway = string(g.VirtualGatewayId)
	}
	return nil
}
