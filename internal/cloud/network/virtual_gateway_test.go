package network_test

import (
	"github.com/bastide-cloud/bastide/internal/api"

	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// virtualGateway makes a virtual gateway and answers its ID.
func (r *region) virtualGateway(account string) string {
	r.Helper()
	return r.One(account, "CreateVirtualGateway", `{"ConnectionType": "ipsec.1"}`).Text("VirtualGatewayId")
}

// linkGateway links a virtual gateway to a Net.
func (r *region) linkGateway(account, gateway, net string) {
	r.Helper()
	r.Call(account, "LinkVirtualGateway", linking(gateway, net))
}

// linking is a request about a virtual gateway and a Net.
func linking(gateway, net string) string {
	return fmt.Sprintf(`{"VirtualGatewayId": %q, "NetId": %q}`, gateway, net)
}

// about is a request with an ID.
func about(field, id string) string { return fmt.Sprintf(`{%q: %q}`, field, id) }

// gatewayLinks checks the links of a virtual gateway, each given as its state and Net.
func (r *region) gatewayLinks(account, gateway string, want ...string) {
	r.Helper()
	found := r.List(account, "ReadVirtualGateways", `{"Filters": {"VirtualGatewayIds": [%q]}}`, gateway)
	if len(found) != 1 {
		r.Fatalf("%d virtual gateways have the ID %s", len(found), gateway)
	}
	got := []string{}
	for _, l := range found[0]["NetToVirtualGatewayLinks"].([]any) {
		link := object(l.(map[string]any))
		got = append(got, link.Text("State")+" "+link.Text("NetId"))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("the links are %q, want %q", got, want)
	}
}

func TestVirtualGatewayLinks(t *testing.T) {
	t.Parallel()
	r := setup(t)
	gateway, other := r.virtualGateway(alice), r.virtualGateway(alice)
	net, second := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	r.gatewayLinks(alice, gateway)
	r.Shows(r.Call(alice, "LinkVirtualGateway", linking(gateway, net)), `{"NetToVirtualGatewayLink": {"NetId": %q, "State": "attached"}}`, net)
	r.gatewayLinks(alice, gateway, "attached "+net)

	for name, refused := range map[string]struct {
		code         apierror.Code
		action, body string
	}{
		"linked to that Net already":    {apierror.GatewayLinked, "LinkVirtualGateway", linking(gateway, net)},
		"linked to another Net already": {apierror.GatewayLinked, "LinkVirtualGateway", linking(gateway, second)},
		"the Net has another gateway":   {apierror.NetLinked, "LinkVirtualGateway", linking(other, net)},
		"no such gateway":               {apierror.VirtualGatewayNotFound, "LinkVirtualGateway", linking("vgw-00000000", net)},
		"no such Net":                   {apierror.NetNotFound, "LinkVirtualGateway", linking(other, "vpc-00000000")},
		"linked to no Net":              {apierror.GatewayNotLinked, "UnlinkVirtualGateway", linking(other, net)},
		"not linked to that Net":        {apierror.VirtualGatewayLinkNotFound, "UnlinkVirtualGateway", linking(gateway, second)},
		"unlinking no Net":              {apierror.NetNotFound, "UnlinkVirtualGateway", linking(gateway, "vpc-00000000")},
		"unlinking no gateway":          {apierror.VirtualGatewayNotFound, "UnlinkVirtualGateway", linking("vgw-00000000", net)},
		"the link keeps the gateway":    {apierror.InUse, "DeleteVirtualGateway", about("VirtualGatewayId", gateway)},
		"the link keeps the Net":        {apierror.NetInUse, "DeleteNet", about("NetId", net)},
		"another type":                  {apierror.InvalidVpnType, "CreateVirtualGateway", `{"ConnectionType": "ipsec.2"}`},
		"no type":                       {apierror.InvalidVpnType, "CreateVirtualGateway", `{"ConnectionType": ""}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := r.With(t)
			r.Refuse(refused.code, alice, refused.action, refused.body)
		})
	}
	r.Refuse(apierror.VirtualGatewayNotFound, bob, "UnlinkVirtualGateway", linking(gateway, net))

	r.Call(alice, "UnlinkVirtualGateway", linking(gateway, net))
	r.gatewayLinks(alice, gateway, "detached "+net)
	r.linkGateway(alice, gateway, second)
	r.gatewayLinks(alice, gateway, "attached "+second, "detached "+net)
	r.linkGateway(alice, other, net)
	r.Call(alice, "UnlinkVirtualGateway", linking(gateway, second))
	r.gatewayLinks(alice, gateway, "detached "+second, "detached "+net)
	r.Call(alice, "UnlinkVirtualGateway", linking(other, net))
	r.linkGateway(alice, gateway, net)
	r.gatewayLinks(alice, gateway, "attached "+net, "detached "+second)

	// A Net that is gone is forgotten at the next change.
	r.Call(alice, "DeleteNet", about("NetId", second))
	r.gatewayLinks(alice, gateway, "attached "+net, "detached "+second)
	r.Call(alice, "UnlinkVirtualGateway", linking(gateway, net))
	r.gatewayLinks(alice, gateway, "detached "+net)
	r.Call(alice, "DeleteNet", about("NetId", net))
}

func TestReadVirtualGateways(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, second := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	idle, linked, moved := r.virtualGateway(alice), r.virtualGateway(alice), r.virtualGateway(alice)
	gone := r.virtualGateway(alice)
	r.linkGateway(alice, moved, net)
	r.Call(alice, "UnlinkVirtualGateway", linking(moved, net))
	r.linkGateway(alice, moved, second)
	r.linkGateway(alice, linked, net)
	r.Call(alice, "DeleteVirtualGateway", about("VirtualGatewayId", gone))
	r.Tag(alice, idle, api.Tag{Key: "env", Value: "test"})
	for name, row := range map[string]struct {
		filters string
		want    []string
	}{
		"all":             {`{}`, []string{idle, linked, moved, gone}},
		"by ID":           {fmt.Sprintf(`{"VirtualGatewayIds": [%q]}`, linked), []string{linked}},
		"by type":         {`{"ConnectionTypes": ["ipsec.1"]}`, []string{idle, linked, moved, gone}},
		"by another type": {`{"ConnectionTypes": ["ipsec.2"]}`, nil},
		"by Net":          {fmt.Sprintf(`{"LinkNetIds": [%q]}`, net), []string{linked, moved}},
		"attached":        {`{"LinkStates": ["attached"]}`, []string{linked, moved}},
		"detached":        {`{"LinkStates": ["detached"]}`, []string{moved}},
		"available":       {`{"States": ["available"]}`, []string{idle, linked, moved}},
		"deleted":         {`{"States": ["deleted"]}`, []string{gone}},
		"by tag":          {`{"Tags": ["env=test"]}`, []string{idle}},
	} {
		t.Run(name, func(t *testing.T) {
			r := r.With(t)
			r.Selects(r.List(alice, "ReadVirtualGateways", `{"Filters": `+row.filters+`}`), "VirtualGatewayId", row.want...)
		})
	}
	if others := r.List(bob, "ReadVirtualGateways", `{}`); len(others) > 0 {
		t.Errorf("bob sees %v", others)
	}

	// A deleted gateway is shown for an hour, and nothing can be done with it.
	r.Refuse(apierror.VirtualGatewayNotFound, alice, "DeleteVirtualGateway", about("VirtualGatewayId", gone))
	r.Refuse(apierror.VirtualGatewayNotFound, alice, "LinkVirtualGateway", linking(gone, r.net(alice, "10.2.0.0/16")))
	r.Clock.Advance(time.Hour)
	r.Update(alice, func(tx *resource.Tx) error {
		for _, k := range tx.Kinds() {
			if k.Facts().Retention > 0 {
				k.Purge(tx)
			}
		}
		return nil
	})
	r.Selects(r.List(alice, "ReadVirtualGateways", `{}`), "VirtualGatewayId", idle, linked, moved)
}

func TestVirtualGatewayQuota(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"vpg_limit": 1})
	first := r.virtualGateway(alice)
	r.Refuse(apierror.TooManyVirtualGatewayLinks, alice, "CreateVirtualGateway", `{"ConnectionType": "ipsec.1"}`)
	r.virtualGateway(bob)
	r.Call(alice, "DeleteVirtualGateway", about("VirtualGatewayId", first))
	r.virtualGateway(alice)
}

// The links of a gateway go through their life: a Net that is linked again has one
// link, and that of a deleted Net is forgotten with the next event.
func TestVirtualGatewayLinksAreForgotten(t *testing.T) {
	t.Parallel()
	r := setup(t)
	gateway, first, second := r.virtualGateway(alice), r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	shows := func(want ...string) {
		t.Helper()
		var got []string
		for _, link := range r.List(alice, "ReadVirtualGateways", `{}`)[0]["NetToVirtualGatewayLinks"].([]any) {
			o := object(link.(map[string]any))
			got = append(got, o.Text("NetId")+" "+o.Text("State"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the links are %v, want %v", got, want)
		}
	}
	for range 2 {
		r.Call(alice, "LinkVirtualGateway", linking(gateway, first))
		shows(first + " attached")
		r.Call(alice, "UnlinkVirtualGateway", linking(gateway, first))
		shows(first + " detached")
	}
	r.Call(alice, "LinkVirtualGateway", linking(gateway, second))
	shows(second+" attached", first+" detached")
	r.Call(alice, "DeleteNet", naming("NetId", first))
	r.Call(alice, "UnlinkVirtualGateway", linking(gateway, second))
	shows(second + " detached")
}
