package driver

import (
	"net/netip"
	"slices"
	"strings"
)

// walk follows a packet through the Nets, from hop to hop. Each method takes it
// one hop further and calls the next.
type walk struct {
	nets     []Net
	flow     Flow
	src, dst netip.Addr // the packet's current addresses

	// answers is the walk of the packet that this one replies to; nil: this one
	// is not a reply.
	answers *walk

	passed []*Nic // NICs of the machines that have forwarded it
	natted []translation
	end    Place // where it arrived
	served bool  // it reached a service through an access point
}

// translation is a NAT that the packet passed.
type translation struct {
	nat *Nat
	was netip.Addr // the source address before
}

// start begins the walk at a place.
func (w *walk) start(at Place) *Stop {
	switch {
	case at.Nic != "":
		return w.startNic(at)
	case at.Gateway != "":
		net := find(w.nets, func(n *Net) bool { return n.Account == at.Account && n.VirtualGateway == at.Gateway })
		if net == nil {
			return stop(at.Gateway, "%s is linked to no Net", at.Gateway)
		}
		return w.enter(net, at.Gateway)
	}
	return w.internet()
}

func (w *walk) startNic(at Place) *Stop {
	net := w.net(at.Account, at.Net)
	if net == nil {
		return stop(at.Net, "account %s has no Net %s", at.Account, at.Net)
	}
	nic := net.nic(at.Nic)
	if nic == nil {
		return stop(at.Nic, "%s has no NIC %s", at.Net, at.Nic)
	}
	if nic.with(func(a *Address) bool { return a.Private == w.src }) == nil {
		return stop(nic.ID, "%s does not have the private address %s", nic.ID, w.src)
	}
	if nic.Machine == "" {
		return stop(nic.ID, "%s is linked to no machine", nic.ID)
	}
	if nic.with(func(a *Address) bool { return a.Private == w.dst }) != nil {
		w.end = at // it does not leave the machine
		return nil
	}
	if err := w.filter(net, nic, outbound); err != nil {
		return err
	}
	return w.route(net, nic.Subnet)
}

func (w *walk) net(account, id string) *Net {
	return find(w.nets, func(n *Net) bool { return n.Account == account && n.ID == id })
}

// route routes the packet out of a Subnet.
func (w *walk) route(net *Net, subnetID string) *Stop {
	subnet := net.subnet(subnetID)
	if subnet == nil {
		return stop(subnetID, "%s has no Subnet %s", net.ID, subnetID)
	}
	if subnet.IpRange.Contains(w.dst) {
		return w.deliver(net)
	}
	table := find(net.RouteTables, func(t *RouteTable) bool { return t.ID == subnet.RouteTable })
	if table == nil {
		return stop(subnet.ID, "%s has no route table", subnet.ID)
	}
	r, to := net.longest(table, w.dst)
	if r == nil {
		return stop(table.ID, "%s has no route to %s", table.ID, w.dst)
	}
	gone := func() *Stop {
		return stop(table.ID, "the route of %s to %s leads to %s, which %s does not have", table.ID, to, r.ID, net.ID)
	}
	switch r.Target {
	case Local:
		return w.deliver(net)
	case ToInternet:
		if net.InternetService != r.ID {
			return gone()
		}
		return w.leave(net)
	case ToNat:
		if nat := net.nat(r.ID); nat != nil {
			return w.translate(net, nat)
		}
		return gone()
	case ToPeering:
		if p := net.peering(r.ID); p != nil {
			return w.cross(net, p)
		}
		return gone()
	case ToGateway:
		if net.VirtualGateway != r.ID {
			return gone()
		}
		w.end = Place{Account: net.Account, Gateway: r.ID, Address: w.dst}
		return nil
	case ToNic:
		if nic := net.nic(r.ID); nic != nil {
			return w.forward(net, nic)
		}
		return gone()
	case ToAccessPoint:
		if find(net.AccessPoints, func(p *AccessPoint) bool { return p.ID == r.ID }) == nil {
			return gone()
		}
		w.end, w.served = Place{Address: w.dst}, true
		return nil
	}
	return stop(table.ID, "the route of %s to %s leads nowhere", table.ID, to)
}

// longest returns the route of a table that applies to an address, and its
// destination as text; nil if there is none.
func (n *Net) longest(table *RouteTable, ip netip.Addr) (best *Route, to string) {
	bits := -1
	for i := range table.Routes {
		r := &table.Routes[i]
		ranges, name := []netip.Prefix{r.Destination}, r.Destination.String()
		if r.Service != "" {
			ranges, name = nil, r.Service
			if s := n.service(r.Service); s != nil {
				ranges = s.Ranges
			}
		}
		for _, p := range ranges {
			sooner := p.Bits() > bits || p.Bits() == bits && r.Service == ""
			if p.Contains(ip) && sooner {
				best, to, bits = r, name, p.Bits()
			}
		}
	}
	return best, to
}

// enter takes the packet into a Net through a gateway or peering, which leads
// to the Net itself and not through it.
func (w *walk) enter(net *Net, door string) *Stop {
	if !net.IpRange.Contains(w.dst) {
		return stop(door, "%s leads to what is in %s only, and %s is not", door, net.ID, w.dst)
	}
	return w.deliver(net)
}

// deliver takes the packet to the NIC of the Net that has its destination
// address.
func (w *walk) deliver(net *Net) *Stop {
	nic := net.at(w.dst)
	if nic == nil {
		return stop(net.ID, "no NIC in %s has the address %s", net.ID, w.dst)
	}
	if nat := find(net.Nats, func(nat *Nat) bool { return nat.Nic == nic.ID }); nat != nil {
		return w.restore(net, nat)
	}
	return w.arrive(net, nic)
}

// arrive ends the walk at a NIC.
func (w *walk) arrive(net *Net, nic *Nic) *Stop {
	if nic.Machine == "" {
		return stop(nic.ID, "%s, which has the address %s, is linked to no machine", nic.ID, w.dst)
	}
	if err := w.filter(net, nic, inbound); err != nil {
		return err
	}
	w.end = Place{Account: net.Account, Net: net.ID, Nic: nic.ID, Address: w.dst}
	return nil
}

// forward takes the packet through a machine that is the next hop of a route.
func (w *walk) forward(net *Net, nic *Nic) *Stop {
	switch {
	case nic.with(func(a *Address) bool { return a.Private == w.dst }) != nil:
		return w.arrive(net, nic)
	case nic.Machine == "":
		return stop(nic.ID, "%s, to which a route leads, is linked to no machine", nic.ID)
	case nic.SourceDestCheck:
		return stop(nic.ID, "%s forwards nothing, because its source and destination are checked", nic.ID)
	case slices.Contains(w.passed, nic):
		return stop(nic.ID, "packets to %s go round in circles through %s", w.dst, nic.ID)
	case w.answers != nil && !slices.Contains(w.answers.passed, nic):
		return stop(nic.ID, "%s is asked to forward a reply to a packet that it has not seen", nic.ID)
	}
	w.passed = append(w.passed, nic)
	for _, direction := range []direction{inbound, outbound} {
		if err := w.filter(net, nic, direction); err != nil {
			return err
		}
	}
	return w.route(net, nic.Subnet)
}

// cross takes the packet through a peering.
func (w *walk) cross(net *Net, p *Peering) *Stop {
	other := w.peer(net, p)
	if other == nil {
		return stop(p.ID, "%s does not join %s and %s", p.ID, net.ID, p.Net)
	}
	return w.enter(other, p.ID)
}

// peer returns the Net at the other end of a peering; nil if no Net has the
// peering too.
func (w *walk) peer(net *Net, p *Peering) *Net {
	other := w.net(p.Account, p.Net)
	if other == nil {
		return nil
	}
	if back := other.peering(p.ID); back == nil || back.Account != net.Account || back.Net != net.ID {
		return nil
	}
	return other
}

// translate takes the packet through a NAT, which replaces the source address
// with its own.
func (w *walk) translate(net *Net, nat *Nat) *Stop {
	own := net.private(nat)
	switch {
	case !own.IsValid():
		return stop(nat.ID, "%s has no address in %s", nat.ID, net.ID)
	case w.answers != nil:
		return stop(nat.ID, "%s would replace the source address of the reply", nat.ID)
	case slices.ContainsFunc(w.natted, func(t translation) bool { return t.nat == nat }):
		return stop(nat.ID, "packets to %s go round in circles through %s", w.dst, nat.ID)
	}
	w.natted = append(w.natted, translation{nat, w.src})
	w.src = own
	return w.route(net, nat.Subnet)
}

// restore takes a reply through a NAT to the original sender.
func (w *walk) restore(net *Net, nat *Nat) *Stop {
	var asked *translation
	if w.answers != nil {
		asked = find(w.answers.natted, func(t *translation) bool { return t.nat == nat })
	}
	if asked == nil {
		return stop(nat.ID, "%s is the address of %s, which only lets replies in", w.dst, nat.ID)
	}
	w.dst = asked.was
	return w.route(net, nat.Subnet)
}

// leave takes the packet to the Internet, with the public address of the sender
// as its source.
func (w *walk) leave(net *Net) *Stop {
	var public netip.Addr
	nic, address := net.has(func(a *Address) bool { return a.Private == w.src })
	if nic != nil {
		public = address.Public
		if nat := find(net.Nats, func(nat *Nat) bool { return nat.Nic == nic.ID }); nat != nil && len(nat.Public) > 0 {
			public = nat.Public[0]
		}
	}
	if !public.IsValid() {
		return stop(net.InternetService, "%s has no public IP, so %s does not let it out", w.src, net.InternetService)
	}
	w.src = public
	return w.internet()
}

// internet takes the packet to the owner of its destination address, which may
// be in a Net again.
func (w *walk) internet() *Stop {
	if !w.dst.IsGlobalUnicast() || w.dst.IsPrivate() {
		return stop("", "the Internet does not lead to %s", w.dst)
	}
	for i := range w.nets {
		net := &w.nets[i]
		nat := find(net.Nats, func(nat *Nat) bool { return slices.Contains(nat.Public, w.dst) })
		nic, address := net.has(func(a *Address) bool { return a.Public == w.dst })
		switch {
		case nat == nil && nic == nil:
			continue
		case net.InternetService == "":
			return stop(net.ID, "%s is in %s, which has no internet service", w.dst, net.ID)
		case nat != nil:
			return w.restore(net, nat)
		}
		w.dst = address.Private
		return w.arrive(net, nic)
	}
	w.end = Place{Address: w.dst}
	return nil
}

// direction is the direction in which security groups filter.
type direction string

const inbound, outbound direction = "in", "out"

// filter applies the security groups of a NIC to the packet. Replies always
// pass.
func (w *walk) filter(net *Net, nic *Nic, way direction) *Stop {
	if w.answers != nil {
		return nil
	}
	other, from := w.src, "from"
	if way == outbound {
		other, from = w.dst, "to"
	}
	for _, id := range nic.SecurityGroups {
		group := find(net.SecurityGroups, func(g *SecurityGroup) bool { return g.ID == id })
		if group == nil {
			continue
		}
		rules := group.Inbound
		if way == outbound {
			rules = group.Outbound
		}
		if slices.ContainsFunc(rules, func(r Rule) bool { return r.lets(w.flow) && w.names(net, r, other) }) {
			return nil
		}
	}
	if len(nic.SecurityGroups) == 0 {
		return stop(nic.ID, "%s is in no security group, so nothing is let %s", nic.ID, way)
	}
	return stop(nic.SecurityGroups[0], "no %sbound rule of %s lets %s %s %s %s",
		way, strings.Join(nic.SecurityGroups, " or "), w.flow, from, other, way)
}

// names reports whether a rule of a Net matches an address.
func (w *walk) names(net *Net, r Rule, ip netip.Addr) bool {
	return covers(r.Ranges, ip) ||
		slices.ContainsFunc(r.Services, func(id string) bool {
			s := net.service(id)
			return s != nil && covers(s.Ranges, ip)
		}) ||
		slices.ContainsFunc(r.Groups, func(g GroupName) bool { return w.member(net, g, ip) })
}

// member reports whether an address belongs to a NIC in a group, in the Net or
// in a peered one.
func (w *walk) member(net *Net, g GroupName, ip netip.Addr) bool {
	in := func(n *Net) bool {
		nic := n.at(ip)
		return nic != nil && n.Account == g.Account && slices.Contains(nic.SecurityGroups, g.ID)
	}
	return in(net) || slices.ContainsFunc(net.Peerings, func(p Peering) bool {
		other := w.peer(net, &p)
		return other != nil && in(other)
	})
}
