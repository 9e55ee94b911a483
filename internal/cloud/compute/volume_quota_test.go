package compute

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// walk follows the states of the resources of a kind. What it answers looks at
// them: the table must lead from the state that each had to the one that it has,
// or to its end. It answers the states that there are.
func walk[T any, I resource.ID, S, E ~string, M ~map[S]map[E]S](k *resource.Kind[T, I], life M, of func(*T) (I, S)) func(*rapid.T,
	*resource.Tx) []string {
	was := map[I]S{}
	return func(r *rapid.T, tx *resource.Tx) (states []string) {
		now := map[I]S{}
		for v := range k.All(tx) {
			id, s := of(v)
			if now[id] = s; !leads(life, was[id], s) {
				r.Fatalf("%s came from %q to %q", id, was[id], s)
			}
			states = append(states, string(s))
		}
		for id, s := range was {
			if _, there := now[id]; !there && !leads(life, s, "") && !slices.ContainsFunc(ends(life),
				func(end S) bool { return leads(life, s, end) }) {
				r.Fatalf("%s is gone, and was %q", id, s)
			}
		}
		was = now
		return states
	}
}

// ends are the states that are not left: what is in one may be forgotten.
func ends[S, E ~string, M ~map[S]map[E]S](life M) (all []S) {
	for s, events := range life {
		if len(events) == 0 {
			all = append(all, s)
		}
	}
	return all
}

// Whatever is asked of volumes, snapshots, images and exports, and whatever
// becomes of them in the driver, in whatever order, their states stay in their
// tables, and nothing is left waiting.
func TestStorageWalksTheTables(t *testing.T) {
	t.Parallel()
	const target = `"OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups", "OsuApiKey": {"ApiKeyId": "A", "SecretKey": "hunter2"}}`
	calls := []struct{ action, request, read, id string }{
		{"CreateVolume", `{"SubregionName": "test-1a", "Size": 1, "ClientToken": %q}`, "", ""},
		{"CreateVolume", `{"SubregionName": "test-1b", "SnapshotId": %q}`, "ReadSnapshots", "SnapshotId"},
		{"UpdateVolume", `{"VolumeId": %q, "Size": 2}`, "ReadVolumes", "VolumeId"},
		{"DeleteVolume", `{"VolumeId": %q}`, "ReadVolumes", "VolumeId"},
		{"CreateSnapshot", `{"VolumeId": %q}`, "ReadVolumes", "VolumeId"},
		{"CreateSnapshot", `{"SourceSnapshotId": %q, "SourceRegionName": "test-1"}`, "ReadSnapshots", "SnapshotId"},
		{"DeleteSnapshot", `{"SnapshotId": %q}`, "ReadSnapshots", "SnapshotId"},
		{"CreateImage", `{"RootDeviceName": "/dev/sda1", "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q}}]}`,
			"ReadSnapshots", "SnapshotId"},
		{"CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1"}`, "ReadImages", "ImageId"},
		{"DeleteImage", `{"ImageId": %q}`, "ReadImages", "ImageId"},
		{"CreateSnapshotExportTask", `{"SnapshotId": %q, ` + target + `}`, "ReadSnapshots", "SnapshotId"},
		{"CreateImageExportTask", `{"ImageId": %q, ` + target + `}`, "ReadImages", "ImageId"},
		{"DeleteExportTask", `{"ExportTaskId": %q}`, "ReadSnapshotExportTasks", "TaskId"},
		{"DeleteExportTask", `{"ExportTaskId": %q}`, "ReadImageExportTasks", "TaskId"},
	}
	rapid.Check(t, func(r *rapid.T) {
		l := newTestRegion(t)
		l.snapshot(anna, l.volume(anna, `"Size": 1`)) // which most else begins with
		walks := []func(*rapid.T, *resource.Tx) []string{
			walk(Volumes, volumeLife, func(v *Volume) (id.Volume, VolumeState) { return v.VolumeId, v.State }),
			walk(VolumeUpdateTasks, volumeUpdateLife,
				func(t *VolumeUpdateTask) (id.VolumeUpdateTask, VolumeUpdateState) { return t.TaskId, t.State }),
			walk(Snapshots, snapshotLife, func(s *Snapshot) (id.Snapshot, SnapshotState) { return s.SnapshotId, s.State }),
			walk(Images, imageLife, func(i *Image) (id.Image, ImageState) { return i.ImageId, i.State }),
			walk(SnapshotExportTasks, snapshotExportLife,
				func(t *SnapshotExportTask) (id.SnapshotExportTask, SnapshotExportState) { return t.TaskId, t.State }),
			walk(ImageExportTasks, imageExportLife, func(t *ImageExportTask) (id.ImageExportTask, ImageExportState) { return t.TaskId, t.State }),
		}
		look := func() (states []string) {
			l.View(anna, func(tx *resource.Tx) error {
				states = nil
				for _, w := range walks {
					states = append(states, w(r, tx)...)
				}
				return nil
			})
			return states
		}
		for range rapid.IntRange(1, 15).Draw(r, "steps") {
			what := rapid.IntRange(0, len(calls)+3).Draw(r, "what")
			if what >= len(calls) {
				l.advance(delay / time.Duration(what-len(calls)+1))
				look()
				continue
			}
			c, of := calls[what], ""
			if c.read != "" {
				all := cloudtest.Texts(l.list(anna, c.read, `{}`), c.id)
				if len(all) == 0 {
					continue
				}
				of = rapid.SampledFrom(all).Draw(r, c.id)
			}
			made, _ := l.Try(anna, c.action, c.request, of) // or it is refused
			for _, field := range []string{"SnapshotId", "TaskId"} {
				for _, o := range made {
					if o, ok := o.(map[string]any); ok && o[field] != nil && rapid.IntRange(0, 3).Draw(r, "breaks") == 0 {
						l.drivers.Break(fmt.Sprint(o[field]), "It is broken.")
					}
				}
			}
			look()
		}
		l.settle()
		rest := []string{"available", "error", "completed", "failed", "cancelled"}
		for _, s := range look() {
			if !slices.Contains(rest, s) {
				r.Fatalf("something stays %s", s)
			}
		}
		l.noSecrets(anna)
	})
}
