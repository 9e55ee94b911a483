package network

import (
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NewInterfaceLoop makes the loop that brings DirectLink interfaces to a driver once
// their links are available. Of a hosted one, the driver has the copy of the owner.
// An interface changes, if only in its generation, whenever what it depends on
// does.
func NewInterfaceLoop(db *resource.DB, d driver.Links) reconcile.Loop {
	return reconcile.For(db, Interfaces, reconcile.Ops[DirectLinkInterface, driver.Interface, struct{}]{
		Want:    wantedInterface,
		Ensure:  reconcile.Apply(d.EnsureInterface),
		Remove:  d.RemoveInterface,
		Note:    noteInterface,
		Observe: reconcile.List(d.ObserveInterfaces, nil),
	})
}

// NewInterfaceExpiryLoop makes the loop that ends the interfaces that were not
// confirmed in time, in both accounts.
func NewInterfaceExpiryLoop(db *resource.DB) reconcile.Loop {
	return newExpiryLoop(db, Interfaces, (*DirectLinkInterface).isOver, (*DirectLinkInterface).expire)
}

// wantedInterface is the interface as the driver must have it; nil: there is nothing
// to ask of it now.
func wantedInterface(tx *resource.Tx, i *DirectLinkInterface) (*driver.Interface, error) {
	if !i.isOwners(tx) || i.ObservedGeneration == i.Generation {
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
		Local: i.OutscalePrivateIp.Prefix(), Remote: i.ClientPrivateIp.Prefix(), LocalAsn: int64(regionAsn), RemoteAsn: int64(i.BgpAsn),
		Secret: string(i.Key),
	}, nil
}

// noteInterface notes that the driver has an interface. Its other copy only has
// the state.
func noteInterface(tx *resource.Tx, i *DirectLinkInterface, _ driver.Interface, _ struct{}) error {
	if !resource.Allows(Interfaces, i, interfaceApplied) {
		return Interfaces.Put(tx, i)
	}
	return interfaceCopies.transition(tx, i, interfaceApplied, nil)
}
