package network_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/google/go-cmp/cmp"
)

// switches are a driver of interfaces and no tunnels.
type switches struct {
	driver.Links // whose other methods nobody calls

	mu  sync.Mutex // guards what follows
	has map[string]driver.Interface
	err error // of all calls
}

func newSwitches() *switches { return &switches{has: map[string]driver.Interface{}} }

func (s *switches) EnsureInterface(_ context.Context, i driver.Interface) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.has[i.Account+" "+i.ID].Generation > i.Generation {
		return driver.ErrStale
	}
	s.has[i.Account+" "+i.ID] = i
	return nil
}

func (s *switches) RemoveInterface(_ context.Context, account, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		delete(s.has, account+" "+id)
	}
	return s.err
}

func (s *switches) ObserveInterfaces(context.Context) ([]driver.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.has)), s.err
}

func (s *switches) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// only checks that the driver has one interface, and answers it.
func (s *switches) only(t *testing.T) driver.Interface {
	t.Helper()
	has, err := s.ObserveInterfaces(t.Context())
	if err != nil || len(has) != 1 {
		t.Fatalf("the driver has %v, %v, want one interface", has, err)
	}
	return has[0]
}

// runLinks starts the loops of links over a driver and its switches.
func (r *region) runLinks(delay time.Duration) (*switches, *reconcile.Reconciler, func()) {
	drivers, links := sim.New(r.Clock.Now, delay), newSwitches()
	loops, end := r.run(drivers, network.NewDirectLinkLoop(r.DB, drivers), network.NewInterfaceLoop(r.DB, links),
		network.NewInterfaceExpiryLoop(r.DB))
	return links, loops, end
}

// gateway makes a virtual gateway and answers its ID.
func (r *region) gateway(account string) string {
	r.Helper()
	var gateway id.VirtualGateway
	r.Update(account, func(tx *resource.Tx) error {
		g := &network.VirtualGateway{ConnectionType: network.Ipsec}
		err := network.VirtualGateways.Insert(tx, g)
		gateway = g.VirtualGatewayId
		return err
	})
	return string(gateway)
}

// plugging is a request for an interface, with more to say of it.
func plugging(link, gateway string, vlan int, more string) string {
	return fmt.Sprintf(`{"DirectLinkId": %q, "DirectLinkInterface": {"BgpAsn": 65000, "DirectLinkInterfaceName": "Paris",
		"VirtualGatewayId": %q, "Vlan": %d%s}}`, link, gateway, vlan, more)
}

// plug makes an interface and answers its ID.
func (r *region) plug(account, link, gateway string, vlan int) string {
	r.Helper()
	return r.One(account, "CreateDirectLinkInterface", plugging(link, gateway, vlan, "")).Text("DirectLinkInterfaceId")
}

// shown reads an interface; nil: the account does not see it.
func (r *region) shown(account, which string) object {
	r.Helper()
	list := r.List(account, "ReadDirectLinkInterfaces", `{"Filters": {"DirectLinkInterfaceIds": [%q]}}`, which)
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// isInterface checks the state of an interface in the eyes of accounts.
func (r *region) isInterface(which string, want network.InterfaceState, accounts ...string) {
	r.Helper()
	for _, account := range accounts {
		if i := r.shown(account, which); i == nil || i["State"] != string(want) {
			r.Errorf("%s sees the interface %v, want it %s", account, i, want)
		}
	}
}

func TestDirectLinkInterface(t *testing.T) {
	t.Parallel()
	r := setup(t)
	link, gateway := r.link(alice), r.gateway(alice)
	const addresses = `, "BgpKey": "a secret key", "OutscalePrivateIp": "172.16.0.4/30", "ClientPrivateIp": "172.16.0.5/30"`
	made := r.One(alice, "CreateDirectLinkInterface", plugging(link, gateway, 101, addresses))
	want := fmt.Sprintf(`{"AccountId": %q, "BgpAsn": 65000, "ClientPrivateIp": "172.16.0.5/30", "DirectLinkId": %q,
		"DirectLinkInterfaceId": %q,
		"DirectLinkInterfaceName": "Paris", "InterfaceType": "private", "Location": "LOC1", "Mtu": 1500, "OutscalePrivateIp": "172.16.0.4/30",
		"State": "pending", "VirtualGatewayId": %q, "Vlan": 101}`, alice, link, made["DirectLinkInterfaceId"], gateway)
	which := naming("DirectLinkInterfaceId", made.Text("DirectLinkInterfaceId"))
	r.Shows(made, want)
	r.Shows(r.shown(alice, made.Text("DirectLinkInterfaceId")), want)
	r.Shows(r.One(alice, "UpdateDirectLinkInterface", which[:len(which)-1]+`, "Mtu": 1500}`), want)
	r.Selects(r.List(bob, "ReadDirectLinkInterfaces", `{}`), "DirectLinkInterfaceId")

	// Neither the link nor the gateway may go before it.
	r.Refuse(apierror.InUse, alice, "DeleteDirectLink", naming("DirectLinkId", link))
	deleteGateway := func(tx *resource.Tx) error {
		g, err := network.VirtualGateways.Get(tx, id.VirtualGateway(gateway))
		if err != nil {
			return err
		}
		return network.VirtualGateways.Delete(tx, g)
	}
	err := r.DB.Update(t.Context(), resource.Caller{Account: alice}, deleteGateway)
	if !apierror.InUse.Is(err) || !strings.Contains(err.Error(), made.Text("DirectLinkInterfaceId")) {
		t.Errorf("the deletion of the gateway ends with %v", err)
	}
	r.Call(alice, "DeleteDirectLinkInterface", which)
	r.isInterface(made.Text("DirectLinkInterfaceId"), network.InterfaceDeleted, alice)
	r.Refuse(apierror.DirectLinkInterfaceNotFound, alice, "DeleteDirectLinkInterface", which)
	r.Call(alice, "DeleteDirectLink", naming("DirectLinkId", link))
	r.Update(alice, deleteGateway)
}

func TestDirectLinkInterfaceVersions(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.Version = api.Version{Major: 1, Minor: 1}
	made := r.One(alice, "CreateDirectLinkInterface", plugging(r.link(alice), r.gateway(alice), 101, ""))
	if _, ok := made["Mtu"]; ok {
		t.Errorf("version 1.1 shows an Mtu: %v", made)
	}
}

func TestDirectLinkInterfaceRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	link, gateway := r.link(alice), r.gateway(alice)
	taken := r.plug(alice, link, gateway, 101)
	bobsLink, bobsGateway := r.link(bob), r.gateway(bob)
	asn := func(n int) string {
		return strings.Replace(plugging(link, gateway, 102, ""), "65000", fmt.Sprint(n), 1)
	}
	ends := func(ours, clients string) string {
		return plugging(link, gateway, 102, fmt.Sprintf(`, "OutscalePrivateIp": %q, "ClientPrivateIp": %q`, ours, clients))
	}
	tests := []struct {
		name, action, body string
		want               apierror.Code
	}{
		{"no link", "CreateDirectLinkInterface", plugging("dxcon-00000000", gateway, 102, ""), apierror.DirectLinkNotFound},
		{"an empty link", "CreateDirectLinkInterface", plugging("", gateway, 102, ""), apierror.DirectLinkNotFound},
		{"another's link", "CreateDirectLinkInterface", plugging(bobsLink, gateway, 102, ""), apierror.DirectLinkNotFound},
		{"no gateway", "CreateDirectLinkInterface", plugging(link, "vgw-00000000", 102, ""), apierror.VirtualGatewayNotFound},
		{"an empty gateway", "CreateDirectLinkInterface", plugging(link, "", 102, ""), apierror.VirtualGatewayNotFound},
		{"another's gateway", "CreateDirectLinkInterface", plugging(link, bobsGateway, 102, ""), apierror.VirtualGatewayNotFound},
		{"the VLAN of another", "CreateDirectLinkInterface", plugging(link, gateway, 101, ""), apierror.VlanTaken},
		{"VLAN 1", "CreateDirectLinkInterface", plugging(link, gateway, 1, ""), apierror.InvalidValue},
		{"VLAN 4095", "CreateDirectLinkInterface", plugging(link, gateway, 4095, ""), apierror.InvalidValue},
		{"ASN before the first", "CreateDirectLinkInterface", asn(64511), apierror.InvalidAsn},
		{"ASN after the last", "CreateDirectLinkInterface", asn(65535), apierror.InvalidAsn},
		{"a long key", "CreateDirectLinkInterface", plugging(link, gateway, 102, `, "BgpKey": "`+strings.Repeat("k", 81)+`"`),
			apierror.InvalidLength},
		{"only our address", "CreateDirectLinkInterface", ends("10.0.0.1/30", ""), apierror.MissingParameter},
		{"only the client's address", "CreateDirectLinkInterface", ends("", "10.0.0.1/30"), apierror.MissingParameter},
		{"other ranges", "CreateDirectLinkInterface", ends("10.0.0.1/30", "10.0.0.5/30"), apierror.InvalidParameter},
		{"other lengths", "CreateDirectLinkInterface", ends("10.0.0.1/30", "10.0.0.2/29"), apierror.InvalidParameter},
		{"the same address", "CreateDirectLinkInterface", ends("10.0.0.1/30", "10.0.0.1/30"), apierror.InvalidParameter},
		{"an address without a length", "CreateDirectLinkInterface", ends("10.0.0.1", "10.0.0.2"), apierror.InvalidIP},
		{"IPv6", "CreateDirectLinkInterface", ends("fd00::1/64", "fd00::2/64"), apierror.InvalidIP},
		{"multicast", "CreateDirectLinkInterface", ends("224.0.0.1/30", "224.0.0.2/30"), apierror.InvalidIPAddress},
		{"loopback", "CreateDirectLinkInterface", ends("127.0.0.1/30", "127.0.0.2/30"), apierror.InvalidIPAddress},
		{"no ASN", "CreateDirectLinkInterface", strings.Replace(plugging(link, gateway, 102, ""), `"BgpAsn": 65000, `, "", 1),
			apierror.MissingParameter},
		{"an update of none", "UpdateDirectLinkInterface", `{"DirectLinkInterfaceId": "dxvif-00000000", "Mtu": 1500}`,
			apierror.DirectLinkInterfaceNotFound},
		{"an update without a size", "UpdateDirectLinkInterface", naming("DirectLinkInterfaceId", taken), apierror.MissingParameter},
		{"large packets", "UpdateDirectLinkInterface", fmt.Sprintf(`{"DirectLinkInterfaceId": %q, "Mtu": 9001}`, taken), apierror.InvalidValue},
		{"a deletion of none", "DeleteDirectLinkInterface", `{"DirectLinkInterfaceId": "dxvif-00000000"}`, apierror.DirectLinkInterfaceNotFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, alice, test.action, test.body) })
	}
	for _, clients := range []string{"10.0.0.5/30", "10.0.0.1/30"} {
		_, err := r.Try(alice, "CreateDirectLinkInterface", ends("10.0.0.1/30", clients))
		if text := apierror.From(err).Details; !strings.Contains(text, "OutscalePrivateIp") || !strings.Contains(text, "ClientPrivateIp") {
			t.Errorf("the refusal of %s as the client's end names no parameter: %s", clients, text)
		}
	}
	r.Refuse(apierror.DirectLinkInterfaceNotFound, bob, "DeleteDirectLinkInterface", naming("DirectLinkInterfaceId", taken))
	for n, body := range []string{plugging(link, gateway, 2, ""), plugging(link, gateway, 4094, ""),
		strings.Replace(asn(64512), "102", "3", 1), strings.Replace(asn(65534), "102", "4", 1)} {
		if _, err := r.Try(alice, "CreateDirectLinkInterface", body); err != nil {
			t.Errorf("bound %d: %v", n, err)
		}
	}
	r.plug(bob, bobsLink, bobsGateway, 101)                                                // a VLAN is a link's
	r.Call(alice, "DeleteDirectLinkInterface", naming("DirectLinkInterfaceId", taken))     // and is free…
	if again := r.plug(alice, link, gateway, 101); r.shown(alice, again)["Vlan"] != 101. { // …once nobody has it
		t.Error("VLAN 101 is not given again")
	}
}

func TestDirectLinkInterfaceQuotaIsPerLink(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"dl_interface_limit": 1})
	link, other, gateway := r.link(alice), r.link(alice), r.gateway(alice)
	first := r.plug(alice, link, gateway, 2)
	r.Refuse(apierror.TooManyDirectLinkInterfaces, alice, "CreateDirectLinkInterface", plugging(link, gateway, 3, ""))
	r.plug(alice, other, gateway, 3)
	r.Call(alice, "DeleteDirectLinkInterface", naming("DirectLinkInterfaceId", first))
	r.plug(alice, link, gateway, 3)
}

func TestDirectLinkInterfaceFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	link, other, gateway := r.link(alice), r.link(alice), r.gateway(alice)
	first, second := r.plug(alice, link, gateway, 2), r.plug(alice, other, gateway, 2)
	for filters, want := range map[string][]string{
		`{}`:                                   {first, second},
		`{"DirectLinkIds": ["` + other + `"]}`: {second},
		`{"DirectLinkInterfaceIds": ["` + first + `"]}`:                                         {first},
		`{"DirectLinkIds": ["` + other + `"], "DirectLinkInterfaceIds": ["` + first + `"]}`:     nil,
		`{"DirectLinkIds": ["` + other + `", "` + link + `"], "DirectLinkInterfaceIds": ["x"]}`: nil,
	} {
		t.Run(filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadDirectLinkInterfaces", `{"Filters": `+filters+`}`), "DirectLinkInterfaceId", want...)
		})
	}
}

// Addresses that nobody asked for are those of a range that no other has.
func TestInterfaceAddressesAreChosen(t *testing.T) {
	t.Parallel()
	r := setup(t)
	link, gateway := r.link(alice), r.gateway(alice)
	linkLocal, metadata := netip.MustParsePrefix("169.254.0.0/16"), netip.MustParseAddr("169.254.169.254")
	taken := map[netip.Prefix]bool{}
	wide := netip.MustParsePrefix("169.254.0.0/17")
	r.Call(alice, "CreateDirectLinkInterface",
		plugging(link, gateway, 101, `, "OutscalePrivateIp": "169.254.0.1/17", "ClientPrivateIp": "169.254.0.2/17"`))
	for vlan := 2; vlan < 100; vlan++ {
		i := r.shown(alice, r.plug(alice, link, gateway, vlan))
		ours, clients := netip.MustParsePrefix(i.Text("OutscalePrivateIp")), netip.MustParsePrefix(i.Text("ClientPrivateIp"))
		block := ours.Masked()
		if ours.Bits() != 30 || block != clients.Masked() || ours.Addr() != block.Addr().Next() || clients.Addr() != ours.Addr().Next() {
			t.Fatalf("the ends are %s and %s", ours, clients)
		}
		if taken[block] || block.Overlaps(wide) || !linkLocal.Contains(block.Addr()) || block.Contains(metadata) {
			t.Fatalf("the range is %s", block)
		}
		taken[block] = true
	}
}

// An interface is in the driver once its link is, and follows its gateway.
func TestDirectLinkInterfaceInTheWorld(t *testing.T) {
	t.Parallel()
	r := setup(t)
	links, loops, end := r.runLinks(4 * time.Second)
	defer end()
	link, gateway := r.link(alice), r.gateway(alice)
	which := r.One(alice, "CreateDirectLinkInterface", plugging(link, gateway, 101,
		`, "BgpKey": "a secret key", "OutscalePrivateIp": "172.16.0.4/30", "ClientPrivateIp": "172.16.0.5/30"`)).Text("DirectLinkInterfaceId")
	r.settle(loops)
	r.isInterface(which, network.InterfacePending, alice)
	if has, err := links.ObserveInterfaces(t.Context()); err != nil || len(has) > 0 {
		t.Errorf("before the cable, the driver has %v, %v", has, err)
	}
	r.finish(loops)
	r.isInterface(which, network.InterfaceAvailable, alice)
	want := driver.Interface{
		Account: alice, ID: which, Link: link, Location: "LOC1", Vlan: 101, Mtu: 1500, Gateway: gateway,
		Local: netip.MustParsePrefix("172.16.0.4/30"), Remote: netip.MustParsePrefix("172.16.0.5/30"), LocalAsn: 50624, RemoteAsn: 65000,
		Secret: "a secret key",
	}
	isThere := func() {
		t.Helper()
		got := links.only(t)
		got.Generation = 0
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if pending, err := r.DB.Pending(t.Context()); err != nil || len(pending) > 0 {
			t.Errorf("unsettled are %v, %v", pending, err)
		}
	}
	isThere()

	// The gateway is linked to a Net.
	net := r.net(alice, "10.0.0.0/16")
	r.Update(alice, func(tx *resource.Tx) error {
		g, err := network.VirtualGateways.Get(tx, id.VirtualGateway(gateway))
		if err != nil {
			return err
		}
		g.NetId = id.Net(net)
		if err := network.VirtualGateways.Put(tx, g); err != nil {
			return err
		}
		return network.TouchInterfaces(tx, g.VirtualGatewayId)
	})
	r.finish(loops)
	want.Net = net
	isThere()
	r.isInterface(which, network.InterfaceAvailable, alice)

	links.fail(errors.New("the switch is off"))
	r.Call(alice, "DeleteDirectLinkInterface", naming("DirectLinkInterfaceId", which))
	r.settle(loops)
	links.fail(nil)
	links.only(t)
	r.finish(loops)
	if has, err := links.ObserveInterfaces(t.Context()); err != nil || len(has) > 0 {
		t.Errorf("the driver still has %v, %v", has, err)
	}
}

// hosted is what alice allocates for bob.
var hosted = network.DirectLinkInterfaceToCreate{BgpAsn: 65000, BgpKey: "a secret key", DirectLinkInterfaceName: "For bob", Vlan: 101}

// allocate allocates an interface for an owner and answers its ID.
func (r *region) allocate(link, owner string) string {
	r.Helper()
	var which id.DirectLinkInterface
	r.Update(alice, func(tx *resource.Tx) error {
		i, err := network.AllocateInterface(tx, id.DirectLink(link), id.Account(owner), hosted)
		if err == nil {
			which = i.DirectLinkInterfaceId
		}
		return err
	})
	return string(which)
}

// confirm confirms an interface, perhaps in vain.
func (r *region) confirm(account, which, gateway string) error {
	r.Helper()
	return r.DB.Update(context.Background(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
		_, err := network.ConfirmInterface(tx, id.DirectLinkInterface(which), id.VirtualGateway(gateway))
		return err
	})
}

func TestHostedInterface(t *testing.T) {
	t.Parallel()
	r := setup(t)
	links, loops, end := r.runLinks(0)
	defer end()
	link, gateway, alicesGateway := r.link(alice), r.gateway(bob), r.gateway(alice)
	which := r.allocate(link, bob)
	r.settle(loops)
	for _, account := range []string{alice, bob} {
		i := r.shown(account, which)
		delete(i, "OutscalePrivateIp")
		delete(i, "ClientPrivateIp")
		r.Shows(i, `{"AccountId": %q, "BgpAsn": 65000, "DirectLinkId": %q, "DirectLinkInterfaceId": %q, "DirectLinkInterfaceName": "For bob",
			"InterfaceType": "private", "Location": "LOC1", "Mtu": 1500, "State": "confirming", "Vlan": 101}`, bob, link, which)
	}
	if a, b := r.shown(alice, which), r.shown(bob, which); !maps.Equal(a, b) {
		t.Errorf("alice sees %v, and bob %v", a, b)
	}
	r.Selects(r.List(carol, "ReadDirectLinkInterfaces", `{}`), "DirectLinkInterfaceId")
	if has, err := links.ObserveInterfaces(t.Context()); err != nil || len(has) > 0 {
		t.Errorf("it carries packets unconfirmed: %v, %v", has, err)
	}
	r.Refuse(apierror.VlanTaken, alice, "CreateDirectLinkInterface", plugging(link, alicesGateway, 101, ""))
	r.Refuse(apierror.InUse, alice, "DeleteDirectLink", naming("DirectLinkId", link))

	// Its owner says where it leads to.
	for name, test := range map[string]struct {
		account, gateway string
		want             apierror.Code
	}{
		"the owner of the link":   {alice, alicesGateway, apierror.NotAuthorized},
		"a stranger":              {carol, gateway, apierror.DirectLinkInterfaceNotFound},
		"to no gateway":           {bob, "vgw-00000000", apierror.VirtualGatewayNotFound},
		"to an empty gateway":     {bob, "", apierror.VirtualGatewayNotFound},
		"to the other's gateway ": {bob, alicesGateway, apierror.VirtualGatewayNotFound},
	} {
		if err := r.confirm(test.account, which, test.gateway); !test.want.Is(err) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	if err := r.confirm(bob, which, gateway); err != nil {
		t.Fatal(err)
	}
	r.settle(loops)
	r.isInterface(which, network.InterfaceAvailable, alice, bob)
	if got := r.shown(bob, which)["VirtualGatewayId"]; got != gateway {
		t.Errorf("bob's interface leads to %v", got)
	}
	if got, ok := r.shown(alice, which)["VirtualGatewayId"]; ok {
		t.Errorf("alice is told of %v", got)
	}
	if got := links.only(t); got.Account != bob || got.Gateway != gateway || got.Link != link || got.Secret != "a secret key" {
		t.Errorf("the driver has %v", got)
	}
	if err := r.confirm(bob, which, gateway); !apierror.InvalidState.Is(err) {
		t.Errorf("confirmed twice: %v", err)
	}
	r.Clock.Advance(8 * 24 * time.Hour)
	r.settle(loops)
	r.isInterface(which, network.InterfaceAvailable, alice, bob)

	// It is on alice's link, so she may end it.
	r.Call(alice, "DeleteDirectLinkInterface", naming("DirectLinkInterfaceId", which))
	r.settle(loops)
	r.isInterface(which, network.InterfaceDeleted, alice, bob)
	if has, err := links.ObserveInterfaces(t.Context()); err != nil || len(has) > 0 {
		t.Errorf("the driver still has %v, %v", has, err)
	}
	r.Call(alice, "DeleteDirectLink", naming("DirectLinkId", link))
	r.Clock.Advance(time.Hour)
	r.settle(loops)
	for _, account := range []string{alice, bob} {
		r.Selects(r.List(account, "ReadDirectLinkInterfaces", `{}`), "DirectLinkInterfaceId")
	}
}

// An interface that nobody confirms ends in 7 days, and its VLAN is free.
func TestHostedInterfaceExpires(t *testing.T) {
	t.Parallel()
	r := setup(t)
	_, loops, end := r.runLinks(0)
	defer end()
	link, gateway := r.link(alice), r.gateway(bob)
	which := r.allocate(link, bob)
	r.Clock.Advance(7*24*time.Hour - time.Millisecond)
	r.settle(loops)
	r.isInterface(which, network.InterfaceConfirming, alice, bob)
	r.Clock.Advance(time.Millisecond)
	r.isInterface(which, network.InterfaceExpired, alice, bob)
	if err := r.confirm(bob, which, gateway); !apierror.DirectLinkInterfaceNotFound.Is(err) {
		t.Errorf("confirmed too late: %v", err)
	}
	r.Refuse(apierror.DirectLinkInterfaceNotFound, bob, "DeleteDirectLinkInterface", naming("DirectLinkInterfaceId", which))
	again := r.allocate(link, bob)
	r.Clock.Advance(5 * time.Minute)
	r.settle(loops)
	r.isInterface(which, network.InterfaceExpired, alice, bob)
	r.isInterface(again, network.InterfaceConfirming, alice, bob)
}

func TestHostedInterfaceEndsUnconfirmed(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]network.InterfaceState{alice: network.InterfaceDeleted, bob: network.InterfaceRejected} {
		t.Run("by "+account, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			link := r.link(alice)
			which := r.allocate(link, bob)
			r.Call(account, "DeleteDirectLinkInterface", naming("DirectLinkInterfaceId", which))
			r.isInterface(which, want, alice, bob)
			r.Call(alice, "DeleteDirectLink", naming("DirectLinkId", link))
		})
	}
}

// An interface may be allocated for oneself.
func TestInterfaceAllocatedForOneself(t *testing.T) {
	t.Parallel()
	r := setup(t)
	links, loops, end := r.runLinks(0)
	defer end()
	which := r.allocate(r.link(alice), alice)
	r.Selects(r.List(alice, "ReadDirectLinkInterfaces", `{}`), "DirectLinkInterfaceId", which)
	r.isInterface(which, network.InterfaceConfirming, alice)
	if err := r.confirm(alice, which, r.gateway(alice)); err != nil {
		t.Fatal(err)
	}
	r.settle(loops)
	r.isInterface(which, network.InterfaceAvailable, alice)
	if got := links.only(t); got.Account != alice {
		t.Errorf("the driver has %v", got)
	}
}

func TestAllocationRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"dl_interface_limit": 1})
	link, full := r.link(alice), r.link(alice)
	r.plug(alice, full, r.gateway(alice), 2)
	for name, test := range map[string]struct {
		link, owner string
		want        apierror.Code
	}{
		"for nobody":        {link, "999999999999", apierror.ObjectNotFound},
		"on no link":        {"dxcon-00000000", bob, apierror.DirectLinkNotFound},
		"on a link in use":  {full, bob, apierror.TooManyDirectLinkInterfaces},
		"on another's link": {r.link(bob), bob, apierror.DirectLinkNotFound},
	} {
		err := r.DB.Update(t.Context(), resource.Caller{Account: alice}, func(tx *resource.Tx) error {
			_, err := network.AllocateInterface(tx, id.DirectLink(test.link), id.Account(test.owner), hosted)
			return err
		})
		if !test.want.Is(err) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		r.Selects(r.List(bob, "ReadDirectLinkInterfaces", `{}`), "DirectLinkInterfaceId")
	}
}
