package balancer

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// backendAddress is where a VM among the backends of a load balancer receives.
type backendAddress struct {
	VmId      id.Vm    `ref:"-"`
	PrivateIp api.IPv4 // empty: it does not run
}

func backendActions(region Region) []api.Action {
	return []api.Action{
		api.Command("LoadBalancer", region.linkLoadBalancerBackendMachines),
		api.Command("LoadBalancer", unlinkLoadBalancerBackendMachines),
		api.Command("LoadBalancer", registerVmsInLoadBalancer),
		api.Command("LoadBalancer", deregisterVmsInLoadBalancer),
		api.Do("LoadBalancer", region.readVmsHealth),
	}
}

// maxBackends bounds the backends of a load balancer: as many as a request can
// name. The real number is not published.
const maxBackends = 1000

// LinkLoadBalancerBackendMachinesRequest adds backends to a load balancer: VMs, or
// what has a public IP. One that is a backend already stays one.
type LinkLoadBalancerBackendMachinesRequest struct {
	// One or more public IPs of backends. BackendIps or BackendVmIds is required.
	BackendIps []api.IPv4
	// One or more IDs of VMs, all of them in the Net of the load balancer or, if it is in the public
	// Cloud, there. BackendIps or BackendVmIds is required.
	BackendVmIds []id.Vm
	// The name of the load balancer.
	LoadBalancerName id.LoadBalancer `api:"required"`
}

func (region Region) linkLoadBalancerBackendMachines(tx *resource.Tx, req *LinkLoadBalancerBackendMachinesRequest) error {
	if len(req.BackendIps) == 0 && len(req.BackendVmIds) == 0 {
		return apierror.MissingParameter.Errorf("BackendIps or BackendVmIds is required.")
	}
	for _, ip := range once(req.BackendIps) {
		if err := region.Network.CheckBackendIp(tx, ip); err != nil {
			return err
		}
	}
	return link(tx, req.LoadBalancerName, req.BackendVmIds, req.BackendIps)
}

// RegisterVmsInLoadBalancerRequest adds VMs to the backends of a load balancer. One
// that is a backend already stays one.
type RegisterVmsInLoadBalancerRequest struct {
	// One or more IDs of VMs, all of them in the Net of the load balancer or, if it is in the public
	// Cloud, there.
	BackendVmIds []id.Vm `api:"required"`
	// The name of the load balancer.
	LoadBalancerName id.LoadBalancer `api:"required"`
}

func registerVmsInLoadBalancer(tx *resource.Tx, req *RegisterVmsInLoadBalancerRequest) error {
	if len(req.BackendVmIds) == 0 {
		return apierror.MissingParameter.Errorf("BackendVmIds is empty: name the VMs.")
	}
	return link(tx, req.LoadBalancerName, req.BackendVmIds, nil)
}

// link adds backends to a load balancer.
func link(tx *resource.Tx, name id.LoadBalancer, vms []id.Vm, ips []api.IPv4) error {
	lb, err := changing(tx, name, balancerRelinked)
	if err != nil {
		return err
	}
	if err := lb.checkVms(tx, once(vms)); err != nil {
		return err
	}
	linkedVms, linkedIps := once(slices.Concat(lb.BackendVmIds, vms)), once(slices.Concat(lb.BackendIps, ips))
	if n := len(linkedVms) + len(linkedIps); n > maxBackends {
		return apierror.TooManyVms.Errorf("The load balancer %s would have %d backends: it can have %d.", name, n, maxBackends)
	}
	return lb.setBackends(tx, linkedVms, linkedIps)
}

// checkVms refuses VMs that are not in the network of a load balancer.
func (lb *LoadBalancer) checkVms(tx *resource.Tx, vms []id.Vm) error {
	for _, vm := range vms {
		if _, err := compute.Vms.Get(tx, vm); err != nil {
			return err
		}
		nics := network.VmNics(tx, vm)
		if len(nics) > 0 && nics[0].NetId == lb.NetId {
			continue
		}
		where := "the public Cloud"
		if lb.NetId != "" {
			where = string(lb.NetId)
		}
		return apierror.NetworkMismatch.Errorf("The VM %s is not in %s, where the load balancer %s is.", vm, where, lb.LoadBalancerName)
	}
	return nil
}

// setBackends gives a load balancer other backends, if they are others.
func (lb *LoadBalancer) setBackends(tx *resource.Tx, vms []id.Vm, ips []api.IPv4) error {
	if slices.Equal(vms, lb.BackendVmIds) && slices.Equal(ips, lb.BackendIps) {
		return nil
	}
	lb.BackendVmIds, lb.BackendIps = vms, ips
	lb.Addresses = lb.addresses(tx)
	return lb.save(tx, balancerRelinked)
}

// addresses returns the current addresses of the VMs among the backends.
func (lb *LoadBalancer) addresses(tx *resource.Tx) (all []backendAddress) {
	for _, vm := range lb.BackendVmIds {
		all = append(all, backendAddress{vm, addressOf(tx, vm)})
	}
	return all
}

// addressOf is where a VM receives; empty: it does not run.
func addressOf(tx *resource.Tx, vm id.Vm) api.IPv4 {
	v := compute.Vms.Find(tx, vm)
	nics := network.VmNics(tx, vm)
	if v == nil || v.State != compute.VmRunning || len(nics) == 0 {
		return ""
	}
	return nics[0].PrivateIps[0].PrivateIp
}

// UnlinkLoadBalancerBackendMachinesRequest takes backends from a load balancer. What
// is no backend of it is no error.
type UnlinkLoadBalancerBackendMachinesRequest struct {
	BackendIps       []api.IPv4      // One or more public IPs of backends. BackendIps or BackendVmIds is required.
	BackendVmIds     []id.Vm         // One or more IDs of VMs. BackendIps or BackendVmIds is required.
	LoadBalancerName id.LoadBalancer `api:"required"` // The name of the load balancer.
}

func unlinkLoadBalancerBackendMachines(tx *resource.Tx, req *UnlinkLoadBalancerBackendMachinesRequest) error {
	if len(req.BackendIps) == 0 && len(req.BackendVmIds) == 0 {
		return apierror.MissingParameter.Errorf("BackendIps or BackendVmIds is required.")
	}
	return unlink(tx, req.LoadBalancerName, req.BackendVmIds, req.BackendIps)
}

// DeregisterVmsInLoadBalancerRequest takes VMs from the backends of a load balancer.
// One that is no backend of it is no error.
type DeregisterVmsInLoadBalancerRequest struct {
	BackendVmIds     []id.Vm         `api:"required"` // One or more IDs of VMs.
	LoadBalancerName id.LoadBalancer `api:"required"` // The name of the load balancer.
}

func deregisterVmsInLoadBalancer(tx *resource.Tx, req *DeregisterVmsInLoadBalancerRequest) error {
	if len(req.BackendVmIds) == 0 {
		return apierror.MissingParameter.Errorf("BackendVmIds is empty: name the VMs.")
	}
	return unlink(tx, req.LoadBalancerName, req.BackendVmIds, nil)
}

// unlink takes backends from a load balancer.
func unlink(tx *resource.Tx, name id.LoadBalancer, vms []id.Vm, ips []api.IPv4) error {
	lb, err := changing(tx, name, balancerRelinked)
	if err != nil {
		return err
	}
	for _, vm := range once(vms) {
		if _, err := compute.Vms.Get(tx, vm); err != nil {
			return err
		}
	}
	return lb.setBackends(tx, without(lb.BackendVmIds, vms), without(lb.BackendIps, ips))
}

// without is a list without what is in another.
func without[T comparable](list, removed []T) []T {
	gone := map[T]bool{}
	for _, v := range removed {
		gone[v] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return gone[v] })
}

// VmEnded takes a VM that is terminated from the load balancers and listener rules
// that forward to it.
func VmEnded(tx *resource.Tx, vm id.Vm) error {
	var changed []id.LoadBalancer
	for rule := range ListenerRules.Of(tx, vm) {
		rule.VmIds = without(rule.VmIds, []id.Vm{vm})
		if err := ListenerRules.Put(tx, rule); err != nil {
			return err
		}
		changed = append(changed, rule.LoadBalancerName)
	}
	for lb := range LoadBalancers.Of(tx, vm) {
		lb.BackendVmIds = without(lb.BackendVmIds, []id.Vm{vm})
		lb.Addresses = slices.DeleteFunc(slices.Clone(lb.Addresses), func(a backendAddress) bool { return a.VmId == vm })
		if err := LoadBalancers.Put(tx, lb); err != nil {
			return err
		}
		changed = append(changed, lb.LoadBalancerName)
	}
	for _, name := range once(changed) {
		if err := relinked(tx, LoadBalancers.Find(tx, name)); err != nil {
			return err
		}
	}
	return nil
}

// relinked notifies the driver of what has become of the backends of a load
// balancer, unless that is being deleted.
func relinked(tx *resource.Tx, lb *LoadBalancer) error {
	if !resource.Allows(LoadBalancers, lb, balancerRelinked) {
		return LoadBalancers.Put(tx, lb)
	}
	return lb.save(tx, balancerRelinked)
}
