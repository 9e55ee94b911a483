package compute

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// netPace is how soon a VM looks again whether its NICs are in the driver.
const netPace = 100 * time.Millisecond

// vmLoop is a loop that hears of machines that do something by themselves.
type vmLoop struct {
	reconcile.Loop
	machines driver.Machines
}

// Listen implements [reconcile.Listener].
func (l vmLoop) Listen(ctx context.Context, heard func(account, id string)) error {
	return l.machines.WatchMachines(ctx, heard)
}

// NewVmLoop makes the loop that brings the VMs of a region to a driver, each as a
// machine with its disks and NICs, and notes what a machine does by itself.
func NewVmLoop(db *resource.DB, machines driver.Machines, region Region) reconcile.Loop {
	return vmLoop{reconcile.For(db, Vms, reconcile.Ops[Vm, driver.Machine, struct{}]{
		Want:   region.wantedMachine,
		Ensure: reconcile.Apply(machines.EnsureMachine),
		Remove: machines.RemoveMachine,
		Note: func(tx *resource.Tx, v *Vm, done driver.Machine, _ struct{}) error {
			return region.machineDone(tx, v, done)
		},
		NoCapacity: region.noRoom,
		Ending:     func(v *Vm) bool { return v.State == VmShuttingDown },
		Ended:      region.onVmRemoved,
		Inspect: func(ctx context.Context, account string, v *Vm) (func(*resource.Tx, *Vm) error, error) {
			return region.inspect(ctx, machines, account, v)
		},
		Observe: reconcile.List(machines.ObserveMachines, hasFallen),
	}), machines}
}

// wantedMachine is what a driver is asked for a VM, once its NICs and disks are
// there: a disk that is made wakes the loop, a NIC does not.
func (region Region) wantedMachine(tx *resource.Tx, v *Vm) (*driver.Machine, error) {
	for _, n := range network.VmNics(tx, v.VmId) {
		if !n.IsApplied(tx) {
			return nil, driver.Later{At: tx.Now().Add(netPace)}
		}
	}
	want, ready := region.wanted(tx, v)
	if !ready {
		return nil, nil
	}
	return &want, nil
}

// inspect finds that a machine is off which should be on, or that the driver has
// lost it and is behind again.
func (region Region) inspect(ctx context.Context, machines driver.Machines, account string, v *Vm) (note func(*resource.Tx, *Vm) error,
	err error) {
	if !v.Running {
		return nil, nil
	}
	status, ok, err := machines.Machine(ctx, account, string(v.VmId))
	if err != nil || ok && (!hasFallen(status) || status.Generation != v.Generation) {
		return nil, err
	}
	generation := v.Generation
	return func(tx *resource.Tx, now *Vm) error {
		switch {
		case now.Generation != generation || now.State != VmRunning:
			return nil
		case !ok:
			now.ObservedGeneration = now.Generation - 1
			return Vms.Put(tx, now)
		}
		now.StateReason = stoppedByGuest
		if status.OffBy == driver.ByHost {
			now.StateReason = stoppedByHost
		}
		now.Generation++
		return region.onVmStopped(tx, now, vmShutDown)
	}, nil
}

// hasFallen reports whether a machine is off although no caller asked for that.
func hasFallen(m driver.MachineStatus) bool { return !m.On && m.OffBy != "" }

// machineDone notes that the driver has a machine. What became of the VM since the
// driver was asked stays as it is.
func (region Region) machineDone(tx *resource.Tx, v *Vm, done driver.Machine) error {
	if err := Vms.Put(tx, v); err != nil {
		return err
	}
	if err := disksLinked(tx, v.VmId, done.Disks); err != nil {
		return err
	}
	if done.On {
		return v.onTurnedOn(tx, done)
	}
	if err := vmIsOff(tx, v.VmId); err != nil {
		return err
	}
	switch {
	case v.State == VmStopping:
		return region.onVmStopped(tx, v, VmTurnedOff)
	case v.State == VmPending && !v.Running:
		v.StateReason = neverStarted
		return v.onStarted(tx, VmTurnedOff)
	}
	return nil
}

// onTurnedOn records that a machine is on, if its VM waits for that.
func (v *Vm) onTurnedOn(tx *resource.Tx, done driver.Machine) error {
	if v.State != VmPending || !v.Running {
		return nil
	}
	if a := v.ActionsOnNextBoot; a != nil && string(a.SecureBoot) == done.SecureBoot {
		v.ActionsOnNextBoot = nil
	}
	return v.onStarted(tx, VmTurnedOn)
}

// onStarted moves a pending VM to running or stopped.
func (v *Vm) onStarted(tx *resource.Tx, event lifecycle.Event[VmStateName]) error {
	if err := v.transition(tx, event); err != nil {
		return err
	}
	return settleGroup(tx, v.VmGroupId)
}

// noRoom stops a VM that no host has room for.
func (region Region) noRoom(tx *resource.Tx, v *Vm) error {
	if !resource.Allows(Vms, v, vmUnplaced) {
		return nil
	}
	v.StateReason = stoppedForRoom
	v.Generation++
	return region.onVmStopped(tx, v, vmUnplaced)
}
