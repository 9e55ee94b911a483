package driver_test

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/bastide-cloud/bastide/internal/driver"
	"pgregory.net/rapid"
)

// draw is the sample with some things changed at random.
func draw(t *rapid.T) *nets {
	n := sample()
	changes := rapid.SliceOfN(rapid.SampledFrom([]func(*rapid.T, *nets){
		func(t *rapid.T, n *nets) {
			table := n.table(tables.Draw(t, "table"))
			r := drawRoute(t)
			table.Routes = slices.DeleteFunc(table.Routes, func(old driver.Route) bool {
				return old.Destination == r.Destination && old.Service == r.Service
			})
			table.Routes = append(table.Routes, r)
		},
		func(t *rapid.T, n *nets) {
			table := n.table(tables.Draw(t, "table"))
			table.Routes = slices.Delete(table.Routes, 0, min(1, len(table.Routes)))
		},
		addRule,
		func(t *rapid.T, n *nets) { n.group(groups.Draw(t, "group")).Inbound = nil },
		func(t *rapid.T, n *nets) { n.group(groups.Draw(t, "group")).Outbound = nil },
		func(t *rapid.T, n *nets) {
			// Only NICs of the first Net: a group is of its own.
			nic := n.nic(rapid.SampledFrom(nics[:6]).Draw(t, "NIC"))
			nic.SecurityGroups = append(nic.SecurityGroups, rapid.SampledFrom([]string{"sg-web", "sg-db", "sg-fw"}).Draw(t, "joins"))
		},
		func(t *rapid.T, n *nets) { n.nic(rapid.SampledFrom(nics).Draw(t, "NIC")).SourceDestCheck = false },
		func(t *rapid.T, n *nets) {
			n.nic("db").Addresses[0].Public = addr("198.51.100.6")
		},
		func(t *rapid.T, n *nets) { n.one.InternetService = "" },
	}), 0, 8).Draw(t, "changes")
	for _, change := range changes {
		change(t, n)
	}
	return n
}

var (
	nics   = []string{"web", "bare", "fw", "db", "idle", "guest", "app"}
	tables = rapid.SampledFrom([]string{"rtb-public", "rtb-private", "rtb-fenced", "rtb-two"})
	groups = rapid.SampledFrom([]string{"sg-web", "sg-db", "sg-fw", "sg-guest", "sg-app"})
	places = rapid.SampledFrom([]string{
		"web", "bare", "fw", "db", "db@10.0.2.6", "idle", "guest", "app", "web@198.51.100.5",
		"vgw@192.168.1.9", "203.0.113.9", "203.0.113.65", "198.51.100.7",
	})
)

func drawRoute(t *rapid.T) driver.Route {
	target := rapid.SampledFrom([]driver.Route{
		{Target: driver.Local},
		{Target: driver.Blackhole},
		{Target: driver.ToInternet, ID: "igw"},
		{Target: driver.ToNat, ID: "nat"},
		{Target: driver.ToPeering, ID: "pcx"},
		{Target: driver.ToGateway, ID: "vgw"},
		{Target: driver.ToNic, ID: "fw"},
	}).Draw(t, "target")
	target.Destination = rapid.SampledFrom([]netip.Prefix{
		prefix("0.0.0.0/0"), prefix("10.0.0.0/8"), prefix("10.0.0.0/16"), prefix("10.0.2.0/24"), prefix("10.1.0.0/16"),
		prefix("192.168.0.0/16"), prefix("203.0.113.0/24"), prefix("203.0.113.64/28"),
	}).Draw(t, "destination")
	return target
}

func addRule(t *rapid.T, n *nets) {
	g := n.group(groups.Draw(t, "group"))
	r := rule(rapid.SampledFrom([]string{
		"-1 0.0.0.0/0", "tcp 0.0.0.0/0", "tcp 80 10.0.0.0/16", "-1 10.1.0.0/16", "icmp 0.0.0.0/0", "tcp pl",
		"-1 " + alice + "/sg-web", "-1 " + alice + "/sg-db", "-1 " + bob + "/sg-app",
	}).Draw(t, "rule"))
	if rapid.Bool().Draw(t, "inbound") {
		g.Inbound = append(g.Inbound, r)
	} else {
		g.Outbound = append(g.Outbound, r)
	}
}

func drawFlow(t *rapid.T, n *nets) driver.Flow {
	what := rapid.SampledFrom([]string{"tcp 80", "tcp 443", "tcp 5432", "tcp 8080", "udp 53", "icmp 8 0"}).Draw(t, "what")
	return n.flow(places.Draw(t, "from") + " > " + places.Draw(t, "to") + " " + what)
}

// compare checks that after a change flows may only turn from one answer into
// the other, and that both answers were seen.
func compare(t *testing.T, change func(*rapid.T, *nets), allowed func(before, after bool) bool) {
	seen := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		n := draw(t)
		flow := drawFlow(t, n)
		before := driver.Reach(n.all(), flow)
		change(t, n)
		after := driver.Reach(n.all(), flow)
		if !allowed(before == nil, after == nil) {
			t.Fatalf("%+v: before %v, after %v", flow, before, after)
		}
		seen[before == nil]++
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("of the flows, %d got through and %d did not: this says little", seen[true], seen[false])
	}
}

func TestMoreRulesStopNothing(t *testing.T) {
	t.Parallel()
	compare(t, addRule, func(before, after bool) bool { return after || !before })
}

// opensNothing allows what stays or is stopped.
func opensNothing(before, after bool) bool { return before || !after }

// A route that hides a wider one is another matter: without it the wider one
// counts.
func TestFewerRoutesOpenNothing(t *testing.T) {
	t.Parallel()
	compare(t, func(t *rapid.T, n *nets) {
		table := n.table(tables.Draw(t, "table without"))
		var free []driver.Route
		for i, r := range table.Routes {
			if r.Service == "" && !slices.ContainsFunc(slices.Delete(slices.Clone(table.Routes), i, i+1), func(wide driver.Route) bool {
				to := wide.Destination
				if wide.Service != "" {
					to = n.one.Services[0].Ranges[0]
				}
				return to.Overlaps(r.Destination) && to.Bits() <= r.Destination.Bits()
			}) {
				free = append(free, r)
			}
		}
		if len(free) > 0 {
			n.drop(table.ID, rapid.SampledFrom(free).Draw(t, "drops").Destination.String())
		}
	}, opensNothing)
}

func TestFewerMachinesOpenNothing(t *testing.T) {
	t.Parallel()
	compare(t, func(t *rapid.T, n *nets) { n.nic(rapid.SampledFrom(nics).Draw(t, "NIC without")).Machine = "" }, opensNothing)
}

func TestFewerGroupsOpenNothing(t *testing.T) {
	t.Parallel()
	compare(t, func(t *rapid.T, n *nets) {
		nic := n.nic(rapid.SampledFrom(nics).Draw(t, "NIC without"))
		nic.SecurityGroups = nic.SecurityGroups[1:]
	}, opensNothing)
}

// The order of lists says nothing, and asking changes nothing.
func TestOrderSaysNothing(t *testing.T) {
	t.Parallel()
	compare(t, func(t *rapid.T, n *nets) {
		asked := sample()
		_ = driver.Reach(asked.all(), drawFlow(t, asked))
		if !reflect.DeepEqual(asked, sample()) {
			t.Fatal("asking has changed the Nets")
		}
		for _, net := range []*driver.Net{&n.one, &n.two} {
			net.Nics = shuffled(t, net.Nics)
			net.Subnets = shuffled(t, net.Subnets)
			net.RouteTables = shuffled(t, net.RouteTables)
			net.SecurityGroups = shuffled(t, net.SecurityGroups)
			for i := range net.RouteTables {
				net.RouteTables[i].Routes = shuffled(t, net.RouteTables[i].Routes)
			}
			for i := range net.SecurityGroups {
				net.SecurityGroups[i].Inbound = shuffled(t, net.SecurityGroups[i].Inbound)
			}
			for i := range net.Nics {
				net.Nics[i].Addresses = shuffled(t, net.Nics[i].Addresses)
				net.Nics[i].SecurityGroups = shuffled(t, net.Nics[i].SecurityGroups)
			}
		}
	}, func(before, after bool) bool { return before == after })
}

func shuffled[E any](t *rapid.T, list []E) []E {
	if len(list) < 2 {
		return list
	}
	return rapid.Permutation(list).Draw(t, "order")
}
