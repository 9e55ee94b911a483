package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/outscale/osc-sdk-go/v3/pkg/osc"
)

// TestThreeTiers builds what a company builds first, with the Go SDK: a Net with
// a public, a private and a data Subnet, the ways in and out of them, a second
// Net that is peered, and a VPN to the office. Then it takes all of it down.
func TestThreeTiers(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "data"))
	ctx := t.Context()
	c := sdk(t, p, p.root.AccessKey, p.root.SecretKey)

	net, err := c.CreateNet(ctx, osc.CreateNetRequest{IpRange: "10.0.0.0/16"})
	must(t, err)
	netID := net.Net.NetId
	subnet := func(ipRange, subregion string) string {
		t.Helper()
		made, err := c.CreateSubnet(ctx, osc.CreateSubnetRequest{NetId: netID, IpRange: ipRange, SubregionName: &subregion})
		must(t, err)
		return made.Subnet.SubnetId
	}
	public, private, data := subnet("10.0.0.0/24", "eu-west-2a"), subnet("10.0.1.0/24", "eu-west-2a"), subnet("10.0.2.0/24", "eu-west-2b")

	// The public tier: an internet service and a table that leads to it.
	internet, err := c.CreateInternetService(ctx, osc.CreateInternetServiceRequest{})
	must(t, err)
	internetID := internet.InternetService.InternetServiceId
	_, err = c.LinkInternetService(ctx, osc.LinkInternetServiceRequest{InternetServiceId: internetID, NetId: netID})
	must(t, err)
	table := func(subnets ...string) (tableID string, links []string) {
		t.Helper()
		made, err := c.CreateRouteTable(ctx, osc.CreateRouteTableRequest{NetId: netID})
		must(t, err)
		for _, s := range subnets {
			link, err := c.LinkRouteTable(ctx, osc.LinkRouteTableRequest{RouteTableId: made.RouteTable.RouteTableId, SubnetId: s})
			must(t, err)
			links = append(links, *link.LinkRouteTableId)
		}
		return made.RouteTable.RouteTableId, links
	}
	publicTable, publicLinks := table(public)
	address, err := c.CreatePublicIp(ctx, osc.CreatePublicIpRequest{})
	must(t, err)
	addressID := address.PublicIp.PublicIpId
	nat := osc.CreateNatServiceRequest{PublicIpId: addressID, SubnetId: public}
	if _, err := c.CreateNatService(ctx, nat); !osc.IsConflict(err) {
		t.Fatalf("a NAT service in a Subnet without a way to the Internet: %v, want a conflict", err)
	}
	_, err = c.CreateRoute(ctx, osc.CreateRouteRequest{RouteTableId: publicTable, DestinationIpRange: "0.0.0.0/0", GatewayId: &internetID})
	must(t, err)

	// The private tiers: a NAT service for what they fetch.
	made, err := c.CreateNatService(ctx, nat)
	must(t, err)
	natID := made.NatService.NatServiceId
	until(t, func(ctx context.Context) (osc.NatServiceState, error) {
		got, err := c.ReadNatServices(ctx, osc.ReadNatServicesRequest{Filters: &osc.FiltersNatService{NatServiceIds: &[]string{natID}}})
		if err != nil {
			return "", err
		}
		return (*got.NatServices)[0].State, nil
	}, "available")
	privateTable, privateLinks := table(private, data)
	_, err = c.CreateRoute(ctx, osc.CreateRouteRequest{RouteTableId: privateTable, DestinationIpRange: "0.0.0.0/0", NatServiceId: &natID})
	must(t, err)

	// Who may talk to whom.
	group := func(name string) string {
		t.Helper()
		made, err := c.CreateSecurityGroup(ctx, osc.CreateSecurityGroupRequest{SecurityGroupName: name, Description: "the " + name + " tier",
			NetId: &netID})
		must(t, err)
		return made.SecurityGroup.SecurityGroupId
	}
	allow := func(group string, port int, from osc.SecurityGroupRule) {
		t.Helper()
		from.IpProtocol, from.FromPortRange, from.ToPortRange = "tcp", port, port
		_, err := c.CreateSecurityGroupRule(ctx, osc.CreateSecurityGroupRuleRequest{Flow: "Inbound", SecurityGroupId: group,
			Rules: []osc.SecurityGroupRule{from}})
		must(t, err)
	}
	web, app, db := group("web"), group("app"), group("db")
	allow(web, 443, osc.SecurityGroupRule{IpRanges: []string{"0.0.0.0/0"}})
	allow(app, 8080, osc.SecurityGroupRule{SecurityGroupsMembers: []osc.SecurityGroupsMember{{SecurityGroupId: web}}})
	allow(db, 5432, osc.SecurityGroupRule{SecurityGroupsMembers: []osc.SecurityGroupsMember{{SecurityGroupId: app}}})

	// A NIC in each tier, one with a public IP.
	nic := func(subnet, group string) string {
		t.Helper()
		made, err := c.CreateNic(ctx, osc.CreateNicRequest{SubnetId: subnet, SecurityGroupIds: &[]string{group}})
		must(t, err)
		return made.Nic.NicId
	}
	nics := []string{nic(public, web), nic(private, app), nic(data, db)}
	front, err := c.CreatePublicIp(ctx, osc.CreatePublicIpRequest{})
	must(t, err)
	linked, err := c.LinkPublicIp(ctx, osc.LinkPublicIpRequest{PublicIpId: &front.PublicIp.PublicIpId, NicId: &nics[0]})
	must(t, err)

	// A second Net, peered.
	other, err := c.CreateNet(ctx, osc.CreateNetRequest{IpRange: "10.1.0.0/16"})
	must(t, err)
	otherID := other.Net.NetId
	peering, err := c.CreateNetPeering(ctx, osc.CreateNetPeeringRequest{SourceNetId: netID, AccepterNetId: otherID})
	must(t, err)
	peeringID := peering.NetPeering.NetPeeringId
	_, err = c.CreateRoute(ctx, osc.CreateRouteRequest{RouteTableId: privateTable, DestinationIpRange: "10.1.0.0/16",
		NetPeeringId: &peeringID})
	must(t, err)
	_, err = c.AcceptNetPeering(ctx, osc.AcceptNetPeeringRequest{NetPeeringId: peeringID})
	must(t, err)
	routes, err := c.ReadRouteTables(ctx, osc.ReadRouteTablesRequest{Filters: &osc.FiltersRouteTable{RouteTableIds: &[]string{privateTable}}})
	must(t, err)
	got := (*routes.RouteTables)[0].Routes // by destination, so that the default route comes first
	if len(got) != 3 || got[0].NatServiceId == nil || got[1].GatewayId == nil || *got[1].GatewayId != "local" {
		t.Errorf("the routes of the private table are %+v", got)
	}
	for _, r := range (*routes.RouteTables)[0].Routes {
		if r.State != "active" {
			t.Errorf("the route to %v is %s", r.DestinationIpRange, r.State)
		}
	}

	// A VPN to the office.
	gateway, err := c.CreateVirtualGateway(ctx, osc.CreateVirtualGatewayRequest{ConnectionType: "ipsec.1"})
	must(t, err)
	gatewayID := gateway.VirtualGateway.VirtualGatewayId
	_, err = c.LinkVirtualGateway(ctx, osc.LinkVirtualGatewayRequest{NetId: netID, VirtualGatewayId: gatewayID})
	must(t, err)
	client, err := c.CreateClientGateway(ctx, osc.CreateClientGatewayRequest{BgpAsn: 65000, ConnectionType: "ipsec.1",
		PublicIp: "198.51.100.7"})
	must(t, err)
	clientID := client.ClientGateway.ClientGatewayId
	vpn, err := c.CreateVpnConnection(ctx, osc.CreateVpnConnectionRequest{
		ClientGatewayId: clientID, ConnectionType: "ipsec.1", VirtualGatewayId: gatewayID, StaticRoutesOnly: new(true),
	})
	must(t, err)
	vpnID := vpn.VpnConnection.VpnConnectionId
	vpnState := func(ctx context.Context) (osc.VpnConnectionState, error) {
		got, err := c.ReadVpnConnections(ctx, osc.ReadVpnConnectionsRequest{
			Filters: &osc.FiltersVpnConnection{VpnConnectionIds: &[]string{vpnID}},
		})
		if err != nil {
			return "", err
		}
		return (*got.VpnConnections)[0].State, nil
	}
	until(t, vpnState, "available")
	_, err = c.CreateVpnConnectionRoute(ctx, osc.CreateVpnConnectionRouteRequest{VpnConnectionId: vpnID, DestinationIpRange: "192.168.0.0/24"})
	must(t, err)
	_, err = c.UpdateRoutePropagation(ctx, osc.UpdateRoutePropagationRequest{Enable: true, RouteTableId: privateTable,
		VirtualGatewayId: gatewayID})
	must(t, err)
	routes, err = c.ReadRouteTables(ctx, osc.ReadRouteTablesRequest{
		Filters: &osc.FiltersRouteTable{RouteDestinationIpRanges: &[]string{"192.168.0.0/24"}},
	})
	must(t, err)
	if len(*routes.RouteTables) != 1 {
		t.Errorf("the tables with the route of the VPN connection are %+v", *routes.RouteTables)
	}

	// In a wrong order nothing goes.
	if _, err := c.DeleteNet(ctx, osc.DeleteNetRequest{NetId: netID}); !osc.IsConflict(err) {
		t.Errorf("deleting a Net with all that is in it: %v, want a conflict", err)
	}
	if _, err := c.DeleteSubnet(ctx, osc.DeleteSubnetRequest{SubnetId: public}); !osc.IsConflict(err) {
		t.Errorf("deleting a Subnet with a NIC and a NAT service: %v, want a conflict", err)
	}
	if _, err := c.DeleteSecurityGroup(ctx, osc.DeleteSecurityGroupRequest{SecurityGroupId: &web}); !osc.IsConflict(err) {
		t.Errorf("deleting a security group with a NIC: %v, want a conflict", err)
	}

	// In the right one all goes.
	_, err = c.DeleteVpnConnection(ctx, osc.DeleteVpnConnectionRequest{VpnConnectionId: vpnID})
	must(t, err)
	until(t, vpnState, "deleted")
	_, err = c.DeleteClientGateway(ctx, osc.DeleteClientGatewayRequest{ClientGatewayId: clientID})
	must(t, err)
	_, err = c.UnlinkVirtualGateway(ctx, osc.UnlinkVirtualGatewayRequest{NetId: netID, VirtualGatewayId: gatewayID})
	must(t, err)
	_, err = c.DeleteVirtualGateway(ctx, osc.DeleteVirtualGatewayRequest{VirtualGatewayId: gatewayID})
	must(t, err)
	_, err = c.DeleteNetPeering(ctx, osc.DeleteNetPeeringRequest{NetPeeringId: peeringID})
	must(t, err)
	_, err = c.DeleteNet(ctx, osc.DeleteNetRequest{NetId: otherID})
	must(t, err)
	_, err = c.UnlinkPublicIp(ctx, osc.UnlinkPublicIpRequest{LinkPublicIpId: linked.LinkPublicIpId})
	must(t, err)
	for _, nic := range nics {
		_, err = c.DeleteNic(ctx, osc.DeleteNicRequest{NicId: nic})
		must(t, err)
	}
	_, err = c.DeleteNatService(ctx, osc.DeleteNatServiceRequest{NatServiceId: natID})
	must(t, err)
	for _, id := range []string{front.PublicIp.PublicIpId, addressID} {
		_, err = c.DeletePublicIp(ctx, osc.DeletePublicIpRequest{PublicIpId: &id})
		must(t, err)
	}
	for _, group := range []string{db, app, web} {
		_, err = c.DeleteSecurityGroup(ctx, osc.DeleteSecurityGroupRequest{SecurityGroupId: &group})
		must(t, err)
	}
	for _, link := range append(publicLinks, privateLinks...) {
		_, err = c.UnlinkRouteTable(ctx, osc.UnlinkRouteTableRequest{LinkRouteTableId: link})
		must(t, err)
	}
	for _, table := range []string{publicTable, privateTable} {
		_, err = c.DeleteRouteTable(ctx, osc.DeleteRouteTableRequest{RouteTableId: table})
		must(t, err)
	}
	_, err = c.UnlinkInternetService(ctx, osc.UnlinkInternetServiceRequest{InternetServiceId: internetID, NetId: netID})
	must(t, err)
	_, err = c.DeleteInternetService(ctx, osc.DeleteInternetServiceRequest{InternetServiceId: internetID})
	must(t, err)
	for _, subnet := range []string{public, private, data} {
		_, err = c.DeleteSubnet(ctx, osc.DeleteSubnetRequest{SubnetId: subnet})
		must(t, err)
	}
	_, err = c.DeleteNet(ctx, osc.DeleteNetRequest{NetId: netID})
	must(t, err)
	p.stop(t)
}

// until reads a state again and again until it is the wanted one. Each read is a
// call over the network, so this does not spin; the test's deadline ends it.
func until[S ~string](t *testing.T, read func(context.Context) (S, error), want S) {
	t.Helper()
	for {
		got, err := read(t.Context())
		must(t, err)
		if got == want {
			return
		}
	}
}
