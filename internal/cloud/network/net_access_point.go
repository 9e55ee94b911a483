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

// NetAccessPoint leads from a [Net] to a [Service] of the region without the
// Internet. Each of its route tables has a route to the service through it,
// which comes and goes with the table's place in the list.
type NetAccessPoint struct {
	NetAccessPointId id.NetAccessPoint // The ID of the Net access point.
	NetId            id.Net            // The ID of the Net that it is in.
	RouteTableIds    []id.RouteTable   `ref:"weak"` // The IDs of the route tables that lead to it.
	ServiceName      string            // The name of the service that it leads to.
	// The state of the Net access point. It is `pending` until packets can go through it.
	State GatewayState
	Tags  []api.Tag // The tags of the Net access point.

	ServiceId string `wire:"-"` // what its routes lead to
}

// NetAccessPoints are the Net access points of the region.
var NetAccessPoints = &resource.Kind[NetAccessPoint, id.NetAccessPoint]{
	Name:      "NetAccessPoint",
	Tag:       "vpc-endpoint",
	NotFound:  apierror.NetAccessPointNotFound,
	InUse:     apierror.InUse,
	Quota:     &resource.Quota{Name: "network_endpoint_limit", Code: apierror.TooManyNetAccessPoints},
	Life:      netAccessPointLife,
	Retention: time.Hour,
}

// netAccessPointLife is the life of a Net access point. The driver must have it
// before packets can go through it.
var netAccessPointLife = lifecycle.Table[GatewayState]{
	"":               {gatewayCreated: GatewayPending},
	GatewayPending:   {gatewayApplied: GatewayAvailable, gatewayDeleted: GatewayDeleted},
	GatewayAvailable: {gatewayDeleted: GatewayDeleted},
	GatewayDeleted:   {gatewayForgotten: ""},
}

func netAccessPointActions(region Region) []api.Action {
	r := api.NewResource(NetAccessPoints, api.Plain[NetAccessPoint])
	return []api.Action{
		api.Create(r, region.createNetAccessPoint, addServiceRoutes),
		api.Read[ReadNetAccessPointsRequest](r),
		api.Update(r, updateNetAccessPoint),
		api.Delete[DeleteNetAccessPointRequest](r, endNetAccessPoint),
		region.readServices(),
	}
}

// CreateNetAccessPointRequest asks for a way from a Net to a service.
type CreateNetAccessPointRequest struct {
	// The ID of the Net, which has no access point to the service yet.
	NetId id.Net `api:"required"`
	// The IDs of the route tables of the Net that shall have a route to the service.
	RouteTableIds []id.RouteTable
	// The name of the service, as ReadNetAccessPointServices tells it.
	ServiceName string `api:"required"`
}

func (region Region) createNetAccessPoint(tx *resource.Tx, req *CreateNetAccessPointRequest) (*NetAccessPoint, error) {
	if err := touch(tx, req.NetId); err != nil {
		return nil, err
	}
	service, err := region.serviceNamed(req.ServiceName)
	if err != nil {
		return nil, err
	}
	for other := range NetAccessPoints.Of(tx, req.NetId) {
		if other.ServiceName == req.ServiceName {
			return nil, apierror.NetAccessPointExists.Errorf(
				"The Net %s has an access point to %s already, %s.", req.NetId, req.ServiceName, other.NetAccessPointId)
		}
	}
	return &NetAccessPoint{
		NetId: req.NetId, RouteTableIds: distinct(req.RouteTableIds),
		ServiceName: service.ServiceName, ServiceId: service.ServiceId,
	}, nil
}

// distinct is a list without what is in it for a second time.
func distinct[T comparable](list []T) (once []T) {
	seen := map[T]bool{}
	for _, v := range list {
		if !seen[v] {
			seen[v], once = true, append(once, v)
		}
	}
	return once
}

// ReadNetAccessPointsRequest asks for Net access points.
type ReadNetAccessPointsRequest struct {
	Filters *FiltersNetAccessPoint // Which Net access points to list; all of them if absent.
	api.Page
}

// FiltersNetAccessPoint selects Net access points.
type FiltersNetAccessPoint struct {
	NetAccessPointIds []id.NetAccessPoint // The IDs of the Net access points.
	NetIds            []id.Net            // The IDs of the Nets that they are in.
	ServiceNames      []string            // The names of the services that they lead to.
	States            []GatewayState      // The states of the Net access points.
	api.TagFilters
}

// UpdateNetAccessPointRequest changes which route tables have a route to the
// service. A table that is there already, or not there, is no mistake.
type UpdateNetAccessPointRequest struct {
	// The IDs of the route tables of the Net that shall have a route.
	AddRouteTableIds []id.RouteTable
	NetAccessPointId id.NetAccessPoint `api:"required"` // The ID of the Net access point.
	// The IDs of the route tables that shall have none any more.
	RemoveRouteTableIds []id.RouteTable
}

func updateNetAccessPoint(tx *resource.Tx, p *NetAccessPoint, req *UpdateNetAccessPointRequest) error {
	added, gone := map[id.RouteTable]bool{}, map[id.RouteTable]bool{}
	for _, table := range req.AddRouteTableIds {
		added[table] = true
	}
	for _, table := range distinct(req.RemoveRouteTableIds) {
		if added[table] {
			return apierror.InvalidParameterSet.Errorf("The route table %s is both to be added and to be removed.", table)
		}
		if err := p.removeRoute(tx, table); err != nil {
			return err
		}
		gone[table] = true
	}
	removed := func(table id.RouteTable) bool { return gone[table] }
	p.RouteTableIds = distinct(slices.Concat(slices.DeleteFunc(slices.Clone(p.RouteTableIds), removed), req.AddRouteTableIds))
	if err := addServiceRoutes(tx, p); err != nil {
		return err
	}
	return touch(tx, p.NetId)
}

// addServiceRoutes gives each table of the access point that has none its
// route.
func addServiceRoutes(tx *resource.Tx, p *NetAccessPoint) error {
	for _, tableID := range p.RouteTableIds {
		table, err := RouteTables.Get(tx, tableID)
		if err != nil {
			return err
		}
		if table.NetId != p.NetId {
			return apierror.InvalidParameter.Errorf("The route table %s is of %s, and the Net access point of %s.", tableID, table.NetId, p.NetId)
		}
		if slices.ContainsFunc(table.Routes, p.isRoute) {
			continue
		}
		// What is in the table is shared: a longer list is a new one.
		table.Routes = append(slices.Clip(table.Routes),
			Route{CreationMethod: ByCreateRoute, DestinationServiceId: p.ServiceId, NetAccessPointId: p.NetAccessPointId})
		if err := tx.CheckLimit(routeLimit, apierror.TooManyRouteTables, countRoutes(table.Routes)); err != nil {
			return err
		}
		if err := RouteTables.Put(tx, table); err != nil {
			return err
		}
	}
	return nil
}

// isRoute reports whether a route leads through the access point.
func (p *NetAccessPoint) isRoute(r Route) bool { return r.NetAccessPointId == p.NetAccessPointId }

// removeRoute takes the route of the access point out of a table, if it is
// there.
func (p *NetAccessPoint) removeRoute(tx *resource.Tx, tableID id.RouteTable) error {
	table, err := RouteTables.Get(tx, tableID)
	if err != nil {
		return err
	}
	table.Routes = slices.DeleteFunc(slices.Clone(table.Routes), p.isRoute)
	return RouteTables.Put(tx, table)
}

// DeleteNetAccessPointRequest deletes a Net access point and its routes.
type DeleteNetAccessPointRequest struct {
	NetAccessPointId id.NetAccessPoint `api:"required"` // The ID of the Net access point to delete.
}

func endNetAccessPoint(tx *resource.Tx, p *NetAccessPoint) error {
	for _, table := range p.RouteTableIds {
		if err := p.removeRoute(tx, table); err != nil {
			return err
		}
	}
	p.RouteTableIds = nil
	return touch(tx, p.NetId)
}

// wantServices are the services that routes, rules and access points name.
func (region Region) wantServices() (services []driver.Service) {
	for _, s := range region.services() {
		services = append(services, driver.Service{ID: s.ServiceId, Ranges: prefixes(s.IpRanges)})
	}
	return services
}

// wantNetAccessPoints adds the access points of a Net to what the driver must have.
func wantNetAccessPoints(tx *resource.Tx, n *Net, want *driver.Net) error {
	for p := range NetAccessPoints.Of(tx, n.NetId) {
		want.AccessPoints = append(want.AccessPoints, driver.AccessPoint{ID: string(p.NetAccessPointId), Service: p.ServiceId})
	}
	return nil
}

// settleNetAccessPoints makes the access points available that the driver has.
func settleNetAccessPoints(tx *resource.Tx, done driver.Net) error {
	for _, applied := range done.AccessPoints {
		p := NetAccessPoints.Find(tx, id.NetAccessPoint(applied.ID))
		if p == nil {
			continue
		}
		if _, err := resource.Try(tx, NetAccessPoints, p, gatewayApplied); err != nil {
			return err
		}
	}
	return nil
}
