package network

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// NetLoop brings Nets to a driver, each with all that is in it as one value, and
// moves what waits for the world to have it, which are Net access points, to
// available. What the world has and the store does not, it removes.
type NetLoop struct {
	db       *kind.DB
	world    driver.Networks
	services []driver.Service // of the region, the same for all Nets
}

// NewNetLoop makes the loop that joins a store and a driver, in a region.
func NewNetLoop(db *kind.DB, world driver.Networks, region Region) *NetLoop {
	return &NetLoop{db, world, region.wantServices()}
}

// Kind is the kind whose changes wake the loop: a Net changes, if only in its
// generation, whenever anything in it does.
func (l *NetLoop) Kind() kind.Any { return Nets }

// Step brings one Net to the world and notes what the world has then. It
// answers when to ask again if the world is not done.
func (l *NetLoop) Step(ctx context.Context, account, netID string) (again time.Time, err error) {
	var net *Net
	var want driver.Net
	err = l.db.View(ctx, kind.Caller{Account: account}, func(tx *kind.Tx) (err error) {
		if net = Nets.Living(tx, id.Net(netID)); net != nil && net.Unsettled() {
			want, err = l.wanted(tx, net)
		}
		return err
	})
	switch {
	case err != nil:
		return again, err
	case net == nil:
		return driver.UntilDone(l.world.RemoveNet(ctx, account, netID))
	case !net.Unsettled():
		return again, nil
	}
	if again, err = driver.UntilDone(l.world.EnsureNet(ctx, want)); err != nil || !again.IsZero() {
		return again, err
	}
	return again, l.db.Update(ctx, kind.Caller{Account: account}, func(tx *kind.Tx) error { return applied(tx, want) })
}

// Observe finds the Nets that the world has.
func (l *NetLoop) Observe(ctx context.Context, found reconcile.Found) error {
	nets, err := l.world.ObserveNets(ctx)
	for _, n := range nets {
		found(n.Account, n.ID, false)
	}
	return err
}

// wanted is the Net as the world should have it.
func (l *NetLoop) wanted(tx *kind.Tx, n *Net) (driver.Net, error) {
	set, err := DhcpOptionsSets.Get(tx, n.DhcpOptionsSetId)
	if err != nil {
		return driver.Net{}, err
	}
	want := driver.Net{
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
		Services: l.services,
	}
	for _, family := range families {
		if err := family.want(tx, n, &want); err != nil {
			return want, err
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

// applied notes that the world has a Net. What became of the Net since the
// world was asked stays as it is: a Subnet may be gone, and a newer generation
// is still to be applied.
func applied(tx *kind.Tx, done driver.Net) error {
	net := Nets.Living(tx, id.Net(done.ID))
	if net == nil || net.Applied >= done.Generation {
		return nil
	}
	net.Applied = done.Generation
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

// families are what a Net as the world should have it is made of.
var families = []struct {
	// want adds what a family has in a Net.
	want func(*kind.Tx, *Net, *driver.Net) error
	// settle moves on what waited for the world to have it. What became of it
	// since the world was asked stays as it is. nil: nothing waits.
	settle func(*kind.Tx, driver.Net) error
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
