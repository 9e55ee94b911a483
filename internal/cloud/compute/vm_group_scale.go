package compute

import (
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ScaleUpVmGroupRequest adds VMs to a group, made from its present template.
type ScaleUpVmGroupRequest struct {
	VmAddition VmNumber   `api:"required"` // How many VMs to add.
	VmGroupId  id.VmGroup `api:"required"` // The ID of the group.
}

func (region Region) scaleUp(tx *resource.Tx, req *ScaleUpVmGroupRequest) error {
	g, err := VmGroups.Get(tx, req.VmGroupId)
	if err != nil {
		return err
	}
	g.VmCount = len(g.vms(tx)) + int(req.VmAddition)
	if err := resource.Transition(tx, VmGroups, g, groupScaledUp); err != nil {
		return err
	}
	return region.addVms(tx, g, int(req.VmAddition))
}

// ScaleDownVmGroupRequest deletes the oldest VMs of a group.
type ScaleDownVmGroupRequest struct {
	VmGroupId id.VmGroup `api:"required"` // The ID of the group.
	// How many VMs to delete: at most as many as the group has.
	VmSubtraction VmNumber `api:"required"`
}

func scaleDown(tx *resource.Tx, req *ScaleDownVmGroupRequest) error {
	g, err := VmGroups.Get(tx, req.VmGroupId)
	if err != nil {
		return err
	}
	vms := g.vms(tx)
	if n := int(req.VmSubtraction); n > len(vms) {
		return apierror.InvalidCount.Errorf("The VM group %s has %d VMs: %d cannot be taken away.", g.VmGroupId, len(vms), n)
	}
	g.VmCount = len(vms) - int(req.VmSubtraction)
	if err := resource.Transition(tx, VmGroups, g, groupScaledDown); err != nil {
		return err
	}
	for _, v := range vms[:req.VmSubtraction] {
		if err := terminateVm(tx, v); err != nil {
			return err
		}
	}
	return nil
}

// DeleteVmGroupRequest deletes a group with its VMs.
type DeleteVmGroupRequest struct {
	// The ID of the group. None of its VMs is protected from deletion.
	VmGroupId id.VmGroup `api:"required"`
}

func deleteVmGroup(tx *resource.Tx, req *DeleteVmGroupRequest) error {
	g, err := VmGroups.Get(tx, req.VmGroupId)
	if err != nil {
		return err
	}
	if g.State == VmGroupDeleting {
		return nil
	}
	g.VmCount = 0
	if err := resource.Transition(tx, VmGroups, g, groupDeleted); err != nil {
		return err
	}
	for _, v := range g.vms(tx) {
		if err := terminateVm(tx, v); err != nil {
			return err
		}
	}
	return settleGroup(tx, g.VmGroupId)
}
