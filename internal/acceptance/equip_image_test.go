package acceptance

import (
	"fmt"
	"maps"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
)

// equipImages makes an image of a VM that is stopped, which is shared with
// somebody and was exported, and exports under way: of another image and of its
// snapshot.
func (w *testRegion) equipImages(name string, made func(path, action, format string, args ...any) string, has belongings) {
	w.t.Helper()
	ready := func(path, action, format string, args ...any) string {
		w.t.Helper()
		id := made(path, action, format, args...)
		w.advance(transition)
		return id
	}
	vm := has["UpdateVmRequest.VmId"]
	image := ready("Image.ImageId", "CreateImage", `{"VmId": %q, "ImageName": "golden", "Description": "with everything"}`, vm)
	friend := id.Account("").Form().Random(w.options.Rand)
	made("", "UpdateImage", `{"ImageId": %q, "PermissionsToLaunch": {"Additions": {"AccountIds": [%q]}}}`, image, friend)
	made("", "CreateTags", `{"ResourceIds": [%q], "Tags": [{"Key": "env", "Value": "test"}]}`, image)
	export := fmt.Sprintf(`"OsuExport": {"DiskImageFormat": "raw", "OsuBucket": %q, "OsuPrefix": "daily/"}`, w.bucket(name))
	done := ready("ImageExportTask.TaskId", "CreateImageExportTask", `{"ImageId": %q, %s}`, image, export)
	used := made("Images.0.BlockDeviceMappings.0.Bsu.SnapshotId", "ReadImages", `{"Filters": {"ImageIds": [%q]}}`, image)
	snapshotTask := made("SnapshotExportTask.TaskId", "CreateSnapshotExportTask", `{"SnapshotId": %q, %s}`, used, export)
	made("", "CreateTags", `{"ResourceIds": [%q, %q], "Tags": [{"Key": "env", "Value": "test"}]}`, done, snapshotTask)
	maps.Copy(has, belongings{
		"FiltersVm.ImageIds": has["id.Image"], "FiltersVmTemplate.ImageIds": has["id.Image"],
		"id.Image": image, "id.ImageExportTask": done, "id.SnapshotExportTask": snapshotTask, "CreateImageRequest.VmId": vm,
		"CreateImageRequest.FileLocation":            w.bucket(name) + "/daily/" + done + ".json",
		"FiltersImage.PermissionsToLaunchAccountIds": friend, "FiltersImage.BlockDeviceMappingSnapshotIds": used,
		"FiltersSnapshotExportTask.SnapshotIds": used,
	})
	passing["DeleteExportTask"](w, name, has)
}

// passing are the actions about something that ends by itself, each with how to
// make it anew.
var passing = map[string]func(w *testRegion, name string, has belongings){
	"DeleteExportTask": func(w *testRegion, name string, has belongings) {
		w.t.Helper()
		has["compute.ExportTaskId"] = w.as(name).must("CreateImageExportTask", fmt.Sprintf(
			`{"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": %q, "OsuApiKey": {"ApiKeyId": "key", "SecretKey": %q}}}`,
			has["id.Image"], w.bucket(name), w.canary(),
		)).at("ImageExportTask.TaskId")
	},
}

// bucket is the bucket of an account's own, because one belongs to the account
// that first wrote to it.
func (w *testRegion) bucket(name string) string { return "backups-" + w.person(name).account }

// canary is a secret that nobody may be told.
func (w *testRegion) canary() string {
	s := "canary-" + w.fresh() + "-canary"
	w.secret(s)
	return s
}
