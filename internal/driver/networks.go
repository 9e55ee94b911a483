package driver

import (
	"context"
	"net/netip"
)

// Networks keeps the Nets of a region in the world. It may be called from many
// goroutines at once.
type Networks interface {
	// EnsureNet makes the world have the Net as it is given, whatever it had
	// before, and returns nil once it does. It may be called again with the
	// same value at any time. It answers [Later] while a change is under way,
	// and [ErrStale] to a generation below the newest it was asked for.
	EnsureNet(ctx context.Context, net Net) error

	// RemoveNet makes the world have no such Net, and returns nil once it has
	// none, be it that there never was one. It answers [Later] while the
	// removal is under way.
	RemoveNet(ctx context.Context, account, id string) error

	// ObserveNets lists the Nets of this region's making that the world has,
	// as it has them now, in any order. One that is only being made is among
	// them, with what there is of it so far, if only its name. The world is
	// asked and not a memory of what was done to it: this is how a region
	// finds what a crash made it forget.
	ObserveNets(ctx context.Context) ([]Net, error)
}

// Net is a private network with all that is in it.
type Net struct {
	Account, ID string // together they name the Net: an id is unique in its account

	// Generation grows with each change of the Net. The same generation is the
	// same value.
	Generation uint64

	IpRange netip.Prefix
	Subnets []Subnet // no two of them overlap; in any order
	Dhcp    DhcpOptions
}

// Subnet is a part of the range of a Net, in one Subregion.
type Subnet struct {
	ID        string
	IpRange   netip.Prefix
	Subregion string
}

// DhcpOptions is what machines in a Net are told when they ask for an address.
type DhcpOptions struct {
	DomainName        string
	DomainNameServers []string // addresses, or OutscaleProvidedDNS for the region's own
	LogServers        []string // addresses
	NtpServers        []string // addresses
}
