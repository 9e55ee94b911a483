package compute

import (
	"iter"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VmStateName is the state of a VM.
type VmStateName string

// The states of a VM.
const (
	VmPending      VmStateName = "pending"
	VmRunning      VmStateName = "running"
	VmStopping     VmStateName = "stopping"
	VmStopped      VmStateName = "stopped"
	VmShuttingDown VmStateName = "shutting-down"
	VmTerminated   VmStateName = "terminated"
)

// Literals implements [api.Enum].
func (VmStateName) Literals() []string {
	return []string{"pending", "running", "stopping", "stopped", "shutting-down", "terminated", "quarantine"}
}

// The events of a VM: what callers ask for, what its driver has applied, and what
// its machine does by itself.
const (
	vmCreated   lifecycle.Event[VmStateName] = "created"
	vmStarted   lifecycle.Event[VmStateName] = "started"
	vmStopped   lifecycle.Event[VmStateName] = "stopped"
	vmRebooted  lifecycle.Event[VmStateName] = "rebooted"
	vmDeleted   lifecycle.Event[VmStateName] = "deleted"
	VmTurnedOn  lifecycle.Event[VmStateName] = "turned on"
	VmTurnedOff lifecycle.Event[VmStateName] = "turned off"
	vmRemoved   lifecycle.Event[VmStateName] = "removed"
	vmUnplaced  lifecycle.Event[VmStateName] = "refused by its hosts"
	vmShutDown  lifecycle.Event[VmStateName] = "shut down by itself"
	vmForgotten lifecycle.Event[VmStateName] = "forgotten"
)

// vmLife is the life of a VM. What callers ask for leads to a state in which the
// driver is behind; what the driver then has, or the machine does, leads on.
var vmLife = lifecycle.Table[VmStateName]{
	"":             {vmCreated: VmPending},
	VmPending:      {VmTurnedOn: VmRunning, VmTurnedOff: VmStopped, vmUnplaced: VmStopped, vmDeleted: VmShuttingDown},
	VmRunning:      {vmStopped: VmStopping, vmRebooted: VmRunning, vmDeleted: VmShuttingDown, vmShutDown: VmStopped, vmUnplaced: VmStopped},
	VmStopping:     {VmTurnedOff: VmStopped, vmStopped: VmStopping, vmDeleted: VmShuttingDown},
	VmStopped:      {vmStarted: VmPending, vmDeleted: VmShuttingDown},
	VmShuttingDown: {vmRemoved: VmTerminated},
	VmTerminated:   {vmForgotten: ""},
}

// vmStateCodes are the numbers that AWS gives the states.
var vmStateCodes = map[VmStateName]int{
	VmPending: 0, VmRunning: 16, VmShuttingDown: 32, VmTerminated: 48, VmStopping: 64, VmStopped: 80,
}

// VmStates is how a VM is doing.
type VmStates struct {
	// What is planned for the VM: nothing, since a VM here is never moved.
	MaintenanceEvents []MaintenanceEvent
	SubregionName     string      // The name of the Subregion of the VM.
	VmId              id.Vm       // The ID of the VM.
	VmState           VmStateName // The state of the VM.
}

// MaintenanceEvent is something that is planned for a VM.
type MaintenanceEvent struct {
	Code        string       // What it is: `system-reboot` or `system-maintenance`.
	Description string       // What it is, for people.
	NotAfter    api.DateTime // When it ends at the latest.
	NotBefore   api.DateTime // When it begins at the earliest.
}

// ReadVmsStateRequest lists how VMs are doing.
type ReadVmsStateRequest struct {
	// Whether to list all VMs. By default, only those that are running.
	AllVms  bool             `default:"false"`
	Filters *FiltersVmsState // Which VMs to list; all of them if absent.
	api.Page
}

// Includes implements [api.Includer].
func (r *ReadVmsStateRequest) Includes(v *VmStates) bool { return r.AllVms || v.VmState == VmRunning }

// FiltersVmsState selects VMs by how they are doing.
type FiltersVmsState struct {
	// The codes of the planned events: `system-reboot` or `system-maintenance`.
	MaintenanceEventCodes []string
	// The descriptions of the planned events.
	MaintenanceEventDescriptions []string
	// When the planned events end at the latest.
	MaintenanceEventsNotAfter []api.DateTime
	// When the planned events begin at the earliest.
	MaintenanceEventsNotBefore []api.DateTime
	SubregionNames             []string      // The names of the Subregions of the VMs.
	VmIds                      []id.Vm       // The IDs of the VMs.
	VmStates                   []VmStateName // The states of the VMs.
}

func readVmsState() api.Action {
	return api.Read[ReadVmsStateRequest](api.Values("Vm", "VmStates", func(tx *resource.Tx) iter.Seq2[api.Position, VmStates] {
		return func(yield func(api.Position, VmStates) bool) {
			for seq, v := range Vms.Each(tx, 0) {
				if !yield(api.Position{Seq: seq}, VmStates{SubregionName: v.Placement.SubregionName, VmId: v.VmId, VmState: v.State}) {
					return
				}
			}
		}
	}))
}
