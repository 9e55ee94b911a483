package acceptance

import (
	"context"
	"maps"
	"slices"

	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// checkDisks makes sure that every volume is what its links say, that nothing
// is under way any more, and that no volume and no VM's device is used twice.
func (d *day) checkDisks(name string) {
	d.w.view(name, func(tx *resource.Tx) error {
		devices := map[string]bool{}
		for v := range compute.Volumes.All(tx) {
			want := compute.VolumeAvailable
			for _, link := range v.LinkedVolumes {
				want = compute.VolumeInUse
				device := string(link.VmId) + " " + link.DeviceName
				if devices[device] {
					d.w.t.Errorf("two volumes are %s", device)
				}
				devices[device] = true
			}
			if v.State != want || len(v.LinkedVolumes) > 1 || v.Pending() || v.TaskId != "" || v.Target != nil || v.MadeFrom != "" {
				d.w.t.Errorf("the volume %s stays %s with %d links and the task %q", v.VolumeId, v.State, len(v.LinkedVolumes), v.TaskId)
			}
		}
		for s := range compute.Snapshots.All(tx) {
			if s.State != compute.SnapshotCompleted || s.Progress != 100 {
				d.w.t.Errorf("the snapshot %s stays %s at %d percent", s.SnapshotId, s.State, s.Progress)
			}
		}
		for task := range compute.VolumeUpdateTasks.All(tx) {
			d.w.t.Errorf("the update %s stays %s", task.TaskId, task.State)
		}
		return nil
	})
}

// checkDiskDriver makes sure that the driver has the disks and snapshots that the
// store has, and no others.
func (d *day) checkDiskDriver() {
	want, got := map[string]bool{}, map[string]bool{}
	for _, name := range d.people {
		for _, kind := range []string{"Volume", "Snapshot"} {
			for _, o := range d.objects(name, kind) {
				want[o.ID] = true
			}
		}
	}
	disks, err := d.w.sim.ObserveDisks(context.Background())
	if err != nil {
		d.w.t.Fatalf("observing the driver: %v", err)
	}
	for _, disk := range disks {
		got[disk.ID] = true
	}
	snapshots, err := d.w.sim.ObserveSnapshots(context.Background())
	if err != nil {
		d.w.t.Fatalf("observing the driver: %v", err)
	}
	for _, s := range snapshots {
		for _, part := range s.Parts {
			got[part.ID] = true
		}
	}
	if !maps.Equal(want, got) {
		d.w.t.Errorf("the driver has %v, and the store %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
