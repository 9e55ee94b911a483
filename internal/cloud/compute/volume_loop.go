package compute

import (
	"context"
	"errors"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// VolumeLoop brings volumes to a driver, each as a disk, and moves those that
// the world has made or updated to their next state. What the world has and the
// store does not, it removes. The links between disks and machines are a part of
// the machines.
type VolumeLoop struct {
	db    *kind.DB
	world driver.Disks
}

// NewVolumeLoop makes the loop that joins a store and a driver.
func NewVolumeLoop(db *kind.DB, world driver.Disks) *VolumeLoop { return &VolumeLoop{db, world} }

// Kind is the kind whose changes wake the loop.
func (l *VolumeLoop) Kind() kind.Any { return Volumes }

// Step brings one volume to the world and notes what the world has then. It
// answers when to ask again if the world is not done.
func (l *VolumeLoop) Step(ctx context.Context, account, volumeID string) (again time.Time, err error) {
	caller := kind.Caller{Account: account}
	var v *Volume
	err = l.db.View(ctx, caller, func(tx *kind.Tx) error {
		v = Volumes.Living(tx, id.Volume(volumeID))
		return nil
	})
	switch {
	case err != nil:
		return again, err
	case v == nil:
		return driver.UntilDone(l.world.RemoveDisk(ctx, account, volumeID))
	case !v.Unsettled():
		return again, nil
	case v.State == VolumeDeleting:
		return l.end(ctx, caller, v.VolumeId)
	}
	want := wantedDisk(account, v)
	again, err = driver.UntilDone(l.world.EnsureDisk(ctx, want))
	never, cannot := errors.AsType[driver.Never](err)
	switch {
	case cannot:
		return again, l.db.Update(ctx, caller, func(tx *kind.Tx) error { return diskFailed(tx, want, never.Why) })
	case err != nil:
		return again, err
	case again.IsZero():
		return again, l.db.Update(ctx, caller, func(tx *kind.Tx) error { return diskDone(tx, want) })
	case v.TaskId != "":
		err = l.db.Update(ctx, caller, func(tx *kind.Tx) error { return noteUpdate(tx, v.TaskId, again) })
	}
	return again, err
}

// deletingFor is how long a deleted volume is listed at least. Clients make sure
// that it is: octl reads it one to two seconds after it has deleted it.
const deletingFor = 2 * time.Second

// end removes the disk of a deleted volume, and then the volume. While a snapshot
// of it is still being taken it stays; the snapshot wakes the loop.
func (l *VolumeLoop) end(ctx context.Context, caller kind.Caller, volumeID id.Volume) (again time.Time, err error) {
	due := false
	err = l.db.View(ctx, caller, func(tx *kind.Tx) error {
		again, due = time.Time{}, false
		v := Volumes.Living(tx, volumeID)
		if v == nil || isBeingTaken(tx, volumeID) {
			return nil
		}
		if until := v.DeletedAt.Time().Add(deletingFor); until.After(tx.Now()) {
			again = until
		} else {
			due = true
		}
		return nil
	})
	if err != nil || !due {
		return again, err
	}
	if again, err = driver.UntilDone(l.world.RemoveDisk(ctx, caller.Account, string(volumeID))); err != nil || !again.IsZero() {
		return again, err
	}
	return again, l.db.Update(ctx, caller, func(tx *kind.Tx) error {
		if v := Volumes.Living(tx, volumeID); v != nil {
			return Volumes.Delete(tx, v)
		}
		return nil
	})
}

// Observe finds the disks that the world has.
func (l *VolumeLoop) Observe(ctx context.Context, found reconcile.Found) error {
	disks, err := l.world.ObserveDisks(ctx)
	for _, d := range disks {
		found(d.Account, d.ID, false)
	}
	return err
}

// wantedDisk is a volume as the world should have it.
func wantedDisk(account string, v *Volume) driver.Disk {
	p := v.wanted()
	d := driver.Disk{
		Account: account, ID: string(v.VolumeId), Generation: v.Generation,
		Subregion: v.SubregionName, Size: p.Size, Type: string(p.VolumeType), Iops: p.Iops, Image: v.Image,
	}
	if v.SnapshotId != "" && v.Image == "" {
		d.From = &driver.SnapshotName{Account: string(v.SnapshotAccountId), ID: string(v.SnapshotId)}
	}
	return d
}

// diskDone notes that the world has a disk. What became of the volume since the
// world was asked stays as it is.
func diskDone(tx *kind.Tx, done driver.Disk) error {
	v := Volumes.Living(tx, id.Volume(done.ID))
	if v == nil || v.Applied >= done.Generation {
		return nil
	}
	v.Applied, v.MadeFrom = done.Generation, ""
	if to := v.Target; to != nil && *to == (VolumeUpdateParameters{done.Iops, done.Size, VolumeType(done.Type)}) {
		v.Iops, v.Size, v.VolumeType = to.Iops, to.Size, to.VolumeType
		if err := v.endUpdate(tx, updateCompleted, ""); err != nil {
			return err
		}
	}
	event := volumeMade
	if len(v.LinkedVolumes) > 0 {
		event = volumeMadeForVm
	}
	made, err := kind.Try(tx, Volumes, v, event)
	switch {
	case err != nil:
		return err
	case !made:
		return Volumes.Put(tx, v)
	case event == volumeMade:
		return nil
	}
	// The machine has waited for its disk.
	return touchVm(tx, v.LinkedVolumes[0].VmId)
}

// diskFailed notes that the world cannot make a disk, or cannot update it: then
// it shall stay as it was.
func diskFailed(tx *kind.Tx, asked driver.Disk, why string) error {
	v := Volumes.Living(tx, id.Volume(asked.ID))
	if v == nil || v.Generation != asked.Generation {
		return nil
	}
	if kind.Allows(Volumes, v, volumeFailed) {
		v.MadeFrom, v.Applied = "", v.Generation
		return kind.Transition(tx, Volumes, v, volumeFailed)
	}
	if v.Target == nil {
		return errors.New(why)
	}
	v.Generation++
	if err := v.endUpdate(tx, updateFailed, why); err != nil {
		return err
	}
	return Volumes.Put(tx, v)
}

// noteUpdate notes that the world has begun an update, and when it will be done.
func noteUpdate(tx *kind.Tx, taskID id.VolumeUpdateTask, due time.Time) error {
	task := VolumeUpdateTasks.Living(tx, taskID)
	if task == nil || task.Due == api.At(due) {
		return nil
	}
	task.Due = api.At(due)
	if begun, err := kind.Try(tx, VolumeUpdateTasks, task, updateBegun); begun || err != nil {
		return err
	}
	return VolumeUpdateTasks.Put(tx, task)
}

// wantedDisks are the disks that a machine should have, the one to boot from
// first. ready is false while one of them is not made yet: the VM hears of it
// when it is.
func wantedDisks(tx *kind.Tx, vm *Vm) (disks []driver.MachineDisk, ready bool) {
	ready = true
	for v := range volumesOf(tx, vm.VmId) {
		link := v.LinkedVolumes[0]
		ready = ready && v.State != VolumeCreating && v.State != VolumeError
		if link.State == VolumeDetaching {
			continue
		}
		disk := driver.MachineDisk{Disk: string(v.VolumeId), Device: link.DeviceName}
		if disk.Device == vm.RootDeviceName {
			disks = append([]driver.MachineDisk{disk}, disks...)
		} else {
			disks = append(disks, disk)
		}
	}
	return disks, ready
}

// disksLinked notes that the world has the disks of a machine as given. What
// became of the links since the world was asked stays as it is.
func disksLinked(tx *kind.Tx, vm id.Vm, has []driver.MachineDisk) error {
	linked := map[driver.MachineDisk]bool{}
	for _, d := range has {
		linked[d] = true
	}
	for v := range Volumes.Of(tx, vm) {
		link := v.LinkedVolumes[0]
		event := linkDetached
		if linked[driver.MachineDisk{Disk: string(v.VolumeId), Device: link.DeviceName}] {
			event = linkAttached
		}
		if err := v.advanceLink(tx, event); err != nil {
			return err
		}
	}
	return nil
}
