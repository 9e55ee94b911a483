package sim

import (
	"context"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.PublicCloud = (*World)(nil)

// EnsureGroup implements [driver.PublicCloud].
func (w *World) EnsureGroup(ctx context.Context, g driver.PublicGroup) error {
	return w.groups.ensure(ctx, g)
}

// RemoveGroup implements [driver.PublicCloud].
func (w *World) RemoveGroup(ctx context.Context, account, id string) error {
	return w.groups.remove(ctx, account, id)
}

// ObserveGroups implements [driver.PublicCloud].
func (w *World) ObserveGroups(ctx context.Context) ([]driver.PublicGroup, error) {
	return w.groups.observe(ctx)
}

// ownGroup is a copy that shares nothing with the group.
func ownGroup(g driver.PublicGroup) driver.PublicGroup {
	g.Inbound = own(g.Inbound, ownRule)
	return g
}
