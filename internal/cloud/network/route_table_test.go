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

// table makes a route table and answers its ID.
func (r *region) table(account, net string) string {
	r.Helper()
	return r.One(account, "CreateRouteTable", `{"NetId": %q}`, net).Text("RouteTableId")
}

// mainTable reads the main route table of a Net.
func (r *region) mainTable(account, net string) object {
	r.Helper()
	tables := r.List(account, "ReadRouteTables", `{"Filters": {"NetIds": [%q], "LinkRouteTableMain": true}}`, net)
	if len(tables) != 1 {
		r.Fatalf("the Net %s has %d main route tables", net, len(tables))
	}
	return tables[0]
}

// linkTable links a route table to a Subnet and answers the ID of the link.
func (r *region) linkTable(account, table, subnet string) string {
	r.Helper()
	return r.Call(account, "LinkRouteTable", `{"RouteTableId": %q, "SubnetId": %q}`, table, subnet).Text("LinkRouteTableId")
}

// links are the links of a route table.
func (r *region) links(account, table string) (links []object) {
	r.Helper()
	tables := r.List(account, "ReadRouteTables", `{"Filters": {"RouteTableIds": [%q]}}`, table)
	for _, link := range tables[0]["LinkRouteTables"].([]any) {
		links = append(links, link.(map[string]any))
	}
	return links
}

func TestMainRouteTable(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	main := r.mainTable(alice, net)
	link := object(main["LinkRouteTables"].([]any)[0].(map[string]any))
	r.Shows(main, `{"RouteTableId": %q, "NetId": %q, "Tags": [], "RoutePropagatingVirtualGateways": [],
		"LinkRouteTables": [{"LinkRouteTableId": %q, "RouteTableId": %[1]q, "Main": true, "NetId": %[2]q}],
		"Routes": [{"DestinationIpRange": "10.0.0.0/16", "GatewayId": "local", "CreationMethod": "CreateRouteTable", "State": "active"}]}`,
		main["RouteTableId"], net, link["LinkRouteTableId"])

	r.Refuse(apierror.InUse, alice, "DeleteRouteTable", `{"RouteTableId": %q}`, main["RouteTableId"])
	r.Refuse(apierror.InvalidParameter, alice, "UnlinkRouteTable", `{"LinkRouteTableId": %q}`, link["LinkRouteTableId"])
	r.Call(alice, "DeleteNet", `{"NetId": %q}`, net)
	r.Selects(r.List(alice, "ReadRouteTables", `{}`), "RouteTableId")
}

func TestRouteTable(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	subnet, other := r.subnet(alice, net, "10.0.0.0/24"), r.subnet(alice, net, "10.0.1.0/24")
	made := r.One(alice, "CreateRouteTable", `{"NetId": %q}`, net)
	table := made.Text("RouteTableId")
	want := fmt.Sprintf(`{"RouteTableId": %q, "NetId": %q, "Tags": [], "RoutePropagatingVirtualGateways": [], "LinkRouteTables": [],
		"Routes": [{"DestinationIpRange": "10.0.0.0/16", "GatewayId": "local", "CreationMethod": "CreateRouteTable", "State": "active"}]}`,
		table, net)
	r.Shows(made, want)
	r.Shows(r.List(alice, "ReadRouteTables", `{"Filters": {"RouteTableIds": [%q]}}`, table)[0], want)

	// A Subnet is linked to one table, a table to any number of Subnets.
	link, second := r.linkTable(alice, table, subnet), r.linkTable(alice, table, other)
	r.Shows(r.links(alice, table)[0], `{"LinkRouteTableId": %q, "RouteTableId": %q, "SubnetId": %q, "Main": false}`, link, table, subnet)
	r.Selects(r.links(alice, table), "SubnetId", subnet, other)
	r.Refuse(apierror.SubnetLinked, alice, "LinkRouteTable", `{"RouteTableId": %q, "SubnetId": %q}`, table, subnet)
	r.Refuse(apierror.SubnetLinked, alice, "LinkRouteTable", `{"RouteTableId": %q, "SubnetId": %q}`, r.mainTable(alice, net)["RouteTableId"],
		subnet)
	r.Refuse(apierror.InUse, alice, "DeleteRouteTable", `{"RouteTableId": %q}`, table)

	// A Subnet takes its link along.
	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, subnet)
	r.Selects(r.links(alice, table), "SubnetId", other)
	r.Refuse(apierror.RouteTableLinkNotFound, alice, "UnlinkRouteTable", `{"LinkRouteTableId": %q}`, link)
	r.Call(alice, "UnlinkRouteTable", `{"LinkRouteTableId": %q}`, second)

	// A table of its own keeps a Net.
	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, other)
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", `{"NetId": %q}`, net)
	r.Call(alice, "DeleteRouteTable", `{"RouteTableId": %q}`, table)
	r.Call(alice, "DeleteNet", `{"NetId": %q}`, net)
}

func TestUpdateRouteTableLink(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	subnet := r.subnet(alice, net, "10.0.0.0/24")
	main, table := r.mainTable(alice, net).Text("RouteTableId"), r.table(alice, net)
	move := func(link, to string) string {
		return r.Call(alice, "UpdateRouteTableLink", `{"LinkRouteTableId": %q, "RouteTableId": %q}`, link, to).Text("LinkRouteTableId")
	}

	// A Subnet's link goes to another table, under another ID.
	first := r.linkTable(alice, table, subnet)
	moved := move(first, main)
	if moved == first {
		t.Errorf("the link has the same ID on another table")
	}
	r.Selects(r.links(alice, main), "LinkRouteTableId", r.links(alice, main)[0].Text("LinkRouteTableId"), moved)
	r.Selects(r.links(alice, table), "LinkRouteTableId")
	r.Refuse(apierror.RouteTableLinkNotFound, alice, "UpdateRouteTableLink", `{"LinkRouteTableId": %q, "RouteTableId": %q}`, first, table)
	back := move(moved, table)

	// The main link goes before the others, and back.
	link := r.links(alice, main)[0].Text("LinkRouteTableId")
	now := move(link, table)
	if got := r.mainTable(alice, net); got["RouteTableId"] != table {
		t.Errorf("the main table is %v, want %s", got["RouteTableId"], table)
	}
	r.Shows(r.links(alice, table)[0], `{"LinkRouteTableId": %q, "RouteTableId": %q, "NetId": %q, "Main": true}`, now, table, net)
	r.Selects(r.links(alice, table), "LinkRouteTableId", now, back)
	r.Selects(r.links(alice, main), "LinkRouteTableId")
	r.Refuse(apierror.InUse, alice, "DeleteRouteTable", `{"RouteTableId": %q}`, table)
	if same := move(now, table); same != now {
		t.Errorf("the link to the table that it is of is %s, want %s", same, now)
	}
	move(now, main)
	if got := r.mainTable(alice, net); got["RouteTableId"] != main {
		t.Errorf("the main table is %v again, want %s", got["RouteTableId"], main)
	}

	// The former main table is one like any other, and keeps the Net.
	move(r.links(alice, main)[0].Text("LinkRouteTableId"), table)
	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, subnet)
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", `{"NetId": %q}`, net)
	r.Call(alice, "DeleteRouteTable", `{"RouteTableId": %q}`, main)
	r.Call(alice, "DeleteNet", `{"NetId": %q}`, net)
}

func TestRouteTableRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, elsewhere := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	subnet, there := r.subnet(alice, net, "10.0.0.0/24"), r.subnet(alice, elsewhere, "10.1.0.0/24")
	table, far := r.table(alice, net), r.table(alice, elsewhere)
	link := r.linkTable(alice, table, subnet)
	tests := []struct {
		name, account, action, body string
		want                        apierror.Code
	}{
		{"no Net", alice, "CreateRouteTable", `{}`, apierror.MissingParameter},
		{"unknown Net", alice, "CreateRouteTable", `{"NetId": "vpc-00000000"}`, apierror.NetNotFound},
		{"another account's Net", bob, "CreateRouteTable", fmt.Sprintf(`{"NetId": %q}`, net), apierror.NetNotFound},
		{"deletion of no table", alice, "DeleteRouteTable", `{"RouteTableId": "rtb-00000000"}`, apierror.RouteTableNotFound},
		{"deletion of another account's table", bob, "DeleteRouteTable", fmt.Sprintf(`{"RouteTableId": %q}`, far), apierror.RouteTableNotFound},
		{"deletion of what is no table", alice, "DeleteRouteTable", fmt.Sprintf(`{"RouteTableId": %q}`, link), apierror.InvalidID},
		{"link of no table", alice, "LinkRouteTable", fmt.Sprintf(`{"RouteTableId": "rtb-00000000", "SubnetId": %q}`, there),
			apierror.RouteTableNotFound},
		{"link to no Subnet", alice, "LinkRouteTable", fmt.Sprintf(`{"RouteTableId": %q, "SubnetId": "subnet-00000000"}`, table),
			apierror.SubnetNotFound},
		{"link to another Net's Subnet", alice, "LinkRouteTable", fmt.Sprintf(`{"RouteTableId": %q, "SubnetId": %q}`, table, there),
			apierror.InvalidParameter},
		{"another account's link", bob, "UnlinkRouteTable", fmt.Sprintf(`{"LinkRouteTableId": %q}`, link), apierror.RouteTableLinkNotFound},
		{"no link", alice, "UnlinkRouteTable", `{"LinkRouteTableId": ""}`, apierror.RouteTableLinkNotFound},
		{"move of no link", alice, "UpdateRouteTableLink", fmt.Sprintf(`{"LinkRouteTableId": "rtbassoc-00000000", "RouteTableId": %q}`, table),
			apierror.RouteTableLinkNotFound},
		{"move of no link to no table", alice, "UpdateRouteTableLink",
			`{"LinkRouteTableId": "rtbassoc-00000000", "RouteTableId": "rtb-00000000"}`, apierror.RouteTableNotFound},
		{"move to no table", alice, "UpdateRouteTableLink", fmt.Sprintf(`{"LinkRouteTableId": %q, "RouteTableId": "rtb-00000000"}`, link),
			apierror.RouteTableNotFound},
		{"move to another Net's table", alice, "UpdateRouteTableLink", fmt.Sprintf(`{"LinkRouteTableId": %q, "RouteTableId": %q}`, link, far),
			apierror.InvalidParameter},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, test.account, test.action, test.body) })
	}
}

func TestRouteTableLeavesItsAccessPoints(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	table, other := r.table(alice, net), r.table(alice, net)
	point := &network.NetAccessPoint{NetId: id.Net(net), RouteTableIds: []id.RouteTable{id.RouteTable(table), id.RouteTable(other)}}
	r.Update(alice, func(tx *resource.Tx) error { return network.NetAccessPoints.Insert(tx, point) })
	r.Call(alice, "DeleteRouteTable", `{"RouteTableId": %q}`, table)
	r.Update(alice, func(tx *resource.Tx) error {
		got, err := network.NetAccessPoints.Get(tx, point.NetAccessPointId)
		if err == nil && (len(got.RouteTableIds) != 1 || string(got.RouteTableIds[0]) != other) {
			t.Errorf("the access point has %q left, want %q", got.RouteTableIds, other)
		}
		return err
	})
}

func TestRouteTableQuotaIsPerNet(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"rtb_limit": 2})
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.0.0.0/16")
	table := r.table(alice, net)
	r.Refuse(apierror.TooManyRouteTables, alice, "CreateRouteTable", `{"NetId": %q}`, net)
	r.table(alice, other)
	r.Call(alice, "DeleteRouteTable", `{"RouteTableId": %q}`, table)
	r.table(alice, net)
}

func TestRouteTableFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	main, far := r.mainTable(alice, net), r.mainTable(alice, other).Text("RouteTableId")
	first, second, third := main.Text("RouteTableId"), r.table(alice, net), r.table(alice, net)
	subnet := r.subnet(alice, net, "10.0.0.0/24")
	link := r.linkTable(alice, second, subnet)
	service := r.linkInternet(alice, net)
	vm := "i-0000000a"
	nic := r.placeNic(alice, subnet, "10.0.0.9", vm)
	for _, target := range []string{
		fmt.Sprintf(`"DestinationIpRange": "0.0.0.0/0", "GatewayId": %q`, service),
		fmt.Sprintf(`"DestinationIpRange": "192.0.2.0/24", "NicId": %q`, nic),
	} {
		r.Call(alice, "CreateRoute", `{"RouteTableId": %q, %s}`, second, target)
	}
	nat := r.nat(alice, subnet)
	r.Call(alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "0.0.0.0/0", "NatServiceId": %q}`, third, nat)
	peering := r.placePeering(alice, network.PeeringPending, net, other)
	r.Call(alice, "CreateRoute", `{"RouteTableId": %q, "DestinationIpRange": "10.1.0.0/16", "NetPeeringId": %q}`, third, peering)
	r.Tag(alice, third, api.Tag{Key: "env", Value: "test"})
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, far, second, third}},
		{fmt.Sprintf(`{"LinkRouteTableIds": [%q, %q]}`, second, third), []string{second}},
		{fmt.Sprintf(`{"LinkRouteTableLinkRouteTableIds": [%q]}`, link), []string{second}},
		{`{"LinkRouteTableMain": true}`, []string{first, far}},
		{`{"LinkRouteTableMain": false}`, []string{second, third}}, // third has no link
		{fmt.Sprintf(`{"LinkRouteTableMain": false, "NetIds": [%q]}`, other), nil},
		{fmt.Sprintf(`{"LinkRouteTableMain": true, "NetIds": [%q]}`, other), []string{far}},
		{fmt.Sprintf(`{"LinkSubnetIds": [%q]}`, subnet), []string{second}},
		{fmt.Sprintf(`{"NetIds": [%q]}`, net), []string{first, second, third}},
		{`{"RouteCreationMethods": ["CreateRoute"]}`, []string{second, third}},
		{`{"RouteCreationMethods": ["EnableVgwRoutePropagation"]}`, nil},
		{`{"RouteDestinationIpRanges": ["10.1.0.0/16"]}`, []string{far, third}},
		{fmt.Sprintf(`{"RouteDestinationIpRanges": ["0.0.0.0/0"], "RouteTableIds": [%q]}`, third), []string{third}},
		{`{"RouteDestinationServiceIds": ["pl-00000000"]}`, nil},
		{`{"RouteGatewayIds": ["local"]}`, []string{first, far, second, third}},
		{fmt.Sprintf(`{"RouteGatewayIds": [%q]}`, service), []string{second}},
		{fmt.Sprintf(`{"RouteNatServiceIds": [%q]}`, nat), []string{third}},
		{fmt.Sprintf(`{"RouteNetPeeringIds": [%q]}`, peering), []string{third}},
		{`{"RouteStates": ["blackhole"]}`, []string{third}},
		{`{"RouteStates": ["active"]}`, []string{first, far, second, third}},
		{fmt.Sprintf(`{"RouteTableIds": [%q, "rtb-00000000"]}`, second), []string{second}},
		{fmt.Sprintf(`{"RouteVmIds": [%q]}`, vm), []string{second}},
		{`{"TagKeys": ["env"]}`, []string{third}},
		{`{"TagValues": ["test"]}`, []string{third}},
		{`{"Tags": ["env=test"]}`, []string{third}},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadRouteTables", `{"Filters": `+test.filters+`}`), "RouteTableId", test.want...)
		})
	}
}
