package driver

import (
	"context"
	"net/netip"
	"time"
)

// Links keeps the connections of virtual gateways to the outside in the driver:
// tunnels over the Internet and interfaces on dedicated links. What it promises
// is what [Networks] promises, for values of two more kinds. It may be called
// from many goroutines at once. What is observed has no secrets, since nobody
// needs them back.
type Links interface {
	EnsureTunnel(ctx context.Context, tunnel Tunnel) error
	RemoveTunnel(ctx context.Context, account, id string) error
	// ObserveTunnels lists the tunnels of this region's making that the driver
	// has, with how each is doing.
	ObserveTunnels(ctx context.Context) ([]TunnelStatus, error)

	EnsureInterface(ctx context.Context, i Interface) error
	RemoveInterface(ctx context.Context, account, id string) error
	ObserveInterfaces(ctx context.Context) ([]Interface, error)
}

// Tunnel is a VPN connection between a virtual gateway and a gateway of the
// client, by IPsec.
type Tunnel struct {
	Account, ID string
	Generation  uint64

	Gateway string     // the id of the virtual gateway
	Net     string     // the id of the Net that the gateway is linked to; empty: none
	Local   netip.Addr // the public address of our end
	Remote  netip.Addr // the public address of the client's end
	// the range of the addresses of both ends inside the tunnel; ours is the first, the
	// client's the second
	Inside       netip.Prefix
	LocalAsn     int64          // our autonomous system number in BGP
	RemoteAsn    int64          // the client's
	StaticOnly   bool           // routes are those of the list; otherwise BGP announces them
	StaticRoutes []netip.Prefix // what is behind the client's end

	Secret         string // the pre-shared key: nobody else may learn it
	Phase1, Phase2 Phase
	DpdAction      string // what to do when the other end is dead: clear, none or restart
	DpdTimeout     time.Duration
	StartUp        string // whether we begin (start) or wait for the client (add)
	IkeVersions    []string
	ReplayWindow   int // packets
}

// Key says which tunnel it is, and how new.
func (t Tunnel) Key() Key { return Key{t.Account, t.ID, t.Generation} }

// Phase is what one of the two phases of the key exchange may use, in order of
// preference.
type Phase struct {
	DhGroups    []int
	Encryptions []string
	Integrities []string
	Lifetime    time.Duration
}

// TunnelStatus is a tunnel as the driver has it, and how it is doing.
type TunnelStatus struct {
	Tunnel
	Up     bool      // both ends have agreed on keys; one that is only being made is down
	Since  time.Time // when it came up, or went down, or was made if it never was up
	Routes int       // how many routes BGP has accepted; 0 if it is down
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
	// the key of the BGP session; empty: none. Nobody else may learn it.
	Secret string
}

// Key says which interface it is, and how new.
func (i Interface) Key() Key { return Key{i.Account, i.ID, i.Generation} }
