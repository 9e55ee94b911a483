package compute

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// SnapshotExportTask writes a [Snapshot] to an object store, as a file.
type SnapshotExportTask struct {
	Comment    string                      // What the task does, or why it has failed.
	OsuExport  OsuExportSnapshotExportTask // Where the snapshot is written to.
	Progress   int                         // How much is done, in percent.
	SnapshotId id.Snapshot                 `ref:"-"` // The ID of the snapshot.
	State      SnapshotExportState         // The state of the task.
	Tags       []api.Tag                   // The tags of the task.
	TaskId     id.SnapshotExportTask       // The ID of the task.

	Target exportTarget `wire:"-"`
}

// OsuExportSnapshotExportTask is where a snapshot is written to.
type OsuExportSnapshotExportTask struct {
	DiskImageFormat DiskImageFormat `api:"required"` // The format of the file.
	OsuBucket       BucketName      `api:"required"` // The name of the bucket.
	OsuPrefix       ObjectPrefix    // What the key of the object begins with.
}

// SnapshotExportTasks are the snapshot export tasks of the region. They stay.
var SnapshotExportTasks = &resource.Kind[SnapshotExportTask, id.SnapshotExportTask]{
	Name:     "SnapshotExportTask",
	Tag:      "task",
	NotFound: apierror.TaskNotFound,
	Life:     snapshotExportLife,
}

var snapshotExports = &exports[SnapshotExportTask, id.SnapshotExportTask, SnapshotExportState]{
	Kind:  SnapshotExportTasks,
	quota: "snapshot_export_limit",
	parts: func(t *SnapshotExportTask) exportParts[id.SnapshotExportTask] {
		return exportParts[id.SnapshotExportTask]{t.TaskId, t.ended(), &t.Comment, &t.Target}
	},
	advance: noteSnapshotFile,
}

// SnapshotExportState is the state of a snapshot export task.
type SnapshotExportState string

// The states of a snapshot export task. It is pending until it ends, whatever its
// progress: so it is in the published samples, and the vendor's Terraform provider
// takes any other state for a failure.
const (
	SnapshotExportPending   SnapshotExportState = "pending"
	SnapshotExportCompleted SnapshotExportState = "completed"
	SnapshotExportCancelled SnapshotExportState = "cancelled"
	SnapshotExportFailed    SnapshotExportState = "failed"
)

// Literals implements [api.Enum].
func (SnapshotExportState) Literals() []string {
	return []string{"pending", "initializing", "preparing", "uploading", "completed", "cancelled", "failed"}
}

// snapshotExportLife is the life of a snapshot export task.
var snapshotExportLife = lifecycle.Table[SnapshotExportState]{
	"": {exportCreated: SnapshotExportPending},
	SnapshotExportPending: {exportCompleted: SnapshotExportCompleted, exportFailed: SnapshotExportFailed,
		exportCancelled: SnapshotExportCancelled},
	SnapshotExportCompleted: {},
	SnapshotExportCancelled: {},
	SnapshotExportFailed:    {},
}

func (t *SnapshotExportTask) ended() bool { return len(snapshotExportLife[t.State]) == 0 }

// Sums implements [resource.Summed]: it counts the task while it runs.
func (t *SnapshotExportTask) Sums() resource.Sums { return sumRunning(t.ended()) }

// CreateSnapshotExportTaskRequest asks for a snapshot of the account to be written
// to an object store.
type CreateSnapshotExportTaskRequest struct {
	OsuExport OsuExportToCreate `api:"required"` // Where the snapshot is written to, and how.
	// The ID of the snapshot. One of another account must be copied first.
	SnapshotId id.Snapshot `api:"required"`
}

// CreateSnapshotExportTaskResponse shows the task.
type CreateSnapshotExportTaskResponse struct{ SnapshotExportTask *SnapshotExportTask }

func (region Region) checkSnapshotBucket(tx *resource.Tx, req *CreateSnapshotExportTaskRequest) (struct{}, error) {
	return region.checkBucket(tx, &req.OsuExport)
}

func createSnapshotExportTask(tx *resource.Tx, req *CreateSnapshotExportTaskRequest, _ struct{}) (*CreateSnapshotExportTaskResponse,
	error) {
	s, err := Snapshots.Get(tx, req.SnapshotId)
	if err != nil {
		if owner, _, found := sharedSnapshots.find(tx, req.SnapshotId); found == nil {
			err = apierror.NotAuthorized.Errorf("The snapshot %s belongs to the account %s: copy it first.", req.SnapshotId, owner.Account())
		}
		return nil, err
	}
	if s.State != SnapshotCompleted {
		return nil, apierror.InvalidState.Errorf("The snapshot %s is %s, not completed.", s.SnapshotId, s.State)
	}
	if err := snapshotExports.checkQuota(tx); err != nil {
		return nil, err
	}
	task := &SnapshotExportTask{
		Comment: "Export of snapshot " + string(s.SnapshotId), SnapshotId: s.SnapshotId, Target: req.OsuExport.target(),
		OsuExport: OsuExportSnapshotExportTask{req.OsuExport.DiskImageFormat, req.OsuExport.OsuBucket, req.OsuExport.OsuPrefix},
	}
	if err := SnapshotExportTasks.Insert(tx, task); err != nil {
		return nil, err
	}
	name := string(task.TaskId)
	f := &exportFile{FileId: resource.Name(name), SnapshotTask: task.TaskId,
		Object: task.Target.object(name + "." + string(task.Target.Format))}
	return &CreateSnapshotExportTaskResponse{task}, f.insert(tx, tx, s)
}

// ReadSnapshotExportTasksRequest asks for snapshot export tasks.
type ReadSnapshotExportTasksRequest struct {
	Filters *FiltersSnapshotExportTask // Which tasks to list; all of them if absent.
	api.Page
}

// FiltersSnapshotExportTask selects snapshot export tasks.
type FiltersSnapshotExportTask struct {
	SnapshotIds []id.Snapshot           // The IDs of the snapshots.
	TaskIds     []id.SnapshotExportTask // The IDs of the tasks.
	api.TagFilters
}

// noteSnapshotFile notes how far the driver is. The file is the whole export.
func noteSnapshotFile(tx *resource.Tx, t *SnapshotExportTask) error {
	for f := range exportFiles.Of(tx, t.TaskId) {
		if f.Progress <= t.Progress {
			return nil
		}
		t.Progress = f.Progress
		return SnapshotExportTasks.Put(tx, t)
	}
	t.Progress = 100
	t.Target.forget()
	return resource.Transition(tx, SnapshotExportTasks, t, lifecycle.Event[SnapshotExportState](exportCompleted))
}
