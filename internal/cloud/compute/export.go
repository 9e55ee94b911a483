package compute

import (
	"strings"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// OsuExportToCreate says where in an object store an export is written to, and how.
type OsuExportToCreate struct {
	DiskImageFormat DiskImageFormat `api:"required"` // The format of the files.
	// The credentials that the bucket is written to with. By default, those of the region, if
	// it has any.
	OsuApiKey *OsuApiKey
	OsuBucket BucketName `api:"required"` // The name of the bucket.
	// The URL that the task shows as that of the manifest. By default, a pre-signed one that
	// works for seven days.
	OsuManifestUrl string
	// What the keys of the objects begin with: the key of the first one is the prefix, the ID
	// of the task, a dot and the format.
	OsuPrefix ObjectPrefix
}

// OsuApiKey is a key of an object store.
type OsuApiKey struct {
	ApiKeyId string // The public half of the key.
	// The secret half of the key. It is kept sealed until the export ends, and never shown.
	SecretKey string
}

// DiskImageFormat is a format of files with the content of disks.
type DiskImageFormat string

// Literals implements [api.Enum].
func (DiskImageFormat) Literals() []string { return []string{"qcow2", "raw", "vdi", "vmdk"} }

// BucketName is the name of a bucket.
type BucketName string

// Check reports a text that no bucket is called.
func (n BucketName) Check() error {
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r))
	}
	if len(n) < 3 || len(n) > 255 || strings.ContainsFunc(string(n), bad) || n[0] == '.' {
		return apierror.InvalidValue.Errorf(
			"'%.100s' is not the name of a bucket: 3 to 255 letters, digits, hyphens, dots and underscores, not beginning with a dot.", string(n))
	}
	return nil
}

// ObjectPrefix is what the key of an object begins with.
type ObjectPrefix string

// maxPrefix leaves room for the rest of a key, which has 1024 bytes at most.
const maxPrefix = 900

// Check reports a text that no key begins with.
func (p ObjectPrefix) Check() error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	switch {
	case len(p) > maxPrefix:
		return apierror.InvalidLength.Errorf("OsuPrefix is longer than %d bytes.", maxPrefix)
	case !utf8.ValidString(string(p)) || strings.ContainsFunc(string(p), control):
		return apierror.InvalidValue.Errorf("A prefix has no control characters.")
	case strings.HasPrefix(string(p), "/") || strings.Contains("/"+string(p), "/../") || strings.Contains("/"+string(p),
		"/./") || strings.Contains(string(p), "//"):
		return apierror.InvalidValue.Errorf("The prefix '%.200s' begins with a slash, or has a part that is empty or made of dots.", string(p))
	}
	return nil
}

// checkBucket makes sure that an export can be written, before anything waits
// for it.
func (region Region) checkBucket(tx *resource.Tx, e *OsuExportToCreate) (struct{}, error) {
	var none struct{}
	switch key := e.OsuApiKey; {
	case key == nil:
	case key.ApiKeyId == "":
		return none, apierror.MissingParameter.Errorf("ApiKeyId is required in OsuApiKey.")
	case key.SecretKey == "":
		return none, apierror.MissingParameter.Errorf("SecretKey is required in OsuApiKey.")
	}
	if region.Objects == nil {
		return none, errNoObjects()
	}
	target := e.target()
	if err := region.Objects.CheckBucket(tx.Context(), target.bucket(tx.Account())); err != nil {
		return none, apierror.In("OsuExport", err)
	}
	return none, nil
}

// exportTarget is where an export is written to, and how.
type exportTarget struct {
	Format    DiskImageFormat
	Bucket    BucketName
	Prefix    ObjectPrefix
	AccessKey string          // empty: the region's own credentials
	SecretKey resource.Secret // forgotten once the task has ended
}

func (e *OsuExportToCreate) target() exportTarget {
	t := exportTarget{Format: e.DiskImageFormat, Bucket: e.OsuBucket, Prefix: e.OsuPrefix}
	if e.OsuApiKey != nil {
		t.AccessKey, t.SecretKey = e.OsuApiKey.ApiKeyId, resource.Secret(e.OsuApiKey.SecretKey)
	}
	return t
}

// bucket is the bucket as an account uses it.
func (t *exportTarget) bucket(account string) objectstore.Bucket {
	return objectstore.Bucket{Name: string(t.Bucket), Account: account, AccessKey: t.AccessKey, SecretKey: string(t.SecretKey)}
}

// forget forgets the credentials.
func (t *exportTarget) forget() { t.AccessKey, t.SecretKey = "", "" }

// object is the key of an object of a task.
func (t *exportTarget) object(name string) string { return string(t.Prefix) + name }

// The events of export tasks. They have no type, because the tasks of each kind
// have states of their own.
const (
	exportCreated   = "created"
	exportBegun     = "begun"
	exportCompleted = "completed"
	exportFailed    = "failed"
	exportCancelled = "cancelled"
)

// exports are the export tasks of one kind, with what both kinds have in common.
type exports[T any, I resource.ID, S ~string] struct {
	*resource.Kind[T, I]
	quota   string
	parts   func(*T) exportParts[I]
	advance func(*resource.Tx, *T) error // notes how far the files of a task are
}

// exportParts are the parts of a task of either kind.
type exportParts[I resource.ID] struct {
	id      I
	ended   bool
	comment *string
	target  *exportTarget
}

// find finds a task of the account.
func (e *exports[T, I, S]) find(tx *resource.Tx, taskID I) (exportTask, error) {
	task, err := e.Get(tx, taskID)
	if err != nil {
		return nil, err
	}
	return &foundExport[T, I, S]{e, task, e.parts(task)}, nil
}

// running is how many tasks have not ended.
func (e *exports[T, I, S]) running(tx *resource.Tx) int { return e.Sum(tx, running) }

// checkQuota refuses one more task than can run at the same time. The catalogue has
// no code for too many exports: that of snapshots that are being taken is nearest.
func (e *exports[T, I, S]) checkQuota(tx *resource.Tx) error {
	return tx.CheckLimit(e.quota, apierror.TooManyActiveSnapshots, e.running(tx)+1)
}

func (e *exports[T, I, S]) meter() resource.Meter { return resource.GlobalMeter(e.quota, e.running) }

// exportTask is a task of either kind.
type exportTask interface {
	// hasEnded reports whether no event is left in the life of the task.
	hasEnded() bool
	// noteFiles notes how far the files of the task are.
	noteFiles(tx *resource.Tx) error
	// end ends the task before it is done.
	end(tx *resource.Tx, event, comment string) error
	to() *exportTarget
}

// foundExport is a task that was found. It implements [exportTask].
type foundExport[T any, I resource.ID, S ~string] struct {
	*exports[T, I, S]
	task *T
	is   exportParts[I]
}

func (e *foundExport[T, I, S]) hasEnded() bool { return e.is.ended }

func (e *foundExport[T, I, S]) to() *exportTarget { return e.is.target }

func (e *foundExport[T, I, S]) noteFiles(tx *resource.Tx) error { return e.advance(tx, e.task) }

func (e *foundExport[T, I, S]) end(tx *resource.Tx, event, comment string) error {
	for f := range exportFiles.Of(tx, e.is.id) {
		if err := exportFiles.Delete(tx, f); err != nil {
			return err
		}
	}
	*e.is.comment = comment
	e.is.target.forget()
	return resource.Transition(tx, e.Kind, e.task, lifecycle.Event[S](event))
}

// exportFile is a file that is being written. It goes once it is written, or is
// not wanted any more.
type exportFile struct {
	FileId       resource.Name         // as the driver knows it: the ID of the task, with the device if it is not the first
	ImageTask    id.ImageExportTask    `ref:"weak"` // what it is written for: this…
	SnapshotTask id.SnapshotExportTask `ref:"weak"` // …or this
	SnapshotId   id.Snapshot           `ref:"-"`
	Owner        id.Account            `ref:"-"` // of the snapshot
	// the snapshot, if it is the account's own: it cannot be deleted yet
	Kept     id.Snapshot
	Size     int    // GiB
	Object   string // its key
	Progress int    // percent
}

// Pending reports that there is something to do.
func (*exportFile) Pending() bool { return true }

var exportFiles = &resource.Kind[exportFile, resource.Name]{Name: "ExportFile"}

// insert makes a file of a snapshot of an owner.
func (f *exportFile) insert(tx *resource.Tx, owner *resource.Tx, s *Snapshot) error {
	f.SnapshotId, f.Owner, f.Size = s.SnapshotId, id.Account(owner.Account()), s.VolumeSize
	if owner.Account() == tx.Account() {
		f.Kept = s.SnapshotId
	}
	return exportFiles.Insert(tx, f)
}

// task is what the file is written for.
func (f *exportFile) task(tx *resource.Tx) (exportTask, error) {
	if f.ImageTask != "" {
		return imageExports.find(tx, f.ImageTask)
	}
	return snapshotExports.find(tx, f.SnapshotTask)
}

func exportMeters() []resource.Meter {
	return []resource.Meter{imageExports.meter(), snapshotExports.meter()}
}

func exportActions(region Region) []api.Action {
	images := api.NewResource(ImageExportTasks, viewImageExportTask).InFamily("Image")
	snapshots := api.NewResource(SnapshotExportTasks, api.Plain[SnapshotExportTask]).InFamily("Snapshot")
	return []api.Action{
		api.DoPrepared("Image", region.checkImageBucket, createImageExportTask),
		api.Read[ReadImageExportTasksRequest](images),
		api.DoPrepared("Snapshot", region.checkSnapshotBucket, createSnapshotExportTask),
		api.Read[ReadSnapshotExportTasksRequest](snapshots),
		api.Command("Task", deleteExportTask),
	}
}

// ExportTaskId is the ID of an export task of either kind.
type ExportTaskId string

// Check reports a text of the wrong form.
func (t ExportTaskId) Check() error {
	if id.ImageExportTask(t).Form().Check(string(t)) == nil {
		return nil
	}
	return id.SnapshotExportTask(t).Form().Check(string(t))
}

// DeleteExportTaskRequest cancels an export task that has not ended. It stays
// readable.
type DeleteExportTaskRequest struct {
	ExportTaskId ExportTaskId `api:"required"` // The ID of the task.
}

func deleteExportTask(tx *resource.Tx, req *DeleteExportTaskRequest) error {
	var task exportTask
	var err error
	if image := id.ImageExportTask(req.ExportTaskId); strings.HasPrefix(string(image), image.Form().Prefix) {
		task, err = imageExports.find(tx, image)
	} else {
		task, err = snapshotExports.find(tx, id.SnapshotExportTask(req.ExportTaskId))
	}
	if err != nil {
		return apierror.TaskNotFound.NotFound("ExportTaskId", string(req.ExportTaskId))
	}
	if task.hasEnded() {
		return apierror.InvalidState.Errorf("The task %s has ended.", req.ExportTaskId)
	}
	return task.end(tx, exportCancelled, "The export was cancelled.")
}
