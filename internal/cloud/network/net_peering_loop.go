package network

import (
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// wantPeerings adds the active peerings of a Net, each as the other Net.
func wantPeerings(tx *resource.Tx, n *Net, want *driver.Net) error {
	for p := range NetPeerings.Where(tx, "OwnNets", string(n.NetId)) {
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

// NewPeeringLoop makes the loop that ends the requests for Net peerings that were
// not answered in time, in both accounts.
func NewPeeringLoop(db *resource.DB) reconcile.Loop {
	return newExpiryLoop(db, NetPeerings, (*NetPeering).isOver, (*NetPeering).expire)
}
