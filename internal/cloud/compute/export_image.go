package compute

import (
	"path"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ImageExportTask writes an [Image] to an object store: a file for each of its
// snapshots, and a manifest that images are made from again.
type ImageExportTask struct {
	Comment   string                   // What the task does, or why it has failed.
	ImageId   id.Image                 `ref:"-"` // The ID of the image.
	OsuExport OsuExportImageExportTask // Where the image is written to.
	Progress  int                      // How much is done, in percent.
	State     ImageExportState         // The state of the task.
	Tags      []api.Tag                // The tags of the task.
	TaskId    id.ImageExportTask       // The ID of the task.

	Target      exportTarget    `wire:"-"`
	Manifest    manifest        `wire:"-"` // without the URLs
	Written     bool            `wire:"-"` // all files are there
	ManifestUrl resource.Secret `wire:"-"` // which has the right to read the manifest in it
}

// OsuExportImageExportTask is where an image is written to.
type OsuExportImageExportTask struct {
	DiskImageFormat DiskImageFormat `api:"required"` // The format of the files.
	OsuBucket       BucketName      `api:"required"` // The name of the bucket.
	// The URL of the manifest. Unless it was given, it is a pre-signed one, which is there once
	// the task is completed.
	OsuManifestUrl string       `wire:"omitempty"`
	OsuPrefix      ObjectPrefix // What the keys of the objects begin with.
}

// ImageExportTasks are the image export tasks of the region. They stay.
var ImageExportTasks = &resource.Kind[ImageExportTask, id.ImageExportTask]{
	Name:     "ImageExportTask",
	Tag:      "task",
	NotFound: apierror.TaskNotFound,
	Life:     imageExportLife,
}

var imageExports = &exports[ImageExportTask, id.ImageExportTask, ImageExportState]{
	Kind:  ImageExportTasks,
	quota: "image_export_limit",
	parts: func(t *ImageExportTask) exportParts[id.ImageExportTask] {
		return exportParts[id.ImageExportTask]{t.TaskId, t.ended(), &t.Comment, &t.Target}
	},
	advance: noteImageFiles,
}

// ImageExportState is the state of an image export task.
type ImageExportState string

// The states of an image export task.
const (
	ImageExportQueued    ImageExportState = "pending/queued"
	ImageExportPending   ImageExportState = "pending"
	ImageExportCompleted ImageExportState = "completed"
	ImageExportFailed    ImageExportState = "failed"
	ImageExportCancelled ImageExportState = "cancelled"
)

// Literals implements [api.Enum].
func (ImageExportState) Literals() []string {
	return []string{"pending/queued", "pending", "completed", "failed", "cancelled"}
}

// imageExportLife is the life of an image export task.
var imageExportLife = lifecycle.Table[ImageExportState]{
	"":                   {exportCreated: ImageExportQueued},
	ImageExportQueued:    {exportBegun: ImageExportPending, exportFailed: ImageExportFailed, exportCancelled: ImageExportCancelled},
	ImageExportPending:   {exportCompleted: ImageExportCompleted, exportFailed: ImageExportFailed, exportCancelled: ImageExportCancelled},
	ImageExportCompleted: {},
	ImageExportFailed:    {},
	ImageExportCancelled: {},
}

func (t *ImageExportTask) ended() bool { return len(imageExportLife[t.State]) == 0 }

// Pending reports whether there is something to do.
func (t *ImageExportTask) Pending() bool { return !t.ended() }

// Sums implements [resource.Summed]: it counts the task while it runs.
func (t *ImageExportTask) Sums() resource.Sums { return sumRunning(t.ended()) }

// manifestKey is the key of the manifest.
func (t *ImageExportTask) manifestKey() string { return t.Target.object(string(t.TaskId) + ".json") }

func viewImageExportTask(_ *resource.Tx, t *ImageExportTask) *ImageExportTask {
	if t.OsuExport.OsuManifestUrl == "" {
		t.OsuExport.OsuManifestUrl = string(t.ManifestUrl)
	}
	return t
}

// exported finds a task of the account by where it has written: the bucket and
// the key of the manifest, or of the first file.
func exported(tx *resource.Tx, location string) (*ImageExportTask, bool) {
	for t := range ImageExportTasks.All(tx) {
		under := string(t.Target.Bucket) + "/"
		if t.State == ImageExportCompleted && (location == under+t.manifestKey() || location == under+t.Manifest.Image.Snapshots[0].Filename) {
			return t, true
		}
	}
	return nil, false
}

// CreateImageExportTaskRequest asks for an image of the account to be written to an
// object store.
type CreateImageExportTaskRequest struct {
	// The ID of the image. One of another account must be copied first.
	ImageId   id.Image          `api:"required"`
	OsuExport OsuExportToCreate `api:"required"` // Where the image is written to, and how.
}

// CreateImageExportTaskResponse shows the task.
type CreateImageExportTaskResponse struct{ ImageExportTask *ImageExportTask }

func (region Region) checkImageBucket(tx *resource.Tx, req *CreateImageExportTaskRequest) (struct{}, error) {
	return region.checkBucket(tx, &req.OsuExport)
}

func createImageExportTask(tx *resource.Tx, req *CreateImageExportTaskRequest, _ struct{}) (*CreateImageExportTaskResponse, error) {
	i, err := ownImage(tx, req.ImageId)
	if err != nil {
		return nil, err
	}
	if i.State != ImageAvailable {
		return nil, apierror.InvalidImageState.Errorf("The image %s is %s, not available.", i.ImageId, i.State)
	}
	if err := imageExports.checkQuota(tx); err != nil {
		return nil, err
	}
	task := &ImageExportTask{
		Comment: "Export of image " + string(i.ImageId), ImageId: i.ImageId, Target: req.OsuExport.target(),
		OsuExport: OsuExportImageExportTask{req.OsuExport.DiskImageFormat, req.OsuExport.OsuBucket, req.OsuExport.OsuManifestUrl,
			req.OsuExport.OsuPrefix},
	}
	if task.Manifest, err = i.describe(); err != nil {
		return nil, err
	}
	if err := ImageExportTasks.Insert(tx, task); err != nil {
		return nil, err
	}
	if err := task.insertFiles(tx, i); err != nil {
		return nil, err
	}
	return &CreateImageExportTaskResponse{viewImageExportTask(tx, task)}, ImageExportTasks.Put(tx, task)
}

// insertFiles makes a file of each snapshot of the image. That of the root
// device has the name that is promised, and stands first.
func (t *ImageExportTask) insertFiles(tx *resource.Tx, i *Image) error {
	snapshots := t.Manifest.Image.Snapshots
	for k := range snapshots {
		if snapshots[k].Device == i.RootDeviceName {
			snapshots[0], snapshots[k] = snapshots[k], snapshots[0]
		}
	}
	of := map[string]id.Snapshot{}
	for _, mapping := range i.BlockDeviceMappings {
		of[string(mapping.DeviceName)] = mapping.Bsu.SnapshotId
	}
	for k := range snapshots {
		name := string(t.TaskId)
		if k > 0 {
			name += "-" + path.Base(snapshots[k].Device)
		}
		snapshots[k].Filename = t.Target.object(strings.Join([]string{name, string(t.Target.Format)}, "."))
		owner := tx.In(i.snapshotOwner(tx, of[snapshots[k].Device]))
		s, err := Snapshots.Get(owner, of[snapshots[k].Device])
		if err != nil {
			return err
		}
		f := &exportFile{FileId: resource.Name(name), ImageTask: t.TaskId, Object: snapshots[k].Filename}
		if err := f.insert(tx, owner, s); err != nil {
			return err
		}
	}
	return nil
}

// ReadImageExportTasksRequest asks for image export tasks.
type ReadImageExportTasksRequest struct {
	Filters *FiltersReadImageExportTask // Which tasks to list; all of them if absent.
	api.Page
}

// FiltersReadImageExportTask selects image export tasks.
type FiltersReadImageExportTask struct {
	ImageIds []id.Image           // The IDs of the images.
	TaskIds  []id.ImageExportTask // The IDs of the tasks.
	api.TagFilters
}

// noteImageFiles notes that the driver has begun, and how far it is. The files are
// all of the export but its manifest.
func noteImageFiles(tx *resource.Tx, t *ImageExportTask) error {
	all := len(t.Manifest.Image.Snapshots)
	left, done := 0, 0
	for f := range exportFiles.Of(tx, t.TaskId) {
		left++
		done += f.Progress
	}
	progress, written := max(t.Progress, min((done+100*(all-left))/all, 99)), left == 0
	changed := progress != t.Progress || written != t.Written
	t.Progress, t.Written = progress, written
	begun, err := resource.Try(tx, ImageExportTasks, t, lifecycle.Event[ImageExportState](exportBegun))
	if begun || err != nil || !changed {
		return err
	}
	return ImageExportTasks.Put(tx, t)
}
