package network

import "github.com/bastide-cloud/bastide/internal/resource"

// TouchInterfaces is what rules call that change what interfaces depend on.
var TouchInterfaces = touchInterfaces

// PlacePeering makes a Net peering in the account of the transaction alone, which
// is active if that is said.
func PlacePeering(tx *resource.Tx, p *NetPeering, active bool) error {
	err := resource.Transition(tx, NetPeerings, p, peeringRequested)
	if err != nil || !active {
		return err
	}
	return resource.Transition(tx, NetPeerings, p, peeringAccepted)
}
