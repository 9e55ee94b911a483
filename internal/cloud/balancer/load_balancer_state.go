package balancer

import (
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// BalancerState is the state of a load balancer.
type BalancerState string

// The states of a load balancer: it is being given its addresses, it starts, it
// works, it works and takes over other backends or other settings, it is being
// deleted.
const (
	BalancerProvisioning  BalancerState = "provisioning"
	BalancerStarting      BalancerState = "starting"
	BalancerActive        BalancerState = "active"
	BalancerReloading     BalancerState = "reloading"
	BalancerReconfiguring BalancerState = "reconfiguring"
	BalancerDeleting      BalancerState = "deleting"
)

// Literals implements [api.Enum].
func (BalancerState) Literals() []string {
	return []string{"provisioning", "starting", "reloading", "active", "reconfiguring", "deleting", "deleted"}
}

// What happens to a load balancer. UpdateLoadBalancer waits for its predecessor:
// all else that changes a load balancer does not.
const (
	balancerCreated  lifecycle.Event[BalancerState] = "created"
	balancerPlaced   lifecycle.Event[BalancerState] = "placed"
	balancerApplied  lifecycle.Event[BalancerState] = "applied"
	balancerUpdated  lifecycle.Event[BalancerState] = "updated"
	balancerChanged  lifecycle.Event[BalancerState] = "changed"
	balancerRelinked lifecycle.Event[BalancerState] = "linked to other backends"
	balancerDeleted  lifecycle.Event[BalancerState] = "deleted"
	balancerRemoved  lifecycle.Event[BalancerState] = "removed"
)

// balancerLife is the life of a load balancer. What is changed before it works, or
// while it takes over another change, leaves the state as it is.
var balancerLife = lifecycle.Table[BalancerState]{
	"": {balancerCreated: BalancerProvisioning},
	BalancerProvisioning: {
		balancerPlaced: BalancerStarting, balancerUpdated: BalancerProvisioning, balancerChanged: BalancerProvisioning,
		balancerRelinked: BalancerProvisioning, balancerDeleted: BalancerDeleting,
	},
	BalancerStarting: {
		balancerApplied: BalancerActive, balancerUpdated: BalancerStarting, balancerChanged: BalancerStarting,
		balancerRelinked: BalancerStarting, balancerDeleted: BalancerDeleting,
	},
	BalancerActive: {
		balancerUpdated: BalancerReconfiguring, balancerChanged: BalancerReconfiguring, balancerRelinked: BalancerReloading,
		balancerDeleted: BalancerDeleting,
	},
	BalancerReloading: {
		balancerApplied: BalancerActive, balancerUpdated: BalancerReconfiguring, balancerChanged: BalancerReconfiguring,
		balancerRelinked: BalancerReloading, balancerDeleted: BalancerDeleting,
	},
	BalancerReconfiguring: {
		balancerApplied: BalancerActive, balancerChanged: BalancerReconfiguring, balancerRelinked: BalancerReconfiguring,
		balancerDeleted: BalancerDeleting,
	},
	BalancerDeleting: {balancerRemoved: ""},
}

// changing finds a load balancer to which an event can happen now.
func changing(tx *resource.Tx, name id.LoadBalancer, event lifecycle.Event[BalancerState]) (*LoadBalancer, error) {
	lb, err := balancerNamed(tx, name)
	if err == nil && !resource.Allows(LoadBalancers, lb, event) {
		err = apierror.InvalidBalancerState.Errorf("The load balancer %s is %s, so it cannot be %s.", name, lb.State, event)
	}
	return lb, err
}

// save writes a load balancer that an event has changed, of which the driver is
// notified.
func (lb *LoadBalancer) save(tx *resource.Tx, event lifecycle.Event[BalancerState]) error {
	lb.Generation++
	return resource.Transition(tx, LoadBalancers, lb, event)
}
