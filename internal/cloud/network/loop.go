package network

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NewNetLoop makes the loop that brings the Nets of a region to a driver, each with
// all that is in it as one value, and moves what waits for that, which are Net
// access points, to available. A Net changes, if only in its generation, whenever
// anything in it does.
func NewNetLoop(db *resource.DB, d driver.Networks, region Region) reconcile.Loop {
	services := region.wantServices()
	return reconcile.For(db, Nets, reconcile.Ops[Net, driver.Net, struct{}]{
		Want:    func(tx *resource.Tx, n *Net) (*driver.Net, error) { return n.wanted(tx, services) },
		Ensure:  reconcile.Apply(d.EnsureNet),
		Remove:  d.RemoveNet,
		Note:    noteNet,
		Observe: reconcile.List(d.ObserveNets, nil),
	})
}

// wanted is the Net as the driver must have it, in a region with services.
func (n *Net) wanted(tx *resource.Tx, services []driver.Service) (*driver.Net, error) {
	set, err := DhcpOptionsSets.Get(tx, n.DhcpOptionsSetId)
	if err != nil {
		return nil, err
	}
	want := &driver.Net{
		Account:    tx.Account(),
		ID:         string(n.NetId),
		Generation: n.Generation,
		IpRange:    n.IpRange.Prefix(),
		Dhcp: driver.DhcpOptions{
			DomainName:        string(set.DomainName),
			DomainNameServers: texts(set.DomainNameServers),
			LogServers:        texts(set.LogServers),
			NtpServers:        texts(set.NtpServers),
		},
		Services: services,
	}
	for _, family := range families {
		if err := family.want(tx, n, want); err != nil {
			return nil, err
		}
	}
	return want, nil
}

// texts is a list of named texts as plain ones.
func texts[S ~string](list []S) []string {
	plain := make([]string, len(list))
	for i, s := range list {
		plain[i] = string(s)
	}
	return plain
}

// noteNet notes that the driver has a Net. What became of the Net since the driver
// was asked stays as it is: a Subnet may be gone.
func noteNet(tx *resource.Tx, net *Net, done driver.Net, _ struct{}) error {
	if err := Nets.Put(tx, net); err != nil {
		return err
	}
	for _, family := range families {
		if family.settle == nil {
			continue
		}
		if err := family.settle(tx, done); err != nil {
			return err
		}
	}
	return nil
}

// newExpiryLoop makes the loop that ends the resources of a kind that wait for an
// answer, once their time has passed. It leaves that time to the sweeps, which come
// often enough: a resource is shown as expired from the very moment.
func newExpiryLoop[T any, I resource.ID](
	db *resource.DB, k *resource.Kind[T, I], isOver func(v *T, now time.Time) bool, expire func(v *T, tx *resource.Tx) error,
) reconcile.Loop {
	return reconcile.For(db, k, reconcile.Ops[T, struct{}, struct{}]{
		Want: func(tx *resource.Tx, v *T) (*struct{}, error) {
			if !isOver(v, tx.Now()) {
				return nil, nil
			}
			return &struct{}{}, nil
		},
		Ensure: func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil },
		Note: func(tx *resource.Tx, v *T, _, _ struct{}) error {
			if !isOver(v, tx.Now()) {
				return nil
			}
			return expire(v, tx)
		},
	})
}

// families are what a Net as the driver should have it is made of.
var families = []struct {
	// want adds what a family has in a Net.
	want func(*resource.Tx, *Net, *driver.Net) error
	// settle moves on what waited for the driver to have it. What became of it
	// since the driver was asked stays as it is. nil: nothing waits.
	settle func(*resource.Tx, driver.Net) error
}{
	{wantSubnets, nil},
	{wantVirtualGateway, nil},
	{wantSecurityGroups, nil},
	{wantNetAccessPoints, settleNetAccessPoints},
	{wantRouteTables, nil},
	{wantInternetService, nil},
	{wantNatServices, nil},
	{wantPeerings, nil},
	{wantNics, nil},
}
