package network

import (
	"context"
	"net/netip"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

func wantSecurityGroups(tx *kind.Tx, n *Net, want *driver.Net) error {
	for g := range SecurityGroups.Of(tx, n.NetId) {
		want.SecurityGroups = append(want.SecurityGroups, driver.SecurityGroup{
			ID: string(g.SecurityGroupId), Inbound: driverRules(g.InboundRules), Outbound: driverRules(g.OutboundRules),
		})
	}
	return nil
}

// GroupLoop brings the security groups for the public Cloud to a driver. Those of
// Nets go with their Nets. What the world has and the store does not, it removes.
type GroupLoop struct {
	db    *kind.DB
	world driver.PublicCloud
}

// NewGroupLoop makes the loop that joins a store and a driver.
func NewGroupLoop(db *kind.DB, world driver.PublicCloud) *GroupLoop { return &GroupLoop{db, world} }

// Kind is the kind whose changes wake the loop.
func (l *GroupLoop) Kind() kind.Any { return SecurityGroups }

// Step brings one group to the world and notes that the world has it. It answers
// when to ask again if the world is not done.
func (l *GroupLoop) Step(ctx context.Context, account, groupID string) (again time.Time, err error) {
	var g *SecurityGroup
	err = l.db.View(ctx, kind.Caller{Account: account}, func(tx *kind.Tx) error {
		g = SecurityGroups.Living(tx, id.SecurityGroup(groupID))
		return nil
	})
	switch {
	case err != nil:
		return again, err
	case g == nil:
		return driver.UntilDone(l.world.RemoveGroup(ctx, account, groupID))
	case !g.Unsettled():
		return again, nil
	}
	want := driver.PublicGroup{
		Account: account, ID: groupID, Generation: g.Generation, Name: g.SecurityGroupName, Inbound: driverRules(g.InboundRules),
	}
	if again, err = driver.UntilDone(l.world.EnsureGroup(ctx, want)); err != nil || !again.IsZero() {
		return again, err
	}
	return again, l.db.Update(ctx, kind.Caller{Account: account}, func(tx *kind.Tx) error {
		now := SecurityGroups.Living(tx, g.SecurityGroupId)
		if now == nil || now.Applied >= want.Generation {
			return nil // it is gone, or others were faster
		}
		now.Applied = want.Generation
		return SecurityGroups.Put(tx, now)
	})
}

// Observe finds the groups that the world has.
func (l *GroupLoop) Observe(ctx context.Context, found reconcile.Found) error {
	groups, err := l.world.ObserveGroups(ctx)
	for _, g := range groups {
		found(g.Account, g.ID, false)
	}
	return err
}

func driverRules(rules []SecurityGroupRule) (plain []driver.Rule) {
	for _, r := range rules {
		rule := driver.Rule{
			Protocol: string(r.IpProtocol), From: r.FromPortRange, To: r.ToPortRange,
			Ranges: prefixes(r.IpRanges), Services: r.ServiceIds,
		}
		for _, m := range r.SecurityGroupsMembers {
			name := driver.GroupName{Account: string(m.AccountId), ID: string(m.SecurityGroupId)}
			if name.ID == "" { // another account's, which only the world may look for
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
