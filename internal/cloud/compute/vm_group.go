package compute

import (
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VmGroup is VMs that are alike: all of them are made from one template, in one
// Subnet.
type VmGroup struct {
	CreationDate        api.DateTime        // When the group was created.
	Description         string              // The description of the group.
	PositioningStrategy PositioningStrategy // Where the VMs run with respect to each other.
	SecurityGroupIds    []id.SecurityGroup  // The IDs of the security groups of the VMs.
	State               VmGroupState        // The state of the group.
	SubnetId            id.Subnet           // The ID of the Subnet of the VMs.
	Tags                []api.Tag           // The tags of the group.
	// How many VMs the group has, or will have once it is available.
	VmCount     int
	VmGroupId   id.VmGroup // The ID of the group.
	VmGroupName string     // The name of the group.
	// The IDs of the VMs in the group, the oldest one first.
	VmIds        []id.Vm       `json:"-" ref:"-"`
	VmTemplateId id.VmTemplate // The ID of the template that new VMs are made from.
}

// VmGroups are the groups of VMs of the region.
var VmGroups = &resource.Kind[VmGroup, id.VmGroup]{Name: "VmGroup", InUse: apierror.InUse, Retention: time.Hour, Life: vmGroupLife}

// maxVmGroups is how many groups an account can have. No quota shows it.
const maxVmGroups = 100

// PositioningStrategy says where VMs run with respect to each other.
type PositioningStrategy string

// The strategies: on any hosts, on one host, or on a host for each VM.
const (
	NoStrategy PositioningStrategy = "no-strategy"
	Attract    PositioningStrategy = "attract"
	Repulse    PositioningStrategy = "repulse"
)

// Literals implements [api.Enum].
func (PositioningStrategy) Literals() []string { return []string{"no-strategy", "attract", "repulse"} }

// VmGroupState is the state of a group of VMs.
type VmGroupState string

// The states of a group.
const (
	VmGroupPending     VmGroupState = "pending"
	VmGroupAvailable   VmGroupState = "available"
	VmGroupScalingUp   VmGroupState = "scaling up"
	VmGroupScalingDown VmGroupState = "scaling down"
	VmGroupDeleting    VmGroupState = "deleting"
	VmGroupDeleted     VmGroupState = "deleted"
)

// Literals implements [api.Enum].
func (VmGroupState) Literals() []string {
	return []string{"pending", "available", "scaling up", "scaling down", "deleting", "deleted"}
}

// The events of a group. It is settled when none of its VMs is pending or shutting
// down any more.
const (
	groupCreated    lifecycle.Event[VmGroupState] = "created"
	groupScaledUp   lifecycle.Event[VmGroupState] = "scaled up"
	groupScaledDown lifecycle.Event[VmGroupState] = "scaled down"
	groupSettled    lifecycle.Event[VmGroupState] = "settled"
	groupDeleted    lifecycle.Event[VmGroupState] = "deleted"
	groupForgotten  lifecycle.Event[VmGroupState] = "forgotten"
)

// vmGroupLife is the life of a group.
var vmGroupLife = lifecycle.Table[VmGroupState]{
	"":                 {groupCreated: VmGroupPending},
	VmGroupPending:     {groupSettled: VmGroupAvailable, groupDeleted: VmGroupDeleting},
	VmGroupAvailable:   {groupScaledUp: VmGroupScalingUp, groupScaledDown: VmGroupScalingDown, groupDeleted: VmGroupDeleting},
	VmGroupScalingUp:   {groupSettled: VmGroupAvailable, groupDeleted: VmGroupDeleting},
	VmGroupScalingDown: {groupSettled: VmGroupAvailable, groupDeleted: VmGroupDeleting},
	VmGroupDeleting:    {groupSettled: VmGroupDeleted},
	VmGroupDeleted:     {groupForgotten: ""},
}

func vmGroupActions(region Region) []api.Action {
	r := api.NewResource(VmGroups, viewVmGroup)
	return []api.Action{
		api.Create(r, createVmGroup, region.addGroupVms),
		api.Read[ReadVmGroupsRequest](r),
		api.Update(r, updateVmGroup),
		api.Command("VmGroup", deleteVmGroup),
		api.Command("VmGroup", region.scaleUp),
		api.Command("VmGroup", scaleDown),
	}
}

func viewVmGroup(tx *resource.Tx, g *VmGroup) *VmGroup {
	for _, v := range g.vms(tx) {
		g.VmIds = append(g.VmIds, v.VmId)
	}
	return g
}

// vms are the VMs in a group, but for those that are on their way out, the oldest
// one first.
func (g *VmGroup) vms(tx *resource.Tx) []*Vm {
	return slices.DeleteFunc(slices.Collect(Vms.Where(tx, "VmGroupId", string(g.VmGroupId))),
		func(v *Vm) bool { return v.State == VmShuttingDown })
}

// VmNumber is a number of VMs in a group.
type VmNumber int

// Bounds implements [api.Bounded].
func (VmNumber) Bounds() (low, high int64) { return 1, maxVmsPerCall }

// CreateVmGroupRequest makes a group of VMs, and the VMs.
type CreateVmGroupRequest struct {
	Description string // A description of the group.
	// Where the VMs run with respect to each other: `attract` for one host, `repulse` for a
	// host for each of them.
	PositioningStrategy PositioningStrategy `default:"no-strategy"`
	// The IDs of security groups of the Net for the VMs.
	SecurityGroupIds []id.SecurityGroup `api:"required"`
	// The ID of the Subnet of the VMs.
	SubnetId id.Subnet `api:"required"`
	Tags     []api.Tag // One or more tags for the group.
	VmCount  VmNumber  `api:"required"` // How many VMs to make.
	// A name for the group, of 1 to 255 characters.
	VmGroupName Name `api:"required"`
	// The ID of the template to make the VMs from.
	VmTemplateId id.VmTemplate `api:"required"`
}

func createVmGroup(tx *resource.Tx, req *CreateVmGroupRequest) (*VmGroup, error) {
	if have := VmGroups.Count(tx); have >= maxVmGroups {
		return nil, apierror.TooManyVms.Errorf("The account has %d VM groups, which is the maximum.", maxVmGroups)
	}
	if len(req.SecurityGroupIds) == 0 {
		return nil, apierror.MissingParameter.Errorf("SecurityGroupIds is empty: name at least one.")
	}
	if !network.Subnets.Has(tx, req.SubnetId) {
		return nil, network.Subnets.ErrNotFound(req.SubnetId)
	}
	tags, err := withTags(nil, req.Tags)
	return &VmGroup{
		CreationDate: api.At(tx.Now()), Description: req.Description, PositioningStrategy: req.PositioningStrategy,
		SecurityGroupIds: req.SecurityGroupIds, SubnetId: req.SubnetId, Tags: tags,
		VmCount: int(req.VmCount), VmGroupName: string(req.VmGroupName), VmTemplateId: req.VmTemplateId,
	}, err
}

// addGroupVms makes the VMs of a new group.
func (region Region) addGroupVms(tx *resource.Tx, g *VmGroup) error {
	return region.addVms(tx, g, g.VmCount)
}

// addVms makes VMs for a group, all of them or none.
func (region Region) addVms(tx *resource.Tx, g *VmGroup, n int) error {
	t, err := VmTemplates.Get(tx, g.VmTemplateId)
	if err != nil {
		return err
	}
	plan, err := region.planLaunch(tx, &CreateVmsRequest{
		BootOnCreation: true, ImageId: t.ImageId, KeypairName: t.KeypairName, VmType: t.vmType(), Performance: t.CpuPerformance,
		SubnetId: g.SubnetId, SecurityGroupIds: g.SecurityGroupIds,
	})
	if err != nil {
		return err
	}
	plan.vm.VmGroupId = g.VmGroupId
	plan.vm.setAwaitedBy(VmPending)
	_, err = region.launch(tx, plan, n, n)
	return err
}

// settleGroup moves a group on whose VMs have settled. An empty ID is none. It
// does not go through the VMs, each of which calls it: a group may have very many.
func settleGroup(tx *resource.Tx, groupID id.VmGroup) error {
	g := VmGroups.Find(tx, groupID)
	if g == nil || !resource.Allows(VmGroups, g, groupSettled) {
		return nil
	}
	for range Vms.Where(tx, "AwaitedBy", string(groupID)) {
		return nil
	}
	if g.State != VmGroupDeleting {
		g.VmCount = len(g.vms(tx)) // callers may have deleted some
	}
	return resource.Transition(tx, VmGroups, g, groupSettled)
}

// leaveGroup notes that a VM has left a group for good. One that waits for its VMs
// to settle counts them then.
func leaveGroup(tx *resource.Tx, groupID id.VmGroup) error {
	if g := VmGroups.Find(tx, groupID); g != nil && g.State == VmGroupAvailable {
		g.VmCount--
		return VmGroups.Put(tx, g)
	}
	return settleGroup(tx, groupID)
}

// ReadVmGroupsRequest lists groups of VMs. Deleted ones can be read for an hour.
type ReadVmGroupsRequest struct {
	Filters *FiltersVmGroup // Which groups to list; all of them if absent.
}

// FiltersVmGroup selects groups of VMs.
type FiltersVmGroup struct {
	Descriptions     []string           // The descriptions of the groups.
	SecurityGroupIds []id.SecurityGroup // The IDs of the security groups of the VMs.
	SubnetIds        []id.Subnet        // The IDs of the Subnets of the VMs.
	VmCounts         []int              // The numbers of VMs in the groups.
	VmGroupIds       []id.VmGroup       // The IDs of the groups.
	VmGroupNames     []string           // The names of the groups.
	VmTemplateIds    []id.VmTemplate    // The IDs of the templates that new VMs are made from.
	api.TagFilters
}

// UpdateVmGroupRequest changes what a group is called and said to be, and what
// its next VMs are made from. Those that it has stay as they are.
type UpdateVmGroupRequest struct {
	Description  *string       // A new description of the group.
	Tags         *[]api.Tag    // The new tags of the group, in place of those that it has.
	VmGroupId    id.VmGroup    `api:"required"` // The ID of the group.
	VmGroupName  Name          // A new name for the group, of 1 to 255 characters.
	VmTemplateId id.VmTemplate // The ID of another template for new VMs.
}

func updateVmGroup(_ *resource.Tx, g *VmGroup, req *UpdateVmGroupRequest) (err error) {
	if g.State == VmGroupDeleting {
		return apierror.InvalidState.Errorf("The VM group %s is %s.", g.VmGroupId, g.State)
	}
	if req.Description != nil {
		g.Description = *req.Description
	}
	if req.Tags != nil {
		g.Tags, err = withTags(nil, *req.Tags)
	}
	if req.VmGroupName != "" {
		g.VmGroupName = string(req.VmGroupName)
	}
	if req.VmTemplateId != "" {
		g.VmTemplateId = req.VmTemplateId
	}
	return err
}
