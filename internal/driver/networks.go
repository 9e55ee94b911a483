package driver

import (
	"context"
	"net/netip"
)

// Networks keeps the Nets of a region in the driver. It may be called from many
// goroutines at once.
type Networks interface {
	// EnsureNet makes the driver have the Net as it is given, whatever it had
	// before, and returns nil once it does. It may be called again with the
	// same value at any time. It answers [Later] while a change is under way,
	// and [ErrStale] to a generation below the newest it was asked for since
	// it had none.
	EnsureNet(ctx context.Context, net Net) error

	// RemoveNet makes the driver have no such Net, and returns nil once it has
	// none, be it that there never was one. It answers [Later] while the
	// removal is under way.
	RemoveNet(ctx context.Context, account, id string) error

	// ObserveNets lists the Nets of this region's making that the driver has,
	// as it has them now, in any order. One that is only being made is among
	// them, with what there is of it so far, if only its name. The driver is
	// asked and not a memory of what was done to it: this is how a region
	// finds what a crash made it forget.
	ObserveNets(ctx context.Context) ([]Net, error)
}

// Net is a private network with all that is in it. Lists are in any order
// unless said otherwise.
type Net struct {
	Account, ID string // together they name the Net: an id is unique in its account

	// Generation grows with each change of the Net. The same generation is the
	// same value.
	Generation uint64

	IpRange         netip.Prefix
	Dhcp            DhcpOptions
	Subnets         []Subnet // no two of them overlap
	RouteTables     []RouteTable
	SecurityGroups  []SecurityGroup
	Nics            []Nic
	InternetService string // the id of the way to the Internet; empty: there is none
	// the id of the gateway to tunnels and DirectLink interfaces; empty: there is none
	VirtualGateway string
	Nats           []Nat
	Peerings       []Peering // the active ones
	AccessPoints   []AccessPoint
	Services       []Service // those of the region that rules, routes and access points name
}

// Key says which Net it is, and how new.
func (n Net) Key() Key { return Key{n.Account, n.ID, n.Generation} }

// Subnet is a part of the range of a Net, in one Subregion. What is in one
// Subnet reaches each other whatever the table says.
type Subnet struct {
	ID         string
	IpRange    netip.Prefix
	Subregion  string
	RouteTable string // the id of the table that routes what leaves the Subnet
}

// DhcpOptions is what machines in a Net are told when they ask for an address.
type DhcpOptions struct {
	DomainName        string
	DomainNameServers []string // addresses, or OutscaleProvidedDNS for the region's own
	LogServers        []string // addresses
	NtpServers        []string // addresses
}

// RouteTable says where packets go. The route with the longest matching prefix
// counts, and of two as long the one with a destination rather than that with a
// service; what no route matches is dropped. Routes that lead nowhere are among
// them, with the target [Blackhole], since they hide wider ones.
type RouteTable struct {
	ID     string
	Routes []Route // no two of them have the same destination or service

	// Propagates is whether the table takes over what the virtual gateway
	// learns by BGP, where none of its routes has the same destination.
	Propagates bool
}

// Route is an entry of a table. It has a destination or a service.
type Route struct {
	Destination netip.Prefix
	Service     string // the id of a service, to all of whose ranges it leads
	Target      Target
	ID          string // of what the target is; empty for local and blackhole
}

// Target is what a route leads to.
type Target string

// The targets of routes.
const (
	Local         Target = "local"            // the Net itself
	Blackhole     Target = "blackhole"        // nothing: packets are dropped
	ToInternet    Target = "internet service" // for NICs with a public IP
	ToNat         Target = "nat service"
	ToPeering     Target = "net peering"
	ToGateway     Target = "virtual gateway"
	ToNic         Target = "nic"
	ToAccessPoint Target = "net access point"
)

// SecurityGroup filters what the NICs that are in it receive and send. A NIC in
// several groups may do what any of them lets it, and one in none may do
// nothing. Answers to what was let through are let through.
type SecurityGroup struct {
	ID                string
	Inbound, Outbound []Rule
}

// Rule lets some packets through: of one protocol, between some ports, from or
// to any of the ranges, groups and services.
type Rule struct {
	Protocol string // tcp, udp, icmp, a number of IANA's list, or -1 for all
	From, To int    // ports, both included; of ICMP, type and code; -1 for all
	Ranges   []netip.Prefix
	Groups   []GroupName
	Services []string // their ids
}

// GroupName names a security group of the Net or of one that is peered, perhaps
// of another account, or one of the public Cloud. It stands for the private
// addresses of the NICs that are in it. Those of a peered Net are told with that
// Net: when they change, its generation grows and that of this Net does not.
type GroupName struct {
	Account, ID string
	Name        string // of a group of the public Cloud, of another account, that has no ID here
}

// Nic is a network interface card in a Subnet.
type Nic struct {
	ID, Subnet      string
	MAC             string
	Machine         string    // the id of the VM that it is linked to; empty: none
	Device          int       // its number there
	Addresses       []Address // the first is the primary one
	SecurityGroups  []string
	SourceDestCheck bool // it only receives and sends what is addressed to or by it
}

// Address is a private address of a NIC, and the public one that stands for it
// on the Internet, if one does.
type Address struct{ Private, Public netip.Addr }

// Nat lets NICs without a public IP reach the Internet, under its own. Groups
// do not filter what passes it.
type Nat struct {
	ID, Subnet string
	Nic        string // the id of the one of the Net's NICs that has its private address
	Public     []netip.Addr
}

// Peering joins the Net to another one, perhaps of another account.
type Peering struct {
	ID           string
	Account, Net string       // the other
	IpRange      netip.Prefix // of the other
}

// AccessPoint leads to a service of the region without the Internet.
type AccessPoint struct{ ID, Service string }

// Service is a service of the region, such as its API.
type Service struct {
	ID     string
	Ranges []netip.Prefix // where it is
}
