package network_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// spareIp makes a public IP and answers its ID.
func (r *region) spareIp(account string) string {
	r.Helper()
	var ip *network.PublicIp
	r.Update(account, func(tx *resource.Tx) error {
		ip = &network.PublicIp{PublicIp: api.IPv4(fmt.Sprintf("198.18.0.%d", 1+network.PublicIps.Count(tx)))}
		return network.PublicIps.Insert(tx, ip)
	})
	return string(ip.PublicIpId)
}

// nat makes a NAT service in a Subnet and answers its ID.
func (r *region) nat(account, subnet string) string {
	r.Helper()
	return r.One(account, "CreateNatService", `{"SubnetId": %q, "PublicIpId": %q}`, subnet, r.spareIp(account)).Text("NatServiceId")
}

// public makes a Net of alice's whose main table leads to the Internet, with a
// Subnet.
func (r *region) public() (net, subnet string) {
	r.Helper()
	net = r.net(alice, "10.0.0.0/16")
	r.Call(alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", "GatewayId": %q}`,
		r.mainTable(alice, net)["RouteTableId"], r.linkInternet(alice, net))
	return net, r.subnet(alice, net, "10.0.0.0/24")
}

func TestNatService(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, subnet := r.public()
	ip := r.spareIp(alice)
	made := r.One(alice, "CreateNatService", `{"SubnetId": %q, "PublicIpId": %q}`, subnet, ip)
	nat := made.Text("NatServiceId")
	shown := fmt.Sprintf(`{"NatServiceId": %q, "NetId": %q, "SubnetId": %q, "State": "available", "Tags": [],
		"PublicIps": [{"PublicIp": "198.18.0.1", "PublicIpId": %q}]}`, nat, net, subnet, ip)
	r.Shows(made, shown)
	r.Shows(r.List(alice, "ReadNatServices", `{}`)[0], shown)

	// It has an address of its Subnet, and its public IP.
	var nic *network.Nic
	r.Update(alice, func(tx *resource.Tx) error {
		for n := range network.Nics.Where(tx, "SubnetId", subnet) {
			nic = n
		}
		return nil
	})
	if nic == nil || nic.Service != nat || len(nic.PrivateIps) != 1 {
		t.Fatalf("the NIC of the NAT service is %v", nic)
	}
	want := []driver.Nat{{ID: nat, Subnet: subnet, Nic: string(nic.NicId), Public: []netip.Addr{netip.MustParseAddr("198.18.0.1")}}}
	if diff := cmp.Diff(want, r.worldNet(net).Nats, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("in the driver (-want +got):\n%s", diff)
	}

	// Its Subnet, its Net and its public IP stay as long as it does.
	r.Refuse(apierror.SubnetInUse, alice, "DeleteSubnet", `{"SubnetId": %q}`, subnet)
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", `{"NetId": %q}`, net)
	r.Refuse(apierror.InUse, alice, "CreateNatService", `{"SubnetId": %q, "PublicIpId": %q}`, r.subnet(alice, net, "10.0.1.0/24"), ip)

	// A deleted one is still shown, and has nothing any more.
	r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, nat)
	r.Shows(r.List(alice, "ReadNatServices", `{}`)[0], `{"NatServiceId": %q, "NetId": %q, "SubnetId": %q,
		"State": "deleted", "Tags": []}`, nat, net, subnet)
	r.Refuse(apierror.NatServiceNotFound, alice, "DeleteNatService", `{"NatServiceId": %q}`, nat)
	if left := r.worldNet(net).Nats; len(left) != 0 {
		t.Errorf("in the driver, %v is left", left)
	}
	r.Update(alice, func(tx *resource.Tx) error {
		if network.Nics.Has(tx, nic.NicId) {
			t.Error("its NIC is left")
		}
		return nil
	})
	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, subnet)
}

// A NAT service is available at once, whatever the driver has.
func TestNatServiceDoesNotWaitForTheWorld(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, time.Second)
	loops, end := r.run(drivers)
	defer end()
	_, subnet := r.public()
	r.finish(loops)
	nat := r.nat(alice, subnet)
	r.settle(loops)
	r.Selects(r.List(alice, "ReadNatServices", `{"Filters": {"States": ["available"]}}`), "NatServiceId", nat)

	// One may go before it was ever there.
	r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, nat)
	again := r.nat(alice, subnet)
	r.settle(loops)
	r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, again)
	r.Clock.Advance(time.Minute)
	r.settle(loops)
	r.Selects(r.List(alice, "ReadNatServices", `{"Filters": {"States": ["deleted"]}}`), "NatServiceId", nat, again)
	r.finish(loops) // which is when the last of them is forgotten
	r.Selects(r.List(alice, "ReadNatServices", `{}`), "NatServiceId")
}

func TestNatServiceToken(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, subnet := r.public()
	other := r.subnet(alice, net, "10.0.1.0/24")
	ip, second := r.spareIp(alice), r.spareIp(alice)
	ask := func(subnet, ip, token string) string {
		return fmt.Sprintf(`{"SubnetId": %q, "PublicIpId": %q, "ClientToken": %q}`, subnet, ip, token)
	}
	made := r.One(alice, "CreateNatService", ask(subnet, ip, "once"))
	before := r.Revision(alice)
	if diff := cmp.Diff(made, r.One(alice, "CreateNatService", ask(subnet, ip, "once"))); diff != "" {
		t.Errorf("the same request again (-first +second):\n%s", diff)
	}
	if after := r.Revision(alice); after != before {
		t.Error("the same request has changed the account again")
	}
	r.Refuse(apierror.TokenMismatch, alice, "CreateNatService", ask(other, second, "once"))
	r.Refuse(apierror.TokenMismatch, alice, "CreateNatService", ask(subnet, second, "once"))
	r.Refuse(apierror.InUse, alice, "CreateNatService", ask(subnet, ip, "twice"))
	r.Refuse(apierror.NatServiceExists, alice, "CreateNatService", ask(subnet, second, "twice"))
	r.Call(alice, "CreateNatService", ask(other, second, ""))

	// The token of a deleted one is free.
	r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, made["NatServiceId"])
	if again := r.One(alice, "CreateNatService", ask(subnet, ip, "once")); again["NatServiceId"] == made["NatServiceId"] {
		t.Error("the request after the deletion answers the deleted NAT service")
	}
}

// Requests that come at once with one token make one NAT service.
func TestNatServiceTokenAtOnce(t *testing.T) {
	t.Parallel()
	r := setup(t)
	_, subnet := r.public()
	body := fmt.Sprintf(`{"SubnetId": %q, "PublicIpId": %q, "ClientToken": "once"}`, subnet, r.spareIp(alice))
	var calls sync.WaitGroup
	var made [8]object
	for i := range made {
		calls.Go(func() {
			answer, err := r.Try(alice, "CreateNatService", body)
			if err != nil {
				t.Error(err)
			}
			made[i] = answer
		})
	}
	calls.Wait()
	for _, other := range made[1:] {
		if diff := cmp.Diff(made[0], other); diff != "" {
			t.Errorf("two answers (-one +other):\n%s", diff)
		}
	}
	if all := r.List(alice, "ReadNatServices", `{}`); len(all) != 1 {
		t.Errorf("%d NAT services were made", len(all))
	}
}

func TestNatServiceRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, subnet := r.public()
	private, table := r.subnet(alice, net, "10.0.1.0/24"), r.table(alice, net)
	r.linkTable(alice, table, private)
	nat := r.nat(alice, subnet)
	spare, linked, lent := r.spareIp(alice), r.spareIp(alice), r.spareIp(alice)
	nic := r.placeNic(alice, private, "10.0.1.9", "")
	r.linkPublicIp(alice, linked, nic)
	r.Update(alice, func(tx *resource.Tx) error {
		ip, err := network.PublicIps.Get(tx, id.PublicIp(lent))
		if err != nil {
			return err
		}
		ip.Ephemeral = true
		return network.PublicIps.Put(tx, ip)
	})
	tests := []struct {
		name, account, action, body string
		want                        apierror.Code
	}{
		{"no public IP", alice, "CreateNatService", fmt.Sprintf(`{"SubnetId": %q}`, subnet), apierror.MissingParameter},
		{"no Subnet", alice, "CreateNatService", fmt.Sprintf(`{"PublicIpId": %q}`, spare), apierror.MissingParameter},
		{"unknown Subnet", alice, "CreateNatService", fmt.Sprintf(`{"SubnetId": "subnet-00000000", "PublicIpId": %q}`, spare),
			apierror.SubnetNotFound},
		{"another account's Subnet", bob, "CreateNatService", fmt.Sprintf(`{"SubnetId": %q, "PublicIpId": %q}`, subnet, spare),
			apierror.SubnetNotFound},
		{"unknown public IP", alice, "CreateNatService", fmt.Sprintf(`{"SubnetId": %q, "PublicIpId": "eipalloc-00000000"}`, subnet),
			apierror.PublicIpNotFound},
		{"the region's public IP", alice, "CreateNatService", fmt.Sprintf(`{"SubnetId": %q, "PublicIpId": %q}`, subnet, lent),
			apierror.PublicIpNotFound},
		{"a linked public IP", alice, "CreateNatService", fmt.Sprintf(`{"SubnetId": %q, "PublicIpId": %q}`, subnet, linked), apierror.InUse},
		{"a Subnet that is not public", alice, "CreateNatService", fmt.Sprintf(`{"SubnetId": %q, "PublicIpId": %q}`, private, spare),
			apierror.NoInternetRoute},
		{"a second one in the Subnet", alice, "CreateNatService", fmt.Sprintf(`{"SubnetId": %q, "PublicIpId": %q}`, subnet, spare),
			apierror.NatServiceExists},
		{"deletion of none", alice, "DeleteNatService", `{"NatServiceId": "nat-00000000"}`, apierror.NatServiceNotFound},
		{"deletion of another account's", bob, "DeleteNatService", fmt.Sprintf(`{"NatServiceId": %q}`, nat), apierror.NatServiceNotFound},
		{"deletion of what is none", alice, "DeleteNatService", fmt.Sprintf(`{"NatServiceId": %q}`, net), apierror.InvalidID},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, test.account, test.action, test.body) })
	}

	// A route to the Internet that leads nowhere is none; a private Subnet
	// becomes public with its table.
	r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, nat)
	service := r.List(alice, "ReadInternetServices", `{}`)[0].Text("InternetServiceId")
	link := fmt.Sprintf(`{"InternetServiceId": %q, "NetId": %q}`, service, net)
	r.Update(alice, func(tx *resource.Tx) error { return network.Nics.Delete(tx, &network.Nic{NicId: id.Nic(nic)}) })
	r.Call(alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", "GatewayId": %q}`, table, service)
	r.Call(alice, "UnlinkInternetService", link)
	r.Refuse(apierror.NoInternetRoute, alice, "CreateNatService", `{"SubnetId": %q, "PublicIpId": %q}`, private, spare)
	r.Call(alice, "LinkInternetService", link)
	r.Call(alice, "CreateNatService", `{"SubnetId": %q, "PublicIpId": %q}`, private, spare)
}

// In a Subnet whose addresses are all taken there is no NAT service, nor half
// of one.
func TestNatServiceInAFullSubnet(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, _ := r.public()
	small := r.subnet(alice, net, "10.0.1.0/29")
	for _, ip := range []string{"10.0.1.4", "10.0.1.5", "10.0.1.6"} {
		r.placeNic(alice, small, ip, "")
	}
	r.Refuse(apierror.InsufficientCapacity, alice, "CreateNatService", `{"SubnetId": %q, "PublicIpId": %q}`, small, r.spareIp(alice))
	r.Selects(r.List(alice, "ReadNatServices", `{}`), "NatServiceId")
}

func TestNatServiceQuota(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"nat_gateway_limit": 1})
	net, subnet := r.public()
	nat, other := r.nat(alice, subnet), r.subnet(alice, net, "10.0.1.0/24")
	r.Refuse(apierror.TooManyNatServices, alice, "CreateNatService", `{"SubnetId": %q, "PublicIpId": %q}`, other, r.spareIp(alice))
	r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, nat)
	r.nat(alice, other)
}

func TestNatServiceFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, subnet := r.public()
	other := r.subnet(alice, net, "10.0.1.0/24")
	first := r.nat(alice, subnet)
	second := r.One(alice, "CreateNatService", `{"SubnetId": %q, "PublicIpId": %q, "ClientToken": "once"}`, other,
		r.spareIp(alice)).Text("NatServiceId")
	r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, first)
	r.Tag(alice, second, api.Tag{Key: "env", Value: "test"})
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, second}},
		{`{"ClientTokens": ["once"]}`, []string{second}},
		{fmt.Sprintf(`{"NatServiceIds": [%q]}`, first), []string{first}},
		{fmt.Sprintf(`{"NetIds": [%q]}`, net), []string{first, second}},
		{`{"NetIds": ["vpc-00000000"]}`, nil},
		{`{"States": ["available"]}`, []string{second}},
		{`{"States": ["pending", "deleted"]}`, []string{first}},
		{fmt.Sprintf(`{"SubnetIds": [%q]}`, other), []string{second}},
		{`{"TagKeys": ["env"]}`, []string{second}},
		{`{"TagValues": ["test"]}`, []string{second}},
		{`{"Tags": ["env=test"]}`, []string{second}},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadNatServices", `{"Filters": `+test.filters+`}`), "NatServiceId", test.want...)
		})
	}
}
