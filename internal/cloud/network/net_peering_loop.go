package network

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// wantPeerings adds the active peerings of a Net, each as the other Net.
func wantPeerings(tx *kind.Tx, n *Net, want *driver.Net) error {
	for p := range NetPeerings.Find(tx, "OwnNets", string(n.NetId)) {
		if p.State.Name != PeeringActive {
			continue
		}
		other := p.AccepterNet
		if string(other.AccountId) == tx.Account() && other.NetId == n.NetId {
			other = AccepterNet(p.SourceNet)
		}
		want.Peerings = append(want.Peerings, driver.Peering{
			ID: string(p.NetPeeringId), Account: string(other.AccountId), Net: string(other.NetId), IpRange: other.IpRange.Prefix(),
		})
	}
	return nil
}

// PeeringLoop ends the requests for Net peerings that nobody has answered in
// time. It leaves their time to the sweeps, which come often enough: a request
// is shown as expired, and cannot be accepted, from the very moment.
type PeeringLoop struct{ db *kind.DB }

// NewPeeringLoop makes the loop over a store.
func NewPeeringLoop(db *kind.DB) *PeeringLoop { return &PeeringLoop{db} }

// Kind is the kind whose changes wake the loop.
func (l *PeeringLoop) Kind() kind.Any { return NetPeerings }

// Step ends one request, in both accounts, if its time has passed.
func (l *PeeringLoop) Step(ctx context.Context, account, peering string) (again time.Time, err error) {
	caller := kind.Caller{Account: account}
	isOver := false
	err = l.db.View(ctx, caller, func(tx *kind.Tx) error {
		p := NetPeerings.Living(tx, id.NetPeering(peering))
		isOver = p != nil && p.isOver(tx.Now())
		return nil
	})
	if err != nil || !isOver {
		return again, err
	}
	return again, l.db.Update(ctx, caller, func(tx *kind.Tx) error {
		p := NetPeerings.Living(tx, id.NetPeering(peering))
		if p == nil || !p.isOver(tx.Now()) {
			return nil
		}
		return p.expire(tx)
	})
}

// Observe finds nothing: a request is not in the world.
func (l *PeeringLoop) Observe(context.Context, reconcile.Found) error { return nil }
