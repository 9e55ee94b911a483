package balancer

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// LoadBalancer distributes what it receives to VMs: in a [network.Net] or in the
// public Cloud.
type LoadBalancer struct {
	// Where the requests are logged.
	AccessLog AccessLog
	// The policies that keep a session with one backend by a cookie of the application.
	ApplicationStickyCookiePolicies []ApplicationStickyCookiePolicy
	// The public IPs of backends that are named by them.
	BackendIps []api.IPv4
	// The IDs of the VMs that are backends.
	BackendVmIds []id.Vm `ref:"weak"`
	// The DNS name of the load balancer.
	DnsName string
	// How the backends are checked.
	HealthCheck HealthCheck
	// What the load balancer listens to.
	Listeners []Listener
	// The name of the load balancer, unique in the account.
	LoadBalancerName id.LoadBalancer
	// The policies that keep a session with one backend by a cookie of the load balancer.
	LoadBalancerStickyCookiePolicies []LoadBalancerStickyCookiePolicy
	// Whether it has a public IP (`internet-facing`) or is reached in its Net only (`internal`).
	LoadBalancerType BalancerType
	// The ID of the Net that it is in; absent in the public Cloud.
	NetId id.Net
	// The private IP of a load balancer in a Net; absent until it has one, and in the public Cloud.
	PrivateIp api.IPv4 `json:"-" wire:"omitempty"`
	// The public IP of an internet-facing load balancer.
	PublicIp api.IPv4 `json:"-" wire:"omitempty"`
	// Whether stickiness cookies are only sent over HTTPS.
	SecuredCookies bool
	// The IDs of the security groups that it is in.
	SecurityGroups []id.SecurityGroup
	// The security group to let in where the backends are to receive from load balancers only.
	SourceSecurityGroup SourceSecurityGroup `json:"-"`
	// The state of the load balancer.
	State BalancerState
	// The ID of the Subnet that it is in; empty in the public Cloud.
	Subnets []id.Subnet
	// The name of the Subregion that it is in.
	SubregionNames []string
	// The tags of the load balancer.
	Tags []api.Tag

	// NicId is the NIC that has its addresses, which no caller is shown.
	NicId id.Nic `wire:"-" ref:"weak"`
	// Addresses has the address of each VM among the backends, in their order.
	Addresses []backendAddress `wire:"-"`

	// Generation and ObservedGeneration are as in [network.Net].
	Generation         uint64 `wire:"-"`
	ObservedGeneration uint64 `wire:"-"`
}

// Pending reports whether the driver is behind.
func (lb *LoadBalancer) Pending() bool {
	return lb.ObservedGeneration < lb.Generation || lb.State == BalancerDeleting
}

// LoadBalancers are the load balancers of the region. Their names identify them.
var LoadBalancers = &resource.Kind[LoadBalancer, id.LoadBalancer]{
	Name:      "LoadBalancer",
	NotFound:  apierror.LoadBalancerNotFound,
	Quota:     &resource.Quota{Name: "lb_limit", Code: apierror.TooManyLoadBalancers},
	Life:      balancerLife,
	Forbidden: apierror.InvalidBalancerState,
}

// SourceSecurityGroup is a security group as rules of others name it.
type SourceSecurityGroup struct {
	SecurityGroupAccountId id.Account `ref:"-"` // The account ID of the owner of the security group.
	SecurityGroupName      string     // The name of the security group.
}

// cloudGroup is the group of the load balancers of the public Cloud.
const cloudGroup = "outscale-elb-sg"

// BalancerType says from where a load balancer is reached.
type BalancerType string

// The types of load balancers.
const (
	InternetFacing BalancerType = "internet-facing"
	Internal       BalancerType = "internal"
)

// Check reports a text that is no type.
func (t BalancerType) Check() error {
	if t != InternetFacing && t != Internal {
		return apierror.InvalidBalancerType.Errorf("'%.100s' is neither %s nor %s.", string(t), InternetFacing, Internal)
	}
	return nil
}

func loadBalancerActions(region Region) []api.Action {
	return []api.Action{
		api.Do("LoadBalancer", region.createLoadBalancer),
		api.Read[ReadLoadBalancersRequest](api.NewResource(LoadBalancers, view)),
		api.Do("LoadBalancer", deleteLoadBalancer),
	}
}

// LoadBalancerResponse shows a load balancer.
type LoadBalancerResponse struct {
	LoadBalancer *LoadBalancer // The load balancer.
}

// show is the answer to a call that has changed a load balancer.
func (lb *LoadBalancer) show(tx *resource.Tx) *LoadBalancerResponse {
	shown := *lb
	return &LoadBalancerResponse{view(tx, &shown)}
}

// view completes a copy of a load balancer with what its NIC, its group and its
// certificates say.
func view(tx *resource.Tx, lb *LoadBalancer) *LoadBalancer {
	if nic := network.Nics.Find(tx, lb.NicId); nic != nil {
		lb.PublicIp = nic.PublicAddress(tx)
		if lb.NetId != "" && lb.State != BalancerProvisioning {
			lb.PrivateIp = nic.PrivateIps[0].PrivateIp
		}
	}
	lb.SourceSecurityGroup = SourceSecurityGroup{id.Balancers, cloudGroup}
	if lb.NetId != "" {
		lb.SourceSecurityGroup = SourceSecurityGroup{SecurityGroupAccountId: id.Account(tx.Account())}
		if g := network.SecurityGroups.Find(tx, lb.SecurityGroups[0]); g != nil {
			lb.SourceSecurityGroup.SecurityGroupName = g.SecurityGroupName
		}
	}
	lb.Listeners = shownListeners(tx, lb.Listeners)
	return lb
}

// balancerNamed finds the load balancer of a name.
func balancerNamed(tx *resource.Tx, name id.LoadBalancer) (*LoadBalancer, error) {
	if lb := LoadBalancers.Find(tx, name); lb != nil {
		return lb, nil
	}
	return nil, apierror.LoadBalancerNotFound.NotFound("LoadBalancerName", string(name))
}

// ReadLoadBalancersRequest asks for load balancers.
type ReadLoadBalancersRequest struct {
	Filters *FiltersLoadBalancer // Which load balancers to list; all of them if absent.
}

// FiltersLoadBalancer selects load balancers.
type FiltersLoadBalancer struct {
	LoadBalancerNames []id.LoadBalancer `match:"glob"` // The names of the load balancers, in which `*` stands for any text.
	States            []BalancerState   // The states of the load balancers.
}

// DeleteLoadBalancerRequest deletes a load balancer, with its listeners and their
// rules.
type DeleteLoadBalancerRequest struct {
	LoadBalancerName id.LoadBalancer `api:"required"` // The name of the load balancer to delete.
}

func deleteLoadBalancer(tx *resource.Tx, req *DeleteLoadBalancerRequest) (*LoadBalancerResponse, error) {
	lb, err := changing(tx, req.LoadBalancerName, balancerDeleted)
	if err != nil {
		return nil, err
	}
	for rule := range ListenerRules.Of(tx, lb.LoadBalancerName) {
		if err := ListenerRules.Delete(tx, rule); err != nil {
			return nil, err
		}
	}
	if err := lb.save(tx, balancerDeleted); err != nil {
		return nil, err
	}
	return lb.show(tx), nil
}

// end gives back what a load balancer had, once the driver has nothing of it any
// more.
func end(tx *resource.Tx, lb *LoadBalancer) error {
	nic, err := network.Nics.Get(tx, lb.NicId)
	if err != nil {
		return err
	}
	if err := nic.Remove(tx); err != nil {
		return err
	}
	return LoadBalancers.Delete(tx, lb)
}
