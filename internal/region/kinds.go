package region

import (
	"context"
	"fmt"

	"github.com/bastide-cloud/bastide/internal/auth"
	"github.com/bastide-cloud/bastide/internal/cloud"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// Kinds returns all kinds in the store of a region.
func Kinds() []resource.Any { return append(cloud.Kinds(), auth.Attempts, foundings) }

// NameIn returns the name of the region in a journal; empty: none was founded
// there.
func NameIn(ctx context.Context, j store.Journal) (name string, err error) {
	codec := resource.Codecs([]resource.Any{foundings}, resource.AsIs)[0]
	_, err = j.Load(ctx, regionAccount, func(r store.Row) error {
		if r.Kind != codec.Name() {
			return nil
		}
		value, err := codec.Decode(store.Place{Account: regionAccount, Kind: r.Kind, ID: r.ID}, r.Doc)
		if err == nil {
			name = value.(*founding).Region
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading the region's name: %w", err)
	}
	return name, nil
}
