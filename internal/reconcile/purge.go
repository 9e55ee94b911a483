package reconcile

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/resource"
)

// purge is the loop that removes the deleted resources of a kind for good, once
// the kind's retention has passed.
type purge struct {
	db   *resource.DB
	kind resource.Any
	now  func() time.Time
}

func (p *purge) Kind() resource.Any { return p.kind }

func (p *purge) Reconcile(ctx context.Context, account, id string) (requeueAfter time.Time, err error) {
	facts := p.kind.Facts()
	snap, err := p.db.Store.View(ctx, account)
	if err != nil {
		return requeueAfter, err
	}
	o, ok := snap.Get(facts.Name, id)
	if !ok || o.DeletedAt == 0 {
		return requeueAfter, nil
	}
	if due := time.UnixMilli(o.DeletedAt).Add(facts.Retention); due.After(p.now()) {
		return due, nil
	}
	return requeueAfter, p.db.Update(ctx, resource.Caller{Account: account}, func(tx *resource.Tx) error {
		p.kind.Purge(tx)
		return nil
	})
}

// Observe finds nothing, because deleted resources are in the store alone.
func (p *purge) Observe(context.Context, Found) error { return nil }
