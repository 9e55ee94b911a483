package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// RouteTable says where what leaves a Subnet goes. Each [Net] has a main one,
// for the Subnets that have none of their own.
type RouteTable struct {
	// The Subnets that the table is linked to, and the link that makes it the main one.
	LinkRouteTables []LinkRouteTable
	// The ID of the Net that the table is in.
	NetId id.Net
	// The virtual gateways whose routes the table takes over.
	RoutePropagatingVirtualGateways []RoutePropagatingVirtualGateway
	RouteTableId                    id.RouteTable // The ID of the route table.
	// The routes of the table, by destination.
	Routes []Route
	Tags   []api.Tag // The tags of the route table.

	// Main reports whether the table is the main one of its Net.
	Main bool `json:"-" wire:"-"`
}

// LinkRouteTable is the link between a route table and a Subnet, or the link
// that makes it the main one of its Net.
type LinkRouteTable struct {
	LinkRouteTableId id.LinkRouteTable `ref:"-"` // The ID of the link.
	Main             bool              // Whether it is the link that makes the table the main one.
	// The ID of the Net, of the main link only.
	NetId        id.Net        `ref:"-"`
	RouteTableId id.RouteTable `json:"-" ref:"-"` // The ID of the route table.
	// The ID of the Subnet; absent from the main link.
	SubnetId id.Subnet `ref:"weak"`
}

// RoutePropagatingVirtualGateway is a virtual gateway whose routes a table
// takes over.
type RoutePropagatingVirtualGateway struct {
	VirtualGatewayId id.VirtualGateway `ref:"weak"` // The ID of the virtual gateway.
}

// RouteTables are the route tables of the region.
var RouteTables = &resource.Kind[RouteTable, id.RouteTable]{
	Name:     "RouteTable",
	Tag:      "route-table",
	NotFound: apierror.RouteTableNotFound,
	InUse:    apierror.InUse,
	Quota:    &resource.Quota{Name: "rtb_limit", Code: apierror.TooManyRouteTables, Per: "NetId"},
	Unique:   []string{"LinkRouteTables.LinkRouteTableId"},
	Conflict: apierror.SubnetLinked,
}

func routeTableActions() []api.Action {
	r := api.NewResource(RouteTables, viewRouteTable)
	return []api.Action{
		api.Create(r, createRouteTable),
		api.Read[ReadRouteTablesRequest](r),
		api.Delete[DeleteRouteTableRequest](r, dropRouteTable),
		api.Do("RouteTable", linkRouteTable),
		api.Command("RouteTable", unlinkRouteTable),
		api.Do("RouteTable", updateRouteTableLink),
	}
}

// viewRouteTable shows a table with its routes by destination.
func viewRouteTable(tx *resource.Tx, t *RouteTable) *RouteTable {
	t = completeRouteTable(tx, t)
	sortRoutes(t.Routes)
	return t
}

// completeRouteTable fills in what is not stored of a table.
func completeRouteTable(tx *resource.Tx, t *RouteTable) *RouteTable {
	t.Main = t.isMain()
	t.LinkRouteTables = slices.Clone(t.LinkRouteTables)
	for i := range t.LinkRouteTables {
		t.LinkRouteTables[i].RouteTableId = t.RouteTableId
	}
	t.Routes = slices.Clone(t.Routes)
	for i := range t.Routes {
		t.Routes[i].complete(tx, t.NetId)
	}
	return t
}

// newRouteTable is a table with the one route that each has.
func newRouteTable(n *Net) *RouteTable {
	return &RouteTable{
		NetId:  n.NetId,
		Routes: []Route{{CreationMethod: ByCreateRouteTable, DestinationIpRange: n.IpRange, GatewayId: local}},
	}
}

// addMainTable makes the main route table of a new Net.
func addMainTable(tx *resource.Tx, n *Net) error {
	t := newRouteTable(n)
	t.LinkRouteTables = []LinkRouteTable{{LinkRouteTableId: newRouteTableLink(tx), Main: true, NetId: n.NetId}}
	return RouteTables.Insert(tx, t)
}

// dropMainTable deletes the main route table along with its Net. One that was
// the main one before and is no longer keeps the Net, as any other does.
func dropMainTable(tx *resource.Tx, n *Net) error {
	t, err := mainTable(tx, n.NetId)
	if err != nil {
		return err
	}
	return RouteTables.Delete(tx, t)
}

// isMain reports whether the table is the main one of its Net. The link that
// makes it so is the first one: clients look no further.
func (t *RouteTable) isMain() bool { return len(t.LinkRouteTables) > 0 && t.LinkRouteTables[0].Main }

// mainTable finds the main route table of a Net.
func mainTable(tx *resource.Tx, netID id.Net) (*RouteTable, error) {
	for t := range RouteTables.Of(tx, netID) {
		if t.isMain() {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the Net %s has no main route table", netID)
}

// linkedTable finds the route table that a Subnet is linked to; nil: it is
// linked to none.
func linkedTable(tx *resource.Tx, subnetID id.Subnet) *RouteTable {
	return first(RouteTables.Of(tx, subnetID))
}

// routeTable finds the route table that routes what leaves the Subnet.
func (s *Subnet) routeTable(tx *resource.Tx) (*RouteTable, error) {
	if t := linkedTable(tx, s.SubnetId); t != nil {
		return t, nil
	}
	return mainTable(tx, s.NetId)
}

// newRouteTableLink chooses the ID of a link.
func newRouteTableLink(tx *resource.Tx) id.LinkRouteTable {
	return unused[id.LinkRouteTable](tx, func(link string) bool {
		return first(RouteTables.Where(tx, "LinkRouteTables.LinkRouteTableId", link)) != nil
	})
}

// findRouteTableLink finds the table that has a link, and which of its links
// that is; nil: there is none.
func findRouteTableLink(tx *resource.Tx, link id.LinkRouteTable) (*RouteTable, int) {
	t := first(RouteTables.Where(tx, "LinkRouteTables.LinkRouteTableId", string(link)))
	if t == nil {
		return nil, 0
	}
	return t, slices.IndexFunc(t.LinkRouteTables, func(l LinkRouteTable) bool { return l.LinkRouteTableId == link })
}

func noRouteTableLink(link id.LinkRouteTable) error {
	return apierror.RouteTableLinkNotFound.NotFound("LinkRouteTableId", string(link))
}

// CreateRouteTableRequest asks for a route table in a Net. It is for no Subnet
// until it is linked.
type CreateRouteTableRequest struct {
	NetId id.Net `api:"required"` // The ID of the Net.
}

func createRouteTable(tx *resource.Tx, req *CreateRouteTableRequest) (*RouteTable, error) {
	net, err := Nets.Get(tx, req.NetId)
	if err != nil {
		return nil, err
	}
	return newRouteTable(net), touch(tx, net.NetId)
}

// ReadRouteTablesRequest asks for route tables.
type ReadRouteTablesRequest struct {
	Filters *FiltersRouteTable // Which route tables to list; all of them if absent.
	api.Page
}

// FiltersRouteTable selects route tables.
type FiltersRouteTable struct {
	// The IDs of the route tables, of those that have a link.
	LinkRouteTableIds []id.RouteTable `path:"LinkRouteTables.RouteTableId"`
	// The IDs of the links.
	LinkRouteTableLinkRouteTableIds []id.LinkRouteTable
	// If true, the main route tables of their Nets; if false, all others, linked or not.
	LinkRouteTableMain *bool `path:"Main"`
	// The IDs of the Subnets that the tables are linked to.
	LinkSubnetIds []id.Subnet `path:"LinkRouteTables.SubnetId"`
	// The IDs of the Nets that the tables are in.
	NetIds []id.Net
	// The ways in which routes of the tables were made.
	RouteCreationMethods []CreationMethod
	// The ranges that routes of the tables are for.
	RouteDestinationIpRanges []api.CIDR
	// The IDs of the services that routes of the tables lead to.
	RouteDestinationServiceIds []string
	// The IDs of the gateways that routes of the tables lead to, or `local`.
	RouteGatewayIds []string
	// The IDs of the NAT services that routes of the tables lead to.
	RouteNatServiceIds []id.NatService
	// The IDs of the Net peerings that routes of the tables lead to.
	RouteNetPeeringIds []id.NetPeering
	// The states of routes of the tables.
	RouteStates   []RouteState
	RouteTableIds []id.RouteTable // The IDs of the route tables.
	// The IDs of the VMs that routes of the tables lead to.
	RouteVmIds []id.Vm
	api.TagFilters
}

// DeleteRouteTableRequest deletes a route table that is linked to no Subnet and
// is not the main one of its Net.
type DeleteRouteTableRequest struct {
	RouteTableId id.RouteTable `api:"required"` // The ID of the route table to delete.
}

func dropRouteTable(tx *resource.Tx, t *RouteTable) error {
	if t.isMain() {
		return apierror.InUse.Errorf(
			"The route table %s is the main one of the Net %s, and can be deleted only with it.", t.RouteTableId, t.NetId)
	}
	if len(t.LinkRouteTables) > 0 {
		var subnets []string
		for _, link := range t.LinkRouteTables {
			subnets = append(subnets, string(link.SubnetId))
		}
		return apierror.InUse.Errorf("The route table %s is linked to %s.", t.RouteTableId, strings.Join(subnets, ", "))
	}
	for point := range NetAccessPoints.Of(tx, t.RouteTableId) {
		point.RouteTableIds = slices.DeleteFunc(slices.Clone(point.RouteTableIds),
			func(other id.RouteTable) bool { return other == t.RouteTableId })
		if err := NetAccessPoints.Put(tx, point); err != nil {
			return err
		}
	}
	return touch(tx, t.NetId)
}

// LinkRouteTableRequest has a route table route what leaves a Subnet.
type LinkRouteTableRequest struct {
	RouteTableId id.RouteTable `api:"required"` // The ID of the route table.
	// The ID of the Subnet, which is in the same Net and linked to no route table.
	SubnetId id.Subnet `api:"required"`
}

// LinkRouteTableResponse names the link that was made.
type LinkRouteTableResponse struct {
	LinkRouteTableId id.LinkRouteTable // The ID of the link.
}

func linkRouteTable(tx *resource.Tx, req *LinkRouteTableRequest) (*LinkRouteTableResponse, error) {
	t, err := RouteTables.Get(tx, req.RouteTableId)
	if err != nil {
		return nil, err
	}
	subnet, err := Subnets.Get(tx, req.SubnetId)
	if err != nil {
		return nil, err
	}
	if t.NetId != subnet.NetId {
		return nil, apierror.InvalidParameter.Errorf(
			"The route table %s is in the Net %s, and the Subnet %s in %s.", t.RouteTableId, t.NetId, subnet.SubnetId, subnet.NetId)
	}
	if linked := linkedTable(tx, subnet.SubnetId); linked != nil {
		return nil, apierror.SubnetLinked.Errorf("The Subnet %s is linked to the route table %s.", subnet.SubnetId, linked.RouteTableId)
	}
	link := LinkRouteTable{LinkRouteTableId: newRouteTableLink(tx), SubnetId: subnet.SubnetId}
	return &LinkRouteTableResponse{link.LinkRouteTableId}, t.link(tx, link)
}

// link gives the table a link: the one that makes it the main one as the first.
func (t *RouteTable) link(tx *resource.Tx, link LinkRouteTable) error {
	at := len(t.LinkRouteTables)
	if link.Main {
		at = 0
	}
	t.LinkRouteTables = slices.Insert(slices.Clone(t.LinkRouteTables), at, link)
	if err := RouteTables.Put(tx, t); err != nil {
		return err
	}
	return touch(tx, t.NetId)
}

// unlink takes a link of the table away.
func (t *RouteTable) unlink(tx *resource.Tx, at int) error {
	t.LinkRouteTables = slices.Delete(slices.Clone(t.LinkRouteTables), at, at+1)
	if err := RouteTables.Put(tx, t); err != nil {
		return err
	}
	return touch(tx, t.NetId)
}

// UnlinkRouteTableRequest leaves a Subnet to the main route table of its Net.
type UnlinkRouteTableRequest struct {
	// The ID of the link between a route table and a Subnet.
	LinkRouteTableId id.LinkRouteTable `api:"required"`
}

func unlinkRouteTable(tx *resource.Tx, req *UnlinkRouteTableRequest) error {
	t, at := findRouteTableLink(tx, req.LinkRouteTableId)
	if t == nil {
		return noRouteTableLink(req.LinkRouteTableId)
	}
	if t.LinkRouteTables[at].Main {
		return apierror.InvalidParameter.Errorf(
			"The link %s makes the route table %s the main one of the Net %s: it can be moved to another route table, and not deleted.",
			req.LinkRouteTableId, t.RouteTableId, t.NetId)
	}
	return t.unlink(tx, at)
}

// unlinkSubnet takes the link of a Subnet that is deleted along.
func unlinkSubnet(tx *resource.Tx, s *Subnet) error {
	t := linkedTable(tx, s.SubnetId)
	if t == nil {
		return nil
	}
	return t.unlink(tx, slices.IndexFunc(t.LinkRouteTables, func(l LinkRouteTable) bool { return l.SubnetId == s.SubnetId }))
}

// UpdateRouteTableLinkRequest has another route table route what leaves a
// Subnet, or makes it the main one of its Net.
type UpdateRouteTableLinkRequest struct {
	// The ID of the link of the route table that did so until now.
	LinkRouteTableId id.LinkRouteTable `api:"required"`
	// The ID of the route table to do so from now on, in the same Net.
	RouteTableId id.RouteTable `api:"required"`
}

// UpdateRouteTableLinkResponse names the link that took the place of the other.
type UpdateRouteTableLinkResponse struct {
	LinkRouteTableId id.LinkRouteTable // The ID of the link of the route table that was named.
}

func updateRouteTableLink(tx *resource.Tx, req *UpdateRouteTableLinkRequest) (*UpdateRouteTableLinkResponse, error) {
	to, err := RouteTables.Get(tx, req.RouteTableId)
	if err != nil {
		return nil, err
	}
	from, at := findRouteTableLink(tx, req.LinkRouteTableId)
	if from == nil {
		return nil, noRouteTableLink(req.LinkRouteTableId)
	}
	if to.NetId != from.NetId {
		return nil, apierror.InvalidParameter.Errorf(
			"The route table %s is in the Net %s, and the link %s in %s.", to.RouteTableId, to.NetId, req.LinkRouteTableId, from.NetId)
	}
	if to.RouteTableId == from.RouteTableId {
		return &UpdateRouteTableLinkResponse{req.LinkRouteTableId}, nil
	}
	link := from.LinkRouteTables[at]
	if err := from.unlink(tx, at); err != nil {
		return nil, err
	}
	link.LinkRouteTableId = newRouteTableLink(tx)
	return &UpdateRouteTableLinkResponse{link.LinkRouteTableId}, to.link(tx, link)
}

// wantRouteTables adds the route tables of a Net to what the driver must have.
func wantRouteTables(tx *resource.Tx, n *Net, want *driver.Net) error {
	for t := range RouteTables.Of(tx, n.NetId) {
		table := driver.RouteTable{ID: string(t.RouteTableId), Propagates: len(t.RoutePropagatingVirtualGateways) > 0}
		for _, r := range t.Routes {
			table.Routes = append(table.Routes, wantRoute(tx, n, r))
		}
		want.RouteTables = append(want.RouteTables, table)
	}
	return nil
}

// wantRoute is a route as the driver should have it, however it was made.
func wantRoute(tx *resource.Tx, n *Net, r Route) driver.Route {
	want := driver.Route{Destination: r.DestinationIpRange.Prefix(), Service: r.DestinationServiceId}
	switch {
	case !r.works(tx, n.NetId):
		want.Target = driver.Blackhole
	case r.GatewayId == local:
		want.Target = driver.Local
	case r.leadsToInternet():
		want.Target, want.ID = driver.ToInternet, r.GatewayId
	case r.GatewayId != "":
		want.Target, want.ID = driver.ToGateway, r.GatewayId
	case r.NatServiceId != "":
		want.Target, want.ID = driver.ToNat, string(r.NatServiceId)
	case r.NetPeeringId != "":
		want.Target, want.ID = driver.ToPeering, string(r.NetPeeringId)
	case r.NetAccessPointId != "":
		want.Target, want.ID = driver.ToAccessPoint, string(r.NetAccessPointId)
	default:
		want.Target, want.ID = driver.ToNic, string(r.NicId)
	}
	return want
}
