package network_test

import (
	"github.com/bastide-cloud/bastide/internal/api"

	"fmt"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestSubnet(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	made := r.One(alice, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.1.0/24"}`, net)
	want := fmt.Sprintf(`{"SubnetId": %q, "NetId": %q, "SubregionName": "test-1a", "IpRange": "10.0.1.0/24", "State": "available",
		"AvailableIpsCount": 251, "MapPublicIpOnLaunch": false, "Tags": []}`, made["SubnetId"], net)
	r.Shows(made, want)
	r.Shows(r.List(alice, "ReadSubnets", `{}`)[0], want)
	r.Selects(r.List(bob, "ReadSubnets", `{}`), "SubnetId")

	there := r.One(alice, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.2.0/24", "SubregionName": "test-1b"}`, net)
	if there["SubregionName"] != "test-1b" {
		t.Errorf("the Subnet asked for in test-1b is in %v", there["SubregionName"])
	}

	updated := r.One(alice, "UpdateSubnet", `{"SubnetId": %q, "MapPublicIpOnLaunch": true}`, made["SubnetId"])
	r.Shows(updated, `{"SubnetId": %q, "NetId": %q, "SubregionName": "test-1a", "IpRange": "10.0.1.0/24", "State": "available",
		"AvailableIpsCount": 251, "MapPublicIpOnLaunch": true, "Tags": []}`, made["SubnetId"], net)
	back := r.One(alice, "UpdateSubnet", `{"SubnetId": %q, "MapPublicIpOnLaunch": false}`, made["SubnetId"])
	if back["MapPublicIpOnLaunch"] != false {
		t.Error("MapPublicIpOnLaunch is not false again")
	}

	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, made["SubnetId"])
	r.Selects(r.List(alice, "ReadSubnets", `{}`), "SubnetId", there.Text("SubnetId"))
	r.subnet(alice, net, "10.0.1.0/24") // its range is free again
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", `{"NetId": %q}`, net)
}

func TestSubnetRanges(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, net, ipRange string
		refused            apierror.Code // 0: it is not
		available          float64
	}{
		{"the whole Net", "10.0.0.0/16", "10.0.0.0/16", 0, 65531},
		{"smallest", "10.0.0.0/16", "10.0.255.248/29", 0, 3},
		{"the whole of a small Net", "10.0.0.0/28", "10.0.0.0/28", 0, 11},
		{"too narrow", "10.0.0.0/16", "10.0.0.0/30", apierror.InvalidRangeSize, 0},
		{"one address", "10.0.0.0/16", "10.0.0.0/32", apierror.InvalidRangeSize, 0},
		{"too wide", "10.0.0.0/16", "10.0.0.0/15", apierror.InvalidRangeSize, 0},
		{"wider than the Net", "10.0.0.0/24", "10.0.0.0/23", apierror.OutsideNet, 0},
		{"before the Net", "10.1.0.0/16", "10.0.255.0/24", apierror.OutsideNet, 0},
		{"after the Net", "10.1.0.0/16", "10.2.0.0/24", apierror.OutsideNet, 0},
		{"bits after the prefix", "10.0.0.0/16", "10.0.1.1/24", apierror.InvalidBlock, 0},
		{"IPv6", "10.0.0.0/16", "fd00::/64", apierror.InvalidBlock, 0},
		{"empty", "10.0.0.0/16", "", apierror.InvalidBlock, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			body := fmt.Sprintf(`{"NetId": %q, "IpRange": %q}`, r.net(alice, test.net), test.ipRange)
			if test.refused != 0 {
				r.Refuse(test.refused, alice, "CreateSubnet", body)
				return
			}
			made := r.One(alice, "CreateSubnet", body)
			if made["IpRange"] != test.ipRange || made["AvailableIpsCount"] != test.available {
				t.Errorf("a Subnet of %s is %v with %v addresses available, want %v", test.ipRange, made["IpRange"], made["AvailableIpsCount"],
					test.available)
			}
		})
	}
}

func TestSubnetsMayNotOverlap(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.0.0.0/16")
	r.subnet(alice, net, "10.0.16.0/20")
	for name, ipRange := range map[string]string{
		"the same": "10.0.16.0/20", "a part": "10.0.31.0/24", "all around": "10.0.0.0/17", "the whole Net": "10.0.0.0/16",
	} {
		t.Run(name, func(t *testing.T) {
			r.Refuse(apierror.SubnetOverlaps, alice, "CreateSubnet", `{"NetId": %q, "IpRange": %q}`, net, ipRange)
		})
	}
	r.subnet(alice, net, "10.0.0.0/20")
	r.subnet(alice, net, "10.0.32.0/20")
	r.subnet(alice, other, "10.0.16.0/20")
}

func TestSubnetRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	subnet := r.subnet(alice, net, "10.0.0.0/24")
	tests := []struct {
		name, account, action, body string
		want                        apierror.Code
	}{
		{"no range", alice, "CreateSubnet", fmt.Sprintf(`{"NetId": %q}`, net), apierror.MissingParameter},
		{"no Net", alice, "CreateSubnet", `{"IpRange": "10.0.1.0/24"}`, apierror.MissingParameter},
		{"unknown Net", alice, "CreateSubnet", `{"NetId": "vpc-00000000", "IpRange": "10.0.1.0/24"}`, apierror.NetNotFound},
		{"another account's Net", bob, "CreateSubnet", fmt.Sprintf(`{"NetId": %q, "IpRange": "10.0.1.0/24"}`, net), apierror.NetNotFound},
		{"unknown Subregion", alice, "CreateSubnet", fmt.Sprintf(`{"NetId": %q, "IpRange": "10.0.1.0/24", "SubregionName": "test-1z"}`, net),
			apierror.SubregionNotFound},
		{"update without a value", alice, "UpdateSubnet", fmt.Sprintf(`{"SubnetId": %q}`, subnet), apierror.MissingParameter},
		{"update of no Subnet", alice, "UpdateSubnet", `{"SubnetId": "subnet-00000000", "MapPublicIpOnLaunch": true}`, apierror.SubnetNotFound},
		{"update of another account's Subnet", bob, "UpdateSubnet", fmt.Sprintf(`{"SubnetId": %q, "MapPublicIpOnLaunch": true}`, subnet),
			apierror.SubnetNotFound},
		{"deletion of no Subnet", alice, "DeleteSubnet", `{"SubnetId": "subnet-00000000"}`, apierror.SubnetNotFound},
		{"deletion of another account's Subnet", bob, "DeleteSubnet", fmt.Sprintf(`{"SubnetId": %q}`, subnet), apierror.SubnetNotFound},
		{"deletion of what is no Subnet", alice, "DeleteSubnet", fmt.Sprintf(`{"SubnetId": %q}`, net), apierror.InvalidID},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, test.account, test.action, test.body) })
	}
}

func TestSubnetInUse(t *testing.T) {
	t.Parallel()
	r := setup(t)
	subnet := r.subnet(alice, r.net(alice, "10.0.0.0/16"), "10.0.0.0/24")
	guest := &Guest{SubnetId: id.Subnet(subnet)}
	r.Update(alice, func(tx *resource.Tx) error { return guests.Insert(tx, guest) })
	r.Refuse(apierror.SubnetInUse, alice, "DeleteSubnet", `{"SubnetId": %q}`, subnet)
	r.Update(alice, func(tx *resource.Tx) error { return guests.Delete(tx, guest) })
	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, subnet)
}

func TestSubnetQuotaIsPerNet(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"subnet_limit": 2})
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.0.0.0/16")
	first := r.subnet(alice, net, "10.0.0.0/24")
	r.subnet(alice, net, "10.0.1.0/24")
	r.Refuse(apierror.TooManyNets, alice, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.2.0/24"}`, net)
	r.subnet(alice, other, "10.0.2.0/24")
	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, first)
	r.subnet(alice, net, "10.0.2.0/24")
}

func TestSubnetFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	first, second := r.subnet(alice, net, "10.0.0.0/24"), r.subnet(alice, other, "10.1.0.0/28")
	third := r.One(alice, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.1.0/24", "SubregionName": "test-1b"}`, net).Text("SubnetId")
	r.Tag(alice, third, api.Tag{Key: "env", Value: "test"})
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, second, third}},
		{`{"AvailableIpsCounts": [251]}`, []string{first, third}},
		{`{"AvailableIpsCounts": [11, 12]}`, []string{second}},
		{`{"AvailableIpsCounts": [0]}`, nil},
		{`{"IpRanges": ["10.0.1.0/24"]}`, []string{third}},
		{fmt.Sprintf(`{"NetIds": [%q]}`, net), []string{first, third}},
		{fmt.Sprintf(`{"NetIds": [%q], "AvailableIpsCounts": [11]}`, net), nil},
		{`{"States": ["available"]}`, []string{first, second, third}},
		{`{"States": ["pending", "deleted"]}`, nil},
		{fmt.Sprintf(`{"SubnetIds": [%q]}`, second), []string{second}},
		{`{"SubregionNames": ["test-1b"]}`, []string{third}},
		{`{"TagKeys": ["env"]}`, []string{third}},
		{`{"TagValues": ["test"]}`, []string{third}},
		{`{"Tags": ["env=test"]}`, []string{third}},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadSubnets", `{"Filters": `+test.filters+`}`), "SubnetId", test.want...)
		})
	}
}
