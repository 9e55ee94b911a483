package network_test

import (
	"github.com/bastide-cloud/bastide/internal/api"

	"fmt"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// linkInternet links a new internet service to a Net and answers its ID.
func (r *region) linkInternet(account, net string) string {
	r.Helper()
	service := r.One(account, "CreateInternetService", `{}`).Text("InternetServiceId")
	r.Call(account, "LinkInternetService", `{"InternetServiceId": %q, "NetId": %q}`, service, net)
	return service
}

func TestInternetService(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.0.0.0/16")
	made := r.One(alice, "CreateInternetService", `{}`)
	service := made.Text("InternetServiceId")
	r.Shows(made, `{"InternetServiceId": %q, "Tags": []}`, service)
	link := func(service, net string) string {
		return fmt.Sprintf(`{"InternetServiceId": %q, "NetId": %q}`, service, net)
	}
	if got := r.worldNet(net).InternetService; got != "" {
		t.Errorf("in the driver, the Net has the internet service %s before it is linked", got)
	}

	before := r.netGeneration(alice, net)
	r.Call(alice, "LinkInternetService", link(service, net))
	if after := r.netGeneration(alice, net); after == before {
		t.Error("the driver does not hear of the link")
	}
	r.Shows(r.List(alice, "ReadInternetServices", `{}`)[0], `{"InternetServiceId": %q, "NetId": %q, "State": "available", "Tags": []}`,
		service, net)
	if got := r.worldNet(net).InternetService; got != service {
		t.Errorf("in the driver, the Net has the internet service %q", got)
	}

	// One Net to an internet service, one internet service to a Net.
	r.Refuse(apierror.GatewayLinked, alice, "LinkInternetService", link(service, net))
	r.Refuse(apierror.GatewayLinked, alice, "LinkInternetService", link(service, other))
	second := r.One(alice, "CreateInternetService", `{}`).Text("InternetServiceId")
	r.Refuse(apierror.NetLinked, alice, "LinkInternetService", link(second, net))

	r.Refuse(apierror.InUse, alice, "DeleteInternetService", `{"InternetServiceId": %q}`, service)
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", `{"NetId": %q}`, net)
	r.Refuse(apierror.InternetServiceNotLinked, alice, "UnlinkInternetService", link(service, other))
	r.Refuse(apierror.InternetServiceNotLinked, alice, "UnlinkInternetService", link(second, net))
	before = r.netGeneration(alice, net)
	r.Call(alice, "UnlinkInternetService", link(service, net))
	if after := r.netGeneration(alice, net); after == before {
		t.Error("the driver does not hear that the link is gone")
	}
	r.Refuse(apierror.InternetServiceNotLinked, alice, "UnlinkInternetService", link(service, net))
	r.Call(alice, "LinkInternetService", link(second, net))
	r.Call(alice, "DeleteInternetService", `{"InternetServiceId": %q}`, service)
	r.Selects(r.List(alice, "ReadInternetServices", `{}`), "InternetServiceId", second)
	r.Selects(r.List(bob, "ReadInternetServices", `{}`), "InternetServiceId")
}

// A Net stays on the Internet as long as something in it is reached from there.
func TestUnlinkOfReachedNet(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	service, subnet := r.linkInternet(alice, net), r.subnet(alice, net, "10.0.0.0/24")
	unlink := fmt.Sprintf(`{"InternetServiceId": %q, "NetId": %q}`, service, net)
	r.Call(alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", "GatewayId": %q}`,
		r.mainTable(alice, net)["RouteTableId"], service)
	nat := r.nat(alice, subnet)
	r.Refuse(apierror.NetHasNatService, alice, "UnlinkInternetService", unlink)
	r.Call(alice, "DeleteNatService", `{"NatServiceId": %q}`, nat)

	nic, ip := r.placeNic(alice, subnet, "10.0.0.9", ""), r.spareIp(alice)
	r.linkPublicIp(alice, ip, nic)
	r.Refuse(apierror.NetHasPublicIps, alice, "UnlinkInternetService", unlink)
	r.linkPublicIp(alice, ip, r.placeNic(alice, r.subnet(alice, r.net(alice, "10.1.0.0/16"), "10.1.0.0/24"), "10.1.0.9", ""))
	r.Call(alice, "UnlinkInternetService", unlink)
}

// linkPublicIp links a public IP to a NIC.
func (r *region) linkPublicIp(account, ip, nic string) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		p, err := network.PublicIps.Get(tx, id.PublicIp(ip))
		if err != nil {
			return err
		}
		p.NicId, p.LinkPublicIpId = id.Nic(nic), "eipassoc-0000000a"
		return network.PublicIps.Put(tx, p)
	})
}

func TestInternetServiceRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	service := r.linkInternet(alice, net)
	tests := []struct {
		name, account, action, body string
		want                        apierror.Code
	}{
		{"no Net", alice, "LinkInternetService", fmt.Sprintf(`{"InternetServiceId": %q}`, service), apierror.MissingParameter},
		{"no internet service", alice, "UnlinkInternetService", fmt.Sprintf(`{"NetId": %q}`, net), apierror.MissingParameter},
		{"link of none", alice, "LinkInternetService", fmt.Sprintf(`{"InternetServiceId": "igw-00000000", "NetId": %q}`, net),
			apierror.InternetServiceNotFound},
		{"link to no Net", alice, "LinkInternetService", fmt.Sprintf(`{"InternetServiceId": %q, "NetId": "vpc-00000000"}`, service),
			apierror.NetNotFound},
		{"link of another account's", bob, "LinkInternetService", fmt.Sprintf(`{"InternetServiceId": %q, "NetId": %q}`, service, net),
			apierror.InternetServiceNotFound},
		{"unlink of none", alice, "UnlinkInternetService", fmt.Sprintf(`{"InternetServiceId": "igw-00000000", "NetId": %q}`, net),
			apierror.InternetServiceNotFound},
		{"unlink from no Net", alice, "UnlinkInternetService", fmt.Sprintf(`{"InternetServiceId": %q, "NetId": "vpc-00000000"}`, service),
			apierror.NetNotFound},
		{"unlink of another account's", bob, "UnlinkInternetService", fmt.Sprintf(`{"InternetServiceId": %q, "NetId": %q}`, service, net),
			apierror.InternetServiceNotFound},
		{"deletion of none", alice, "DeleteInternetService", `{"InternetServiceId": "igw-00000000"}`, apierror.InternetServiceNotFound},
		{"deletion of what is none", alice, "DeleteInternetService", fmt.Sprintf(`{"InternetServiceId": %q}`, net), apierror.InvalidID},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, test.account, test.action, test.body) })
	}
}

func TestInternetServiceQuota(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"igw_limit": 1})
	service := r.One(alice, "CreateInternetService", `{}`)
	r.Refuse(apierror.TooManyInternetServices, alice, "CreateInternetService", `{}`)
	r.Call(alice, "DeleteInternetService", `{"InternetServiceId": %q}`, service["InternetServiceId"])
	r.Call(alice, "CreateInternetService", `{}`)
}

func TestInternetServiceFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	first := r.One(alice, "CreateInternetService", `{}`).Text("InternetServiceId")
	second := r.linkInternet(alice, net)
	r.Tag(alice, first, api.Tag{Key: "env", Value: "test"})
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, second}},
		{fmt.Sprintf(`{"InternetServiceIds": [%q]}`, first), []string{first}},
		{fmt.Sprintf(`{"LinkNetIds": [%q]}`, net), []string{second}},
		{`{"LinkNetIds": ["vpc-00000000"]}`, nil},
		{`{"LinkStates": ["available"]}`, []string{second}},
		{`{"TagKeys": ["env"]}`, []string{first}},
		{`{"TagValues": ["test"]}`, []string{first}},
		{`{"Tags": ["env=test"]}`, []string{first}},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadInternetServices", `{"Filters": `+test.filters+`}`), "InternetServiceId", test.want...)
		})
	}
}
