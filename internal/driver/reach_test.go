package driver_test

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// nets are the Nets of a test: one of alice, and one of bob that is peered
// with it.
//
//	one  10.0.0.0/16  internet service, NAT, virtual gateway, access point to pl
//	     public       web 10.0.1.5 (198.51.100.5), bare 10.0.1.6 without public IP
//	     private      db 10.0.2.5 and .6, by the NAT to the Internet, idle 10.0.2.9 linked to nothing
//	     fenced       guest 10.0.3.5, whose ways go through fw 10.0.1.9, a firewall
//	two  10.1.0.0/16  app 10.1.1.5
type nets struct{ one, two driver.Net }

const alice, bob = "000000000001", "000000000002"

var prefix, addr = netip.MustParsePrefix, netip.MustParseAddr

func to(destination string, target driver.Target, id string) driver.Route {
	return driver.Route{Destination: prefix(destination), Target: target, ID: id}
}

// rule is a rule such as "tcp 22-23 10.0.0.0/8 sg-db two/sg-app pl", in which
// only the protocol must be there.
func rule(words string) driver.Rule {
	fields := strings.Fields(words)
	r := driver.Rule{Protocol: fields[0], From: -1, To: -1}
	for _, word := range fields[1:] {
		account, group, far := strings.Cut(word, "/sg-")
		ports := strings.SplitN(word, "..", 2)
		switch {
		case far:
			r.Groups = append(r.Groups, driver.GroupName{Account: account, ID: "sg-" + group})
		case strings.HasPrefix(word, "pl"):
			r.Services = append(r.Services, word)
		case strings.Contains(word, "/"):
			r.Ranges = append(r.Ranges, prefix(word))
		default:
			r.From, r.To = number(ports[0]), number(ports[len(ports)-1])
		}
	}
	return r
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func group(id string, inbound ...string) driver.SecurityGroup {
	g := driver.SecurityGroup{ID: id, Outbound: []driver.Rule{rule("-1 0.0.0.0/0")}}
	for _, words := range inbound {
		g.Inbound = append(g.Inbound, rule(words))
	}
	return g
}

func nic(id, subnet, group string, addresses ...driver.Address) driver.Nic {
	return driver.Nic{
		ID: id, Subnet: subnet, Machine: "i-" + id, Addresses: addresses,
		SecurityGroups: []string{group}, SourceDestCheck: true,
	}
}

func at(private string) driver.Address { return driver.Address{Private: addr(private)} }

// sample is a driver in which much works.
func sample() *nets {
	one := driver.Net{
		Account: alice, ID: "one", IpRange: prefix("10.0.0.0/16"),
		InternetService: "igw", VirtualGateway: "vgw",
		Subnets: []driver.Subnet{
			{ID: "public", IpRange: prefix("10.0.1.0/24"), RouteTable: "rtb-public"},
			{ID: "private", IpRange: prefix("10.0.2.0/24"), RouteTable: "rtb-private"},
			{ID: "fenced", IpRange: prefix("10.0.3.0/24"), RouteTable: "rtb-fenced"},
		},
		RouteTables: []driver.RouteTable{
			{ID: "rtb-public", Routes: []driver.Route{
				to("10.0.0.0/16", driver.Local, ""),
				to("0.0.0.0/0", driver.ToInternet, "igw"),
				to("192.168.0.0/16", driver.ToGateway, "vgw"),
				to("10.1.0.0/16", driver.ToPeering, "pcx"),
			}},
			{ID: "rtb-private", Routes: []driver.Route{
				to("10.0.0.0/16", driver.Local, ""),
				to("0.0.0.0/0", driver.ToNat, "nat"),
				to("10.1.0.0/16", driver.ToPeering, "pcx"),
				{Service: "pl", Target: driver.ToAccessPoint, ID: "vpce"},
			}},
			{ID: "rtb-fenced", Routes: []driver.Route{
				to("10.0.0.0/16", driver.Local, ""),
				to("10.0.1.0/24", driver.ToNic, "fw"),
				to("10.0.2.0/24", driver.ToNic, "fw"),
				to("0.0.0.0/0", driver.ToNic, "fw"),
			}},
		},
		SecurityGroups: []driver.SecurityGroup{
			group("sg-web", "tcp 443 0.0.0.0/0", "tcp 22 192.168.0.0/16", "icmp 8..0 0.0.0.0/0", "tcp 80 "+alice+"/sg-db"),
			group("sg-db", "tcp 5432..5433 "+alice+"/sg-web", "udp 53 "+bob+"/sg-app", "tcp 80 10.0.3.0/24", "47 10.0.0.0/16"),
			group("sg-fw", "-1 10.0.3.0/24"),
			group("sg-guest"),
		},
		Nics: []driver.Nic{
			nic("web", "public", "sg-web", driver.Address{Private: addr("10.0.1.5"), Public: addr("198.51.100.5")}),
			nic("bare", "public", "sg-web", at("10.0.1.6")),
			nic("fw", "public", "sg-fw", driver.Address{Private: addr("10.0.1.9"), Public: addr("198.51.100.9")}),
			nic("nat-nic", "public", "sg-guest", at("10.0.1.7")),
			nic("db", "private", "sg-db", at("10.0.2.5"), at("10.0.2.6")),
			nic("idle", "private", "sg-db", at("10.0.2.9")),
			nic("guest", "fenced", "sg-guest", at("10.0.3.5")),
		},
		Nats:         []driver.Nat{{ID: "nat", Subnet: "public", Nic: "nat-nic", Public: []netip.Addr{addr("198.51.100.7")}}},
		Peerings:     []driver.Peering{{ID: "pcx", Account: bob, Net: "two", IpRange: prefix("10.1.0.0/16")}},
		AccessPoints: []driver.AccessPoint{{ID: "vpce", Service: "pl"}},
		Services:     []driver.Service{{ID: "pl", Ranges: []netip.Prefix{prefix("203.0.113.64/28")}}},
	}
	two := driver.Net{
		Account: bob, ID: "two", IpRange: prefix("10.1.0.0/16"),
		Subnets: []driver.Subnet{{ID: "apps", IpRange: prefix("10.1.1.0/24"), RouteTable: "rtb-two"}},
		RouteTables: []driver.RouteTable{{ID: "rtb-two", Routes: []driver.Route{
			to("10.1.0.0/16", driver.Local, ""),
			to("10.0.0.0/16", driver.ToPeering, "pcx"),
		}}},
		SecurityGroups: []driver.SecurityGroup{group("sg-app", "tcp 8080 10.0.2.0/24", "tcp 9090 "+alice+"/sg-web")},
		Nics:           []driver.Nic{nic("app", "apps", "sg-app", at("10.1.1.5"))},
		Peerings:       []driver.Peering{{ID: "pcx", Account: alice, Net: "one", IpRange: prefix("10.0.0.0/16")}},
	}
	n := &nets{one, two}
	for i, id := range []string{"fw", "nat-nic", "idle"} {
		n.nic(id).SourceDestCheck = i > 0
	}
	n.nic("nat-nic").Machine, n.nic("idle").Machine = "", ""
	return n
}

func (n *nets) all() []driver.Net { return []driver.Net{n.one, n.two} }

// pick is the element with a name; a test that names another panics.
func pick[E any](name func(*E) string, want string, lists ...[]E) *E {
	for _, list := range lists {
		for i := range list {
			if name(&list[i]) == want {
				return &list[i]
			}
		}
	}
	panic("the test has no " + want)
}

func (n *nets) nic(id string) *driver.Nic {
	return pick(func(nic *driver.Nic) string { return nic.ID }, id, n.one.Nics, n.two.Nics)
}

func (n *nets) subnet(id string) *driver.Subnet {
	return pick(func(s *driver.Subnet) string { return s.ID }, id, n.one.Subnets, n.two.Subnets)
}

func (n *nets) table(id string) *driver.RouteTable {
	return pick(func(t *driver.RouteTable) string { return t.ID }, id, n.one.RouteTables, n.two.RouteTables)
}

func (n *nets) group(id string) *driver.SecurityGroup {
	return pick(func(g *driver.SecurityGroup) string { return g.ID }, id, n.one.SecurityGroups, n.two.SecurityGroups)
}

// add adds a route to a table, and drop takes one away.
func (n *nets) add(table string, r driver.Route) {
	t := n.table(table)
	t.Routes = append(t.Routes, r)
}

func (n *nets) drop(table, destination string) {
	t := n.table(table)
	before := len(t.Routes)
	t.Routes = slices.DeleteFunc(t.Routes, func(r driver.Route) bool { return r.Service == "" && r.Destination == prefix(destination) })
	if len(t.Routes) == before {
		panic(table + " has no route to " + destination)
	}
}

// let adds an inbound rule to a group.
func (n *nets) let(group, words string) {
	g := n.group(group)
	g.Inbound = append(g.Inbound, rule(words))
}

// place is one of the places that tests write as "web" for the first address of
// a NIC, "web@198.51.100.5" for another one, "vgw@192.168.1.9" for one behind the
// gateway, and "203.0.113.9" for one on the Internet.
func (n *nets) place(words string) driver.Place {
	id, address, named := strings.Cut(words, "@")
	ip, err := netip.ParseAddr(words)
	switch {
	case err == nil:
		return driver.Place{Address: ip}
	case id == "vgw":
		return driver.Place{Account: alice, Gateway: id, Address: addr(address)}
	}
	at := driver.Place{Account: alice, Net: "one", Nic: id}
	if id == "app" {
		at.Account, at.Net = bob, "two"
	}
	if named {
		at.Address = addr(address)
	} else {
		at.Address = n.nic(id).Addresses[0].Private
	}
	return at
}

// flow is a flow such as "web > db tcp 5432".
func (n *nets) flow(words string) driver.Flow {
	fields := strings.Fields(words)
	f := driver.Flow{From: n.place(fields[0]), To: n.place(fields[2]), Protocol: fields[3]}
	for i, into := range []*int{&f.Port, &f.Code} {
		if len(fields) > 4+i {
			*into = number(fields[4+i])
		}
	}
	return f
}

func TestReach(t *testing.T) {
	t.Parallel()
	type cases []struct {
		name   string
		flow   string
		change func(*nets) // nil: none
		want   string      // what stops it; empty: nothing
	}
	const notBack = "the answer does not come back: "
	groups := map[string]cases{
		"rules": {
			{"a port that is open", "web > bare tcp 443", nil, ""},
			{"another port", "web > bare tcp 442", nil, "no inbound rule of sg-web lets tcp/442 from 10.0.1.5 in"},
			{"another protocol", "web > bare udp 443", nil, "no inbound rule of sg-web lets udp/443 from 10.0.1.5 in"},
			{"below a range of ports", "web > db tcp 5431", nil, "no inbound rule of sg-db lets tcp/5431 from 10.0.1.5 in"},
			{"the first of a range of ports", "web > db tcp 5432", nil, ""},
			{"the last of a range of ports", "web > db tcp 5433", nil, ""},
			{"above a range of ports", "web > db tcp 5434", nil, "no inbound rule of sg-db lets tcp/5434 from 10.0.1.5 in"},
			{"all ports", "web > guest tcp 65535", func(n *nets) { n.let("sg-guest", "tcp 10.0.1.0/24"); n.drop("rtb-fenced", "10.0.1.0/24") }, ""},
			{"all ports of another protocol", "web > guest udp 1",
				func(n *nets) { n.let("sg-guest", "tcp 10.0.1.0/24"); n.drop("rtb-fenced", "10.0.1.0/24") },
				"no inbound rule of sg-guest lets udp/1 from 10.0.1.5 in"},
			{"all protocols", "web > guest udp 1", func(n *nets) { n.let("sg-guest", "-1 10.0.1.0/24"); n.drop("rtb-fenced", "10.0.1.0/24") }, ""},
			{"all protocols, whose ports do not matter", "web > bare udp 1", func(n *nets) { n.let("sg-web", "-1 22..22 10.0.1.0/24") }, ""},
			{"a protocol without ports", "web > db 47", nil, ""},
			{"another one", "web > db 50", nil, "no inbound rule of sg-db lets protocol 50 from 10.0.1.5 in"},
			{"a number for a name", "web > bare 6 443", nil, ""},
			{"a number for a name, in a rule", "web > bare tcp 25", func(n *nets) { n.let("sg-web", "6 25 0.0.0.0/0") }, ""},
			{"a rule of no protocol", "web > bare tcp 25", func(n *nets) { n.let("sg-web", "256 0.0.0.0/0") },
				"no inbound rule of sg-web lets tcp/25 from 10.0.1.5 in"},
			{"the type and code of ICMP", "web > bare icmp 8 0", nil, ""},
			{"another type of ICMP", "web > bare icmp 0 0", nil, "no inbound rule of sg-web lets icmp of type 0 and code 0 from 10.0.1.5 in"},
			{"another code of ICMP", "web > bare icmp 8 1", nil, "no inbound rule of sg-web lets icmp of type 8 and code 1 from 10.0.1.5 in"},
			{"any code of ICMP", "web > bare icmp 3 4", func(n *nets) { n.let("sg-web", "icmp 3..-1 0.0.0.0/0") }, ""},
			{"all of ICMP", "web > bare icmp 3 4", func(n *nets) { n.let("sg-web", "icmp 0.0.0.0/0") }, ""},
			{"from a range", "vgw@192.168.1.9 > web tcp 22", nil, ""},
			{"from outside of a range", "bare > web tcp 22", nil, "no inbound rule of sg-web lets tcp/22 from 10.0.1.6 in"},
			{"to a range", "web > bare tcp 443", func(n *nets) { n.group("sg-web").Outbound = []driver.Rule{rule("tcp 443 10.0.1.0/24")} }, ""},
			{"to outside of a range", "web > bare tcp 443",
				func(n *nets) { n.group("sg-web").Outbound = []driver.Rule{rule("tcp 443 10.0.2.0/24")} },
				"no outbound rule of sg-web lets tcp/443 to 10.0.1.6 out"},
			{"from a group", "db > web tcp 80", nil, ""},
			{"from another group", "bare > web tcp 80", nil, "no inbound rule of sg-web lets tcp/80 from 10.0.1.6 in"},
			{"from a group of the same id, of another account", "db > web tcp 81", func(n *nets) { n.let("sg-web", "tcp 81 "+bob+"/sg-db") },
				"no inbound rule of sg-web lets tcp/81 from 10.0.2.5 in"},
			{"from a group, by a public IP", "db > web@198.51.100.5 tcp 80", nil, "no inbound rule of sg-web lets tcp/80 from 198.51.100.7 in"},
			{"to a group", "web > db tcp 5432", func(n *nets) { n.group("sg-web").Outbound = []driver.Rule{rule("tcp " + alice + "/sg-db")} }, ""},
			{"to another group", "web > bare tcp 443", func(n *nets) { n.group("sg-web").Outbound = []driver.Rule{rule("tcp " + alice + "/sg-db")} },
				"no outbound rule of sg-web lets tcp/443 to 10.0.1.6 out"},
			{"to a service", "db > 203.0.113.65 tcp 443", func(n *nets) { n.group("sg-db").Outbound = []driver.Rule{rule("tcp 443 pl")} }, ""},
			{"to outside of a service", "db > 203.0.113.80 tcp 443", func(n *nets) { n.group("sg-db").Outbound = []driver.Rule{rule("tcp 443 pl")} },
				"no outbound rule of sg-db lets tcp/443 to 203.0.113.80 out"},
			{"to a service that the Net does not know", "db > 203.0.113.65 tcp 443",
				func(n *nets) { n.group("sg-db").Outbound = []driver.Rule{rule("tcp 443 pl-2")} },
				"no outbound rule of sg-db lets tcp/443 to 203.0.113.65 out"},
			{"a NIC in two groups", "web > bare tcp 443", func(n *nets) { n.nic("bare").SecurityGroups = []string{"sg-guest", "sg-web"} }, ""},
			{"a NIC in two groups that say nothing", "web > bare tcp 1",
				func(n *nets) { n.nic("bare").SecurityGroups = []string{"sg-guest", "sg-web"} },
				"no inbound rule of sg-guest or sg-web lets tcp/1 from 10.0.1.5 in"},
			{"a receiver in no group", "web > bare tcp 443", func(n *nets) { n.nic("bare").SecurityGroups = nil },
				"bare is in no security group, so nothing is let in"},
			{"a sender in no group", "web > bare tcp 443", func(n *nets) { n.nic("web").SecurityGroups = nil },
				"web is in no security group, so nothing is let out"},
			{"a group that is gone", "web > bare tcp 443", func(n *nets) { n.nic("bare").SecurityGroups = []string{"sg-old"} },
				"no inbound rule of sg-old lets tcp/443 from 10.0.1.5 in"},
			{"an answer needs no rules", "web > db tcp 5432", func(n *nets) { n.group("sg-db").Outbound, n.group("sg-web").Inbound = nil, nil }, ""},
			{"what is no protocol", "web > db tcpp 5432", nil, `"tcpp" is not a protocol of packets`},
			{"all protocols at once", "web > db -1", nil, `"-1" is not a protocol of packets`},
			{"a protocol beyond the last", "web > db 256", nil, `"256" is not a protocol of packets`},
		},
		"inside a Net": {
			{"a machine and itself", "guest > guest tcp 1", nil, ""},
			{"a machine and its second address", "db > db@10.0.2.6 tcp 1", nil, ""},
			{"a second address", "web > db@10.0.2.6 tcp 5432", nil, ""},
			{"from a second address", "db@10.0.2.6 > web tcp 80", nil, ""},
			{"the same Subnet needs no route", "web > bare tcp 443", func(n *nets) { n.table("rtb-public").Routes = nil }, ""},
			{"another Subnet does", "web > db tcp 5432", func(n *nets) { n.table("rtb-public").Routes = nil },
				"rtb-public has no route to 10.0.2.5"},
			{"and for the answer", "web > db tcp 5432", func(n *nets) { n.table("rtb-private").Routes = nil },
				notBack + "rtb-private has no route to 10.0.1.5"},
			{"a Subnet without a table", "web > db tcp 5432", func(n *nets) { n.subnet("public").RouteTable = "" }, "public has no route table"},
			{"a Subnet that is gone", "web > db tcp 5432", func(n *nets) { n.nic("web").Subnet = "old" }, "one has no Subnet old"},
			{"an address that nobody has", "web > 10.0.2.77 tcp 443", nil, "no NIC in one has the address 10.0.2.77"},
			{"an address that somebody else has", "web > bare@10.0.2.5 tcp 5432", nil, "10.0.2.5 leads to db in one, not to bare in one"},
			{"to what is linked to no machine", "web > idle tcp 5432", nil, "idle, which has the address 10.0.2.9, is linked to no machine"},
			{"from what is linked to no machine", "idle > web tcp 443", nil, "idle is linked to no machine"},
			{"from an address that the sender does not have", "web@10.0.1.6 > db tcp 5432", nil, "web does not have the private address 10.0.1.6"},
			{"from the sender's public IP", "web@198.51.100.5 > db tcp 5432", nil, "web does not have the private address 198.51.100.5"},
			{"from a NIC that is not there", "old@10.0.1.5 > db tcp 5432", nil, "one has no NIC old"},
			{"from a Net that is not there", "app > db udp 53", func(n *nets) { n.two = driver.Net{} }, "account " + bob + " has no Net two"},
		},
		"the Internet": {
			{"out", "web > 203.0.113.9 tcp 443", nil, ""},
			{"out without a public IP", "bare > 203.0.113.9 tcp 443", nil, "10.0.1.6 has no public IP, so igw does not let it out"},
			{"out without a route", "web > 203.0.113.9 tcp 443", func(n *nets) { n.drop("rtb-public", "0.0.0.0/0") },
				"rtb-public has no route to 203.0.113.9"},
			{"out without an internet service", "web > 203.0.113.9 tcp 443", func(n *nets) { n.one.InternetService = "" },
				"the route of rtb-public to 0.0.0.0/0 leads to igw, which one does not have"},
			{"in", "203.0.113.9 > web@198.51.100.5 tcp 443", nil, ""},
			{"in, where no rule lets it", "203.0.113.9 > web@198.51.100.5 tcp 22", nil, "no inbound rule of sg-web lets tcp/22 from 203.0.113.9 in"},
			{"in to a private address", "203.0.113.9 > web tcp 443", nil, "the Internet does not lead to 10.0.1.5"},
			{"in to a public IP that nobody has", "203.0.113.9 > web@198.51.100.77 tcp 443", nil,
				"198.51.100.77 leads to the Internet, not to web in one"},
			{"in without an internet service", "203.0.113.9 > web@198.51.100.5 tcp 443", func(n *nets) { n.one.InternetService = "" },
				"198.51.100.5 is in one, which has no internet service"},
			{"in without a route for the answer", "203.0.113.9 > web@198.51.100.5 tcp 443", func(n *nets) { n.drop("rtb-public", "0.0.0.0/0") },
				notBack + "rtb-public has no route to 203.0.113.9"},
			{"in to a Subnet that is behind a NAT", "203.0.113.9 > db@198.51.100.6 tcp 25", func(n *nets) {
				n.nic("db").Addresses[0].Public = addr("198.51.100.6")
				n.let("sg-db", "tcp 25 0.0.0.0/0")
			}, notBack + "nat would replace the source address of the reply"},
			{"out and in again", "web > fw@198.51.100.9 tcp 443", func(n *nets) { n.let("sg-fw", "tcp 443 198.51.100.5/32") }, ""},
			{"in by a private address, back by the Internet", "bare > web tcp 443", func(n *nets) { n.drop("rtb-public", "10.0.0.0/16") }, ""},
			{"to a private range by the Internet", "web > db tcp 5432", func(n *nets) { n.drop("rtb-public", "10.0.0.0/16") },
				"the Internet does not lead to 10.0.2.5"},
			{"elsewhere", "203.0.113.9 > 203.0.113.10 tcp 443", nil, ""},
		},
		"NATs": {
			{"out", "db > 203.0.113.9 tcp 443", nil, ""},
			{"out, where no rule lets it", "db > 203.0.113.9 tcp 443", func(n *nets) { n.group("sg-db").Outbound = nil },
				"no outbound rule of sg-db lets tcp/443 to 203.0.113.9 out"},
			{"in", "203.0.113.9 > 198.51.100.7 tcp 443", nil, "198.51.100.7 is the address of nat, which only lets replies in"},
			{"in from the Net", "web > 10.0.1.7 tcp 443", nil, "10.0.1.7 is the address of nat, which only lets replies in"},
			{"out and in again", "db > web@198.51.100.5 tcp 443", nil, ""},
			{"in a Subnet without a way out", "db > 203.0.113.9 tcp 443", func(n *nets) { n.drop("rtb-public", "0.0.0.0/0") },
				"rtb-public has no route to 203.0.113.9"},
			{"in a Net without an internet service", "db > 203.0.113.9 tcp 443", func(n *nets) { n.one.InternetService = "" },
				"the route of rtb-public to 0.0.0.0/0 leads to igw, which one does not have"},
			{"in the Subnet that it is for", "db > 203.0.113.9 tcp 443", func(n *nets) { n.one.Nats[0].Subnet = "private" },
				"packets to 203.0.113.9 go round in circles through nat"},
			{"that is gone", "db > 203.0.113.9 tcp 443", func(n *nets) { n.one.Nats = nil },
				"the route of rtb-private to 0.0.0.0/0 leads to nat, which one does not have"},
			{"without a public IP", "db > 203.0.113.9 tcp 443", func(n *nets) { n.one.Nats[0].Public = nil },
				"10.0.1.7 has no public IP, so igw does not let it out"},
			{"without a NIC", "db > 203.0.113.9 tcp 443", func(n *nets) { n.one.Nats[0].Nic = "" }, "nat has no address in one"},
			{"on the way of an answer", "web > db tcp 5432", func(n *nets) { n.drop("rtb-private", "10.0.0.0/16") },
				notBack + "nat would replace the source address of the reply"},
			{"to a gateway", "db > vgw@192.168.1.9 tcp 443", nil, ""},
		},
		"routes": {
			{"a narrow one that leads nowhere", "db > 203.0.113.9 tcp 443",
				func(n *nets) { n.add("rtb-private", to("203.0.113.0/24", driver.Blackhole, "")) },
				"the route of rtb-private to 203.0.113.0/24 leads nowhere"},
			{"a narrower one that leads somewhere", "db > 203.0.113.9 tcp 443", func(n *nets) {
				n.add("rtb-private", to("203.0.113.0/24", driver.Blackhole, ""))
				n.add("rtb-private", to("203.0.113.9/32", driver.ToNat, "nat"))
			}, ""},
			{"a wide one that leads nowhere", "app > db udp 53", func(n *nets) { n.add("rtb-two", to("0.0.0.0/0", driver.Blackhole, "")) }, ""},
			{"their order does not matter", "db > 203.0.113.65 tcp 443", func(n *nets) { slices.Reverse(n.table("rtb-private").Routes) }, ""},
			{"a target that is none", "db > 203.0.113.9 tcp 443", func(n *nets) { n.table("rtb-private").Routes[1].Target = "" },
				"the route of rtb-private to 0.0.0.0/0 leads nowhere"},
		},
		"peerings": {
			{"to a range", "db > app tcp 8080", nil, ""},
			{"to another port", "db > app tcp 8081", nil, "no inbound rule of sg-app lets tcp/8081 from 10.0.2.5 in"},
			{"from a group of the other Net", "web > app tcp 9090", nil, ""},
			{"from another group of the other Net", "db > app tcp 9090", nil, "no inbound rule of sg-app lets tcp/9090 from 10.0.2.5 in"},
			{"the other way", "app > db udp 53", nil, ""},
			{"the other way, where no rule lets it", "app > db tcp 53", nil, "no inbound rule of sg-db lets tcp/53 from 10.1.1.5 in"},
			{"without a route", "app > db udp 53", func(n *nets) { n.drop("rtb-two", "10.0.0.0/16") }, "rtb-two has no route to 10.0.2.5"},
			{"without a route for the answer", "db > app tcp 8080", func(n *nets) { n.drop("rtb-two", "10.0.0.0/16") },
				notBack + "rtb-two has no route to 10.0.2.5"},
			{"with a wider route instead", "web > app tcp 9090", func(n *nets) { n.drop("rtb-public", "10.1.0.0/16") },
				"the Internet does not lead to 10.1.1.5"},
			{"from a NAT", "db > app tcp 8082", func(n *nets) { n.drop("rtb-private", "10.1.0.0/16"); n.let("sg-app", "tcp 8082 10.0.1.7/32") }, ""},
			{"that this side does not have", "db > app tcp 8080", func(n *nets) { n.one.Peerings = nil },
				"the route of rtb-private to 10.1.0.0/16 leads to pcx, which one does not have"},
			{"that the other side does not have", "db > app tcp 8080", func(n *nets) { n.two.Peerings = nil }, "pcx does not join one and two"},
			{"that joins the other side to another Net", "db > app tcp 8080", func(n *nets) { n.two.Peerings[0].Net = "three" },
				"pcx does not join one and two"},
			{"to a Net that is not there", "web > 10.1.1.5 tcp 9090", func(n *nets) { n.two = driver.Net{} }, "pcx does not join one and two"},
			{"to an address that nobody has", "web > 10.1.1.77 tcp 9090", nil, "no NIC in two has the address 10.1.1.77"},
			{"and on to the Internet", "app > 203.0.113.9 tcp 443", func(n *nets) { n.add("rtb-two", to("0.0.0.0/0", driver.ToPeering, "pcx")) },
				"pcx leads to what is in one only, and 203.0.113.9 is not"},
			{"and on to a gateway", "app > vgw@192.168.1.9 tcp 443",
				func(n *nets) { n.add("rtb-two", to("192.168.0.0/16", driver.ToPeering, "pcx")) },
				"pcx leads to what is in one only, and 192.168.1.9 is not"},
		},
		"virtual gateways": {
			{"out", "web > vgw@192.168.1.9 tcp 443", nil, ""},
			{"in", "vgw@192.168.1.9 > web tcp 443", nil, ""},
			{"in, where no rule lets it", "vgw@192.168.1.9 > web tcp 21", nil, "no inbound rule of sg-web lets tcp/21 from 192.168.1.9 in"},
			{"in without a route for the answer", "vgw@192.168.1.9 > web tcp 443", func(n *nets) { n.drop("rtb-public", "192.168.0.0/16") },
				notBack + "the Internet does not lead to 192.168.1.9"},
			{"in with an answer that goes elsewhere", "vgw@203.0.113.9 > web tcp 443", nil,
				notBack + "203.0.113.9 leads to the Internet, not to what is behind vgw"},
			{"that is not linked, out", "web > vgw@192.168.1.9 tcp 443", func(n *nets) { n.one.VirtualGateway = "" },
				"the route of rtb-public to 192.168.0.0/16 leads to vgw, which one does not have"},
			{"that is not linked, in", "vgw@192.168.1.9 > web tcp 443", func(n *nets) { n.one.VirtualGateway = "" }, "vgw is linked to no Net"},
			{"and on to the Internet", "vgw@192.168.1.9 > 203.0.113.9 tcp 443", nil, "vgw leads to what is in one only, and 203.0.113.9 is not"},
			{"of an address that is on the Internet", "web > vgw@203.0.113.9 tcp 443", nil,
				"203.0.113.9 leads to the Internet, not to what is behind vgw"},
		},
		"next hops": {
			{"through a machine", "guest > db tcp 80", nil, ""},
			{"through a machine that is checked", "guest > db tcp 80", func(n *nets) { n.nic("fw").SourceDestCheck = true },
				"fw forwards nothing, because its source and destination are checked"},
			{"to the machine itself, though it is checked", "guest > fw tcp 1", func(n *nets) { n.nic("fw").SourceDestCheck = true }, ""},
			{"through a NIC without a machine", "guest > db tcp 80", func(n *nets) { n.nic("fw").Machine = "" },
				"fw, to which a route leads, is linked to no machine"},
			{"through a NIC that is gone", "guest > db tcp 80", func(n *nets) { n.nic("fw").ID = "new" },
				"the route of rtb-fenced to 10.0.2.0/24 leads to fw, which one does not have"},
			{"where no rule lets it into the machine", "guest > db tcp 80", func(n *nets) { n.group("sg-fw").Inbound = nil },
				"no inbound rule of sg-fw lets tcp/80 from 10.0.3.5 in"},
			{"where no rule lets it out of the machine", "guest > db tcp 80", func(n *nets) { n.group("sg-fw").Outbound = nil },
				"no outbound rule of sg-fw lets tcp/80 to 10.0.2.5 out"},
			{"where no rule lets it into the receiver", "guest > db tcp 81", nil, "no inbound rule of sg-db lets tcp/81 from 10.0.3.5 in"},
			{"both ways", "db > guest tcp 80", func(n *nets) {
				n.add("rtb-private", to("10.0.3.0/24", driver.ToNic, "fw"))
				n.let("sg-fw", "tcp 80 10.0.2.0/24")
				n.let("sg-guest", "tcp 80 "+alice+"/sg-db")
			}, ""},
			{"on the way back only", "db > guest tcp 80", func(n *nets) { n.let("sg-guest", "tcp 80 10.0.2.0/24") },
				notBack + "fw is asked to forward a reply to a packet that it has not seen"},
			{"in circles", "guest > db tcp 80", func(n *nets) { n.add("rtb-public", to("10.0.2.0/24", driver.ToNic, "fw")) },
				"packets to 10.0.2.5 go round in circles through fw"},
			{"out without a public IP of the sender", "guest > 203.0.113.9 tcp 443", nil, "10.0.3.5 has no public IP, so igw does not let it out"},
			{"out under a public IP of the sender", "guest > 203.0.113.9 tcp 443",
				func(n *nets) { n.nic("guest").Addresses[0].Public = addr("198.51.100.3") }, ""},
			{"and on through a NAT", "guest > 203.0.113.9 tcp 443", func(n *nets) { n.nic("fw").Subnet = "private" }, ""},
		},
		"access points": {
			{"to a service", "db > 203.0.113.65 tcp 443", func(n *nets) { n.one.InternetService = "" }, ""},
			{"beside the service", "db > 203.0.113.80 tcp 443", func(n *nets) { n.one.InternetService = "" },
				"the route of rtb-public to 0.0.0.0/0 leads to igw, which one does not have"},
			{"that is gone", "db > 203.0.113.65 tcp 443", func(n *nets) { n.one.AccessPoints = nil },
				"the route of rtb-private to pl leads to vpce, which one does not have"},
			{"to a service that leads nowhere", "db > 203.0.113.65 tcp 443",
				func(n *nets) { n.table("rtb-private").Routes[3].Target = driver.Blackhole },
				"the route of rtb-private to pl leads nowhere"},
			{"beside a route that is as narrow", "db > 203.0.113.65 tcp 443",
				func(n *nets) { n.add("rtb-private", to("203.0.113.64/28", driver.Blackhole, "")) },
				"the route of rtb-private to 203.0.113.64/28 leads nowhere"},
			{"before a route that is as narrow", "db > 203.0.113.65 tcp 443", func(n *nets) {
				n.add("rtb-private", to("203.0.113.64/28", driver.Blackhole, ""))
				slices.Reverse(n.table("rtb-private").Routes)
			}, "the route of rtb-private to 203.0.113.64/28 leads nowhere"},
			{"to a service whose ranges are not known", "db > 203.0.113.65 tcp 443", func(n *nets) { n.one.Services, n.one.Nats = nil, nil },
				"the route of rtb-private to 0.0.0.0/0 leads to nat, which one does not have"},
		},
	}
	for of, cases := range groups {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					n := sample()
					flow := n.flow(c.flow)
					if c.change != nil {
						c.change(n)
					}
					err := driver.Reach(n.all(), flow)
					stop, stopped := errors.AsType[*driver.Stop](err)
					if !stopped {
						stop = new(driver.Stop)
					}
					if stop.Why != c.want || stopped != (err != nil) {
						t.Errorf("%s:\n got %q\nwant %q", c.flow, stop.Why, c.want)
					}
					nameless := strings.Contains(stop.Why, "the Internet") || strings.Contains(stop.Why, "not a protocol")
					if stopped && (stop.By == "" != nameless || !strings.Contains(stop.Why, stop.By)) {
						t.Errorf("%s: %q is said to stop it: %s", c.flow, stop.By, stop.Why)
					}
				})
			}
		})
	}
}

// An id names something in its account only.
func TestReachTellsAccountsApart(t *testing.T) {
	t.Parallel()
	n := sample()
	n.two.ID, n.two.VirtualGateway = n.one.ID, n.one.VirtualGateway
	n.one.Peerings[0].Net = n.two.ID
	for _, order := range [][]driver.Net{{n.one, n.two}, {n.two, n.one}} {
		there, back := n.flow("db > app tcp 8080"), n.flow("app > db udp 53")
		there.To.Net, back.From.Net = n.two.ID, n.two.ID
		for _, flow := range []driver.Flow{there, back, n.flow("vgw@192.168.1.9 > web tcp 22")} {
			if err := driver.Reach(order, flow); err != nil {
				t.Errorf("%+v: %v", flow, err)
			}
		}
	}
	out := n.flow("web > 203.0.113.9 tcp 443")
	out.To.Account = bob
	if err := driver.Reach(n.all(), out); err != nil {
		t.Errorf("the Internet is everybody's: %v", err)
	}
}
