package network_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// placeNic makes a NIC, linked to a VM if one is given, and answers its ID.
func (r *region) placeNic(account, subnet, ip, vm string) string {
	r.Helper()
	nic := &network.Nic{
		SubnetId: id.Subnet(subnet), MacAddress: "aa:" + subnet + ip, Places: []string{subnet + "/" + ip},
		PrivateIps: []network.PrivateIp{{IsPrimary: true, PrivateIp: api.IPv4(ip)}},
	}
	r.Update(account, func(tx *resource.Tx) error {
		s, err := network.Subnets.Get(tx, nic.SubnetId)
		if err != nil {
			return err
		}
		nic.NetId = s.NetId
		if vm != "" {
			nic.LinkNic = &network.LinkNic{LinkNicId: id.LinkNic("eni-attach-" + subnet + ip), State: network.LinkNicAttached, VmId: id.Vm(vm)}
		}
		return network.Nics.Insert(tx, nic)
	})
	return string(nic.NicId)
}

// placePeering makes a Net peering between two Nets of an account and answers its ID.
func (r *region) placePeering(account string, state network.NetPeeringName, nets ...string) string {
	r.Helper()
	p := &network.NetPeering{
		SourceNet: network.SourceNet{NetId: id.Net(nets[0])}, AccepterNet: network.AccepterNet{NetId: id.Net(nets[1])},
		OwnNets: []id.Net{id.Net(nets[0]), id.Net(nets[1])},
	}
	r.Update(account, func(tx *resource.Tx) error { return network.PlacePeering(tx, p, state == network.PeeringActive) })
	return string(p.NetPeeringId)
}

// placeGateway makes a virtual gateway that is linked to a Net, if one is given, and
// answers its ID.
func (r *region) placeGateway(account, net string) string {
	r.Helper()
	g := &network.VirtualGateway{NetId: id.Net(net)}
	r.Update(account, func(tx *resource.Tx) error { return network.VirtualGateways.Insert(tx, g) })
	return string(g.VirtualGatewayId)
}

// route reads the route of a table to a destination; nil: there is none.
func (r *region) route(account, table, destination string) object {
	r.Helper()
	for _, route := range r.List(account, "ReadRouteTables", `{"Filters": {"RouteTableIds": [%q]}}`, table)[0]["Routes"].([]any) {
		if o := object(route.(map[string]any)); o["DestinationIpRange"] == destination {
			return o
		}
	}
	return nil
}

// routeTargets has one of everything that a route can lead to.
type routeTargets struct{ net, table, service, gateway, nat, peering, nic, vm, vmNic, subnet string }

func (r *region) targets(account string) (has routeTargets) {
	r.Helper()
	has.net = r.net(account, "10.0.0.0/16")
	has.table = r.table(account, has.net)
	has.subnet = r.subnet(account, has.net, "10.0.0.0/24")
	has.service, has.gateway = r.linkInternet(account, has.net), r.placeGateway(account, has.net)
	r.Call(account, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "198.51.100.0/24", "GatewayId": %q}`,
		r.mainTable(account, has.net)["RouteTableId"], has.service)
	has.nat = r.nat(account, has.subnet)
	has.peering = r.placePeering(account, network.PeeringActive, has.net, r.net(account, "10.1.0.0/16"))
	has.nic, has.vm = r.placeNic(account, has.subnet, "10.0.0.8", ""), "i-0000000a"
	has.vmNic = r.placeNic(account, has.subnet, "10.0.0.9", has.vm)
	return has
}

func TestRoute(t *testing.T) {
	t.Parallel()
	r := setup(t)
	has := r.targets(alice)
	tests := []struct {
		name, target string
		shown        object // beyond what all routes show
		wanted       driver.Route
	}{
		{"internet service", fmt.Sprintf(`"GatewayId": %q`, has.service), object{"GatewayId": has.service},
			driver.Route{Target: driver.ToInternet, ID: has.service}},
		{"virtual gateway", fmt.Sprintf(`"GatewayId": %q`, has.gateway), object{"GatewayId": has.gateway},
			driver.Route{Target: driver.ToGateway, ID: has.gateway}},
		{"NAT service", fmt.Sprintf(`"NatServiceId": %q`, has.nat), object{"NatServiceId": has.nat},
			driver.Route{Target: driver.ToNat, ID: has.nat}},
		{"Net peering", fmt.Sprintf(`"NetPeeringId": %q`, has.peering), object{"NetPeeringId": has.peering},
			driver.Route{Target: driver.ToPeering, ID: has.peering}},
		{"NIC", fmt.Sprintf(`"NicId": %q`, has.nic), object{"NicId": has.nic}, driver.Route{Target: driver.ToNic, ID: has.nic}},
		{"NIC of a VM", fmt.Sprintf(`"NicId": %q`, has.vmNic), object{"NicId": has.vmNic, "VmId": has.vm, "VmAccountId": alice},
			driver.Route{Target: driver.ToNic, ID: has.vmNic}},
		{"VM", fmt.Sprintf(`"VmId": %q`, has.vm), object{"NicId": has.vmNic, "VmId": has.vm, "VmAccountId": alice},
			driver.Route{Target: driver.ToNic, ID: has.vmNic}},
		{"VM, the rest empty", fmt.Sprintf(`"VmId": %q, "GatewayId": "", "NatServiceId": "", "NetPeeringId": "", "NicId": ""`, has.vm),
			object{"NicId": has.vmNic, "VmId": has.vm, "VmAccountId": alice}, driver.Route{Target: driver.ToNic, ID: has.vmNic}},
	}
	const destination = "192.0.2.0/24"
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := fmt.Sprintf(`{"RouteTableId": %q, "DestinationIpRange": %q, %s}`, has.table, destination, test.target)
			test.wanted.Destination = api.CIDR(destination).Prefix()
			want := object{"DestinationIpRange": destination, "CreationMethod": "CreateRoute", "State": "active"}
			maps.Copy(want, test.shown)
			for _, action := range []string{"CreateRoute", "UpdateRoute"} {
				before := r.netGeneration(alice, has.net)
				table := r.One(alice, action, body)
				if diff := cmp.Diff(any(map[string]any(want)), table["Routes"].([]any)[1]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", action, diff)
				}
				if diff := cmp.Diff(want, r.route(alice, has.table, destination)); diff != "" {
					t.Errorf("read after %s (-want +got):\n%s", action, diff)
				}
				if after := r.netGeneration(alice, has.net); after <= before {
					t.Errorf("%s raised the generation of the Net from %d to %d", action, before, after)
				}
			}
			if diff := cmp.Diff(test.wanted, r.worldRoute(has.net, has.table, destination),
				cmpopts.EquateComparable(test.wanted.Destination)); diff != "" {
				t.Errorf("in the driver (-want +got):\n%s", diff)
			}
			r.Refuse(apierror.RouteExists, alice, "CreateRoute", body)
			table := r.One(alice, "DeleteRoute", `{"RouteTableId": %q, "DestinationIpRange": %q}`, has.table, destination)
			if left := table["Routes"].([]any); len(left) != 1 {
				t.Errorf("%d routes are left, want the local one", len(left))
			}
		})
	}
}

func (r *region) netGeneration(account, net string) (generation uint64) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		n, err := network.Nets.Get(tx, id.Net(net))
		generation = n.Generation
		return err
	})
	return generation
}

// worldRoute is the route of a table of alice's as a driver that has just heard
// of it has it.
func (r *region) worldRoute(net, table, destination string) driver.Route {
	r.Helper()
	for _, t := range r.worldNet(net).RouteTables {
		for _, route := range t.Routes {
			if t.ID == table && route.Destination.String() == destination {
				return route
			}
		}
	}
	r.Fatalf("the driver has no route of %s to %s", table, destination)
	return driver.Route{}
}

// worldNet is a Net of alice's as a driver that has just heard of it has it.
func (r *region) worldNet(net string) driver.Net {
	r.Helper()
	drivers := sim.New(r.Clock.Now, 0)
	r.Update(alice, func(tx *resource.Tx) error { // so that it is asked, whatever was done before
		n, err := network.Nets.Get(tx, id.Net(net))
		if err != nil {
			return err
		}
		n.Generation++
		return network.Nets.Put(tx, n)
	})
	if _, err := network.NewNetLoop(r.DB, drivers, here).Reconcile(context.Background(), alice, net); err != nil {
		r.Fatal(err)
	}
	nets, err := drivers.ObserveNets(context.Background())
	if err != nil || len(nets) != 1 {
		r.Fatalf("the driver has %v, %v", nets, err)
	}
	return nets[0]
}

// A route stays when its target goes, and leads nowhere.
func TestBlackhole(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		target func(routeTargets) string
		end    func(*region, routeTargets)
		again  func(*region, routeTargets) // makes it active again; nil: nothing does
	}{
		{
			name:   "an unlinked virtual gateway",
			target: func(has routeTargets) string { return fmt.Sprintf(`"GatewayId": %q`, has.gateway) },
			end:    func(r *region, has routeTargets) { r.moveGateway(alice, has.gateway, "") },
			again:  func(r *region, has routeTargets) { r.moveGateway(alice, has.gateway, has.net) },
		}, {
			name:   "an unlinked internet service",
			target: func(has routeTargets) string { return fmt.Sprintf(`"GatewayId": %q`, has.service) },
			end: func(r *region, has routeTargets) {
				r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, has.nat)
				r.Call(alice, "UnlinkInternetService", `{"InternetServiceId": %q, "NetId": %q}`, has.service, has.net)
			},
			again: func(r *region, has routeTargets) {
				r.Call(alice, "LinkInternetService", `{"InternetServiceId": %q, "NetId": %q}`, has.service, has.net)
			},
		}, {
			name:   "a deleted NAT service",
			target: func(has routeTargets) string { return fmt.Sprintf(`"NatServiceId": %q`, has.nat) },
			end: func(r *region, has routeTargets) {
				r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, has.nat)
			},
		}, {
			name:   "a deleted NIC",
			target: func(has routeTargets) string { return fmt.Sprintf(`"NicId": %q`, has.nic) },
			end: func(r *region, has routeTargets) {
				r.Update(alice, func(tx *resource.Tx) error { return network.Nics.Delete(tx, &network.Nic{NicId: id.Nic(has.nic)}) })
			},
		}, {
			name:   "a peering that is not active",
			target: func(has routeTargets) string { return fmt.Sprintf(`"NetPeeringId": %q`, has.peering) },
			end:    func(r *region, has routeTargets) { r.endPeering(alice, has.peering) },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			has := r.targets(alice)
			check := func(want string) {
				t.Helper()
				if got := r.route(alice, has.table, "0.0.0.0/0")["State"]; got != want {
					t.Errorf("the route is %v, want %s", got, want)
				}
				if got := r.worldRoute(has.net, has.table, "0.0.0.0/0").Target; (got == driver.Blackhole) != (want == "blackhole") {
					t.Errorf("the route is %s and leads to the %s", want, got)
				}
			}
			r.Call(alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", %s}`, has.table, test.target(has))
			check("active")
			test.end(r, has)
			check("blackhole")
			if test.again != nil {
				test.again(r, has)
				check("active")
			}
			r.Call(alice, "DeleteRoute", `{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0"}`, has.table)
		})
	}
}

// moveGateway links a virtual gateway to a Net; empty: to none.
func (r *region) moveGateway(account, gateway, net string) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		g, err := network.VirtualGateways.Get(tx, id.VirtualGateway(gateway))
		if err != nil {
			return err
		}
		g.NetId = id.Net(net)
		return network.VirtualGateways.Put(tx, g)
	})
}

// endPeering ends a Net peering of two Nets of an account.
func (r *region) endPeering(account, peering string) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		p, err := network.NetPeerings.Get(tx, id.NetPeering(peering))
		if err != nil {
			return err
		}
		return network.NetPeerings.Delete(tx, p)
	})
}

func TestRouteRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	has, far := r.targets(alice), r.targets(alice)
	twoNics := "i-0000000b"
	r.placeNic(alice, has.subnet, "10.0.0.10", twoNics)
	r.placeNic(alice, has.subnet, "10.0.0.11", twoNics)
	r.Update(alice, func(tx *resource.Tx) error { // so that the VMs of both are not one
		for nic := range network.Nics.Where(tx, "NetId", far.net) {
			if nic.LinkNic != nil {
				link := *nic.LinkNic
				link.VmId, nic.LinkNic = "i-0000000c", &link
			}
			if err := network.Nics.Put(tx, nic); err != nil {
				return err
			}
		}
		return nil
	})
	var hidden string
	r.Update(alice, func(tx *resource.Tx) error {
		nat, err := network.NatServices.Get(tx, id.NatService(has.nat))
		hidden = string(nat.NicId)
		return err
	})
	r.Call(alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", "GatewayId": %q}`, has.table, has.service)
	r.Update(alice, func(tx *resource.Tx) error {
		table, err := network.RouteTables.Get(tx, id.RouteTable(has.table))
		if err != nil {
			return err
		}
		table.Routes = append(table.Routes, network.Route{CreationMethod: network.ByRoutePropagation, DestinationIpRange: "172.16.0.0/12",
			GatewayId: has.gateway})
		return network.RouteTables.Put(tx, table)
	})
	tests := []struct {
		name, destination, target string
		create, update            apierror.Code // 0: not called
	}{
		{"no target", "192.0.2.0/24", `"DryRun": false`, apierror.MissingParameter, 0},
		{"no target for a route that is there", "0.0.0.0/0", `"DryRun": false`, 0, apierror.MissingParameter},
		{"empty targets", "192.0.2.0/24", `"GatewayId": "", "VmId": ""`, apierror.MissingParameter, 0},
		{"two targets", "0.0.0.0/0", fmt.Sprintf(`"GatewayId": %q, "NatServiceId": %q`, has.service, has.nat), apierror.InvalidParameterSet,
			apierror.InvalidParameterSet},
		{"the same destination", "0.0.0.0/0", fmt.Sprintf(`"NatServiceId": %q`, has.nat), apierror.RouteExists, 0},
		{"the range of the Net", "10.0.0.0/16", fmt.Sprintf(`"NatServiceId": %q`, has.nat), apierror.RouteExists, apierror.InvalidParameter},
		{"a part of the Net", "10.0.9.0/24", fmt.Sprintf(`"NatServiceId": %q`, has.nat), apierror.InvalidParameter, apierror.RouteNotFound},
		{"no route", "192.0.2.0/24", fmt.Sprintf(`"NatServiceId": %q`, has.nat), 0, apierror.RouteNotFound},
		{"a propagated route", "172.16.0.0/12", fmt.Sprintf(`"NatServiceId": %q`, has.nat), 0, apierror.InvalidParameter},
		{"no range", "everywhere", fmt.Sprintf(`"NatServiceId": %q`, has.nat), apierror.InvalidBlock, apierror.InvalidBlock},
		{"unknown internet service", "0.0.0.0/0", `"GatewayId": "igw-00000000"`, apierror.InternetServiceNotFound,
			apierror.InternetServiceNotFound},
		{"another Net's internet service", "0.0.0.0/0", fmt.Sprintf(`"GatewayId": %q`, far.service), apierror.GatewayNotFound,
			apierror.GatewayNotFound},
		{"unknown virtual gateway", "0.0.0.0/0", `"GatewayId": "vgw-00000000"`, apierror.VirtualGatewayNotFound, apierror.VirtualGatewayNotFound},
		{"another Net's virtual gateway", "0.0.0.0/0", fmt.Sprintf(`"GatewayId": %q`, far.gateway), apierror.GatewayNotFound,
			apierror.GatewayNotFound},
		{"local", "0.0.0.0/0", `"GatewayId": "local"`, apierror.InvalidID, apierror.InvalidID},
		{"malformed gateway", "0.0.0.0/0", `"GatewayId": "vgw-1"`, apierror.MalformedID, apierror.MalformedID},
		{"unknown NAT service", "0.0.0.0/0", `"NatServiceId": "nat-00000000"`, apierror.NatServiceNotFound, apierror.NatServiceNotFound},
		{"another Net's NAT service", "0.0.0.0/0", fmt.Sprintf(`"NatServiceId": %q`, far.nat), apierror.InvalidParameter,
			apierror.InvalidParameter},
		{"unknown Net peering", "0.0.0.0/0", `"NetPeeringId": "pcx-00000000"`, network.NetPeerings.NotFound, network.NetPeerings.NotFound},
		{"another Net's peering", "0.0.0.0/0", fmt.Sprintf(`"NetPeeringId": %q`, far.peering), apierror.InvalidParameter,
			apierror.InvalidParameter},
		{"unknown NIC", "0.0.0.0/0", `"NicId": "eni-00000000"`, network.Nics.NotFound, network.Nics.NotFound},
		{"a service's NIC", "0.0.0.0/0", fmt.Sprintf(`"NicId": %q`, hidden), network.Nics.NotFound, network.Nics.NotFound},
		{"another Net's NIC", "0.0.0.0/0", fmt.Sprintf(`"NicId": %q`, far.nic), apierror.InvalidParameter, apierror.InvalidParameter},
		{"unknown VM", "0.0.0.0/0", `"VmId": "i-00000000"`, apierror.VmNotFound, apierror.VmNotFound},
		{"another Net's VM", "0.0.0.0/0", `"VmId": "i-0000000c"`, apierror.InvalidParameter, apierror.InvalidParameter},
		{"a VM with two NICs", "0.0.0.0/0", fmt.Sprintf(`"VmId": %q`, twoNics), apierror.InvalidParameter, apierror.InvalidParameter},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for action, code := range map[string]apierror.Code{"CreateRoute": test.create, "UpdateRoute": test.update} {
				if code != 0 {
					r.Refuse(code, alice, action, `{"RouteTableId": %q, "DestinationIpRange": %q, %s}`, has.table, test.destination, test.target)
				}
			}
		})
	}
	for destination, code := range map[string]apierror.Code{
		"10.0.0.0/16": apierror.InvalidParameter, "172.16.0.0/12": apierror.InvalidParameter, "192.0.2.0/24": apierror.RouteNotFound,
		"0.0.0.0/1": apierror.RouteNotFound,
	} {
		r.Refuse(code, alice, "DeleteRoute", `{"RouteTableId": %q, "DestinationIpRange": %q}`, has.table, destination)
	}
	whole := fmt.Sprintf(`{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", "GatewayId": %q}`, has.table, has.service)
	for _, action := range []string{"CreateRoute", "UpdateRoute"} {
		r.Refuse(apierror.RouteTableNotFound, bob, action, whole)
	}
	r.Refuse(apierror.RouteTableNotFound, bob, "DeleteRoute", `{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0"}`, has.table)
}

// A route of the account's takes the place of a propagated one.
func TestRouteBeforePropagatedOnes(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"rtb_rule_limit": 2})
	has := r.targets(alice)
	r.Update(alice, func(tx *resource.Tx) error {
		table, err := network.RouteTables.Get(tx, id.RouteTable(has.table))
		if err != nil {
			return err
		}
		for _, destination := range []api.CIDR{"192.0.2.0/24", "203.0.113.0/24"} {
			table.Routes = append(table.Routes, network.Route{CreationMethod: network.ByRoutePropagation, DestinationIpRange: destination,
				GatewayId: has.gateway})
		}
		return network.RouteTables.Put(tx, table)
	})
	want := driver.Route{Destination: api.CIDR("192.0.2.0/24").Prefix(), Target: driver.ToGateway, ID: has.gateway}
	if got := r.worldRoute(has.net, has.table, "192.0.2.0/24"); got != want {
		t.Errorf("in the driver, a propagated route is %v, want %v", got, want)
	}
	r.Call(alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "192.0.2.0/24", "NatServiceId": %q}`, has.table, has.nat)
	var routes []object
	for _, route := range r.List(alice, "ReadRouteTables", `{"Filters": {"RouteTableIds": [%q]}}`, has.table)[0]["Routes"].([]any) {
		routes = append(routes, route.(map[string]any))
	}
	r.Selects(routes, "DestinationIpRange", "10.0.0.0/16", "192.0.2.0/24", "203.0.113.0/24")

	// Propagated ones do not count: two others are there.
	r.Refuse(apierror.TooManyRouteTables, alice, "CreateRoute",
		`{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", "NatServiceId": %q}`, has.table, has.nat)
	r.Update(alice, func(tx *resource.Tx) error {
		for _, meter := range network.Meters() {
			for typ, use := range meter.Read(tx) {
				if meter.Quota == "rtb_rule_limit" && (typ != resource.Global || use != 2) {
					t.Errorf("%d routes are used by %s, want 2", use, typ)
				}
			}
		}
		return nil
	})
}

// A table shows its routes by destination, one that was just added apart: it is
// the last one of that answer.
func TestOrderOfRoutes(t *testing.T) {
	t.Parallel()
	r := setup(t)
	has := r.targets(alice)
	create := func(destination string) object {
		return r.One(alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": %q, "NatServiceId": %q}`, has.table, destination, has.nat)
	}
	r.Call(alice, "CreateNetAccessPoint", `{"NetId": %q, "ServiceName": %q, "RouteTableIds": [%q]}`, has.net, apiService, has.table)
	order := func(table object, want ...any) {
		t.Helper()
		var got []any
		for _, route := range table["Routes"].([]any) {
			got = append(got, route.(map[string]any)["DestinationIpRange"])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the routes lead to (-want +got):\n%s", diff)
		}
	}
	read := func() object {
		return r.List(alice, "ReadRouteTables", `{"Filters": {"RouteTableIds": [%q]}}`, has.table)[0]
	}
	create("192.0.2.0/24")
	create("9.0.0.0/8")
	create("192.0.2.0/25")
	order(create("0.0.0.0/0"), "9.0.0.0/8", "10.0.0.0/16", "192.0.2.0/24", "192.0.2.0/25", nil, "0.0.0.0/0")
	order(read(), "0.0.0.0/0", "9.0.0.0/8", "10.0.0.0/16", "192.0.2.0/24", "192.0.2.0/25", nil)
	order(create("172.16.0.0/12"), "0.0.0.0/0", "9.0.0.0/8", "10.0.0.0/16", "192.0.2.0/24", "192.0.2.0/25", nil, "172.16.0.0/12")
	order(r.One(alice, "DeleteRoute", `{"RouteTableId": %q, "DestinationIpRange": "9.0.0.0/8"}`, has.table),
		"0.0.0.0/0", "10.0.0.0/16", "172.16.0.0/12", "192.0.2.0/24", "192.0.2.0/25", nil)
}

// A route to an internet service that is linked to no Net leads nowhere until it
// is linked. One that is linked to another Net is refused.
func TestRouteToAnUnlinkedInternetService(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	table := r.table(alice, net)
	service := r.One(alice, "CreateInternetService", `{}`).Text("InternetServiceId")
	state := func(answer object, want network.RouteState, in driver.Target) {
		t.Helper()
		for _, route := range answer["Routes"].([]any) {
			route := route.(map[string]any)
			if route["DestinationIpRange"] == "0.0.0.0/0" && route["State"] != string(want) {
				t.Errorf("the route is %v, want it %s", route, want)
			}
		}
		if got := r.worldRoute(net, table, "0.0.0.0/0").Target; got != in {
			t.Errorf("in the driver it leads to %q, want %q", got, in)
		}
	}
	read := func() object {
		return r.List(alice, "ReadRouteTables", `{"Filters": {"RouteTableIds": [%q]}}`, table)[0]
	}
	link := func(action, net string) {
		r.Call(alice, action, `{"InternetServiceId": %q, "NetId": %q}`, service, net)
	}
	body := fmt.Sprintf(`{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", "GatewayId": %q}`, table, service)
	state(r.One(alice, "CreateRoute", body), network.RouteBlackhole, driver.Blackhole)
	state(r.One(alice, "UpdateRoute", body), network.RouteBlackhole, driver.Blackhole)
	link("LinkInternetService", net)
	state(read(), network.RouteActive, driver.ToInternet)
	link("UnlinkInternetService", net)
	state(read(), network.RouteBlackhole, driver.Blackhole)
	link("LinkInternetService", other)
	state(read(), network.RouteBlackhole, driver.Blackhole)
	r.Refuse(apierror.GatewayNotFound, alice, "UpdateRoute", body)
	r.Refuse(apierror.GatewayNotFound, alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "192.0.2.0/24", "GatewayId": %q}`,
		table, service)
}

// Of a Subnet's table and the main one, the driver is told the one that counts.
func TestSubnetsTableInTheWorld(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	linked, free := r.subnet(alice, net, "10.0.0.0/24"), r.subnet(alice, net, "10.0.1.0/24")
	main, table, other := r.mainTable(alice, net), r.table(alice, net), r.table(alice, net)
	check := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for _, s := range r.worldNet(net).Subnets {
			got[s.ID] = s.RouteTable
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the tables of the Subnets in the driver (-want +got):\n%s", diff)
		}
	}
	check(map[string]string{linked: main.Text("RouteTableId"), free: main.Text("RouteTableId")})
	link := r.linkTable(alice, table, linked)
	check(map[string]string{linked: table, free: main.Text("RouteTableId")})
	r.Call(alice, "UpdateRouteTableLink", `{"LinkRouteTableId": %q, "RouteTableId": %q}`,
		r.links(alice, main.Text("RouteTableId"))[0]["LinkRouteTableId"], other)
	check(map[string]string{linked: table, free: other})
	r.Call(alice, "UnlinkRouteTable", `{"LinkRouteTableId": %q}`, link)
	check(map[string]string{linked: other, free: other})
}
