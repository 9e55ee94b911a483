// Package network has the families of private networks: Nets, the Subnets that
// divide them, and the DHCP options that machines in them are told.
//
// Rules say what there shall be and answer at once. [NetLoop] brings it to the
// world afterwards, each Net with all that is in it as one value.
package network

import (
	"net/netip"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// Region is what the rules must know of the region they are in.
type Region struct {
	Name       string
	Subregions []string // their names; the first is used where a caller names none
}

// Kinds are the kinds of the package.
func Kinds() []kind.Any { return []kind.Any{DhcpOptionsSets, Nets, Subnets} }

// Actions are the actions of the package in a region.
func Actions(region Region) []api.Action {
	return slices.Concat(netActions(), subnetActions(region), dhcpOptionActions(region))
}

// Welcome gives a new account, the one the transaction is in, what every
// account has from the beginning: its default DHCP options set.
func Welcome(tx *kind.Tx, region Region) error {
	return DhcpOptionsSets.Insert(tx, region.defaultDhcpOptions())
}

// within reports whether all addresses of a range are in another.
func within(inner, outer netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
