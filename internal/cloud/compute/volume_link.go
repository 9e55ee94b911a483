package compute

import (
	"regexp"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VolumeLinkState is the state of the link between a volume and a VM.
type VolumeLinkState string

// The states of a link.
const (
	VolumeAttaching VolumeLinkState = "attaching"
	VolumeAttached  VolumeLinkState = "attached"
	VolumeDetaching VolumeLinkState = "detaching"
)

// Literals implements [api.Enum].
func (VolumeLinkState) Literals() []string {
	return []string{"attaching", "detaching", "attached", "detached"}
}

// The events of a link.
const (
	linkCreated  lifecycle.Event[VolumeLinkState] = "created"
	linkAttached lifecycle.Event[VolumeLinkState] = "attached"
	linkDetached lifecycle.Event[VolumeLinkState] = "detached"
	linkUndone   lifecycle.Event[VolumeLinkState] = "unlinked"
	linkForced   lifecycle.Event[VolumeLinkState] = "unlinked by force"
	linkEnded    lifecycle.Event[VolumeLinkState] = "ended with its VM"
)

// volumeLinkLife is the life of a link. A link that was undone is gone.
var volumeLinkLife = lifecycle.Table[VolumeLinkState]{
	"":              {linkCreated: VolumeAttaching},
	VolumeAttaching: {linkAttached: VolumeAttached, linkUndone: VolumeDetaching, linkForced: "", linkEnded: ""},
	VolumeAttached:  {linkUndone: VolumeDetaching, linkForced: "", linkEnded: ""},
	VolumeDetaching: {linkDetached: "", linkForced: "", linkEnded: ""},
}

// DeviceName is the name of a disk in a VM: `/dev/sda1` for the root device, and
// `/dev/sdX`, `/dev/sdXX`, `/dev/xvdX` or `/dev/xvdXX` for any other, where the
// first X is a letter from b to z and the second one from a to z.
type DeviceName string

// RootDevice is the name of the disk that a VM boots from.
const RootDevice DeviceName = "/dev/sda1"

var deviceNames = regexp.MustCompile(`^/dev/(sda1|(sd|xvd)[b-z][a-z]?)$`)

// Check reports a text that no disk can be called.
func (n DeviceName) Check() error {
	if !deviceNames.MatchString(string(n)) {
		return apierror.InvalidDeviceName.Errorf("'%.100s' is not /dev/sda1, /dev/sdb to /dev/sdzz, or /dev/xvdb to /dev/xvdzz.", string(n))
	}
	return nil
}

// maxVolumes is how many volumes a VM can have, its root device included, as
// the user guide says.
const maxVolumes = 40

// LinkVolumeRequest links a volume to a VM.
type LinkVolumeRequest struct {
	// The name of the device in the VM, which no other volume of the VM has.
	DeviceName DeviceName `api:"required"`
	// The ID of the VM, running or stopped, in the Subregion of the volume.
	VmId     id.Vm     `api:"required"`
	VolumeId id.Volume `api:"required"` // The ID of the volume, which is linked to no VM.
}

func linkVolume(tx *resource.Tx, req *LinkVolumeRequest) error {
	vm, err := Vms.Get(tx, req.VmId) // which is missed first, if both are absent
	if err != nil {
		return err
	}
	v, err := Volumes.Get(tx, req.VolumeId)
	if err != nil {
		return err
	}
	if !resource.Allows(Volumes, v, volumeLinked) {
		return apierror.InvalidState.Errorf("The volume %s is %s, not available.", v.VolumeId, v.State)
	}
	if vm.State != VmRunning && vm.State != VmStopped {
		return apierror.InvalidVmState.Errorf("The VM %s is %s, neither running nor stopped.", vm.VmId, vm.State)
	}
	if req.DeviceName == RootDevice && vm.State != VmStopped {
		return apierror.InvalidVmState.Errorf("The VM %s is %s: its root device is changed while it is stopped.", vm.VmId, vm.State)
	}
	if err := v.checkLink(tx, vm, req.DeviceName); err != nil {
		return err
	}
	v.linkTo(tx, vm.VmId, req.DeviceName, false)
	if err := resource.Transition(tx, Volumes, v, volumeLinked); err != nil {
		return err
	}
	return touchVm(tx, vm.VmId)
}

// checkLink refuses to link a volume to a VM, by a device.
func (v *Volume) checkLink(tx *resource.Tx, vm *Vm, device DeviceName) error {
	if v.SubregionName != vm.Placement.SubregionName {
		return apierror.SubregionMismatch.Errorf(
			"The volume %s is in %s, and the VM %s in %s.", v.VolumeId, v.SubregionName, vm.VmId, vm.Placement.SubregionName)
	}
	others := 0
	for other := range Volumes.Of(tx, vm.VmId) {
		if name := other.LinkedVolumes[0].DeviceName; name == string(device) {
			return apierror.DeviceNameTaken.Errorf("The DeviceName %s is used by the volume %s in the VM %s.", name, other.VolumeId, vm.VmId)
		}
		if others++; others == maxVolumes {
			return apierror.TooManyVolumes.Errorf("The VM %s has %d volumes, as many as it can have.", vm.VmId, others)
		}
	}
	return nil
}

// linkTo links a volume to a VM. The caller writes it.
func (v *Volume) linkTo(tx *resource.Tx, vm id.Vm, device DeviceName, deleteWithVm bool) {
	link := LinkedVolume{DeleteOnVmDeletion: deleteWithVm, DeviceName: string(device), VmId: vm, LinkDate: api.At(tx.Now())}
	resource.Advance(tx, volumeLinkLife, &link.State, linkCreated)
	v.LinkedVolumes = []LinkedVolume{link}
}

// touchVm raises the generation of a VM, so that its loop looks at it.
func touchVm(tx *resource.Tx, vmID id.Vm) error {
	vm, err := Vms.Get(tx, vmID)
	if err != nil {
		return err
	}
	vm.Generation++
	return Vms.Put(tx, vm)
}

// UnlinkVolumeRequest takes a volume away from its VM.
type UnlinkVolumeRequest struct {
	// Whether to take it away without waiting for the VM to let it go. What the VM has not
	// written yet is lost.
	ForceUnlink bool
	// The ID of the volume. That of a root device goes only while the VM is stopped.
	VolumeId id.Volume `api:"required"`
}

func unlinkVolume(tx *resource.Tx, req *UnlinkVolumeRequest) error {
	v, err := Volumes.Get(tx, req.VolumeId)
	if err != nil {
		return err
	}
	if len(v.LinkedVolumes) == 0 {
		return apierror.VolumeNotLinked.Errorf("The volume %s is linked to no VM.", v.VolumeId)
	}
	link := v.LinkedVolumes[0]
	vm, err := Vms.Get(tx, link.VmId)
	if err != nil {
		return err
	}
	isRoot := link.DeviceName == vm.RootDeviceName || link.DeviceName == string(RootDevice)
	event := linkUndone
	if req.ForceUnlink {
		event = linkForced
	}
	_, allowed := volumeLinkLife.Next(link.State, event)
	switch {
	case isRoot && vm.State != VmStopped:
		return apierror.InvalidVmState.Errorf(
			"The volume %s is the root device of the VM %s, which is %s, not stopped.", v.VolumeId, vm.VmId, vm.State)
	case !resource.Allows(Volumes, v, volumeUnlinked):
		return apierror.InvalidState.Errorf("The volume %s is %s, not in-use.", v.VolumeId, v.State)
	case !allowed:
		return apierror.InvalidState.Errorf("The volume %s is %s from the VM %s already.", v.VolumeId, link.State, vm.VmId)
	}
	if err := v.advanceLink(tx, event); err != nil {
		return err
	}
	return touchVm(tx, vm.VmId)
}

// advanceLink lets an event happen to the link of a volume, if the state of the
// link allows it. A volume whose link ends is free again; one that is not made yet
// will be.
func (v *Volume) advanceLink(tx *resource.Tx, event lifecycle.Event[VolumeLinkState]) error {
	link := v.LinkedVolumes[0]
	if !resource.Advance(tx, volumeLinkLife, &link.State, event) {
		return nil
	}
	if link.State != "" {
		v.LinkedVolumes = []LinkedVolume{link}
		return Volumes.Put(tx, v)
	}
	v.LinkedVolumes = nil
	if unlinked, err := resource.Try(tx, Volumes, v, volumeUnlinked); unlinked || err != nil {
		return err
	}
	return Volumes.Put(tx, v)
}

// setDeleteOnVmDeletion says whether the volume on a device of a VM is deleted
// when the VM is.
func setDeleteOnVmDeletion(tx *resource.Tx, vm id.Vm, device string, deleteWithVm bool) error {
	for v := range Volumes.Of(tx, vm) {
		link := v.LinkedVolumes[0]
		if link.DeviceName == device {
			link.DeleteOnVmDeletion = deleteWithVm
			v.LinkedVolumes = []LinkedVolume{link}
			return Volumes.Put(tx, v)
		}
	}
	return apierror.DeviceNameNotLinked.Errorf("The VM %s has no volume on the device '%.100s'.", vm, device)
}

// leaveVm frees the volumes of a VM that its driver has removed, or deletes them
// if they say so.
func leaveVm(tx *resource.Tx, vm id.Vm) error {
	for v := range Volumes.Of(tx, vm) {
		var err error
		if link := v.LinkedVolumes[0]; link.DeleteOnVmDeletion {
			resource.Advance(tx, volumeLinkLife, &link.State, linkEnded)
			err = v.remove(tx, volumeDeletedWithVm)
		} else {
			err = v.advanceLink(tx, linkEnded)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wantedDisks are the disks that a machine should have, the one to boot from
// first. ready is false while one of them is not made yet: the VM hears of it
// when it is.
func wantedDisks(tx *resource.Tx, vm *Vm) (disks []driver.MachineDisk, ready bool) {
	ready = true
	for v := range volumesOf(tx, vm.VmId) {
		link := v.LinkedVolumes[0]
		ready = ready && v.State != VolumeCreating && v.State != VolumeError
		if link.State == VolumeDetaching {
			continue
		}
		disk := driver.MachineDisk{Disk: string(v.VolumeId), Device: link.DeviceName}
		if disk.Device == vm.RootDeviceName {
			disks = append([]driver.MachineDisk{disk}, disks...)
		} else {
			disks = append(disks, disk)
		}
	}
	return disks, ready
}

// disksLinked notes that the driver has the disks of a machine as given. What
// became of the links since the driver was asked stays as it is.
func disksLinked(tx *resource.Tx, vm id.Vm, has []driver.MachineDisk) error {
	linked := map[driver.MachineDisk]bool{}
	for _, d := range has {
		linked[d] = true
	}
	for v := range Volumes.Of(tx, vm) {
		link := v.LinkedVolumes[0]
		event := linkDetached
		if linked[driver.MachineDisk{Disk: string(v.VolumeId), Device: link.DeviceName}] {
			event = linkAttached
		}
		if err := v.advanceLink(tx, event); err != nil {
			return err
		}
	}
	return nil
}
