package compute

import (
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VmState is the state of a VM before and after a call.
type VmState struct {
	CurrentState  VmStateName // The state of the VM now.
	PreviousState VmStateName // The state of the VM before the call.
	VmId          id.Vm       // The ID of the VM.
}

// forEachVm applies a rule to each of some VMs, in one transaction and once for an
// ID that is given twice, and returns what became of their states.
func forEachVm(tx *resource.Tx, ids []id.Vm, do func(*resource.Tx, *Vm) error) ([]VmState, error) {
	if len(ids) == 0 {
		return nil, apierror.MissingParameter.Errorf("VmIds is empty: name at least one.")
	}
	states, seen := []VmState{}, map[id.Vm]bool{}
	for _, vmID := range ids {
		if seen[vmID] {
			continue
		}
		seen[vmID] = true
		v, err := readable(tx, vmID)
		if err != nil {
			return nil, err
		}
		before := v.State
		if err := do(tx, v); err != nil {
			return nil, err
		}
		states = append(states, VmState{CurrentState: v.State, PreviousState: before, VmId: vmID})
	}
	return states, nil
}

// readable finds a VM, including a terminated one that can still be read.
func readable(tx *resource.Tx, vmID id.Vm) (*Vm, error) {
	if v := Vms.Lookup(tx, vmID); v != nil {
		return v, nil
	}
	return nil, Vms.ErrNotFound(vmID)
}

// StartVmsRequest starts VMs that are stopped. Those that run stay as they are.
type StartVmsRequest struct {
	VmIds []id.Vm `api:"required"` // The IDs of the VMs: all of them are started, or none.
}

// StartVmsResponse says what became of the VMs.
type StartVmsResponse struct {
	Vms []VmState // The VMs.
}

func (region Region) startVms(tx *resource.Tx, req *StartVmsRequest) (*StartVmsResponse, error) {
	states, err := forEachVm(tx, req.VmIds, region.startVm)
	return &StartVmsResponse{states}, err
}

func (region Region) startVm(tx *resource.Tx, v *Vm) error {
	if v.State == VmPending || v.State == VmRunning {
		return nil
	}
	v.Running, v.Forced, v.StateReason = true, false, ""
	v.Boots++
	v.Generation++
	if err := v.transition(tx, vmStarted); err != nil {
		return err
	}
	if err := startGpus(tx, v.VmId); err != nil {
		return err
	}
	v.PrivateOnly = v.userData(tx).orders().privateOnly
	return region.assignPublicIP(tx, v)
}

// StopVmsRequest stops VMs that run. Those that are stopped stay as they are. One
// whose shutdown behavior is to restart or to terminate does so then.
type StopVmsRequest struct {
	ForceStop bool    // Whether to turn the VMs off without waiting for their guests.
	VmIds     []id.Vm `api:"required"` // The IDs of the VMs: all of them are stopped, or none.
}

// StopVmsResponse says what became of the VMs.
type StopVmsResponse struct {
	Vms []VmState // The VMs.
}

func stopVms(tx *resource.Tx, req *StopVmsRequest) (*StopVmsResponse, error) {
	states, err := forEachVm(tx, req.VmIds, func(tx *resource.Tx, v *Vm) error { return stopVm(tx, v, req.ForceStop) })
	return &StopVmsResponse{states}, err
}

// stopVm stops a VM that runs. Force turns a VM off that is stopping already.
func stopVm(tx *resource.Tx, v *Vm, force bool) error {
	switch {
	case v.State == VmPending:
		return apierror.VmNeverStarted.Errorf("The VM %s is pending. It can be stopped once it is running.", v.VmId)
	case v.State == VmStopped, v.State == VmStopping && (v.Forced || !force):
		return nil
	}
	v.Running, v.Forced, v.StateReason = false, force, stoppedByCall
	if force {
		v.StateReason = stoppedByForce
	}
	v.Generation++
	return v.transition(tx, vmStopped)
}

// RebootVmsRequest starts VMs that run anew.
type RebootVmsRequest struct {
	VmIds []id.Vm `api:"required"` // The IDs of the VMs: all of them are rebooted, or none.
}

func rebootVms(tx *resource.Tx, req *RebootVmsRequest) error {
	_, err := forEachVm(tx, req.VmIds, rebootVm)
	return err
}

// rebootVm restarts a VM that is running.
func rebootVm(tx *resource.Tx, v *Vm) error {
	v.Boots++
	v.Generation++
	return v.transition(tx, vmRebooted)
}

// DeleteVmsRequest terminates VMs. One that is terminated stays so, and can be
// read for an hour.
type DeleteVmsRequest struct {
	// The IDs of the VMs: all of them are terminated, or none. None of them is protected from
	// deletion.
	VmIds []id.Vm `api:"required"`
}

// DeleteVmsResponse says what became of the VMs.
type DeleteVmsResponse struct {
	Vms []VmState // The VMs.
}

func deleteVms(tx *resource.Tx, req *DeleteVmsRequest) (*DeleteVmsResponse, error) {
	states, err := forEachVm(tx, req.VmIds, terminateVm)
	return &DeleteVmsResponse{states}, err
}

// terminateVm deletes a VM unless it is protected. Its volumes, NICs and flexible
// GPUs are released once the driver has removed it.
func terminateVm(tx *resource.Tx, v *Vm) error {
	if v.State == VmTerminated || v.State == VmShuttingDown {
		return nil
	}
	if v.DeletionProtection {
		return apierror.DeletionProtected.Errorf("The VM %s is protected from deletion.", v.VmId)
	}
	return v.delete(tx)
}
