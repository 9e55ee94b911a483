package network

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Route says where packets to a destination go. What it leads to may be gone:
// the route is then a blackhole.
type Route struct {
	CreationMethod CreationMethod // How the route was made.
	// The range of the destinations; absent from routes to services.
	DestinationIpRange api.CIDR `wire:"omitempty"`
	// The ID of the service that the route leads to through a Net access point.
	DestinationServiceId string `wire:"omitempty"`
	// `local`, or the ID of an internet service or a virtual gateway.
	GatewayId        string            `wire:"omitempty"`
	NatServiceId     id.NatService     `ref:"-"`  // The ID of a NAT service.
	NetAccessPointId id.NetAccessPoint `ref:"-"`  // The ID of a Net access point.
	NetPeeringId     id.NetPeering     `ref:"-"`  // The ID of a Net peering.
	NicId            id.Nic            `ref:"-"`  // The ID of a NIC.
	State            RouteState        `json:"-"` // The state of the route.
	// The account ID of the owner of the VM.
	VmAccountId id.Account `json:"-" ref:"-"`
	// The ID of the VM that the NIC is linked to.
	VmId id.Vm `json:"-" ref:"-"`
}

// CreationMethod says how a route was made.
type CreationMethod string

// The ways in which routes are made.
const (
	ByCreateRouteTable CreationMethod = "CreateRouteTable"
	ByCreateRoute      CreationMethod = "CreateRoute"
	ByRoutePropagation CreationMethod = "EnableVgwRoutePropagation"
)

// RouteState is the state of a route.
type RouteState string

// The states of a route.
const (
	RouteActive    RouteState = "active"
	RouteBlackhole RouteState = "blackhole" // what it leads to is gone, or does not work
)

// local stands for the Net itself as the gateway of a route.
const local = "local"

func routeActions() []api.Action {
	r := api.NewResource(RouteTables, viewRouteTable).InFamily("Route")
	return []api.Action{
		api.Update(api.NewResource(RouteTables, viewNewRoute).InFamily("Route"), createRoute),
		api.Update(r, updateRoute),
		api.Update(r, deleteRoute),
	}
}

// viewNewRoute shows a table to which a route was added: that one comes last, as
// in the real service, and the others by destination.
func viewNewRoute(tx *resource.Tx, t *RouteTable) *RouteTable {
	t = completeRouteTable(tx, t)
	sortRoutes(t.Routes[:len(t.Routes)-1])
	return t
}

// sortRoutes puts routes in the order of their destinations; those to services,
// which have none, come last.
func sortRoutes(routes []Route) {
	slices.SortStableFunc(routes, func(a, b Route) int {
		switch {
		case a.DestinationIpRange != "" && b.DestinationIpRange != "":
			return a.DestinationIpRange.Prefix().Compare(b.DestinationIpRange.Prefix())
		case a.DestinationIpRange == "" && b.DestinationIpRange == "":
			return cmp.Compare(a.DestinationServiceId, b.DestinationServiceId)
		case a.DestinationIpRange == "":
			return 1
		}
		return -1
	})
}

// complete fills in what is not stored of a route in a Net.
func (r *Route) complete(tx *resource.Tx, netID id.Net) {
	r.State = RouteBlackhole
	if r.works(tx, netID) {
		r.State = RouteActive
	}
	if r.NicId == "" {
		return
	}
	if nic := Nics.Find(tx, r.NicId); nic != nil && nic.LinkNic != nil {
		r.VmId, r.VmAccountId = nic.LinkNic.VmId, id.Account(tx.Account())
	}
}

// works reports whether the target of a route in a Net is there and leads on.
func (r *Route) works(tx *resource.Tx, netID id.Net) bool {
	switch {
	case r.checkTarget(tx, netID) != nil:
		return false
	case r.leadsToInternet():
		service := InternetServices.Find(tx, id.InternetService(r.GatewayId))
		return service != nil && service.NetId == netID
	case r.NetPeeringId != "":
		peering := NetPeerings.Find(tx, r.NetPeeringId)
		return peering != nil && peering.State.Name == PeeringActive
	}
	return true
}

// checkTarget refuses a target that is not there, or not of the Net. An internet
// service need not be linked yet, nor a Net peering accepted.
func (r *Route) checkTarget(tx *resource.Tx, netID id.Net) error {
	switch {
	case r.GatewayId == local:
		return nil
	case r.GatewayId != "":
		return r.checkGateway(tx, netID)
	case r.NatServiceId != "":
		nat, err := NatServices.Get(tx, r.NatServiceId)
		if err == nil && nat.NetId != netID {
			return apierror.InvalidParameter.Errorf("The NAT service %s is not in the Net %s.", r.NatServiceId, netID)
		}
		return err
	case r.NetPeeringId != "":
		peering, err := NetPeerings.Get(tx, r.NetPeeringId)
		if err == nil && !slices.Contains(peering.OwnNets, netID) {
			return apierror.InvalidParameter.Errorf("The Net peering %s does not join the Net %s to another one.", r.NetPeeringId, netID)
		}
		return err
	case r.NetAccessPointId != "":
		_, err := NetAccessPoints.Get(tx, r.NetAccessPointId)
		return err
	}
	nic, err := Nics.Get(tx, r.NicId)
	if err == nil && nic.NetId != netID {
		return apierror.InvalidParameter.Errorf("The NIC %s is not in the Net %s.", r.NicId, netID)
	}
	return err
}

// checkGateway refuses a gateway that is not there, or linked to another Net.
func (r *Route) checkGateway(tx *resource.Tx, netID id.Net) error {
	if r.leadsToInternet() {
		service, err := InternetServices.Get(tx, id.InternetService(r.GatewayId))
		if err == nil && service.NetId != "" && service.NetId != netID {
			return apierror.GatewayNotFound.Errorf(
				"The internet service %s is linked to the Net %s, and not to %s.", r.GatewayId, service.NetId, netID)
		}
		return err
	}
	gateway, err := VirtualGateways.Get(tx, id.VirtualGateway(r.GatewayId))
	if err == nil && gateway.NetId != netID {
		return apierror.GatewayNotFound.Errorf("The virtual gateway %s is not linked to the Net %s.", r.GatewayId, netID)
	}
	return err
}

// leadsToInternet reports whether the route leads to an internet service.
func (r *Route) leadsToInternet() bool { return hasForm[id.InternetService](r.GatewayId) }

// hasForm tells the identifiers of a kind from those of others.
func hasForm[I resource.ID](text string) bool {
	var form I
	return strings.HasPrefix(text, form.Form().Prefix)
}

// RouteGateway is the ID of an internet service or of a virtual gateway.
type RouteGateway string

// Check reports a text that has the form of neither. No text at all is no
// gateway given.
func (g RouteGateway) Check() error {
	switch {
	case g == "":
		return nil
	case hasForm[id.VirtualGateway](string(g)):
		return id.VirtualGateway("").Form().Check(string(g))
	}
	return id.InternetService("").Form().Check(string(g))
}

// RouteTarget is what a route leads to: one of its fields says it.
type RouteTarget struct {
	// The ID of the internet service or the virtual gateway that is linked to the Net. Until an
	// internet service is linked, the route leads nowhere.
	GatewayId    RouteGateway
	NatServiceId id.NatService // The ID of a NAT service of the Net.
	// The ID of a Net peering of the Net. Until it is accepted, the route leads nowhere.
	NetPeeringId id.NetPeering
	NicId        id.Nic // The ID of a NIC in the Net.
	VmId         id.Vm  // The ID of a VM in the Net that has a single NIC.
}

// route is the route to a destination in a table.
func (to RouteTarget) route(tx *resource.Tx, t *RouteTable, destination api.CIDR) (r Route, err error) {
	given := 0
	for _, target := range []string{string(to.GatewayId), string(to.NatServiceId), string(to.NetPeeringId), string(to.NicId),
		string(to.VmId)} {
		if target != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return r, apierror.MissingParameter.Errorf("One of GatewayId, NatServiceId, NetPeeringId, NicId and VmId is required.")
	case given > 1:
		return r, apierror.InvalidParameterSet.Errorf(
			"One of GatewayId, NatServiceId, NetPeeringId, NicId and VmId is required, and %d are given.", given)
	case to.VmId != "":
		to.NicId, err = onlyNic(tx, to.VmId, t.NetId)
	case to.NicId != "":
		_, err = OwnNic(tx, to.NicId)
	}
	if err != nil {
		return r, err
	}
	r = Route{
		CreationMethod: ByCreateRoute, DestinationIpRange: destination,
		GatewayId: string(to.GatewayId), NatServiceId: to.NatServiceId, NetPeeringId: to.NetPeeringId, NicId: to.NicId,
	}
	return r, r.checkTarget(tx, t.NetId)
}

// onlyNic finds the NIC of a VM in a Net that has one.
func onlyNic(tx *resource.Tx, vm id.Vm, netID id.Net) (id.Nic, error) {
	nics, err := vmNics(tx, vm)
	switch {
	case err != nil:
		return "", err
	case nics[0].NetId != netID:
		return "", apierror.InvalidParameter.Errorf("The VM %s is not in the Net %s.", vm, netID)
	case len(nics) > 1:
		return "", apierror.InvalidParameter.Errorf("The VM %s has %d NICs: say with NicId which of them the route leads to.", vm, len(nics))
	}
	return nics[0].NicId, nil
}

// routeLimit is the quota of the routes in one table, propagated ones apart.
const routeLimit = "rtb_rule_limit"

// routeMeters read the use of the quota of routes: that of the fullest table.
func routeMeters() []resource.Meter {
	return []resource.Meter{resource.GlobalMeter(routeLimit, func(tx *resource.Tx) (most int) {
		for t := range RouteTables.All(tx) {
			most = max(most, countRoutes(t.Routes))
		}
		return most
	})}
}

// countRoutes is what the quota counts.
func countRoutes(routes []Route) (n int) {
	for _, r := range routes {
		if r.CreationMethod != ByRoutePropagation {
			n++
		}
	}
	return n
}

// CreateRouteRequest asks for a route in a route table, to one target.
type CreateRouteRequest struct {
	// The range of the destinations. Of several routes that match, the one with the longest
	// prefix counts.
	DestinationIpRange api.CIDR `api:"required"`
	RouteTarget
	RouteTableId id.RouteTable `api:"required"` // The ID of the route table.
}

func createRoute(tx *resource.Tx, t *RouteTable, req *CreateRouteRequest) error {
	route, err := req.route(tx, t, req.DestinationIpRange)
	if err != nil {
		return err
	}
	sameRange := func(r Route) bool { return r.DestinationIpRange == route.DestinationIpRange }
	if at := slices.IndexFunc(t.Routes, sameRange); at >= 0 && t.Routes[at].CreationMethod != ByRoutePropagation {
		return apierror.RouteExists.Errorf("The route table %s has a route to %s.", t.RouteTableId, route.DestinationIpRange)
	}
	net, err := Nets.Get(tx, t.NetId)
	if err != nil {
		return err
	}
	if within(req.DestinationIpRange.Prefix(), net.IpRange.Prefix()) {
		return apierror.InvalidParameter.Errorf(
			"The DestinationIpRange %s is inside %s, the local range of the Net %s.", req.DestinationIpRange, net.IpRange, net.NetId)
	}
	// It takes the place of a propagated one.
	t.Routes = append(slices.DeleteFunc(slices.Clone(t.Routes), sameRange), route)
	// The catalogue has no code for too many routes: that of route tables is nearest.
	if err := tx.CheckLimit(routeLimit, apierror.TooManyRouteTables, countRoutes(t.Routes)); err != nil {
		return err
	}
	return touch(tx, t.NetId)
}

// UpdateRouteRequest has a route of a route table lead to another target.
type UpdateRouteRequest struct {
	// The range of the destinations of the route, exactly.
	DestinationIpRange api.CIDR `api:"required"`
	RouteTarget
	RouteTableId id.RouteTable `api:"required"` // The ID of the route table.
}

func updateRoute(tx *resource.Tx, t *RouteTable, req *UpdateRouteRequest) error {
	at, err := t.ownRoute(req.DestinationIpRange)
	if err != nil {
		return err
	}
	route, err := req.route(tx, t, req.DestinationIpRange)
	if err != nil {
		return err
	}
	t.Routes = slices.Clone(t.Routes)
	t.Routes[at] = route
	return touch(tx, t.NetId)
}

// DeleteRouteRequest deletes a route of a route table.
type DeleteRouteRequest struct {
	// The range of the destinations of the route, exactly.
	DestinationIpRange api.CIDR      `api:"required"`
	RouteTableId       id.RouteTable `api:"required"` // The ID of the route table.
}

func deleteRoute(tx *resource.Tx, t *RouteTable, req *DeleteRouteRequest) error {
	at, err := t.ownRoute(req.DestinationIpRange)
	if err != nil {
		return err
	}
	t.Routes = slices.Delete(slices.Clone(t.Routes), at, at+1)
	t.takeOver(tx) // what it hid
	return touch(tx, t.NetId)
}

// ownRoute finds the route to a destination that the account made and may
// change.
func (t *RouteTable) ownRoute(destination api.CIDR) (int, error) {
	at := slices.IndexFunc(t.Routes, func(r Route) bool { return r.DestinationIpRange == destination })
	switch {
	case at < 0:
		return 0, apierror.RouteNotFound.Errorf("The route table %s has no route to %s.", t.RouteTableId, destination)
	case t.Routes[at].CreationMethod == ByCreateRouteTable:
		return 0, apierror.InvalidParameter.Errorf("The route to %s is the local one of the Net %s, which stays as it is.", destination, t.NetId)
	case t.Routes[at].CreationMethod == ByRoutePropagation:
		return 0, apierror.InvalidParameter.Errorf(
			"The route to %s is propagated by %s and cannot be changed.", destination, t.Routes[at].GatewayId)
	}
	return at, nil
}
