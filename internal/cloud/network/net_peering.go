package network

import (
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// NetPeering joins two Nets, once the owner of the second has accepted. If they
// are of two accounts, each account keeps the peering under the same ID, and
// what changes it changes both.
type NetPeering struct {
	AccepterNet    AccepterNet     // The Net whose owner is asked.
	ExpirationDate api.DateTime    // When the request expires, while it is pending.
	NetPeeringId   id.NetPeering   // The ID of the Net peering.
	SourceNet      SourceNet       // The Net whose owner asks.
	State          NetPeeringState // The state of the Net peering.
	Tags           []api.Tag       // The tags that this account gave the peering.

	// OwnNets are those of the two Nets that are this account's, as long as
	// the peering keeps them.
	OwnNets []id.Net `wire:"-"`
}

// SourceNet is the Net whose owner asks for a peering.
type SourceNet struct {
	AccountId id.Account `ref:"-"` // The account ID of the owner of the Net.
	IpRange   api.CIDR   // The range of the Net.
	NetId     id.Net     `ref:"-"` // The ID of the Net.
}

// AccepterNet is the Net whose owner is asked for a peering.
type AccepterNet struct {
	AccountId id.Account `ref:"-"` // The account ID of the owner of the Net.
	IpRange   api.CIDR   // The range of the Net.
	NetId     id.Net     `ref:"-"` // The ID of the Net.
}

// NetPeeringState is the state of a peering and what led to it.
type NetPeeringState struct {
	Message string         // What the state means, for people.
	Name    NetPeeringName // The state.
}

// NetPeerings are the Net peerings of the region.
var NetPeerings = &kind.Kind[NetPeering, id.NetPeering]{
	Name:    "NetPeering",
	Tag:     "vpc-peering-connection",
	Missing: fault.ObjectNotFound, // the catalogue has no code for peerings
	Held:    fault.InUse,
	Keep:    2 * time.Hour, // as long as AWS shows rejected ones
}

// NetPeeringName is the state of a peering.
type NetPeeringName string

// The states of a peering.
const (
	PeeringPending  NetPeeringName = "pending-acceptance"
	PeeringActive   NetPeeringName = "active"
	PeeringRejected NetPeeringName = "rejected"
	PeeringFailed   NetPeeringName = "failed"
	PeeringExpired  NetPeeringName = "expired"
	PeeringDeleted  NetPeeringName = "deleted"
)

// Literals implements [api.Enum].
func (NetPeeringName) Literals() []string {
	return []string{"pending-acceptance", "active", "rejected", "failed", "expired", "deleted"}
}
