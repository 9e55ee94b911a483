package driver

import (
	"context"
	"net/netip"
	"time"
)

// Links manages the connections of virtual gateways: tunnels over the Internet
// and interfaces on dedicated links. Its methods keep the promises of
// [Networks], for two other kinds of values, and are safe for concurrent use.
// Observed values have no secrets, because no caller needs them.
type Links interface {
	EnsureTunnel(ctx context.Context, tunnel Tunnel) error
	RemoveTunnel(ctx context.Context, account, id string) error
	// ObserveTunnels lists the tunnels of this region that exist, with their
	// status.
	ObserveTunnels(ctx context.Context) ([]TunnelStatus, error)

	EnsureInterface(ctx context.Context, i Interface) error
	RemoveInterface(ctx context.Context, account, id string) error
	ObserveInterfaces(ctx context.Context) ([]Interface, error)
}

// Tunnel is an IPsec VPN connection between a virtual gateway and a gateway of
// the client.
type Tunnel struct {
	Account, ID string
	Generation  uint64

	Gateway string     // the id of the virtual gateway
	Net     string     // the id of the Net that the gateway is linked to; empty: none
	Local   netip.Addr // the public address of our end
	Remote  netip.Addr // the public address of the client's end
	// the range of the addresses inside the tunnel: the first is our end's, the
	// second the client's
	Inside       netip.Prefix
	LocalAsn     int64          // our autonomous system number in BGP
	RemoteAsn    int64          // the client's
	StaticOnly   bool           // only StaticRoutes count; otherwise BGP announces the routes
	StaticRoutes []netip.Prefix // the ranges behind the client's end

	Secret         string // the pre-shared key, disclosed to no other party
	Phase1, Phase2 Phase
	DpdAction      string // what to do when the other end is dead: clear, none or restart
	DpdTimeout     time.Duration
	StartUp        string // whether our end initiates (start) or waits for the client (add)
	IkeVersions    []string
	ReplayWindow   int // packets
}

// Key returns the name and generation of the tunnel.
func (t Tunnel) Key() Key { return Key{t.Account, t.ID, t.Generation} }

// Phase is the algorithms that one of the two phases of the key exchange may
// use, in order of preference.
type Phase struct {
	DhGroups    []int
	Encryptions []string
	Integrities []string
	Lifetime    time.Duration
}

// TunnelStatus is a tunnel as the driver has it, and its status.
type TunnelStatus struct {
	Tunnel
	Up     bool      // both ends have agreed on keys; false while it is being made
	Since  time.Time // when Up last changed, or when it was made if it has never been up
	Routes int       // number of routes accepted by BGP; 0 if it is down
}

// Interface is a virtual interface of a dedicated link: a VLAN with BGP on it.
type Interface struct {
	Account, ID string
	Generation  uint64

	Link, Location string // the id of the dedicated link, and its datacenter
	Vlan           int
	Mtu            int          // bytes
	Gateway        string       // the id of the virtual gateway
	Net            string       // the id of the Net that the gateway is linked to; empty: none
	Local, Remote  netip.Prefix // the address of each end, with the range of both
	LocalAsn       int64        // our autonomous system number in BGP
	RemoteAsn      int64        // the client's
	// the key of the BGP session, disclosed to no other party; empty: none
	Secret string
}

// Key returns the name and generation of the interface.
func (i Interface) Key() Key { return Key{i.Account, i.ID, i.Generation} }
