package sim

import (
	"context"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.PublicCloud = (*Driver)(nil)

// EnsureGroup implements [driver.PublicCloud].
func (drv *Driver) EnsureGroup(ctx context.Context, g driver.PublicGroup) error {
	return drv.groups.ensure(ctx, g)
}

// RemoveGroup implements [driver.PublicCloud].
func (drv *Driver) RemoveGroup(ctx context.Context, account, id string) error {
	return drv.groups.remove(ctx, account, id)
}

// ObserveGroups implements [driver.PublicCloud].
func (drv *Driver) ObserveGroups(ctx context.Context) ([]driver.PublicGroup, error) {
	return drv.groups.observe(ctx)
}

// ownGroup returns a copy that shares nothing with the group.
func ownGroup(g driver.PublicGroup) driver.PublicGroup {
	g.Inbound = own(g.Inbound, ownRule)
	return g
}
