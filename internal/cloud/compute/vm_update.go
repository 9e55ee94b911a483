package compute

import (
	"cmp"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// UpdateVmRequest changes a VM. Its type, performance, user data and nested
// virtualization are changed while it is stopped, everything else at any time.
type UpdateVmRequest struct {
	// What is to be done once, when the VM is started next.
	ActionsOnNextBoot *ActionsOnNextBoot
	// Changes of the links of its volumes.
	BlockDeviceMappings []BlockDeviceMappingVmUpdate
	// Not available, and there for clients that were written for AWS.
	BsuOptimized *bool
	// Whether the VM cannot be deleted.
	DeletionProtection *bool
	// Whether the primary NIC only receives and sends packets that are addressed to or by it,
	// in a Net.
	IsSourceDestChecked *bool
	// The name of another keypair for the metadata of the VM. What its guest made of the first
	// one stays.
	KeypairName string
	// Whether VMs can run in the VM, for dedicated tenancies only.
	NestedVirtualization *bool
	// How much of its vCores the VM gets, unless its type says so.
	Performance Performance
	// The IDs of the new security groups of the primary NIC.
	SecurityGroupIds []id.SecurityGroup
	// What happens when the VM stops by itself or its host fails.
	ShutdownBehaviorConfiguration *ShutdownBehaviorConfiguration
	// The user data of the VM, in Base64: at most 500 KiB.
	UserData *UserData
	// The ID of the VM.
	VmId                        id.Vm            `api:"required"`
	VmInitiatedShutdownBehavior ShutdownBehavior // What happens when the VM stops.
	VmType                      string           // Another type for the VM.
}

// BlockDeviceMappingVmUpdate is a change of the link of a volume.
type BlockDeviceMappingVmUpdate struct {
	Bsu *BsuToUpdateVm // The change.
	// The name of the device. It is required unless the ID of the volume is given.
	DeviceName        string
	NoDevice          *string // Not available: see UnlinkVolume.
	VirtualDeviceName string  // Not available: no VM has ephemeral devices.
}

// BsuToUpdateVm is a change of the link of a volume.
type BsuToUpdateVm struct {
	DeleteOnVmDeletion *bool     // Whether the volume is deleted when the VM is.
	VolumeId           id.Volume // The ID of the volume.
}

func (region Region) updateVm(tx *resource.Tx, v *Vm, req *UpdateVmRequest) error {
	if err := req.check(v); err != nil {
		return err
	}
	if err := region.resize(tx, v, req); err != nil {
		return err
	}
	oldText := v.UserTextId
	if err := v.setOptions(tx, req); err != nil {
		return err
	}
	v.Generation++
	if err := Vms.Put(tx, v); err != nil {
		return err
	}
	if err := releaseUserText(tx, oldText); err != nil {
		return err
	}
	for _, m := range req.BlockDeviceMappings {
		if err := m.apply(tx, v.VmId); err != nil {
			return err
		}
	}
	return v.updateNic(tx, req)
}

// check refuses what cannot be changed in the state of the VM.
func (req *UpdateVmRequest) check(v *Vm) error {
	if v.State == VmShuttingDown {
		return apierror.InvalidState.Errorf("The VM %s is %s.", v.VmId, v.State)
	}
	refuse := func(name string, given bool) error {
		if given && v.State != VmStopped {
			return apierror.InvalidState.Errorf("The VM %s is %s. %s can be changed while it is stopped.", v.VmId, v.State, name)
		}
		return nil
	}
	if err := cmp.Or(
		refuse("NestedVirtualization", req.NestedVirtualization != nil), refuse("Performance", req.Performance != ""),
		refuse("UserData", req.UserData != nil), refuse("VmType", req.VmType != ""),
	); err != nil {
		return err
	}
	if req.BsuOptimized != nil && *req.BsuOptimized {
		return apierror.InvalidConfiguration.Errorf("BsuOptimized is not available.")
	}
	return nil
}

// setOptions sets the options that a request gives, but for the size. The caller
// writes the VM.
func (v *Vm) setOptions(tx *resource.Tx, req *UpdateVmRequest) error {
	if err := v.setKeypair(tx, req.KeypairName); err != nil {
		return err
	}
	if err := v.setShutdown(req.VmInitiatedShutdownBehavior, req.ShutdownBehaviorConfiguration); err != nil {
		return err
	}
	if err := v.setNextBoot(req.ActionsOnNextBoot); err != nil {
		return err
	}
	if req.DeletionProtection != nil {
		v.DeletionProtection = *req.DeletionProtection
	}
	if req.UserData == nil {
		return nil
	}
	return v.setUserData(tx, *req.UserData)
}

// resize changes what the VM has of its host.
func (region Region) resize(tx *resource.Tx, v *Vm, req *UpdateVmRequest) error {
	if req.NestedVirtualization != nil {
		v.NestedVirtualization = *req.NestedVirtualization
	}
	if err := v.checkNested(); err != nil {
		return err
	}
	if req.VmType == "" && req.Performance == "" {
		return nil
	}
	before, name, performance := *v, v.VmType, v.Performance
	if req.VmType != "" {
		name = req.VmType
	}
	if req.Performance != "" {
		performance = req.Performance
	}
	if err := region.setType(v, name, performance); err != nil {
		return err
	}
	if err := fleetOf(tx).grow(tx, v.Vcores-before.Vcores, v.Memory-before.Memory); err != nil {
		return err
	}
	if err := v.joinDedicatedGroup(tx); err != nil {
		return err
	}
	for g := range FlexibleGpus.Of(tx, v.VmId) {
		if err := g.fits(v); err != nil {
			return err
		}
	}
	return nil
}

// apply changes the link of a volume of a VM.
func (m *BlockDeviceMappingVmUpdate) apply(tx *resource.Tx, vm id.Vm) error {
	switch {
	case m.NoDevice != nil || m.VirtualDeviceName != "":
		return apierror.InvalidMappings.Errorf("NoDevice and VirtualDeviceName cannot be given for an existing VM.")
	case m.Bsu == nil:
		return apierror.MissingParameter.Errorf("BlockDeviceMappings.Bsu is required.")
	}
	device, err := m.device(tx, vm)
	if err != nil || m.Bsu.DeleteOnVmDeletion == nil {
		return err
	}
	return setDeleteOnVmDeletion(tx, vm, device, *m.Bsu.DeleteOnVmDeletion)
}

// device returns the name of the device that the mapping names, by its volume or
// directly.
func (m *BlockDeviceMappingVmUpdate) device(tx *resource.Tx, vm id.Vm) (string, error) {
	if m.Bsu.VolumeId == "" {
		if m.DeviceName == "" {
			return "", apierror.MissingParameter.Errorf("BlockDeviceMappings.DeviceName or BlockDeviceMappings.Bsu.VolumeId is required.")
		}
		return m.DeviceName, nil
	}
	volume, err := Volumes.Get(tx, m.Bsu.VolumeId)
	if err != nil {
		return "", err
	}
	if len(volume.LinkedVolumes) == 0 || volume.LinkedVolumes[0].VmId != vm {
		return "", apierror.VolumeDeviceMismatch.Errorf("The volume %s is not linked to the VM %s.", m.Bsu.VolumeId, vm)
	}
	device := volume.LinkedVolumes[0].DeviceName
	if m.DeviceName != "" && m.DeviceName != device {
		return "", apierror.VolumeDeviceMismatch.Errorf(
			"The DeviceName '%.100s' is not the one of the volume %s, which is linked as %s.", m.DeviceName, m.Bsu.VolumeId, device)
	}
	return device, nil
}

// updateNic changes the primary NIC.
func (v *Vm) updateNic(tx *resource.Tx, req *UpdateVmRequest) error {
	if req.IsSourceDestChecked == nil && len(req.SecurityGroupIds) == 0 {
		return nil
	}
	n, err := v.primaryNic(tx)
	if err != nil {
		return err
	}
	if req.IsSourceDestChecked != nil {
		if n.NetId == "" {
			return apierror.VmNotInNet.Errorf("IsSourceDestChecked can be changed for VMs in a Net, and %s is in the public Cloud.", v.VmId)
		}
		if err := n.CheckSource(tx, *req.IsSourceDestChecked); err != nil {
			return err
		}
	}
	if len(req.SecurityGroupIds) == 0 {
		return nil
	}
	return n.SetSecurityGroups(tx, req.SecurityGroupIds)
}
