package driver

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// Flow is what somebody wants to send, as its first packet shows it.
type Flow struct {
	From, To Place
	Protocol string // tcp, udp, icmp, or a number of IANA's list
	Port     int    // the receiver's; of ICMP, the type
	Code     int    // of ICMP
}

// Place is where packets start and end: an address of a NIC, or one that is
// outside of the Nets.
type Place struct {
	Account, Net, Nic string // empty: outside
	// outside, the id of the virtual gateway of the account that it is behind; empty: on the
	// Internet
	Gateway string
	Address netip.Addr // of a sender in a Net, its private one
}

// Stop says what keeps a flow from its receiver.
type Stop struct {
	By  string // the id of the thing that stopped it; empty: nothing of the region
	Why string // a sentence
}

func (s *Stop) Error() string { return s.Why }

func stop(by, why string, args ...any) *Stop { return &Stop{By: by, Why: fmt.Sprintf(why, args...)} }

// Reach finds out whether a flow gets from its sender to its receiver in a
// driver that has the Nets, and the answer back. nil is yes; otherwise the error
// is a [*Stop]. The Nets are those of the sender and the receiver, and those
// peered with them: what is not given is not there.
//
// A flow follows the route tables, and passes the groups of the NICs at both
// ends and of those in between. The answer passes what the flow has passed
// without being asked again, but finds its way by the tables of the other side.
//
// It says what the region does, and believes the rest:
//   - A machine has all that its NICs are told, listens on every port, and
//     forwards what it is given as a next hop, unchanged and by the same NIC.
//     So one that translates addresses is not taken for what it is. It is asked
//     on the way there only, and minds no answer that takes another way.
//   - The Internet, and what is behind a virtual gateway, answer everybody from
//     wherever they are asked. Tunnels and dedicated links are not looked at,
//     nor is what they learn by BGP: only the routes that are listed count.
//   - Services of the region are where their ranges are, and answer everybody.
//   - The public Cloud, which is in no Net, is a part of the Internet.
//   - DHCP, name servers and the like, which each Subnet has by itself, are not
//     places.
func Reach(nets []Net, flow Flow) error {
	if _, known := protocol(flow.Protocol); !known {
		return stop("", "%q is no protocol that a packet can have", flow.Protocol)
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

// same reports whether two places are one, by whatever address.
func (p Place) same(q Place) bool {
	p.Address, q.Address = netip.Addr{}, netip.Addr{}
	if p.Gateway == "" && p.Nic == "" {
		p.Account, q.Account = "", "" // the Internet is nobody's
	}
	return p == q
}

// name is the id of the place, if it has one.
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

// String is what rules look at.
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

// protocol is the number of a protocol.
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

// lets reports whether a rule speaks of a flow, whoever is at its other end.
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

// find is a pointer to the first element that a function is true of, or nil.
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

// with is the address of the NIC that a function is true of, or nil.
func (n *Nic) with(is func(*Address) bool) *Address { return find(n.Addresses, is) }

// has is the NIC with an address that a function is true of, and the address;
// nil: there is none.
func (n *Net) has(is func(*Address) bool) (*Nic, *Address) {
	for i := range n.Nics {
		if a := n.Nics[i].with(is); a != nil {
			return &n.Nics[i], a
		}
	}
	return nil, nil
}

// at is the NIC that has a private address, or nil.
func (n *Net) at(private netip.Addr) *Nic {
	nic, _ := n.has(func(a *Address) bool { return a.Private == private })
	return nic
}

// private is the address of a NAT in its Subnet; none if it has no NIC.
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
