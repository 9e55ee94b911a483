package compute

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// DedicatedGroup is a group of servers on which nobody else's VMs run, and no
// other VMs of the account either. VMs and Nets are in it whose tenancy is its
// ID.
type DedicatedGroup struct {
	// The account ID of the owner of the dedicated group.
	AccountId        id.Account        `json:"-" ref:"-"`
	CpuGeneration    int               // The generation of the processors.
	DedicatedGroupId id.DedicatedGroup // The ID of the dedicated group.
	Name             string            // The name of the dedicated group.
	// The IDs of the Nets in the dedicated group.
	NetIds        []id.Net `json:"-" ref:"-"`
	SubregionName string   // The name of the Subregion that the dedicated group is in.
	// The IDs of the VMs in the dedicated group.
	VmIds []id.Vm `json:"-" ref:"-"`
}

// DedicatedGroups are the dedicated groups of the region.
var DedicatedGroups = &resource.Kind[DedicatedGroup, id.DedicatedGroup]{
	Name:  "DedicatedGroup",
	InUse: apierror.InUse,
	// Each group has at least one server. The catalogue has no code for too many
	// of them: that of VMs is nearest.
	Quota: &resource.Quota{Name: "dedicated_server_limit", Code: apierror.TooManyVms},
}

func dedicatedGroupActions(region Region) []api.Action {
	r := api.NewResource(DedicatedGroups, viewDedicatedGroup)
	return []api.Action{
		api.Create(r, region.createDedicatedGroup),
		api.Read[ReadDedicatedGroupsRequest](r),
		api.Update(r, updateDedicatedGroup),
		api.Command("DedicatedGroup", deleteDedicatedGroup),
	}
}

func viewDedicatedGroup(tx *resource.Tx, g *DedicatedGroup) *DedicatedGroup {
	g.AccountId = id.Account(tx.Account())
	for net := range network.Nets.Of(tx, g.DedicatedGroupId) {
		g.NetIds = append(g.NetIds, net.NetId)
	}
	for _, vm := range g.vms(tx) {
		g.VmIds = append(g.VmIds, vm.VmId)
	}
	return g
}

// vms are the VMs in the group, but for those that are on their way out.
func (g *DedicatedGroup) vms(tx *resource.Tx) []*Vm {
	return slices.DeleteFunc(slices.Collect(Vms.Of(tx, g.DedicatedGroupId)), func(v *Vm) bool { return v.State == VmShuttingDown })
}

// CreateDedicatedGroupRequest makes a dedicated group.
type CreateDedicatedGroupRequest struct {
	CpuGeneration CpuGeneration `api:"required"` // The generation of the processors, such as `4`.
	// A name for the dedicated group, of 1 to 255 characters.
	Name Name `api:"required"`
	// The name of the Subregion to make the dedicated group in.
	SubregionName string `api:"required"`
}

// CpuGeneration is the number of a generation of processors.
type CpuGeneration int

// newestCpus is the last generation in the catalogue of flexible GPUs that VM
// types count to. The real service has others, with numbers of their own.
const newestCpus = 7

// Bounds implements [api.Bounded].
func (CpuGeneration) Bounds() (low, high int64) { return 1, newestCpus }

// Name is the name of a dedicated group or of a template. The real service does
// not say what is one: here it has up to 255 characters of any kind.
type Name string

// maxName is how many characters a name has at most.
const maxName = 255

// Check reports a name that is empty or too long.
func (n Name) Check() error {
	if length := utf8.RuneCountInString(string(n)); length == 0 || length > maxName {
		return apierror.InvalidLength.Errorf("The name has %[2]d characters. It must have 1 to %[1]d.", maxName, length)
	}
	return nil
}

func (region Region) createDedicatedGroup(_ *resource.Tx, req *CreateDedicatedGroupRequest) (*DedicatedGroup, error) {
	if err := region.checkSubregion(req.SubregionName); err != nil {
		return nil, err
	}
	return &DedicatedGroup{CpuGeneration: int(req.CpuGeneration), Name: string(req.Name), SubregionName: req.SubregionName}, nil
}

// ReadDedicatedGroupsRequest lists dedicated groups.
type ReadDedicatedGroupsRequest struct {
	Filters *FiltersDedicatedGroup // Which dedicated groups to list; all of them if absent.
	api.Page
}

// FiltersDedicatedGroup selects dedicated groups.
type FiltersDedicatedGroup struct {
	CpuGenerations    []int               // The generations of the processors.
	DedicatedGroupIds []id.DedicatedGroup // The IDs of the dedicated groups.
	Names             []string            // The names of the dedicated groups.
	// The names of the Subregions that the dedicated groups are in.
	SubregionNames []string
}

// UpdateDedicatedGroupRequest renames a dedicated group.
type UpdateDedicatedGroupRequest struct {
	DedicatedGroupId id.DedicatedGroup `api:"required"` // The ID of the dedicated group.
	// The new name of the dedicated group, of 1 to 255 characters.
	Name Name `api:"required"`
}

func updateDedicatedGroup(_ *resource.Tx, g *DedicatedGroup, req *UpdateDedicatedGroupRequest) error {
	g.Name = string(req.Name)
	return nil
}

// DeleteDedicatedGroupRequest deletes a dedicated group, and with force what is
// in it.
type DeleteDedicatedGroupRequest struct {
	DedicatedGroupId id.DedicatedGroup `api:"required"` // The ID of the dedicated group.
	// Whether the VMs and Nets in the dedicated group are deleted with it. A VM that is
	// protected from deletion and a Net that still has something in it prevent that. By
	// default, a dedicated group that is not empty stays.
	Force bool
}

func deleteDedicatedGroup(tx *resource.Tx, req *DeleteDedicatedGroupRequest) error {
	g, err := DedicatedGroups.Get(tx, req.DedicatedGroupId)
	if err != nil {
		return err
	}
	if shown := viewDedicatedGroup(tx, g); !req.Force && len(shown.VmIds)+len(shown.NetIds) > 0 {
		return apierror.InUse.Errorf("The dedicated group %s has %s in it.", g.DedicatedGroupId, some(shown.VmIds, shown.NetIds))
	}
	for _, vm := range g.vms(tx) {
		if err := terminateVm(tx, vm); err != nil {
			return err
		}
	}
	for vm := range Vms.Of(tx, g.DedicatedGroupId) { // all are on their way out
		vm.DedicatedGroupId = ""
		if err := Vms.Put(tx, vm); err != nil {
			return err
		}
	}
	for net := range network.Nets.Of(tx, g.DedicatedGroupId) {
		if err := network.DeleteNet(tx, net); err != nil {
			return err
		}
	}
	return DedicatedGroups.Delete(tx, g)
}

// maxNamed is how many of those in a group a refusal names.
const maxNamed = 5

func some(vms []id.Vm, nets []id.Net) string {
	var names []string
	for _, vm := range vms {
		names = append(names, string(vm))
	}
	for _, net := range nets {
		names = append(names, string(net))
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// joinDedicatedGroup refuses a VM whose tenancy is a dedicated group that is not there or
// is made for other VMs, and notes that the VM is in it otherwise. The rules that
// place a VM, or change its processors, call it.
func (v *Vm) joinDedicatedGroup(tx *resource.Tx) error {
	tenancy := v.Placement.Tenancy
	if tenancy == "" || tenancy == network.TenancyDefault || tenancy == network.TenancyDedicated {
		return nil
	}
	g, err := DedicatedGroups.Get(tx, id.DedicatedGroup(tenancy))
	if err != nil {
		return err
	}
	v.DedicatedGroupId = g.DedicatedGroupId
	if g.SubregionName != v.Placement.SubregionName {
		return apierror.SubregionMismatch.Errorf(
			"The dedicated group %s is in the Subregion %s, and the VM is in %s.", tenancy, g.SubregionName, v.Placement.SubregionName)
	}
	if want := fmt.Sprint("v", g.CpuGeneration); v.generation() != "" && v.generation() != want {
		return apierror.InvalidParameter.Errorf(
			"The dedicated group %s has processors of the generation %s, which the VmType %s is not compatible with.", tenancy, want, v.VmType)
	}
	return nil
}
