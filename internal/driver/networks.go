package driver

import (
	"context"
	"net/netip"
)

// Networks manages the Nets of a region. Its methods are safe for concurrent
// use.
type Networks interface {
	// EnsureNet applies the Net, whatever there was before, and returns nil
	// once it is applied. It may be called again with the same value at any
	// time. It returns [Later] while a change is under way, and [ErrStale] for
	// a generation below the newest one that it was called with since the Net
	// was last removed.
	EnsureNet(ctx context.Context, net Net) error

	// RemoveNet removes the Net, and returns nil once it is gone, or if there
	// never was one. It returns [Later] while the removal is under way.
	RemoveNet(ctx context.Context, account, id string) error

	// ObserveNets lists the Nets of this region that exist, as they are now, in
	// any order. A Net that is being made is listed with what exists of it so
	// far, if only its name. The list comes from the infrastructure and not
	// from a record of earlier calls, so that a region finds what it lost in a
	// crash.
	ObserveNets(ctx context.Context) ([]Net, error)
}

// Net is a private network with everything in it. Lists are in any order unless
// said otherwise.
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
	InternetService string // the ID of its internet service; empty: none
	// the ID of its gateway to tunnels and DirectLink interfaces; empty: none
	VirtualGateway string
	Nats           []Nat
	Peerings       []Peering // the active ones
	AccessPoints   []AccessPoint
	Services       []Service // the region's services that its rules, routes and access points name
}

// Key returns the name and generation of the Net.
func (n Net) Key() Key { return Key{n.Account, n.ID, n.Generation} }

// Subnet is a part of the range of a Net, in one Subregion. NICs in one Subnet
// reach each other whatever the route table says.
type Subnet struct {
	ID         string
	IpRange    netip.Prefix
	Subregion  string
	RouteTable string // the ID of the table that routes packets out of the Subnet
}

// DhcpOptions is what the DHCP server of a Net sends to machines.
type DhcpOptions struct {
	DomainName        string
	DomainNameServers []string // addresses, or OutscaleProvidedDNS for the region's own
	LogServers        []string // addresses
	NtpServers        []string // addresses
}

// RouteTable routes packets. The route with the longest matching prefix
// applies, and of two equally long ones the one with a destination rather than
// a service; packets that no route matches are dropped. Routes that lead
// nowhere are included, with the target [Blackhole], because they hide wider
// ones.
type RouteTable struct {
	ID     string
	Routes []Route // no two of them have the same destination or service

	// Propagates adds the routes that the virtual gateway learns by BGP, except
	// those for the destination of a listed route.
	Propagates bool
}

// Route is an entry of a route table. It has either a Destination or a Service.
type Route struct {
	Destination netip.Prefix
	Service     string // the ID of a service, whose ranges are the destinations
	Target      Target
	ID          string // the ID of the target; empty for local and blackhole
}

// Target is the kind of target of a route.
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

// SecurityGroup filters the packets that its NICs receive and send. A NIC in
// several groups may do what any of them allows, and a NIC in none may do
// nothing. Replies to permitted packets are permitted.
type SecurityGroup struct {
	ID                string
	Inbound, Outbound []Rule
}

// Rule permits packets: of one protocol, in a range of ports, from or to any of
// the ranges, groups and services.
type Rule struct {
	Protocol string // tcp, udp, icmp, an IANA protocol number, or -1 for all
	From, To int    // ports, both included; of ICMP, type and code; -1 for all
	Ranges   []netip.Prefix
	Groups   []GroupName
	Services []string // their ids
}

// GroupName names a security group of the Net or of a peered one, perhaps of
// another account, or of the public Cloud. It stands for the private addresses
// of the group's NICs. The addresses of a peered Net's NICs are part of that
// Net: when they change, its generation grows and the generation of this Net
// does not.
type GroupName struct {
	Account, ID string
	Name        string // instead of ID, for a group of another account in the public Cloud
}

// Nic is a network interface card in a Subnet.
type Nic struct {
	ID, Subnet      string
	MAC             string
	Machine         string    // the ID of the VM that it is linked to; empty: none
	Device          int       // its device number in the VM
	Addresses       []Address // the first is the primary one
	SecurityGroups  []string
	SourceDestCheck bool // it only receives and sends packets with its own address
}

// Address is a private address of a NIC, and the public address that stands for
// it on the Internet, if any.
type Address struct{ Private, Public netip.Addr }

// Nat lets NICs without a public IP reach the Internet, under its own address.
// Security groups do not filter its traffic.
type Nat struct {
	ID, Subnet string
	Nic        string // the ID of the NIC that has its private address
	Public     []netip.Addr
}

// Peering joins the Net to another one, perhaps of another account.
type Peering struct {
	ID           string
	Account, Net string       // of the other Net
	IpRange      netip.Prefix // of the other
}

// AccessPoint leads to a service of the region without the Internet.
type AccessPoint struct{ ID, Service string }

// Service is a service of the region, such as its API.
type Service struct {
	ID     string
	Ranges []netip.Prefix // its addresses
}
