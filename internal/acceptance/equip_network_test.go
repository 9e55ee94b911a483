package acceptance

import (
	"maps"
)

// making calls an action and answers what is at a path of its answer.
type making func(path, action, format string, args ...any) string

// equipNetworks makes one of everything in networks. Most of it is in one Net,
// of 10.8.0.0/16; another one, of 10.7.0.0/16, has the gateways, and what is
// named id.Net is empty.
func (w *testRegion) equipNetworks(name string, made making, has belongings) {
	w.t.Helper()
	create := func(ipRange string) string { return made("Net.NetId", "CreateNet", `{"IpRange": %q}`, ipRange) }
	net, outer := create("10.8.0.0/16"), create("10.7.0.0/16")
	set := made("DhcpOptionsSet.DhcpOptionsSetId", "CreateDhcpOptions", `{"DomainName": "example.com"}`)
	made("", "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": %q}`, net, set)
	maps.Copy(has, belongings{
		"id.Net": create("10.9.0.0/16"), "network.DhcpOptionsChoice": set, ".ResourceIds": net,
		"FiltersNet.DhcpOptionsSetIds": set, "FiltersSubnet.NetIds": net,
	})
	w.equipGroups(name, net, made, has)
	w.equipNics(name, net, made, has)
	w.equipGateways(outer, made, has)
	w.equipDirectLinks(made, has)
	w.equipPeerings(net, made, has)
	w.equipRoutes(name, net, outer, made, has)
	made("", "CreateTags", `{"ResourceIds": [%q, %q, %q, %q, %q, %q, %q, %q], "Tags": [{"Key": "env", "Value": "test"}]}`,
		net, set, has["id.Subnet"], has["id.RouteTable"], has["id.InternetService"], has["id.NatService"], has["id.NetPeering"],
		has["id.NetAccessPoint"])
}

// equipGroups makes security groups: in the public Cloud one that nothing names,
// one with a rule and one that its rule names, and one in a Net, which names
// itself.
func (w *testRegion) equipGroups(name, net string, made making, has belongings) {
	group := func(net, name string) string {
		return made("SecurityGroup.SecurityGroupId", "CreateSecurityGroup", `{"NetId": %q, "SecurityGroupName": %q, "Description": "a group"}`,
			net, name)
	}
	member, ruled, idle, inNet := group("", name+"-web"), group("", name+"-db"), group("", name+"-idle"), group(net, name+"-web")
	made("", "CreateSecurityGroupRule", `{"SecurityGroupId": %q, "Flow": "Inbound", "Rules": [{"IpRanges": ["10.9.0.0/16"], `+
		`"SecurityGroupsMembers": [{"SecurityGroupId": %q}]}]}`, ruled, member)
	made("", "CreateSecurityGroupRule", `{"SecurityGroupId": %[1]q, "Flow": "Outbound", "SecurityGroupNameToLink": %[1]q}`, inNet)
	maps.Copy(has, belongings{
		"id.SecurityGroup": member,
		"FiltersSecurityGroup.OutboundRuleSecurityGroupIds":        inNet,
		"SecurityGroupsMember.SecurityGroupName":                   name + "-web",
		"CreateSecurityGroupRuleRequest.SecurityGroupNameToLink":   member,
		"DeleteSecurityGroupRuleRequest.SecurityGroupNameToUnlink": member,
		"DeleteSecurityGroupRuleRequest.SecurityGroupId":           ruled,
		"DeleteSecurityGroupRequest.SecurityGroupId":               idle,
		"DeleteSecurityGroupRequest.SecurityGroupName":             name + "-idle",
		"CreateNicRequest.SecurityGroupIds":                        inNet,
		"UpdateNicRequest.SecurityGroupIds":                        inNet,
		"FiltersNic.SecurityGroupIds":                              inNet,
	})
}

// equipNics makes in a Subnet, whose addresses begin with 10.8.0, VMs, one of
// them with a second NIC, a NIC that is free,
// and public IPs that are linked and that are not.
func (w *testRegion) equipNics(name, net string, made making, has belongings) {
	w.t.Helper()
	subnet := made("Subnet.SubnetId", "CreateSubnet", `{"NetId": %q, "IpRange": "10.8.0.0/24"}`, net)
	internet := made("InternetService.InternetServiceId", "CreateInternetService", `{}`)
	made("", "LinkInternetService", `{"InternetServiceId": %q, "NetId": %q}`, internet, net)
	w.equipVms(subnet, made, has)
	nic := func(ip string) string {
		w.t.Helper()
		return made("Nic.NicId", "CreateNic", `{"SubnetId": %q, "Description": "a card", "SecurityGroupIds": [%q],
			"PrivateIps": [{"IsPrimary": true, "PrivateIp": "%s0"}, {"PrivateIp": "%[3]s1"}]}`, subnet, has["CreateNicRequest.SecurityGroupIds"], ip)
	}
	free, linked := nic("10.8.0.11"), nic("10.8.0.12")
	address := func() (ip, ipID string) {
		ip = made("PublicIp.PublicIp", "CreatePublicIp", `{}`)
		return ip, made("PublicIps.0.PublicIpId", "ReadPublicIps", `{"Filters": {"PublicIps": [%q]}}`, ip)
	}
	spare, _ := address()
	_, unused := address()
	used, usedID := address()
	maps.Copy(has, belongings{
		"id.Subnet": subnet, "network.RouteGateway": internet,
		"DeleteSubnetRequest.SubnetId": made("Subnet.SubnetId", "CreateSubnet", `{"NetId": %q, "IpRange": "10.8.5.0/24"}`, net),
		"CreateNicRequest.SubnetId":    subnet, "FiltersNic.NetIds": net,

		"id.Nic": free, "UpdateNicRequest.NicId": linked, "FiltersPublicIp.NicIds": linked, "FiltersVm.NicNicIds": linked,
		"FiltersVm.NetIds": net, "FiltersVm.NicNetIds": net,
		"id.LinkNic": made("LinkNicId", "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, linked, has["id.Vm"]),

		"id.PublicIp":                        unused,
		"id.LinkPublicIp":                    made("LinkPublicIpId", "LinkPublicIp", `{"PublicIp": %q, "NicId": %q}`, used, linked),
		"FiltersNic.LinkPublicIpPublicIpIds": usedID, "FiltersVm.NicLinkPublicIpPublicIpIds": usedID, "UnlinkPublicIpRequest.PublicIp": used,
		"LinkPublicIpRequest.PublicIp": spare, "DeletePublicIpRequest.PublicIp": spare,
	})
}

// equipGateways makes gateways that nothing uses, and a VPN connection whose
// routes a route table takes over.
func (w *testRegion) equipGateways(net string, made making, has belongings) {
	gateway := func() string {
		return made("VirtualGateway.VirtualGatewayId", "CreateVirtualGateway", `{"ConnectionType": "ipsec.1"}`)
	}
	client := func(ip string) string {
		return made("ClientGateway.ClientGatewayId", "CreateClientGateway", `{"BgpAsn": 65000, "PublicIp": %q, "ConnectionType": "ipsec.1"}`, ip)
	}
	linked, used := gateway(), client("192.0.2.1")
	made("", "LinkVirtualGateway", `{"VirtualGatewayId": %q, "NetId": %q}`, linked, net)
	vpn := made("VpnConnection.VpnConnectionId", "CreateVpnConnection",
		`{"VirtualGatewayId": %q, "ClientGatewayId": %q, "ConnectionType": "ipsec.1", "StaticRoutesOnly": true}`, linked, used)
	made("", "CreateVpnConnectionRoute", `{"VpnConnectionId": %q, "DestinationIpRange": "10.77.0.0/16"}`, vpn)
	table := made("RouteTable.RouteTableId", "CreateRouteTable", `{"NetId": %q}`, net)
	made("", "UpdateRoutePropagation", `{"RouteTableId": %q, "VirtualGatewayId": %q, "Enable": true}`, table, linked)
	maps.Copy(has, belongings{
		"id.VirtualGateway": gateway(), "id.ClientGateway": client("192.0.2.2"), "id.VpnConnection": vpn,
		"FiltersVirtualGateway.LinkNetIds": net, "FiltersVpnConnection.VirtualGatewayIds": linked, "FiltersVpnConnection.ClientGatewayIds": used,
		"UnlinkVirtualGatewayRequest.NetId": net, "UnlinkVirtualGatewayRequest.VirtualGatewayId": linked,
		"UpdateRoutePropagationRequest.VirtualGatewayId": linked, "UpdateRoutePropagationRequest.RouteTableId": table,
	})
}

// equipDirectLinks makes a DirectLink with an interface, and one without.
func (w *testRegion) equipDirectLinks(made making, has belongings) {
	link := func() string {
		return made("DirectLink.DirectLinkId", "CreateDirectLink", `{"Bandwidth": "1Gbps", "DirectLinkName": "To Paris", "Location": "PAR1"}`)
	}
	used := link()
	maps.Copy(has, belongings{
		"id.DirectLink": used, "DeleteDirectLinkRequest.DirectLinkId": link(),
		"id.DirectLinkInterface": made("DirectLinkInterface.DirectLinkInterfaceId", "CreateDirectLinkInterface", `{"DirectLinkId": %q,
			"DirectLinkInterface": {"BgpAsn": 65000, "DirectLinkInterfaceName": "Paris", "VirtualGatewayId": %q, "Vlan": 101}}`,
			used, has["UnlinkVirtualGatewayRequest.VirtualGatewayId"]),
	})
}

// equipPeerings makes a request for a peering of two Nets, and an active peering
// of a third with one of them.
func (w *testRegion) equipPeerings(net string, made making, has belongings) {
	near, far := made("Net.NetId", "CreateNet", `{"IpRange": "10.5.0.0/16"}`), made("Net.NetId", "CreateNet", `{"IpRange": "10.6.0.0/16"}`)
	peer := func(source, accepter string) string {
		return made("NetPeering.NetPeeringId", "CreateNetPeering", `{"SourceNetId": %q, "AccepterNetId": %q}`, source, accepter)
	}
	active := peer(net, far)
	made("", "AcceptNetPeering", `{"NetPeeringId": %q}`, active)
	maps.Copy(has, belongings{
		"id.NetPeering": peer(near, far), "CreateNetPeeringRequest.AccepterNetId": far,
		"FiltersNetPeering.SourceNetNetIds": near, "FiltersNetPeering.AccepterNetNetIds": far,
		"CreateRouteRequest.NetPeeringId": active, "UpdateRouteRequest.NetPeeringId": active, "FiltersRouteTable.RouteNetPeeringIds": active,
	})
}

// equipRoutes makes in a Net what routes lead from and to, and ways to services.
func (w *testRegion) equipRoutes(name, net, outer string, made making, has belongings) {
	table := func() string {
		return made("RouteTable.RouteTableId", "CreateRouteTable", `{"NetId": %q}`, net)
	}
	subnet := func(ipRange string) string {
		return made("Subnet.SubnetId", "CreateSubnet", `{"NetId": %q, "IpRange": %q}`, net, ipRange)
	}
	internet := has["network.RouteGateway"]
	free, linked, busy := table(), table(), table()
	spare, public, empty := subnet("10.8.1.0/24"), subnet("10.8.2.0/24"), subnet("10.8.4.0/24")
	link := made("LinkRouteTableId", "LinkRouteTable", `{"RouteTableId": %q, "SubnetId": %q}`, linked, public)
	made("", "LinkRouteTable", `{"RouteTableId": %q, "SubnetId": %q}`, linked, empty)
	made("", "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", "GatewayId": %q}`, linked, internet)
	nat := made("NatService.NatServiceId", "CreateNatService", `{"SubnetId": %q, "PublicIpId": %q, "ClientToken": "token of %s"}`,
		public, made("PublicIp.PublicIpId", "CreatePublicIp", `{}`), name)
	for destination, target := range map[string]string{
		"0.0.0.0/0":       `"GatewayId": "` + internet + `"`,
		"192.0.2.0/24":    `"NatServiceId": "` + nat + `"`,
		"198.51.100.0/24": `"NetPeeringId": "` + has["CreateRouteRequest.NetPeeringId"] + `"`,
		"203.0.113.0/24":  `"NicId": "` + has["id.Nic"] + `"`,
		"10.99.0.0/16":    `"VmId": "` + has["CreateRouteRequest.VmId"] + `"`,
	} {
		made("", "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": %q, %s}`, busy, destination, target)
	}
	far, unlinked := made("InternetService.InternetServiceId", "CreateInternetService", `{}`),
		made("InternetService.InternetServiceId", "CreateInternetService", `{}`)
	made("", "LinkInternetService", `{"InternetServiceId": %q, "NetId": %q}`, far, outer)
	point := made("NetAccessPoint.NetAccessPointId", "CreateNetAccessPoint",
		`{"NetId": %q, "ServiceName": "com.outscale.eu-west-2.api", "RouteTableIds": [%q]}`, net, busy)
	maps.Copy(has, belongings{
		"id.RouteTable": free, "id.LinkRouteTable": link, "id.InternetService": unlinked, "id.NatService": nat, "id.NetAccessPoint": point,

		"FiltersRouteTable.RouteGatewayIds":   internet,
		"FiltersRouteTable.LinkRouteTableIds": linked,
		"FiltersRouteTable.LinkSubnetIds":     public,
		"FiltersRouteTable.NetIds":            net,
		"FiltersRouteTable.RouteVmIds":        has["CreateRouteRequest.VmId"],
		"LinkRouteTableRequest.SubnetId":      spare,
		"UpdateRouteRequest.RouteTableId":     busy,
		"UpdateRouteRequest.VmId":             has["CreateRouteRequest.VmId"],
		"DeleteRouteRequest.RouteTableId":     busy,

		"FiltersInternetService.LinkNetIds":              outer,
		"UnlinkInternetServiceRequest.InternetServiceId": far,
		"UnlinkInternetServiceRequest.NetId":             outer,

		"CreateNatServiceRequest.SubnetId": empty,
		"FiltersNatService.NetIds":         net,
		"FiltersNatService.SubnetIds":      public,

		"CreateNetAccessPointRequest.NetId":               net,
		"FiltersNetAccessPoint.NetIds":                    net,
		"UpdateNetAccessPointRequest.RemoveRouteTableIds": busy,
	})
}
