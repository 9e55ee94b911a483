package driver

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// Flow is a connection, as its first packet describes it.
type Flow struct {
	From, To Place
	Protocol string // tcp, udp, icmp, or an IANA protocol number
	Port     int    // the receiver's; of ICMP, the type
	Code     int    // of ICMP
}

// Place is one end of a flow: an address of a NIC, or an address outside of the
// Nets.
type Place struct {
	Account, Net, Nic string // empty: outside
	// for an outside address: the ID of the account's virtual gateway that it
	// is behind; empty: it is on the Internet
	Gateway string
	Address netip.Addr // the private address, for a sender in a Net
}

// Stop is the reason why a flow does not reach its receiver.
type Stop struct {
	By  string // the ID of the resource that stopped it; empty: no resource of the region
	Why string // a sentence
}

func (s *Stop) Error() string { return s.Why }

func stop(by, why string, args ...any) *Stop { return &Stop{By: by, Why: fmt.Sprintf(why, args...)} }

// Reach reports whether a flow gets from its sender to its receiver, and the
// reply back, in an infrastructure that has the given Nets. It returns nil if
// so, and a [*Stop] otherwise. The Nets must include the sender's, the
// receiver's and the Nets peered with them: a Net that is not given does not
// exist.
//
// A flow follows the route tables, and passes the security groups of the NICs
// at both ends and of those in between. The reply is not filtered again, but is
// routed by the tables of the other side.
//
// It models the region, and assumes the rest:
//   - A machine has all addresses of its NICs, listens on every port, and as a
//     next hop forwards packets unchanged and through the same NIC. So a
//     machine that translates addresses is not recognized. It forwards the flow
//     only if it gets it, and accepts a reply that took another way.
//   - The Internet, and hosts behind a virtual gateway, reply to every sender
//     from the address that was called. Tunnels, dedicated links and routes
//     learned by BGP are not considered: only the listed routes count.
//   - Services of the region have the addresses of their ranges, and reply to
//     every sender.
//   - The public Cloud, which is in no Net, is a part of the Internet.
//   - DHCP, name servers and other services that each Subnet has by itself are
//     not places.
func Reach(nets []Net, flow Flow) error {
	if _, known := protocol(flow.Protocol); !known {
		return stop("", "%q is not a protocol of packets", flow.Protocol)
	}
	there := walk{nets: nets, flow: flow, src: flow.From.Address, dst: flow.To.Address}
	if err := there.start(flow.From); err != nil {
		return err
	}
	if !there.end.same(flow.To) {
		return stop(there.end.name(), "%s leads to %s, not to %s", flow.To.Address, there.end, flow.To)
	}
	if there.served {
		return nil
	}
	back := walk{nets: nets, flow: flow, answers: &there, src: there.dst, dst: there.src}
	err := back.start(there.end)
	if err == nil && !back.end.same(flow.From) {
		err = stop(back.end.name(), "%s leads to %s, not to %s", there.src, back.end, flow.From)
	}
	if err != nil {
		return stop(err.By, "the answer does not come back: %s", err.Why)
	}
	return nil
}

// same reports whether two places are equal except for their address.
func (p Place) same(q Place) bool {
	p.Address, q.Address = netip.Addr{}, netip.Addr{}
	if p.Gateway == "" && p.Nic == "" {
		p.Account, q.Account = "", "" // the Internet belongs to no account
	}
	return p == q
}

// name returns the ID of the place; empty if it has none.
func (p Place) name() string {
	if p.Nic != "" {
		return p.Nic
	}
	return p.Gateway
}

func (p Place) String() string {
	switch {
	case p.Nic != "":
		return p.Nic + " in " + p.Net
	case p.Gateway != "":
		return "what is behind " + p.Gateway
	}
	return "the Internet"
}

// String returns the protocol and port, as rules match them.
func (f Flow) String() string {
	switch number, _ := protocol(f.Protocol); number {
	case tcp:
		return fmt.Sprintf("tcp/%d", f.Port)
	case udp:
		return fmt.Sprintf("udp/%d", f.Port)
	case icmp:
		return fmt.Sprintf("icmp of type %d and code %d", f.Port, f.Code)
	default:
		return fmt.Sprintf("protocol %d", number)
	}
}

// The numbers of the protocols that have names, as IANA lists them.
const icmp, tcp, udp = 1, 6, 17

// protocol returns the number of a protocol.
func protocol(name string) (number int, known bool) {
	switch name {
	case "icmp":
		return icmp, true
	case "tcp":
		return tcp, true
	case "udp":
		return udp, true
	}
	number, err := strconv.Atoi(name)
	return number, err == nil && number >= 0 && number <= 255
}

// lets reports whether a rule matches the protocol and ports of a flow.
func (r Rule) lets(flow Flow) bool {
	if r.Protocol == "-1" {
		return true
	}
	is, _ := protocol(flow.Protocol)
	if number, known := protocol(r.Protocol); !known || number != is {
		return false
	}
	switch is {
	case tcp, udp:
		return (r.From == -1 || r.From <= flow.Port) && (r.To == -1 || flow.Port <= r.To)
	case icmp:
		return (r.From == -1 || r.From == flow.Port) && (r.To == -1 || r.To == flow.Code)
	}
	return true // other protocols have no ports
}

// find returns a pointer to the first element for which a function returns
// true, or nil.
func find[E any](list []E, is func(*E) bool) *E {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

func (n *Net) subnet(id string) *Subnet {
	return find(n.Subnets, func(s *Subnet) bool { return s.ID == id })
}

func (n *Net) nic(id string) *Nic { return find(n.Nics, func(nic *Nic) bool { return nic.ID == id }) }

func (n *Net) nat(id string) *Nat { return find(n.Nats, func(nat *Nat) bool { return nat.ID == id }) }

func (n *Net) peering(id string) *Peering {
	return find(n.Peerings, func(p *Peering) bool { return p.ID == id })
}

func (n *Net) service(id string) *Service {
	return find(n.Services, func(s *Service) bool { return s.ID == id })
}

// with returns the first address of the NIC for which a function returns true,
// or nil.
func (n *Nic) with(is func(*Address) bool) *Address { return find(n.Addresses, is) }

// has returns the first NIC with an address for which a function returns true,
// and that address; nil if there is none.
func (n *Net) has(is func(*Address) bool) (*Nic, *Address) {
	for i := range n.Nics {
		if a := n.Nics[i].with(is); a != nil {
			return &n.Nics[i], a
		}
	}
	return nil, nil
}

// at returns the NIC that has a private address, or nil.
func (n *Net) at(private netip.Addr) *Nic {
	nic, _ := n.has(func(a *Address) bool { return a.Private == private })
	return nic
}

// private returns the address of a NAT in its Subnet; the zero address if it
// has no NIC.
func (n *Net) private(nat *Nat) netip.Addr {
	nic := n.nic(nat.Nic)
	if nic == nil || len(nic.Addresses) == 0 {
		return netip.Addr{}
	}
	return nic.Addresses[0].Private
}

// covers reports whether an address is in any of the ranges.
func covers(ranges []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(ip) })
}
