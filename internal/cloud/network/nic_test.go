package network_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// place is a Subnet in a Net with its default security group, and another
// group of the Net.
type place struct{ net, subnet, group, other string }

// place makes one, whose addresses are 10.0.0.4 to 10.0.0.254.
func (r *region) place(account string) place {
	r.Helper()
	p := place{net: r.net(account, "10.0.0.0/16")}
	p.subnet = r.subnet(account, p.net, "10.0.0.0/24")
	p.other = r.group(account, p.net, "web")
	r.Update(account, func(tx *resource.Tx) error {
		for g := range network.SecurityGroups.Of(tx, id.Net(p.net)) {
			if g.SecurityGroupName == "default" {
				p.group = string(g.SecurityGroupId)
			}
		}
		return nil
	})
	return p
}

// nic makes a NIC in a Subnet and answers its ID.
func (r *region) nic(account, subnet string) string {
	r.Helper()
	return r.One(account, "CreateNic", `{"SubnetId": %q}`, subnet).Text("NicId")
}

// nicWith makes a NIC with private IPs, the first being the primary one, and
// answers its ID.
func (r *region) nicWith(account, subnet string, ips ...string) string {
	r.Helper()
	var list []string
	for i, ip := range ips {
		list = append(list, fmt.Sprintf(`{"IsPrimary": %t, "PrivateIp": %q}`, i == 0, ip))
	}
	return r.One(account, "CreateNic", `{"SubnetId": %q, "PrivateIps": [%s]}`, subnet, strings.Join(list, ",")).Text("NicId")
}

// vm makes a VM in a Subnet, as far as the network knows of VMs, and answers its
// ID and that of its primary NIC.
func (r *region) vm(account, subnet string) (vm, nic string) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		n, err := network.NewNic{SubnetId: id.Subnet(subnet), Description: "Primary network interface"}.Create(tx, here)
		if err != nil {
			return err
		}
		vm, nic = id.Vm("").Form().Random(tx.Rand()), string(n.NicId)
		return n.Link(tx, id.Vm(vm), 0, true)
	})
	return vm, nic
}

// service makes a NIC for a service, as a NAT service has one, and answers its
// ID.
func (r *region) service(account, subnet, service string) string {
	r.Helper()
	var n *network.Nic
	r.Update(account, func(tx *resource.Tx) (err error) {
		n, err = network.NewNic{SubnetId: id.Subnet(subnet)}.Create(tx, here)
		if err != nil {
			return err
		}
		n.Service = service
		return network.Nics.Put(tx, n)
	})
	return string(n.NicId)
}

// read reads one NIC.
func (r *region) read(account, nic string) object {
	r.Helper()
	nics := r.List(account, "ReadNics", `{"Filters": {"NicIds": [%q]}}`, nic)
	if len(nics) != 1 {
		r.Fatalf("there are %d NICs %s", len(nics), nic)
	}
	return nics[0]
}

// addresses are the private IPs of a NIC, as it shows them.
func addresses(nic object) (ips []string) {
	for _, p := range nic["PrivateIps"].([]any) {
		ips = append(ips, p.(map[string]any)["PrivateIp"].(string))
	}
	return ips
}

// available is the number of free addresses that a Subnet shows.
func (r *region) available(account, subnet string) float64 {
	r.Helper()
	return r.List(account, "ReadSubnets", `{"Filters": {"SubnetIds": [%q]}}`, subnet)[0]["AvailableIpsCount"].(float64)
}

func TestNic(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	made := r.One(alice, "CreateNic", `{"SubnetId": %q, "Description": "a card", "PrivateIps": [{"IsPrimary": true, "PrivateIp": "10.0.0.20"},
		{"PrivateIp": "10.0.0.21"}]}`, p.subnet)
	want := fmt.Sprintf(`{"NicId": %q, "AccountId": %q, "Description": "a card", "IsSourceDestChecked": true, "MacAddress": %q, "NetId": %q,
		"SubnetId": %q,
		"SubregionName": "test-1a", "State": "available", "Tags": [], "PrivateDnsName": "ip-10-0-0-20.test-1.compute.internal",
		"SecurityGroups": [{"SecurityGroupId": %q, "SecurityGroupName": "default"}],
		"PrivateIps": [{"IsPrimary": true, "PrivateIp": "10.0.0.20", "PrivateDnsName": "ip-10-0-0-20.test-1.compute.internal"},
			{"IsPrimary": false, "PrivateIp": "10.0.0.21", "PrivateDnsName": "ip-10-0-0-21.test-1.compute.internal"}]}`,
		made["NicId"], alice, made["MacAddress"], p.net, p.subnet, p.group)
	r.Shows(made, want)
	r.Shows(r.read(alice, made.Text("NicId")), want)
	r.Selects(r.List(bob, "ReadNics", `{}`), "NicId")

	// Its addresses are its own until it goes.
	if free := r.available(alice, p.subnet); free != 249 {
		t.Errorf("a Subnet with a NIC of two addresses has %v free ones", free)
	}
	r.Refuse(apierror.SubnetInUse, alice, "DeleteSubnet", `{"SubnetId": %q}`, p.subnet)
	r.Call(alice, "DeleteNic", `{"NicId": %q}`, made["NicId"])
	r.Selects(r.List(alice, "ReadNics", `{}`), "NicId")
	if free := r.available(alice, p.subnet); free != 251 {
		t.Errorf("a Subnet without NICs has %v free addresses", free)
	}
	r.nicWith(alice, p.subnet, "10.0.0.21", "10.0.0.20")
}

func TestNicPrivateIps(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"PrivateIp": "10.0.0.%d"}`, 100+i))
		}
		return strings.Join(list, ",")
	}
	tests := []struct {
		name, given string
		want        []string      // "": one that is chosen
		refused     apierror.Code // 0: it is not
	}{
		{"none", ``, []string{""}, 0},
		{"first usable", `{"IsPrimary": true, "PrivateIp": "10.0.0.4"}`, []string{"10.0.0.4"}, 0},
		{"last usable", `{"IsPrimary": true, "PrivateIp": "10.0.0.254"}`, []string{"10.0.0.254"}, 0},
		{"primary first", `{"PrivateIp": "10.0.0.6"}, {"IsPrimary": true, "PrivateIp": "10.0.0.9"}, {"PrivateIp": "10.0.0.5"}`,
			[]string{"10.0.0.9", "10.0.0.6", "10.0.0.5"}, 0},
		{"no primary", `{"PrivateIp": "10.0.0.6"}, {"IsPrimary": false, "PrivateIp": "10.0.0.5"}`, []string{"", "10.0.0.6", "10.0.0.5"}, 0},
		{"as many as fit", many(29), append([]string{""}, slices.Repeat([]string{"any"}, 29)...), 0},
		{"two primary", `{"IsPrimary": true, "PrivateIp": "10.0.0.6"}, {"IsPrimary": true, "PrivateIp": "10.0.0.5"}`, nil,
			apierror.InvalidParameter},
		{"twice", `{"IsPrimary": true, "PrivateIp": "10.0.0.6"}, {"PrivateIp": "10.0.0.6"}`, nil, apierror.InvalidParameter},
		{"secondary twice", `{"PrivateIp": "10.0.0.6"}, {"PrivateIp": "10.0.0.6"}`, nil, apierror.InvalidParameter},
		{"taken", `{"IsPrimary": true, "PrivateIp": "10.0.0.77"}`, nil, apierror.InvalidParameter},
		{"without an address", `{"IsPrimary": true}`, nil, apierror.MissingParameter},
		{"no address", `{"PrivateIp": "296.15.2.25"}`, nil, apierror.InvalidIP},
		{"IPv6", `{"PrivateIp": "fd00::1"}`, nil, apierror.InvalidIP},
		{"first of the Subnet", `{"IsPrimary": true, "PrivateIp": "10.0.0.0"}`, nil, apierror.InvalidValue},
		{"reserved", `{"IsPrimary": true, "PrivateIp": "10.0.0.3"}`, nil, apierror.InvalidValue},
		{"last of the Subnet", `{"IsPrimary": true, "PrivateIp": "10.0.0.255"}`, nil, apierror.InvalidValue},
		{"in another Subnet", `{"IsPrimary": true, "PrivateIp": "10.0.1.5"}`, nil, apierror.InvalidValue},
		{"secondary in another Subnet", `{"PrivateIp": "10.0.1.5"}`, nil, apierror.InvalidValue},
		{"too many", many(30), nil, apierror.TooManyPrivateIps},
		{"far too many, all the same", strings.Repeat(`{"PrivateIp": "10.0.0.6"},`, 30) + `{"PrivateIp": "10.0.0.6"}`, nil,
			apierror.TooManyPrivateIps},
	}
	r := setup(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := r.place(alice)
			r.nicWith(alice, p.subnet, "10.0.0.77")
			body := fmt.Sprintf(`{"SubnetId": %q, "PrivateIps": [%s]}`, p.subnet, test.given)
			if test.refused != 0 {
				r.Refuse(test.refused, alice, "CreateNic", body)
				return
			}
			made := r.One(alice, "CreateNic", body)
			got := addresses(made)
			if len(got) != len(test.want) {
				t.Fatalf("the private IPs are %q, want %d", got, len(test.want))
			}
			for i, want := range test.want {
				if want == "" && (!strings.HasPrefix(got[i], "10.0.0.") || slices.Contains(test.want, got[i])) || strings.HasPrefix(want,
					"10.") && got[i] != want {
					t.Errorf("private IP %d is %s, want %q", i, got[i], want)
				}
				if primary := made["PrivateIps"].([]any)[i].(map[string]any)["IsPrimary"]; primary != (i == 0) {
					t.Errorf("that private IP %d is primary is %v", i, primary)
				}
			}
		})
	}
}

func TestNicRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p, his := r.place(alice), r.place(bob)
	nic := r.nic(alice, p.subnet)
	vm, primary := r.vm(alice, p.subnet)
	link := r.read(alice, primary)["LinkNic"].(map[string]any)["LinkNicId"].(string)
	hidden := r.service(alice, p.subnet, "nat-00000001")
	public := r.group(alice, "", "web")
	tests := []struct {
		name, account, action, body string
		want                        apierror.Code
	}{
		{"no Subnet", alice, "CreateNic", `{}`, apierror.MissingParameter},
		{"unknown Subnet", alice, "CreateNic", `{"SubnetId": "subnet-00000000"}`, apierror.SubnetNotFound},
		{"another account's Subnet", bob, "CreateNic", fmt.Sprintf(`{"SubnetId": %q}`, p.subnet), apierror.SubnetNotFound},
		{"no Subnet's ID", alice, "CreateNic", fmt.Sprintf(`{"SubnetId": %q}`, p.net), apierror.InvalidID},
		{"unknown group", alice, "CreateNic", fmt.Sprintf(`{"SubnetId": %q, "SecurityGroupIds": ["sg-00000000"]}`, p.subnet),
			apierror.SecurityGroupNotFound},
		{"another account's group", alice, "CreateNic", fmt.Sprintf(`{"SubnetId": %q, "SecurityGroupIds": [%q]}`, p.subnet, his.group),
			apierror.SecurityGroupNotFound},
		{"a public group", alice, "CreateNic", fmt.Sprintf(`{"SubnetId": %q, "SecurityGroupIds": [%q]}`, p.subnet, public), apierror.NotInNet},
		{"another Net's group", alice, "CreateNic", fmt.Sprintf(`{"SubnetId": %q, "SecurityGroupIds": [%q]}`, p.subnet, r.place(alice).group),
			apierror.NotInNet},

		{"nothing to update", alice, "UpdateNic", fmt.Sprintf(`{"NicId": %q}`, nic), apierror.MissingParameter},
		{"update to no group", alice, "UpdateNic", fmt.Sprintf(`{"NicId": %q, "SecurityGroupIds": []}`, nic), apierror.MissingParameter},
		{"update to another Net's group", alice, "UpdateNic", fmt.Sprintf(`{"NicId": %q, "SecurityGroupIds": [%q]}`, nic, r.place(alice).group),
			apierror.NotInNet},
		{"update of a link without its ID", alice, "UpdateNic", fmt.Sprintf(`{"NicId": %q, "LinkNic": {"DeleteOnVmDeletion": true}}`, primary),
			apierror.MissingParameter},
		{"update of another NIC's link", alice, "UpdateNic",
			fmt.Sprintf(`{"NicId": %q, "LinkNic": {"DeleteOnVmDeletion": true, "LinkNicId": %q}}`, nic, link), apierror.NicLinkNotFound},
		{"update of no NIC", alice, "UpdateNic", `{"NicId": "eni-00000000", "Description": "x"}`, apierror.NicNotFound},
		{"update of another account's NIC", bob, "UpdateNic", fmt.Sprintf(`{"NicId": %q, "Description": "x"}`, nic), apierror.NicNotFound},
		{"update of a service's NIC", alice, "UpdateNic", fmt.Sprintf(`{"NicId": %q, "Description": "x"}`, hidden), apierror.NicNotFound},

		{"deletion of no NIC", alice, "DeleteNic", `{"NicId": "eni-00000000"}`, apierror.NicNotFound},
		{"deletion of another account's NIC", bob, "DeleteNic", fmt.Sprintf(`{"NicId": %q}`, nic), apierror.NicNotFound},
		{"deletion of a service's NIC", alice, "DeleteNic", fmt.Sprintf(`{"NicId": %q}`, hidden), apierror.NicNotFound},
		{"deletion of a linked NIC", alice, "DeleteNic", fmt.Sprintf(`{"NicId": %q}`, primary), apierror.InUse},

		{"link without a number", alice, "LinkNic", fmt.Sprintf(`{"NicId": %q, "VmId": %q}`, nic, vm), apierror.MissingParameter},
		{"link as the primary one", alice, "LinkNic", fmt.Sprintf(`{"NicId": %q, "VmId": %q, "DeviceNumber": 0}`, nic, vm),
			apierror.InvalidValue},
		{"link beyond the last device", alice, "LinkNic", fmt.Sprintf(`{"NicId": %q, "VmId": %q, "DeviceNumber": 8}`, nic, vm),
			apierror.InvalidValue},
		{"link to no VM", alice, "LinkNic", fmt.Sprintf(`{"NicId": %q, "VmId": "i-00000000", "DeviceNumber": 1}`, nic), apierror.VmNotFound},
		{"link of no NIC", alice, "LinkNic", fmt.Sprintf(`{"NicId": "eni-00000000", "VmId": %q, "DeviceNumber": 1}`, vm), apierror.NicNotFound},
		{"link to another account's VM", bob, "LinkNic",
			fmt.Sprintf(`{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, r.nic(bob, his.subnet), vm), apierror.VmNotFound},
		{"link of a service's NIC", alice, "LinkNic", fmt.Sprintf(`{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, hidden, vm),
			apierror.NicNotFound},
		{"link of a linked NIC", alice, "LinkNic", fmt.Sprintf(`{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, primary, vm), apierror.InUse},
		{"link in another Net", alice, "LinkNic",
			fmt.Sprintf(`{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, r.nic(alice, r.place(alice).subnet), vm), apierror.InvalidParameter},

		{"unlink of no link", alice, "UnlinkNic", `{"LinkNicId": "eni-attach-00000000"}`, apierror.NicLinkNotFound},
		{"unlink of another account's", bob, "UnlinkNic", fmt.Sprintf(`{"LinkNicId": %q}`, link), apierror.NicLinkNotFound},
		{"unlink of the primary one", alice, "UnlinkNic", fmt.Sprintf(`{"LinkNicId": %q}`, link), apierror.InvalidParameter},
		{"unlink by the NIC's ID", alice, "UnlinkNic", fmt.Sprintf(`{"LinkNicId": %q}`, nic), apierror.InvalidID},

		{"addresses and a number", alice, "LinkPrivateIps",
			fmt.Sprintf(`{"NicId": %q, "PrivateIps": ["10.0.0.99"], "SecondaryPrivateIpCount": 1}`, nic), apierror.IncompatibleParameters},
		{"no addresses at all", alice, "LinkPrivateIps", fmt.Sprintf(`{"NicId": %q, "SecondaryPrivateIpCount": 0}`, nic), apierror.InvalidValue},
		{"fewer addresses", alice, "LinkPrivateIps", fmt.Sprintf(`{"NicId": %q, "SecondaryPrivateIpCount": -2}`, nic), apierror.InvalidValue},
		{"too many addresses", alice, "LinkPrivateIps", fmt.Sprintf(`{"NicId": %q, "SecondaryPrivateIpCount": 50000}`, nic),
			apierror.TooManyPrivateIps},
		{"what is no address", alice, "LinkPrivateIps", fmt.Sprintf(`{"NicId": %q, "PrivateIps": ["295.0.1.35"]}`, nic), apierror.InvalidIP},
		{"an address elsewhere", alice, "LinkPrivateIps", fmt.Sprintf(`{"NicId": %q, "PrivateIps": ["10.0.1.35"]}`, nic), apierror.InvalidValue},
		{"a reserved address", alice, "LinkPrivateIps", fmt.Sprintf(`{"NicId": %q, "PrivateIps": ["10.0.0.1"]}`, nic), apierror.InvalidValue},
		{"addresses for no NIC", alice, "LinkPrivateIps", `{"NicId": "eni-00000000"}`, apierror.NicNotFound},
		{"addresses for another account's NIC", bob, "LinkPrivateIps", fmt.Sprintf(`{"NicId": %q}`, nic), apierror.NicNotFound},
		{"addresses for a service's NIC", alice, "LinkPrivateIps", fmt.Sprintf(`{"NicId": %q}`, hidden), apierror.NicNotFound},

		{"unlink of no addresses", alice, "UnlinkPrivateIps", fmt.Sprintf(`{"NicId": %q, "PrivateIps": []}`, nic), apierror.MissingParameter},
		{"unlink of addresses it has not", alice, "UnlinkPrivateIps", fmt.Sprintf(`{"NicId": %q, "PrivateIps": ["10.0.0.99"]}`, nic),
			apierror.PrivateIpsNotLinked},
		{"unlink of the primary address", alice, "UnlinkPrivateIps",
			fmt.Sprintf(`{"NicId": %q, "PrivateIps": [%q]}`, nic, addresses(r.read(alice, nic))[0]), apierror.InvalidParameter},
		{"unlink of addresses of no NIC", alice, "UnlinkPrivateIps", `{"NicId": "eni-00000000", "PrivateIps": ["10.0.0.99"]}`,
			apierror.NicNotFound},
		{"unlink of addresses of a service's NIC", alice, "UnlinkPrivateIps", fmt.Sprintf(`{"NicId": %q, "PrivateIps": ["10.0.0.99"]}`, hidden),
			apierror.NicNotFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, test.account, test.action, test.body) })
	}
	r.Selects(r.List(alice, "ReadNics", `{}`)[:2], "NicId", nic, primary) // and not the service's
}

// A NIC shows its security groups by ID, whatever the order they were given in.
func TestNicShowsItsGroupsByID(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	groups := []string{p.group, p.other}
	for i := range 4 {
		groups = append(groups, r.group(alice, p.net, fmt.Sprintf("group-%d", i)))
	}
	slices.Sort(groups)
	backwards := slices.Clone(groups)
	slices.Reverse(backwards)
	given, err := json.Marshal(backwards)
	if err != nil {
		t.Fatal(err)
	}
	order := func(nic object) {
		t.Helper()
		var list []object
		for _, g := range nic["SecurityGroups"].([]any) {
			list = append(list, g.(map[string]any))
		}
		r.Selects(list, "SecurityGroupId", groups...)
	}
	made := r.One(alice, "CreateNic", `{"SubnetId": %q, "SecurityGroupIds": %s}`, p.subnet, given)
	order(made)
	order(r.One(alice, "UpdateNic", `{"NicId": %q, "SecurityGroupIds": %s}`, made["NicId"], given))
	order(r.read(alice, made.Text("NicId")))
}

func TestUpdateNic(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	vm, nic := r.vm(alice, p.subnet)
	link := r.read(alice, nic)["LinkNic"].(map[string]any)["LinkNicId"]
	updated := r.One(alice, "UpdateNic", `{"NicId": %q, "Description": "a card", "SecurityGroupIds": [%q, %q, %q]}`, nic, p.other, p.group,
		p.other)
	if updated["Description"] != "a card" || len(updated["SecurityGroups"].([]any)) != 2 {
		t.Errorf("got %v", updated)
	}
	updated = r.One(alice, "UpdateNic", `{"NicId": %q, "LinkNic": {"DeleteOnVmDeletion": false, "LinkNicId": %q}}`, nic, link)
	want := map[string]any{"DeleteOnVmDeletion": false, "DeviceNumber": 0.0, "LinkNicId": link, "State": "attached", "VmAccountId": alice,
		"VmId": vm}
	if got := updated["LinkNic"].(map[string]any); fmt.Sprint(got) != fmt.Sprint(want) || updated["Description"] != "a card" {
		t.Errorf("the link is %v, want %v", got, want)
	}
	updated = r.One(alice, "UpdateNic", `{"NicId": %q, "Description": ""}`, nic)
	if updated["Description"] != "" {
		t.Errorf("the description is %v", updated["Description"])
	}
	if diff := fmt.Sprint(r.read(alice, nic)); diff != fmt.Sprint(updated) {
		t.Errorf("read is %v, and updated %v", diff, updated)
	}
}

func TestNicSecurityGroupQuota(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"vm_sg_limit": 2})
	p := r.place(alice)
	third := r.group(alice, p.net, "db")
	nic := r.nic(alice, p.subnet)
	r.Call(alice, "UpdateNic", `{"NicId": %q, "SecurityGroupIds": [%q, %q]}`, nic, p.group, p.other)
	r.Refuse(apierror.TooManyNicSecurityGroups, alice, "UpdateNic", `{"NicId": %q, "SecurityGroupIds": [%q, %q, %q]}`, nic, p.group, p.other,
		third)
	r.Refuse(apierror.TooManyNicSecurityGroups, alice, "CreateNic", `{"SubnetId": %q, "SecurityGroupIds": [%q, %q, %q]}`, p.subnet, p.group,
		p.other, third)
	if used := r.meter(alice, "vm_sg_limit"); used != 2 {
		t.Errorf("of vm_sg_limit, %d are used", used)
	}
}

// meter reads how much of a quota of an account is used.
func (r *region) meter(account, quota string) (used int) {
	r.Helper()
	err := r.DB.View(context.Background(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
		for _, m := range network.Meters() {
			if m.Quota == quota {
				for _, used = range m.Read(tx) {
				}
				return nil
			}
		}
		return fmt.Errorf("nothing measures %s", quota)
	})
	if err != nil {
		r.Fatal(err)
	}
	return used
}

func TestNicFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p, q := r.place(alice), r.place(alice)
	r.internet(alice, p.net)
	there := r.One(alice, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.1.0/24", "SubregionName": "test-1b"}`, p.net).Text("SubnetId")
	first := r.nicWith(alice, p.subnet, "10.0.0.10", "10.0.0.11")
	r.Call(alice, "UpdateNic", `{"NicId": %q, "Description": "first", "SecurityGroupIds": [%q]}`, first, p.other)
	vm, second := r.vm(alice, p.subnet)
	third := r.nicWith(alice, there, "10.0.1.10")
	fourth := r.nic(alice, q.subnet)
	r.Update(alice, func(tx *resource.Tx) error {
		n, err := network.Nics.Get(tx, id.Nic(fourth))
		if err == nil {
			n.IsSourceDestChecked = false
			err = network.Nics.Put(tx, n)
		}
		return err
	})
	r.service(alice, p.subnet, "nat-00000001")
	r.Tag(alice, third, api.Tag{Key: "env", Value: "test"})
	ip := r.publicIp(alice)
	eipassoc := r.linkIp(alice, ip.Text("PublicIpId"), `"NicId": "`+first+`", "PrivateIp": "10.0.0.11"`)
	other := r.publicIp(alice)
	otherLink := r.linkIp(alice, other.Text("PublicIpId"), `"NicId": "`+third+`"`)
	link := r.read(alice, second)["LinkNic"].(map[string]any)["LinkNicId"]
	mac := r.read(alice, third)["MacAddress"]
	all := []string{first, second, third, fourth}
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, all},
		{`{"Descriptions": ["first"]}`, []string{first}},
		{`{"Descriptions": ["Primary network interface", "first"]}`, []string{first, second}},
		{`{"Descriptions": [""]}`, []string{third, fourth}},
		{`{"IsSourceDestCheck": false}`, []string{fourth}},
		{`{"IsSourceDestCheck": true}`, []string{first, second, third}},
		{`{"LinkNicDeleteOnVmDeletion": true}`, []string{second}},
		{`{"LinkNicDeleteOnVmDeletion": false}`, nil},
		{`{"LinkNicDeviceNumbers": [0]}`, []string{second}},
		{`{"LinkNicDeviceNumbers": [1]}`, nil},
		{fmt.Sprintf(`{"LinkNicLinkNicIds": [%q]}`, link), []string{second}},
		{`{"LinkNicStates": ["attached"]}`, []string{second}},
		{`{"LinkNicStates": ["detached"]}`, nil},
		{fmt.Sprintf(`{"LinkNicVmAccountIds": [%q]}`, alice), []string{second}},
		{fmt.Sprintf(`{"LinkNicVmAccountIds": [%q]}`, bob), nil},
		{fmt.Sprintf(`{"LinkNicVmIds": [%q]}`, vm), []string{second}},
		{fmt.Sprintf(`{"LinkPublicIpAccountIds": [%q]}`, alice), []string{third}},
		{fmt.Sprintf(`{"LinkPublicIpLinkPublicIpIds": [%q, %q]}`, eipassoc, otherLink), []string{third}},
		{fmt.Sprintf(`{"LinkPublicIpPublicDnsNames": ["ows-%s.test-1.compute.example.com"]}`,
			strings.ReplaceAll(other.Text("PublicIp"), ".", "-")), []string{third}},
		{fmt.Sprintf(`{"LinkPublicIpPublicIpIds": [%q, %q]}`, ip["PublicIpId"], other["PublicIpId"]), []string{third}},
		{fmt.Sprintf(`{"LinkPublicIpPublicIps": [%q, %q]}`, ip["PublicIp"], other["PublicIp"]), []string{third}},
		{fmt.Sprintf(`{"MacAddresses": [%q]}`, mac), []string{third}},
		{fmt.Sprintf(`{"NetIds": [%q]}`, p.net), []string{first, second, third}},
		{fmt.Sprintf(`{"NicIds": [%q, %q]}`, fourth, first), []string{first, fourth}},
		{`{"PrivateDnsNames": ["ip-10-0-0-10.test-1.compute.internal"]}`, []string{first}},
		{`{"PrivateDnsNames": ["ip-10-0-0-11.test-1.compute.internal"]}`, nil},
		{fmt.Sprintf(`{"PrivateIpsLinkPublicIpAccountIds": [%q]}`, alice), []string{first, third}},
		{fmt.Sprintf(`{"PrivateIpsLinkPublicIpPublicIps": [%q]}`, ip["PublicIp"]), []string{first}},
		{`{"PrivateIpsPrimaryIp": true}`, all},
		{`{"PrivateIpsPrimaryIp": false}`, []string{first}},
		{`{"PrivateIpsPrivateIps": ["10.0.0.11", "10.0.1.10"]}`, []string{first, third}},
		{fmt.Sprintf(`{"SecurityGroupIds": [%q]}`, p.other), []string{first}},
		{`{"SecurityGroupNames": ["default"]}`, []string{second, third, fourth}},
		{`{"SecurityGroupNames": ["web"]}`, []string{first}},
		{`{"States": ["in-use"]}`, []string{second}},
		{`{"States": ["available"]}`, []string{first, third, fourth}},
		{`{"States": ["attaching"]}`, nil},
		{fmt.Sprintf(`{"SubnetIds": [%q]}`, p.subnet), []string{first, second}},
		{`{"SubregionNames": ["test-1b"]}`, []string{third}},
		{`{"TagKeys": ["env"]}`, []string{third}},
		{`{"TagValues": ["test"]}`, []string{third}},
		{`{"Tags": ["env=test"]}`, []string{third}},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadNics", `{"Filters": `+test.filters+`}`), "NicId", test.want...)
		})
	}
}

// The first version of the API numbers devices by another name.
func TestNicFilterOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	_, nic := r.vm(alice, p.subnet)
	r.nic(alice, p.subnet)
	r.Refuse(apierror.UnknownParameter, alice, "ReadNics", `{"Filters": {"LinkNicSortNumbers": [0]}}`)
	r.Version = api.Versions[0]
	r.Selects(r.List(alice, "ReadNics", `{"Filters": {"LinkNicSortNumbers": [0]}}`), "NicId", nic)
}

// A Subnet stays as long as anything has an address in it, and says what.
func TestSubnetNamesWhatLivesInIt(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	body := fmt.Sprintf(`{"SubnetId": %q}`, p.subnet)
	nic := r.nic(alice, p.subnet)
	vm, primary := r.vm(alice, p.subnet)
	hidden := r.service(alice, p.subnet, "nat-00000001")
	r.Refuse(apierror.SubnetInUse, alice, "DeleteSubnet", body)
	_, err := r.Try(alice, "DeleteSubnet", body)
	for _, name := range []string{nic, primary + " of " + vm, "nat-00000001"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v, which does not name %s", err, name)
		}
	}
	if strings.Contains(err.Error(), hidden) {
		t.Errorf("%v, which names what nobody is shown", err)
	}
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", `{"NetId": %q}`, p.net)

	r.Update(alice, func(tx *resource.Tx) error {
		for n := range network.Nics.All(tx) {
			if err := n.Remove(tx); err != nil {
				return err
			}
		}
		return nil
	})
	r.Call(alice, "DeleteSubnet", body)
}

func TestLinkNic(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	vm, primary := r.vm(alice, p.subnet)
	other, _ := r.vm(alice, p.subnet)
	next := r.subnet(alice, p.net, "10.0.1.0/24") // a VM may be in several Subnets
	var nics, links []string
	for device := 7; device > 0; device-- {
		nic := r.nic(alice, next)
		answer := r.Call(alice, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": %d}`, nic, vm, device)
		nics, links = append(nics, nic), append(links, answer.Text("LinkNicId"))
		shown := r.read(alice, nic)
		want := fmt.Sprint(map[string]any{
			"DeleteOnVmDeletion": false, "DeviceNumber": float64(device), "LinkNicId": answer["LinkNicId"], "State": "attached",
			"VmAccountId": alice, "VmId": vm,
		})
		if got := fmt.Sprint(shown["LinkNic"]); got != want || shown["State"] != "in-use" {
			t.Errorf("a linked NIC is %v by %s, want %s", shown["State"], got, want)
		}
	}
	spare := r.nic(alice, next)
	r.Refuse(apierror.DeviceTaken, alice, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 7}`, spare, vm)
	r.Refuse(apierror.InUse, alice, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, nics[0], other)
	far := r.One(alice, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.2.0/24", "SubregionName": "test-1b"}`, p.net).Text("SubnetId")
	r.Refuse(apierror.InvalidParameter, alice, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, r.nic(alice, far), other)

	r.Call(alice, "UnlinkNic", `{"LinkNicId": %q}`, links[0])
	if shown := r.read(alice, nics[0]); shown["State"] != "available" || shown["LinkNic"] != nil {
		t.Errorf("an unlinked NIC is %v", shown)
	}
	r.Refuse(apierror.NicLinkNotFound, alice, "UnlinkNic", `{"LinkNicId": %q}`, links[0])
	r.Call(alice, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, nics[0], other)

	// What computing sees.
	r.Update(alice, func(tx *resource.Tx) error {
		got := network.VmNics(tx, id.Vm(vm))
		if len(got) != 7 || string(got[0].NicId) != primary || string(got[6].NicId) != nics[1] {
			t.Errorf("the NICs of the VM are %v", got)
		}
		for i, n := range got {
			if err := n.Unlink(tx); err != nil {
				return err
			}
			if left := network.VmNics(tx, id.Vm(vm)); len(left) != 6-i {
				t.Errorf("after %d are unlinked, the VM has %d NICs", i+1, len(left))
			}
		}
		return nil
	})
	r.Refuse(apierror.VmNotFound, alice, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, spare, vm)
}

func TestLinkPrivateIps(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	nic, other := r.nicWith(alice, p.subnet, "10.0.0.10"), r.nicWith(alice, p.subnet, "10.0.0.20", "10.0.0.21")
	link := func(nic, rest string) { r.Call(alice, "LinkPrivateIps", `{"NicId": %q%s}`, nic, rest) }
	has := func(nic string, want ...string) {
		t.Helper()
		if got := addresses(r.read(alice, nic)); !slices.Equal(got, want) {
			t.Errorf("the NIC has %q, want %q", got, want)
		}
	}
	link(nic, `, "PrivateIps": ["10.0.0.12", "10.0.0.11"]`)
	has(nic, "10.0.0.10", "10.0.0.12", "10.0.0.11")
	link(nic, `, "PrivateIps": ["10.0.0.11", "10.0.0.10", "10.0.0.13", "10.0.0.13"]`) // what it has stays
	has(nic, "10.0.0.10", "10.0.0.12", "10.0.0.11", "10.0.0.13")

	// Another NIC gives up secondary ones only, and only when told to.
	refused := func(ip, relink string) {
		t.Helper()
		r.Refuse(apierror.InvalidParameter, alice, "LinkPrivateIps", `{"NicId": %q, "PrivateIps": ["10.0.0.14", %q]%s}`, nic, ip, relink)
	}
	refused("10.0.0.21", ``)
	refused("10.0.0.21", `, "AllowRelink": false`)
	refused("10.0.0.20", `, "AllowRelink": true`)
	var services string
	hidden := r.service(alice, p.subnet, "nat-00000001")
	r.Update(alice, func(tx *resource.Tx) error {
		n, err := network.Nics.Get(tx, id.Nic(hidden))
		services = string(n.PrivateIps[0].PrivateIp)
		return err
	})
	refused(services, `, "AllowRelink": true`)
	link(nic, `, "PrivateIps": ["10.0.0.21"], "AllowRelink": true`)
	has(nic, "10.0.0.10", "10.0.0.12", "10.0.0.11", "10.0.0.13", "10.0.0.21")
	has(other, "10.0.0.20")

	link(other, ``) // one, when nothing is said
	link(other, `, "PrivateIps": [], "SecondaryPrivateIpCount": 28, "AllowRelink": true`)
	if got := addresses(r.read(alice, other)); len(got) != 30 {
		t.Errorf("a NIC that was given 28 and one more private IPs has %q", got)
	}
	r.Refuse(apierror.TooManyPrivateIps, alice, "LinkPrivateIps", `{"NicId": %q}`, other)
	r.Refuse(apierror.TooManyPrivateIps, alice, "LinkPrivateIps", `{"NicId": %q, "PrivateIps": ["10.0.0.21"], "AllowRelink": true}`, other)
	if free := r.available(alice, p.subnet); free != 251-5-30-1 {
		t.Errorf("the Subnet has %v free addresses", free)
	}

	unlink := func(ips string) {
		r.Call(alice, "UnlinkPrivateIps", `{"NicId": %q, "PrivateIps": [%s]}`, nic, ips)
	}
	unlink(`"10.0.0.11", "10.0.0.21", "10.0.0.11"`)
	has(nic, "10.0.0.10", "10.0.0.12", "10.0.0.13")
	r.Refuse(apierror.PrivateIpsNotLinked, alice, "UnlinkPrivateIps", `{"NicId": %q, "PrivateIps": ["10.0.0.12", "10.0.0.11"]}`, nic)
	has(nic, "10.0.0.10", "10.0.0.12", "10.0.0.13")
	r.nicWith(alice, p.subnet, "10.0.0.11") // which is free again
}

// What computing asks for when it makes VMs.
func TestNicsOfNewVms(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.place(alice)
	public := r.group(alice, "", "web")
	private := map[string]bool{}
	for _, account := range []string{alice, bob} {
		for range 20 {
			_, nic := r.cloudVm(account)
			n := r.show(account, nic)
			ip := string(n.PrivateIps[0].PrivateIp)
			if private[ip] || !strings.HasPrefix(ip,
				"10.") || n.NetId != "" || n.SubregionName != "test-1a" || n.SecurityGroups[0].SecurityGroupName != "default" {
				t.Errorf("a VM of the public Cloud has the NIC %+v", n)
			}
			private[ip] = true
		}
	}
	r.Update(alice, func(tx *resource.Tx) error {
		if _, err := here.AddCloudNic(tx, "i-00000001", "test-1a",
			[]id.SecurityGroup{id.SecurityGroup(p.group)}); !apierror.NotInPublicCloud.Is(err) {
			t.Errorf("a VM of the public Cloud in a group of a Net: %v", err)
		}
		n, err := here.AddCloudNic(tx, "i-00000001", "test-1a", []id.SecurityGroup{id.SecurityGroup(public)})
		if err != nil {
			return err
		}
		if nics := network.VmNics(tx, "i-00000001"); len(nics) != 1 || nics[0].NicId != n.NicId {
			t.Errorf("the NICs of the VM are %v", nics)
		}
		if err := n.SetSecurityGroups(tx, []id.SecurityGroup{id.SecurityGroup(p.group)}); !apierror.NotInPublicCloud.Is(err) {
			t.Errorf("it comes into a group of a Net: %v", err)
		}

		w := network.NewNic{SubnetId: id.Subnet(p.subnet), PrivateIps: []network.PrivateIpLight{{IsPrimary: true, PrivateIp: "10.0.0.10"}},
			Secondary: 3}
		if n, err = w.Create(tx, here); err != nil {
			return err
		}
		if len(n.PrivateIps) != 4 || n.PrivateIps[0].PrivateIp != "10.0.0.10" || n.PrivateIps[1].IsPrimary {
			t.Errorf("a NIC of one and three more private IPs has %v", n.PrivateIps)
		}
		return nil
	})
}
