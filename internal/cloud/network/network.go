// Package network has the families of private networks: Nets and the Subnets
// that divide them, what is connected to them and how it is addressed, routed
// and filtered, and the gateways that lead to other Nets and to the outside.
//
// Rules say what there shall be and answer at once. [NetLoop] brings it to the
// world afterwards, each Net with all that is in it as one value: a rule that
// changes anything in a Net ends with [touch].
package network

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// Region is what the rules must know of the region they are in.
type Region struct {
	Name       string
	Domain     string     // that public DNS names end in
	Subregions []string   // their names; the first is used where a caller names none
	Locations  []string   // the codes of the datacenters where dedicated links can end
	PublicIps  []api.CIDR // where public IPs come from
}

// Kinds are the kinds of the package.
func Kinds() []kind.Any {
	return []kind.Any{
		DhcpOptionsSets, Nets, Subnets,
		RouteTables, InternetServices, NatServices,
		Nics, PublicIps, pool,
		SecurityGroups,
		NetPeerings, NetAccessPoints,
		VirtualGateways, ClientGateways, VpnConnections,
	}
}

// Actions are the actions of the package in a region.
func Actions(region Region) []api.Action {
	return slices.Concat(
		netActions(), subnetActions(region), dhcpOptionActions(region),
		virtualGatewayActions(), clientGatewayActions(), vpnConnectionActions(region),
	)
}

// Welcome gives a new account, the one the transaction is in, what every
// account has from the beginning: its default DHCP options set.
func Welcome(tx *kind.Tx, region Region) error {
	return DhcpOptionsSets.Insert(tx, region.defaultDhcpOptions())
}

// Meters read the use of the quotas that do not count the resources of a kind.
func Meters() []kind.Meter { return vpnMeters() }
