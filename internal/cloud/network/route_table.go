package network

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// RouteTable says where what leaves a Subnet goes. Each [Net] has a main one,
// for the Subnets that have none of their own.
type RouteTable struct {
	LinkRouteTables                 []LinkRouteTable                 // The Subnets that the table is linked to, and the link that makes it the main one.
	NetId                           id.Net                           // The ID of the Net that the table is in.
	RoutePropagatingVirtualGateways []RoutePropagatingVirtualGateway // The virtual gateways whose routes the table takes over.
	RouteTableId                    id.RouteTable                    // The ID of the route table.
	Routes                          []Route                          // The routes of the table.
	Tags                            []api.Tag                        // The tags of the route table.
}

// LinkRouteTable is the link between a route table and a Subnet, or the link
// that makes it the main one of its Net.
type LinkRouteTable struct {
	LinkRouteTableId id.LinkRouteTable `ref:"-"` // The ID of the link.
	Main             bool              // Whether it is the link that makes the table the main one.
	NetId            id.Net            `ref:"-"`          // The ID of the Net, of the main link only.
	RouteTableId     id.RouteTable     `json:"-" ref:"-"` // The ID of the route table.
	SubnetId         id.Subnet         `ref:"weak"`       // The ID of the Subnet; absent from the main link.
}

// RoutePropagatingVirtualGateway is a virtual gateway whose routes a table
// takes over.
type RoutePropagatingVirtualGateway struct {
	VirtualGatewayId id.VirtualGateway `ref:"weak"` // The ID of the virtual gateway.
}

// Route says where packets to a destination go. What it leads to may be gone:
// the route is then a blackhole.
type Route struct {
	CreationMethod       CreationMethod    // How the route was made.
	DestinationIpRange   api.CIDR          // The range of the destinations; absent from routes to services.
	DestinationServiceId string            // The ID of the service that the route leads to through a Net access point.
	GatewayId            string            // `local`, or the ID of an internet service or a virtual gateway.
	NatServiceId         id.NatService     `ref:"-"`          // The ID of a NAT service.
	NetAccessPointId     id.NetAccessPoint `ref:"-"`          // The ID of a Net access point.
	NetPeeringId         id.NetPeering     `ref:"-"`          // The ID of a Net peering.
	NicId                id.Nic            `ref:"-"`          // The ID of a NIC.
	State                RouteState        `json:"-"`         // The state of the route.
	VmAccountId          id.Account        `json:"-" ref:"-"` // The account ID of the owner of the VM.
	VmId                 id.Vm             `json:"-" ref:"-"` // The ID of the VM that the NIC is linked to.
}

// RouteTables are the route tables of the region.
var RouteTables = &kind.Kind[RouteTable, id.RouteTable]{
	Name:    "RouteTable",
	Tag:     "route-table",
	Missing: fault.RouteTableNotFound,
	Held:    fault.InUse,
	Quota:   &kind.Quota{Name: "rtb_limit", Code: fault.TooManyRouteTables, Per: "NetId"},
	Unique:  []string{"LinkRouteTables.LinkRouteTableId"},
	Taken:   fault.SubnetLinked,
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
