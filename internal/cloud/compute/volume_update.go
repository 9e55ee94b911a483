package compute

import (
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VolumeUpdateTask is an update of a volume that takes time.
type VolumeUpdateTask struct {
	Comment        string              // What the task does, or why it has failed.
	CompletionDate api.DateTime        // When the update came to its end.
	Progress       int                 // How much of the update is done, in percent.
	StartDate      api.DateTime        // When the update was asked for.
	State          VolumeUpdateState   // The state of the update.
	Tags           []api.Tag           // The tags of the task.
	TaskId         id.VolumeUpdateTask // The ID of the task.
	VolumeId       id.Volume           `ref:"-"` // The ID of the volume.
	VolumeUpdate   VolumeUpdate        // What the update changes.

	// Due is when the driver said the update would be done.
	Due api.DateTime `wire:"-"`
}

// VolumeUpdate is what an update changes.
type VolumeUpdate struct {
	Origin VolumeUpdateParameters // The volume before the update.
	Target VolumeUpdateParameters // The volume after the update.
}

// VolumeUpdateParameters are what an update of a volume can change.
type VolumeUpdateParameters struct {
	// The number of operations per second that the volume can do.
	Iops       int        `api:"required"`
	Size       int        `api:"required"` // The size of the volume, in gibibytes (GiB).
	VolumeType VolumeType `api:"required"` // The type of the volume.
}

// VolumeUpdateTasks are the updates of volumes. One that has come to its end is
// deleted: it cannot be changed any more, and stays readable for a while.
var VolumeUpdateTasks = &resource.Kind[VolumeUpdateTask, id.VolumeUpdateTask]{
	Name:      "VolumeUpdateTask",
	Tag:       "task",
	NotFound:  apierror.TaskNotFound,
	Retention: time.Hour,
	Life:      volumeUpdateLife,
}

// VolumeUpdateState is the state of an update of a volume.
type VolumeUpdateState string

// The states of an update.
const (
	UpdatePending   VolumeUpdateState = "pending"
	UpdateActive    VolumeUpdateState = "active"
	UpdateCompleted VolumeUpdateState = "completed"
	UpdateFailed    VolumeUpdateState = "failed"
	UpdateCanceled  VolumeUpdateState = "canceled"
)

// Literals implements [api.Enum].
func (VolumeUpdateState) Literals() []string {
	return []string{"pending", "active", "completed", "failed", "canceled"}
}

// The events of an update. One whose volume is deleted is canceled.
const (
	updateCreated   lifecycle.Event[VolumeUpdateState] = "created"
	updateBegun     lifecycle.Event[VolumeUpdateState] = "begun"
	updateCompleted lifecycle.Event[VolumeUpdateState] = "completed"
	updateFailed    lifecycle.Event[VolumeUpdateState] = "failed"
	updateCanceled  lifecycle.Event[VolumeUpdateState] = "canceled"
	updateForgotten lifecycle.Event[VolumeUpdateState] = "forgotten"
)

// volumeUpdateLife is the life of an update.
var volumeUpdateLife = lifecycle.Table[VolumeUpdateState]{
	"":              {updateCreated: UpdatePending},
	UpdatePending:   {updateBegun: UpdateActive, updateCompleted: UpdateCompleted, updateFailed: UpdateFailed, updateCanceled: UpdateCanceled},
	UpdateActive:    {updateCompleted: UpdateCompleted, updateFailed: UpdateFailed, updateCanceled: UpdateCanceled},
	UpdateCompleted: {updateForgotten: ""},
	UpdateFailed:    {updateForgotten: ""},
	UpdateCanceled:  {updateForgotten: ""},
}

func volumeUpdateTaskActions() []api.Action {
	r := api.NewResource(VolumeUpdateTasks, viewVolumeUpdateTask).InFamily("Volume")
	return []api.Action{api.Read[ReadVolumeUpdateTasksRequest](r)}
}

// viewVolumeUpdateTask says how far an update is by the time that the driver gave
// itself for it.
func viewVolumeUpdateTask(tx *resource.Tx, t *VolumeUpdateTask) *VolumeUpdateTask {
	if whole := t.Due - t.StartDate; t.State == UpdateActive && whole > 0 {
		gone := api.At(tx.Now()) - t.StartDate
		t.Progress = int(min(99, 100*gone/whole))
	}
	return t
}

// ReadVolumeUpdateTasksRequest asks for updates of volumes.
type ReadVolumeUpdateTasksRequest struct {
	Filters *FiltersReadVolumeUpdateTask // Which tasks to list; all of them if absent.
	api.Page
}

// FiltersReadVolumeUpdateTask selects updates of volumes.
type FiltersReadVolumeUpdateTask struct {
	TaskIds   []id.VolumeUpdateTask // The IDs of the tasks.
	VolumeIds []id.Volume           // The IDs of the volumes.
}

// UpdateVolumeRequest changes what a volume is like. What is not given stays. A
// change that takes time is a task, whose ID the answer has: that of the size,
// and any of a volume that is linked to a VM that is not stopped.
type UpdateVolumeRequest struct {
	// The new number of operations per second, for a volume that is or becomes `io1`.
	Iops     int
	Size     int       // The new size, in gibibytes (GiB), not less than the present one.
	VolumeId id.Volume `api:"required"` // The ID of the volume.
	// The new type. For `io1`, give Iops too; those of the others follow from the type.
	VolumeType VolumeType
}

func updateVolume(tx *resource.Tx, v *Volume, req *UpdateVolumeRequest) error {
	if err := req.check(v); err != nil {
		return err
	}
	to, err := req.target(v)
	if err != nil || to == v.parameters() {
		return err
	}
	used := storageOf(tx)
	if err := used.change(tx, v.parameters(), to); err != nil {
		return err
	}
	v.Generation++
	hot, err := v.isHot(tx)
	if err != nil {
		return err
	}
	if to.Size == v.Size && !hot {
		v.Iops, v.VolumeType = to.Iops, to.VolumeType
		return nil
	}
	task := &VolumeUpdateTask{
		Comment: "Update of volume " + string(v.VolumeId), StartDate: api.At(tx.Now()),
		VolumeId: v.VolumeId, VolumeUpdate: VolumeUpdate{Origin: v.parameters(), Target: to},
	}
	if err := VolumeUpdateTasks.Insert(tx, task); err != nil {
		return err
	}
	v.Target, v.TaskId = &to, task.TaskId
	return nil
}

// check refuses an update that the state of the volume does not allow, or that
// changes nothing or makes it smaller.
func (req *UpdateVolumeRequest) check(v *Volume) error {
	switch {
	case req.Iops == 0 && req.Size == 0 && req.VolumeType == "":
		return apierror.MissingParameter.Errorf("One of Iops, Size and VolumeType is required.")
	case v.State != VolumeAvailable && v.State != VolumeInUse:
		return apierror.InvalidVolumeState.Errorf("The volume %s is %s, neither available nor in-use.", v.VolumeId, v.State)
	case v.Target != nil:
		return apierror.InvalidVolumeState.Errorf("The volume %s is being updated by the task %s.", v.VolumeId, v.TaskId)
	case req.Size != 0 && req.Size < v.Size:
		return apierror.InvalidVolumeSize.Errorf("The Size (%d) is less than the present one (%d).", req.Size, v.Size)
	}
	return nil
}

// target returns what the volume becomes.
func (req *UpdateVolumeRequest) target(v *Volume) (to VolumeUpdateParameters, err error) {
	to = v.parameters()
	if req.Size != 0 {
		to.Size = req.Size
	}
	if req.VolumeType != "" {
		to.VolumeType = req.VolumeType
	}
	if to.VolumeType != VolumeIo1 || v.VolumeType != VolumeIo1 || req.Iops != 0 {
		to.Iops = req.Iops
	}
	return to, to.complete()
}

// isHot reports whether a machine may be using the volume now.
func (v *Volume) isHot(tx *resource.Tx) (bool, error) {
	for _, link := range v.LinkedVolumes {
		vm, err := Vms.Get(tx, link.VmId)
		return err == nil && vm.State != VmStopped, err
	}
	return false, nil
}

// endUpdate ends the update under way by an event, if there is one, with a
// comment if it went wrong.
func (v *Volume) endUpdate(tx *resource.Tx, event lifecycle.Event[VolumeUpdateState], comment string) error {
	if v.TaskId == "" {
		return nil
	}
	task, err := VolumeUpdateTasks.Get(tx, v.TaskId)
	if err != nil {
		return err
	}
	task.CompletionDate = api.At(tx.Now())
	if comment != "" {
		task.Comment = comment
	}
	if event == updateCompleted {
		task.Progress = 100
	}
	v.TaskId, v.Target = "", nil
	return resource.Transition(tx, VolumeUpdateTasks, task, event)
}
