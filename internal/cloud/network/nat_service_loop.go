package network

import (
	"net/netip"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func wantNatServices(tx *resource.Tx, n *Net, want *driver.Net) error {
	for nat := range NatServices.Of(tx, n.NetId) {
		wanted := driver.Nat{ID: string(nat.NatServiceId), Subnet: string(nat.SubnetId), Nic: string(nat.NicId)}
		for ip := range PublicIps.Of(tx, nat.NatServiceId) {
			public, err := netip.ParseAddr(string(ip.PublicIp))
			if err != nil {
				return err
			}
			wanted.Public = append(wanted.Public, public)
		}
		want.Nats = append(want.Nats, wanted)
	}
	return nil
}
