package compute

import (
	"iter"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Volume is a disk that VMs can use one at a time.
type Volume struct {
	ClientToken  string       `wire:"omitempty"` // The token that the creation was asked for with.
	CreationDate api.DateTime // When the volume was created.
	// The number of operations per second that the volume can do; absent from
	// `standard` volumes.
	Iops          int            `wire:"omitempty"`
	LinkedVolumes []LinkedVolume // The VM that the volume is linked to; none if it is not.
	Size          int            // The size of the volume, in gibibytes (GiB).
	// The ID of the snapshot that the volume was made from.
	SnapshotId    id.Snapshot         `ref:"-"`
	State         VolumeState         // The state of the volume.
	SubregionName string              // The name of the Subregion that the volume is in.
	Tags          []api.Tag           // The tags of the volume.
	TaskId        id.VolumeUpdateTask `ref:"-"` // The ID of the update under way.
	VolumeId      id.Volume           // The ID of the volume.
	VolumeType    VolumeType          // The type of the volume.

	// SnapshotAccountId is the owner of the snapshot.
	SnapshotAccountId id.Account `wire:"-" ref:"-"`
	// MadeFrom is the snapshot, if it is the account's own, until the volume is
	// made: for so long it cannot be deleted.
	MadeFrom id.Snapshot `wire:"-"`
	// Image is the name of the content of an image of the region's own that the
	// volume is made from instead.
	Image string `wire:"-"`
	// Target is what the update under way leads to.
	Target *VolumeUpdateParameters `wire:"-"`
	// Asked is the digest of the request, if it had a client token.
	Asked string `wire:"-"`
	// DeletedAt is when the volume was deleted, if it was.
	DeletedAt api.DateTime `wire:"-"`
	// Generation and ObservedGeneration are as in [network.Net].
	Generation         uint64 `wire:"-"`
	ObservedGeneration uint64 `wire:"-"`
}

// Pending reports whether the driver is behind.
func (v *Volume) Pending() bool { return v.ObservedGeneration < v.Generation }

// Sums implements [resource.Summed]: the size of the volume in GiB, by its type,
// and its operations per second; of one that is being deleted, nothing.
func (v *Volume) Sums() resource.Sums {
	p := v.wanted()
	of := func(t VolumeType, n int) int64 {
		if p.VolumeType != t || v.State == VolumeDeleting {
			return 0
		}
		return int64(n)
	}
	return resource.Sums{
		{Name: string(VolumeStandard), N: of(VolumeStandard, p.Size)},
		{Name: string(VolumeGp2), N: of(VolumeGp2, p.Size)},
		{Name: string(VolumeIo1), N: of(VolumeIo1, p.Size)},
		{Name: volumeIops, N: of(VolumeIo1, p.Iops)},
	}
}

// volumeIops is the name of the sum of the operations per second of io1 volumes.
const volumeIops = "iops"

// parameters are what an update can change, as they are.
func (v *Volume) parameters() VolumeUpdateParameters {
	return VolumeUpdateParameters{Iops: v.Iops, Size: v.Size, VolumeType: v.VolumeType}
}

// wanted are what an update can change, as they are or will be.
func (v *Volume) wanted() VolumeUpdateParameters {
	if v.Target != nil {
		return *v.Target
	}
	return v.parameters()
}

// LinkedVolume is the link between a volume and a VM.
type LinkedVolume struct {
	DeleteOnVmDeletion bool            // Whether the volume is deleted when the VM is.
	DeviceName         string          // The name of the device in the VM.
	State              VolumeLinkState // The state of the link.
	VmId               id.Vm           `ref:"weak"`       // The ID of the VM.
	VolumeId           id.Volume       `json:"-" ref:"-"` // The ID of the volume.

	LinkDate api.DateTime `wire:"-"` // when it was linked
}

// Volumes are the volumes of the region.
var Volumes = &resource.Kind[Volume, id.Volume]{
	Name:     "Volume",
	Tag:      "volume",
	NotFound: apierror.VolumeNotFound,
	InUse:    apierror.InUse,
	Quota:    &resource.Quota{Name: "volume_limit", Code: apierror.TooManyVolumes},
	Unique:   []string{"ClientToken"},
	Conflict: apierror.AlreadyExists,
	Life:     volumeLife,
}

// VolumeType is the type of a volume.
type VolumeType string

// The types of volumes.
const (
	VolumeStandard VolumeType = "standard"
	VolumeGp2      VolumeType = "gp2"
	VolumeIo1      VolumeType = "io1"
)

// Literals implements [api.Enum].
func (VolumeType) Literals() []string { return []string{"standard", "gp2", "io1"} }

// VolumeState is the state of a volume.
type VolumeState string

// The states of a volume.
const (
	VolumeCreating  VolumeState = "creating"
	VolumeAvailable VolumeState = "available"
	VolumeInUse     VolumeState = "in-use"
	VolumeDeleting  VolumeState = "deleting"
	VolumeError     VolumeState = "error"
)

// Literals implements [api.Enum].
func (VolumeState) Literals() []string {
	return []string{"creating", "available", "in-use", "deleting", "error"}
}

// The events of a volume.
const (
	volumeCreated       lifecycle.Event[VolumeState] = "created"
	volumeMade          lifecycle.Event[VolumeState] = "made"
	VolumeMadeForVm     lifecycle.Event[VolumeState] = "made for a VM"
	volumeFailed        lifecycle.Event[VolumeState] = "failed"
	volumeLinked        lifecycle.Event[VolumeState] = "linked"
	volumeUnlinked      lifecycle.Event[VolumeState] = "unlinked"
	volumeDeleted       lifecycle.Event[VolumeState] = "deleted"
	volumeDeletedWithVm lifecycle.Event[VolumeState] = "deleted with its VM"
	volumeRemoved       lifecycle.Event[VolumeState] = "removed"
)

// volumeLife is the life of a volume. One that a snapshot is still being taken
// of is deleting until the snapshot has what it needs; any other for a moment.
var volumeLife = lifecycle.Table[VolumeState]{
	"": {volumeCreated: VolumeCreating},
	VolumeCreating: {volumeMade: VolumeAvailable, VolumeMadeForVm: VolumeInUse, volumeFailed: VolumeError,
		volumeDeletedWithVm: VolumeDeleting},
	VolumeAvailable: {volumeLinked: VolumeInUse, volumeDeleted: VolumeDeleting},
	VolumeInUse:     {volumeUnlinked: VolumeAvailable, volumeDeletedWithVm: VolumeDeleting},
	VolumeDeleting:  {volumeRemoved: ""},
	VolumeError:     {volumeDeleted: VolumeDeleting, volumeDeletedWithVm: VolumeDeleting},
}

func volumeActions(region Region) []api.Action {
	r := api.NewResource(Volumes, viewVolume)
	return slices.Concat([]api.Action{
		api.Do("Volume", region.createVolume),
		api.Read[ReadVolumesRequest](r),
		api.Update(r, updateVolume),
		api.Command("Volume", deleteVolume),
		api.Command("Volume", linkVolume),
		api.Command("Volume", unlinkVolume),
	}, volumeUpdateTaskActions())
}

func viewVolume(_ *resource.Tx, v *Volume) *Volume {
	if v.VolumeType == VolumeStandard {
		v.Iops = 0
	}
	v.LinkedVolumes = slices.Clone(v.LinkedVolumes)
	for i := range v.LinkedVolumes {
		v.LinkedVolumes[i].VolumeId = v.VolumeId
	}
	return v
}

// CreateVolumeRequest asks for a volume, empty or with what a snapshot has.
type CreateVolumeRequest struct {
	// A text of your choice, of at most 64 characters. A second call with the same text makes
	// no second volume, as long as the first one is there.
	ClientToken ClientToken
	// The number of operations per second, for `io1` only, which needs it: from 100 to 13000,
	// and at most 300 for each gibibyte.
	Iops int
	// The size of the volume, in gibibytes (GiB): from 1, or 4 for `io1`, to 14901. By default,
	// that of the snapshot; an empty volume needs it.
	Size int
	// The ID of the snapshot that the volume is made from, which may be smaller. By default,
	// the volume is empty.
	SnapshotId    id.Snapshot
	SubregionName string     `api:"required"` // The name of the Subregion to create the volume in.
	VolumeType    VolumeType // The type of the volume. By default, `standard`.
}

// CreateVolumeResponse shows the volume.
type CreateVolumeResponse struct{ Volume *Volume }

func (region Region) createVolume(tx *resource.Tx, req *CreateVolumeRequest) (*CreateVolumeResponse, error) {
	if req.ClientToken != "" {
		for v := range Volumes.Where(tx, "ClientToken", string(req.ClientToken)) {
			return &CreateVolumeResponse{viewVolume(tx, v)}, req.ClientToken.checkRepeated(req, v.Asked)
		}
	}
	v, err := region.planVolume(tx, newVolume{
		Iops: req.Iops, Size: req.Size, SnapshotId: req.SnapshotId, SubregionName: req.SubregionName, VolumeType: req.VolumeType,
	})
	if err != nil {
		return nil, err
	}
	if req.ClientToken != "" {
		v.ClientToken, v.Asked = string(req.ClientToken), digest(req)
	}
	used := storageOf(tx)
	if err := used.insert(tx, v); err != nil {
		return nil, err
	}
	return &CreateVolumeResponse{viewVolume(tx, v)}, nil
}

// newVolume says what a new volume shall be like. What is zero is chosen.
type newVolume struct {
	Iops, Size int
	SnapshotId id.Snapshot
	// the account that has the snapshot, if it comes with an image that may be used; empty: it
	// is the account's own, or shared
	SnapshotOwner string
	SubregionName string
	VolumeType    VolumeType
}

// planVolume is a volume that may be made like that. [storage.insert] makes it.
func (region Region) planVolume(tx *resource.Tx, n newVolume) (*Volume, error) {
	if err := region.checkSubregion(n.SubregionName); err != nil {
		return nil, err
	}
	v := &Volume{
		CreationDate: api.At(tx.Now()), Iops: n.Iops, Size: n.Size, SnapshotId: n.SnapshotId,
		SubregionName: n.SubregionName, VolumeType: n.VolumeType, Generation: 1,
	}
	if v.VolumeType == "" {
		v.VolumeType = VolumeStandard
	}
	if n.SnapshotId != "" {
		if err := v.setSnapshot(tx, n); err != nil {
			return nil, err
		}
	}
	if v.Size == 0 {
		return nil, apierror.MissingParameter.Errorf("Size is required unless the volume is created from a snapshot.")
	}
	p := v.parameters()
	if err := p.complete(); err != nil {
		return nil, err
	}
	v.Iops = p.Iops
	return v, nil
}

// setSnapshot creates the volume from a snapshot, whose size is its minimum.
func (v *Volume) setSnapshot(tx *resource.Tx, n newVolume) error {
	owner, s, err := n.snapshot(tx)
	if err != nil {
		return err
	}
	if s.State != SnapshotCompleted {
		return apierror.InvalidState.Errorf("The snapshot %s is %s, not completed.", s.SnapshotId, s.State)
	}
	v.SnapshotAccountId, v.Image = id.Account(owner.Account()), s.Image
	if owner.Account() == tx.Account() {
		v.MadeFrom = s.SnapshotId
	}
	if v.Size == 0 {
		v.Size = s.VolumeSize
	}
	if v.Size < s.VolumeSize {
		return apierror.VolumeTooSmall.Errorf("The Size (%d) is less than the size of the snapshot %s (%d).", v.Size, n.SnapshotId, s.VolumeSize)
	}
	return nil
}

// snapshot finds the snapshot, and the transaction over the account that has it.
func (n newVolume) snapshot(tx *resource.Tx) (*resource.Tx, *Snapshot, error) {
	if n.SnapshotOwner == "" {
		return sharedSnapshots.find(tx, n.SnapshotId)
	}
	owner := tx.In(n.SnapshotOwner)
	s, err := Snapshots.Get(owner, n.SnapshotId)
	return owner, s, err
}

// The bounds of volumes. Source: the published descriptions; AWS for the least
// size of io1, which clients agree with.
const (
	maxVolumeSize        = 14901 // GiB
	minIops, maxIops     = 100, 13000
	maxIopsPerGib        = 300
	standardIops, gpIops = 150, 100
)

// minVolumeSize is the least size of volumes of a type, in GiB.
func minVolumeSize(t VolumeType) int {
	if t == VolumeIo1 {
		return 4
	}
	return 1
}

// complete checks what a volume shall be and fills in the operations per second
// of a type that has no choice.
func (p *VolumeUpdateParameters) complete() error {
	if low := minVolumeSize(p.VolumeType); p.Size < low || p.Size > maxVolumeSize {
		return apierror.InvalidVolumeSize.Errorf(
			"The Size is %d GiB. It must be between %d and %d GiB for %s volumes.", p.Size, low, maxVolumeSize, p.VolumeType)
	}
	if p.VolumeType != VolumeIo1 {
		if p.Iops != 0 {
			return apierror.InvalidParameter.Errorf("Iops can be given for io1 volumes, and the VolumeType is %s.", p.VolumeType)
		}
		p.Iops = standardIops
		if p.VolumeType == VolumeGp2 {
			p.Iops = gpIops
		}
		return nil
	}
	switch {
	case p.Iops == 0:
		return apierror.MissingParameter.Errorf("Iops is required for io1 volumes.")
	case p.Iops < minIops || p.Iops > maxIops:
		return apierror.InvalidIops.Errorf("The Iops %d are not between %d and %d.", p.Iops, minIops, maxIops)
	case p.Iops > maxIopsPerGib*p.Size:
		return apierror.InvalidIopsRatio.Errorf("The Iops %d are more than %d for each of %d GiB.", p.Iops, maxIopsPerGib, p.Size)
	}
	return nil
}

// ReadVolumesRequest asks for volumes.
type ReadVolumesRequest struct {
	Filters *FiltersVolume // Which volumes to list; all of them if absent.
	api.Page
}

// FiltersVolume selects volumes.
type FiltersVolume struct {
	// The tokens that the creations were asked for with.
	ClientTokens  []string
	CreationDates []api.DateTime // When the volumes were created.
	// Whether the volumes are deleted when their VMs are.
	LinkVolumeDeleteOnVmDeletion *bool `path:"LinkedVolumes.DeleteOnVmDeletion"`
	// The names of the devices in the VMs.
	LinkVolumeDeviceNames []string `path:"LinkedVolumes.DeviceName"`
	// When the volumes were linked.
	LinkVolumeLinkDates []api.DateTime `path:"LinkedVolumes.LinkDate"`
	// The states of the links.
	LinkVolumeLinkStates []VolumeLinkState `path:"LinkedVolumes.State"`
	// The IDs of the VMs that the volumes are linked to.
	LinkVolumeVmIds []id.Vm `path:"LinkedVolumes.VmId"`
	// The IDs of the snapshots that the volumes were made from.
	SnapshotIds []id.Snapshot
	// The names of the Subregions that the volumes are in.
	SubregionNames []string
	VolumeIds      []id.Volume // The IDs of the volumes.
	// The sizes of the volumes, in gibibytes (GiB).
	VolumeSizes  []int         `path:"Size"`
	VolumeStates []VolumeState `path:"State"` // The states of the volumes.
	VolumeTypes  []VolumeType  // The types of the volumes.
	api.TagFilters
}

// DeleteVolumeRequest deletes a volume that is linked to no VM.
type DeleteVolumeRequest struct {
	VolumeId id.Volume `api:"required"` // The ID of the volume to delete.
}

func deleteVolume(tx *resource.Tx, req *DeleteVolumeRequest) error {
	v, err := Volumes.Get(tx, req.VolumeId)
	if err != nil {
		return err
	}
	for _, link := range v.LinkedVolumes {
		return apierror.InvalidState.Errorf("The volume %s is linked to the VM %s.", v.VolumeId, link.VmId)
	}
	if !resource.Allows(Volumes, v, volumeDeleted) {
		return apierror.InvalidState.Errorf("The volume %s is %s, not available.", v.VolumeId, v.State)
	}
	return v.remove(tx, volumeDeleted)
}

// remove deletes a volume, by itself or with its VM. Its loop ends it. Its client
// token can be used again at once, and its snapshot can be deleted.
func (v *Volume) remove(tx *resource.Tx, event lifecycle.Event[VolumeState]) error {
	if err := v.endUpdate(tx, updateCanceled, ""); err != nil {
		return err
	}
	v.LinkedVolumes, v.ClientToken, v.MadeFrom = nil, "", ""
	v.DeletedAt = api.At(tx.Now())
	v.Generation++
	return resource.Transition(tx, Volumes, v, event)
}

// volumesOf yields the volumes that are linked to a VM, in the order of their
// links.
func volumesOf(tx *resource.Tx, vm id.Vm) iter.Seq[*Volume] {
	volumes := slices.Collect(Volumes.Where(tx, "LinkedVolumes.VmId", string(vm)))
	slices.SortStableFunc(volumes, func(a, b *Volume) int { return int(a.LinkedVolumes[0].LinkDate - b.LinkedVolumes[0].LinkDate) })
	return slices.Values(volumes)
}
