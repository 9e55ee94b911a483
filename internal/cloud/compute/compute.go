// Package compute has the families of machines: VMs, the volumes, snapshots and
// images that they are made of and that are made of them, keypairs, flexible
// GPUs, dedicated groups, and groups and templates of VMs.
//
// Rules store what callers request and return at once. Loops bring it to the driver
// afterwards, each VM and each disk as one value.
package compute

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Region is what the rules must know of the region they are in.
type Region struct {
	Name        string
	Subregions  []string        // their names
	GpuCapacity GpuCapacity     // nil: some of each model in each Subregion
	VmTypes     map[string]Size // the predefined types of VMs, by name
	Network     network.Region  // what VMs are connected to
	Look        Look            // how to look at machines; nil: there is nothing to be seen

	// VmEnded is called when a VM is terminated, for what names VMs and is not of
	// this package; nil: nothing does.
	VmEnded func(tx *resource.Tx, vm id.Vm) error

	// Objects is the object store that exports are written to; nil: there is
	// none.
	Objects objectstore.Store
}

// Check reports a capacity of what the region does not have.
func (region Region) Check() error {
	for subregion, models := range region.GpuCapacity {
		if !slices.Contains(region.Subregions, subregion) {
			return fmt.Errorf("%s is not one of the Subregions %s", subregion, strings.Join(region.Subregions, ", "))
		}
		for model, count := range models {
			if _, err := modelNamed(model); err != nil {
				return fmt.Errorf("%s is no model of the catalogue", model)
			}
			if count < 0 {
				return fmt.Errorf("there cannot be %d %s in %s", count, model, subregion)
			}
		}
	}
	return nil
}

// Lives are the lives of parts of resources, by name. Those of whole resources are
// in their kinds.
func Lives() map[string]lifecycle.Life {
	return map[string]lifecycle.Life{"Link of a Volume to a VM": volumeLinkLife}
}

// Kinds are the kinds of the package.
func Kinds() []resource.Any {
	return []resource.Any{
		Keypairs,
		Snapshots, snapshotSets, Volumes, VolumeUpdateTasks,
		Images, ImageExportTasks, SnapshotExportTasks, exportFiles,
		shares,
		FlexibleGpus, allocatedGpus,
		DedicatedGroups, ProductTypes, VmTemplates,
		Vms, userTexts, vmStops, VmGroups,
	}
}

// Actions are the actions of the package in a region.
func Actions(region Region) []api.Action {
	return slices.Concat(
		volumeActions(region), snapshotActions(region), imageActions(region), exportActions(region),
		vmActions(region), vmGroupActions(region),
		keypairActions(),
		flexibleGpuActions(region),
		dedicatedGroupActions(region),
		productTypeActions(),
		vmTemplateActions(),
	)
}

// checkSubregion refuses the name of a Subregion that the region does not have.
func (region Region) checkSubregion(name string) error {
	if !slices.Contains(region.Subregions, name) {
		return apierror.SubregionNotFound.Errorf("The SubregionName '%.100s' is not one of %s.", name, strings.Join(region.Subregions, ", "))
	}
	return nil
}

// running is the name of the sum that counts the tasks, or snapshots, of a kind
// that have not ended.
const running = "running"

// sumRunning is what a task or a snapshot adds to that sum.
func sumRunning(ended bool) resource.Sums {
	n := int64(1)
	if ended {
		n = 0
	}
	return resource.Sums{{Name: running, N: n}}
}

// Meters read the use of the quotas that do not count the resources of a kind.
func Meters() []resource.Meter {
	return slices.Concat(storageMeters(), snapshotMeters(), exportMeters(), vmMeters())
}
