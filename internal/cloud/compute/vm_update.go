package compute

import (
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
	// The IDs of the security groups that the primary NIC shall be in.
	SecurityGroupIds []id.SecurityGroup
	// What happens when the VM stops by itself or its host fails.
	ShutdownBehaviorConfiguration *ShutdownBehaviorConfiguration
	// What the VM is told, in Base64, of which there are at most 500 KiB.
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
	if v.State == VmShuttingDown {
		return apierror.InvalidState.Errorf("The VM %s is %s.", v.VmId, v.State)
	}
	for _, p := range []struct {
		name  string
		given bool
	}{
		{"NestedVirtualization", req.NestedVirtualization != nil},
		{"Performance", req.Performance != ""},
		{"UserData", req.UserData != nil},
		{"VmType", req.VmType != ""},
	} {
		if p.given && v.State != VmStopped {
			return apierror.InvalidState.Errorf("The VM %s is %s: %s is changed while it is stopped.", v.VmId, v.State, p.name)
		}
	}
	if req.BsuOptimized != nil && *req.BsuOptimized {
		return apierror.InvalidConfiguration.Errorf("BsuOptimized is not available.")
	}
	if err := region.resize(tx, v, req); err != nil {
		return err
	}
	if err := v.setKeypair(tx, req.KeypairName); err != nil {
		return err
	}
	if err := v.setShutdown(req.VmInitiatedShutdownBehavior, req.ShutdownBehaviorConfiguration); err != nil {
		return err
	}
	if err := v.setNextBoot(req.ActionsOnNextBoot); err != nil {
		return err
	}
	text := v.UserTextId
	if req.UserData != nil {
		if err := v.setUserData(tx, *req.UserData); err != nil {
			return err
		}
	}
	if req.DeletionProtection != nil {
		v.DeletionProtection = *req.DeletionProtection
	}
	v.Generation++
	if err := Vms.Put(tx, v); err != nil {
		return err
	}
	if err := letGoOf(tx, text); err != nil {
		return err
	}
	for _, m := range req.BlockDeviceMappings {
		if err := m.apply(tx, v.VmId); err != nil {
			return err
		}
	}
	return v.updateNic(tx, req)
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
	if err := v.joinGroup(tx); err != nil {
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
	device := m.DeviceName
	switch {
	case m.NoDevice != nil || m.VirtualDeviceName != "":
		return apierror.InvalidMappings.Errorf("NoDevice and VirtualDeviceName cannot be given for a VM that exists.")
	case m.Bsu == nil:
		return apierror.MissingParameter.Errorf("BlockDeviceMappings.Bsu is required.")
	case m.Bsu.VolumeId == "" && device == "":
		return apierror.MissingParameter.Errorf("BlockDeviceMappings.DeviceName is required, or Bsu.VolumeId.")
	}
	if m.Bsu.VolumeId != "" {
		volume, err := Volumes.Get(tx, m.Bsu.VolumeId)
		switch {
		case err != nil:
			return err
		case len(volume.LinkedVolumes) == 0 || volume.LinkedVolumes[0].VmId != vm:
			return apierror.VolumeDeviceMismatch.Errorf("The volume %s is not linked to the VM %s.", m.Bsu.VolumeId, vm)
		case device != "" && device != volume.LinkedVolumes[0].DeviceName:
			return apierror.VolumeDeviceMismatch.Errorf("The volume %s is %s, and not %.100s.", m.Bsu.VolumeId, volume.LinkedVolumes[0].DeviceName, device)
		}
		device = volume.LinkedVolumes[0].DeviceName
	}
	if m.Bsu.DeleteOnVmDeletion == nil {
		return nil
	}
	return setDeleteOnVmDeletion(tx, vm, device, *m.Bsu.DeleteOnVmDeletion)
}

// updateNic changes the primary NIC.
func (v *Vm) updateNic(tx *resource.Tx, req *UpdateVmRequest) error {
	if req.IsSourceDestChecked == nil && len(req.SecurityGroupIds) == 0 {
		return nil
	}
	n, err := v.primary(tx)
	if err != nil {
		return err
	}
	if req.IsSourceDestChecked != nil {
		if n.NetId == "" {
			return apierror.VmNotInNet.Errorf("The VM %s is in no Net: IsSourceDestChecked does not go with it.", v.VmId)
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
