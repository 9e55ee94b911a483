package compute

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Snapshot is the content of a [Volume] at an instant.
type Snapshot struct {
	// The alias of the owner, if there is one.
	AccountAlias string `wire:"omitempty"`
	// The account ID of the owner.
	AccountId id.Account `json:"-" ref:"-"`
	// The token that the creation was asked for with.
	ClientToken               string                `wire:"omitempty"`
	CreationDate              api.DateTime          // When the snapshot was created.
	Description               string                // The description of the snapshot.
	PermissionsToCreateVolume PermissionsOnResource // Who may create volumes from the snapshot.
	Progress                  int                   // How much of the snapshot is done, in percent.
	SnapshotId                id.Snapshot           // The ID of the snapshot.
	State                     SnapshotState         // The state of the snapshot.
	Tags                      []api.Tag             // The tags of the snapshot.
	// The ID of the volume; absent from a copy.
	VolumeId   id.Volume `ref:"-"`
	VolumeSize int       // The size of the volume, in gibibytes (GiB).

	// Asked is the digest of the request, if it had a client token.
	Asked string `wire:"-"`
	// Image is the name of the content of an image of the region's own, which is
	// what the snapshot has. The driver knows it by this name only.
	Image string `wire:"-"`
}

// Snapshots are the snapshots of the region.
var Snapshots = &resource.Kind[Snapshot, id.Snapshot]{
	Name:     "Snapshot",
	Tag:      "snapshot",
	NotFound: apierror.SnapshotNotFound,
	InUse:    apierror.InUse,
	Quota:    &resource.Quota{Name: "snapshot_limit", Code: apierror.TooManySnapshots},
	Unique:   []string{"ClientToken"},
	Conflict: apierror.AlreadyExists,
	Life:     snapshotLife,
}

// sharedSnapshots are the snapshots with those of others that may be used.
var sharedSnapshots = sharing[Snapshot, id.Snapshot]{
	Kind:        Snapshots,
	id:          func(s *Snapshot) id.Snapshot { return s.SnapshotId },
	permissions: func(s *Snapshot) *PermissionsOnResource { return &s.PermissionsToCreateVolume },
	private:     func(s *Snapshot) { s.Tags, s.ClientToken = nil, "" },
}

// SnapshotState is the state of a snapshot.
type SnapshotState string

// The states of a snapshot.
const (
	SnapshotInQueue   SnapshotState = "in-queue"
	SnapshotPending   SnapshotState = "pending"
	SnapshotCompleted SnapshotState = "completed"
	SnapshotError     SnapshotState = "error"
)

// Literals implements [api.Enum].
func (SnapshotState) Literals() []string {
	return []string{"in-queue", "pending", "completed", "error", "deleting"}
}

// The events of a snapshot. Those of the region's own images are registered: their
// content is there already.
const (
	snapshotCreated    lifecycle.Event[SnapshotState] = "created"
	snapshotRegistered lifecycle.Event[SnapshotState] = "registered"
	snapshotBegun      lifecycle.Event[SnapshotState] = "begun"
	snapshotCompleted  lifecycle.Event[SnapshotState] = "completed"
	snapshotFailed     lifecycle.Event[SnapshotState] = "failed"
	snapshotDeleted    lifecycle.Event[SnapshotState] = "deleted"
)

// snapshotLife is the life of a snapshot. A deleted one is gone at once.
var snapshotLife = lifecycle.Table[SnapshotState]{
	"": {snapshotCreated: SnapshotInQueue, snapshotRegistered: SnapshotCompleted},
	SnapshotInQueue: {snapshotBegun: SnapshotPending, snapshotCompleted: SnapshotCompleted, snapshotFailed: SnapshotError,
		snapshotDeleted: ""},
	SnapshotPending:   {snapshotCompleted: SnapshotCompleted, snapshotFailed: SnapshotError, snapshotDeleted: ""},
	SnapshotCompleted: {snapshotDeleted: ""},
	SnapshotError:     {snapshotDeleted: ""},
}

// snapshotSet is what the driver is told of snapshots that are taken at one
// instant. It is there as long as one of them is.
type snapshotSet struct {
	SetId resource.Name // that of the first snapshot
	Parts []snapshotPart

	// Volumes and Sources are what the parts are taken of, until they are: for
	// so long a volume that is deleted stays, and a snapshot cannot be.
	Volumes []id.Volume `ref:"weak"`
	Sources []id.Snapshot

	// Vm is off while the snapshots are taken, and runs again after that. Off
	// says that it is.
	Vm  id.Vm `ref:"weak"`
	Off bool

	// Generation and ObservedGeneration are as in [network.Net].
	Generation, ObservedGeneration uint64
}

// snapshotPart is one of the snapshots and where its content is from.
type snapshotPart struct {
	SnapshotId id.Snapshot `ref:"weak"`
	Volume     id.Volume   `ref:"-"`
	Copied     id.Snapshot `ref:"-"`
	CopiedFrom id.Account  `ref:"-"` // the owner of what is copied
	Image      string      // as in [Snapshot]
	// which has the right to read the file in it; forgotten once it was read
	FileLocation resource.Secret
	Size         int // GiB
}

// Pending reports whether the driver is behind.
func (s *snapshotSet) Pending() bool { return s.ObservedGeneration < s.Generation }

// waits reports whether a VM is not off yet that shall be.
func (s *snapshotSet) waits() bool { return s.Vm != "" && !s.Off }

var snapshotSets = &resource.Kind[snapshotSet, resource.Name]{Name: "SnapshotSet"}

// isBeingTaken reports whether a snapshot of the volume is still being taken.
func isBeingTaken(tx *resource.Tx, volume id.Volume) bool {
	for range snapshotSets.Where(tx, "Volumes", string(volume)) {
		return true
	}
	return false
}

// isKeptOff reports whether a VM that runs is off while snapshots are taken.
func isKeptOff(tx *resource.Tx, vm id.Vm) bool {
	for range snapshotSets.Where(tx, "Vm", string(vm)) {
		return true
	}
	return false
}

// vmIsOff has the snapshots taken that wait for a VM to be off.
func vmIsOff(tx *resource.Tx, vm id.Vm) error {
	for s := range snapshotSets.Where(tx, "Vm", string(vm)) {
		s.Off = true
		if err := snapshotSets.Put(tx, s); err != nil {
			return err
		}
	}
	return nil
}

// letRun lets the VM run again: what is on its disks from now on is not in the
// snapshots.
func (s *snapshotSet) letRun(tx *resource.Tx) error {
	vm := s.Vm
	if vm == "" {
		return nil
	}
	s.Vm, s.Off = "", false
	if err := snapshotSets.Put(tx, s); err != nil {
		return err
	}
	return touchVm(tx, vm)
}

// taken lets go of what the snapshots of a set are taken of. A volume that only
// stayed for that goes.
func (s *snapshotSet) taken(tx *resource.Tx) error {
	if err := s.letRun(tx); err != nil {
		return err
	}
	volumes := s.Volumes
	s.Volumes, s.Sources = nil, nil
	if err := snapshotSets.Put(tx, s); err != nil {
		return err
	}
	for _, volume := range volumes {
		v, err := Volumes.Get(tx, volume)
		if err != nil {
			return err
		}
		if v.State == VolumeDeleting {
			v.Generation++ // which wakes its loop
			if err := Volumes.Put(tx, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sums implements [resource.Summed]: it counts the snapshot while it is being
// taken.
func (s *Snapshot) Sums() resource.Sums {
	return sumRunning(s.State != SnapshotInQueue && s.State != SnapshotPending)
}

// activeSnapshots is how many snapshots are being taken.
func activeSnapshots(tx *resource.Tx) int { return Snapshots.Sum(tx, running) }

func snapshotMeters() []resource.Meter {
	return []resource.Meter{resource.GlobalMeter("concurrent_snapshot_limit", activeSnapshots)}
}

func snapshotActions(region Region) []api.Action {
	r := api.NewResource(Snapshots, viewSnapshot)
	return []api.Action{
		api.Do("Snapshot", region.createSnapshot),
		api.Read[ReadSnapshotsRequest](r.Also(sharedSnapshots.others)),
		api.Reaching(api.Update(r, updateSnapshot), func(req *UpdateSnapshotRequest) []string {
			return sharedSnapshots.reached(req.PermissionsToCreateVolume)
		}),
		api.Delete[DeleteSnapshotRequest](r, forgetSnapshot),
	}
}

func viewSnapshot(tx *resource.Tx, s *Snapshot) *Snapshot {
	s.AccountId = id.Account(tx.Account())
	return s
}

// ReadSnapshotsRequest asks for snapshots: those of the account, then those of
// others that it may create volumes from.
type ReadSnapshotsRequest struct {
	Filters *FiltersSnapshot // Which snapshots to list; all of them if absent.
	api.Page
}

// FiltersSnapshot selects snapshots.
type FiltersSnapshot struct {
	AccountAliases []string     // The aliases of the owners.
	AccountIds     []id.Account // The account IDs of the owners.
	// The tokens that the creations were asked for with.
	ClientTokens []string
	Descriptions []string // The descriptions of the snapshots.
	// When the first of the snapshots was created, at the earliest.
	FromCreationDate *api.DateTime `path:"CreationDate" match:"from"`
	// The IDs of accounts that may create volumes from the snapshots.
	PermissionsToCreateVolumeAccountIds []id.Account
	// Whether everybody may create volumes from the snapshots.
	PermissionsToCreateVolumeGlobalPermission *bool
	// How much of the snapshots is done, in percent.
	Progresses  []int
	SnapshotIds []id.Snapshot   // The IDs of the snapshots.
	States      []SnapshotState // The states of the snapshots.
	// When the last of the snapshots was created, at the latest.
	ToCreationDate *api.DateTime `path:"CreationDate" match:"to"`
	VolumeIds      []id.Volume   // The IDs of the volumes.
	// The sizes of the volumes, in gibibytes (GiB).
	VolumeSizes []int
	api.TagFilters
}

// UpdateSnapshotRequest changes who may create volumes from a snapshot.
type UpdateSnapshotRequest struct {
	// The change: Additions or Removals. An account need not exist.
	PermissionsToCreateVolume PermissionsOnResourceCreation `api:"required"`
	// The ID of the snapshot.
	SnapshotId id.Snapshot `api:"required"`
}

func updateSnapshot(tx *resource.Tx, s *Snapshot, req *UpdateSnapshotRequest) error {
	to, err := req.PermissionsToCreateVolume.apply(s.PermissionsToCreateVolume)
	if err != nil {
		return apierror.In("PermissionsToCreateVolume", err)
	}
	return sharedSnapshots.permit(tx, s, to)
}

// DeleteSnapshotRequest deletes a snapshot that no image uses.
type DeleteSnapshotRequest struct {
	SnapshotId id.Snapshot `api:"required"` // The ID of the snapshot to delete.
}

// forgetSnapshot takes a snapshot away from its set, and from those whom it was
// shared with.
func forgetSnapshot(tx *resource.Tx, s *Snapshot) error {
	if err := sharedSnapshots.permit(tx, s, PermissionsOnResource{}); err != nil {
		return err
	}
	for set := range snapshotSets.Where(tx, "Parts.SnapshotId", string(s.SnapshotId)) {
		if err := set.leave(tx, s); err != nil {
			return err
		}
	}
	return nil
}

// leave takes a snapshot out of a set, and ends the set with its last one.
func (s *snapshotSet) leave(tx *resource.Tx, gone *Snapshot) error {
	var rest []snapshotPart
	for _, part := range s.Parts {
		if part.SnapshotId != gone.SnapshotId {
			rest = append(rest, part)
		}
	}
	if s.Parts = rest; len(rest) > 0 {
		s.Generation++
		return snapshotSets.Put(tx, s)
	}
	if err := s.taken(tx); err != nil {
		return err
	}
	return snapshotSets.Delete(tx, s)
}
