package network

import (
	"cmp"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func wantSubnets(tx *resource.Tx, n *Net, want *driver.Net) error {
	main, linked := "", map[id.Subnet]string{}
	for t := range RouteTables.Of(tx, n.NetId) {
		for _, link := range t.LinkRouteTables {
			if link.Main {
				main = string(t.RouteTableId)
			} else {
				linked[link.SubnetId] = string(t.RouteTableId)
			}
		}
	}
	for s := range Subnets.Of(tx, n.NetId) {
		want.Subnets = append(want.Subnets, driver.Subnet{
			ID: string(s.SubnetId), IpRange: s.IpRange.Prefix(), Subregion: s.SubregionName, RouteTable: cmp.Or(linked[s.SubnetId], main),
		})
	}
	return nil
}
