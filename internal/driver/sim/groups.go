package sim

import (
	"context"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.PublicCloud = (*Driver)(nil)

// EnsureGroup implements [driver.PublicCloud].
func (w *Driver) EnsureGroup(ctx context.Context, g driver.PublicGroup) error {
	return w.groups.ensure(ctx, g)
}

// RemoveGroup implements [driver.PublicCloud].
func (w *Driver) RemoveGroup(ctx context.Context, account, id string) error {
	return w.groups.remove(ctx, account, id)
}

// ObserveGroups implements [driver.PublicCloud].
func (w *Driver) ObserveGroups(ctx context.Context) ([]driver.PublicGroup, error) {
	return w.groups.observe(ctx)
}

// ownGroup is a copy that shares nothing with the group.
func ownGroup(g driver.PublicGroup) driver.PublicGroup {
	g.Inbound = own(g.Inbound, ownRule)
	return g
}
