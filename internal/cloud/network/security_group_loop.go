package network

import (
	"net/netip"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
)

func wantSecurityGroups(tx *kind.Tx, n *Net, want *driver.Net) error {
	for g := range SecurityGroups.Of(tx, n.NetId) {
		want.SecurityGroups = append(want.SecurityGroups, driver.SecurityGroup{
			ID: string(g.SecurityGroupId), Inbound: driverRules(g.InboundRules), Outbound: driverRules(g.OutboundRules),
		})
	}
	return nil
}

func driverRules(rules []SecurityGroupRule) (plain []driver.Rule) {
	for _, r := range rules {
		rule := driver.Rule{
			Protocol: string(r.IpProtocol), From: r.FromPortRange, To: r.ToPortRange,
			Ranges: prefixes(r.IpRanges), Services: r.ServiceIds,
		}
		for _, m := range r.SecurityGroupsMembers {
			rule.Groups = append(rule.Groups, driver.GroupName{Account: string(m.AccountId), ID: string(m.SecurityGroupId)})
		}
		plain = append(plain, rule)
	}
	return plain
}

// prefixes are ranges as addresses.
func prefixes(ranges []api.CIDR) (plain []netip.Prefix) {
	for _, r := range ranges {
		plain = append(plain, r.Prefix())
	}
	return plain
}
