package network

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NetPeering joins two Nets, once the owner of the second has accepted. If they
// are of two accounts, each account keeps the peering under the same ID, and
// what changes it changes both.
type NetPeering struct {
	AccepterNet    AccepterNet     // The Net whose owner is asked.
	ExpirationDate api.DateTime    // When the request expires, while it is pending, or has expired.
	NetPeeringId   id.NetPeering   // The ID of the Net peering.
	SourceNet      SourceNet       // The Net whose owner asks.
	State          NetPeeringState // The state of the Net peering.
	Tags           []api.Tag       // The tags that this account gave the peering.

	// OwnNets are those of the two Nets that are this account's, as long as
	// the peering keeps them.
	OwnNets []id.Net `wire:"-"`

	// InVain means that the account that is asked has no such Net, and so no
	// copy. The caller sees a request that is not answered, so that a request
	// does not tell which Nets other accounts have.
	InVain bool `wire:"-"`
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
	// The range of the Net; absent from a request to another account until that account accepts
	// it.
	IpRange api.CIDR `wire:"omitempty"`
	NetId   id.Net   `ref:"-"` // The ID of the Net.
}

// NetPeeringState is the state of a peering and what led to it.
type NetPeeringState struct {
	Message string         // What the state means, for people.
	Name    NetPeeringName // The state.
}

// NetPeerings are the Net peerings of the region. One that has ended, however
// it did, is a deleted resource in its last state.
var NetPeerings = &resource.Kind[NetPeering, id.NetPeering]{
	Name:      "NetPeering",
	Tag:       "vpc-peering-connection",
	NotFound:  apierror.NetPeeringNotFound,
	InUse:     apierror.InUse,
	Retention: time.Hour,

	Life:      peeringLife,
	Forbidden: apierror.InvalidTransition,
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

// What happens to a peering.
const (
	peeringRequested lifecycle.Event[NetPeeringName] = "requested"
	peeringAccepted  lifecycle.Event[NetPeeringName] = "accepted"
	peeringRejected  lifecycle.Event[NetPeeringName] = "rejected"
	peeringFailed    lifecycle.Event[NetPeeringName] = "failed"
	peeringExpired   lifecycle.Event[NetPeeringName] = "expired"
	peeringDeleted   lifecycle.Event[NetPeeringName] = "deleted"
	peeringForgotten lifecycle.Event[NetPeeringName] = "forgotten"
)

// peeringLife is the life of a peering. It begins with its end if the ranges of
// the Nets overlap and both are the caller's, or if a peering in the other
// direction joins them already.
var peeringLife = lifecycle.Table[NetPeeringName]{
	"": {peeringRequested: PeeringPending, peeringFailed: PeeringFailed, peeringRejected: PeeringRejected},
	PeeringPending: {
		peeringAccepted: PeeringActive, peeringFailed: PeeringFailed, peeringRejected: PeeringRejected,
		peeringExpired: PeeringExpired, peeringDeleted: PeeringDeleted,
	},
	PeeringActive:   {peeringDeleted: PeeringDeleted},
	PeeringRejected: {peeringForgotten: ""},
	PeeringFailed:   {peeringForgotten: ""},
	PeeringExpired:  {peeringForgotten: ""},
	PeeringDeleted:  {peeringForgotten: ""},
}

// peeringPatience is how long a request waits to be accepted.
const peeringPatience = 7 * 24 * time.Hour

// expiredState is that of a request whose time has passed.
var expiredState = NetPeeringState{"Expired", PeeringExpired}

// Pending makes a request something to look at until it has an answer: its
// time may have passed.
func (p *NetPeering) Pending() bool { return p.State.Name == PeeringPending }

// isOver reports whether the time of a request has passed.
func (p *NetPeering) isOver(now time.Time) bool {
	return p.State.Name == PeeringPending && !p.ExpirationDate.Time().After(now)
}

// expirePeerings ends the requests for a peering of the Net whose time has
// passed, so that they do not keep it until the loop comes by.
func expirePeerings(tx *resource.Tx, n *Net) error {
	for p := range NetPeerings.Where(tx, "OwnNets", string(n.NetId)) {
		if !p.isOver(tx.Now()) {
			continue
		}
		if err := p.expire(tx); err != nil {
			return err
		}
	}
	return nil
}

// expire ends a request whose time has passed.
func (p *NetPeering) expire(tx *resource.Tx) error {
	return p.transition(tx, peeringExpired, expiredState.Message)
}

// peeringCopies are the copies that the accounts of a peering keep.
var peeringCopies = &twoSided[NetPeering, id.NetPeering, NetPeeringName]{
	kind: NetPeerings, id: func(p *NetPeering) id.NetPeering { return p.NetPeeringId }, sides: (*NetPeering).sides,
}

// sides returns the accounts that keep the peering.
func (p *NetPeering) sides() []id.Account {
	if p.InVain {
		return []id.Account{p.SourceNet.AccountId}
	}
	return distinctAccounts(p.SourceNet.AccountId, p.AccepterNet.AccountId)
}

func netPeeringActions() []api.Action {
	return []api.Action{
		api.Do("NetPeering", createNetPeering),
		api.Read[ReadNetPeeringsRequest](api.Values("NetPeering", "NetPeerings", peerings)),
		api.Do("NetPeering", acceptNetPeering),
		api.Command("NetPeering", rejectNetPeering),
		api.Command("NetPeering", deleteNetPeering),
	}
}

// viewPeering shows a peering as it is now. A request whose time has passed is
// expired, whether or not the loop has noted it.
func viewPeering(tx *resource.Tx, p *NetPeering) *NetPeering {
	if p.isOver(tx.Now()) {
		p.State = expiredState
	}
	return p
}

// peerings are the peerings of the account as they are now, so that filters by
// state see what is shown.
func peerings(tx *resource.Tx) iter.Seq2[api.Position, NetPeering] {
	return func(yield func(api.Position, NetPeering) bool) {
		for seq, p := range NetPeerings.Each(tx, 0) {
			own := *p
			if !yield(api.Position{Seq: seq}, *viewPeering(tx, &own)) {
				return
			}
		}
	}
}

// findPeering finds a peering as it is now, including one that has ended and is
// still shown.
func findPeering(tx *resource.Tx, peering id.NetPeering) (*NetPeering, error) {
	p := NetPeerings.Lookup(tx, peering)
	if p == nil {
		return nil, NetPeerings.ErrNotFound(peering)
	}
	shown := *p // which may differ from what is stored
	return viewPeering(tx, &shown), nil
}

// CreateNetPeeringRequest asks the owner of a Net to join it to one of the
// caller's.
type CreateNetPeeringRequest struct {
	// The ID of the Net to be joined with. Its range does not overlap that of the other Net:
	// otherwise the Net peering is `failed`, as soon as both ranges are known to both owners.
	AccepterNetId id.Net `api:"required"`
	// The account ID of the owner of that Net, if it is not the caller's. By default, the
	// caller.
	AccepterOwnerId id.Account
	SourceNetId     id.Net `api:"required"` // The ID of the caller's Net.
}

// CreateNetPeeringResponse shows the peering, which is `failed` or `rejected` if
// the two Nets cannot be joined.
type CreateNetPeeringResponse struct{ NetPeering *NetPeering }

func createNetPeering(tx *resource.Tx, req *CreateNetPeeringRequest) (*CreateNetPeeringResponse, error) {
	caller := id.Account(tx.Account())
	owner := cmp.Or(req.AccepterOwnerId, caller)
	if owner == caller && req.SourceNetId == req.AccepterNetId {
		return nil, apierror.SameNet.Errorf("The Net %s cannot be peered with itself.", req.SourceNetId)
	}
	source := Nets.Find(tx, req.SourceNetId)
	if source == nil {
		return nil, apierror.NetNotFound.Errorf("The SourceNetId '%s' doesn't exist.", req.SourceNetId)
	}
	p := &NetPeering{
		SourceNet:   SourceNet{AccountId: caller, IpRange: source.IpRange, NetId: source.NetId},
		AccepterNet: AccepterNet{AccountId: owner, NetId: req.AccepterNetId},
		InVain:      !isRegistered(tx, owner) || !Nets.Has(tx.In(string(owner)), req.AccepterNetId),
	}
	event, message := peeringRequested, "Pending acceptance by "+string(owner)
	if owner == caller {
		accepter := Nets.Find(tx, req.AccepterNetId)
		if accepter == nil {
			return nil, apierror.NetNotFound.Errorf("The AccepterNetId '%s' doesn't exist.", req.AccepterNetId)
		}
		if p.AccepterNet.IpRange = accepter.IpRange; p.overlaps() {
			event, message = peeringFailed, overlapMessage
		}
	}
	reverse, err := p.checkRivals(tx)
	if err != nil {
		return nil, err
	}
	if reverse != nil {
		event, message = peeringRejected, rivalMessage(reverse)
	}
	p.NetPeeringId = peeringCopies.newID(tx, p)
	p.State.Message = message
	if event != peeringRequested {
		return &CreateNetPeeringResponse{p}, resource.Transition(tx, NetPeerings, p, event)
	}
	if err := tx.CheckLimit("networklink_request_limit", apierror.TooManyPeeringRequests, requests(tx)+1); err != nil {
		return nil, err
	}
	p.ExpirationDate = api.At(tx.Now().Add(peeringPatience))
	return &CreateNetPeeringResponse{p}, p.request(tx)
}

// overlapMessage is what the state of a peering says whose Nets overlap.
const overlapMessage = "Failed: the ranges of the two Nets overlap"

// checkRivals refuses a peering that exists already. It returns an active one in
// the other direction; nil: there is none.
func (p *NetPeering) checkRivals(tx *resource.Tx) (reverse *NetPeering, err error) {
	for other := range rivals(tx, p) {
		switch {
		case other.leads(p.SourceNet, p.AccepterNet):
			return nil, apierror.PeeringExists.Errorf("The Net peering %s between %s and %s exists already: it is %s.",
				other.NetPeeringId, p.SourceNet.NetId, p.AccepterNet.NetId, other.State.Name)
		case other.State.Name == PeeringActive:
			reverse = other
		}
	}
	return reverse, nil
}

// rivalMessage is the message of a peering that is rejected because of another.
func rivalMessage(other *NetPeering) string {
	return "Rejected: " + string(other.NetPeeringId) + " joins the two Nets already"
}

// overlaps reports whether the two Nets have addresses in common.
func (p *NetPeering) overlaps() bool {
	return p.SourceNet.IpRange.Prefix().Overlaps(p.AccepterNet.IpRange.Prefix())
}

// request makes the peering a request, of which the owner who is asked has a copy
// that shows the range of the owner's Net.
func (p *NetPeering) request(tx *resource.Tx) error {
	return peeringCopies.create(tx, p, peeringRequested, func(in *resource.Tx, own *NetPeering) error {
		account := id.Account(in.Account())
		own.OwnNets = p.netsOf(account)
		if account != p.AccepterNet.AccountId || p.AccepterNet.AccountId == p.SourceNet.AccountId {
			return nil
		}
		net, err := Nets.Get(in, own.AccepterNet.NetId)
		if err != nil {
			return err
		}
		own.AccepterNet.IpRange = net.IpRange
		return nil
	})
}

// netsOf are those of the two Nets that are an account's.
func (p *NetPeering) netsOf(account id.Account) (own []id.Net) {
	if p.SourceNet.AccountId == account {
		own = append(own, p.SourceNet.NetId)
	}
	if p.AccepterNet.AccountId == account {
		own = append(own, p.AccepterNet.NetId)
	}
	return own
}

// leads reports whether a peering was asked for from one Net to another. Their
// ranges do not count: the account that asks does not know the other one at first.
func (p *NetPeering) leads(from SourceNet, to AccepterNet) bool {
	return p.SourceNet.AccountId == from.AccountId && p.SourceNet.NetId == from.NetId &&
		p.AccepterNet.AccountId == to.AccountId && p.AccepterNet.NetId == to.NetId
}

// rivals are the other peerings of the same two Nets, in either direction, that
// live.
func rivals(tx *resource.Tx, p *NetPeering) iter.Seq[*NetPeering] {
	return func(yield func(*NetPeering) bool) {
		for other := range NetPeerings.Where(tx, "OwnNets", string(p.netsOf(id.Account(tx.Account()))[0])) {
			isSame := other.leads(p.SourceNet, p.AccepterNet)
			isReverse := other.leads(SourceNet(p.AccepterNet), AccepterNet(p.SourceNet))
			if (isSame || isReverse) && other.NetPeeringId != p.NetPeeringId && !other.isOver(tx.Now()) && !yield(other) {
				return
			}
		}
	}
}

// requests counts the requests of the account that wait for an answer.
func requests(tx *resource.Tx) (n int) {
	for p := range NetPeerings.All(tx) {
		if p.State.Name == PeeringPending && p.SourceNet.AccountId == id.Account(tx.Account()) && !p.isOver(tx.Now()) {
			n++
		}
	}
	return n
}

// activePeerings counts the active peerings of a Net.
func activePeerings(tx *resource.Tx, net id.Net) (n int) {
	for p := range NetPeerings.Where(tx, "OwnNets", string(net)) {
		if p.State.Name == PeeringActive {
			n++
		}
	}
	return n
}

func netPeeringMeters() []resource.Meter {
	return []resource.Meter{
		resource.GlobalMeter("networklink_request_limit", requests),
		resource.GlobalMeter("networklink_limit", func(tx *resource.Tx) (most int) {
			for n := range Nets.All(tx) {
				most = max(most, activePeerings(tx, n.NetId))
			}
			return most
		}),
	}
}

// transition applies an event to a peering, in both accounts, with a message that
// says what the new state means.
func (p *NetPeering) transition(tx *resource.Tx, event lifecycle.Event[NetPeeringName], message string) error {
	changesNets := event == peeringAccepted || p.State.Name == PeeringActive
	return peeringCopies.transition(tx, p, event, func(tx *resource.Tx, own *NetPeering) error {
		own.State.Message = message
		if event != peeringExpired {
			own.ExpirationDate = 0
		}
		if changesNets {
			for _, net := range own.OwnNets {
				if err := touch(tx, net); err != nil {
					return err
				}
			}
		}
		if event == peeringAccepted {
			own.AccepterNet = p.AccepterNet // with its range, which both may know now
		} else {
			own.OwnNets = nil
		}
		return nil
	})
}

// asked makes sure that the caller is the one whom a request asks.
func (p *NetPeering) asked(tx *resource.Tx, what string) error {
	if string(p.AccepterNet.AccountId) == tx.Account() {
		return nil
	}
	return apierror.NotAuthorized.Errorf(
		"The Net peering %s is a request to the account %s, which alone can %s it.", p.NetPeeringId, p.AccepterNet.AccountId, what)
}

// AcceptNetPeeringRequest accepts a request for a Net peering with a Net of the
// caller's.
type AcceptNetPeeringRequest struct {
	NetPeeringId id.NetPeering `api:"required"` // The ID of the Net peering to accept.
}

// AcceptNetPeeringResponse shows the peering, which is `failed` if the ranges of
// the two Nets overlap.
type AcceptNetPeeringResponse struct{ NetPeering *NetPeering }

func acceptNetPeering(tx *resource.Tx, req *AcceptNetPeeringRequest) (*AcceptNetPeeringResponse, error) {
	p, err := findPeering(tx, req.NetPeeringId)
	if err != nil {
		return nil, err
	}
	if err := p.asked(tx, "accept"); err != nil {
		return nil, err
	}
	if p.State.Name == PeeringPending && p.overlaps() {
		if err := p.transition(tx, peeringFailed, overlapMessage); err != nil {
			return nil, err
		}
		p, err = findPeering(tx, p.NetPeeringId)
		return &AcceptNetPeeringResponse{p}, err
	}
	if err := p.transition(tx, peeringAccepted, "Active"); err != nil {
		return nil, err
	}
	for _, account := range p.sides() {
		in := tx.In(string(account))
		for _, net := range p.netsOf(account) {
			if err := in.CheckLimit("networklink_limit", apierror.TooManyPeerings, activePeerings(in, net)); err != nil {
				return nil, err
			}
		}
	}
	for _, other := range slices.Collect(rivals(tx, p)) {
		if err := other.transition(tx, peeringRejected, rivalMessage(p)); err != nil {
			return nil, err
		}
	}
	p, err = NetPeerings.Get(tx, p.NetPeeringId)
	return &AcceptNetPeeringResponse{p}, err
}

// RejectNetPeeringRequest rejects a request for a Net peering with a Net of the
// caller's.
type RejectNetPeeringRequest struct {
	NetPeeringId id.NetPeering `api:"required"` // The ID of the Net peering to reject.
}

func rejectNetPeering(tx *resource.Tx, req *RejectNetPeeringRequest) error {
	p, err := findPeering(tx, req.NetPeeringId)
	if err != nil {
		return err
	}
	if err := p.asked(tx, "reject"); err != nil {
		return err
	}
	return p.transition(tx, peeringRejected, "Rejected by "+tx.Account())
}

// DeleteNetPeeringRequest deletes a Net peering.
type DeleteNetPeeringRequest struct {
	// The ID of the Net peering to delete. One that is active can be deleted by the owners of
	// both Nets, a request only by who made it.
	NetPeeringId id.NetPeering `api:"required"`
}

func deleteNetPeering(tx *resource.Tx, req *DeleteNetPeeringRequest) error {
	p, err := findPeering(tx, req.NetPeeringId)
	if err != nil {
		return err
	}
	if p.State.Name == PeeringDeleted {
		// Clients take only 5000 to 5999 for an end, and would repeat the call otherwise.
		return NetPeerings.ErrNotFound(req.NetPeeringId)
	}
	if p.State.Name == PeeringPending && string(p.SourceNet.AccountId) != tx.Account() {
		return apierror.NotAuthorized.Errorf(
			"The Net peering %s is a request of the account %s, which alone can delete it: reject it instead.",
			p.NetPeeringId, p.SourceNet.AccountId)
	}
	return p.transition(tx, peeringDeleted, "Deleted by "+tx.Account())
}

// ReadNetPeeringsRequest asks for Net peerings.
type ReadNetPeeringsRequest struct {
	// Which Net peerings to list; all of them if absent. Those that have ended are listed for
	// an hour.
	Filters *FiltersNetPeering
	api.Page
}

// FiltersNetPeering selects Net peerings.
type FiltersNetPeering struct {
	// The account IDs of the owners of the Nets that are asked for.
	AccepterNetAccountIds []id.Account
	// The ranges of the Nets that are asked for, in CIDR notation.
	AccepterNetIpRanges []api.CIDR
	// The IDs of the Nets that are asked for.
	AccepterNetNetIds []id.Net
	ExpirationDates   []api.DateTime  // When the requests expire.
	NetPeeringIds     []id.NetPeering // The IDs of the Net peerings.
	// The account IDs of those who ask.
	SourceNetAccountIds []id.Account
	// The ranges of the Nets of those who ask, in CIDR notation.
	SourceNetIpRanges []api.CIDR
	// The IDs of the Nets of those who ask.
	SourceNetNetIds []id.Net
	StateMessages   []string // What the states mean.
	// The states of the Net peerings.
	StateNames []NetPeeringName
	api.TagFilters
}

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
