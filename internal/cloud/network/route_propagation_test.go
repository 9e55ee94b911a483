package network_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// tableByHand makes a route table with its local route, and routes by hand, and
// answers its ID.
func (r *region) tableByHand(account, net string, byHand ...api.CIDR) (table string) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		n, err := network.Nets.Get(tx, id.Net(net))
		if err != nil {
			return err
		}
		t := &network.RouteTable{NetId: n.NetId, Routes: []network.Route{
			{CreationMethod: network.ByCreateRouteTable, DestinationIpRange: n.IpRange, GatewayId: "local"},
		}}
		for _, destination := range byHand {
			t.Routes = append(t.Routes, network.Route{CreationMethod: network.ByCreateRoute, DestinationIpRange: destination,
				GatewayId: "igw-12345678"})
		}
		defer func() { table = string(t.RouteTableId) }()
		return network.RouteTables.Insert(tx, t)
	})
	return table
}

func propagating(table, gateway string, enable bool) string {
	return fmt.Sprintf(`{"RouteTableId": %q, "VirtualGatewayId": %q, "Enable": %t}`, table, gateway, enable)
}

func (r *region) propagate(account, table, gateway string, enable bool) {
	r.Helper()
	got := r.One(account, "UpdateRoutePropagation", propagating(table, gateway, enable))
	if from := fmt.Sprint(got["RoutePropagatingVirtualGateways"]); enable != (from == fmt.Sprintf("[map[VirtualGatewayId:%s]]",
		gateway)) || !enable && from != "[]" {
		r.Errorf("the table takes over the routes of %s", from)
	}
}

// propagated checks the propagated routes of a table, each given as its destination
// and gateway.
func (r *region) propagated(account, table string, want ...string) {
	r.Helper()
	var got []string
	err := r.DB.View(context.Background(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
		got = nil
		t, err := network.RouteTables.Get(tx, id.RouteTable(table))
		if err != nil {
			return err
		}
		for _, route := range t.Routes {
			if route.CreationMethod == network.ByRoutePropagation {
				got = append(got, string(route.DestinationIpRange)+" "+route.GatewayId)
			}
		}
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	if !slices.Equal(got, want) {
		r.Errorf("the propagated routes are %q, want %q", got, want)
	}
}

// generationOf is how often the driver was to hear of a Net.
func (r *region) generationOf(account, net string) (generation uint64) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		n, err := network.Nets.Get(tx, id.Net(net))
		if err == nil {
			generation = n.Generation
		}
		return err
	})
	return generation
}

func TestRoutePropagation(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	e := r.ends(alice)
	table, byHand := r.tableByHand(alice, net), r.tableByHand(alice, net, "172.16.0.0/12")
	vpn := r.vpn(alice, e, "192.168.0.0/16", "172.16.0.0/12", "10.0.1.0/24", "10.0.0.0/16", "10.0.0.0/8")
	r.Refuse(apierror.GatewayNotLinked, alice, "UpdateRoutePropagation", propagating(table, e.virtual, true))
	r.linkGateway(alice, e.virtual, net)
	r.propagated(alice, table)

	// The Net itself hides what is inside of it, and a route made by hand one
	// of the same destination.
	r.propagate(alice, table, e.virtual, true)
	r.propagate(alice, table, e.virtual, true)
	r.propagate(alice, byHand, e.virtual, true)
	r.propagated(alice, table, "192.168.0.0/16 "+e.virtual, "172.16.0.0/12 "+e.virtual, "10.0.0.0/8 "+e.virtual)
	r.propagated(alice, byHand, "192.168.0.0/16 "+e.virtual, "10.0.0.0/8 "+e.virtual)

	// It follows the routes, and the driver hears of each change.
	heard := r.generationOf(alice, net)
	changed := func(what string) {
		t.Helper()
		now := r.generationOf(alice, net)
		if now <= heard {
			t.Errorf("the driver does not hear of %s", what)
		}
		heard = now
	}
	r.Call(alice, "DeleteVpnConnectionRoute", routing(vpn, "172.16.0.0/12"))
	changed("a route that is gone")
	r.propagated(alice, table, "192.168.0.0/16 "+e.virtual, "10.0.0.0/8 "+e.virtual)
	r.Call(alice, "CreateVpnConnectionRoute", routing(vpn, "0.0.0.0/0"))
	changed("a new route")
	r.propagated(alice, table, "192.168.0.0/16 "+e.virtual, "10.0.0.0/8 "+e.virtual, "0.0.0.0/0 "+e.virtual)

	// Two connections with the same route make one; it stays until the last goes.
	second := r.vpn(alice, ends{e.virtual, r.clientGateway(alice, 65000, "192.0.2.2")}, "0.0.0.0/0")
	changed("a second connection")
	r.Call(alice, "DeleteVpnConnection", about("VpnConnectionId", vpn))
	changed("a connection that is gone")
	r.propagated(alice, table, "0.0.0.0/0 "+e.virtual)
	r.propagated(alice, byHand, "0.0.0.0/0 "+e.virtual)
	r.propagate(alice, byHand, e.virtual, false)
	r.propagated(alice, byHand)
	r.propagate(alice, byHand, e.virtual, false)
	r.Call(alice, "DeleteVpnConnection", about("VpnConnectionId", second))
	r.propagated(alice, table)
	r.vpn(alice, e, "192.168.0.0/16")
	r.propagated(alice, table, "192.168.0.0/16 "+e.virtual)

	// With the link the propagation ends, and does not begin again with it.
	r.Call(alice, "UnlinkVirtualGateway", linking(e.virtual, net))
	changed("a gateway that is unlinked")
	r.propagated(alice, table)
	r.linkGateway(alice, e.virtual, net)
	changed("a gateway that is linked")
	r.propagated(alice, table)
}

func TestRoutePropagationIsRefused(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, elsewhere := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	gateway, idle := r.virtualGateway(alice), r.virtualGateway(alice)
	table, other := r.tableByHand(alice, net), r.tableByHand(alice, elsewhere)
	r.linkGateway(alice, gateway, net)
	for name, refused := range map[string]struct {
		code apierror.Code
		body string
	}{
		"a gateway of another Net": {apierror.InvalidPropagation, propagating(other, gateway, true)},
		"a gateway of no Net":      {apierror.GatewayNotLinked, propagating(table, idle, true)},
		"no such gateway":          {apierror.VirtualGatewayNotFound, propagating(table, "vgw-00000000", true)},
		"no such table":            {apierror.RouteTableNotFound, propagating("rtb-00000000", gateway, true)},
		"ending what cannot be":    {apierror.InvalidPropagation, propagating(other, gateway, false)},
	} {
		t.Run(name, func(t *testing.T) { r.With(t).Refuse(refused.code, alice, "UpdateRoutePropagation", refused.body) })
	}
	r.Refuse(apierror.RouteTableNotFound, bob, "UpdateRoutePropagation", propagating(table, gateway, true))
}
