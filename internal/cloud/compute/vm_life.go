package compute

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// transition applies an event to a VM, and writes it.
func (v *Vm) transition(tx *resource.Tx, event lifecycle.Event[VmStateName]) error {
	to, _ := vmLife.Next(v.State, event)
	v.setAwaitedBy(to)
	return resource.Transition(tx, Vms, v, event)
}

// setAwaitedBy sets whether the group of the VM waits for it in a state.
func (v *Vm) setAwaitedBy(state VmStateName) {
	v.AwaitedBy = ""
	if state == VmPending || state == VmShuttingDown {
		v.AwaitedBy = v.VmGroupId
	}
}

// assignPublicIP gives a VM that starts its public IP: the one that its tags fix,
// or, in the public Cloud and unless its user data forbid it, an ephemeral one.
func (region Region) assignPublicIP(tx *resource.Tx, v *Vm) error {
	if err := Vms.Put(tx, v); err != nil {
		return err
	}
	n, err := v.primaryNic(tx)
	if err != nil {
		return err
	}
	if err := region.Network.LinkIfFree(tx, n, v.fixedIP()); err != nil || n.NetId != "" || v.PrivateOnly {
		return err
	}
	return region.Network.AssignEphemeralIP(tx, n)
}

// fixedIPTag is the key of the tag whose value is the public IP that a VM keeps
// when it is stopped, and gets when it is started.
const fixedIPTag = "osc.fcu.eip.auto-attach"

// fixedIP returns the public IP that the tags of a VM fix; empty: there is none.
func (v *Vm) fixedIP() api.IPv4 {
	for _, t := range v.Tags {
		if t.Key == fixedIPTag {
			return api.IPv4(t.Value)
		}
	}
	return ""
}

// primaryNic returns the NIC of a VM that has the device number 0.
func (v *Vm) primaryNic(tx *resource.Tx) (*network.Nic, error) {
	for _, n := range network.VmNics(tx, v.VmId) {
		return n, nil
	}
	return nil, Vms.ErrNotFound(v.VmId)
}

// delete deletes a VM, protected or not. The reason of its last stop stays
// readable.
func (v *Vm) delete(tx *resource.Tx) error {
	v.Running, v.Forced = false, true
	v.Generation++
	return v.transition(tx, vmDeleted)
}

// onVmStopped records that a VM has stopped, for the reason in its StateReason,
// releases what a stopped VM does not keep, and then applies its shutdown behavior.
func (region Region) onVmStopped(tx *resource.Tx, v *Vm, event lifecycle.Event[VmStateName]) error {
	v.Running = false
	if err := v.transition(tx, event); err != nil {
		return err
	}
	if err := noteStop(tx, v); err != nil {
		return err
	}
	for _, n := range network.VmNics(tx, v.VmId) {
		if err := n.OnVmStopped(tx, v.fixedIP()); err != nil {
			return err
		}
	}
	if err := stopGpus(tx, v.VmId); err != nil {
		return err
	}
	return region.afterStop(tx, v)
}

// afterStop restarts or deletes a stopped VM if its shutdown behavior says so. A
// host that failed or had no room leaves it stopped.
func (region Region) afterStop(tx *resource.Tx, v *Vm) error {
	switch {
	case v.StateReason == stoppedForRoom || v.StateReason == stoppedByHost:
	case v.VmInitiatedShutdownBehavior == ShutdownRestart:
		return region.startVm(tx, v)
	case v.DeletionProtection && v.StateReason != stoppedByGuest: // StopVms must not delete what DeleteVms refuses to
	case v.VmInitiatedShutdownBehavior == ShutdownTerminate:
		return v.delete(tx)
	}
	return settleGroup(tx, v.VmGroupId)
}

// onVmRemoved records that the driver has removed a VM, and releases what it had:
// its NICs, its volumes with their snapshots, its flexible GPUs, its user data and
// its place in a group.
func (region Region) onVmRemoved(tx *resource.Tx, v *Vm) (err error) {
	if v.SourceDestChecked, err = releaseNics(tx, v.VmId); err != nil {
		return err
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
	if region.VmEnded != nil {
		if err := region.VmEnded(tx, v.VmId); err != nil {
			return err
		}
	}
	group := v.VmGroupId
	v.VmGroupId, v.ObservedGeneration = "", v.Generation
	if err := v.transition(tx, vmRemoved); err != nil {
		return err
	}
	if err := releaseUserText(tx, v.UserTextId); err != nil {
		return err
	}
	return leaveGroup(tx, group)
}

// releaseNics deletes the NICs of a VM that are deleted with it, and unlinks the
// others. It returns whether the primary one, in a Net, checked sources.
func releaseNics(tx *resource.Tx, vm id.Vm) (sourceChecked bool, err error) {
	for _, n := range network.VmNics(tx, vm) {
		if n.LinkNic.DeviceNumber == 0 && n.NetId != "" {
			sourceChecked = n.IsSourceDestChecked
		}
		release := n.Unlink
		if n.Service != "" || n.LinkNic.DeleteOnVmDeletion {
			release = n.Remove
		}
		if err := release(tx); err != nil {
			return false, err
		}
	}
	return sourceChecked, nil
}
