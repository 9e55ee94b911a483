package balancer

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ApplicationStickyCookiePolicy keeps a session with one backend as long as a cookie
// of the application lives.
type ApplicationStickyCookiePolicy struct {
	CookieName string // The name of the cookie of the application.
	PolicyName string // The name of the policy, unique in the load balancer.
}

// LoadBalancerStickyCookiePolicy keeps a session with one backend by a cookie of the
// load balancer.
type LoadBalancerStickyCookiePolicy struct {
	CookieExpirationPeriod int    // The seconds after which the cookie expires; 1: at the end of the browser's session.
	PolicyName             string // The name of the policy, unique in the load balancer.
}

func policyActions() []api.Action {
	return []api.Action{
		api.Do("LoadBalancerPolicy", createLoadBalancerPolicy),
		api.Do("LoadBalancerPolicy", deleteLoadBalancerPolicy),
	}
}

// PolicyName is the name that a policy is given.
type PolicyName string

var policyNames = regexp.MustCompile(`^[A-Za-z0-9-]{1,32}$`)

// Check reports a name that no policy can have.
func (n PolicyName) Check() error {
	if !policyNames.MatchString(string(n)) {
		return apierror.InvalidPolicyName.Errorf("'%.100s' is not a name of 1 to 32 alphanumeric characters and hyphens.", string(n))
	}
	return nil
}

// CookieName is the name of a cookie, a token of RFC 6265.
type CookieName string

var cookieNames = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$")

// Check reports a name that no cookie can have.
func (n CookieName) Check() error {
	if !cookieNames.MatchString(string(n)) {
		return apierror.InvalidCookieName.Errorf(
			"'%.100s' is not the name of a cookie, of 1 to 255 characters and none of them a separator.", string(n))
	}
	return nil
}

// CookiePeriod is the lifetime of a cookie in seconds.
type CookiePeriod int

const maxPeriod = 10 * 365 * 24 * 60 * 60

// Bounds implements [api.Bounded].
func (CookiePeriod) Bounds() (low, high int64) { return 1, maxPeriod }

// Check reports a lifetime that no cookie can have.
func (p CookiePeriod) Check() error {
	if p < 1 || p > maxPeriod {
		return apierror.InvalidCookiePeriod.Errorf("%d is not a number of seconds from 1 to %d.", p, maxPeriod)
	}
	return nil
}

// PolicyType says whose cookie keeps a session with one backend.
type PolicyType string

// The types of policies.
const (
	ByApplication  PolicyType = "app"
	ByLoadBalancer PolicyType = "load_balancer"
)

// Literals implements [api.Enum].
func (PolicyType) Literals() []string { return []string{"load_balancer", "app"} }

// CreateLoadBalancerPolicyRequest makes a policy that keeps a session with one
// backend. It has an effect once UpdateLoadBalancer enables it for a listener.
type CreateLoadBalancerPolicyRequest struct {
	// The seconds after which the cookie of the load balancer expires. By default 1, which means at the
	// end of the browser's session.
	CookieExpirationPeriod CookiePeriod
	// The name of the cookie of the application, of 1 to 255 characters. It is required for the type `app`.
	CookieName CookieName
	// The name of the load balancer.
	LoadBalancerName id.LoadBalancer `api:"required"`
	// A name that no other policy of the load balancer has, of 1 to 32 alphanumeric characters and hyphens.
	PolicyName PolicyName `api:"required"`
	// Who sets the cookie: the application (`app`) or the load balancer (`load_balancer`).
	PolicyType PolicyType `api:"required"`
}

// maxPolicies bounds the policies of a load balancer. The real number is not
// published.
const maxPolicies = 100

func createLoadBalancerPolicy(tx *resource.Tx, req *CreateLoadBalancerPolicyRequest) (*LoadBalancerResponse, error) {
	lb, err := changing(tx, req.LoadBalancerName, balancerChanged)
	if err != nil {
		return nil, err
	}
	name := string(req.PolicyName)
	switch {
	case lb.hasPolicy(name):
		return nil, apierror.BalancerPolicyExists.Errorf("The load balancer %s has the policy '%s' already.", lb.LoadBalancerName, name)
	case len(lb.ApplicationStickyCookiePolicies)+len(lb.LoadBalancerStickyCookiePolicies) >= maxPolicies:
		return nil, apierror.InsufficientCapacity.Errorf("A load balancer has at most %d policies.", maxPolicies)
	case req.PolicyType == ByApplication && req.CookieName == "":
		return nil, apierror.MissingParameter.Errorf("CookieName is required for a policy of the type %s.", ByApplication)
	case req.PolicyType == ByApplication && req.CookieExpirationPeriod != 0:
		return nil, apierror.IncompatibleParameters.Errorf(
			"CookieExpirationPeriod is for policies of the type %s: the cookie of an application expires by itself.", ByLoadBalancer)
	case req.PolicyType == ByLoadBalancer && req.CookieName != "":
		return nil, apierror.IncompatibleParameters.Errorf(
			"CookieName is for policies of the type %s, and PolicyType is %s.", ByApplication, ByLoadBalancer)
	}
	if req.PolicyType == ByApplication {
		lb.ApplicationStickyCookiePolicies = append(
			slices.Clip(lb.ApplicationStickyCookiePolicies), ApplicationStickyCookiePolicy{string(req.CookieName), name})
	} else {
		period := max(int(req.CookieExpirationPeriod), 1)
		lb.LoadBalancerStickyCookiePolicies = append(
			slices.Clip(lb.LoadBalancerStickyCookiePolicies), LoadBalancerStickyCookiePolicy{period, name})
	}
	// A policy that no listener has is nothing to a driver.
	if err := LoadBalancers.Put(tx, lb); err != nil {
		return nil, err
	}
	return lb.show(tx), nil
}

// byApplication is the policy of a name and of the type app, if there is one.
func (lb *LoadBalancer) byApplication(name string) (p ApplicationStickyCookiePolicy, ok bool) {
	for _, p := range lb.ApplicationStickyCookiePolicies {
		if p.PolicyName == name {
			return p, true
		}
	}
	return p, false
}

// byLoadBalancer is the policy of a name and of the type load_balancer, if there is
// one.
func (lb *LoadBalancer) byLoadBalancer(name string) (p LoadBalancerStickyCookiePolicy, ok bool) {
	for _, p := range lb.LoadBalancerStickyCookiePolicies {
		if p.PolicyName == name {
			return p, true
		}
	}
	return p, false
}

func (lb *LoadBalancer) hasPolicy(name string) bool {
	_, app := lb.byApplication(name)
	_, own := lb.byLoadBalancer(name)
	return app || own
}

func (lb *LoadBalancer) missPolicy(name string) error {
	return apierror.BalancerPolicyNotFound.Errorf("The load balancer %s has no policy '%.100s'.", lb.LoadBalancerName, name)
}

// enable enables policies, each named once, for a listener, in place of those that
// are. They are of HTTP, and one listener has one.
func (lb *LoadBalancer) enable(l *Listener, policies []string) error {
	var apps, own []string
	for _, name := range policies {
		if _, ok := lb.byApplication(name); ok {
			apps = append(apps, name)
		} else if _, ok := lb.byLoadBalancer(name); ok {
			own = append(own, name)
		} else {
			return lb.missPolicy(name)
		}
	}
	refuse := func(code apierror.Code) error {
		return code.Errorf("The policies %s cannot be enabled together for the listener on the port %d: a listener has one.",
			strings.Join(policies, ", "), l.LoadBalancerPort)
	}
	switch {
	case len(apps) > 0 && len(own) > 0:
		return refuse(apierror.MixedPolicies)
	case len(apps) > 1:
		return refuse(apierror.SeveralCookiePolicies)
	case len(own) > 1:
		return refuse(apierror.SeveralDurationPolicies)
	case len(policies) > 0 && !l.LoadBalancerProtocol.carriesHttp():
		return apierror.PolicyWithoutHttp.Errorf("The policy '%s' is for listeners of HTTP and HTTPS, and that on the port %d is of %s.",
			policies[0], l.LoadBalancerPort, l.LoadBalancerProtocol)
	}
	l.PolicyNames = policies
	return nil
}

// DeleteLoadBalancerPolicyRequest deletes a policy that is enabled for no listener.
type DeleteLoadBalancerPolicyRequest struct {
	LoadBalancerName id.LoadBalancer `api:"required"` // The name of the load balancer.
	PolicyName       string          `api:"required"` // The name of the policy.
}

func deleteLoadBalancerPolicy(tx *resource.Tx, req *DeleteLoadBalancerPolicyRequest) (*LoadBalancerResponse, error) {
	lb, err := changing(tx, req.LoadBalancerName, balancerChanged)
	if err != nil {
		return nil, err
	}
	if !lb.hasPolicy(req.PolicyName) {
		return nil, lb.missPolicy(req.PolicyName)
	}
	for _, l := range lb.Listeners {
		if slices.Contains(l.PolicyNames, req.PolicyName) {
			return nil, apierror.BalancerPolicyInUse.Errorf(
				"The policy '%s' is enabled for the listener on the port %d.", req.PolicyName, l.LoadBalancerPort)
		}
	}
	lb.ApplicationStickyCookiePolicies = slices.DeleteFunc(slices.Clone(lb.ApplicationStickyCookiePolicies),
		func(p ApplicationStickyCookiePolicy) bool { return p.PolicyName == req.PolicyName })
	lb.LoadBalancerStickyCookiePolicies = slices.DeleteFunc(slices.Clone(lb.LoadBalancerStickyCookiePolicies),
		func(p LoadBalancerStickyCookiePolicy) bool { return p.PolicyName == req.PolicyName })
	if err := LoadBalancers.Put(tx, lb); err != nil {
		return nil, err
	}
	return lb.show(tx), nil
}
