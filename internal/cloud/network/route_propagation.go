package network

import (
	"net/netip"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// A route table can take over what the VPN connections of a virtual gateway
// lead to. Such routes follow from the connections: whoever changes what they
// follow from makes them anew.

// UpdateRoutePropagationRequest makes a route table take over the routes of a
// virtual gateway, or no longer.
type UpdateRoutePropagationRequest struct {
	// Whether the table takes over the routes of the virtual gateway.
	Enable       bool          `api:"required"`
	RouteTableId id.RouteTable `api:"required"` // The ID of the route table.
	// The ID of the virtual gateway, which is linked to the Net of the table.
	VirtualGatewayId id.VirtualGateway `api:"required"`
}

// UpdateRoutePropagationResponse shows the route table.
type UpdateRoutePropagationResponse struct{ RouteTable *RouteTable }

func updateRoutePropagation(tx *resource.Tx, req *UpdateRoutePropagationRequest) (*UpdateRoutePropagationResponse, error) {
	table, err := RouteTables.Get(tx, req.RouteTableId)
	if err != nil {
		return nil, err
	}
	gateway, err := VirtualGateways.Get(tx, req.VirtualGatewayId)
	if err != nil {
		return nil, err
	}
	switch {
	case gateway.NetId == table.NetId:
	case gateway.NetId == "":
		return nil, apierror.GatewayNotLinked.Errorf("The VirtualGateway %s is linked to no Net.", gateway.VirtualGatewayId)
	default:
		return nil, apierror.InvalidPropagation.Errorf("The VirtualGateway %s is linked to %s, and the RouteTable %s is of %s.",
			gateway.VirtualGatewayId, gateway.NetId, table.RouteTableId, table.NetId)
	}
	table.ignore(gateway.VirtualGatewayId)
	if req.Enable {
		table.RoutePropagatingVirtualGateways = append(table.RoutePropagatingVirtualGateways,
			RoutePropagatingVirtualGateway{gateway.VirtualGatewayId})
	}
	table.takeOver(tx)
	if err := RouteTables.Put(tx, table); err != nil {
		return nil, err
	}
	return &UpdateRoutePropagationResponse{viewRouteTable(tx, table)}, touch(tx, table.NetId)
}

// ignore makes the table one that takes over nothing from a gateway.
func (t *RouteTable) ignore(gateway id.VirtualGateway) {
	t.RoutePropagatingVirtualGateways = slices.DeleteFunc(slices.Clone(t.RoutePropagatingVirtualGateways),
		func(from RoutePropagatingVirtualGateway) bool {
			return from.VirtualGatewayId == gateway
		})
}

// takeOver makes the propagated routes of the table anew. Whoever adds or takes
// away another route does it as well: one that was made by hand, or leads to
// the Net itself, hides propagated ones of the same destination, and the Net
// also those inside of it.
func (t *RouteTable) takeOver(tx *resource.Tx) {
	routes := slices.DeleteFunc(slices.Clone(t.Routes), func(r Route) bool { return r.CreationMethod == ByRoutePropagation })
	taken, ranges := map[api.CIDR]bool{}, []netip.Prefix{}
	for _, r := range routes {
		if taken[r.DestinationIpRange] = true; r.GatewayId == local {
			ranges = append(ranges, r.DestinationIpRange.Prefix()) // that of the Net
		}
	}
	hidden := func(destination api.CIDR) bool {
		return taken[destination] || slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return within(destination.Prefix(), r) })
	}
	for _, from := range t.RoutePropagatingVirtualGateways {
		for connection := range VpnConnections.Of(tx, from.VirtualGatewayId) {
			for _, destination := range connection.destinations() {
				if !hidden(destination) {
					taken[destination] = true
					routes = append(routes, Route{CreationMethod: ByRoutePropagation, DestinationIpRange: destination,
						GatewayId: string(from.VirtualGatewayId)})
				}
			}
		}
	}
	t.Routes = routes
}

// propagate brings changed routes of a gateway's VPN connections to the tables
// that take them over, and makes the driver hear of it.
func propagate(tx *resource.Tx, gatewayID id.VirtualGateway) error {
	gateway, err := VirtualGateways.Get(tx, gatewayID)
	if err != nil || gateway.NetId == "" {
		return err
	}
	for table := range RouteTables.Of(tx, gatewayID) {
		table.takeOver(tx)
		if err := RouteTables.Put(tx, table); err != nil {
			return err
		}
	}
	return touch(tx, gateway.NetId)
}

// endPropagation makes all tables take over nothing from a gateway any more.
func endPropagation(tx *resource.Tx, gateway id.VirtualGateway) error {
	for table := range RouteTables.Of(tx, gateway) {
		table.ignore(gateway)
		table.takeOver(tx)
		if err := RouteTables.Put(tx, table); err != nil {
			return err
		}
	}
	return nil
}
