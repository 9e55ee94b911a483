package compute

import (
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Gpu is a flexible GPU as it is kept. See [FlexibleGpu].
type Gpu struct {
	DeleteOnVmDeletion bool
	FlexibleGpuId      id.FlexibleGpu
	Generation         string
	ModelName          string
	State              FlexibleGpuState
	SubregionName      string
	Tags               []api.Tag
	VmId               id.Vm `ref:"weak"`
}

// FlexibleGpu is a graphics processor that VMs can use one at a time.
type FlexibleGpu struct {
	DeleteOnVmDeletion bool             // Whether the flexible GPU is deleted when the VM is.
	FlexibleGpuId      id.FlexibleGpu   // The ID of the flexible GPU.
	Generation         string           // The generation of processors that the VM must have.
	ModelName          string           // The model of the flexible GPU.
	State              FlexibleGpuState // The state of the flexible GPU.
	SubregionName      string           // The name of the Subregion that it is in.
	Tags               []resource.Tag   // The tags of the flexible GPU.
	// The ID of the VM that it is linked to; absent if it is not.
	VmId id.Vm
}

// FlexibleGpus are the flexible GPUs of the region.
var FlexibleGpus = &resource.Kind[Gpu, id.FlexibleGpu]{
	Name:     "FlexibleGpu",
	Tag:      "flexible-gpu",
	NotFound: apierror.FlexibleGpuNotFound,
	InUse:    apierror.InUse,
	Quota:    &resource.Quota{Name: "gpu_limit", Code: apierror.TooManyFlexibleGpus},
	Life:     gpuLife,
}

// FlexibleGpuState is the state of a flexible GPU.
type FlexibleGpuState string

// The states of a flexible GPU.
const (
	GpuAllocated FlexibleGpuState = "allocated" // reserved for the account
	GpuAttaching FlexibleGpuState = "attaching" // linked to a VM that has not been started since
	GpuAttached  FlexibleGpuState = "attached"  // in a VM
	GpuDetaching FlexibleGpuState = "detaching" // in a VM until it stops
)

// Literals implements [api.Enum].
func (FlexibleGpuState) Literals() []string {
	return []string{"allocated", "attaching", "attached", "detaching"}
}

// The events of a flexible GPU. It is started and stopped with its VM, and released
// when the VM is deleted.
const (
	gpuCreated  lifecycle.Event[FlexibleGpuState] = "created"
	gpuLinked   lifecycle.Event[FlexibleGpuState] = "linked"
	gpuStarted  lifecycle.Event[FlexibleGpuState] = "started"
	gpuUnlinked lifecycle.Event[FlexibleGpuState] = "unlinked"
	gpuStopped  lifecycle.Event[FlexibleGpuState] = "stopped"
	gpuReleased lifecycle.Event[FlexibleGpuState] = "released"
	gpuDeleted  lifecycle.Event[FlexibleGpuState] = "deleted"
)

// gpuLife is the life of a flexible GPU, which enters a VM only when the VM starts
// and leaves it only when the VM is stopped.
var gpuLife = lifecycle.Table[FlexibleGpuState]{
	"":           {gpuCreated: GpuAllocated},
	GpuAllocated: {gpuLinked: GpuAttaching, gpuDeleted: ""},
	GpuAttaching: {gpuStarted: GpuAttached, gpuUnlinked: GpuAllocated, gpuReleased: GpuAllocated},
	GpuAttached:  {gpuUnlinked: GpuDetaching, gpuReleased: GpuAllocated},
	GpuDetaching: {gpuStopped: GpuAllocated, gpuReleased: GpuAllocated},
}

func flexibleGpuActions(region Region) []api.Action {
	r := api.NewResource(FlexibleGpus, viewGpu)
	return []api.Action{
		api.Create(r, region.createFlexibleGpu, region.takeGpu),
		api.Read[ReadFlexibleGpusRequest](r),
		api.Read[ReadFlexibleGpuCatalogRequest](api.Fixed("FlexibleGpu", "FlexibleGpuCatalog", gpuCatalog)).WithAuth(api.Open),
		api.Update(r, updateFlexibleGpu),
		api.Delete[DeleteFlexibleGpuRequest](r, checkUnlinked, giveGpuBack),
		api.Command("FlexibleGpu", linkFlexibleGpu),
		api.Command("FlexibleGpu", unlinkFlexibleGpu),
	}
}

func viewGpu(_ *resource.Tx, g *Gpu) *FlexibleGpu {
	v := &FlexibleGpu{
		DeleteOnVmDeletion: g.DeleteOnVmDeletion, FlexibleGpuId: g.FlexibleGpuId, Generation: g.Generation, ModelName: g.ModelName,
		State: g.State, SubregionName: g.SubregionName, VmId: g.VmId,
	}
	for _, t := range g.Tags {
		v.Tags = append(v.Tags, resource.Tag{Key: t.Key, Value: t.Value, ResourceId: string(g.FlexibleGpuId), ResourceType: FlexibleGpus.Tag})
	}
	return v
}

// CreateFlexibleGpuRequest allocates a flexible GPU to the account.
type CreateFlexibleGpuRequest struct {
	// Whether the flexible GPU is deleted when the VM that it is linked to is.
	DeleteOnVmDeletion bool `default:"false"`
	// The generation of processors that VMs must have to use it. By default, the oldest one
	// that the catalogue has for the model.
	Generation    string
	ModelName     string `api:"required"` // The model, as the catalogue names it.
	SubregionName string `api:"required"` // The name of the Subregion to allocate it in.
}

func (region Region) createFlexibleGpu(_ *resource.Tx, req *CreateFlexibleGpuRequest) (*Gpu, error) {
	model, err := modelNamed(req.ModelName)
	if err != nil {
		return nil, err
	}
	generation := req.Generation
	if generation == "" {
		generation = model.Generations[0]
	}
	if !slices.Contains(model.Generations, generation) {
		return nil, apierror.InvalidValue.Errorf(
			"The Generation '%.100s' is not compatible with the model %s, which requires one of %s.",
			generation, model.ModelName, strings.Join(model.Generations, ", "))
	}
	if err := region.checkSubregion(req.SubregionName); err != nil {
		return nil, err
	}
	return &Gpu{
		DeleteOnVmDeletion: req.DeleteOnVmDeletion, Generation: generation, ModelName: model.ModelName,
		SubregionName: req.SubregionName,
	}, nil
}

// ReadFlexibleGpusRequest lists flexible GPUs.
type ReadFlexibleGpusRequest struct {
	Filters *FiltersFlexibleGpu // Which flexible GPUs to list; all of them if absent.
}

// FiltersFlexibleGpu selects flexible GPUs.
type FiltersFlexibleGpu struct {
	DeleteOnVmDeletion *bool              // Whether the flexible GPU is deleted when its VM is.
	FlexibleGpuIds     []id.FlexibleGpu   // The IDs of the flexible GPUs.
	Generations        []string           // The generations of processors that VMs must have.
	ModelNames         []string           // The models of the flexible GPUs.
	States             []FlexibleGpuState // The states of the flexible GPUs.
	// The names of the Subregions that the flexible GPUs are in.
	SubregionNames []string
	// The tags of the flexible GPUs, by key, value or both. What is said of a resource has no
	// effect.
	Tags []resource.Tag
	// The IDs of the VMs that the flexible GPUs are linked to.
	VmIds []id.Vm
}

// UpdateFlexibleGpuRequest changes what becomes of a flexible GPU when its VM is
// deleted.
type UpdateFlexibleGpuRequest struct {
	// Whether the flexible GPU is deleted when the VM that it is linked to is.
	DeleteOnVmDeletion *bool
	FlexibleGpuId      id.FlexibleGpu `api:"required"` // The ID of the flexible GPU.
}

func updateFlexibleGpu(_ *resource.Tx, g *Gpu, req *UpdateFlexibleGpuRequest) error {
	if req.DeleteOnVmDeletion != nil {
		g.DeleteOnVmDeletion = *req.DeleteOnVmDeletion
	}
	return nil
}

// DeleteFlexibleGpuRequest releases a flexible GPU that no VM has, so that others
// can allocate it.
type DeleteFlexibleGpuRequest struct {
	FlexibleGpuId id.FlexibleGpu `api:"required"` // The ID of the flexible GPU.
}

func checkUnlinked(_ *resource.Tx, g *Gpu) error {
	switch {
	case resource.Allows(FlexibleGpus, g, gpuDeleted):
		return nil
	case resource.Allows(FlexibleGpus, g, gpuUnlinked):
		return apierror.InUse.Errorf("The flexible GPU %s is linked to %s.", g.FlexibleGpuId, g.VmId)
	}
	return apierror.InUse.Errorf("The flexible GPU %s is in %s until that VM is stopped.", g.FlexibleGpuId, g.VmId)
}
