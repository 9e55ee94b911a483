package compute

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// LinkFlexibleGpuRequest links a flexible GPU to a VM, which has it once it was
// stopped and started again. A reboot does not do.
type LinkFlexibleGpuRequest struct {
	FlexibleGpuId id.FlexibleGpu `api:"required"` // The ID of the flexible GPU.
	// The ID of the VM. It is in the Subregion of the flexible GPU, of its generation of
	// processors, of the performance `highest`, not dedicated, and no larger than the model
	// allows.
	VmId id.Vm `api:"required"`
}

func linkFlexibleGpu(tx *resource.Tx, req *LinkFlexibleGpuRequest) error {
	g, err := FlexibleGpus.Get(tx, req.FlexibleGpuId)
	if err != nil {
		return err
	}
	vm, err := Vms.Get(tx, req.VmId)
	if err != nil {
		return err
	}
	if err := checkUnlinked(tx, g); err != nil {
		return err
	}
	if vm.State != VmRunning && vm.State != VmStopped {
		return apierror.InvalidVmState.Errorf("The VM %s is %s: a flexible GPU is linked to one that is running or stopped.", vm.VmId, vm.State)
	}
	if err := g.fits(vm); err != nil {
		return err
	}
	for other := range FlexibleGpus.Of(tx, vm.VmId) {
		if other.ModelName != g.ModelName {
			return apierror.GpuMismatch.Errorf(
				"The VM %s has %s of the model %s already, and %s is of the model %s.",
				vm.VmId, other.FlexibleGpuId, other.ModelName, g.FlexibleGpuId, g.ModelName)
		}
	}
	g.VmId = vm.VmId
	return g.transition(tx, gpuLinked)
}

// fits reports why a flexible GPU cannot be in a VM as the VM is.
func (g *Gpu) fits(vm *Vm) error {
	model, err := modelNamed(g.ModelName)
	if err != nil {
		return err
	}
	if g.SubregionName != vm.Placement.SubregionName {
		return apierror.SubregionMismatch.Errorf(
			"The flexible GPU %s is in %s, and the VM %s in %s.", g.FlexibleGpuId, g.SubregionName, vm.VmId, vm.Placement.SubregionName)
	}
	mismatch := func(format string, args ...any) error {
		return apierror.GpuMismatch.Errorf(
			"The flexible GPU %s is not compatible with the VM %s: "+format, append([]any{g.FlexibleGpuId, vm.VmId}, args...)...)
	}
	switch {
	case vm.generation() != g.Generation:
		return mismatch("its type is %s, and the processors must be of the generation %s.", vm.VmType, g.Generation)
	case vm.Vcores > model.MaxCpu:
		return mismatch("it has %d vCores, and at most %d go with a %s.", vm.Vcores, model.MaxCpu, model.ModelName)
	case vm.Memory > model.MaxRam:
		return mismatch("it has %d GiB of memory, and at most %d go with a %s.", vm.Memory, model.MaxRam, model.ModelName)
	case vm.Performance != PerformanceHighest:
		return mismatch("its performance is %s, and must be %s.", vm.Performance, PerformanceHighest)
	case vm.Placement.Tenancy != network.TenancyDefault && vm.Placement.Tenancy != "":
		return mismatch("it is dedicated.")
	}
	return nil
}

// UnlinkFlexibleGpuRequest unlinks a flexible GPU from its VM, which has it until
// it is stopped.
type UnlinkFlexibleGpuRequest struct {
	FlexibleGpuId id.FlexibleGpu `api:"required"` // The ID of the flexible GPU.
}

func unlinkFlexibleGpu(tx *resource.Tx, req *UnlinkFlexibleGpuRequest) error {
	g, err := FlexibleGpus.Get(tx, req.FlexibleGpuId)
	if err != nil {
		return err
	}
	switch {
	case g.VmId == "":
		return apierror.InvalidState.Errorf("The flexible GPU %s is linked to no VM.", g.FlexibleGpuId)
	case !resource.Allows(FlexibleGpus, g, gpuUnlinked):
		return apierror.InvalidState.Errorf("The flexible GPU %s is unlinked from %s already: stop that VM.", g.FlexibleGpuId, g.VmId)
	}
	vm, err := Vms.Get(tx, g.VmId)
	if err != nil {
		return err
	}
	if err := g.transition(tx, gpuUnlinked); err != nil {
		return err
	}
	if vm.State == VmStopped {
		err = stopGpus(tx, vm.VmId)
	}
	return err
}

// transition lets an event happen to a flexible GPU. One that is allocated has no
// VM.
func (g *Gpu) transition(tx *resource.Tx, event lifecycle.Event[FlexibleGpuState]) error {
	if to, _ := gpuLife.Next(g.State, event); to == GpuAllocated {
		g.VmId = ""
	}
	return resource.Transition(tx, FlexibleGpus, g, event)
}

// startGpus puts into a VM the flexible GPUs that were linked to it since it
// last started. The rule that starts a VM calls it.
func startGpus(tx *resource.Tx, vm id.Vm) error { return transitionGpus(tx, vm, gpuStarted) }

// stopGpus takes out of a VM the flexible GPUs that were unlinked while it ran.
// The rule that notes that a VM has stopped calls it.
func stopGpus(tx *resource.Tx, vm id.Vm) error { return transitionGpus(tx, vm, gpuStopped) }

// transitionGpus lets an event happen to the flexible GPUs of a VM whose states
// allow it.
func transitionGpus(tx *resource.Tx, vm id.Vm, event lifecycle.Event[FlexibleGpuState]) error {
	for g := range FlexibleGpus.Of(tx, vm) {
		if !resource.Allows(FlexibleGpus, g, event) {
			continue
		}
		if err := g.transition(tx, event); err != nil {
			return err
		}
	}
	return nil
}

// releaseGpus deletes the flexible GPUs of a VM that go with it, and leaves the
// others allocated. The rule that ends a VM calls it first.
func releaseGpus(tx *resource.Tx, vm id.Vm) error {
	for g := range FlexibleGpus.Of(tx, vm) {
		goes := g.DeleteOnVmDeletion && g.State != GpuDetaching // which it was unlinked from
		if err := g.transition(tx, gpuReleased); err != nil {
			return err
		}
		if !goes {
			continue
		}
		if err := giveGpuBack(tx, g); err != nil {
			return err
		}
		if err := FlexibleGpus.Delete(tx, g); err != nil {
			return err
		}
	}
	return nil
}

// gpusIn are the flexible GPUs that a VM has, in the order in which they were
// made: not those that it will have once it is started again.
func gpusIn(tx *resource.Tx, vm id.Vm) []*Gpu {
	return slices.DeleteFunc(slices.Collect(FlexibleGpus.Of(tx, vm)), func(g *Gpu) bool { return g.State == GpuAttaching })
}
