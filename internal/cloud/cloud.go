// Package cloud is the region as a whole: the list of all kinds and actions, and
// the tags, which cross all domains.
//
// It has no rules of a family. Those are in its packages, one per domain, which
// do not know this one.
package cloud

import (
	"context"
	"math"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/balancer"
	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Kinds are the kinds of all domains.
func Kinds() []resource.Any {
	return slices.Concat(iam.Kinds(), network.Kinds(), compute.Kinds(), balancer.Kinds())
}

// Actions are the actions of all domains, in a region. The gate gives the check
// of logins, exports are written to the object store, and drivers show what
// machines and load balancers do; nil: nothing.
func Actions(region catalog.Region, checkLogin iam.LoginCheck, objects objectstore.Store, drivers driver.Drivers) []api.Action {
	facts, balancers := computeRegion(region), balancerRegion(region)
	facts.Objects = objects
	if drivers != nil {
		facts.Look = func(ctx context.Context, account string, vm id.Vm) (console, password []byte, err error) {
			status, _, err := drivers.Machine(ctx, account, string(vm))
			return status.Console, status.Password, err
		}
		balancers.Look = balancer.NewLook(drivers)
	}
	return slices.Concat(
		iam.Actions(checkLogin),
		network.Actions(networkRegion(region)),
		compute.Actions(facts),
		balancer.Actions(balancers),
		catalog.Actions(region, slices.Concat(network.Meters(), compute.Meters(), balancer.Meters())...),
		tagActions(),
	)
}

// Loops are the loops of all domains in a region, over a store, drivers and an
// object store.
func Loops(db *resource.DB, drivers driver.Drivers, region catalog.Region, objects objectstore.Store) []reconcile.Loop {
	return []reconcile.Loop{
		network.NewNetLoop(db, drivers, networkRegion(region)),
		network.NewGroupLoop(db, drivers),
		network.NewPeeringLoop(db),
		network.NewTunnelLoop(db, drivers),
		network.NewDirectLinkLoop(db, drivers),
		network.NewInterfaceLoop(db, drivers),
		network.NewInterfaceExpiryLoop(db),
		compute.NewVolumeLoop(db, drivers),
		compute.NewSnapshotLoop(db, drivers),
		compute.NewExportLoop(db, drivers),
		compute.NewManifestLoop(db, objects),
		compute.NewVmLoop(db, drivers, computeRegion(region)),
		balancer.NewLoop(db, drivers),
		balancer.NewBackendLoop(db),
	}
}

// Check reports facts of a region that do not go together.
func Check(region catalog.Region) error { return computeRegion(region).Check() }

// NewAccount makes an account with what every account has from the beginning.
func NewAccount(tx *resource.Tx, region catalog.Region, n iam.NewAccount) (*iam.Account, error) {
	account, err := n.Create(tx)
	if err != nil {
		return nil, err
	}
	return account, network.Welcome(tx.In(string(account.AccountId)), networkRegion(region))
}

func networkRegion(region catalog.Region) network.Region {
	r := network.Region{Name: region.RegionName, Domain: region.Domain, PublicIps: region.PublicIps, Transition: region.Transition}
	for _, s := range region.Subregions {
		r.Subregions = append(r.Subregions, s.SubregionName)
	}
	for _, l := range region.Locations {
		r.Locations = append(r.Locations, l.Code)
	}
	return r
}

func computeRegion(region catalog.Region) compute.Region {
	net := networkRegion(region)
	types := map[string]compute.Size{}
	for _, t := range catalog.VmTypes {
		types[t.VmTypeName] = compute.Size{Vcores: t.VcoreCount, Memory: int(math.Ceil(t.MemorySize))}
	}
	return compute.Region{
		Name: region.RegionName, Subregions: net.Subregions, GpuCapacity: region.Gpus, VmTypes: types, Network: net,
		VmEnded: balancer.VmEnded,
	}
}

func balancerRegion(region catalog.Region) balancer.Region {
	net := networkRegion(region)
	return balancer.Region{Name: region.RegionName, Domain: region.Domain, Subregions: net.Subregions, Network: net}
}
