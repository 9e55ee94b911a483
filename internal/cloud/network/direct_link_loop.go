package network

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// DirectLinkLoop has the world lay the cables of DirectLinks, first to a port
// and then into it, and has it take away those that the store does not have.
type DirectLinkLoop struct {
	db    *kind.DB
	world driver.Cables
}

// NewDirectLinkLoop makes the loop that joins a store and a driver.
func NewDirectLinkLoop(db *kind.DB, world driver.Cables) *DirectLinkLoop {
	return &DirectLinkLoop{db, world}
}

// Kind is the kind whose changes wake the loop.
func (l *DirectLinkLoop) Kind() kind.Any { return DirectLinks }

// gigabits is what the world must know of a bandwidth.
var gigabits = map[Bandwidth]int{OneGigabit: 1, TenGigabits: 10}

// Step takes one DirectLink to its next state, if the world has what that
// says. The change wakes the loop for the state after it.
func (l *DirectLinkLoop) Step(ctx context.Context, account, linkID string) (again time.Time, err error) {
	caller := kind.Caller{Account: account}
	var link *DirectLink
	err = l.db.View(ctx, caller, func(tx *kind.Tx) error {
		link = DirectLinks.Living(tx, id.DirectLink(linkID))
		return nil
	})
	if err != nil {
		return again, err
	}
	if link == nil {
		return driver.UntilDone(l.world.RemoveCable(ctx, account, linkID))
	}
	cable := driver.Cable{Account: account, ID: linkID, Location: link.Location, Gigabits: gigabits[link.Bandwidth]}
	var event lifecycle.Event[DirectLinkState]
	switch link.State {
	case DirectLinkRequested:
		event = directLinkPorted
		again, err = driver.UntilDone(l.world.EnsurePort(ctx, cable))
	case DirectLinkPending:
		event = directLinkPlugged
		again, err = driver.UntilDone(l.world.EnsureCable(ctx, cable))
	}
	if event == "" || err != nil || !again.IsZero() {
		return again, err
	}
	return again, l.db.Update(ctx, caller, func(tx *kind.Tx) error { return link.follow(tx, event) })
}

// follow notes what the world has, unless the link is gone or further by now.
// Interfaces wait for a link to be available.
func (l *DirectLink) follow(tx *kind.Tx, event lifecycle.Event[DirectLinkState]) error {
	now := DirectLinks.Living(tx, l.DirectLinkId)
	if now == nil {
		return nil
	}
	if ok, err := kind.Try(tx, DirectLinks, now, event); !ok || err != nil || now.State != DirectLinkAvailable {
		return err
	}
	return touchInterfaces(tx, l.DirectLinkId)
}

// Observe finds the cables that the world has.
func (l *DirectLinkLoop) Observe(ctx context.Context, found reconcile.Found) error {
	cables, err := l.world.ObserveCables(ctx)
	for _, c := range cables {
		found(c.Account, c.ID, false)
	}
	return err
}
