// Package cloud is the region as a whole: the list of all kinds and actions, and
// the tags, which cross all domains.
//
// It has no rules of a family. Those are in its packages, one per domain, which
// do not know this one.
package cloud

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// Kinds are the kinds of all domains.
func Kinds() []kind.Any { return slices.Concat(iam.Kinds(), network.Kinds()) }

// Actions are the actions of all domains, in a region. The gate gives the check
// of logins.
func Actions(region catalog.Region, checkLogin iam.LoginCheck) []api.Action {
	return slices.Concat(
		iam.Actions(checkLogin),
		network.Actions(networkRegion(region)),
		catalog.Actions(region, network.Meters()...),
		tagActions(),
	)
}

// World is what the loops ask of a world.
type World interface {
	driver.Networks
	driver.Links
	driver.Cables
}

// Loops are the loops of all domains in a region, over a store and the drivers
// of a world.
func Loops(db *kind.DB, world World, region catalog.Region) []reconcile.Loop {
	return []reconcile.Loop{
		network.NewNetLoop(db, world, networkRegion(region)),
		network.NewPeeringLoop(db),
		network.NewTunnelLoop(db, world),
		network.NewDirectLinkLoop(db, world),
		network.NewInterfaceLoop(db, world),
	}
}

// NewAccount makes an account with what every account has from the beginning.
func NewAccount(tx *kind.Tx, region catalog.Region, n iam.NewAccount) (*iam.Account, error) {
	account, err := n.Create(tx)
	if err != nil {
		return nil, err
	}
	return account, network.Welcome(tx.In(string(account.AccountId)), networkRegion(region))
}

func networkRegion(region catalog.Region) network.Region {
	r := network.Region{Name: region.RegionName, Domain: region.Domain, PublicIps: region.PublicIps}
	for _, s := range region.Subregions {
		r.Subregions = append(r.Subregions, s.SubregionName)
	}
	for _, l := range region.Locations {
		r.Locations = append(r.Locations, l.Code)
	}
	return r
}
