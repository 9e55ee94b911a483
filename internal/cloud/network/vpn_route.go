package network

import (
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// RouteLight is a static route of a VPN connection.
type RouteLight struct {
	// The range of the destinations, which are behind the client gateway.
	DestinationIpRange api.CIDR
	RouteType          string        // How the route was made: always `static`.
	State              VpnRouteState // The state of the route.
}

// VpnRouteState is the state of a static route of a VPN connection.
type VpnRouteState string

// The states of a static route. A deleted one is only shown.
const (
	VpnRouteAvailable VpnRouteState = "available"
	VpnRouteDeleted   VpnRouteState = "deleted"
)

// Literals implements [api.Enum].
func (VpnRouteState) Literals() []string {
	return []string{"pending", "available", "deleting", "deleted"}
}

// What happens to a static route.
const (
	vpnRouteCreated   lifecycle.Event[VpnRouteState] = "created"
	vpnRouteDeleted   lifecycle.Event[VpnRouteState] = "deleted"
	vpnRouteForgotten lifecycle.Event[VpnRouteState] = "forgotten" // long after its end, or for one of the same destination
)

// vpnRouteLife is the life of a static route.
var vpnRouteLife = lifecycle.Table[VpnRouteState]{
	"":                {vpnRouteCreated: VpnRouteAvailable},
	VpnRouteAvailable: {vpnRouteDeleted: VpnRouteDeleted},
	VpnRouteDeleted:   {vpnRouteForgotten: ""},
}

// staticRoute is a [RouteLight] as it is kept.
type staticRoute struct {
	Destination api.CIDR
	Deleted     api.DateTime // zero: it works
}

// state is the state of the route, which follows from its deletion.
func (r staticRoute) state() VpnRouteState {
	if r.Deleted.IsZero() {
		return VpnRouteAvailable
	}
	return VpnRouteDeleted
}

// newStaticRoute makes a route.
func newStaticRoute(tx *resource.Tx, destination api.CIDR) staticRoute {
	var before VpnRouteState
	resource.Advance(tx, vpnRouteLife, &before, vpnRouteCreated)
	return staticRoute{Destination: destination}
}

// end deletes a route that works.
func (r *staticRoute) end(tx *resource.Tx) {
	if state := r.state(); resource.Advance(tx, vpnRouteLife, &state, vpnRouteDeleted) {
		r.Deleted = api.At(tx.Now())
	}
}

// forget reports whether a route can be dropped, which is one that was deleted.
func (r staticRoute) forget(tx *resource.Tx) bool {
	state := r.state()
	return resource.Advance(tx, vpnRouteLife, &state, vpnRouteForgotten)
}

// isForgotten reports a route that was deleted longer ago than a connection
// would still be shown. Clients fail if it is gone at once.
func (r staticRoute) isForgotten(now time.Time) bool {
	return !r.Deleted.IsZero() && !now.Before(r.Deleted.Time().Add(VpnConnections.Retention))
}

// routes are the static routes as they are shown.
func (c *VpnConnection) routes(now time.Time) []RouteLight {
	var shown []RouteLight
	for _, r := range c.StaticRoutes {
		if r.isForgotten(now) {
			continue
		}
		shown = append(shown, RouteLight{DestinationIpRange: r.Destination, RouteType: "static", State: r.state()})
	}
	return shown
}

// destinations are those of the static routes that work.
func (c *VpnConnection) destinations() []api.CIDR {
	var working []api.CIDR
	for _, r := range c.StaticRoutes {
		if r.state() == VpnRouteAvailable {
			working = append(working, r.Destination)
		}
	}
	return working
}

// CreateVpnConnectionRouteRequest adds a static route to a VPN connection that
// was made with StaticRoutesOnly.
type CreateVpnConnectionRouteRequest struct {
	// The range of the destinations, in CIDR notation.
	DestinationIpRange api.CIDR         `api:"required"`
	VpnConnectionId    id.VpnConnection `api:"required"` // The ID of the VPN connection.
}

func createVpnConnectionRoute(tx *resource.Tx, req *CreateVpnConnectionRouteRequest) error {
	c, err := staticConnection(tx, req.VpnConnectionId)
	if err != nil {
		return err
	}
	if slices.Contains(c.destinations(), req.DestinationIpRange) {
		return apierror.RouteExists.Errorf("The VpnConnection %s has a route to %s already.", c.VpnConnectionId, req.DestinationIpRange)
	}
	kept := slices.DeleteFunc(slices.Clone(c.StaticRoutes), func(r staticRoute) bool {
		return (r.Destination == req.DestinationIpRange || r.isForgotten(tx.Now())) && r.forget(tx)
	})
	c.StaticRoutes = append(kept, newStaticRoute(tx, req.DestinationIpRange))
	if err := tx.CheckLimit(staticRouteLimit, apierror.TooManyVpnRoutes, len(c.destinations())); err != nil {
		return err
	}
	return c.change(tx)
}

// DeleteVpnConnectionRouteRequest takes a static route from a VPN connection.
type DeleteVpnConnectionRouteRequest struct {
	// The range of the destinations of the route, in CIDR notation.
	DestinationIpRange api.CIDR         `api:"required"`
	VpnConnectionId    id.VpnConnection `api:"required"` // The ID of the VPN connection.
}

func deleteVpnConnectionRoute(tx *resource.Tx, req *DeleteVpnConnectionRouteRequest) error {
	c, err := staticConnection(tx, req.VpnConnectionId)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(c.StaticRoutes, func(r staticRoute) bool {
		return r.Destination == req.DestinationIpRange && r.state() == VpnRouteAvailable
	})
	if at < 0 {
		return apierror.VpnRouteNotFound.Errorf("The VpnConnection %s has no route to %s.", c.VpnConnectionId, req.DestinationIpRange)
	}
	c.StaticRoutes = slices.Clone(c.StaticRoutes)
	c.StaticRoutes[at].end(tx)
	return c.change(tx)
}

// staticConnection finds a connection that has static routes.
func staticConnection(tx *resource.Tx, connection id.VpnConnection) (*VpnConnection, error) {
	c, err := VpnConnections.Get(tx, connection)
	if err == nil && !c.StaticRoutesOnly {
		return nil, apierror.VpnNotStatic.Errorf(
			"The VpnConnection %s was created without StaticRoutesOnly: the client gateway announces its routes.", connection)
	}
	return c, err
}

// The quotas of each connection that do not count resources.
const (
	staticRouteLimit = "static_route_limit"
	bgpRouteLimit    = "bgp_route_limit" // held by who announces them: the driver only tells how many it has
)

// vpnMeters read the use of the quotas of each connection: that of the one with
// the most.
func vpnMeters() []resource.Meter {
	most := func(quota string, of func(*VpnConnection) int) resource.Meter {
		return resource.GlobalMeter(quota, func(tx *resource.Tx) (used int) {
			for c := range VpnConnections.All(tx) {
				used = max(used, of(c))
			}
			return used
		})
	}
	return []resource.Meter{
		most(staticRouteLimit, func(c *VpnConnection) int { return len(c.destinations()) }),
		most(bgpRouteLimit, func(c *VpnConnection) int { return c.Report.Routes }),
	}
}
