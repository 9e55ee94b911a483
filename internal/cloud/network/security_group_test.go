package network_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// group makes a security group, for the public Cloud if no Net is named, and
// answers its ID.
func (r *region) group(account, net, name string) string {
	r.Helper()
	return r.One(account, "CreateSecurityGroup", `{"NetId": %q, "SecurityGroupName": %q, "Description": "a group"}`, net,
		name).Text("SecurityGroupId")
}

// groups lists the security groups of a Net.
func (r *region) groups(account, net string) []object {
	r.Helper()
	return r.List(account, "ReadSecurityGroups", `{"Filters": {"NetIds": [%q]}}`, net)
}

// rules are the rules of a group in one direction, without their IDs.
func (r *region) rules(account, group, flow string) []object {
	r.Helper()
	g := r.List(account, "ReadSecurityGroups", `{"Filters": {"SecurityGroupIds": [%q]}}`, group)[0]
	rules := []object{}
	for _, rule := range g[flow+"Rules"].([]any) {
		o := object(rule.(map[string]any))
		delete(o, "SecurityGroupRuleId")
		rules = append(rules, o)
	}
	return rules
}

func TestSecurityGroup(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	made := r.One(alice, "CreateSecurityGroup", `{"NetId": %q, "SecurityGroupName": "web", "Description": "Accès à la web"}`, net)
	rule := object(made["OutboundRules"].([]any)[0].(map[string]any))
	want := fmt.Sprintf(`{"AccountId": %q, "Description": "Accès à la web", "InboundRules": [], "NetId": %q, "SecurityGroupId": %q,
		"OutboundRules": [{"FromPortRange": -1, "IpProtocol": "-1", "IpRanges": ["0.0.0.0/0"], "SecurityGroupRuleId": %q,
		"ToPortRange": -1}], "SecurityGroupName": "web", "Tags": []}`, alice, net, made["SecurityGroupId"], rule["SecurityGroupRuleId"])
	r.Shows(made, want)
	r.Shows(r.groups(alice, net)[1], want)
	if !strings.HasPrefix(rule.Text("SecurityGroupRuleId"), "sgr-") {
		t.Errorf("the rule has the ID %v", rule["SecurityGroupRuleId"])
	}

	// One for the public Cloud has no rules, and may have the name again.
	public := r.One(alice, "CreateSecurityGroup", `{"SecurityGroupName": "web", "Description": "web"}`)
	r.Shows(public, `{"AccountId": %q, "Description": "web", "InboundRules": [], "OutboundRules": [], "SecurityGroupId": %q,
		"SecurityGroupName": "web", "Tags": []}`, alice, public["SecurityGroupId"])
	r.group(alice, r.net(alice, "10.0.0.0/16"), "web")
	r.group(bob, "", "web")

	r.Call(alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, made["SecurityGroupId"])
	r.Call(alice, "DeleteSecurityGroup", `{"SecurityGroupName": "web"}`)
	r.Selects(r.groups(alice, net), "SecurityGroupName", "default")
	r.group(alice, net, "web") // its name is free again
}

func TestDefaultSecurityGroups(t *testing.T) {
	t.Parallel()
	r := setup(t)
	public := r.List(alice, "ReadSecurityGroups", `{}`)[0]
	rule := func(o object, list string) any { return o[list].([]any)[0].(map[string]any)["SecurityGroupRuleId"] }
	r.Shows(public, `{"AccountId": %[1]q, "Description": "default security group", "OutboundRules": [], "SecurityGroupId": %[2]q,
		"InboundRules": [{"FromPortRange": -1, "IpProtocol": "-1", "SecurityGroupRuleId": %[3]q, "ToPortRange": -1,
		"SecurityGroupsMembers": [{"AccountId": %[1]q, "SecurityGroupId": %[2]q, "SecurityGroupName": "default"}]}],
		"SecurityGroupName": "default", "Tags": []}`, alice, public["SecurityGroupId"], rule(public, "InboundRules"))

	net := r.net(alice, "10.0.0.0/16")
	own := r.groups(alice, net)[0]
	r.Shows(own, `{"AccountId": %[1]q, "Description": "default security group", "NetId": %[2]q, "SecurityGroupId": %[3]q,
		"InboundRules": [{"FromPortRange": -1, "IpProtocol": "-1", "SecurityGroupRuleId": %[4]q, "ToPortRange": -1,
		"SecurityGroupsMembers": [{"AccountId": %[1]q, "SecurityGroupId": %[3]q}]}],
		"OutboundRules": [{"FromPortRange": -1, "IpProtocol": "-1", "IpRanges": ["0.0.0.0/0"], "SecurityGroupRuleId": %[5]q,
		"ToPortRange": -1}],
		"SecurityGroupName": "default", "Tags": []}`, alice, net, own["SecurityGroupId"], rule(own, "InboundRules"), rule(own, "OutboundRules"))

	for _, group := range []object{public, own} {
		r.Refuse(apierror.DefaultSecurityGroup, alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, group["SecurityGroupId"])
	}
	r.Refuse(apierror.DefaultSecurityGroup, alice, "DeleteSecurityGroup", `{"SecurityGroupName": "default"}`)
	r.Refuse(apierror.SecurityGroupNameTaken, alice, "CreateSecurityGroup",
		`{"NetId": %q, "SecurityGroupName": "default", "Description": "d"}`, net)

	// It goes with its Net, if nothing but the Net has it.
	other := r.group(alice, net, "other")
	link := fmt.Sprintf(`{"SecurityGroupId": %q, "Flow": "Inbound", "SecurityGroupNameToLink": %q}`, other, own["SecurityGroupId"])
	r.Call(alice, "CreateSecurityGroupRule", link)
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", `{"NetId": %q}`, net)
	r.Call(alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, other)
	r.Call(alice, "DeleteNet", `{"NetId": %q}`, net)
	r.Selects(r.groups(alice, net), "SecurityGroupId")
}

func TestSecurityGroupRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	group, public := r.group(alice, net, "web"), r.group(alice, "", "public")
	create := func(net, name, description string) string {
		return fmt.Sprintf(`{"NetId": %q, "SecurityGroupName": %q, "Description": %q}`, net, name, description)
	}
	long := strings.Repeat("x", 256)
	tests := []struct {
		name, account, action, body string
		want                        apierror.Code
	}{
		{"no name", alice, "CreateSecurityGroup", `{"Description": "d"}`, apierror.MissingParameter},
		{"no description", alice, "CreateSecurityGroup", `{"SecurityGroupName": "n"}`, apierror.MissingParameter},
		{"an empty name", alice, "CreateSecurityGroup", create("", "", "d"), apierror.InvalidLength},
		{"a long name", alice, "CreateSecurityGroup", create("", long, "d"), apierror.InvalidLength},
		{"a name like an ID", alice, "CreateSecurityGroup", create("", "sg-web", "d"), apierror.InvalidName},
		{"a name with an accent", alice, "CreateSecurityGroup", create("", "accès", "d"), apierror.InvalidName},
		{"a name with a quote", alice, "CreateSecurityGroup", create("", `a"b`, "d"), apierror.InvalidName},
		{"an empty description", alice, "CreateSecurityGroup", create("", "n", ""), apierror.InvalidLength},
		{"a long description", alice, "CreateSecurityGroup", create("", "n", long), apierror.InvalidLength},
		{"a description with a tab", alice, "CreateSecurityGroup", create("", "n", "a\tb"), apierror.InvalidValue},
		{"a description in another script", alice, "CreateSecurityGroup", create("", "n", "группа"), apierror.InvalidValue},
		{"a name taken in the Net", alice, "CreateSecurityGroup", create(net, "web", "d"), apierror.SecurityGroupNameTaken},
		{"a name taken in the public Cloud", alice, "CreateSecurityGroup", create("", "public", "d"), apierror.SecurityGroupNameTaken},
		{"no such Net", alice, "CreateSecurityGroup", create("vpc-00000000", "n", "d"), apierror.NetNotFound},
		{"another account's Net", bob, "CreateSecurityGroup", create(net, "n", "d"), apierror.NetNotFound},
		{"deletion of nothing", alice, "DeleteSecurityGroup", `{}`, apierror.MissingParameter},
		{"deletion of no group", alice, "DeleteSecurityGroup", `{"SecurityGroupId": "sg-00000000"}`, apierror.SecurityGroupNotFound},
		{"deletion of what is no group", alice, "DeleteSecurityGroup", fmt.Sprintf(`{"SecurityGroupId": %q}`, net), apierror.InvalidID},
		{"deletion of another account's group", bob, "DeleteSecurityGroup", fmt.Sprintf(`{"SecurityGroupId": %q}`, group),
			apierror.SecurityGroupNotFound},
		{"deletion by another account's name", bob, "DeleteSecurityGroup", `{"SecurityGroupName": "public"}`, apierror.SecurityGroupNotFound},
		{"deletion by a name in a Net", alice, "DeleteSecurityGroup", `{"SecurityGroupName": "web"}`, apierror.SecurityGroupNotFound},
		{"deletion by an ID and another's name", alice, "DeleteSecurityGroup",
			fmt.Sprintf(`{"SecurityGroupId": %q, "SecurityGroupName": "web"}`, public), apierror.SecurityGroupNotFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, test.account, test.action, test.body) })
	}
	r.Call(alice, "CreateSecurityGroup", create(net, strings.Repeat("x", 255), "É _.-:/()#,@[]+=&;{}!$*"))
	r.Call(alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q, "SecurityGroupName": "public"}`, public)
}

func TestSecurityGroupInUse(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	group, other := r.group(alice, net, "one"), r.group(alice, net, "two")
	subnet := r.subnet(alice, net, "10.0.0.0/24")
	nic := &network.Nic{
		NetId: id.Net(net), SubnetId: id.Subnet(subnet), MacAddress: "aa:00:00:00:00:01",
		SecurityGroups: []network.SecurityGroupLight{{SecurityGroupId: id.SecurityGroup(group)}},
	}
	r.Update(alice, func(tx *resource.Tx) error { return network.Nics.Insert(tx, nic) })
	remove := fmt.Sprintf(`{"SecurityGroupId": %q}`, group)
	r.Refuse(apierror.SecurityGroupInUse, alice, "DeleteSecurityGroup", remove)
	r.Update(alice, func(tx *resource.Tx) error { return network.Nics.Delete(tx, nic) })

	// A group that another one names stays; one that names itself does not.
	own := fmt.Sprintf(`{"SecurityGroupId": %[1]q, "Flow": "Inbound", "SecurityGroupNameToLink": %[1]q}`, group)
	r.Call(alice, "CreateSecurityGroupRule", own)
	for _, flow := range []string{"Inbound", "Outbound"} {
		rule := fmt.Sprintf(`"SecurityGroupId": %q, "Flow": %q`, other, flow)
		r.Call(alice, "CreateSecurityGroupRule", `{%s, "SecurityGroupNameToLink": %q}`, rule, group)
		r.Refuse(apierror.SecurityGroupInUse, alice, "DeleteSecurityGroup", remove)
		r.Call(alice, "DeleteSecurityGroupRule", `{%s, "SecurityGroupNameToUnlink": %q}`, rule, group)
	}
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", `{"NetId": %q}`, net)
	r.Call(alice, "DeleteSecurityGroup", remove)
}

func TestSecurityGroupQuotas(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"sg_limit": 2, "vpc_sg_limit": 3})
	first := r.group(alice, "", "first") // beside the default one
	refused := func(net string) {
		t.Helper()
		r.Refuse(apierror.TooManySecurityGroups, alice, "CreateSecurityGroup", `{"NetId": %q, "SecurityGroupName": "more", "Description": "d"}`,
			net)
	}
	refused("")
	net, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.0.0.0/16")
	r.group(alice, net, "one")
	r.uses(alice, "sg_limit", 2)
	r.uses(alice, "vpc_sg_limit", 2)
	r.group(alice, net, "two")
	refused(net)
	r.group(alice, other, "one")
	r.Call(alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, first)
	r.uses(alice, "sg_limit", 1)
	r.uses(alice, "vpc_sg_limit", 3)
	r.group(alice, "", "second")
}

func TestSecurityGroupFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	standard, own := r.List(alice, "ReadSecurityGroups", `{}`)[0].Text("SecurityGroupId"), r.groups(alice, net)[0].Text("SecurityGroupId")
	r.Call(alice, "DeleteSecurityGroupRule", `{"SecurityGroupId": %q, "Flow": "Outbound", "IpRange": "0.0.0.0/0"}`, own)
	first := r.One(alice, "CreateSecurityGroup", `{"NetId": %q, "SecurityGroupName": "first", "Description": "the first"}`,
		net).Text("SecurityGroupId")
	second := r.group(alice, net, "second")
	for _, flow := range []string{"Inbound", "Outbound"} {
		r.Call(alice, "CreateSecurityGroupRule", `{"SecurityGroupId": %q, "Flow": %q, "Rules": [
			{"IpProtocol": "tcp", "FromPortRange": 80, "ToPortRange": 81, "IpRanges": ["192.0.2.0/24"]},
			{"IpProtocol": "udp", "FromPortRange": 53, "ToPortRange": 54, "SecurityGroupsMembers": [{"SecurityGroupId": %q}]}]}`, first, flow,
			second)
	}
	r.Tag(alice, second, api.Tag{Key: "env", Value: "test"})
	type row struct {
		filters string
		want    []string
	}
	tests := []row{
		{`{}`, []string{standard, own, first, second}},
		{`{"Descriptions": ["the first"]}`, []string{first}},
		{fmt.Sprintf(`{"NetIds": [%q]}`, net), []string{own, first, second}},
		{fmt.Sprintf(`{"SecurityGroupIds": [%q]}`, second), []string{second}},
		{`{"SecurityGroupNames": ["second", "default"]}`, []string{standard, own, second}},
		{`{"TagKeys": ["env"]}`, []string{second}},
		{`{"TagValues": ["test"]}`, []string{second}},
		{`{"Tags": ["env=test"]}`, []string{second}},
	}
	for _, flow := range []string{"Inbound", "Outbound"} {
		filter := func(name, value string) string { return fmt.Sprintf(`{"%sRule%s": [%s]}`, flow, name, value) }
		tests = append(tests,
			row{filter("FromPortRanges", "80, 1"), []string{first}},
			row{filter("FromPortRanges", "81"), nil},
			row{filter("ToPortRanges", "54"), []string{first}},
			row{filter("ToPortRanges", "53"), nil},
			row{filter("Protocols", `"udp"`), []string{first}},
			row{filter("Protocols", `"icmp"`), nil},
			row{filter("IpRanges", `"192.0.2.0/24"`), []string{first}},
			row{filter("IpRanges", `"192.0.2.0/25"`), nil},
			row{filter("SecurityGroupIds", fmt.Sprintf("%q", second)), map[string][]string{"Inbound": {first}, "Outbound": {first, second}}[flow]},
			row{filter("SecurityGroupNames", `"second"`), map[string][]string{"Inbound": {first}, "Outbound": {first, second}}[flow]},
			// It has rules of both directions, and is found by itself.
			row{filter("SecurityGroupIds", fmt.Sprintf("%q", first)), []string{first}},
			row{filter("SecurityGroupNames", `"first"`), []string{first}},
			row{filter("SecurityGroupNames", `"default"`), map[string][]string{"Inbound": {standard, own}}[flow]},
			row{filter("AccountIds", fmt.Sprintf("%q", bob)), nil},
		)
	}
	tests = append(tests,
		row{`{"InboundRuleProtocols": ["-1"]}`, []string{standard, own}},
		row{`{"OutboundRuleProtocols": ["-1"]}`, []string{first, second}},
		row{fmt.Sprintf(`{"InboundRuleAccountIds": [%q]}`, alice), []string{standard, own, first}},
		row{fmt.Sprintf(`{"OutboundRuleAccountIds": [%q]}`, alice), []string{first, second}},
		row{`{"SecurityGroupIds": ["no ID at all"]}`, nil},
		row{`{"InboundRuleProtocols": ["tcp"], "InboundRuleFromPortRanges": [53]}`, []string{first}},
	)
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadSecurityGroups", `{"Filters": `+test.filters+`}`), "SecurityGroupId", test.want...)
		})
	}
	r.Version = api.Version{Major: 1, Minor: 1}
	r.Selects(r.List(alice, "ReadSecurityGroups", `{"Filters": {"AccountIds": [%q]}}`, bob), "SecurityGroupId")
	r.Selects(r.List(alice, "ReadSecurityGroups", `{"Filters": {"AccountIds": [%q]}}`, alice), "SecurityGroupId", standard, own, first, second)
}

// A security group stays in use for a while after its last VM was terminated: as
// many transitions as are 90 seconds on the real service, and never longer.
func TestSecurityGroupOutlastsItsLastVm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ transition, rest time.Duration }{
		"at once":               {0, 0},
		"a test's transitions":  {200 * time.Millisecond, 1800 * time.Millisecond},
		"the real service's":    {10 * time.Second, 90 * time.Second},
		"very long transitions": {time.Hour, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there := here
			there.Transition = test.transition
			r := openAt(t, there, nil, nil)
			t.Cleanup(func() { r.DB.Close() })
			r.welcome()
			p := r.place(alice)
			second := r.group(alice, p.net, "second")
			remove := naming("SecurityGroupId", p.other)
			groups := fmt.Sprintf("[%q, %q]", p.other, p.group)
			vms := map[string]string{}
			for range 2 {
				vm, nic := r.vm(alice, p.subnet)
				r.Call(alice, "UpdateNic", `{"NicId": %q, "SecurityGroupIds": %s}`, nic, groups)
				vms[vm] = nic
			}
			further := r.One(alice, "CreateNic", `{"SubnetId": %q, "SecurityGroupIds": [%q]}`, p.subnet, second).Text("NicId")
			for vm, nic := range vms {
				if len(vms) == 1 { // the last one has a further NIC, which outlives it
					r.Call(alice, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, further, vm)
				}
				r.Refuse(apierror.SecurityGroupInUse, alice, "DeleteSecurityGroup", remove)
				r.Clock.Advance(time.Minute)
				r.Update(alice, func(tx *resource.Tx) error {
					for _, n := range network.VmNics(tx, id.Vm(vm)) {
						away := n.Remove
						if string(n.NicId) != nic {
							away = n.Unlink
						}
						if err := away(tx); err != nil {
							return err
						}
					}
					return nil
				})
				delete(vms, vm)
			}
			r.Call(alice, "DeleteNic", naming("NicId", further))
			for _, group := range []string{p.other, second} {
				if test.rest == 0 {
					break
				}
				r.Refuse(apierror.SecurityGroupInUse, alice, "DeleteSecurityGroup", naming("SecurityGroupId", group))
			}
			if test.rest > 0 {
				r.Clock.Advance(test.rest - time.Millisecond)
				r.Refuse(apierror.SecurityGroupInUse, alice, "DeleteSecurityGroup", remove)
				r.Clock.Advance(time.Millisecond)
			}
			r.Call(alice, "DeleteSecurityGroup", remove)
			r.Call(alice, "DeleteSecurityGroup", naming("SecurityGroupId", second))
		})
	}
}

// The Net and its default group do not wait for the last VM.
func TestNetDoesNotWaitForItsLastVm(t *testing.T) {
	t.Parallel()
	there := here
	there.Transition = time.Hour
	r := openAt(t, there, nil, nil)
	t.Cleanup(func() { r.DB.Close() })
	r.welcome()
	p := r.place(alice)
	r.Call(alice, "DeleteSecurityGroup", naming("SecurityGroupId", p.other))
	vm, _ := r.vm(alice, p.subnet)
	r.Update(alice, func(tx *resource.Tx) error { return network.VmNics(tx, id.Vm(vm))[0].Remove(tx) })
	r.Call(alice, "DeleteSubnet", naming("SubnetId", p.subnet))
	r.Call(alice, "DeleteNet", naming("NetId", p.net))
}
