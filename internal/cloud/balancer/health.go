package balancer

import (
	"fmt"
	"slices"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ReadVmsHealthRequest lists the health of the VMs among the backends of a load
// balancer.
type ReadVmsHealthRequest struct {
	BackendVmIds     []id.Vm         // The IDs of the VMs to list, all of them backends of the load balancer; by default, all that are.
	LoadBalancerName id.LoadBalancer `api:"required"` // The name of the load balancer.
}

// ReadVmsHealthResponse has the health of VMs.
type ReadVmsHealthResponse struct {
	BackendVmHealth []BackendVmHealth // The health of the VMs, in the order in which they became backends.
}

// BackendVmHealth is the health of a VM among the backends of a load balancer.
type BackendVmHealth struct {
	// Why the VM gets no requests; absent if it does.
	Description string `wire:"omitempty"`
	// Whether the VM gets requests (`UP`) or not (`DOWN`), or whether that is not known (`UNKNOWN`).
	State HealthState
	// What keeps the VM from getting requests: the load balancer, which has not finished its first checks
	// (`ELB`), or the VM (`Instance`). Absent if nothing does.
	StateReason HealthReason `wire:"omitempty"`
	// The ID of the VM.
	VmId id.Vm
}

// HealthState is whether a backend gets requests.
type HealthState string

// Literals implements [api.Enum].
func (HealthState) Literals() []string { return []string{"UP", "DOWN", "UNKNOWN"} }

// HealthReason is what keeps a backend from getting requests.
type HealthReason string

// Literals implements [api.Enum].
func (HealthReason) Literals() []string { return []string{"ELB", "Instance", "N/A"} }

// The descriptions of AWS's load balancers, but for the first one, which was
// recorded.
const (
	registering = "Instance registration is pending"
	failing     = "Instance has failed at least the UnhealthyThreshold number of health checks consecutively."
	notRunning  = "Instance is in %s state."
)

func (region Region) readVmsHealth(tx *resource.Tx, req *ReadVmsHealthRequest) (*ReadVmsHealthResponse, error) {
	lb, err := balancerNamed(tx, req.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	asked := map[id.Vm]bool{}
	for _, vm := range req.BackendVmIds {
		if _, err := compute.Vms.Get(tx, vm); err != nil {
			return nil, err
		}
		asked[vm] = true
	}
	for _, vm := range req.BackendVmIds {
		if !slices.Contains(lb.BackendVmIds, vm) {
			return nil, apierror.InvalidParameter.Errorf("The VM %s is no backend of the load balancer %s.", vm, lb.LoadBalancerName)
		}
	}
	seen := map[string]Health{}
	if region.Look != nil {
		if seen, err = region.Look(tx.Context(), tx.Account(), lb.LoadBalancerName); err != nil {
			return nil, err
		}
	}
	healths := []BackendVmHealth{}
	for _, vm := range lb.BackendVmIds {
		if len(asked) == 0 || asked[vm] {
			healths = append(healths, healthOf(tx, vm, seen[string(vm)]))
		}
	}
	return &ReadVmsHealthResponse{healths}, nil
}

// Health is what a driver has found of a backend.
type Health int

// The health of a backend.
const (
	Unchecked Health = iota // too little is known
	Healthy
	Failing
)

// healthOf says the health of a VM in the words of the service.
func healthOf(tx *resource.Tx, vm id.Vm, seen Health) BackendVmHealth {
	h := BackendVmHealth{VmId: vm, State: "DOWN", StateReason: "Instance"}
	v := compute.Vms.Find(tx, vm)
	switch {
	case v != nil && v.State != compute.VmRunning:
		h.Description = fmt.Sprintf(notRunning, v.State)
	case seen == Healthy:
		h.State, h.StateReason = "UP", ""
	case seen == Failing:
		h.Description = failing
	default: // the driver has not checked it yet, or not since it runs
		h.StateReason, h.Description = "ELB", registering
	}
	return h
}
