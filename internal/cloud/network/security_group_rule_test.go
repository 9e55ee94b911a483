package network_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
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
	"pgregory.net/rapid"
)

// has checks the rules of a group in one direction.
func (r *region) has(account, group, flow, want string) {
	r.Helper()
	var rules []object
	if err := json.Unmarshal([]byte(want), &rules); err != nil {
		r.Fatal(err)
	}
	if diff := cmp.Diff(rules, r.rules(account, group, flow)); diff != "" {
		r.Errorf("the %s rules of %s (-want +got):\n%s", flow, group, diff)
	}
}

// ask is the body of a call about a rule of a group.
func ask(group, flow, rest string) string {
	return fmt.Sprintf(`{"SecurityGroupId": %q, "Flow": %q, %s}`, group, flow, rest)
}

// someService is the ID of a service of the region.
func (r *region) someService() string {
	r.Helper()
	return r.List(alice, "ReadNetAccessPointServices", `{}`)[0].Text("ServiceId")
}

func TestSecurityGroupRule(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	group, other := r.group(alice, net, "web"), r.group(alice, net, "db")
	create := func(flow, rest string) object {
		t.Helper()
		return r.One(alice, "CreateSecurityGroupRule", ask(group, flow, rest))
	}
	remove := func(flow, rest string) object {
		t.Helper()
		return r.One(alice, "DeleteSecurityGroupRule", ask(group, flow, rest))
	}
	member := fmt.Sprintf(`{"AccountId": %q, "SecurityGroupId": %q}`, alice, other)
	all := `{"IpProtocol": "-1", "FromPortRange": -1, "ToPortRange": -1, "IpRanges": ["0.0.0.0/0"]}`

	// One rule by itself; what comes later comes after it.
	made := create("Inbound", `"IpProtocol": "tcp", "FromPortRange": 443, "ToPortRange": 443, "IpRange": "10.0.0.0/24"`)
	if made["SecurityGroupId"] != group {
		t.Errorf("the rule was added to %v", made["SecurityGroupId"])
	}
	create("Outbound", `"IpProtocol": "tcp", "FromPortRange": 22, "ToPortRange": 22, "IpRange": "10.0.0.0/24"`)
	r.has(alice, group, "Outbound", `[`+all+`, {"IpProtocol": "tcp", "FromPortRange": 22, "ToPortRange": 22, "IpRanges": ["10.0.0.0/24"]}]`)

	// Several, of which those for the same traffic become one.
	create("Inbound", fmt.Sprintf(`"Rules": [
		{"IpProtocol": "udp", "FromPortRange": 0, "ToPortRange": 65535, "IpRanges": ["10.0.2.0/24", "10.0.1.0/24"]},
		{"IpProtocol": "6", "FromPortRange": 443, "ToPortRange": 443, "SecurityGroupsMembers": [{"SecurityGroupId": %q}],
			"IpRanges": ["10.0.1.0/24"]},
		{"IpProtocol": "50", "FromPortRange": 1, "ToPortRange": 2, "IpRanges": ["10.0.1.0/24"]}]`, other))
	r.has(alice, group, "Inbound", `[
		{"IpProtocol": "tcp", "FromPortRange": 443, "ToPortRange": 443, "IpRanges": ["10.0.0.0/24", "10.0.1.0/24"],
			"SecurityGroupsMembers": [`+member+`]},
		{"IpProtocol": "udp", "FromPortRange": 0, "ToPortRange": 65535, "IpRanges": ["10.0.2.0/24", "10.0.1.0/24"]},
		{"IpProtocol": "50", "FromPortRange": -1, "ToPortRange": -1, "IpRanges": ["10.0.1.0/24"]}]`)

	// A part of a rule goes, then the rest.
	remove("Inbound", fmt.Sprintf(`"Rules": [
		{"IpProtocol": "tcp", "FromPortRange": 443, "ToPortRange": 443, "SecurityGroupsMembers": [{"SecurityGroupId": %q}],
			"IpRanges": ["10.0.0.0/24"]},
		{"IpProtocol": "50", "IpRanges": ["10.0.1.0/24"]}]`, other))
	r.has(alice, group, "Inbound", `[
		{"IpProtocol": "tcp", "FromPortRange": 443, "ToPortRange": 443, "IpRanges": ["10.0.1.0/24"]},
		{"IpProtocol": "udp", "FromPortRange": 0, "ToPortRange": 65535, "IpRanges": ["10.0.2.0/24", "10.0.1.0/24"]}]`)
	left := remove("Inbound", `"IpProtocol": "tcp", "FromPortRange": 443, "ToPortRange": 443, "IpRange": "10.0.1.0/24"`)
	if n := len(left["InboundRules"].([]any)); n != 1 {
		t.Errorf("the answer to a deletion has %d inbound rules, want 1", n)
	}

	// The first outbound rule goes without its ports being said.
	remove("Outbound", `"IpProtocol": "-1", "IpRange": "0.0.0.0/0"`)
	r.has(alice, group, "Outbound", `[{"IpProtocol": "tcp", "FromPortRange": 22, "ToPortRange": 22, "IpRanges": ["10.0.0.0/24"]}]`)

	// Outbound rules may lead to services.
	create("Outbound", fmt.Sprintf(`"Rules": [{"IpProtocol": "tcp", "FromPortRange": 443, "ToPortRange": 443, "ServiceIds": [%q]}]`,
		r.someService()))
	r.has(alice, group, "Outbound", fmt.Sprintf(`[{"IpProtocol": "tcp", "FromPortRange": 22, "ToPortRange": 22, "IpRanges": ["10.0.0.0/24"]},
		{"IpProtocol": "tcp", "FromPortRange": 443, "ToPortRange": 443, "ServiceIds": [%q]}]`, r.someService()))
	remove("Outbound", fmt.Sprintf(`"Rules": [{"IpProtocol": "tcp", "FromPortRange": 443, "ToPortRange": 443, "ServiceIds": [%q]}]`,
		r.someService()))
}

func TestSecurityGroupRuleKeepsItsID(t *testing.T) {
	t.Parallel()
	r := setup(t)
	group := r.group(alice, "", "web")
	first := func(o object) string {
		return object(o["InboundRules"].([]any)[0].(map[string]any)).Text("SecurityGroupRuleId")
	}
	one := r.One(alice, "CreateSecurityGroupRule", ask(group, "Inbound", `"IpRange": "10.0.0.0/24"`))
	two := r.One(alice, "CreateSecurityGroupRule",
		ask(group, "Inbound", `"Rules": [{"SecurityGroupRuleId": "sgr-00000000", "IpRanges": ["10.0.1.0/24"]}]`))
	three := r.One(alice, "DeleteSecurityGroupRule", ask(group, "Inbound", `"IpRange": "10.0.0.0/24"`))
	if id := first(one); first(two) != id || first(three) != id {
		t.Errorf("the rule is called %s, then %s, then %s", id, first(two), first(three))
	}
}

func TestSecurityGroupRuleTraffic(t *testing.T) {
	t.Parallel()
	type want struct {
		protocol string
		from, to float64
	}
	tests := []struct {
		name, said string
		public     bool
		want       want
		refused    apierror.Code
	}{
		{name: "nothing said", said: `"IpRange": "0.0.0.0/0"`, want: want{"-1", -1, -1}},
		{name: "all protocols", said: `"IpProtocol": "-1", "IpRange": "0.0.0.0/0"`, want: want{"-1", -1, -1}},
		{name: "all protocols with ports", said: `"IpProtocol": "-1", "FromPortRange": 1, "ToPortRange": 65535, "IpRange": "0.0.0.0/0"`,
			want: want{"-1", -1, -1}},
		{name: "no protocol in a list", said: `"Rules": [{"IpProtocol": "", "IpRanges": ["0.0.0.0/0"]}]`, want: want{"-1", -1, -1}},
		{name: "all ports", said: `"IpProtocol": "tcp", "FromPortRange": 0, "ToPortRange": 65535, "IpRange": "0.0.0.0/0"`,
			want: want{"tcp", 0, 65535}},
		{name: "port 0", said: `"IpProtocol": "tcp", "FromPortRange": 0, "ToPortRange": 0, "IpRange": "0.0.0.0/0"`, want: want{"tcp", 0, 0}},
		{name: "the first port left out", said: `"Rules": [{"IpProtocol": "udp", "ToPortRange": 65535, "IpRanges": ["0.0.0.0/0"]}]`,
			want: want{"udp", 0, 65535}},
		{name: "tcp without ports", said: `"IpProtocol": "tcp", "IpRange": "0.0.0.0/0"`, want: want{"tcp", 0, 65535}},
		{name: "udp without ports", said: `"Rules": [{"IpProtocol": "17", "IpRanges": ["0.0.0.0/0"]}]`, want: want{"udp", 0, 65535},
			public: true},
		{name: "tcp by its number", said: `"IpProtocol": "6", "FromPortRange": 1, "ToPortRange": 2, "IpRange": "0.0.0.0/0"`,
			want: want{"tcp", 1, 2}, public: true},
		{name: "udp by its number", said: `"IpProtocol": "17", "FromPortRange": 1, "ToPortRange": 2, "IpRange": "0.0.0.0/0"`,
			want: want{"udp", 1, 2}},
		{name: "icmp by its number", said: `"IpProtocol": "1", "FromPortRange": 8, "ToPortRange": 0, "IpRange": "0.0.0.0/0"`,
			want: want{"icmp", 8, 0}},
		{name: "all of icmp", said: `"IpProtocol": "icmp", "FromPortRange": -1, "ToPortRange": -1, "IpRange": "0.0.0.0/0"`,
			want: want{"icmp", -1, -1}},
		{name: "all codes of a type", said: `"IpProtocol": "icmp", "FromPortRange": 3, "ToPortRange": -1, "IpRange": "0.0.0.0/0"`,
			want: want{"icmp", 3, -1}},
		{name: "the highest type and code", said: `"IpProtocol": "icmp", "FromPortRange": 255, "ToPortRange": 255, "IpRange": "0.0.0.0/0"`,
			want: want{"icmp", 255, 255}},
		{name: "another protocol", said: `"IpProtocol": "255", "FromPortRange": 7, "ToPortRange": 7, "IpRange": "0.0.0.0/0"`,
			want: want{"255", -1, -1}},

		{name: "another protocol in the public Cloud", said: `"IpProtocol": "50", "IpRange": "0.0.0.0/0"`, public: true,
			refused: apierror.InvalidProtocol},
		{name: "a protocol that no packet has", said: `"IpProtocol": "256", "IpRange": "0.0.0.0/0"`, refused: apierror.InvalidProtocol},
		{name: "a protocol with a zero before it", said: `"IpProtocol": "06", "IpRange": "0.0.0.0/0"`, refused: apierror.InvalidProtocol},
		{name: "a protocol with a sign", said: `"IpProtocol": "+6", "IpRange": "0.0.0.0/0"`, refused: apierror.InvalidProtocol},
		{name: "an unknown name", said: `"IpProtocol": "http", "IpRange": "0.0.0.0/0"`, refused: apierror.InvalidProtocol},
		{name: "capitals", said: `"IpProtocol": "TCP", "FromPortRange": 1, "ToPortRange": 2, "IpRange": "0.0.0.0/0"`,
			refused: apierror.InvalidProtocol},
		{name: "tcp without the last port", said: `"IpProtocol": "tcp", "FromPortRange": 22, "IpRange": "0.0.0.0/0"`,
			refused: apierror.InvalidPorts},
		{name: "ports in the wrong order", said: `"IpProtocol": "tcp", "FromPortRange": 23, "ToPortRange": 22, "IpRange": "0.0.0.0/0"`,
			refused: apierror.InvalidPorts},
		{name: "a port that is too high", said: `"IpProtocol": "udp", "FromPortRange": 1, "ToPortRange": 65536, "IpRange": "0.0.0.0/0"`,
			refused: apierror.InvalidPorts},
		{name: "a negative port", said: `"IpProtocol": "udp", "FromPortRange": -2, "ToPortRange": 1, "IpRange": "0.0.0.0/0"`,
			refused: apierror.InvalidPorts},
		{name: "a type that is too high", said: `"IpProtocol": "icmp", "FromPortRange": 256, "ToPortRange": 0, "IpRange": "0.0.0.0/0"`,
			refused: apierror.InvalidPorts},
		{name: "a code that is too high", said: `"IpProtocol": "icmp", "FromPortRange": 0, "ToPortRange": 256, "IpRange": "0.0.0.0/0"`,
			refused: apierror.InvalidPorts},
		{name: "a negative code", said: `"IpProtocol": "icmp", "FromPortRange": 0, "ToPortRange": -2, "IpRange": "0.0.0.0/0"`,
			refused: apierror.InvalidPorts},
		{name: "all types and one code", said: `"IpProtocol": "icmp", "FromPortRange": -1, "ToPortRange": 0, "IpRange": "0.0.0.0/0"`,
			refused: apierror.InvalidPorts},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			net := ""
			if !test.public {
				net = r.net(alice, "10.0.0.0/16")
			}
			body := ask(r.group(alice, net, "group"), "Inbound", test.said)
			if test.refused != 0 {
				r.Refuse(test.refused, alice, "CreateSecurityGroupRule", body)
				return
			}
			rule := r.One(alice, "CreateSecurityGroupRule", body)["InboundRules"].([]any)[0].(map[string]any)
			if got := (want{rule["IpProtocol"].(string), rule["FromPortRange"].(float64), rule["ToPortRange"].(float64)}); got != test.want {
				t.Errorf("the rule is for %v, want %v", got, test.want)
			}
			// What makes it also takes it away, and no second time.
			r.Refuse(apierror.DuplicateRule, alice, "CreateSecurityGroupRule", body)
			r.Call(alice, "DeleteSecurityGroupRule", body)
			r.Refuse(apierror.RuleNotFound, alice, "DeleteSecurityGroupRule", body)
		})
	}
}

func TestSecurityGroupRuleRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net := r.net(alice, "10.0.0.0/16")
	inNet, public := r.group(alice, net, "web"), r.group(alice, "", "web")
	r.group(alice, "", "db")
	elsewhere := r.group(alice, r.net(alice, "10.1.0.0/16"), "web")
	his := r.group(bob, "", "his")
	for _, group := range []string{inNet, public} {
		r.Call(alice, "CreateSecurityGroupRule", ask(group, "Inbound", `"Rules": [{"IpRanges": ["10.0.0.0/24", "10.0.1.0/24"]}]`))
		r.Call(alice, "CreateSecurityGroupRule", ask(group, "Inbound", fmt.Sprintf(`"SecurityGroupNameToLink": %q`, group)))
	}
	members := func(member string, args ...any) string {
		return fmt.Sprintf(`"Rules": [{"SecurityGroupsMembers": [{`+member+`}]}]`, args...)
	}
	both := []string{"CreateSecurityGroupRule", "DeleteSecurityGroupRule"}
	create, remove := both[:1], both[1:]
	tests := []struct {
		name              string
		actions           []string
		group, flow, rest string
		want              apierror.Code
	}{
		{"no such group", both, "sg-00000000", "Inbound", `"IpRange": "10.0.0.0/24"`, apierror.SecurityGroupNotFound},
		{"another account's group", both, his, "Inbound", `"IpRange": "10.0.0.0/24"`, apierror.SecurityGroupNotFound},
		{"another direction", both, inNet, "inbound", `"IpRange": "10.0.0.0/24"`, apierror.InvalidValue},
		{"outbound in the public Cloud", both, public, "Outbound", `"IpRange": "10.0.0.0/24"`, apierror.InvalidParameter},
		{"nothing", both, inNet, "Inbound", `"DryRun": false`, apierror.MissingParameter},
		{"no rules", both, inNet, "Inbound", `"Rules": []`, apierror.MissingParameter},
		{"ports alone", both, inNet, "Inbound", `"IpProtocol": "tcp", "FromPortRange": 1, "ToPortRange": 2`, apierror.MissingParameter},
		{"a rule for nobody", both, inNet, "Inbound", `"Rules": [{"IpProtocol": "-1"}]`, apierror.MissingParameter},
		{"a member that says nothing", both, inNet, "Inbound", members(``), apierror.MissingParameter},
		{"a member that is an account", both, public, "Inbound", members(`"AccountId": %q`, bob), apierror.MissingParameter},
		{"both forms", both, inNet, "Inbound", `"IpRange": "10.0.2.0/24", "Rules": [{"IpRanges": ["10.0.3.0/24"]}]`,
			apierror.InvalidParameterSet},
		{"a protocol and a list", both, inNet, "Inbound", `"IpProtocol": "50", "Rules": [{"IpRanges": ["10.0.3.0/24"]}]`,
			apierror.InvalidParameterSet},
		{"bits after the prefix", both, inNet, "Inbound", `"IpRange": "10.0.0.1/24"`, apierror.InvalidBlock},
		{"an IPv6 range", both, inNet, "Inbound", `"Rules": [{"IpRanges": ["::/0"]}]`, apierror.InvalidBlock},
		{"no range", both, inNet, "Inbound", `"IpRange": "everywhere"`, apierror.InvalidBlock},
		{"services that send", both, inNet, "Inbound", fmt.Sprintf(`"Rules": [{"ServiceIds": [%q]}]`, r.someService()),
			apierror.InvalidParameter},

		{"a range and a group", create, inNet, "Inbound", fmt.Sprintf(`"IpRange": "10.0.2.0/24", "SecurityGroupNameToLink": %q`, inNet),
			apierror.InvalidParameterSet},
		{"an account without its group", create, public, "Inbound", fmt.Sprintf(`"SecurityGroupAccountIdToLink": %q`, bob),
			apierror.MissingParameter},
		{"the same again", create, inNet, "Inbound", `"IpRange": "10.0.0.0/24"`, apierror.DuplicateRule},
		{"a part again", create, inNet, "Inbound", `"Rules": [{"IpRanges": ["10.0.2.0/24", "10.0.1.0/24"]}]`, apierror.DuplicateRule},
		{"twice at once", create, inNet, "Inbound", `"Rules": [{"IpRanges": ["10.0.2.0/24"]}, {"IpRanges": ["10.0.2.0/24"]}]`,
			apierror.DuplicateRule},
		{"a member again", create, inNet, "Inbound", members(`"SecurityGroupId": %q, "SecurityGroupName": "web"`, inNet), apierror.DuplicateRule},
		{"a member again by name", create, public, "Inbound", members(`"SecurityGroupName": "web"`), apierror.DuplicateRule},
		{"no such service", create, inNet, "Outbound", `"Rules": [{"ServiceIds": ["pl-00000000"]}]`, apierror.ServiceNotFound},
		{"no such member", create, inNet, "Inbound", members(`"SecurityGroupId": "sg-00000000"`), apierror.MemberNotFound},
		{"no such member to link", create, inNet, "Inbound", `"SecurityGroupNameToLink": "sg-00000000"`, apierror.MemberNotFound},
		{"no such name", create, public, "Inbound", members(`"SecurityGroupName": "none"`), apierror.MemberNotFound},
		{"a name in a Net", create, inNet, "Inbound", members(`"SecurityGroupName": "web"`), apierror.InvalidParameter},
		{"a name in a Net to link", create, inNet, "Inbound", `"SecurityGroupNameToLink": "db"`, apierror.InvalidParameter},
		{"another account's group as a member", create, public, "Inbound", members(`"SecurityGroupId": %q`, his), apierror.MemberNotFound},
		{"another account's group said to be the own", create, public, "Inbound", members(`"AccountId": %q, "SecurityGroupId": %q`, alice, his),
			apierror.MemberNotFound},
		{"another account's group in a Net", create, inNet, "Inbound", members(`"AccountId": %q, "SecurityGroupId": %q`, bob, his),
			apierror.MemberNotFound},
		{"an absent account's group in a Net", create, inNet, "Inbound",
			members(`"AccountId": "000000000009", "SecurityGroupId": "sg-00000000"`), apierror.MemberNotFound},
		{"a member of another name", create, public, "Inbound", members(`"SecurityGroupId": %q, "SecurityGroupName": "db"`, public),
			apierror.MemberNotFound},
		{"a member of another Net", create, inNet, "Inbound", members(`"SecurityGroupId": %q`, elsewhere), apierror.NotInNet},
		{"a member for the public Cloud in a Net", create, inNet, "Inbound", members(`"SecurityGroupId": %q`, public), apierror.NotInNet},
		{"a member of a Net in the public Cloud", create, public, "Inbound", members(`"SecurityGroupId": %q`, inNet), apierror.NotInPublicCloud},

		{"other ports", remove, inNet, "Inbound", `"IpProtocol": "tcp", "FromPortRange": 1, "ToPortRange": 2, "IpRange": "10.0.0.0/24"`,
			apierror.RuleNotFound},
		{"another range", remove, inNet, "Inbound", `"IpRange": "10.0.2.0/24"`, apierror.RuleNotFound},
		{"one that is there and one that is not", remove, inNet, "Inbound", `"Rules": [{"IpRanges": ["10.0.0.0/24", "10.0.2.0/24"]}]`,
			apierror.RuleNotFound},
		{"the other direction", remove, inNet, "Outbound", `"IpRange": "10.0.0.0/24"`, apierror.RuleNotFound},
		{"another member", remove, public, "Inbound", `"SecurityGroupNameToUnlink": "db"`, apierror.RuleNotFound},
		{"another account's member", remove, public, "Inbound",
			fmt.Sprintf(`"SecurityGroupAccountIdToUnlink": %q, "SecurityGroupNameToUnlink": "web"`, bob), apierror.RuleNotFound},
	}
	for _, test := range tests {
		for _, action := range test.actions {
			t.Run(action+" "+test.name, func(t *testing.T) { r.Refuse(test.want, alice, action, ask(test.group, test.flow, test.rest)) })
		}
	}
}

// Members in the public Cloud have names, and may be of other accounts.
func TestSecurityGroupMembers(t *testing.T) {
	t.Parallel()
	r := setup(t)
	group, db := r.group(alice, "", "web"), r.group(alice, "", "db")
	link := func(rest string, args ...any) {
		t.Helper()
		r.Call(alice, "CreateSecurityGroupRule", ask(group, "Inbound", fmt.Sprintf(rest, args...)))
	}
	link(`"SecurityGroupNameToLink": "db"`)
	link(`"SecurityGroupAccountIdToLink": %q, "SecurityGroupNameToLink": "web"`, alice)
	link(`"SecurityGroupAccountIdToLink": %q, "SecurityGroupNameToLink": "web"`, bob)
	link(`"Rules": [{"SecurityGroupsMembers": [{"AccountId": %q, "SecurityGroupId": "sg-12345678", "SecurityGroupName": "any"}]}]`, bob)
	want := func(more string) string {
		return fmt.Sprintf(`[{"IpProtocol": "-1", "FromPortRange": -1, "ToPortRange": -1, "SecurityGroupsMembers": [%s
			{"AccountId": %q, "SecurityGroupId": %q, "SecurityGroupName": "web"}, {"AccountId": %q, "SecurityGroupName": "web"}]}]`, more, alice,
			group, bob)
	}
	r.Refuse(apierror.DuplicateRule, alice, "CreateSecurityGroupRule",
		ask(group, "Inbound", fmt.Sprintf(`"SecurityGroupAccountIdToLink": %q, "SecurityGroupNameToLink": "web"`, bob)))
	r.Refuse(apierror.DuplicateRule, alice, "CreateSecurityGroupRule",
		ask(group, "Inbound", fmt.Sprintf(`"SecurityGroupAccountIdToLink": %q, "SecurityGroupNameToLink": "sg-12345678"`, bob)))
	r.Refuse(apierror.SecurityGroupInUse, alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, db)

	unlink := func(rest string, args ...any) {
		t.Helper()
		r.Call(alice, "DeleteSecurityGroupRule", ask(group, "Inbound", fmt.Sprintf(rest, args...)))
	}
	unlink(`"SecurityGroupAccountIdToUnlink": %q, "SecurityGroupNameToUnlink": "sg-12345678"`, bob)
	r.has(alice, group, "Inbound", want(fmt.Sprintf(`{"AccountId": %q, "SecurityGroupId": %q, "SecurityGroupName": "db"},`, alice, db)))
	unlink(`"SecurityGroupNameToUnlink": %q`, db)
	r.has(alice, group, "Inbound", want(""))
	r.Call(alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, db)
	unlink(`"Rules": [{"SecurityGroupsMembers": [{"SecurityGroupName": "web"}, {"AccountId": %q, "SecurityGroupName": "web"}]}]`, bob)
	r.has(alice, group, "Inbound", `[]`)
}

// Groups of Nets that are peered may name each other.
func TestSecurityGroupMembersOfPeers(t *testing.T) {
	t.Parallel()
	r := setup(t)
	near, far := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	group, member := r.group(alice, near, "web"), r.group(alice, far, "db")
	peer := func(account, net string, state network.NetPeeringName) {
		t.Helper()
		p := &network.NetPeering{
			SourceNet:   network.SourceNet{AccountId: alice, NetId: id.Net(near)},
			AccepterNet: network.AccepterNet{AccountId: id.Account(account), NetId: id.Net(net)},
			OwnNets:     []id.Net{id.Net(near)},
		}
		if account == alice {
			p.OwnNets = append(p.OwnNets, id.Net(net))
		}
		r.Update(alice, func(tx *resource.Tx) error { return network.PlacePeering(tx, p, state == network.PeeringActive) })
	}
	rule := ask(group, "Inbound", fmt.Sprintf(`"SecurityGroupNameToLink": %q`, member))
	back := ask(member, "Outbound", fmt.Sprintf(`"SecurityGroupNameToLink": %q`, group))
	peer(alice, far, network.PeeringPending)
	r.Refuse(apierror.NotInNet, alice, "CreateSecurityGroupRule", rule)
	peer(alice, far, network.PeeringActive)
	r.Call(alice, "CreateSecurityGroupRule", rule)
	r.Call(alice, "CreateSecurityGroupRule", back)
	r.Refuse(apierror.SecurityGroupInUse, alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, member)

	his := ask(group, "Inbound", fmt.Sprintf(`"SecurityGroupAccountIdToLink": %q, "SecurityGroupNameToLink": "sg-12345678"`, bob))
	peer(bob, near, network.PeeringPending) // whose Net may have the same ID
	r.Refuse(apierror.MemberNotFound, alice, "CreateSecurityGroupRule", his)
	peer(bob, near, network.PeeringActive)
	r.Call(alice, "CreateSecurityGroupRule", his)
}

func TestSecurityGroupRuleQuotas(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"sg_rule_limit": 2, "vpc_sg_rule_limit": 4})
	public, inNet := r.group(alice, "", "web"), r.group(alice, r.net(alice, "10.0.0.0/16"), "web")
	r.Call(alice, "CreateSecurityGroupRule", ask(public, "Inbound", `"Rules": [{"IpRanges": ["10.0.0.0/24", "10.0.1.0/24"]}]`))
	r.Refuse(apierror.TooManyRules, alice, "CreateSecurityGroupRule", ask(public, "Inbound", `"IpRange": "10.0.2.0/24"`))
	r.Call(alice, "DeleteSecurityGroupRule", ask(public, "Inbound", `"IpRange": "10.0.0.0/24"`))
	r.Call(alice, "CreateSecurityGroupRule", ask(public, "Inbound", `"IpRange": "10.0.2.0/24"`))

	r.uses(alice, "sg_rule_limit", 2)
	r.uses(alice, "vpc_sg_rule_limit", 2)
	r.Call(alice, "CreateSecurityGroupRule", ask(inNet, "Inbound", `"IpRange": "10.0.0.0/24"`))
	r.Refuse(apierror.TooManyRules, alice, "CreateSecurityGroupRule", ask(inNet, "Outbound",
		fmt.Sprintf(`"Rules": [{"IpRanges": ["10.0.0.0/24"], "SecurityGroupsMembers": [{"SecurityGroupId": %q}], "ServiceIds": [%q]}]`, inNet,
			r.someService())))
	r.Call(alice, "CreateSecurityGroupRule", ask(inNet, "Outbound",
		fmt.Sprintf(`"Rules": [{"SecurityGroupsMembers": [{"SecurityGroupId": %q}], "ServiceIds": [%q]}]`, inNet, r.someService())))
	r.uses(alice, "sg_rule_limit", 2)
	r.uses(alice, "vpc_sg_rule_limit", 4)
}

// What groups let through reaches the driver, and each change of it.
func TestSecurityGroupsReachTheWorld(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 0)
	loops, end := r.run(drivers)
	defer end()
	net := r.net(alice, "10.0.0.0/16")
	standard, web := r.groups(alice, net)[0].Text("SecurityGroupId"), r.group(alice, net, "web")
	r.group(alice, "", "web") // which is in no Net
	anywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	all := driver.Rule{Protocol: "-1", From: -1, To: -1, Ranges: anywhere}
	own := driver.Rule{Protocol: "-1", From: -1, To: -1, Groups: []driver.GroupName{{Account: alice, ID: standard}}}
	has := func(want ...driver.SecurityGroup) {
		t.Helper()
		r.settle(loops)
		got, err := drivers.ObserveNets(t.Context())
		if err != nil || len(got) != 1 {
			t.Fatalf("the driver has the Nets %v, %v", got, err)
		}
		if diff := cmp.Diff(want, got[0].SecurityGroups, drivertest.Equal()); diff != "" {
			t.Errorf("the driver has (-want +got):\n%s", diff)
		}
	}
	first := driver.SecurityGroup{ID: standard, Inbound: []driver.Rule{own}, Outbound: []driver.Rule{all}}
	has(first, driver.SecurityGroup{ID: web, Outbound: []driver.Rule{all}})

	r.Call(alice, "CreateSecurityGroupRule", ask(web, "Inbound",
		`"IpProtocol": "tcp", "FromPortRange": 80, "ToPortRange": 81, "IpRange": "0.0.0.0/0"`))
	r.Call(alice, "CreateSecurityGroupRule", ask(web, "Outbound",
		fmt.Sprintf(`"Rules": [{"IpProtocol": "50", "ServiceIds": [%q]}]`, r.someService())))
	r.Call(alice, "DeleteSecurityGroupRule", ask(web, "Outbound", `"IpRange": "0.0.0.0/0"`))
	has(first, driver.SecurityGroup{
		ID:       web,
		Inbound:  []driver.Rule{{Protocol: "tcp", From: 80, To: 81, Ranges: anywhere}},
		Outbound: []driver.Rule{{Protocol: "50", From: -1, To: -1, Services: []string{r.someService()}}},
	})
	r.Call(alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, web)
	has(first)
}

// So does what groups of the public Cloud let through, each by itself. A rule may
// name a group of another account, of which nobody here knows whether it is there.
func TestPublicGroupsReachTheWorld(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, time.Second)
	loops, end := r.run(drivers)
	defer end()
	r.net(alice, "10.0.0.0/16") // whose group is none of them
	standard, web := r.groups(alice, "")[0].Text("SecurityGroupId"), r.group(alice, "", "web")
	has := func(want ...driver.PublicGroup) {
		t.Helper()
		r.finish(loops)
		got, err := drivers.ObserveGroups(t.Context())
		got = slices.DeleteFunc(got, func(g driver.PublicGroup) bool { return g.Account != alice })
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			got[i].Generation = 0
		}
		if diff := cmp.Diff(want, got, drivertest.Equal()); diff != "" {
			t.Errorf("the driver has (-want +got):\n%s", diff)
		}
		if pending, err := r.DB.Pending(t.Context()); err != nil || len(pending) > 0 {
			t.Errorf("unsettled are the accounts %q, %v", pending, err)
		}
	}
	first := driver.PublicGroup{Account: alice, ID: standard, Name: "default", Inbound: []driver.Rule{
		{Protocol: "-1", From: -1, To: -1, Groups: []driver.GroupName{{Account: alice, ID: standard}}},
	}}
	second := driver.PublicGroup{Account: alice, ID: web, Name: "web"}
	has(first, second)

	r.Call(alice, "CreateSecurityGroupRule", ask(web, "Inbound",
		fmt.Sprintf(`"Rules": [{"IpProtocol": "tcp", "FromPortRange": 80, "ToPortRange": 81,
		"IpRanges": ["0.0.0.0/0"], "SecurityGroupsMembers": [{"SecurityGroupName": "default"}, {"AccountId": %q, "SecurityGroupName": "theirs"},
			{"AccountId": %[1]q, "SecurityGroupId": "sg-00000001"}]}]`, bob)))
	second.Inbound = []driver.Rule{{
		Protocol: "tcp", From: 80, To: 81, Ranges: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
		Groups: []driver.GroupName{{Account: alice, ID: standard}, {Account: bob, Name: "theirs"}, {Account: bob, ID: "sg-00000001"}},
	}}
	has(first, second)

	drivers.Fail(func(string) error { return errors.New("the network is away") })
	r.Call(alice, "DeleteSecurityGroupRule", ask(web, "Inbound",
		`"IpProtocol": "tcp", "FromPortRange": 80, "ToPortRange": 81, "IpRange": "0.0.0.0/0"`))
	r.settle(loops)
	drivers.Fail(nil)
	second.Inbound[0].Ranges = nil
	has(first, second)

	r.Call(alice, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, web)
	has(first)
}

// Whatever is added and taken away, in whatever pieces, a group lets through
// what it was told to.
func TestSecurityGroupRulesAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := open(t, nil, nil)
		defer r.DB.Close()
		r.welcome()
		group := r.group(alice, r.net(alice, "10.0.0.0/16"), "group")
		r.Call(alice, "DeleteSecurityGroupRule", ask(group, "Outbound", `"IpRange": "0.0.0.0/0"`))
		ends := []string{`"IpRanges": ["10.0.0.0/24"]`, `"IpRanges": ["10.0.1.0/24"]`,
			fmt.Sprintf(`"SecurityGroupsMembers": [{"SecurityGroupId": %q}]`, group)}
		kinds := []string{`"IpProtocol": "-1"`, `"IpProtocol": "tcp", "FromPortRange": 1, "ToPortRange": 2`,
			`"IpProtocol": "icmp", "FromPortRange": 8, "ToPortRange": 0`}
		has := map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				flow := rapid.SampledFrom([]string{"Inbound", "Outbound"}).Draw(t, "flow")
				adds := rapid.Bool().Draw(t, "adds")
				action, refusal := "DeleteSecurityGroupRule", apierror.RuleNotFound
				if adds {
					action, refusal = "CreateSecurityGroupRule", apierror.DuplicateRule
				}
				var rules []string
				after, refused := map[string]bool{}, false
				for range rapid.IntRange(1, 3).Draw(t, "rules") {
					rule := rapid.SampledFrom(kinds).Draw(t, "kind") + ", " + rapid.SampledFrom(ends).Draw(t, "end")
					// What is said twice is there already when it is added, and is one when it is taken away.
					_, again := after[rule]
					refused = refused || has[flow+rule] == adds || again && adds
					after[rule] = adds
					rules = append(rules, "{"+rule+"}")
				}
				body := ask(group, flow, `"Rules": [`+strings.Join(rules, ", ")+`]`)
				if refused {
					r.Refuse(refusal, alice, action, body)
					return
				}
				r.Call(alice, action, body)
				for rule := range after {
					has[flow+rule] = adds
				}
			},
			"": func(t *rapid.T) {
				want, got := 0, 0
				for _, there := range has {
					if there {
						want++
					}
				}
				for _, flow := range []string{"Inbound", "Outbound"} {
					seen := map[string]bool{}
					for _, rule := range r.rules(alice, group, flow) {
						ranges, _ := rule["IpRanges"].([]any)
						members, _ := rule["SecurityGroupsMembers"].([]any)
						n := len(ranges) + len(members)
						if got += n; n == 0 {
							t.Errorf("%v lets nothing through", rule)
						}
						traffic := fmt.Sprint(rule["IpProtocol"], rule["FromPortRange"], rule["ToPortRange"])
						if seen[traffic] {
							t.Errorf("two rules are for %s", traffic)
						}
						seen[traffic] = true
					}
				}
				if got != want {
					t.Errorf("the group lets %d through, want %d", got, want)
				}
			},
		})
	})
}

// A deletion takes what it says several times as one: clients repeat rules.
func TestDeleteSecurityGroupRuleTwiceInOneCall(t *testing.T) {
	t.Parallel()
	r := setup(t)
	group, member := r.group(alice, "", "web"), r.group(alice, "", "db")
	rules := fmt.Sprintf(`"Rules": [{"IpProtocol": "tcp", "FromPortRange": 80, "ToPortRange": 80, "IpRanges": ["10.0.0.0/24", "10.0.1.0/24"],
		"SecurityGroupsMembers": [{"SecurityGroupId": %q}]}, {"IpRanges": ["10.0.0.0/24"]}]`, member)
	r.Call(alice, "CreateSecurityGroupRule", ask(group, "Inbound", rules))
	r.Refuse(apierror.RuleNotFound, alice, "DeleteSecurityGroupRule", ask(group, "Inbound", `"Rules": [
		{"IpRanges": ["10.0.0.0/24"]}, {"IpRanges": ["10.0.0.0/24"]}, {"IpRanges": ["10.0.9.0/24"]}]`))
	r.Call(alice, "DeleteSecurityGroupRule", ask(group, "Inbound", fmt.Sprintf(`"Rules": [
		{"IpProtocol": "tcp", "FromPortRange": 80, "ToPortRange": 80, "IpRanges": ["10.0.0.0/24"],
			"SecurityGroupsMembers": [{"SecurityGroupId": %q}]},
		{"IpProtocol": "6", "FromPortRange": 80, "ToPortRange": 80, "IpRanges": ["10.0.0.0/24", "10.0.0.0/24"],
			"SecurityGroupsMembers": [{"SecurityGroupName": "db"}]},
		{"IpRanges": ["10.0.0.0/24"]}, {"IpRanges": ["10.0.0.0/24"]}]`, member)))
	r.has(alice, group, "Inbound", `[{"IpProtocol": "tcp", "FromPortRange": 80, "ToPortRange": 80, "IpRanges": ["10.0.1.0/24"]}]`)
}

// Whoever says many rules is told which of them is wrong, and where.
func TestSecurityGroupRefusalsNameTheParameter(t *testing.T) {
	t.Parallel()
	r := setup(t)
	public := r.group(alice, "", "web")
	for name, test := range map[string]struct{ said, want string }{
		"a rule of several": {`"Rules": [{"IpRanges": ["10.0.0.0/24"]}, {"IpProtocol": "tcp", "FromPortRange": 1,
			"IpRanges": ["10.0.0.0/24"]}]`, "Rules.1: tcp needs a FromPortRange"},
		"a rule by itself": {`"IpProtocol": "tcp", "FromPortRange": 1, "IpRange": "10.0.0.0/24"`, "tcp needs a FromPortRange"},
		"a type of ICMP":   {`"IpProtocol": "icmp", "FromPortRange": 256, "IpRange": "10.0.0.0/24"`, "icmp needs a type as FromPortRange"},
		"a protocol":       {`"IpProtocol": "50", "IpRange": "10.0.0.0/24"`, "The IpProtocol 50"},
	} {
		for _, action := range []string{"CreateSecurityGroupRule", "DeleteSecurityGroupRule"} {
			if _, err := r.Try(alice, action, ask(public, "Inbound", test.said)); err == nil || !strings.HasPrefix(apierror.From(err).Details,
				test.want) {
				t.Errorf("%s with %s is refused with %v, want %q", action, name, err, test.want)
			}
		}
	}
}
