package world

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// checkNetworks makes sure that the Subnets of a Net are in it, apart from each
// other and available, that Net access points are too, and that there is one
// default DHCP options set, and one default security group of each Net.
func (d *day) checkNetworks(name string) {
	d.w.view(name, func(tx *kind.Tx) error {
		for net := range network.Nets.All(tx) {
			if net.Unsettled() {
				d.w.t.Errorf("the Net %s is at %d, and its driver at %d", net.NetId, net.Generation, net.Applied)
			}
			var taken []netip.Prefix
			for subnet := range network.Subnets.Of(tx, net.NetId) {
				r, outer := subnet.IpRange.Prefix(), net.IpRange.Prefix()
				if r.Bits() < outer.Bits() || !outer.Contains(r.Addr()) {
					d.w.t.Errorf("the Subnet %s is outside its Net %s", r, outer)
				}
				if slices.ContainsFunc(taken, r.Overlaps) {
					d.w.t.Errorf("the Subnet %s overlaps one of %v", r, taken)
				}
				if taken = append(taken, r); subnet.State != network.SubnetAvailable {
					d.w.t.Errorf("the Subnet %s stays %s", subnet.SubnetId, subnet.State)
				}
			}
		}
		for net := range network.Nets.All(tx) {
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
		for p := range network.NetAccessPoints.All(tx) {
			if p.State != network.NetAccessPointAvailable {
				d.w.t.Errorf("the Net access point %s stays %s", p.NetAccessPointId, p.State)
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
	d.w.view(name, func(tx *kind.Tx) error {
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
			if err != nil || nic.Service != string(nat.NatServiceId) || len(ips) != 1 || nat.State != network.NatServiceAvailable {
				d.w.t.Errorf("the NAT service %+v has the NIC %v and the public IPs %v", nat, nic, ips)
			}
			nats[string(nat.NatServiceId)] = true
		}
		for nic := range network.Nics.All(tx) {
			if nic.Service != "" && !nats[nic.Service] {
				d.w.t.Errorf("the NIC %s is of %s, which is not there", nic.NicId, nic.Service)
			}
		}
		return nil
	})
}

// checkPeerings makes sure that the other side of each peering knows the same
// of it, and that no request is left whose time has passed.
func (d *day) checkPeerings(name string) {
	d.w.view(name, func(tx *kind.Tx) error {
		for p := range network.NetPeerings.All(tx) {
			if late := !p.ExpirationDate.IsZero() && !p.ExpirationDate.Time().After(d.w.clock.Now()); late {
				d.w.t.Errorf("the %s peering %s waits since %v", p.State.Name, p.NetPeeringId, p.ExpirationDate.Time())
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
	d.w.view(name, func(tx *kind.Tx) error {
		owners, devices := map[string]id.Nic{}, map[string]id.Nic{}
		for n := range network.Nics.All(tx) {
			subnet, err := network.Subnets.Get(tx, n.SubnetId)
			if err != nil {
				return err
			}
			if n.NetId != subnet.NetId || len(n.PrivateIps) == 0 || len(n.PrivateIps) > 30 || (len(n.SecurityGroups) == 0) != (n.Service != "") {
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
			if linked := err == nil; linked != (ip.PrivateIp != "") || linked != (ip.LinkPublicIpId != "" || ip.Lent) {
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

// checkDriver makes sure that the world has the Nets and Subnets that the store
// has, and no others.
func (d *day) checkDriver() {
	want, got := map[string]bool{}, map[string]bool{}
	for _, name := range d.people {
		for _, kind := range []string{"Net", "Subnet", "SecurityGroup", "NetAccessPoint", "Nic"} {
			for _, o := range d.objects(name, kind) {
				g, ok := o.Value.(*network.SecurityGroup)
				want[o.ID] = !ok || g.NetId != ""
			}
		}
	}
	nets, err := d.w.World.ObserveNets(context.Background())
	if err != nil {
		d.w.t.Fatalf("observing the world: %v", err)
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
	maps.DeleteFunc(want, func(_ string, inNet bool) bool { return !inNet })
	if !maps.Equal(want, got) {
		d.w.t.Errorf("the world has %v, and the store %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
