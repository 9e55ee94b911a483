package acceptance

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/balancer"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// TestRandomNetworks lets three people do with networks what comes to their
// minds, wrong things included, and looks after each step at all that must be
// true of references, addresses, counts, quotas and who reaches whom.
func TestRandomNetworks(t *testing.T) {
	t.Parallel()
	families := map[string]bool{}
	for _, a := range network.Actions(network.Region{}) {
		families[a.Family] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		d := newDay(t, "alice", "bob", "carol")
		d.actions = slices.DeleteFunc(d.actions, func(name string) bool {
			a, err := d.w.API.Find(name, api.Latest)
			return err != nil || !families[a.Family]
		})
		t.Repeat(map[string]func(*rapid.T){
			"":       func(*rapid.T) { d.check() },
			"calls":  d.calls,
			"wait":   d.wait,
			"settle": func(*rapid.T) { d.settle() },
		})
		d.settle()
	})
}

// check looks at what is true at any moment.
func (d *day) check() {
	for _, name := range d.people {
		d.checkReferences(name)
		d.checkNetworks(name)
		d.checkPeerings(name)
		d.checkRoutes(name)
		d.checkNics(name)
		d.checkBalancers(name)
	}
	d.checkPublicIps()
}

// settle lets the loops come to rest, and looks at what is true then.
func (d *day) settle() {
	d.w.settle()
	for _, name := range d.people {
		d.checkSettled(name)
		d.checkQuotas(name)
		d.checkFreeAddresses(name)
		d.checkDisks(name)
		d.checkVms(name)
	}
	d.checkDriver()
	d.checkDiskDriver()
	d.checkMachines()
	d.checkIsolation()
}

// checkSettled makes sure that nothing waits for the driver, or for a time that
// has passed.
func (d *day) checkSettled(name string) {
	d.w.view(name, func(tx *resource.Tx) error {
		for net := range network.Nets.All(tx) {
			if net.Pending() {
				d.w.t.Errorf("the Net %s is at %d, and its driver at %d", net.NetId, net.Generation, net.ObservedGeneration)
			}
		}
		for subnet := range network.Subnets.All(tx) {
			if subnet.State != network.SubnetAvailable {
				d.w.t.Errorf("the Subnet %s stays %s", subnet.SubnetId, subnet.State)
			}
		}
		for p := range network.NetAccessPoints.All(tx) {
			if p.State != network.GatewayAvailable {
				d.w.t.Errorf("the Net access point %s stays %s", p.NetAccessPointId, p.State)
			}
		}
		for nat := range network.NatServices.All(tx) {
			if nat.State != network.GatewayAvailable {
				d.w.t.Errorf("the NAT service %s stays %s", nat.NatServiceId, nat.State)
			}
		}
		for p := range network.NetPeerings.All(tx) {
			if late := !p.ExpirationDate.IsZero() && !p.ExpirationDate.Time().After(d.w.clock.Now()); late {
				d.w.t.Errorf("the %s peering %s waits since %v", p.State.Name, p.NetPeeringId, p.ExpirationDate.Time())
			}
		}
		for c := range network.VpnConnections.All(tx) {
			if c.State != network.GatewayAvailable {
				d.w.t.Errorf("the VPN connection %s stays %s", c.VpnConnectionId, c.State)
			}
		}
		return nil
	})
}

// checkFreeAddresses makes sure that each Subnet shows as many free addresses as
// its NICs leave.
func (d *day) checkFreeAddresses(name string) {
	shown := d.w.as(name).must("ReadSubnets", `{"ResultsPerPage": 1000}`).body["Subnets"].([]any)
	d.w.view(name, func(tx *resource.Tx) error {
		for _, s := range shown {
			s := s.(object)
			free := 1<<(32-netip.MustParsePrefix(s["IpRange"].(string)).Bits()) - 5
			for n := range network.Nics.Of(tx, id.Subnet(s["SubnetId"].(string))) {
				free -= len(n.PrivateIps)
			}
			if fmt.Sprint(s["AvailableIpsCount"]) != fmt.Sprint(free) {
				d.w.t.Errorf("the Subnet %v has %d free addresses", s, free)
			}
		}
		return nil
	})
}

// checkIsolation makes sure that who reaches a NIC of somebody else does so by
// an active peering of their Nets, or by its public IP.
func (d *day) checkIsolation() {
	type card struct {
		*network.Nic
		account string
	}
	var cards []card
	peered := map[[2]id.Net]bool{}
	for _, name := range d.people {
		account := d.w.people[name].account
		d.w.view(name, func(tx *resource.Tx) error {
			for n := range network.Nics.All(tx) {
				cards = append(cards, card{n, account})
			}
			for p := range network.NetPeerings.All(tx) {
				if p.State.Name == network.PeeringActive {
					peered[[2]id.Net{p.SourceNet.NetId, p.AccepterNet.NetId}] = true
					peered[[2]id.Net{p.AccepterNet.NetId, p.SourceNet.NetId}] = true
				}
			}
			return nil
		})
	}
	at := func(c card) driver.Place {
		return driver.Place{Account: c.account, Net: string(c.NetId), Nic: string(c.NicId),
			Address: netip.MustParseAddr(string(c.PrivateIps[0].PrivateIp))}
	}
	for _, from := range cards {
		for _, to := range cards {
			if from.NetId == to.NetId && from.account == to.account {
				continue
			}
			err := d.w.sim.Reach(driver.Flow{From: at(from), To: at(to), Protocol: "tcp", Port: 80})
			if err == nil && !peered[[2]id.Net{from.NetId, to.NetId}] {
				d.w.t.Errorf("%s of %s reaches the private address of %s of %s", from.NicId, from.account, to.NicId, to.account)
			}
		}
	}
}

// checkNetworks makes sure that the Subnets of a Net are in it and apart from
// each other, and that there is one default DHCP options set, and one default
// security group of each Net.
func (d *day) checkNetworks(name string) {
	d.w.view(name, func(tx *resource.Tx) error {
		for net := range network.Nets.All(tx) {
			var taken []netip.Prefix
			for subnet := range network.Subnets.Of(tx, net.NetId) {
				r, outer := subnet.IpRange.Prefix(), net.IpRange.Prefix()
				if r.Bits() < outer.Bits() || !outer.Contains(r.Addr()) {
					d.w.t.Errorf("the Subnet %s is outside its Net %s", r, outer)
				}
				if slices.ContainsFunc(taken, r.Overlaps) {
					d.w.t.Errorf("the Subnet %s overlaps one of %v", r, taken)
				}
				taken = append(taken, r)
			}
			defaults := 0
			for g := range network.SecurityGroups.Of(tx, net.NetId) {
				if g.SecurityGroupName == "default" {
					defaults++
				}
			}
			if defaults != 1 {
				d.w.t.Errorf("%s has %d default security groups", net.NetId, defaults)
			}
		}
		defaults := 0
		for set := range network.DhcpOptionsSets.All(tx) {
			if set.Default {
				defaults++
			}
		}
		if defaults != 1 {
			d.w.t.Errorf("%s has %d default DHCP options sets", name, defaults)
		}
		return nil
	})
}

// checkRoutes makes sure that a Net has one main route table, which says so
// first, and a Subnet one link; that a table has one route to a destination; and
// that a NAT service has an address and one public IP, until it is deleted.
func (d *day) checkRoutes(name string) {
	d.w.view(name, func(tx *resource.Tx) error {
		links := map[id.Subnet]int{}
		for net := range network.Nets.All(tx) {
			mains := 0
			for table := range network.RouteTables.Of(tx, net.NetId) {
				for i, link := range table.LinkRouteTables {
					if link.Main {
						mains++
					}
					if links[link.SubnetId]++; link.Main != (link.SubnetId == "") || link.Main && i > 0 {
						d.w.t.Errorf("link %d of the route table %s is %+v", i, table.RouteTableId, link)
					}
				}
				destinations := map[api.CIDR]bool{}
				for _, route := range table.Routes {
					if destinations[route.DestinationIpRange] {
						d.w.t.Errorf("the route table %s has two routes to %s", table.RouteTableId, route.DestinationIpRange)
					}
					destinations[route.DestinationIpRange] = true
				}
			}
			if mains != 1 {
				d.w.t.Errorf("the Net %s has %d main route tables", net.NetId, mains)
			}
		}
		for subnet, n := range links {
			if subnet != "" && n > 1 {
				d.w.t.Errorf("the Subnet %s is linked to %d route tables", subnet, n)
			}
		}
		nats := map[string]bool{}
		for nat := range network.NatServices.All(tx) {
			ips := slices.Collect(network.PublicIps.Of(tx, nat.NatServiceId))
			nic, err := network.Nics.Get(tx, nat.NicId)
			if err != nil || nic.Service != string(nat.NatServiceId) || len(ips) != 1 {
				d.w.t.Errorf("the NAT service %+v has the NIC %v and the public IPs %v", nat, nic, ips)
			}
			nats[string(nat.NatServiceId)] = true
		}
		for nic := range network.Nics.All(tx) {
			ofBalancer := balancer.LoadBalancers.Has(tx, id.LoadBalancer(nic.Service))
			if nic.Service != "" && !nats[nic.Service] && !ofBalancer && !compute.Vms.Has(tx, id.Vm(nic.Service)) {
				d.w.t.Errorf("the NIC %s is of %s, which is not there", nic.NicId, nic.Service)
			}
		}
		return nil
	})
}

// checkPeerings makes sure that the other side of each peering knows the same
// of it, unless the request is in vain, which only the account that asks has.
func (d *day) checkPeerings(name string) {
	d.w.view(name, func(tx *resource.Tx) error {
		for p := range network.NetPeerings.All(tx) {
			if p.InVain {
				continue
			}
			for _, account := range []id.Account{p.SourceNet.AccountId, p.AccepterNet.AccountId} {
				other, err := network.NetPeerings.Get(tx.In(string(account)), p.NetPeeringId)
				if err != nil {
					return err
				}
				if other.State != p.State || other.ExpirationDate != p.ExpirationDate {
					d.w.t.Errorf("the peering %s is %v, and %v to %s", p.NetPeeringId, p, other, account)
				}
			}
		}
		return nil
	})
}

// checkNics makes sure that the addresses of NICs are usable ones of their
// Subnets, each of one NIC, that a VM has one NIC per device, and that public
// IPs stand for addresses that are there, one for each at most.
func (d *day) checkNics(name string) {
	d.w.view(name, func(tx *resource.Tx) error {
		owners, devices := map[string]id.Nic{}, map[string]id.Nic{}
		for n := range network.Nics.All(tx) {
			subnet := &network.Subnet{IpRange: "10.8.0.0/13"} // the public Cloud
			if n.SubnetId != "" {
				var err error
				if subnet, err = network.Subnets.Get(tx, n.SubnetId); err != nil {
					return err
				}
			}
			grouped := n.Service == "" || n.LinkNic != nil
			if n.LoadBalancerName != "" { // in the public Cloud, it may or may not be
				grouped = n.NetId != "" || len(n.SecurityGroups) > 0
			}
			if n.NetId != subnet.NetId || len(n.PrivateIps) == 0 || len(n.PrivateIps) > 30 || (len(n.SecurityGroups) > 0) != grouped {
				d.w.t.Errorf("the NIC %s of %s is %+v", n.NicId, subnet.NetId, n)
			}
			for i, p := range n.PrivateIps {
				at := string(n.SubnetId) + " " + string(p.PrivateIp)
				if owners[at] != "" || p.IsPrimary != (i == 0) || !subnet.IpRange.Prefix().Contains(netip.MustParseAddr(string(p.PrivateIp))) {
					d.w.t.Errorf("the NIC %s has %+v, whose owner is %q", n.NicId, p, owners[at])
				}
				owners[at] = n.NicId
			}
			if link := n.LinkNic; link != nil {
				at := fmt.Sprint(link.VmId, link.DeviceNumber)
				if devices[at] != "" {
					d.w.t.Errorf("the device %d of %s is %s and %s", link.DeviceNumber, link.VmId, devices[at], n.NicId)
				}
				devices[at] = n.NicId
			}
		}
		stands := map[string]bool{}
		for ip := range network.PublicIps.All(tx) {
			n, err := network.Nics.Get(tx, ip.NicId)
			if linked := err == nil; linked != (ip.PrivateIp != "") || linked != (ip.LinkPublicIpId != "" || ip.Ephemeral) {
				d.w.t.Errorf("the public IP is %+v", ip)
			}
			if err != nil {
				continue
			}
			at := string(ip.NicId) + " " + string(ip.PrivateIp)
			if stands[at] || owners[string(n.SubnetId)+" "+string(ip.PrivateIp)] != ip.NicId {
				d.w.t.Errorf("%s stands for %s, which another one does or which is not there", ip.PublicIp, at)
			}
			stands[at] = true
		}
		return nil
	})
}

// checkPublicIps makes sure that the addresses that are in use are those that
// somebody has, each of one account.
func (d *day) checkPublicIps() {
	owners := map[string]string{}
	for _, name := range d.people {
		for _, o := range d.objects(name, "PublicIp") {
			address := string(o.Value.(*network.PublicIp).PublicIp)
			if owners[address] != "" {
				d.w.t.Errorf("%s has %s, and so has %s", owners[address], address, name)
			}
			owners[address] = name
			block, err := netip.MustParseAddr(address).Prefix(24)
			if err != nil {
				d.w.t.Fatalf("the public IP %s: %v", address, err)
			}
			snap, err := d.w.DB.Store.View(context.Background(), "addresses-"+block.Addr().String())
			if err != nil {
				d.w.t.Fatalf("reading the pool: %v", err)
			}
			if _, ok := snap.Get("TakenAddress", address); !ok {
				d.w.t.Errorf("%s has %s, which counts as free", name, address)
			}
		}
	}
}

// checkDriver makes sure that the driver has the Nets, what is in them, and the
// security groups that the store has, and no others.
func (d *day) checkDriver() {
	want, got := map[string]bool{}, map[string]bool{}
	for _, name := range d.people {
		for _, kind := range []string{"Net", "Subnet", "SecurityGroup", "NetAccessPoint", "Nic"} {
			for _, o := range d.objects(name, kind) {
				n, isNic := o.Value.(*network.Nic)
				want[o.ID] = !(isNic && n.NetId == "")
			}
		}
	}
	nets, err := d.w.sim.ObserveNets(context.Background())
	if err != nil {
		d.w.t.Fatalf("observing the driver: %v", err)
	}
	for _, net := range nets {
		got[net.ID] = true
		for _, subnet := range net.Subnets {
			got[subnet.ID] = true
		}
		for _, nic := range net.Nics {
			got[nic.ID] = true
		}
		for _, group := range net.SecurityGroups {
			got[group.ID] = true
		}
		for _, point := range net.AccessPoints {
			got[point.ID] = true
		}
	}
	groups, err := d.w.sim.ObserveGroups(context.Background())
	if err != nil {
		d.w.t.Fatalf("observing the driver: %v", err)
	}
	for _, group := range groups {
		if slices.ContainsFunc(d.people, func(name string) bool { return d.w.people[name].account == group.Account }) {
			got[group.ID] = true
		}
	}
	maps.DeleteFunc(want, func(_ string, inNet bool) bool { return !inNet })
	if !maps.Equal(want, got) {
		d.w.t.Errorf("the driver has %v, and the store %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
