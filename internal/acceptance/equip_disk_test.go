package acceptance

import (
	"maps"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
)

// equipDisks makes a volume that is free and one that a running VM has, a
// snapshot that the second was made from and that is shared with somebody, and
// an update that is done. What the driver must make is there at the end.
func (w *testRegion) equipDisks(name string, made func(path, action, format string, args ...any) string, has belongings) {
	w.t.Helper()
	ready := func(path, action, format string, args ...any) string {
		w.t.Helper()
		id := made(path, action, format, args...)
		w.advance(transition)
		return id
	}
	free := ready("Volume.VolumeId", "CreateVolume", `{"SubregionName": "eu-west-2a", "Size": 10}`)
	snapshot := ready("Snapshot.SnapshotId", "CreateSnapshot", `{"VolumeId": %q, "Description": "daily"}`, free)
	linked := ready("Volume.VolumeId", "CreateVolume", `{"SubregionName": "eu-west-2a", "SnapshotId": %q, "ClientToken": "token of %s"}`,
		snapshot, name)
	vm := has["id.Vm"]
	made("", "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdb"}`, linked, vm)
	friend := id.Account("").Form().Random(w.options.Rand)
	made("", "UpdateSnapshot", `{"SnapshotId": %q, "PermissionsToCreateVolume": {"Additions": {"AccountIds": [%q]}}}`, snapshot, friend)
	task := ready("Volume.TaskId", "UpdateVolume", `{"VolumeId": %q, "Size": 11}`, free)
	made("", "CreateTags", `{"ResourceIds": [%q, %q], "Tags": [{"Key": "env", "Value": "test"}]}`, free, snapshot)
	maps.Copy(has, belongings{
		"id.Volume": free, "id.Snapshot": snapshot, "id.VolumeUpdateTask": task,
		"UnlinkVolumeRequest.VolumeId":                        linked,
		"FiltersSnapshot.PermissionsToCreateVolumeAccountIds": friend,
	})
}
