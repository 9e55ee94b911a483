package balancer

import (
	"reflect"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// AccessLog says where the requests to a load balancer are logged.
type AccessLog struct {
	// Whether they are logged.
	IsEnabled bool
	// The bucket that the logs are in. It is required if they are enabled.
	OsuBucketName string `wire:"omitempty"`
	// The path to the logs in the bucket, by default its root.
	OsuBucketPrefix string `wire:"omitempty"`
	// The minutes between two logs: 5 or 60.
	PublicationInterval int `default:"60"`
}

// The most that a bucket and the path in it are called, in bytes.
const maxBucketName, maxBucketPrefix = 255, 512

// Check reports a log that cannot be written.
func (l AccessLog) Check() error {
	switch {
	case l.IsEnabled && l.OsuBucketName == "":
		return apierror.MissingParameter.Errorf("OsuBucketName is required where access logs are enabled.")
	case l.PublicationInterval != 5 && l.PublicationInterval != 60:
		return apierror.InvalidListener.Errorf("The PublicationInterval %d is neither 5 nor 60.", l.PublicationInterval)
	case len(l.OsuBucketName) > maxBucketName:
		return apierror.InvalidLength.Errorf("OsuBucketName has at most %d characters.", maxBucketName)
	case len(l.OsuBucketPrefix) > maxBucketPrefix:
		return apierror.InvalidLength.Errorf("OsuBucketPrefix has at most %d characters.", maxBucketPrefix)
	}
	return nil
}

// HealthCheck says how the backends of a load balancer are checked.
type HealthCheck struct {
	CheckInterval      int      `api:"required"`   // The seconds between two checks, from 5 to 600.
	HealthyThreshold   int      `api:"required"`   // How many consecutive checks that succeed make a backend healthy, from 2 to 10.
	Path               string   `wire:"omitempty"` // The path that `HTTP` and `HTTPS` checks ask for, by default `/`. It begins with a slash.
	Port               int      `api:"required"`   // The port of the backends, from 1 to 65535.
	Protocol           Protocol `api:"required"`   // The protocol: `HTTP`, `HTTPS`, `TCP` or `SSL`.
	Timeout            int      `api:"required"`   // The seconds that a response may take, from 2 to 60.
	UnhealthyThreshold int      `api:"required"`   // How many consecutive checks that fail make a backend unhealthy, from 2 to 10.
}

// defaultHealthCheck returns the health check of a load balancer without one of its own.
func defaultHealthCheck(port int) HealthCheck {
	return HealthCheck{CheckInterval: 30, HealthyThreshold: 10, Port: port, Protocol: TCP, Timeout: 5, UnhealthyThreshold: 2}
}

const maxPath = 1024

// Check reports a check that cannot be made.
func (c HealthCheck) Check() error {
	for _, n := range []struct {
		name             string
		value, low, high int
	}{
		{"CheckInterval", c.CheckInterval, 5, 600},
		{"HealthyThreshold", c.HealthyThreshold, 2, 10},
		{"Port", c.Port, lowestPort, highestPort},
		{"Timeout", c.Timeout, 2, 60},
		{"UnhealthyThreshold", c.UnhealthyThreshold, 2, 10},
	} {
		if n.value < n.low || n.value > n.high {
			return apierror.InvalidListener.Errorf("The %s %d is not between %d and %d.", n.name, n.value, n.low, n.high)
		}
	}
	switch {
	case c.Protocol == UDP:
		return apierror.InvalidListener.Errorf("The Protocol of a health check is HTTP, HTTPS, TCP or SSL, and not %s.", c.Protocol)
	case c.Path != "" && !c.Protocol.carriesHttp():
		return apierror.InvalidListener.Errorf("The Path of a health check is for HTTP and HTTPS, and its Protocol is %s.", c.Protocol)
	case c.Path != "" && !strings.HasPrefix(c.Path, "/"):
		return apierror.InvalidListener.Errorf("The Path '%.100s' does not begin with a slash.", c.Path)
	case len(c.Path) > maxPath:
		return apierror.InvalidLength.Errorf("The Path of a health check has at most %d characters.", maxPath)
	case strings.ContainsFunc(c.Path, func(r rune) bool { return r <= ' ' || r > '~' }):
		return apierror.InvalidListener.Errorf("The Path %.100q has other than printable ASCII characters.", c.Path)
	}
	return nil
}

func updateActions(region Region) []api.Action {
	return []api.Action{api.Do("LoadBalancer", region.updateLoadBalancer)}
}

// UpdateLoadBalancerRequest changes one attribute of a load balancer.
type UpdateLoadBalancerRequest struct {
	// Where the requests are logged.
	AccessLog *AccessLog
	// How the backends are checked.
	HealthCheck *HealthCheck
	// The name of the load balancer.
	LoadBalancerName id.LoadBalancer `api:"required"`
	// The port of the listener that PolicyNames or ServerCertificateId is for.
	LoadBalancerPort BalancerPort
	// The names of the policies to enable for the listener on LoadBalancerPort, in place of those that
	// are; if the list is empty, none is. A listener has at most one policy.
	PolicyNames []string
	// A public IP of the account that nothing uses, for an internet-facing load balancer. If it is empty,
	// the region lends one. The former one is unlinked.
	PublicIp *string
	// Whether stickiness cookies are only sent over HTTPS.
	SecuredCookies *bool
	// The IDs of the security groups of the load balancer, in place of its present ones; if the list is
	// empty, the default one of its Net.
	SecurityGroups []id.SecurityGroup
	// The OUTSCALE Resource Name (ORN) of another server certificate for the listener on LoadBalancerPort.
	ServerCertificateId string
}

// attributes are the names of what a request changes.
func (req *UpdateLoadBalancerRequest) attributes() (names []string) {
	for name, given := range map[string]bool{
		"AccessLog": req.AccessLog != nil, "HealthCheck": req.HealthCheck != nil, "PolicyNames": req.PolicyNames != nil,
		"PublicIp": req.PublicIp != nil, "SecuredCookies": req.SecuredCookies != nil,
		"SecurityGroups": req.SecurityGroups != nil, "ServerCertificateId": req.ServerCertificateId != "",
	} {
		if given {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (region Region) updateLoadBalancer(tx *resource.Tx, req *UpdateLoadBalancerRequest) (*LoadBalancerResponse, error) {
	lb, err := changing(tx, req.LoadBalancerName, balancerUpdated)
	if err != nil {
		return nil, err
	}
	switch names := req.attributes(); {
	case len(names) == 0:
		return nil, apierror.MissingParameter.Errorf(
			"One of AccessLog, HealthCheck, PolicyNames, PublicIp, SecuredCookies, SecurityGroups and ServerCertificateId is required.")
	case len(names) > 1:
		together := strings.Join(names, " and ")
		return nil, apierror.IncompatibleParameters.Errorf("%s cannot be given together: a call changes one attribute.", together)
	}
	before, publicIp := *lb, view(tx, new(*lb)).PublicIp
	if err := region.apply(tx, lb, req); err != nil {
		return nil, err
	}
	if reflect.DeepEqual(before, *lb) && publicIp == view(tx, new(*lb)).PublicIp {
		return lb.show(tx), nil
	}
	if err := lb.save(tx, balancerUpdated); err != nil {
		return nil, err
	}
	return lb.show(tx), nil
}

// apply changes the attribute that a request names.
func (region Region) apply(tx *resource.Tx, lb *LoadBalancer, req *UpdateLoadBalancerRequest) error {
	switch {
	case req.AccessLog != nil:
		lb.AccessLog = *req.AccessLog
	case req.HealthCheck != nil:
		lb.HealthCheck = *req.HealthCheck
	case req.SecuredCookies != nil:
		lb.SecuredCookies = *req.SecuredCookies
	case req.PublicIp != nil:
		return region.setPublicIp(tx, lb, *req.PublicIp)
	case req.SecurityGroups != nil:
		return lb.setGroups(tx, once(req.SecurityGroups))
	default:
		return lb.updateListener(tx, req)
	}
	return nil
}

func (region Region) setPublicIp(tx *resource.Tx, lb *LoadBalancer, address string) error {
	if lb.LoadBalancerType == Internal {
		return apierror.InvalidParameterSet.Errorf("PublicIp is for internet-facing load balancers, and %s is %s.", lb.LoadBalancerName, Internal)
	}
	nic, err := network.Nics.Get(tx, lb.NicId)
	if err != nil {
		return err
	}
	return region.Network.SetBalancerIp(tx, nic, address)
}

// setGroups puts a load balancer and its NIC into other security groups.
func (lb *LoadBalancer) setGroups(tx *resource.Tx, groups []id.SecurityGroup) error {
	if slices.Equal(groups, lb.SecurityGroups) {
		return nil
	}
	nic, err := network.Nics.Get(tx, lb.NicId)
	if err != nil {
		return err
	}
	if err := nic.SetBalancerGroups(tx, groups); err != nil {
		return err
	}
	lb.SecurityGroups = nil
	for _, g := range nic.SecurityGroups {
		lb.SecurityGroups = append(lb.SecurityGroups, g.SecurityGroupId)
	}
	return nil
}

// updateListener changes the policies or the certificate of a listener.
func (lb *LoadBalancer) updateListener(tx *resource.Tx, req *UpdateLoadBalancerRequest) error {
	if req.LoadBalancerPort == 0 {
		return apierror.MissingParameter.Errorf("LoadBalancerPort is required with %s.", req.attributes()[0])
	}
	l, err := lb.listenerAt(int(req.LoadBalancerPort))
	if err != nil {
		return err
	}
	if req.ServerCertificateId != "" {
		err = l.prove(tx, req.ServerCertificateId)
	} else {
		err = lb.enable(&l, once(req.PolicyNames))
	}
	if err != nil {
		return err
	}
	lb.setListener(l)
	return nil
}
