package compute

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VmState is what a call has made of the state of a VM.
type VmState struct {
	CurrentState  VmStateName // The state of the VM now.
	PreviousState VmStateName // The state of the VM before the call.
	VmId          id.Vm       // The ID of the VM.
}

// forVms does something to each of some VMs, or nothing to any of them.
func forVms(tx *resource.Tx, ids []id.Vm, do func(*resource.Tx, *Vm) error) ([]VmState, error) {
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

// readable finds a VM, be it a terminated one that can still be read.
func readable(tx *resource.Tx, vmID id.Vm) (*Vm, error) {
	if v := withEnded(tx, Vms, vmID); v != nil {
		return v, nil
	}
	return nil, Vms.ErrNotFound(vmID)
}

// transition lets an event happen to a VM, and writes it.
func (v *Vm) transition(tx *resource.Tx, event lifecycle.Event[VmStateName]) error {
	to, _ := vmLife.Next(v.State, event)
	v.settleIn(to)
	return resource.Transition(tx, Vms, v, event)
}

// settleIn notes whether the group of the VM waits for it in a state.
func (v *Vm) settleIn(state VmStateName) {
	v.SettlingIn = ""
	if state == VmPending || state == VmShuttingDown {
		v.SettlingIn = v.VmGroupId
	}
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
	states, err := forVms(tx, req.VmIds, region.startVm)
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
	return region.goPublic(tx, v)
}

// goPublic gives a VM that starts its public IP: the one that its tags fix, or, in
// the public Cloud and unless its user data forbid it, one that the region lends.
func (region Region) goPublic(tx *resource.Tx, v *Vm) error {
	if err := Vms.Put(tx, v); err != nil {
		return err
	}
	n, err := v.primary(tx)
	if err != nil {
		return err
	}
	if err := region.Network.Attach(tx, n, v.fixedIp()); err != nil || n.NetId != "" || v.PrivateOnly {
		return err
	}
	return region.Network.Lend(tx, n)
}

// fixedIpTag is the key of the tag whose value is the public IP that a VM keeps
// when it is stopped, and gets when it is started.
const fixedIpTag = "osc.fcu.eip.auto-attach"

func (v *Vm) fixedIp() api.IPv4 {
	for _, t := range v.Tags {
		if t.Key == fixedIpTag {
			return api.IPv4(t.Value)
		}
	}
	return ""
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
	states, err := forVms(tx, req.VmIds, func(tx *resource.Tx, v *Vm) error {
		if v.State == VmPending {
			return apierror.VmNeverStarted.Errorf("The VM %s is pending: it can be stopped once it runs.", v.VmId)
		}
		if v.State == VmStopped || v.State == VmStopping && (v.Forced || !req.ForceStop) {
			return nil
		}
		v.Running, v.Forced, v.StateReason = false, req.ForceStop, stoppedByCall
		if req.ForceStop {
			v.StateReason = stoppedByForce
		}
		v.Generation++
		return v.transition(tx, vmStopped)
	})
	return &StopVmsResponse{states}, err
}

// RebootVmsRequest starts VMs that run anew.
type RebootVmsRequest struct {
	VmIds []id.Vm `api:"required"` // The IDs of the VMs: all of them are rebooted, or none.
}

// RebootVmsResponse says nothing more than that the VMs are being rebooted.
type RebootVmsResponse struct{}

func rebootVms(tx *resource.Tx, req *RebootVmsRequest) (*RebootVmsResponse, error) {
	_, err := forVms(tx, req.VmIds, reboot)
	return &RebootVmsResponse{}, err
}

// reboot starts a running VM anew.
func reboot(tx *resource.Tx, v *Vm) error {
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
	states, err := forVms(tx, req.VmIds, terminate)
	return &DeleteVmsResponse{states}, err
}

// terminate deletes a VM. Its volumes, NICs and flexible GPUs are released once the
// driver has removed it.
func terminate(tx *resource.Tx, v *Vm) error {
	if v.State == VmTerminated || v.State == VmShuttingDown {
		return nil
	}
	if v.DeletionProtection {
		return apierror.DeletionProtected.Errorf("The VM %s is protected from deletion.", v.VmId)
	}
	return end(tx, v)
}

// end deletes a VM, protected or not. Why it was stopped, if it was, stays to be
// read.
func end(tx *resource.Tx, v *Vm) error {
	v.Running, v.Forced = false, true
	v.Generation++
	return v.transition(tx, vmDeleted)
}

// stopped does what goes with the stop of a VM, for the reason that it says, and
// then what its shutdown behavior says.
func (region Region) stopped(tx *resource.Tx, v *Vm, event lifecycle.Event[VmStateName]) error {
	v.Running = false
	if err := v.transition(tx, event); err != nil {
		return err
	}
	if err := noteStop(tx, v); err != nil {
		return err
	}
	for _, n := range network.VmNics(tx, v.VmId) {
		if err := n.Rest(tx, v.fixedIp()); err != nil {
			return err
		}
	}
	if err := stopGpus(tx, v.VmId); err != nil {
		return err
	}
	switch {
	case v.StateReason == stoppedForRoom || v.StateReason == stoppedByHost:
	case v.VmInitiatedShutdownBehavior == ShutdownRestart:
		return region.startVm(tx, v)
	case v.DeletionProtection && v.StateReason != stoppedByGuest: // a call must not delete it by a detour
	case v.VmInitiatedShutdownBehavior == ShutdownTerminate:
		return end(tx, v)
	}
	return settleGroup(tx, v.VmGroupId)
}

// gone does what goes with the end of a VM in the driver: its volumes and NICs are
// free again or deleted, as they say themselves, and its flexible GPUs too.
func gone(tx *resource.Tx, v *Vm) error {
	checked := false
	for _, n := range network.VmNics(tx, v.VmId) {
		checked = checked || n.LinkNic.DeviceNumber == 0 && n.NetId != "" && n.IsSourceDestChecked
		away := n.Unlink
		if n.Service != "" || n.LinkNic.DeleteOnVmDeletion {
			away = n.Remove
		}
		if err := away(tx); err != nil {
			return err
		}
	}
	for s := range snapshotSets.Where(tx, "Vm", string(v.VmId)) {
		if err := s.letRun(tx); err != nil {
			return err
		}
	}
	if err := leaveVm(tx, v.VmId); err != nil {
		return err
	}
	if err := releaseGpus(tx, v.VmId); err != nil {
		return err
	}
	group := v.VmGroupId
	v.VmGroupId, v.ObservedGeneration, v.SourceDestChecked = "", v.Generation, checked
	if err := v.transition(tx, vmRemoved); err != nil {
		return err
	}
	if err := letGoOf(tx, v.UserTextId); err != nil {
		return err
	}
	return leaveGroup(tx, group)
}
