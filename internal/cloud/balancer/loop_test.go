package balancer_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// A load balancer comes into its states as its driver does what they say.
func TestStates(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.create("web")
	l.is("web", "provisioning")
	step := func() {
		l.rest()
		l.clock.Advance(delay)
		l.rest()
	}
	step()
	l.is("web", "starting")
	step()
	l.is("web", "active")

	l.call("UpdateLoadBalancer", `{"LoadBalancerName": "web", "SecuredCookies": true}`)
	l.rest()
	l.is("web", "reconfiguring")
	if l.applied("web").SecuredCookies {
		t.Error("the change is applied before its time")
	}
	step()
	l.is("web", "active")
	if !l.applied("web").SecuredCookies {
		t.Error("the change is not applied")
	}

	l.call("LinkLoadBalancerBackendMachines", `{"LoadBalancerName": "web", "BackendIps": ["198.51.100.1"]}`)
	l.is("web", "reloading")
	l.call("UpdateLoadBalancer", `{"LoadBalancerName": "web", "SecuredCookies": false}`)
	l.is("web", "reconfiguring")
	l.settle()
	l.is("web", "active")

	l.call("DeleteLoadBalancer", `{"LoadBalancerName": "web"}`)
	l.rest()
	l.is("web", "deleting")
	step()
	if list := l.call("ReadLoadBalancers", `{}`)["LoadBalancers"].([]any); len(list) > 0 {
		t.Errorf("after its end, there is %v", list)
	}
	if all, err := l.drivers.ObserveBalancers(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("the driver still has %v: %v", all, err)
	}

	// Its name is free again, and a new one begins anew.
	l.create("web")
	l.settle()
	l.is("web", "active")
}

// What changes before a load balancer works does not keep it from working.
func TestChangesWhileStarting(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.create("web")
	l.call("UpdateLoadBalancer", `{"LoadBalancerName": "web", "SecuredCookies": true}`)
	l.call("LinkLoadBalancerBackendMachines", `{"LoadBalancerName": "web", "BackendIps": ["198.51.100.1"]}`)
	l.is("web", "provisioning")
	l.rest()
	l.clock.Advance(delay)
	l.rest()
	l.call("UpdateLoadBalancer", `{"LoadBalancerName": "web", "SecuredCookies": false}`)
	l.call("CreateLoadBalancerListeners",
		`{"LoadBalancerName": "web", "Listeners": [{"BackendPort": 80, "LoadBalancerPort": 81, "LoadBalancerProtocol": "TCP"}]}`)
	l.call("LinkLoadBalancerBackendMachines", `{"LoadBalancerName": "web", "BackendIps": ["198.51.100.2"]}`)
	l.is("web", "starting")
	l.settle()
	l.is("web", "active")
	if got := l.applied("web"); len(got.Listeners) != 2 || len(got.Backends) != 2 || got.SecuredCookies {
		t.Errorf("the driver has %+v", got.Balancer)
	}
}

// The driver is handed all that a load balancer goes by, as one value.
func TestTheWholeValue(t *testing.T) {
	t.Parallel()
	l := setup(t)
	vms := l.vms(2)
	l.create("web")
	l.settle()
	for _, change := range []string{
		`{"LoadBalancerName": "web", "HealthCheck": {"CheckInterval": 36, "HealthyThreshold": 3,
			"Path": "/health", "Port": 8080, "Protocol": "HTTP", "Timeout": 6, "UnhealthyThreshold": 4}}`,
		`{"LoadBalancerName": "web", "AccessLog": {"IsEnabled": true, "OsuBucketName": "logs", "OsuBucketPrefix": "web",
			"PublicationInterval": 5}}`,
		`{"LoadBalancerName": "web", "SecuredCookies": true}`,
	} {
		l.call("UpdateLoadBalancer", "%s", change)
		l.settle()
	}
	l.call("CreateLoadBalancerPolicy",
		`{"LoadBalancerName": "web", "PolicyName": "hour", "PolicyType": "load_balancer", "CookieExpirationPeriod": 3600}`)
	l.call("UpdateLoadBalancer", `{"LoadBalancerName": "web", "LoadBalancerPort": 80, "PolicyNames": ["hour"]}`)
	l.call("CreateLoadBalancerListeners",
		`{"LoadBalancerName": "web", "Listeners": [{"BackendPort": 25, "LoadBalancerPort": 25, "LoadBalancerProtocol": "TCP"}]}`)
	rule := `{"Listener": {"LoadBalancerName": "web", "LoadBalancerPort": %d}, "VmIds": [%q],
		"ListenerRule": {"HostNamePattern": "*.example.com", "PathPattern": "/docs/*", "ListenerRuleName": %q, "Priority": 7}}`
	l.call("CreateListenerRule", rule, 80, vms[1], "docs")
	l.call("CreateListenerRule", rule, 25, vms[1], "of no effect")
	l.call("LinkLoadBalancerBackendMachines",
		`{"LoadBalancerName": "web", "BackendVmIds": [%q, %q], "BackendIps": ["198.51.100.1"]}`, vms[0], vms[1])
	l.call("StopVms", `{"VmIds": [%q]}`, vms[1])
	l.settle()

	got, shown := l.applied("web"), l.shown("web")
	vm := l.call("ReadVms", `{"Filters": {"VmIds": [%q]}}`, vms[0])["Vms"].([]any)[0].(map[string]any)
	private := netip.MustParseAddr(vm["PrivateIp"].(string))
	want := driver.Balancer{
		Account: alice, ID: "web", Name: "web", DnsName: shown["DnsName"].(string), Subregions: []string{"test-1a"},
		Public: netip.MustParseAddr(shown["PublicIp"].(string)),
		Listeners: []driver.Listener{
			{
				Port: 80, Protocol: "HTTP", BackendPort: 80, BackendProtocol: "HTTP", Stickiness: &driver.Stickiness{Period: time.Hour},
				Rules: []driver.ListenerRule{{ID: "docs", Priority: 7, Host: "*.example.com", Path: "/docs/*", Backends: []string{vms[1]}}},
			},
			{Port: 25, Protocol: "TCP", BackendPort: 25, BackendProtocol: "TCP"},
		},
		Backends: []driver.Backend{
			{ID: vms[0], Address: private}, {ID: vms[1]}, {ID: "198.51.100.1", Address: netip.MustParseAddr("198.51.100.1")},
		},
		HealthCheck: driver.HealthCheck{
			Protocol: "HTTP", Port: 8080, Path: "/health", Interval: 36 * time.Second, Timeout: 6 * time.Second, Healthy: 3, Unhealthy: 4,
		},
		SecuredCookies: true, AccessLog: &driver.AccessLog{Bucket: "logs", Prefix: "web", Interval: 5 * time.Minute},
	}
	compare := cmp.Options{
		cmpopts.IgnoreFields(driver.Balancer{}, "Generation"), cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty(),
	}
	if diff := cmp.Diff(want, got.Balancer, compare); diff != "" {
		t.Errorf("the driver has (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got.DnsName, "web-") || !strings.HasSuffix(got.DnsName, ".test-1.lbu.cloud.test") {
		t.Errorf("the DNS name is %s", got.DnsName)
	}
}

// ReadVmsHealth says what the driver observes in the words of the service.
func TestHealth(t *testing.T) {
	t.Parallel()
	l := setup(t)
	vm := l.vms(1)[0]
	l.create("web")
	l.settle()
	l.call("RegisterVmsInLoadBalancer", `{"LoadBalancerName": "web", "BackendVmIds": [%q]}`, vm)
	said := func() map[string]any {
		got := l.call("ReadVmsHealth", `{"LoadBalancerName": "web"}`)["BackendVmHealth"].([]any)
		return got[0].(map[string]any)
	}
	pending := map[string]any{"VmId": vm, "State": "DOWN", "StateReason": "ELB", "Description": "Instance registration is pending"}
	if diff := cmp.Diff(pending, said()); diff != "" {
		t.Errorf("before it is applied (-want +got):\n%s", diff)
	}
	l.settle()
	for health, want := range map[driver.Health]map[string]any{
		driver.Healthy:       {"VmId": vm, "State": "UP"},
		driver.HealthPending: pending,
		driver.HealthFailing: {
			"VmId": vm, "State": "DOWN", "StateReason": "Instance",
			"Description": "Instance has failed at least the UnhealthyThreshold number of health checks consecutively.",
		},
		driver.HealthNoAddress: pending, // it runs, and the driver has not seen that yet
	} {
		l.drivers.SetHealth(func(string, string, driver.Backend) driver.BackendHealth { return driver.BackendHealth{State: health} })
		if diff := cmp.Diff(want, said()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", health, diff)
		}
	}
	l.drivers.SetHealth(nil)
	l.call("StopVms", `{"VmIds": [%q]}`, vm)
	l.settle()
	if got := said(); got["State"] != "DOWN" || got["StateReason"] != "Instance" || got["Description"] != "Instance is in stopped state." {
		t.Errorf("once stopped, it is %v", got)
	}
	if l.applied("web").Backends[0].Address.IsValid() {
		t.Error("the driver has the address of a VM that is stopped")
	}
}

// A driver that has lost a load balancer, or fails for a while, has it again.
func TestDriversThatFail(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.drivers.Fail(func(op string) error { return map[string]error{"EnsureBalancer": errors.New("no host")}[op] })
	l.create("web")
	l.rest()
	l.is("web", "provisioning")
	l.drivers.Fail(nil)
	l.settle()
	l.is("web", "active")

	if err := l.drivers.RemoveBalancer(t.Context(), alice, "web"); err != nil && !errors.As(err, new(driver.Later)) {
		t.Fatal(err)
	}
	l.clock.Advance(delay)
	l.call("CreateLoadBalancerTags",
		`{"LoadBalancerNames": ["web"], "Tags": [{"Key": "env", "Value": "test"}]}`) // which wakes the loop
	l.settle()
	l.is("web", "active")
	l.applied("web")
}
