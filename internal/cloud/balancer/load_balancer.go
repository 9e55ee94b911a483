// Package balancer is the home of load balancers, which are not built yet: there
// are none, and none can be made. They can be read, because tools ask for the
// load balancers of a security group before they delete it.
package balancer

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
)

// Actions are the actions of this package.
func Actions() []api.Action {
	return []api.Action{api.Read[ReadLoadBalancersRequest](api.Fixed[LoadBalancer]("LoadBalancer", "LoadBalancers", nil))}
}

// LoadBalancer distributes requests to VMs.
type LoadBalancer struct {
	AccessLog AccessLog // Where the requests are logged.
	// The policies that keep a session with one VM by a cookie of the application.
	ApplicationStickyCookiePolicies []ApplicationStickyCookiePolicy

	BackendIps       []string    // The public IPs of the VMs.
	BackendVmIds     []id.Vm     // The IDs of the VMs.
	DnsName          string      // The DNS name of the load balancer.
	HealthCheck      HealthCheck // How the VMs are checked.
	Listeners        []Listener  // What the load balancer listens to.
	LoadBalancerName string      // The name of the load balancer.
	// The policies that keep a session with one VM by a cookie of the load balancer.
	LoadBalancerStickyCookiePolicies []LoadBalancerStickyCookiePolicy

	// Whether it is reached from the Internet (`internet-facing`) or from its Net (`internal`).
	LoadBalancerType string
	NetId            id.Net // The ID of the Net.
	// The private IP of an internal load balancer.
	PrivateIp string `wire:"omitempty"`
	// The public IP of an internet-facing load balancer.
	PublicIp            string              `wire:"omitempty"`
	SecuredCookies      bool                // Whether cookies are only sent over HTTPS.
	SecurityGroups      []id.SecurityGroup  // The IDs of the security groups.
	SourceSecurityGroup SourceSecurityGroup // The security group that the VMs let in.
	// `provisioning`, `starting`, `reloading`, `active`, `reconfiguring`, `deleting` or `deleted`.
	State          string
	Subnets        []id.Subnet // The IDs of the Subnets.
	SubregionNames []string    // The names of the Subregions.
	Tags           []api.Tag   // The tags of the load balancer.
}

// AccessLog says where the requests to a load balancer are logged.
type AccessLog struct {
	IsEnabled           bool   // Whether they are logged.
	OsuBucketName       string `wire:"omitempty"` // The bucket that the logs are in.
	OsuBucketPrefix     string `wire:"omitempty"` // Where in the bucket they are.
	PublicationInterval int    // The minutes between two logs: 5 or 60.
}

// ApplicationStickyCookiePolicy keeps a session with one VM by a cookie of the
// application.
type ApplicationStickyCookiePolicy struct {
	CookieName string // The name of the cookie.
	PolicyName string // The name of the policy.
}

// HealthCheck says how the VMs of a load balancer are checked.
type HealthCheck struct {
	CheckInterval int `api:"required"` // The seconds between two checks, from 5 to 600.
	// After how many good checks a VM is healthy, from 2 to 10.
	HealthyThreshold int    `api:"required"`
	Path             string `wire:"omitempty"` // The path that HTTP and HTTPS checks ask for.
	Port             int    `api:"required"`   // The port, from 1 to 65535.
	Protocol         string `api:"required"`   // `HTTP`, `HTTPS`, `TCP` or `SSL`.
	// The seconds that an answer may take, from 2 to 60.
	Timeout int `api:"required"`
	// After how many bad checks a VM is unhealthy, from 2 to 10.
	UnhealthyThreshold int `api:"required"`
}

// Listener is a port of a load balancer and where its requests go.
type Listener struct {
	BackendPort      int    // The port of the VMs, from 1 to 65535.
	BackendProtocol  string // The protocol to the VMs: `HTTP`, `HTTPS`, `TCP` or `SSL`.
	LoadBalancerPort int    // The port of the load balancer, from 1 to 65535.
	// The protocol to the load balancer: `HTTP`, `HTTPS`, `TCP` or `SSL`.
	LoadBalancerProtocol string
	PolicyNames          []string // The names of the policies.
	ServerCertificateId  string   `wire:"omitempty"` // The resource name of the server certificate.
}

// LoadBalancerStickyCookiePolicy keeps a session with one VM by a cookie of the
// load balancer.
type LoadBalancerStickyCookiePolicy struct {
	CookieExpirationPeriod int    // The seconds after which the cookie expires.
	PolicyName             string // The name of the policy.
}

// SourceSecurityGroup is the security group that the VMs of a load balancer let in.
type SourceSecurityGroup struct {
	SecurityGroupAccountId id.Account // The account ID of the owner of the group.
	SecurityGroupName      string     // The name of the group.
}

// ReadLoadBalancersRequest asks for load balancers, of which there are none yet.
type ReadLoadBalancersRequest struct {
	Filters *FiltersLoadBalancer // One or more filters.
}

// FiltersLoadBalancer selects load balancers.
type FiltersLoadBalancer struct {
	LoadBalancerNames []string // The names of the load balancers.
	States            []string // The states of the load balancers.
}
