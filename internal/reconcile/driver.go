package reconcile

import (
	"context"
	"fmt"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// Apply makes an [Ops.Ensure] of a driver's method that reports nothing.
func Apply[W any](ensure func(context.Context, W) error) func(context.Context, W) (struct{}, error) {
	return func(ctx context.Context, want W) (struct{}, error) { return struct{}{}, ensure(ctx, want) }
}

// ApplyAndReport makes an [Ops.Ensure] of a driver's method and of the one that
// returns how far the driver has come with it, also while it is under way.
func ApplyAndReport[W driver.Value, S any](
	ensure func(context.Context, W) error, report func(ctx context.Context, account, id string) (status S, ok bool, err error),
) func(context.Context, W) (S, error) {
	return func(ctx context.Context, want W) (status S, err error) {
		underWay := ensure(ctx, want)
		if _, err := driver.UntilDone(underWay); err != nil {
			return status, err
		}
		key := want.Key()
		status, ok, err := report(ctx, key.Account, key.ID)
		switch {
		case err != nil:
			return status, err
		case !ok:
			return status, fmt.Errorf("the driver has no %s, which it was asked for", key.ID)
		}
		return status, underWay
	}
}

// List makes an [Ops.Observe] of a driver's list. drift reports whether a value may
// differ from what was asked for; nil: the driver changes none by itself.
func List[V driver.Value](list func(context.Context) ([]V, error), drift func(V) bool) func(context.Context, Found) error {
	return func(ctx context.Context, found Found) error {
		all, err := list(ctx)
		for _, v := range all {
			key := v.Key()
			found(key.Account, key.ID, drift != nil && drift(v))
		}
		return err
	}
}
