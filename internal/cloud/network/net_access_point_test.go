package network_test

import (
	"github.com/bastide-cloud/bastide/internal/api"

	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/drivertest"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/google/go-cmp/cmp"
)

// apiService is a service of the region of tests.
const apiService = "com.outscale.test-1.api"

// accessPoint makes a Net access point and answers its ID.
func (r *region) accessPoint(account, net, service string) string {
	r.Helper()
	return r.One(account, "CreateNetAccessPoint", `{"NetId": %q, "ServiceName": %q}`, net, service).Text("NetAccessPointId")
}

// emptyTable makes a route table without routes in a Net and answers its ID.
func (r *region) emptyTable(account, net string) string {
	r.Helper()
	t := &network.RouteTable{NetId: id.Net(net)}
	r.Update(account, func(tx *resource.Tx) error { return network.RouteTables.Insert(tx, t) })
	return string(t.RouteTableId)
}

// routes checks which routes a table has to services: each as the service and
// the access point.
func (r *region) routes(account, table string, want ...string) {
	r.Helper()
	var got []string
	r.Update(account, func(tx *resource.Tx) error {
		t, err := network.RouteTables.Get(tx, id.RouteTable(table))
		if err != nil {
			return err
		}
		for _, route := range t.Routes {
			if route.DestinationServiceId == "" {
				continue
			}
			if route.CreationMethod != network.ByCreateRoute || route.DestinationIpRange != "" || route.GatewayId != "" {
				r.Errorf("a route to a service is %+v", route)
			}
			got = append(got, route.DestinationServiceId+" "+string(route.NetAccessPointId))
		}
		return nil
	})
	if !slices.Equal(got, want) {
		r.Errorf("the table %s leads to %q, want %q", table, got, want)
	}
}

func TestServices(t *testing.T) {
	t.Parallel()
	r := setup(t)
	services := r.List("", "ReadNetAccessPointServices", `{}`)
	var names []string
	ids := map[string]bool{}
	var ranges []netip.Prefix
	for _, s := range services {
		names = append(names, s.Text("ServiceName"))
		ids[s.Text("ServiceId")] = true
		for _, text := range s["IpRanges"].([]any) {
			p := netip.MustParsePrefix(text.(string))
			if slices.ContainsFunc(ranges, p.Overlaps) {
				t.Errorf("%s overlaps one of %v", p, ranges)
			}
			ranges = append(ranges, p)
		}
	}
	want := []string{"api", "directlink", "eim", "fcu", "icu", "kms", "lbu", "oos", "osu"}
	for i := range want {
		want[i] = "com.outscale.test-1." + want[i]
	}
	if !slices.Equal(names, want) || len(ids) != len(want) || len(ranges) < len(want) {
		t.Errorf("the services are %q with %d IDs and %d ranges, want %q", names, len(ids), len(ranges), want)
	}
	again := setup(t)
	r.Shows(again.List(alice, "ReadNetAccessPointServices", `{}`)[0], `{"ServiceId": %q, "ServiceName": %q, "IpRanges": ["203.0.113.0/28"]}`,
		services[0]["ServiceId"], apiService)

	r.Selects(r.List("", "ReadNetAccessPointServices", `{"Filters": {"ServiceNames": [%q, "none"]}}`, apiService), "ServiceName", apiService)
	r.Selects(r.List("", "ReadNetAccessPointServices", `{"Filters": {"ServiceIds": [%q]}}`, services[3]["ServiceId"]), "ServiceName", want[3])
}

func TestNetAccessPoint(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	first, second := r.emptyTable(alice, net), r.emptyTable(alice, net)
	service := r.someService()
	made := r.One(alice, "CreateNetAccessPoint", `{"NetId": %q, "ServiceName": %q, "RouteTableIds": [%q, %[3]q]}`, net, apiService, first)
	point := made.Text("NetAccessPointId")
	shown := func(state, tables string) string {
		return fmt.Sprintf(`{"NetAccessPointId": %q, "NetId": %q, "RouteTableIds": %s, "ServiceName": %q, "State": %q, "Tags": []}`, point, net,
			tables, apiService, state)
	}
	list := func() object { return r.List(alice, "ReadNetAccessPoints", `{}`)[0] }
	r.Shows(made, shown("pending", fmt.Sprintf("[%q]", first)))
	r.Shows(list(), shown("pending", fmt.Sprintf("[%q]", first)))
	r.routes(alice, first, service+" "+point)
	r.Selects(r.List(bob, "ReadNetAccessPoints", `{}`), "NetAccessPointId")

	update := func(rest string) object {
		t.Helper()
		return r.One(alice, "UpdateNetAccessPoint", `{"NetAccessPointId": %q%s}`, point, rest)
	}
	r.Shows(update(fmt.Sprintf(`, "AddRouteTableIds": [%q, %q]`, second, first)), shown("pending", fmt.Sprintf("[%q, %q]", first, second)))
	r.routes(alice, first, service+" "+point)
	r.routes(alice, second, service+" "+point)
	r.Shows(update(fmt.Sprintf(`, "RemoveRouteTableIds": [%q, %[1]q]`, first)), shown("pending", fmt.Sprintf("[%q]", second)))
	r.Shows(update(fmt.Sprintf(`, "RemoveRouteTableIds": [%q], "AddRouteTableIds": []`, first)), shown("pending", fmt.Sprintf("[%q]", second)))
	r.routes(alice, first)
	r.Shows(update(""), shown("pending", fmt.Sprintf("[%q]", second)))

	// A second service has a route of its own.
	other := r.One(alice, "CreateNetAccessPoint", `{"NetId": %q, "ServiceName": "com.outscale.test-1.oos", "RouteTableIds": [%q]}`, net,
		second).Text("NetAccessPointId")
	oos := r.List("", "ReadNetAccessPointServices", `{"Filters": {"ServiceNames": ["com.outscale.test-1.oos"]}}`)[0].Text("ServiceId")
	r.routes(alice, second, service+" "+point, oos+" "+other)

	// Deleted, it takes its routes along and stays readable for an hour.
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", `{"NetId": %q}`, net)
	r.Call(alice, "DeleteNetAccessPoint", `{"NetAccessPointId": %q}`, point)
	r.Shows(list(), shown("deleted", "[]"))
	r.routes(alice, second, oos+" "+other)
	r.Refuse(apierror.NetAccessPointNotFound, alice, "DeleteNetAccessPoint", `{"NetAccessPointId": %q}`, point)
	r.Refuse(apierror.NetAccessPointNotFound, alice, "UpdateNetAccessPoint", `{"NetAccessPointId": %q}`, point)
	r.accessPoint(alice, net, apiService) // there is none to the service any more
	r.Clock.Advance(time.Hour)
	r.Update(alice, func(tx *resource.Tx) error { network.NetAccessPoints.Purge(tx); return nil })
	if got := list().Text("NetAccessPointId"); got != other {
		t.Errorf("after an hour, the first is %s, want %s", got, other)
	}
}

func TestNetAccessPointRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	table, elsewhere, his := r.emptyTable(alice, net), r.emptyTable(alice, other), r.emptyTable(bob, r.net(bob, "10.0.0.0/16"))
	point := r.accessPoint(alice, net, apiService)
	create := func(net, service, table string) string {
		return fmt.Sprintf(`{"NetId": %q, "ServiceName": %q, "RouteTableIds": [%q]}`, net, service, table)
	}
	update := func(list, table string) string {
		return fmt.Sprintf(`{"NetAccessPointId": %q, %q: [%q]}`, point, list, table)
	}
	tests := []struct {
		name, account, action, body string
		want                        apierror.Code
	}{
		{"no Net", alice, "CreateNetAccessPoint", fmt.Sprintf(`{"ServiceName": %q}`, apiService), apierror.MissingParameter},
		{"no service", alice, "CreateNetAccessPoint", fmt.Sprintf(`{"NetId": %q}`, net), apierror.MissingParameter},
		{"unknown Net", alice, "CreateNetAccessPoint", create("vpc-00000000", apiService, table), apierror.NetNotFound},
		{"another account's Net", bob, "CreateNetAccessPoint", create(net, apiService, his), apierror.NetNotFound},
		{"unknown service", alice, "CreateNetAccessPoint", create(net, "com.outscale.test-1.s3", table), apierror.ServiceNotFound},
		{"another region's service", alice, "CreateNetAccessPoint", create(net, "com.outscale.test-2.api", table), apierror.ServiceNotFound},
		{"the same service again", alice, "CreateNetAccessPoint", create(net, apiService, table), apierror.NetAccessPointExists},
		{"unknown table", alice, "CreateNetAccessPoint", create(other, apiService, "rtb-00000000"), apierror.RouteTableNotFound},
		{"another account's table", alice, "CreateNetAccessPoint", create(other, apiService, his), apierror.RouteTableNotFound},
		{"another Net's table", alice, "CreateNetAccessPoint", create(other, apiService, table), apierror.InvalidParameter},
		{"update of none", alice, "UpdateNetAccessPoint", `{"NetAccessPointId": "vpce-00000000"}`, apierror.NetAccessPointNotFound},
		{"update of another account's", bob, "UpdateNetAccessPoint", update("AddRouteTableIds", his), apierror.NetAccessPointNotFound},
		{"adding an unknown table", alice, "UpdateNetAccessPoint", update("AddRouteTableIds", "rtb-00000000"), apierror.RouteTableNotFound},
		{"adding another account's table", alice, "UpdateNetAccessPoint", update("AddRouteTableIds", his), apierror.RouteTableNotFound},
		{"adding another Net's table", alice, "UpdateNetAccessPoint", update("AddRouteTableIds", elsewhere), apierror.InvalidParameter},
		{"removing an unknown table", alice, "UpdateNetAccessPoint", update("RemoveRouteTableIds", "rtb-00000000"), apierror.RouteTableNotFound},
		{"adding and removing a table", alice, "UpdateNetAccessPoint",
			fmt.Sprintf(`{"NetAccessPointId": %q, "AddRouteTableIds": [%q], "RemoveRouteTableIds": [%[2]q]}`, point,
				table), apierror.InvalidParameterSet},
		{"deletion of none", alice, "DeleteNetAccessPoint", `{"NetAccessPointId": "vpce-00000000"}`, apierror.NetAccessPointNotFound},
		{"deletion of another account's", bob, "DeleteNetAccessPoint", fmt.Sprintf(`{"NetAccessPointId": %q}`, point),
			apierror.NetAccessPointNotFound},
		{"deletion of what is none", alice, "DeleteNetAccessPoint", fmt.Sprintf(`{"NetAccessPointId": %q}`, net), apierror.InvalidID},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, test.account, test.action, test.body) })
	}
	r.routes(alice, table)
	r.routes(alice, elsewhere)
}

func TestNetAccessPointQuota(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"network_endpoint_limit": 1})
	net := r.net(alice, "10.0.0.0/16")
	point := r.accessPoint(alice, net, apiService)
	r.Refuse(apierror.TooManyNetAccessPoints, alice, "CreateNetAccessPoint", `{"NetId": %q, "ServiceName": "com.outscale.test-1.oos"}`, net)
	r.Call(alice, "DeleteNetAccessPoint", `{"NetAccessPointId": %q}`, point)
	r.accessPoint(alice, net, "com.outscale.test-1.oos")
}

func TestNetAccessPointFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	first, second := r.accessPoint(alice, net, apiService), r.accessPoint(alice, other, apiService)
	third := r.accessPoint(alice, net, "com.outscale.test-1.oos")
	r.Call(alice, "DeleteNetAccessPoint", `{"NetAccessPointId": %q}`, third)
	r.Tag(alice, second, api.Tag{Key: "env", Value: "test"})
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, second, third}},
		{fmt.Sprintf(`{"NetAccessPointIds": [%q, %q]}`, second, third), []string{second, third}},
		{fmt.Sprintf(`{"NetIds": [%q]}`, net), []string{first, third}},
		{fmt.Sprintf(`{"ServiceNames": [%q]}`, apiService), []string{first, second}},
		{`{"States": ["pending", "available"]}`, []string{first, second}},
		{`{"States": ["deleted"]}`, []string{third}},
		{`{"TagKeys": ["env"]}`, []string{second}},
		{`{"TagValues": ["test"]}`, []string{second}},
		{`{"Tags": ["env=test"]}`, []string{second}},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadNetAccessPoints", `{"Filters": `+test.filters+`}`), "NetAccessPointId", test.want...)
		})
	}
}

// Access points reach the driver, which makes them available.
func TestNetAccessPointsReachTheWorld(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 4*time.Second)
	loops, end := r.run(drivers)
	defer end()
	net := r.net(alice, "10.0.0.0/16")
	point, gone := r.accessPoint(alice, net, apiService), r.accessPoint(alice, net, "com.outscale.test-1.oos")
	pending := `{"Filters": {"States": ["pending"]}}`
	r.settle(loops)
	r.Selects(r.List(alice, "ReadNetAccessPoints", pending), "NetAccessPointId", point, gone)
	// One may go before it was ever there.
	r.Call(alice, "DeleteNetAccessPoint", `{"NetAccessPointId": %q}`, gone)
	r.finish(loops)
	r.Selects(r.List(alice, "ReadNetAccessPoints", `{"Filters": {"States": ["available"]}}`), "NetAccessPointId", point)
	has := func(want ...driver.AccessPoint) {
		t.Helper()
		got, err := drivers.ObserveNets(t.Context())
		if err != nil || len(got) != 1 {
			t.Fatalf("the driver has the Nets %v, %v", got, err)
		}
		if diff := cmp.Diff(want, got[0].AccessPoints, drivertest.Equal()); diff != "" {
			t.Errorf("the driver has (-want +got):\n%s", diff)
		}
	}
	has(driver.AccessPoint{ID: point, Service: r.someService()})
	r.Call(alice, "DeleteNetAccessPoint", `{"NetAccessPointId": %q}`, point)
	r.finish(loops) // which takes longer than they are kept
	has()
	r.Selects(r.List(alice, "ReadNetAccessPoints", `{}`), "NetAccessPointId")
}
