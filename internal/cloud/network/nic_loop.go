package network

import (
	"net/netip"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func wantNics(tx *resource.Tx, net *Net, want *driver.Net) error {
	for n := range Nics.Where(tx, "NetId", string(net.NetId)) {
		nic := driver.Nic{ID: string(n.NicId), Subnet: string(n.SubnetId), MAC: n.MacAddress, SourceDestCheck: n.IsSourceDestChecked}
		if n.LinkNic != nil {
			nic.Machine, nic.Device = string(n.LinkNic.VmId), n.LinkNic.DeviceNumber
		}
		for _, g := range n.SecurityGroups {
			nic.SecurityGroups = append(nic.SecurityGroups, string(g.SecurityGroupId))
		}
		public := map[api.IPv4]netip.Addr{}
		for ip := range PublicIps.Where(tx, "NicId", string(n.NicId)) {
			public[ip.PrivateIp] = addrOf(ip.PublicIp)
		}
		for _, ip := range n.addresses() {
			nic.Addresses = append(nic.Addresses, driver.Address{Private: addrOf(ip), Public: public[ip]})
		}
		want.Nics = append(want.Nics, nic)
	}
	return nil
}

// addrOf is an address as drivers have it.
func addrOf(ip api.IPv4) netip.Addr { return netip.MustParseAddr(string(ip)) }
