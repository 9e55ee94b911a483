package compute

import (
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VmStop is a stop of a VM.
type VmStop struct {
	_ struct{} `schema:"VmsStopHistory"`

	StateReason string       // Why the VM stopped.
	StopDate    api.DateTime // When the VM was stopped.
	VmId        id.Vm        `ref:"-"` // The ID of the VM.

	StopId vmStopID `wire:"-"`
}

// vmStops are the stops of VMs. A stop is over when it is noted, so it is kept
// the way that deleted resources are, for as long as calls are.
var vmStops = &resource.Kind[VmStop, vmStopID]{Name: "VmStop", Plural: "VmsStopHistory", Retention: 32 * 24 * time.Hour}

// vmStopID is never shown.
type vmStopID string

// Form implements [resource.ID].
func (vmStopID) Form() resource.Form {
	return resource.Form{Prefix: "stop-", Length: 16, Alphabet: resource.Hexadecimal}
}

// The reasons why VMs are stopped. The real service documents the first; the
// second is named alike, and the next three are those of AWS. Of the last, that
// of a VM that was made without being started, only the length is known.
const (
	stoppedByCall  = "Client.ApiGracefulShutdown"
	stoppedByForce = "Client.ApiForcedShutdown"
	stoppedByGuest = "Client.InstanceInitiatedShutdown"
	stoppedByHost  = "Server.InternalError"
	stoppedForRoom = "Server.InsufficientInstanceCapacity"
	neverStarted   = "Client.InstanceNeverStarted"
)

// noteStop notes that a VM was stopped, for the reason that it says.
func noteStop(tx *resource.Tx, v *Vm) error {
	stop := &VmStop{StateReason: v.StateReason, StopDate: api.At(tx.Now()), VmId: v.VmId}
	if err := vmStops.Insert(tx, stop); err != nil {
		return err
	}
	return vmStops.Delete(tx, stop)
}

// ReadVmsStopHistoryRequest lists the stops of VMs of the last 32 days, those of
// VMs that are gone among them.
type ReadVmsStopHistoryRequest struct {
	Filters *FiltersVmsStopHistory // Which stops to list; all of them if absent.
	api.Page
}

// FiltersVmsStopHistory selects stops of VMs.
type FiltersVmsStopHistory struct {
	// Why the VMs stopped; an asterisk stands for any text, as in `Client.*`.
	StateReasons []string `match:"glob"`
	// When the stops were at the earliest.
	StopDateAfter *api.DateTime `path:"StopDate" match:"from"`
	// When the stops were at the latest.
	StopDateBefore *api.DateTime `path:"StopDate" match:"to"`
	VmIds          []id.Vm       // The IDs of the VMs.
}

func readVmsStopHistory() api.Action {
	return api.Read[ReadVmsStopHistoryRequest](api.NewResource(vmStops, api.Plain[VmStop]).InFamily("Vm"))
}
