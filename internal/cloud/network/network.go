// Package network has the families of private networks: Nets and the Subnets
// that divide them, what is connected to them and how it is addressed, routed
// and filtered, and the gateways that lead to other Nets and to the outside.
//
// Rules say what there shall be and answer at once. [NewNetLoop] brings it to the
// driver afterwards, each Net with all that is in it as one value: a rule that
// changes anything in a Net ends with [touch].
package network

import (
	"iter"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Region is what the rules must know of the region they are in.
type Region struct {
	Name       string
	Domain     string     // that public DNS names end in
	Subregions []string   // their names; the first is used where a caller names none
	Locations  []string   // the codes of the datacenters where dedicated links can end
	PublicIps  []api.CIDR // where public IPs come from

	// Transition is about how long a change of state takes. What the real service
	// does some time after a change, the region does in proportion to it.
	Transition time.Duration
}

// Kinds are the kinds of the package.
func Kinds() []resource.Any {
	return []resource.Any{
		DhcpOptionsSets, Nets, Subnets,
		RouteTables, InternetServices, NatServices,
		Nics, PublicIps, takenAddresses,
		SecurityGroups,
		NetPeerings, NetAccessPoints,
		VirtualGateways, ClientGateways, VpnConnections,
		DirectLinks, Interfaces,
		accountRegister,
	}
}

// Lives are the lives of what is a part of a resource, by name. The other lives are
// those of kinds.
func Lives() map[string]lifecycle.Life {
	return map[string]lifecycle.Life{
		"Link of a Nic to a VM":             nicLinkLife,
		"Link of a VirtualGateway to a Net": gatewayLinkLife,
		"Static route of a VpnConnection":   vpnRouteLife,
	}
}

// Actions are the actions of the package in a region.
func Actions(region Region) []api.Action {
	return slices.Concat(
		netActions(), subnetActions(region), dhcpOptionActions(region),
		nicActions(region), publicIpActions(region),
		securityGroupActions(region), securityGroupRuleActions(region),
		routeTableActions(), routeActions(), internetServiceActions(), natServiceActions(),
		netAccessPointActions(region), netPeeringActions(),
		virtualGatewayActions(), clientGatewayActions(), vpnConnectionActions(region),
		directLinkActions(region), directLinkInterfaceActions(),
	)
}

// Welcome gives a new account, the one the transaction is in, what every
// account has from the beginning: its default DHCP options set, and its default
// security group for the public Cloud. Other accounts can then name it.
func Welcome(tx *resource.Tx, region Region) error {
	if err := registerAccount(tx); err != nil {
		return err
	}
	if err := DhcpOptionsSets.Insert(tx, region.defaultDhcpOptions()); err != nil {
		return err
	}
	return insertDefaultGroup(tx, "")
}

// Meters read the use of the quotas that do not count the resources of a kind.
func Meters() []resource.Meter {
	return slices.Concat(nicMeters(), publicIpMeters(), routeMeters(), securityGroupMeters(), netPeeringMeters(), vpnMeters())
}

// first is the first of those found, or nil.
func first[T any](found iter.Seq[*T]) *T {
	for v := range found {
		return v
	}
	return nil
}

// unused makes an identifier that is not in use.
func unused[I resource.ID](tx *resource.Tx, used func(value string) bool) I {
	var form I
	for {
		if value := form.Form().Random(tx.Rand()); !used(value) {
			return I(value)
		}
	}
}
