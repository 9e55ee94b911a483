package network_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Every change of a NIC that machines could notice reaches the driver.
func TestLoopBringsNics(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 0)
	loops, end := r.run(drivers)
	defer end()
	p := r.place(alice)
	r.internet(alice, p.net)
	addr := netip.MustParseAddr
	has := func(want ...driver.Nic) {
		t.Helper()
		r.settle(loops)
		nets, err := drivers.ObserveNets(t.Context())
		if err != nil || len(nets) != 1 {
			t.Fatalf("the driver has %v, %v", nets, err)
		}
		byID := cmpopts.SortSlices(func(a, b driver.Nic) bool { return a.ID < b.ID })
		if diff := cmp.Diff(want, nets[0].Nics, byID, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("(-want +driver)\n%s", diff)
		}
	}

	nic := r.nicWith(alice, p.subnet, "10.0.0.10", "10.0.0.11")
	want := driver.Nic{
		ID: nic, Subnet: p.subnet, MAC: r.read(alice, nic).Text("MacAddress"), SourceDestCheck: true, SecurityGroups: []string{p.group},
		Addresses: []driver.Address{{Private: addr("10.0.0.10")}, {Private: addr("10.0.0.11")}},
	}
	has(want)

	vm, first := r.vm(alice, p.subnet)
	primary := driver.Nic{
		ID: first, Subnet: p.subnet, MAC: r.read(alice,
			first).Text("MacAddress"), Machine: vm, SourceDestCheck: true, SecurityGroups: []string{p.group},
		Addresses: []driver.Address{{Private: addr(addresses(r.read(alice, first))[0])}},
	}
	link := r.Call(alice, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 3}`, nic, vm).Text("LinkNicId")
	want.Machine, want.Device = vm, 3
	has(want, primary)

	r.Call(alice, "UpdateNic", `{"NicId": %q, "SecurityGroupIds": [%q]}`, nic, p.other)
	want.SecurityGroups = []string{p.other}
	has(want, primary)

	ip := r.publicIp(alice)
	r.linkIp(alice, ip.Text("PublicIpId"), fmt.Sprintf(`"NicId": %q, "PrivateIp": "10.0.0.11"`, nic))
	want.Addresses[1].Public = addr(ip.Text("PublicIp"))
	has(want, primary)

	r.Call(alice, "LinkPrivateIps", `{"NicId": %q, "PrivateIps": ["10.0.0.11"], "AllowRelink": true}`, first)
	primary.Addresses, want.Addresses = append(primary.Addresses, want.Addresses[1]), want.Addresses[:1]
	has(want, primary)

	r.linkIp(alice, ip.Text("PublicIpId"), fmt.Sprintf(`"NicId": %q, "AllowRelink": true`, nic))
	want.Addresses[0].Public, primary.Addresses[1].Public = addr(ip.Text("PublicIp")), netip.Addr{}
	has(want, primary)

	r.Call(alice, "UnlinkPublicIp", `{"PublicIp": %q}`, ip["PublicIp"])
	want.Addresses[0].Public = netip.Addr{}
	has(want, primary)

	r.Call(alice, "UnlinkPrivateIps", `{"NicId": %q, "PrivateIps": ["10.0.0.11"]}`, first)
	primary.Addresses = primary.Addresses[:1]
	has(want, primary)

	r.Call(alice, "UnlinkNic", `{"LinkNicId": %q}`, link)
	want.Machine, want.Device = "", 0
	has(want, primary)

	r.Call(alice, "UpdateSubnet", `{"SubnetId": %q, "MapPublicIpOnLaunch": true}`, p.subnet)
	r.Call(alice, "DeleteNic", `{"NicId": %q}`, nic)
	lent := r.One(alice, "CreateNic", `{"SubnetId": %q}`, p.subnet)
	has(primary, driver.Nic{
		ID: lent.Text("NicId"), Subnet: p.subnet, MAC: lent.Text("MacAddress"), SourceDestCheck: true, SecurityGroups: []string{p.group},
		Addresses: []driver.Address{{Private: addr(addresses(lent)[0]),
			Public: addr(lent["LinkPublicIp"].(map[string]any)["PublicIp"].(string))}},
	})
}
