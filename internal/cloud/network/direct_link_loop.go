package network

import (
	"context"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NewDirectLinkLoop makes the loop that has a driver lay the cables of DirectLinks,
// first to a port and then into it. A change of state wakes the loop for the state
// after it.
func NewDirectLinkLoop(db *resource.DB, d driver.Cables) reconcile.Loop {
	return reconcile.For(db, DirectLinks, reconcile.Ops[DirectLink, laying, struct{}]{
		Want: func(tx *resource.Tx, l *DirectLink) (*laying, error) {
			cable := driver.Cable{Account: tx.Account(), ID: string(l.DirectLinkId), Location: l.Location, Gigabits: gigabits[l.Bandwidth]}
			if l.State == DirectLinkRequested {
				return &laying{cable, d.EnsurePort, directLinkPorted}, nil
			}
			return &laying{cable, d.EnsureCable, directLinkPlugged}, nil
		},
		Ensure: func(ctx context.Context, want laying) (struct{}, error) {
			return struct{}{}, want.ensure(ctx, want.cable)
		},
		Remove:  d.RemoveCable,
		Note:    noteLaying,
		Observe: reconcile.List(d.ObserveCables, nil),
	})
}

// laying is a step of laying a cable.
type laying struct {
	cable  driver.Cable
	ensure func(context.Context, driver.Cable) error
	event  lifecycle.Event[DirectLinkState] // what happens to the link with it
}

// gigabits is a bandwidth as drivers have it.
var gigabits = map[Bandwidth]int{OneGigabit: 1, TenGigabits: 10}

// noteLaying notes what the driver has, unless the link is further by now.
// Interfaces wait for a link to be available.
func noteLaying(tx *resource.Tx, l *DirectLink, done laying, _ struct{}) error {
	if ok, err := resource.Try(tx, DirectLinks, l, done.event); !ok || err != nil || l.State != DirectLinkAvailable {
		return err
	}
	return touchInterfaces(tx, l.DirectLinkId)
}
