package balancer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/balancer"
)

func TestBalancerNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]apierror.Code{
		"a": 0, "web": 0, "Web-2": 0, "2": 0, strings.Repeat("a", 32): 0, "a--b": 0,
		"": apierror.InvalidLength, strings.Repeat("a", 33): apierror.InvalidLength,
		"-": apierror.InvalidBalancerName, "-a": apierror.InvalidBalancerName, "a-": apierror.InvalidBalancerName,
		"a_b": apierror.InvalidBalancerName, "a b": apierror.InvalidBalancerName,
		"é": apierror.InvalidBalancerName, "a\n": apierror.InvalidBalancerName,
	} {
		err := balancer.BalancerName(name).Check()
		if err == nil && want != 0 || err != nil && !want.Is(err) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		"": true, "*.example.com": true, "a-b.c?": true, "*.*.*": true, strings.Repeat("a", 128): true,
		strings.Repeat("a", 129): false,
		"*.*.*.*":                false, "*.?.?.*": false, "a/b": false, "a_b": false, "a b": false, "é": false, "a\n": false,
	} {
		if err := balancer.HostPattern(pattern).Check(); (err == nil) != want {
			t.Errorf("the pattern of host names %q: %v", pattern, err)
		}
	}
	for pattern, want := range map[string]bool{
		"": true, "/docs/*": true, `_-.$/~"'@:+?`: true, "*.abc.*.abc.*.com": true, strings.Repeat("a", 128): true,
		strings.Repeat("a", 129): false,
		"/*/*/*/*":               false, "/?/?/?/?": false, "a b": false, "/a&b": false, "/%20": false, "é": false, "/\n": false,
	} {
		if err := balancer.PathPattern(pattern).Check(); (err == nil) != want {
			t.Errorf("the pattern of paths %q: %v", pattern, err)
		}
	}
}

func TestProtocolsThatGoTogether(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.create("web")
	port := 100
	for _, group := range [][]string{{"HTTP", "HTTPS"}, {"TCP", "SSL"}, {"UDP"}} {
		for _, backend := range []string{"HTTP", "HTTPS", "TCP", "SSL", "UDP"} {
			port++
			body := fmt.Sprintf(`{"LoadBalancerName": "web", "Listeners": [{"BackendPort": 80, "BackendProtocol": %q,
				"LoadBalancerPort": %d, "LoadBalancerProtocol": %q}]}`, backend, port, group[0])
			_, err := l.try("CreateLoadBalancerListeners", "%s", body)
			switch together := strings.Contains(strings.Join(group, " "), backend) && (group[0] != "TCP" || backend != "HTTPS"); {
			case together && err != nil:
				t.Errorf("%s to %s: %v", group[0], backend, err)
			case !together && !apierror.InvalidListener.Is(err):
				t.Errorf("%s to %s: %v, want %s", group[0], backend, err, apierror.InvalidListener)
			}
		}
	}
}

func TestHealthChecks(t *testing.T) {
	t.Parallel()
	good := balancer.HealthCheck{CheckInterval: 5, HealthyThreshold: 2, Port: 1, Protocol: balancer.TCP, Timeout: 2, UnhealthyThreshold: 2}
	for name, tt := range map[string]struct {
		change func(*balancer.HealthCheck)
		want   apierror.Code
	}{
		"least":             {func(*balancer.HealthCheck) {}, 0},
		"most":              {func(c *balancer.HealthCheck) { *c = balancer.HealthCheck{600, 10, "", 65535, balancer.SSL, 60, 10} }, 0},
		"a path":            {func(c *balancer.HealthCheck) { c.Protocol, c.Path = balancer.HTTPS, "/a?b=c" }, 0},
		"no path":           {func(c *balancer.HealthCheck) { c.Protocol = balancer.HTTP }, 0},
		"short interval":    {func(c *balancer.HealthCheck) { c.CheckInterval = 4 }, apierror.InvalidListener},
		"long interval":     {func(c *balancer.HealthCheck) { c.CheckInterval = 601 }, apierror.InvalidListener},
		"soon healthy":      {func(c *balancer.HealthCheck) { c.HealthyThreshold = 1 }, apierror.InvalidListener},
		"late healthy":      {func(c *balancer.HealthCheck) { c.HealthyThreshold = 11 }, apierror.InvalidListener},
		"soon unhealthy":    {func(c *balancer.HealthCheck) { c.UnhealthyThreshold = 1 }, apierror.InvalidListener},
		"late unhealthy":    {func(c *balancer.HealthCheck) { c.UnhealthyThreshold = 11 }, apierror.InvalidListener},
		"short timeout":     {func(c *balancer.HealthCheck) { c.Timeout = 1 }, apierror.InvalidListener},
		"long timeout":      {func(c *balancer.HealthCheck) { c.Timeout = 61 }, apierror.InvalidListener},
		"no port":           {func(c *balancer.HealthCheck) { c.Port = 0 }, apierror.InvalidListener},
		"high port":         {func(c *balancer.HealthCheck) { c.Port = 65536 }, apierror.InvalidListener},
		"UDP":               {func(c *balancer.HealthCheck) { c.Protocol = balancer.UDP }, apierror.InvalidListener},
		"a path of TCP":     {func(c *balancer.HealthCheck) { c.Path = "/" }, apierror.InvalidListener},
		"a path without /":  {func(c *balancer.HealthCheck) { c.Protocol, c.Path = balancer.HTTP, "a" }, apierror.InvalidListener},
		"a path with lines": {func(c *balancer.HealthCheck) { c.Protocol, c.Path = balancer.HTTP, "/\r\nHost: x" }, apierror.InvalidListener},
		"a long path": {
			func(c *balancer.HealthCheck) { c.Protocol, c.Path = balancer.HTTP, "/"+strings.Repeat("a", 1024) }, apierror.InvalidLength,
		},
	} {
		check := good
		tt.change(&check)
		if err := check.Check(); err == nil && tt.want != 0 || err != nil && !tt.want.Is(err) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// Whatever a caller can make grow has a bound.
func TestBounds(t *testing.T) {
	t.Parallel()
	l := setup(t, map[string]int{"lb_limit": 2, "lb_listeners_limit": 3, "lb_rules_limit": 2})
	l.create("web")
	l.create("shop")
	l.refuse(apierror.TooManyLoadBalancers, "2 of 2", "CreateLoadBalancer",
		`{"LoadBalancerName": "more", "SubregionNames": ["test-1a"], "Listeners": [%s]}`, listening)

	listener := `{"BackendPort": 80, "LoadBalancerPort": %d, "LoadBalancerProtocol": "HTTP"}`
	l.call("CreateLoadBalancerListeners", `{"LoadBalancerName": "web", "Listeners": [`+listener+`, `+listener+`]}`, 81, 82)
	l.refuse(apierror.TooManyListeners, "lb_listeners_limit is 3", "CreateLoadBalancerListeners",
		`{"LoadBalancerName": "web", "Listeners": [`+listener+`]}`, 83)
	l.refuse(apierror.TooManyListeners, "lb_listeners_limit is 3", "CreateLoadBalancerListeners",
		`{"LoadBalancerName": "shop", "Listeners": [`+listener+`, `+listener+`, `+listener+`]}`, 81, 82, 83)

	for i := range 100 {
		l.call("CreateLoadBalancerPolicy", `{"LoadBalancerName": "web", "PolicyName": "policy-%d", "PolicyType": "load_balancer"}`, i)
	}
	l.refuse(apierror.InsufficientCapacity, "at most 100 policies", "CreateLoadBalancerPolicy",
		`{"LoadBalancerName": "web", "PolicyName": "more", "PolicyType": "app", "CookieName": "a"}`)

	ips := make([]string, 1000)
	for i := range ips {
		ips[i] = fmt.Sprintf(`"198.51.%d.%d"`, i/250, i%250)
	}
	l.call("LinkLoadBalancerBackendMachines", `{"LoadBalancerName": "web", "BackendIps": [%s]}`, strings.Join(ips, ","))
	l.refuse(apierror.TooManyVms, "1001 backends", "LinkLoadBalancerBackendMachines",
		`{"LoadBalancerName": "web", "BackendIps": ["203.0.113.1"]}`)

	tags := make([]string, 50)
	for i := range tags {
		tags[i] = fmt.Sprintf(`{"Key": "%d", "Value": ""}`, i)
	}
	l.call("CreateLoadBalancerTags", `{"LoadBalancerNames": ["web"], "Tags": [%s]}`, strings.Join(tags, ","))
	l.refuse(apierror.TooManyTags, "51 tags", "CreateLoadBalancerTags",
		`{"LoadBalancerNames": ["shop", "web"], "Tags": [{"Key": "more", "Value": ""}]}`)
	if tags := l.shown("shop")["Tags"].([]any); len(tags) > 0 {
		t.Errorf("the tags of one that could have them are %v after a refusal", tags)
	}

	vm := l.vms(1)[0]
	rule := `{"Listener": {"LoadBalancerName": "web", "LoadBalancerPort": 80}, "VmIds": [%q],
		"ListenerRule": {"PathPattern": "/", "ListenerRuleName": "rule-%d", "Priority": %[2]d}}`
	l.call("CreateListenerRule", rule, vm, 1)
	l.call("CreateListenerRule", rule, vm, 2)
	l.refuse(apierror.TooManyListenerRules, "2 of 2", "CreateListenerRule", rule, vm, 3)
}
