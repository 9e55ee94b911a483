package drivertest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// Networks tests a driver of Nets. open returns an empty driver, and a function
// that returns once the driver's clock shows at least the given time.
func Networks(t *testing.T, open func(t *testing.T) (drivers driver.Networks, until func(time.Time))) {
	run(t, func(t *testing.T) methods[driver.Net] {
		drivers, until := open(t)
		return methods[driver.Net]{drivers.EnsureNet, drivers.RemoveNet, drivers.ObserveNets, until}
	}, net, changedNet, func(n driver.Net) driver.Net { return n })
}

var prefix, addr = netip.MustParsePrefix, netip.MustParseAddr

// net returns a Net with every field set.
func net(key driver.Key) driver.Net {
	rule := driver.Rule{
		Protocol: "tcp", From: 443, To: 444,
		Ranges:   []netip.Prefix{prefix("192.0.2.0/24"), prefix("10.1.0.0/16")},
		Groups:   []driver.GroupName{{Account: alice, ID: "sg-00000001"}, {Account: bob, ID: "sg-00000003"}},
		Services: []string{"pl-00000001"},
	}
	return driver.Net{
		Account: key.Account, ID: key.ID, Generation: key.Generation,
		IpRange: prefix("10.0.0.0/16"),
		Dhcp: driver.DhcpOptions{
			DomainName:        "example.com",
			DomainNameServers: []string{"10.0.0.9", "OutscaleProvidedDNS"},
			LogServers:        []string{"10.0.0.10"},
			NtpServers:        []string{"10.0.0.12", "10.0.0.11"},
		},
		Subnets: []driver.Subnet{
			{ID: "subnet-00000001", IpRange: prefix("10.0.1.0/24"), Subregion: "region-a", RouteTable: "rtb-00000001"},
			{ID: "subnet-00000002", IpRange: prefix("10.0.2.0/24"), Subregion: "region-b", RouteTable: "rtb-00000002"},
		},
		RouteTables: []driver.RouteTable{
			{ID: "rtb-00000001", Propagates: true, Routes: []driver.Route{
				{Destination: prefix("10.0.0.0/16"), Target: driver.Local},
				{Destination: prefix("0.0.0.0/0"), Target: driver.ToInternet, ID: "igw-00000001"},
				{Destination: prefix("10.1.0.0/16"), Target: driver.ToPeering, ID: "pcx-00000001"},
				{Destination: prefix("192.168.0.0/16"), Target: driver.ToGateway, ID: "vgw-00000001"},
				{Destination: prefix("192.168.9.0/24"), Target: driver.Blackhole},
				{Service: "pl-00000001", Target: driver.ToAccessPoint, ID: "vpce-00000001"},
			}},
			{ID: "rtb-00000002", Routes: []driver.Route{
				{Destination: prefix("10.0.0.0/16"), Target: driver.Local},
				{Destination: prefix("0.0.0.0/0"), Target: driver.ToNat, ID: "nat-00000001"},
				{Destination: prefix("172.16.0.0/12"), Target: driver.ToNic, ID: "eni-00000001"},
			}},
		},
		SecurityGroups: []driver.SecurityGroup{
			{ID: "sg-00000001", Inbound: []driver.Rule{rule, {Protocol: "icmp", From: 8, To: -1, Ranges: []netip.Prefix{prefix("0.0.0.0/0")}}}},
			{ID: "sg-00000002", Outbound: []driver.Rule{{Protocol: "-1", From: -1, To: -1, Ranges: []netip.Prefix{prefix("0.0.0.0/0")}}}},
		},
		Nics: []driver.Nic{
			{
				ID: "eni-00000001", Subnet: "subnet-00000001", MAC: "aa:00:00:00:00:01", Machine: "i-00000001", Device: 1,
				Addresses: []driver.Address{
					{Private: addr("10.0.1.9"), Public: addr("198.51.100.9")},
					{Private: addr("10.0.1.5")},
				},
				SecurityGroups: []string{"sg-00000002", "sg-00000001"},
			},
			{
				ID: "eni-00000002", Subnet: "subnet-00000001", MAC: "aa:00:00:00:00:02", SourceDestCheck: true,
				Addresses: []driver.Address{{Private: addr("10.0.1.6")}},
			},
		},
		InternetService: "igw-00000001",
		VirtualGateway:  "vgw-00000001",
		Nats: []driver.Nat{{ID: "nat-00000001", Subnet: "subnet-00000001", Nic: "eni-00000002",
			Public: []netip.Addr{addr("198.51.100.6")}}},
		Peerings:     []driver.Peering{{ID: "pcx-00000001", Account: bob, Net: "vpc-00000009", IpRange: prefix("10.1.0.0/16")}},
		AccessPoints: []driver.AccessPoint{{ID: "vpce-00000001", Service: "pl-00000001"}},
		Services:     []driver.Service{{ID: "pl-00000001", Ranges: []netip.Prefix{prefix("203.0.113.0/28"), prefix("203.0.113.64/28")}}},
	}
}

// changedNet returns the next generation of a Net: some elements are added,
// some removed and the others changed.
func changedNet(n driver.Net) driver.Net {
	n.Generation++
	n.IpRange = prefix("10.0.0.0/20")
	n.Dhcp = driver.DhcpOptions{DomainName: "example.net", DomainNameServers: []string{"OutscaleProvidedDNS", "10.0.0.9"}}
	n.Subnets = []driver.Subnet{
		{ID: "subnet-00000002", IpRange: prefix("10.0.2.0/24"), Subregion: "region-b", RouteTable: "rtb-00000002"},
		{ID: "subnet-00000003", IpRange: prefix("10.0.3.0/24"), Subregion: "region-a", RouteTable: "rtb-00000002"},
	}
	n.RouteTables = []driver.RouteTable{{ID: "rtb-00000002", Propagates: true, Routes: []driver.Route{
		{Destination: prefix("10.0.0.0/20"), Target: driver.Local},
		{Destination: prefix("0.0.0.0/0"), Target: driver.ToInternet, ID: "igw-00000002"},
	}}}
	n.SecurityGroups = []driver.SecurityGroup{{ID: "sg-00000002", Inbound: []driver.Rule{
		{Protocol: "udp", From: 53, To: 53, Groups: []driver.GroupName{{Account: alice, ID: "sg-00000002"}}},
	}}}
	n.Nics = []driver.Nic{{
		ID: "eni-00000003", Subnet: "subnet-00000003", MAC: "aa:00:00:00:00:03", Machine: "i-00000001", SourceDestCheck: true,
		Addresses:      []driver.Address{{Private: addr("10.0.3.7"), Public: addr("198.51.100.6")}, {Private: addr("10.0.3.4")}},
		SecurityGroups: []string{"sg-00000002"},
	}}
	n.InternetService, n.VirtualGateway = "igw-00000002", ""
	n.Nats, n.Peerings, n.AccessPoints, n.Services = nil, nil, nil, nil
	return n
}
