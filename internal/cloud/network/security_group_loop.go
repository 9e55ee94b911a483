package network

import (
	"net/netip"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func wantSecurityGroups(tx *resource.Tx, n *Net, want *driver.Net) error {
	for g := range SecurityGroups.Of(tx, n.NetId) {
		want.SecurityGroups = append(want.SecurityGroups, driver.SecurityGroup{
			ID: string(g.SecurityGroupId), Inbound: driverRules(g.InboundRules), Outbound: driverRules(g.OutboundRules),
		})
	}
	return nil
}

// NewGroupLoop makes the loop that brings the security groups for the public Cloud
// to a driver. A driver has the groups of Nets with their Nets.
func NewGroupLoop(db *resource.DB, d driver.PublicCloud) reconcile.Loop {
	return reconcile.For(db, SecurityGroups, reconcile.Ops[SecurityGroup, driver.PublicGroup, struct{}]{
		Want: func(tx *resource.Tx, g *SecurityGroup) (*driver.PublicGroup, error) {
			return &driver.PublicGroup{
				Account: tx.Account(), ID: string(g.SecurityGroupId), Generation: g.Generation,
				Name: g.SecurityGroupName, Inbound: driverRules(g.InboundRules),
			}, nil
		},
		Ensure:  reconcile.Apply(d.EnsureGroup),
		Remove:  d.RemoveGroup,
		Observe: reconcile.List(d.ObserveGroups, nil),
	})
}

func driverRules(rules []SecurityGroupRule) (plain []driver.Rule) {
	for _, r := range rules {
		rule := driver.Rule{
			Protocol: string(r.IpProtocol), From: r.FromPortRange, To: r.ToPortRange,
			Ranges: prefixes(r.IpRanges), Services: r.ServiceIds,
		}
		for _, m := range r.SecurityGroupsMembers {
			name := driver.GroupName{Account: string(m.AccountId), ID: string(m.SecurityGroupId)}
			if name.ID == "" { // another account's, which only the driver may look for
				name.Name = m.SecurityGroupName
			}
			rule.Groups = append(rule.Groups, name)
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
