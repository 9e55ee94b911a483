package network_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// internet links an internet service to a Net.
func (r *region) internet(account, net string) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		return network.InternetServices.Insert(tx, &network.InternetService{NetId: id.Net(net)})
	})
}

// publicIp makes a public IP.
func (r *region) publicIp(account string) object {
	r.Helper()
	return r.One(account, "CreatePublicIp", `{}`)
}

// linkIp links a public IP, by its ID, to what the rest of the request says.
func (r *region) linkIp(account, ip, to string) (link string) {
	r.Helper()
	return r.Call(account, "LinkPublicIp", `{"PublicIpId": %q, %s}`, ip, to).Text("LinkPublicIpId")
}

// readIp reads one public IP by its ID.
func (r *region) readIp(account, ip string) object {
	r.Helper()
	ips := r.List(account, "ReadPublicIps", `{"Filters": {"PublicIpIds": [%q]}}`, ip)
	if len(ips) != 1 {
		r.Fatalf("there are %d public IPs %s", len(ips), ip)
	}
	return ips[0]
}

// cloudVm makes a VM in the public Cloud that runs, as far as the network knows
// of VMs, and answers its ID and that of its NIC.
func (r *region) cloudVm(account string) (vm, nic string) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		vm = id.Vm("").Form().Random(tx.Rand())
		n, err := here.AddCloudNic(tx, id.Vm(vm), "test-1a", nil)
		if err != nil {
			return err
		}
		nic = string(n.NicId)
		return here.AssignEphemeralIP(tx, n)
	})
	return vm, nic
}

// show is a NIC, of whatever making, as the region would show it.
func (r *region) show(account, nic string) (n *network.Nic) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) (err error) {
		if n, err = network.Nics.Get(tx, id.Nic(nic)); err == nil {
			n = here.ShowNic(tx, n)
		}
		return err
	})
	return n
}

// taken counts the addresses of the pool that are in use. The region is one of
// a single /24 of public IPs.
func (r *region) taken() (n int) {
	r.Helper()
	snap, err := r.DB.Store.View(context.Background(), "addresses-198.51.100.0")
	if err != nil {
		r.Fatal(err)
	}
	for range snap.Scan("TakenAddress", 0) {
		n++
	}
	return n
}

func TestPublicIp(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.publicIp(alice)
	want := fmt.Sprintf(`{"PublicIpId": %q, "PublicIp": %q, "Tags": []}`, made["PublicIpId"], made["PublicIp"])
	r.Shows(made, want)
	r.Shows(r.readIp(alice, made.Text("PublicIpId")), want)
	if !strings.HasPrefix(made.Text("PublicIp"), "198.51.100.") {
		t.Errorf("the region has no address %s", made["PublicIp"])
	}
	r.Selects(r.List(bob, "ReadPublicIps", `{}`), "PublicIpId")
	second := r.publicIp(bob)
	r.Call(alice, "DeletePublicIp", `{"PublicIpId": %q}`, made["PublicIpId"])
	r.Call(bob, "DeletePublicIp", `{"PublicIp": %q}`, second["PublicIp"])
	r.Selects(r.List(alice, "ReadPublicIps", `{}`), "PublicIpId")
	if n := r.taken(); n != 0 {
		t.Errorf("%d addresses are still taken", n)
	}
}

func TestPublicIpRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p, closed := r.place(alice), r.place(alice)
	r.internet(alice, p.net)
	nic := r.nicWith(alice, p.subnet, "10.0.0.10", "10.0.0.11")
	vm, _ := r.vm(alice, p.subnet)
	double, _ := r.vm(alice, p.subnet)
	r.Call(alice, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, r.nic(alice, p.subnet), double)
	hidden := r.service(alice, p.subnet, "lb-1")
	cloud, cloudNic := r.cloudVm(alice)
	free, used, spare := r.publicIp(alice), r.publicIp(alice), r.publicIp(alice)
	link := r.linkIp(alice, used.Text("PublicIpId"), `"NicId": "`+nic+`"`)
	nats, locked := r.publicIp(alice), r.publicIp(alice)
	var lent *network.PublicIp
	r.Update(alice, func(tx *resource.Tx) error {
		nat := &network.NatService{NetId: id.Net(p.net), SubnetId: id.Subnet(p.subnet)}
		if err := network.NatServices.Insert(tx, nat); err != nil {
			return err
		}
		for ip := range network.PublicIps.All(tx) {
			switch string(ip.PublicIpId) {
			case nats.Text("PublicIpId"):
				ip.NatServiceId = nat.NatServiceId
			case locked.Text("PublicIpId"):
				ip.NicId, ip.PrivateIp, ip.LinkPublicIpId = id.Nic(hidden), "10.0.0.200", "eipassoc-00000001"
			}
			if ip.Ephemeral {
				lent = ip
			}
			if err := network.PublicIps.Put(tx, ip); err != nil {
				return err
			}
		}
		return nil
	})
	to := func(ip object, rest string) string {
		return fmt.Sprintf(`{"PublicIpId": %q, %s}`, ip["PublicIpId"], rest)
	}
	toNic, toVm := fmt.Sprintf(`"NicId": %q`, nic), fmt.Sprintf(`"VmId": %q`, vm)
	tests := []struct {
		name, account, action, body string
		want                        apierror.Code
	}{
		{"link of nothing", alice, "LinkPublicIp", `{` + toNic + `}`, apierror.MissingParameter},
		{"link to nothing", alice, "LinkPublicIp", to(free, `"VmId": ""`), apierror.MissingParameter},
		{"link to two", alice, "LinkPublicIp", to(free, toNic+`, `+toVm), apierror.IncompatibleParameters},
		{"link of two", alice, "LinkPublicIp", to(free, toNic+fmt.Sprintf(`, "PublicIp": %q`, free["PublicIp"])),
			apierror.IncompatibleParameters},
		{"link of no public IP", alice, "LinkPublicIp", `{"PublicIpId": "eipalloc-00000000", ` + toNic + `}`, apierror.PublicIpNotFound},
		{"link of no public address", alice, "LinkPublicIp", `{"PublicIp": "192.0.2.1", ` + toNic + `}`, apierror.PublicIpNotFound},
		{"link of what is no address", alice, "LinkPublicIp", `{"PublicIp": "123", ` + toNic + `}`, apierror.InvalidIP},
		{"link of another account's", alice, "LinkPublicIp", to(r.publicIp(bob), toNic), apierror.PublicIpNotFound},
		{"link of another account's address", alice, "LinkPublicIp", fmt.Sprintf(`{"PublicIp": %q, %s}`, r.publicIp(bob)["PublicIp"], toNic),
			apierror.PublicIpNotFound},
		{"link of a lent address", alice, "LinkPublicIp", fmt.Sprintf(`{"PublicIp": %q, %s}`, lent.PublicIp, toNic), apierror.PublicIpNotFound},
		{"link of a lent one", alice, "LinkPublicIp", fmt.Sprintf(`{"PublicIpId": %q, %s}`, lent.PublicIpId, toNic), apierror.PublicIpNotFound},
		{"link to no NIC", alice, "LinkPublicIp", to(free, `"NicId": "eni-00000000"`), apierror.NicNotFound},
		{"link to a service's NIC", alice, "LinkPublicIp", to(free, fmt.Sprintf(`"NicId": %q`, hidden)), apierror.NicNotFound},
		{"link to a NIC of the public Cloud", alice, "LinkPublicIp", to(free, fmt.Sprintf(`"NicId": %q`, cloudNic)), apierror.NicNotFound},
		{"link to no VM", alice, "LinkPublicIp", to(free, `"VmId": "i-00000000"`), apierror.VmNotFound},
		{"link to another account's VM", bob, "LinkPublicIp", to(free, toVm), apierror.VmNotFound},
		{"link to a VM of several NICs", alice, "LinkPublicIp", to(free, fmt.Sprintf(`"VmId": %q`, double)), apierror.MissingParameter},
		{"link to a private IP elsewhere", alice, "LinkPublicIp", to(free, toNic+`, "PrivateIp": "10.0.0.99"`), apierror.InvalidParameter},
		{"link in a Net without an internet service", alice, "LinkPublicIp", to(free, fmt.Sprintf(`"NicId": %q`, r.nic(alice, closed.subnet))),
			apierror.GatewayNotLinked},
		{"link of a linked one", alice, "LinkPublicIp", to(used, toVm), apierror.InUse},
		{"link of a linked one, to another private IP", alice, "LinkPublicIp", to(used, toNic+`, "PrivateIp": "10.0.0.11"`), apierror.InUse},
		{"link of a linked one in the public Cloud, if told so", alice, "LinkPublicIp",
			to(used, fmt.Sprintf(`"VmId": %q, "AllowRelink": false`, cloud)), apierror.InUse},
		{"link to a private IP that has one", alice, "LinkPublicIp", to(spare, toNic), apierror.InUse},
		{"link of a NAT service's", alice, "LinkPublicIp", to(nats, toNic+`, "AllowRelink": true`), apierror.InUse},
		{"link of another service's", alice, "LinkPublicIp", to(locked, toNic+`, "AllowRelink": true`), apierror.PublicIpLocked},

		{"unlink of nothing", alice, "UnlinkPublicIp", `{}`, apierror.MissingParameter},
		{"unlink of two", alice, "UnlinkPublicIp", fmt.Sprintf(`{"PublicIp": %q, "LinkPublicIpId": %q}`, used["PublicIp"], link),
			apierror.IncompatibleParameters},
		{"unlink of no link", alice, "UnlinkPublicIp", `{"LinkPublicIpId": "eipassoc-00000000"}`, apierror.PublicIpLinkNotFound},
		{"unlink of no address", alice, "UnlinkPublicIp", `{"PublicIp": "192.0.2.1"}`, apierror.PublicIpNotFound},
		{"unlink of what is not linked", alice, "UnlinkPublicIp", fmt.Sprintf(`{"PublicIp": %q}`, free["PublicIp"]),
			apierror.PublicIpLinkNotFound},
		{"unlink of a lent one", alice, "UnlinkPublicIp", fmt.Sprintf(`{"PublicIp": %q}`, lent.PublicIp), apierror.PublicIpNotFound},
		{"unlink of another account's", bob, "UnlinkPublicIp", fmt.Sprintf(`{"LinkPublicIpId": %q}`, link), apierror.PublicIpLinkNotFound},
		{"unlink of another account's address", bob, "UnlinkPublicIp", fmt.Sprintf(`{"PublicIp": %q}`, used["PublicIp"]),
			apierror.PublicIpNotFound},
		{"unlink of a NAT service's", alice, "UnlinkPublicIp", fmt.Sprintf(`{"PublicIp": %q}`, nats["PublicIp"]), apierror.InUse},
		{"unlink of another service's", alice, "UnlinkPublicIp", `{"LinkPublicIpId": "eipassoc-00000001"}`, apierror.PublicIpLocked},

		{"deletion of nothing", alice, "DeletePublicIp", `{}`, apierror.MissingParameter},
		{"deletion of two", alice, "DeletePublicIp", fmt.Sprintf(`{"PublicIp": %q, "PublicIpId": %q}`, free["PublicIp"], free["PublicIpId"]),
			apierror.IncompatibleParameters},
		{"deletion of no public IP", alice, "DeletePublicIp", `{"PublicIpId": "eipalloc-00000000"}`, apierror.PublicIpNotFound},
		{"deletion of another account's", bob, "DeletePublicIp", fmt.Sprintf(`{"PublicIp": %q}`, free["PublicIp"]), apierror.PublicIpNotFound},
		{"deletion of a lent one", alice, "DeletePublicIp", fmt.Sprintf(`{"PublicIp": %q}`, lent.PublicIp), apierror.PublicIpNotFound},
		{"deletion of one linked in a Net", alice, "DeletePublicIp", fmt.Sprintf(`{"PublicIpId": %q}`, used["PublicIpId"]), apierror.InUse},
		{"deletion of a NAT service's", alice, "DeletePublicIp", fmt.Sprintf(`{"PublicIpId": %q}`, nats["PublicIpId"]), apierror.InUse},
		{"deletion of another service's", alice, "DeletePublicIp", fmt.Sprintf(`{"PublicIpId": %q}`, locked["PublicIpId"]),
			apierror.PublicIpLocked},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, test.account, test.action, test.body) })
	}
}

func TestLinkPublicIp(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	r.internet(alice, p.net)
	nic := r.nicWith(alice, p.subnet, "10.0.0.10", "10.0.0.11")
	vm, primary := r.vm(alice, p.subnet)
	ip := r.publicIp(alice)
	publicID, address := ip.Text("PublicIpId"), ip.Text("PublicIp")

	link := r.linkIp(alice, publicID, fmt.Sprintf(`"VmId": %q`, vm))
	r.Shows(r.readIp(alice, publicID), `{"PublicIpId": %q, "PublicIp": %q, "LinkPublicIpId": %q, "NicId": %q, "NicAccountId": %q, "VmId": %q,
		"PrivateIp": %q, "Tags": []}`, publicID, address, link, primary, alice, vm, addresses(r.read(alice, primary))[0])
	want := fmt.Sprint(map[string]any{
		"LinkPublicIpId": link, "PublicDnsName": "ows-" + strings.ReplaceAll(address, ".", "-") + ".test-1.compute.example.com",
		"PublicIp": address, "PublicIpAccountId": alice, "PublicIpId": publicID,
	})
	shown := r.read(alice, primary)
	if inner := shown["PrivateIps"].([]any)[0].(map[string]any)["LinkPublicIp"]; fmt.Sprint(shown["LinkPublicIp"]) != want ||
		fmt.Sprint(inner) != want {
		t.Errorf("the NIC shows %v and %v, want %s", shown["LinkPublicIp"], inner, want)
	}
	if again := r.linkIp(alice, publicID, fmt.Sprintf(`"VmId": %q, "AllowRelink": false`, vm)); again != link {
		t.Errorf("linking where it is linked makes the link %s of %s", again, link)
	}

	// It moves, if told so, and stands for one private IP only.
	moved := r.Call(alice, "LinkPublicIp", `{"PublicIp": %q, "NicId": %q, "PrivateIp": "10.0.0.11", "AllowRelink": true}`, address,
		nic).Text("LinkPublicIpId")
	shown = r.read(alice, nic)
	if moved == link || shown["LinkPublicIp"] != nil || shown["PrivateIps"].([]any)[1].(map[string]any)["LinkPublicIp"] == nil ||
		r.read(alice, primary)["LinkPublicIp"] != nil {
		t.Errorf("after it moved, the NIC shows %v", shown)
	}
	second := r.publicIp(alice)
	r.linkIp(alice, second.Text("PublicIpId"), fmt.Sprintf(`"NicId": %q, "PrivateIp": "10.0.0.11", "AllowRelink": true`, nic))
	if left := r.readIp(alice, publicID); left["NicId"] != nil || left["PrivateIp"] != nil || left["LinkPublicIpId"] != nil ||
		left["NicAccountId"] != nil {
		t.Errorf("after another took its place, it is %v", left)
	}

	// It goes with its private IP to another NIC, and stays behind when that is
	// unlinked.
	r.Call(alice, "LinkPrivateIps", `{"NicId": %q, "PrivateIps": ["10.0.0.11"], "AllowRelink": true}`, primary)
	if with := r.readIp(alice, second.Text("PublicIpId")); with["NicId"] != primary || with["PrivateIp"] != "10.0.0.11" || with["VmId"] != vm {
		t.Errorf("after its private IP moved, it is %v", with)
	}
	r.Call(alice, "UnlinkPrivateIps", `{"NicId": %q, "PrivateIps": ["10.0.0.11"]}`, primary)
	if without := r.readIp(alice, second.Text("PublicIpId")); without["LinkPublicIpId"] != nil || without["NicId"] != nil {
		t.Errorf("after its private IP was unlinked, it is %v", without)
	}

	// Unlinking is by the link or by the address.
	link = r.linkIp(alice, publicID, fmt.Sprintf(`"NicId": %q`, nic))
	r.Call(alice, "UnlinkPublicIp", `{"LinkPublicIpId": %q}`, link)
	r.Refuse(apierror.PublicIpLinkNotFound, alice, "UnlinkPublicIp", `{"LinkPublicIpId": %q}`, link)
	r.linkIp(alice, publicID, fmt.Sprintf(`"NicId": %q`, nic))
	r.Call(alice, "UnlinkPublicIp", `{"PublicIp": %q}`, address)
	r.Refuse(apierror.PublicIpLinkNotFound, alice, "UnlinkPublicIp", `{"PublicIp": %q}`, address)

	// A NIC that goes leaves it behind.
	r.linkIp(alice, publicID, fmt.Sprintf(`"NicId": %q`, nic))
	r.Call(alice, "DeleteNic", `{"NicId": %q}`, nic)
	r.Shows(r.readIp(alice, publicID), `{"PublicIpId": %q, "PublicIp": %q, "Tags": []}`, publicID, address)
	r.Call(alice, "DeletePublicIp", `{"PublicIpId": %q}`, publicID)
}

func TestPublicIpFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	r.internet(alice, p.net)
	vm, nic := r.vm(alice, p.subnet)
	cloud, cloudNic := r.cloudVm(alice)
	linked, free, public := r.publicIp(alice), r.publicIp(alice), r.publicIp(alice)
	link := r.linkIp(alice, linked.Text("PublicIpId"), fmt.Sprintf(`"VmId": %q`, vm))
	r.linkIp(alice, public.Text("PublicIpId"), fmt.Sprintf(`"VmId": %q`, cloud))
	r.Tag(alice, free.Text("PublicIpId"), api.Tag{Key: "env", Value: "test"})
	a, b, c := linked.Text("PublicIpId"), free.Text("PublicIpId"), public.Text("PublicIpId")
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{a, b, c}},
		{fmt.Sprintf(`{"LinkPublicIpIds": [%q]}`, link), []string{a}},
		{fmt.Sprintf(`{"NicAccountIds": [%q]}`, alice), []string{a, c}},
		{fmt.Sprintf(`{"NicAccountIds": [%q]}`, bob), nil},
		{fmt.Sprintf(`{"NicIds": [%q]}`, nic), []string{a}},
		{fmt.Sprintf(`{"NicIds": [%q]}`, cloudNic), []string{c}},
		{`{"Placements": ["vpc"]}`, []string{a, b}},
		{`{"Placements": ["standard"]}`, []string{c}},
		{fmt.Sprintf(`{"PrivateIps": [%q]}`, addresses(r.read(alice, nic))[0]), []string{a}},
		{fmt.Sprintf(`{"PublicIpIds": [%q, %q]}`, c, b), []string{b, c}},
		{fmt.Sprintf(`{"PublicIps": [%q]}`, free["PublicIp"]), []string{b}},
		{`{"TagKeys": ["env"]}`, []string{b}},
		{`{"TagValues": ["test"]}`, []string{b}},
		{`{"Tags": ["env=test"]}`, []string{b}},
		{fmt.Sprintf(`{"VmIds": [%q]}`, vm), []string{a}},
		{fmt.Sprintf(`{"VmIds": [%q]}`, cloud), []string{c}},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadPublicIps", `{"Filters": `+test.filters+`}`), "PublicIpId", test.want...)
		})
	}
}

// A Subnet may have the region lend each new NIC a public IP.
func TestLentPublicIps(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"ip_limit": 1})
	p := r.place(alice)
	before := r.nic(alice, p.subnet)
	r.Call(alice, "UpdateSubnet", `{"SubnetId": %q, "MapPublicIpOnLaunch": true}`, p.subnet)
	made := r.One(alice, "CreateNic", `{"SubnetId": %q, "PrivateIps": [{"IsPrimary": true, "PrivateIp": "10.0.0.10"},
		{"PrivateIp": "10.0.0.11"}]}`, p.subnet)
	lent := made["LinkPublicIp"].(map[string]any)
	address := lent["PublicIp"].(string)
	want := map[string]any{"PublicDnsName": "ows-" + strings.ReplaceAll(address, ".", "-") + ".test-1.compute.example.com",
		"PublicIp": address}
	if fmt.Sprint(lent) != fmt.Sprint(want) || r.read(alice, before)["LinkPublicIp"] != nil {
		t.Errorf("the NIC has %v, want %v", lent, want)
	}
	r.Selects(r.List(alice, "ReadPublicIps", `{}`), "PublicIpId")
	r.Selects(r.List(alice, "ReadNics", `{"Filters": {"LinkPublicIpPublicIps": [%q]}}`, address), "NicId", made.Text("NicId"))
	if used := r.meter(alice, "ip_limit"); used != 0 {
		t.Errorf("of ip_limit, %d are used by what was lent", used)
	}

	// A public IP of the account's takes its place, for good.
	r.internet(alice, p.net)
	own := r.publicIp(alice)
	r.linkIp(alice, own.Text("PublicIpId"), fmt.Sprintf(`"NicId": %q`, made["NicId"]))
	if n := r.taken(); n != 1 {
		t.Errorf("%d addresses are taken, want that of the account only", n)
	}
	r.Call(alice, "UnlinkPublicIp", `{"PublicIp": %q}`, own["PublicIp"])
	if now := r.read(alice, made.Text("NicId"))["LinkPublicIp"]; now != nil {
		t.Errorf("the NIC has %v again", now)
	}

	// What was lent goes back with the NIC.
	second := r.nic(alice, p.subnet)
	if n := r.taken(); n != 2 {
		t.Errorf("%d addresses are taken", n)
	}
	r.Call(alice, "DeleteNic", `{"NicId": %q}`, second)
	if n := r.taken(); n != 1 {
		t.Errorf("%d addresses are taken after the NIC has gone", n)
	}
}

// A VM of the public Cloud has a public IP whenever it runs: one that the region
// lends, or one of the account's in its place.
func TestPublicIpsInThePublicCloud(t *testing.T) {
	t.Parallel()
	r := setup(t)
	vm, nic := r.cloudVm(alice)
	other, otherNic := r.cloudVm(alice)
	has := func(nic, want string, owned bool) {
		t.Helper()
		link := r.show(alice, nic).LinkPublicIp
		if link == nil || want != "" && string(link.PublicIp) != want || (link.LinkPublicIpId != "") != owned {
			t.Errorf("the VM has %v, want %q", link, want)
		}
	}
	first := string(r.show(alice, nic).LinkPublicIp.PublicIp)
	has(otherNic, "", false)
	ip := r.publicIp(alice)
	link := r.linkIp(alice, ip.Text("PublicIpId"), fmt.Sprintf(`"VmId": %q`, vm))
	has(nic, ip.Text("PublicIp"), true)
	r.Shows(r.readIp(alice, ip.Text("PublicIpId")),
		`{"PublicIpId": %q, "PublicIp": %q, "LinkPublicIpId": %q, "NicId": %q, "NicAccountId": %q, "VmId": %q,
		"PrivateIp": %q, "Tags": []}`, ip["PublicIpId"], ip["PublicIp"], link, nic, alice, vm, r.show(alice, nic).PrivateIps[0].PrivateIp)
	r.Selects(r.List(alice, "ReadNics", `{}`), "NicId")
	if n := r.taken(); n != 2 {
		t.Errorf("%d public addresses are taken: %s did not go back", n, first)
	}

	// It moves without being told so; the VM that loses it is lent another.
	r.linkIp(alice, ip.Text("PublicIpId"), fmt.Sprintf(`"VmId": %q`, other))
	has(otherNic, ip.Text("PublicIp"), true)
	has(nic, "", false)
	r.Call(alice, "UnlinkPublicIp", `{"PublicIp": %q}`, ip["PublicIp"])
	has(otherNic, "", false)
	r.linkIp(alice, ip.Text("PublicIpId"), fmt.Sprintf(`"VmId": %q`, vm))
	r.Call(alice, "DeletePublicIp", `{"PublicIpId": %q}`, ip["PublicIpId"])
	has(nic, "", false)

	// A VM that stops has none, and one that starts has one.
	second := r.publicIp(alice)
	r.linkIp(alice, second.Text("PublicIpId"), fmt.Sprintf(`"VmId": %q`, vm))
	stored := func(change func(*resource.Tx, *network.Nic) error) {
		r.Update(alice, func(tx *resource.Tx) error {
			n, err := network.Nics.Get(tx, id.Nic(nic))
			if err != nil {
				return err
			}
			return change(tx, n)
		})
	}
	stored(func(tx *resource.Tx, n *network.Nic) error { return n.UnlinkPublicIps(tx) })
	if got := r.show(alice, nic).LinkPublicIp; got != nil {
		t.Errorf("a VM that does not run has %v", got)
	}
	r.linkIp(alice, second.Text("PublicIpId"), fmt.Sprintf(`"VmId": %q`, vm))
	r.Call(alice, "UnlinkPublicIp", `{"PublicIp": %q}`, second["PublicIp"])
	if got := r.show(alice, nic).LinkPublicIp; got != nil {
		t.Errorf("a VM that does not run is lent %v", got)
	}
	stored(func(tx *resource.Tx, n *network.Nic) error { return here.AssignEphemeralIP(tx, n) })
	has(nic, "", false)
	r.linkIp(alice, second.Text("PublicIpId"), fmt.Sprintf(`"VmId": %q`, vm))
	stored(func(tx *resource.Tx, n *network.Nic) error { return here.AssignEphemeralIP(tx, n) })
	has(nic, second.Text("PublicIp"), true)

	// When it goes, nothing of it is left.
	private := r.show(alice, nic).PrivateIps[0].PrivateIp
	stored(func(tx *resource.Tx, n *network.Nic) error { return n.Remove(tx) })
	if left := r.readIp(alice, second.Text("PublicIpId")); left["NicId"] != nil || left["VmId"] != nil {
		t.Errorf("the public IP is %v", left)
	}
	snap, err := r.DB.Store.View(t.Context(), "addresses-"+string(private[:strings.LastIndex(string(private), ".")])+".0")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := snap.Get("TakenAddress", string(private)); ok {
		t.Errorf("the private IP %s is still taken", private)
	}
}

func TestPublicIpQuota(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"ip_limit": 2})
	first := r.publicIp(alice)
	r.publicIp(alice)
	r.Refuse(apierror.TooManyPublicIps, alice, "CreatePublicIp", `{}`)
	r.publicIp(bob)
	if used := r.meter(alice, "ip_limit"); used != 2 {
		t.Errorf("of ip_limit, %d are used", used)
	}
	r.Call(alice, "DeletePublicIp", `{"PublicIpId": %q}`, first["PublicIpId"])
	r.publicIp(alice)
}

// An account takes its addresses from few blocks: it fills one and then the next,
// however many it has filled.
func TestAddressesOfOneAccountAreTogether(t *testing.T) {
	t.Parallel()
	wide := here
	wide.PublicIps = []api.CIDR{"198.18.0.0/15"} // 512 blocks of 256
	r := openAt(t, wide, nil, nil)
	t.Cleanup(func() { r.DB.Close() })
	r.welcome()
	const addresses, full = 1000, 192
	blocks := map[string]int{}
	for range addresses {
		ip := r.One(alice, "CreatePublicIp", `{}`)["PublicIp"].(string)
		blocks[ip[:strings.LastIndex(ip, ".")]]++
	}
	if most := addresses/full + 1; len(blocks) != most {
		t.Errorf("%d addresses are in %d blocks, want %d: %v", addresses, len(blocks), most, blocks)
	}
	rest := 0
	for block, n := range blocks {
		if n != full {
			rest++
		}
		if n > full {
			t.Errorf("%d addresses are in %s, want %d at most", n, block, full)
		}
	}
	if rest != 1 {
		t.Errorf("%d blocks are in part full, want the last one only: %v", rest, blocks)
	}
}

// However many ask at once, and of whichever account, no address is given twice,
// and all of them are given.
func TestAddressesAreGivenOnce(t *testing.T) {
	t.Parallel()
	tiny := here
	tiny.PublicIps = []api.CIDR{"198.51.100.0/29", "203.0.113.8/30"} // 12 addresses in two blocks
	r := openAt(t, tiny, nil, nil)
	t.Cleanup(func() { r.DB.Close() })
	r.welcome()
	subnets := map[string]string{}
	for _, account := range []string{alice, bob} {
		subnets[account] = r.subnet(account, r.net(account, "10.0.0.0/16"), "10.0.0.0/28") // 11 addresses
	}
	type answer struct {
		account string
		got     object
		err     error
	}
	all := func(action string, n int, body func(account string) string) (answers []answer) {
		var mu sync.Mutex // guards answers
		var group sync.WaitGroup
		for i := range n {
			account := []string{alice, bob}[i%2]
			group.Go(func() {
				got, err := r.Try(account, action, body(account))
				mu.Lock()
				defer mu.Unlock()
				answers = append(answers, answer{account, got, err})
			})
		}
		group.Wait()
		return answers
	}

	// 20 public IPs of 12.
	given := map[string]string{}
	refused := 0
	for _, a := range all("CreatePublicIp", 20, func(string) string { return `{}` }) {
		switch {
		case a.err == nil:
			ip := a.got["PublicIp"].(map[string]any)["PublicIp"].(string)
			if given[ip] != "" {
				t.Errorf("%s is given to %s and %s", ip, given[ip], a.account)
			}
			given[ip] = a.account
		case apierror.InsufficientCapacity.Is(a.err):
			refused++
		default:
			t.Error(a.err)
		}
	}
	if len(given) != 12 || refused != 8 {
		t.Errorf("%d public IPs are given and %d refused, want 12 and 8", len(given), refused)
	}

	// 14 NICs in each Subnet of 11 addresses.
	taken := map[string][]string{}
	refused = 0
	for _, a := range all("CreateNic", 28, func(account string) string { return fmt.Sprintf(`{"SubnetId": %q}`, subnets[account]) }) {
		switch {
		case a.err == nil:
			ip := addresses(a.got["Nic"].(map[string]any))[0]
			if slices.Contains(taken[a.account], ip) {
				t.Errorf("%s is given twice", ip)
			}
			taken[a.account] = append(taken[a.account], ip)
		case apierror.InsufficientCapacity.Is(a.err):
			refused++
		default:
			t.Error(a.err)
		}
	}
	if len(taken[alice]) != 11 || len(taken[bob]) != 11 || refused != 6 {
		t.Errorf("%d and %d NICs are made and %d refused, want 11, 11 and 6", len(taken[alice]), len(taken[bob]), refused)
	}
	if free := r.available(alice, subnets[alice]); free != 0 {
		t.Errorf("a full Subnet has %v free addresses", free)
	}

	// What goes back is given again, to whoever asks.
	ip := slices.Collect(func(yield func(string) bool) {
		for ip := range given {
			if !yield(ip) {
				return
			}
		}
	})[0]
	r.Call(given[ip], "DeletePublicIp", `{"PublicIp": %q}`, ip)
	other := map[string]string{alice: bob, bob: alice}[given[ip]]
	if got := r.publicIp(other)["PublicIp"]; got != ip {
		t.Errorf("the free address is %s, and given is %s", ip, got)
	}
}
