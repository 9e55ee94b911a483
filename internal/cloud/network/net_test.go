package network_test

import (
	"github.com/bastide-cloud/bastide/internal/api"

	"fmt"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

func TestNet(t *testing.T) {
	t.Parallel()
	r := setup(t)
	set := r.List(alice, "ReadDhcpOptions", `{}`)[0].Text("DhcpOptionsSetId")

	made := r.One(alice, "CreateNet", `{"IpRange": "10.0.0.0/16"}`)
	r.Shows(made, `{"NetId": %q, "IpRange": "10.0.0.0/16", "DhcpOptionsSetId": %q, "State": "available", "Tenancy": "default", "Tags": []}`,
		made["NetId"], set)
	r.Shows(r.List(alice, "ReadNets", `{}`)[0], `{"NetId": %q, "IpRange": "10.0.0.0/16", "DhcpOptionsSetId": %q, "State": "available",
		"Tenancy": "default", "Tags": []}`, made["NetId"], set)

	dedicated := r.One(alice, "CreateNet", `{"IpRange": "10.0.0.0/16", "Tenancy": "dedicated"}`)
	if dedicated["Tenancy"] != "dedicated" || dedicated["NetId"] == made["NetId"] {
		t.Errorf("a second Net of the same range is %v", dedicated)
	}
	r.Selects(r.List(bob, "ReadNets", `{}`), "NetId")

	r.Call(alice, "DeleteNet", `{"NetId": %q}`, made["NetId"])
	r.Selects(r.List(alice, "ReadNets", `{"Filters": {"States": ["available"]}}`), "NetId", dedicated.Text("NetId"))
}

// A deleted Net is shown as deleting for a moment, without tags, and is of no use
// any more: it keeps nothing, and counts for nothing.
func TestDeletedNet(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"vpc_limit": 1})
	loops, end := r.run(sim.New(r.Clock.Now, 0))
	defer end()
	standard := r.List(alice, "ReadDhcpOptions", `{}`)[0].Text("DhcpOptionsSetId")
	own := r.One(alice, "CreateDhcpOptions", `{"DomainName": "example.com"}`).Text("DhcpOptionsSetId")
	net := r.net(alice, "10.0.0.0/16")
	r.Call(alice, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": %q}`, net, own)
	r.Tag(alice, net, api.Tag{Key: "env", Value: "test"})
	r.settle(loops)
	r.Call(alice, "DeleteNet", naming("NetId", net))
	want := fmt.Sprintf(`{"NetId": %q, "IpRange": "10.0.0.0/16", "DhcpOptionsSetId": %q, "State": "deleting", "Tenancy": "default",
		"Tags": []}`, net, standard)
	deleting := fmt.Sprintf(`{"Filters": {"NetIds": [%q], "States": ["deleting"]}}`, net)
	r.settle(loops)
	r.Shows(r.List(alice, "ReadNets", deleting)[0], want)

	// Its set can be deleted. To give it the default one succeeds, and nothing else.
	r.Shows(r.One(alice, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": "default"}`, net), want)
	r.Refuse(apierror.NetNotFound, alice, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": %q}`, net, own)
	r.Refuse(apierror.NetNotFound, bob, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": "default"}`, net)
	r.Refuse(apierror.NetNotFound, alice, "DeleteNet", naming("NetId", net))
	r.Refuse(apierror.NetNotFound, alice, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.0.0/24"}`, net)
	r.Call(alice, "DeleteDhcpOptions", naming("DhcpOptionsSetId", own))
	r.net(alice, "10.0.0.0/16")

	r.Clock.Advance(2*time.Second - time.Millisecond)
	r.settle(loops)
	r.Selects(r.List(alice, "ReadNets", deleting), "NetId", net)
	r.Clock.Advance(time.Millisecond)
	r.settle(loops)
	r.Selects(r.List(alice, "ReadNets", deleting), "NetId")
	r.Refuse(apierror.NetNotFound, alice, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": "default"}`, net)
}

func TestNetRanges(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, ipRange string
		refused       apierror.Code // 0: it is not
	}{
		{"widest", "10.0.0.0/16", 0},
		{"narrowest", "10.0.0.0/28", 0},
		{"end of the first block", "10.255.0.0/16", 0},
		{"second block", "172.16.0.0/16", 0},
		{"end of the second block", "172.31.255.240/28", 0},
		{"third block", "192.168.0.0/16", 0},
		{"too wide", "10.0.0.0/15", apierror.InvalidNetSize},
		{"all addresses", "0.0.0.0/0", apierror.ReservedBlock},
		{"one public address", "142.42.42.42/32", apierror.ReservedBlock},
		{"too narrow", "10.0.0.0/29", apierror.InvalidNetSize},
		{"one address", "10.0.0.1/32", apierror.InvalidNetSize},
		{"reserved", "0.0.0.0/17", apierror.ReservedBlock},
		{"before the second block", "172.15.0.0/16", apierror.ReservedBlock},
		{"after the second block", "172.32.0.0/16", apierror.ReservedBlock},
		{"public", "203.0.113.0/24", apierror.ReservedBlock},
		{"loopback", "127.0.0.0/16", apierror.ReservedBlock},
		{"link local", "169.254.0.0/16", apierror.ReservedBlock},
		{"multicast", "224.0.0.0/16", apierror.ReservedBlock},
		{"bits after the prefix", "10.0.0.1/16", apierror.InvalidBlock},
		{"no prefix", "10.0.0.0", apierror.InvalidBlock},
		{"IPv6", "fd00::/16", apierror.InvalidBlock},
		{"no range", "ten", apierror.InvalidBlock},
		{"empty", "", apierror.InvalidBlock},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			body := fmt.Sprintf(`{"IpRange": %q}`, test.ipRange)
			if test.refused != 0 {
				r.Refuse(test.refused, alice, "CreateNet", body)
				return
			}
			if made := r.One(alice, "CreateNet", body); made["IpRange"] != test.ipRange {
				t.Errorf("a Net of %s has the range %v", test.ipRange, made["IpRange"])
			}
		})
	}
}

func TestNetRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	r.subnet(alice, net, "10.0.0.0/24")
	bobs := r.List(bob, "ReadDhcpOptions", `{}`)[0].Text("DhcpOptionsSetId")
	tests := []struct {
		name, account, action, body string
		want                        apierror.Code
	}{
		{"no range", alice, "CreateNet", `{}`, apierror.MissingParameter},
		{"unknown tenancy", alice, "CreateNet", `{"IpRange": "10.0.0.0/16", "Tenancy": "shared"}`, apierror.InvalidTenancy},
		{"unknown parameter", alice, "CreateNet", `{"IpRange": "10.0.0.0/16", "IsDefault": true}`, apierror.UnknownParameter},
		{"update without a set", alice, "UpdateNet", fmt.Sprintf(`{"NetId": %q}`, net), apierror.MissingParameter},
		{"update of no Net", alice, "UpdateNet", `{"NetId": "vpc-00000000", "DhcpOptionsSetId": "default"}`, apierror.NetNotFound},
		{"update of another account's Net", bob, "UpdateNet", fmt.Sprintf(`{"NetId": %q, "DhcpOptionsSetId": "default"}`, net),
			apierror.NetNotFound},
		{"update to no set", alice, "UpdateNet", fmt.Sprintf(`{"NetId": %q, "DhcpOptionsSetId": "dopt-00000000"}`, net),
			apierror.DhcpOptionsNotFound},
		{"update to another account's set", alice, "UpdateNet", fmt.Sprintf(`{"NetId": %q, "DhcpOptionsSetId": %q}`, net, bobs),
			apierror.DhcpOptionsNotFound},
		{"update to what is no set", alice, "UpdateNet", fmt.Sprintf(`{"NetId": %q, "DhcpOptionsSetId": "Default"}`, net), apierror.InvalidID},
		{"update to a malformed set", alice, "UpdateNet", fmt.Sprintf(`{"NetId": %q, "DhcpOptionsSetId": "dopt-1"}`, net), apierror.MalformedID},
		{"update to an empty set", alice, "UpdateNet", fmt.Sprintf(`{"NetId": %q, "DhcpOptionsSetId": ""}`, net), apierror.InvalidID},
		{"deletion of no Net", alice, "DeleteNet", `{"NetId": "vpc-00000000"}`, apierror.NetNotFound},
		{"deletion of another account's Net", bob, "DeleteNet", fmt.Sprintf(`{"NetId": %q}`, net), apierror.NetNotFound},
		{"deletion of a Net with a Subnet", alice, "DeleteNet", fmt.Sprintf(`{"NetId": %q}`, net), apierror.NetInUse},
		{"deletion of what is no Net", alice, "DeleteNet", `{"NetId": "subnet-00000000"}`, apierror.InvalidID},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, test.account, test.action, test.body) })
	}
}

func TestNetQuota(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"vpc_limit": 2})
	first := r.net(alice, "10.0.0.0/16")
	r.net(alice, "10.0.0.0/16")
	r.Refuse(apierror.TooManyNets, alice, "CreateNet", `{"IpRange": "10.0.0.0/16"}`)
	r.net(bob, "10.0.0.0/16")
	r.Call(alice, "DeleteNet", `{"NetId": %q}`, first)
	r.net(alice, "10.0.0.0/16")
}

func TestNetDhcpOptions(t *testing.T) {
	t.Parallel()
	r := setup(t)
	own := r.One(alice, "CreateDhcpOptions", `{"DomainName": "example.com"}`).Text("DhcpOptionsSetId")
	made := r.One(alice, "CreateNet", `{"IpRange": "10.0.0.0/16"}`)
	updated := r.One(alice, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": %q}`, made["NetId"], own)
	r.Shows(updated, `{"NetId": %q, "IpRange": "10.0.0.0/16", "DhcpOptionsSetId": %q, "State": "available", "Tenancy": "default",
		"Tags": []}`, made["NetId"], own)
	r.Selects(r.List(alice, "ReadNets", `{"Filters": {"DhcpOptionsSetIds": [%q]}}`, own), "NetId", made.Text("NetId"))
	r.Refuse(apierror.InUse, alice, "DeleteDhcpOptions", `{"DhcpOptionsSetId": %q}`, own)

	back := r.One(alice, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": "default"}`, made["NetId"])
	if back["DhcpOptionsSetId"] != made["DhcpOptionsSetId"] {
		t.Errorf("back on the default set, the Net has %v, want %v", back["DhcpOptionsSetId"], made["DhcpOptionsSetId"])
	}
	r.Call(alice, "DeleteDhcpOptions", `{"DhcpOptionsSetId": %q}`, own)
}

func TestNetFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	own := r.One(alice, "CreateDhcpOptions", `{"DomainName": "example.com"}`).Text("DhcpOptionsSetId")
	first, second := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	r.Call(alice, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": %q}`, second, own)
	r.Tag(alice, first, api.Tag{Key: "env", Value: "test"})
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, second}},
		{fmt.Sprintf(`{"NetIds": [%q, "vpc-00000000"]}`, second), []string{second}},
		{fmt.Sprintf(`{"DhcpOptionsSetIds": [%q]}`, own), []string{second}},
		{`{"IpRanges": ["10.0.0.0/16"]}`, []string{first}},
		{`{"IpRanges": ["10.0.0.0/15"]}`, nil},
		{`{"States": ["available"]}`, []string{first, second}},
		{`{"States": ["pending", "deleting"]}`, nil},
		{`{"IsDefault": true}`, nil},
		{`{"IsDefault": false}`, []string{first, second}},
		{`{"TagKeys": ["env"]}`, []string{first}},
		{`{"TagValues": ["test"]}`, []string{first}},
		{`{"Tags": ["env=test"]}`, []string{first}},
		{`{"Tags": ["env=prod"]}`, nil},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadNets", `{"Filters": `+test.filters+`}`), "NetId", test.want...)
		})
	}
}
