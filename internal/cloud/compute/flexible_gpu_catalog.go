package compute

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// FlexibleGpuCatalog is a model of flexible GPUs.
type FlexibleGpuCatalog struct {
	Generations []string // The generations of processors that go with the model.
	MaxCpu      int      // The number of vCores that a VM with the model can have.
	MaxRam      int      // The memory that a VM with the model can have, in gibibytes (GiB).
	ModelName   string   // The name of the model.
	VRam        int      // The video memory of the model, in mebibytes (MiB).
}

// gpuCatalog are the models of the real service, each with its generations from
// the oldest on. Nobody may change it.
var gpuCatalog = []FlexibleGpuCatalog{
	{[]string{"v3", "v4"}, 80, 512, "nvidia-k2", 4096},
	{[]string{"v3", "v4"}, 80, 512, "nvidia-m60", 16000},
	{[]string{"v5"}, 80, 512, "nvidia-p6", 16000},
	{[]string{"v5"}, 80, 512, "nvidia-p100", 16000},
	{[]string{"v5"}, 35, 250, "nvidia-v100", 16000},
	{[]string{"v5", "v6"}, 35, 250, "nvidia-a10", 24000},
	{[]string{"v5", "v6"}, 35, 250, "nvidia-a100", 40000},
	{[]string{"v6", "v7"}, 35, 256, "nvidia-a100-80", 80000},
	{[]string{"v7"}, 35, 256, "nvidia-l40", 48000},
	{[]string{"v7"}, 64, 512, "nvidia-h100", 80000},
	{[]string{"v7", "v104"}, 130, 2300, "nvidia-h200", 141000},
}

// ReadFlexibleGpuCatalogRequest lists the models of flexible GPUs.
type ReadFlexibleGpuCatalogRequest struct{}

func modelNamed(name string) (FlexibleGpuCatalog, error) {
	i := slices.IndexFunc(gpuCatalog, func(m FlexibleGpuCatalog) bool { return m.ModelName == name })
	if i < 0 {
		return FlexibleGpuCatalog{}, apierror.InvalidValue.Errorf(
			"The ModelName '%.100s' is not in the catalogue: see ReadFlexibleGpuCatalog.", name)
	}
	return gpuCatalog[i], nil
}

// GpuCapacity is how many flexible GPUs a region has, by Subregion and model.
type GpuCapacity map[string]map[string]int

// someGpus is how many flexible GPUs there are of each model in each Subregion
// of a region whose operator does not say.
const someGpus = 16

// gpusOf is how many flexible GPUs of a model a Subregion has.
func (region Region) gpusOf(subregion, model string) int {
	if region.GpuCapacity == nil {
		return someGpus
	}
	return region.GpuCapacity[subregion][model]
}

// allocatedGpu is a flexible GPU that some account has. They are kept in accounts
// of the region's own, so that all accounts together have no more than there are.
type allocatedGpu struct {
	Name    resource.Name // its account and its ID, which another account's can have too
	Account id.Account    `ref:"-"`
}

var allocatedGpus = &resource.Kind[allocatedGpu, resource.Name]{Name: "AllocatedGpu"}

// shelf is the account of the region that keeps what is allocated of a model in
// a Subregion: those who want others do not wait.
func (g *Gpu) shelf() string { return "gpus-" + g.SubregionName + "-" + g.ModelName }

func (g *Gpu) name(tx *resource.Tx) resource.Name {
	return resource.Name(tx.Account() + "/" + string(g.FlexibleGpuId))
}

// takeGpu takes one of the flexible GPUs that nobody has.
func (region Region) takeGpu(tx *resource.Tx, g *Gpu) error {
	shelf := tx.In(g.shelf())
	if has := region.gpusOf(g.SubregionName, g.ModelName); allocatedGpus.Count(shelf) >= has {
		return apierror.InsufficientCapacity.Errorf("No %s is left in %s.", g.ModelName, g.SubregionName)
	}
	return allocatedGpus.Insert(shelf, &allocatedGpu{Name: g.name(tx), Account: id.Account(tx.Account())})
}

// giveGpuBack lets others have it.
func giveGpuBack(tx *resource.Tx, g *Gpu) error {
	return allocatedGpus.Delete(tx.In(g.shelf()), &allocatedGpu{Name: g.name(tx)})
}
