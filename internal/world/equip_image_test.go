package world

import (
	"fmt"
	"maps"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
)

// equipImages makes an image of a VM that is stopped, which is shared with
// somebody and was exported, and exports under way: of another image and of its
// snapshot.
func (w *world) equipImages(name string, made func(path, action, format string, args ...any) string, has belongings) {
	w.t.Helper()
	ready := func(path, action, format string, args ...any) string {
		w.t.Helper()
		id := made(path, action, format, args...)
		w.advance(transition)
		return id
	}
	vm := has["UpdateVmRequest.VmId"]
	image := ready("Image.ImageId", "CreateImage", `{"VmId": %q, "ImageName": "golden", "Description": "with everything"}`, vm)
	friend := id.Account("").Form().Random(w.options.Chance)
	made("", "UpdateImage", `{"ImageId": %q, "PermissionsToLaunch": {"Additions": {"AccountIds": [%q]}}}`, image, friend)
	made("", "CreateTags", `{"ResourceIds": [%q], "Tags": [{"Key": "env", "Value": "test"}]}`, image)
	const export = `"OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups", "OsuPrefix": "daily/"}`
	done := ready("ImageExportTask.TaskId", "CreateImageExportTask", `{"ImageId": %q, %s}`, image, export)
	used := made("Images.0.BlockDeviceMappings.0.Bsu.SnapshotId", "ReadImages", `{"Filters": {"ImageIds": [%q]}}`, image)
	snapshotTask := made("SnapshotExportTask.TaskId", "CreateSnapshotExportTask", `{"SnapshotId": %q, %s}`, used, export)
	made("", "CreateTags", `{"ResourceIds": [%q, %q], "Tags": [{"Key": "env", "Value": "test"}]}`, done, snapshotTask)
	maps.Copy(has, belongings{
		"FiltersVm.ImageIds": has["id.Image"], "FiltersVmTemplate.ImageIds": has["id.Image"],
		"id.Image": image, "id.ImageExportTask": done, "id.SnapshotExportTask": snapshotTask, "CreateImageRequest.VmId": vm, "CreateImageRequest.FileLocation": "backups/daily/" + done + ".json",
		"FiltersImage.PermissionsToLaunchAccountIds": friend, "FiltersImage.BlockDeviceMappingSnapshotIds": used,
		"FiltersSnapshotExportTask.SnapshotIds": used,
	})
	passing["DeleteExportTask"](w, name, has)
}

// passing are the actions about something that ends by itself, each with how to
// make it anew.
var passing = map[string]func(w *world, name string, has belongings){
	"DeleteExportTask": func(w *world, name string, has belongings) {
		w.t.Helper()
		has["compute.ExportTaskId"] = w.as(name).must("CreateImageExportTask", fmt.Sprintf(
			`{"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups", "OsuApiKey": {"ApiKeyId": "key", "SecretKey": %q}}}`, has["id.Image"], w.canary(),
		)).at("ImageExportTask.TaskId")
	},
}

// canary is a secret that nobody may be told.
func (w *world) canary() string {
	s := "canary-" + w.fresh() + "-canary"
	w.secret(s)
	return s
}
