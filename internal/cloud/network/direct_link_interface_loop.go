package network

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// InterfaceLoop brings DirectLink interfaces to a driver once their links are
// available, and removes those that the store does not have. It also ends those
// that were not confirmed in time, as [PeeringLoop] ends requests.
type InterfaceLoop struct {
	db    *kind.DB
	world driver.Links
}

// NewInterfaceLoop makes the loop that joins a store and a driver.
func NewInterfaceLoop(db *kind.DB, world driver.Links) *InterfaceLoop {
	return &InterfaceLoop{db, world}
}

// Kind is the kind whose changes wake the loop. An interface changes, if only in
// its generation, whenever what it depends on does.
func (l *InterfaceLoop) Kind() kind.Any { return Interfaces }

// Step takes one interface as far as it goes. Of a hosted one, the world knows
// the owner's copy.
func (l *InterfaceLoop) Step(ctx context.Context, account, interfaceID string) (again time.Time, err error) {
	caller := kind.Caller{Account: account}
	var isHere, isOver bool
	var want *driver.Interface
	err = l.db.View(ctx, caller, func(tx *kind.Tx) (err error) {
		isHere, isOver, want = false, false, nil
		i := Interfaces.Living(tx, id.DirectLinkInterface(interfaceID))
		if i == nil {
			return nil
		}
		isHere, isOver = true, i.isOver(tx.Now())
		want, err = i.wanted(tx)
		return err
	})
	switch {
	case err != nil:
		return again, err
	case !isHere:
		return driver.UntilDone(l.world.RemoveInterface(ctx, account, interfaceID))
	case isOver:
		return again, l.db.Update(ctx, caller, func(tx *kind.Tx) error { return expireInterface(tx, interfaceID) })
	case want == nil:
		return again, nil
	}
	if again, err = driver.UntilDone(l.world.EnsureInterface(ctx, *want)); err != nil || !again.IsZero() {
		return again, err
	}
	return again, l.db.Update(ctx, caller, func(tx *kind.Tx) error { return noteInterface(tx, *want) })
}

func expireInterface(tx *kind.Tx, which string) error {
	i := Interfaces.Living(tx, id.DirectLinkInterface(which))
	if i == nil || !i.isOver(tx.Now()) {
		return nil
	}
	return i.expire(tx)
}

// wanted is the interface as the world should have it; nil: there is nothing to
// ask of the world now.
func (i *DirectLinkInterfaces) wanted(tx *kind.Tx) (*driver.Interface, error) {
	if !i.isOwners(tx) || i.Applied == i.Generation {
		return nil, nil
	}
	link, err := DirectLinks.Get(tx.In(string(i.LinkOwner)), i.DirectLinkId)
	if err != nil || link.State != DirectLinkAvailable {
		return nil, err
	}
	gateway, err := VirtualGateways.Get(tx, i.VirtualGatewayId)
	if err != nil {
		return nil, err
	}
	return &driver.Interface{
		Account: tx.Account(), ID: string(i.DirectLinkInterfaceId), Generation: i.Generation,
		Link: string(i.DirectLinkId), Location: i.Location, Vlan: int(i.Vlan), Mtu: int(i.Mtu),
		Gateway: string(gateway.VirtualGatewayId), Net: string(gateway.NetId),
		Local: i.OutscalePrivateIp.Prefix(), Remote: i.ClientPrivateIp.Prefix(), LocalAsn: int64(regionAsn), RemoteAsn: int64(i.BgpAsn), Secret: string(i.Key),
	}, nil
}

// noteInterface notes that the world has an interface, unless it has ended
// or the world has something newer.
func noteInterface(tx *kind.Tx, done driver.Interface) error {
	i := Interfaces.Living(tx, id.DirectLinkInterface(done.ID))
	if i == nil || i.Applied >= done.Generation {
		return nil
	}
	i.Applied = done.Generation
	if !kind.Allows(Interfaces, i, interfaceApplied) {
		return Interfaces.Put(tx, i)
	}
	return i.happens(tx, interfaceApplied, onlyThat)
}

// Observe finds the interfaces that the world has.
func (l *InterfaceLoop) Observe(ctx context.Context, found reconcile.Found) error {
	interfaces, err := l.world.ObserveInterfaces(ctx)
	for _, i := range interfaces {
		found(i.Account, i.ID, false)
	}
	return err
}
