package network

import (
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

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
