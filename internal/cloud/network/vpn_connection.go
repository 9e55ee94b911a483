package network

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VpnConnection is a tunnel over the Internet between a virtual gateway and a
// client gateway.
type VpnConnection struct {
	// What the client gateway must be told, as an XML document with the pre-shared key in it.
	// It is empty once the connection is deleted.
	ClientGatewayConfiguration string `json:"-"`
	// The ID of the client gateway, which is the client's end of the connection.
	ClientGatewayId id.ClientGateway
	ConnectionType  ConnectionType // The type of the connection.
	// The static routes of the connection. Deleted ones are among them for an hour.
	Routes []RouteLight `json:"-"`
	// The state of the connection. It is `pending` until our end is ready for the client's.
	State GatewayState
	// Whether the static routes say what is behind the client gateway; otherwise it announces
	// that by BGP.
	StaticRoutesOnly bool
	Tags             []api.Tag      // The tags of the connection.
	VgwTelemetries   []VgwTelemetry `json:"-"` // How the tunnel is doing.
	// The ID of the virtual gateway, which is our end of the connection.
	VirtualGatewayId id.VirtualGateway
	VpnConnectionId  id.VpnConnection // The ID of the connection.
	VpnOptions       VpnOptions       // How the two ends find and trust each other.

	// BgpAsn is that of the client gateway, for the filter.
	BgpAsn GatewayAsn `json:"-" wire:"-"`

	// OutsideIp is the public address of our end, taken from the pool.
	OutsideIp api.IPv4 `wire:"-"`
	// StaticRoutes are what Routes shows.
	StaticRoutes []staticRoute `wire:"-"`
	// Report is what the driver last said of the tunnel. Only the loop writes it.
	Report tunnelReport `wire:"-"`

	// Generation counts the changes that the driver must hear of. ObservedGeneration is
	// the generation that the driver has, as far as we know, and is written by
	// the loop only.
	Generation         uint64 `wire:"-"`
	ObservedGeneration uint64 `wire:"-"`
}

// Pending reports whether the driver is behind.
func (c *VpnConnection) Pending() bool { return c.ObservedGeneration < c.Generation }

// tunnelReport is how a tunnel is doing.
type tunnelReport struct {
	Up     bool
	Since  api.DateTime // when it came up or went down
	Routes int          // how many routes BGP has accepted
}

// VgwTelemetry is how a tunnel is doing.
type VgwTelemetry struct {
	AcceptedRouteCount  int          // How many routes BGP has accepted.
	LastStateChangeDate api.DateTime // When the tunnel last came up or went down.
	OutsideIpAddress    api.IPv4     // The public IP of our end of the tunnel.
	State               TunnelState  // The state of the tunnel.
	StateDescription    string       // What the state means.
}

// TunnelState is the state of a tunnel.
type TunnelState string

// The states of a tunnel.
const (
	TunnelUp   TunnelState = "UP"
	TunnelDown TunnelState = "DOWN"
)

// Literals implements [api.Enum].
func (TunnelState) Literals() []string { return []string{"UP", "DOWN"} }

// VpnConnections are the VPN connections of the region.
var VpnConnections = &resource.Kind[VpnConnection, id.VpnConnection]{
	Name:     "VpnConnection",
	Tag:      "vpn-connection",
	NotFound: apierror.VpnConnectionNotFound,
	// The catalogue has no code for too many connections of a gateway: that of its links is nearest.
	Quota:     &resource.Quota{Name: "vpnc_limit", Code: apierror.TooManyVirtualGatewayLinks, Per: "VirtualGatewayId"},
	Life:      vpnConnectionLife,
	Retention: time.Hour, // as the user guide says; clients fail if it is gone at once
}

// vpnConnectionLife is the life of a VPN connection. The driver is asked again
// after each change of what the tunnel is.
var vpnConnectionLife = lifecycle.Table[GatewayState]{
	"":               {gatewayCreated: GatewayPending},
	GatewayPending:   {gatewayApplied: GatewayAvailable, gatewayUpdated: GatewayPending, gatewayDeleted: GatewayDeleted},
	GatewayAvailable: {gatewayUpdated: GatewayPending, gatewayDeleted: GatewayDeleted},
	GatewayDeleted:   {gatewayForgotten: ""},
}

func vpnConnectionActions(region Region) []api.Action {
	r := api.NewResource(VpnConnections, viewVpnConnection)
	return []api.Action{
		api.Create(r, region.createVpnConnection),
		api.Read[ReadVpnConnectionsRequest](r),
		api.Update(r, updateVpnConnection),
		api.Delete[DeleteVpnConnectionRequest](r, deleteVpnConnection),
		api.Command("VpnConnection", createVpnConnectionRoute),
		api.Command("VpnConnection", deleteVpnConnectionRoute),
	}
}

func viewVpnConnection(tx *resource.Tx, c *VpnConnection) *VpnConnection {
	c.Routes = c.routes(tx.Now())
	c.VgwTelemetries = []VgwTelemetry{c.telemetry()}
	// A deleted connection may have outlived the client gateway.
	if client := ClientGateways.Find(tx, c.ClientGatewayId); client != nil && c.State != GatewayDeleted {
		c.BgpAsn = client.BgpAsn
		c.ClientGatewayConfiguration = c.configuration(client)
	}
	return c
}

func (c *VpnConnection) telemetry() VgwTelemetry {
	t := VgwTelemetry{
		AcceptedRouteCount: c.Report.Routes, LastStateChangeDate: c.Report.Since, OutsideIpAddress: c.OutsideIp,
		State: TunnelDown, StateDescription: "IPSEC IS DOWN",
	}
	if c.Report.Up {
		t.State, t.StateDescription = TunnelUp, "IPSEC IS UP"
	}
	if c.Report.Up && !c.StaticRoutesOnly {
		t.StateDescription = fmt.Sprintf("%d BGP ROUTES", c.Report.Routes)
	}
	return t
}

// CreateVpnConnectionRequest asks for a VPN connection between two gateways that
// have none yet.
type CreateVpnConnectionRequest struct {
	ClientGatewayId id.ClientGateway `api:"required"` // The ID of the client gateway.
	// The type of the connection: always `ipsec.1`.
	ConnectionType ConnectionType `api:"required"`
	// Whether static routes say what is behind the client gateway. By default it announces that
	// by BGP.
	StaticRoutesOnly bool
	VirtualGatewayId id.VirtualGateway `api:"required"` // The ID of the virtual gateway.
}

func (region Region) createVpnConnection(tx *resource.Tx, req *CreateVpnConnectionRequest) (*VpnConnection, error) {
	c := &VpnConnection{
		ClientGatewayId: req.ClientGatewayId, VirtualGatewayId: req.VirtualGatewayId,
		ConnectionType: req.ConnectionType, StaticRoutesOnly: req.StaticRoutesOnly,
		Generation: 1, Report: tunnelReport{Since: api.At(tx.Now())},
	}
	if err := c.checkEnds(tx); err != nil {
		return nil, err
	}
	inside, err := chooseInside(tx, c.VirtualGatewayId)
	if err != nil {
		return nil, err
	}
	c.VpnOptions = defaultVpnOptions(inside, newPreSharedKey(tx))
	c.OutsideIp, err = allocateAddress(tx, region.PublicIps)
	return c, err
}

// checkEnds makes sure that both gateways are there and that no other
// connection joins them.
func (c *VpnConnection) checkEnds(tx *resource.Tx) error {
	if _, err := VirtualGateways.Get(tx, c.VirtualGatewayId); err != nil {
		return err
	}
	if _, err := ClientGateways.Get(tx, c.ClientGatewayId); err != nil {
		return err
	}
	for other := range c.siblings(tx) {
		if other.ClientGatewayId == c.ClientGatewayId {
			return apierror.VpnConnectionExists.Errorf(
				"The VpnConnection %s joins %s and %s already.", other.VpnConnectionId, c.VirtualGatewayId, c.ClientGatewayId)
		}
	}
	return nil
}

// siblings are the other connections of the virtual gateway.
func (c *VpnConnection) siblings(tx *resource.Tx) iter.Seq[*VpnConnection] {
	return func(yield func(*VpnConnection) bool) {
		for other := range VpnConnections.Of(tx, c.VirtualGatewayId) {
			if other.VpnConnectionId != c.VpnConnectionId && !yield(other) {
				return
			}
		}
	}
}

// ReadVpnConnectionsRequest asks for VPN connections. Deleted ones are among
// them for an hour.
type ReadVpnConnectionsRequest struct {
	Filters *FiltersVpnConnection // Which VPN connections to list; all of them if absent.
	api.Page
}

// FiltersVpnConnection selects VPN connections.
type FiltersVpnConnection struct {
	// The autonomous system numbers of the client gateways.
	BgpAsns          []GatewayAsn
	ClientGatewayIds []id.ClientGateway // The IDs of the client gateways.
	ConnectionTypes  []ConnectionType   // The types of the connections.
	// The destinations of the static routes.
	RouteDestinationIpRanges []api.CIDR
	States                   []GatewayState // The states of the connections.
	// Whether static routes say what is behind the client gateways.
	StaticRoutesOnly  *bool
	VirtualGatewayIds []id.VirtualGateway // The IDs of the virtual gateways.
	VpnConnectionIds  []id.VpnConnection  // The IDs of the connections.
	api.TagFilters
}

// UpdateVpnConnectionRequest changes the ends of a VPN connection, or how they
// find and trust each other. What it does not say stays.
type UpdateVpnConnectionRequest struct {
	ClientGatewayId  id.ClientGateway  // The ID of another client gateway.
	VirtualGatewayId id.VirtualGateway // The ID of another virtual gateway.
	VpnConnectionId  id.VpnConnection  `api:"required"` // The ID of the connection.
	VpnOptions       *VpnOptions       // The options to change.
}

func updateVpnConnection(tx *resource.Tx, c *VpnConnection, req *UpdateVpnConnectionRequest) error {
	before := c.VirtualGatewayId
	if req.ClientGatewayId != "" {
		c.ClientGatewayId = req.ClientGatewayId
	}
	if req.VirtualGatewayId != "" {
		c.VirtualGatewayId = req.VirtualGatewayId
	}
	if err := c.checkEnds(tx); err != nil {
		return err
	}
	if req.VpnOptions != nil {
		c.VpnOptions = c.VpnOptions.with(req.VpnOptions)
	}
	if err := c.checkOptions(tx); err != nil {
		return err
	}
	if err := resource.Transition(tx, VpnConnections, c, gatewayUpdated); err != nil {
		return err
	}
	if err := c.change(tx); err != nil || c.VirtualGatewayId == before {
		return err
	}
	if err := checkConnections(tx, c.VirtualGatewayId); err != nil {
		return err
	}
	return propagate(tx, before)
}

// checkConnections holds a virtual gateway that was given another connection to
// the quota, which is otherwise looked at when one is made.
func checkConnections(tx *resource.Tx, gateway id.VirtualGateway) error {
	used := 0
	for range VpnConnections.Of(tx, gateway) {
		used++
	}
	return tx.CheckLimit(VpnConnections.Quota.Name, VpnConnections.Quota.Code, used)
}

// change writes a connection that is no longer as the driver was told, and
// brings its routes to the tables that take them over.
func (c *VpnConnection) change(tx *resource.Tx) error {
	c.Generation++
	if err := VpnConnections.Put(tx, c); err != nil {
		return err
	}
	return propagate(tx, c.VirtualGatewayId)
}

// DeleteVpnConnectionRequest deletes a VPN connection and the routes that it
// gave to route tables.
type DeleteVpnConnectionRequest struct {
	VpnConnectionId id.VpnConnection `api:"required"` // The ID of the connection to delete.
}

func deleteVpnConnection(tx *resource.Tx, c *VpnConnection) error {
	now := api.At(tx.Now())
	c.VpnOptions = c.VpnOptions.withoutSecret()
	if c.Report.Up {
		c.Report = tunnelReport{Since: now}
	}
	c.StaticRoutes = slices.Clone(c.StaticRoutes)
	for i := range c.StaticRoutes {
		c.StaticRoutes[i].end(tx)
	}
	if err := releaseAddress(tx, c.OutsideIp); err != nil {
		return err
	}
	return c.change(tx)
}
