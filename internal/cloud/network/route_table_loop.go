package network

import (
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

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
