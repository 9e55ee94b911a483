package compute

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// deletingFor is how long a deleted volume is listed at least. Clients make sure
// that it is: octl reads it one to two seconds after it has deleted it.
const deletingFor = 2 * time.Second

// diskChange is a disk that a driver must have or, if it is removed, must not.
type diskChange struct {
	driver.Disk
	removed bool
}

// NewVolumeLoop makes the loop that brings volumes to a driver, each as a disk. The
// links between disks and machines are a part of the machines.
func NewVolumeLoop(db *resource.DB, disks driver.Disks) reconcile.Loop {
	return reconcile.For(db, Volumes, reconcile.Ops[Volume, diskChange, struct{}]{
		Want: wantedChange,
		Ensure: func(ctx context.Context, want diskChange) (none struct{}, err error) {
			if want.removed {
				return none, disks.RemoveDisk(ctx, want.Account, want.ID)
			}
			return none, disks.EnsureDisk(ctx, want.Disk)
		},
		Remove: disks.RemoveDisk,
		Note:   func(tx *resource.Tx, v *Volume, done diskChange, _ struct{}) error { return v.diskDone(tx, done) },
		Progress: func(tx *resource.Tx, v *Volume, _ diskChange, _ struct{}, until time.Time) error {
			return noteUpdate(tx, v.TaskId, until)
		},
		Never:   diskFailed,
		Observe: reconcile.List(disks.ObserveDisks, nil),
	})
}

// wantedChange is what a driver is asked for a volume. A deleted one stays while a
// snapshot of it is still being taken; the snapshot wakes the loop.
func wantedChange(tx *resource.Tx, v *Volume) (*diskChange, error) {
	if v.State == VolumeDeleting {
		if isBeingTaken(tx, v.VolumeId) {
			return nil, nil
		}
		if until := v.DeletedAt.Time().Add(deletingFor); until.After(tx.Now()) {
			return nil, driver.Later{At: until}
		}
	}
	return &diskChange{wantedDisk(tx.Account(), v), v.State == VolumeDeleting}, nil
}

// wantedDisk is a volume as a driver should have it.
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

// diskDone notes that the driver has a disk, or has removed it. What became of the
// volume since the driver was asked stays as it is.
func (v *Volume) diskDone(tx *resource.Tx, done diskChange) error {
	if done.removed {
		return resource.Transition(tx, Volumes, v, volumeRemoved)
	}
	v.MadeFrom = ""
	if to := v.Target; to != nil && *to == (VolumeUpdateParameters{done.Iops, done.Size, VolumeType(done.Type)}) {
		v.Iops, v.Size, v.VolumeType = to.Iops, to.Size, to.VolumeType
		if err := v.endUpdate(tx, updateCompleted, ""); err != nil {
			return err
		}
	}
	event := volumeMade
	if len(v.LinkedVolumes) > 0 {
		event = VolumeMadeForVm
	}
	made, err := resource.Try(tx, Volumes, v, event)
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

// diskFailed notes that the driver cannot make a disk, or cannot update it: then it
// stays as it was.
func diskFailed(tx *resource.Tx, v *Volume, why driver.Never) error {
	if resource.Allows(Volumes, v, volumeFailed) {
		v.MadeFrom, v.ObservedGeneration = "", v.Generation
		return resource.Transition(tx, Volumes, v, volumeFailed)
	}
	if v.Target == nil {
		return why
	}
	v.Generation++
	if err := v.endUpdate(tx, updateFailed, why.Error()); err != nil {
		return err
	}
	return Volumes.Put(tx, v)
}

// noteUpdate notes that the driver has begun an update, and when it will be done.
// An empty ID is none.
func noteUpdate(tx *resource.Tx, taskID id.VolumeUpdateTask, due time.Time) error {
	task := VolumeUpdateTasks.Find(tx, taskID)
	if task == nil || task.Due == api.At(due) {
		return nil
	}
	task.Due = api.At(due)
	if begun, err := resource.Try(tx, VolumeUpdateTasks, task, updateBegun); begun || err != nil {
		return err
	}
	return VolumeUpdateTasks.Put(tx, task)
}
