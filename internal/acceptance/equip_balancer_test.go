package acceptance

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/bastide-cloud/bastide/internal/cloud/balancer"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func init() {
	maps.Copy(examples, map[string]any{
		"iam.CertificateName":                       func(w *testRegion) any { return w.fresh() },
		"CreateServerCertificateRequest.Body":       func(*testRegion) any { return someSite().body },
		"CreateServerCertificateRequest.Chain":      func(*testRegion) any { return someSite().chain },
		"CreateServerCertificateRequest.PrivateKey": func(*testRegion) any { return someSite().key },

		"balancer.BalancerName": func(w *testRegion) any { return w.fresh() },
		"balancer.BalancerType": "internet-facing",
		"balancer.PolicyName":   func(w *testRegion) any { return w.fresh() },
		"balancer.CookieName":   "basket",
		"balancer.RuleName":     func(w *testRegion) any { return w.fresh() },
		"balancer.HostPattern":  "*.example.com",
		"balancer.PathPattern":  "/docs/*",
		"balancer.ListenerRuleForCreation": func(w *testRegion) any {
			return object{"ListenerRuleName": w.fresh(), "Priority": 7, "PathPattern": "/docs/*"}
		},
		"balancer.TagKey": "env",

		"CreateLoadBalancerRequest.SubregionNames":             "eu-west-2a",
		"ListenerForCreation.ServerCertificateId":              "",
		"LoadBalancerLight.LoadBalancerPort":                   80,
		"UpdateLoadBalancerRequest.LoadBalancerPort":           80,
		"DeleteLoadBalancerListenersRequest.LoadBalancerPorts": 80,
		"HealthCheck.CheckInterval":                            30,
		"HealthCheck.HealthyThreshold":                         2,
		"HealthCheck.Path":                                     "/",
		"HealthCheck.Port":                                     80,
		"HealthCheck.Timeout":                                  5,
		"HealthCheck.UnhealthyThreshold":                       2,
		"AccessLog.PublicationInterval":                        5,
	})
	maps.Copy(needed, map[string]object{
		"CreateLoadBalancer":                {"SubregionNames": []any{"eu-west-2a"}},
		"UpdateLoadBalancer":                {"AccessLog": object{"IsEnabled": false}},
		"LinkLoadBalancerBackendMachines":   {"BackendVmIds": []any{own("LinkPublicIpRequest.VmId")}},
		"UnlinkLoadBalancerBackendMachines": {"BackendIps": []any{"192.0.2.53"}},
	})
	maps.Copy(neededWith, map[string]object{
		"CreateLoadBalancer.Subnets":             {"SecurityGroups": []any{own("CreateNicRequest.SecurityGroupIds")}},
		"CreateLoadBalancer.Subnets.0":           {"SecurityGroups": []any{own("CreateNicRequest.SecurityGroupIds")}},
		"UpdateLoadBalancer.PolicyNames":         {"LoadBalancerPort": 80},
		"UpdateLoadBalancer.PolicyNames.0":       {"LoadBalancerPort": 80},
		"UpdateLoadBalancer.LoadBalancerPort":    {"PolicyNames": []any{}},
		"UpdateLoadBalancer.ServerCertificateId": {"LoadBalancerPort": 443},
	})
	for _, attribute := range []string{
		"AccessLog", "AccessLog.IsEnabled", "AccessLog.OsuBucketName", "AccessLog.OsuBucketPrefix", "AccessLog.PublicationInterval",
		"HealthCheck", "HealthCheck.CheckInterval", "HealthCheck.HealthyThreshold", "HealthCheck.Path", "HealthCheck.Port",
		"HealthCheck.Protocol", "HealthCheck.Timeout", "HealthCheck.UnhealthyThreshold",
		"PublicIp", "SecuredCookies", "SecurityGroups", "SecurityGroups.0",
	} {
		neededWith["UpdateLoadBalancer."+attribute] = object{}
	}
	maps.Copy(fitting, map[string]struct{ parameter, has string }{
		"CreateLoadBalancerPolicy.CookieName": {"PolicyType", "the type of a policy with a CookieName"},
	})
}

// site is a server certificate, the authority that issued it, and its key, in PEM
// format.
type site struct{ body, chain, key string }

var someSite = sync.OnceValue(func() site {
	authority := newAuthority(panicker{}, "Example authority")
	cert := authority.issue(panicker{}, "www.example.com")
	return site{certificatePem(cert), authority.pem(), keyPem(panicker{}, cert)}
})

// equipBalancers makes an internal load balancer in the Net of the VMs, with
// listeners, rules, policies and backends, and server certificates: one that a
// listener uses and one that nothing uses.
func (w *testRegion) equipBalancers(name string, made making, has belongings) {
	w.t.Helper()
	s := someSite()
	certificate := func(name string) (orn string) {
		return made("ServerCertificate.Orn", "CreateServerCertificate",
			`{"Name": %q, "Path": "/sites/", "Body": %s, "Chain": %s, "PrivateKey": %s}`,
			name, strconv.Quote(s.body), strconv.Quote(s.chain), strconv.Quote(s.key))
	}
	idle, used := certificate(name+"-idle"), certificate(name+"-used")
	lb, public := name+"-balancer", made("PublicIp.PublicIp", "CreatePublicIp", `{}`)
	made("", "CreateLoadBalancer", `{"LoadBalancerName": %q, "Subnets": [%q], "SecurityGroups": [%q], 
		"Tags": [{"Key": "env", "Value": "test"}], "Listeners": [
		{"BackendPort": 80, "LoadBalancerPort": 80, "LoadBalancerProtocol": "HTTP"},
		{"BackendPort": 80, "BackendProtocol": "HTTP", "LoadBalancerPort": 443, "LoadBalancerProtocol": "HTTPS", "ServerCertificateId": %q}]}`,
		lb, has["CreateNicRequest.SubnetId"], has["CreateNicRequest.SecurityGroupIds"], used)
	policy := func(policy, more string) {
		made("", "CreateLoadBalancerPolicy", `{"LoadBalancerName": %q, "PolicyName": %q, %s}`, lb, policy, more)
	}
	policy(name+"-browser", `"PolicyType": "load_balancer"`)
	policy(name+"-session", `"PolicyType": "app", "CookieName": "JSESSIONID"`)
	policy(name+"-idle", `"PolicyType": "load_balancer", "CookieExpirationPeriod": 3600`)
	made("", "UpdateLoadBalancer", `{"LoadBalancerName": %q, "LoadBalancerPort": 443, "PolicyNames": [%q]}`, lb, name+"-session")
	made("", "UpdateLoadBalancer",
		`{"LoadBalancerName": %q, "AccessLog": {"IsEnabled": true, "OsuBucketName": "logs", "OsuBucketPrefix": "web"}}`, lb)
	made("", "UpdateLoadBalancer", `{"LoadBalancerName": %q, "HealthCheck": {"CheckInterval": 10, "HealthyThreshold": 2, "Path": "/health",
		"Port": 80, "Protocol": "HTTP", "Timeout": 5, "UnhealthyThreshold": 2}}`, lb)
	made("", "CreateListenerRule", `{"Listener": {"LoadBalancerName": %q, "LoadBalancerPort": 80}, "VmIds": [%q],
		"ListenerRule": {"HostNamePattern": "*.example.com", "PathPattern": "/docs/*", "ListenerRuleName": %q, "Priority": 5}}`,
		lb, has["id.Vm"], name+"-rule")
	made("", "LinkLoadBalancerBackendMachines",
		`{"LoadBalancerName": %q, "BackendVmIds": [%q], "BackendIps": ["192.0.2.53"]}`, lb, has["id.Vm"])
	maps.Copy(has, belongings{
		"UpdateServerCertificateRequest.Name": name + "-idle",
		"DeleteServerCertificateRequest.Name": name + "-idle",

		"id.LoadBalancer": lb, "id.ListenerRule": name + "-rule",
		"CreateLoadBalancerRequest.Subnets":                   has["CreateNicRequest.SubnetId"],
		"CreateLoadBalancerRequest.PublicIp":                  public,
		"UpdateLoadBalancerRequest.SecurityGroups":            has["CreateNicRequest.SecurityGroupIds"],
		"UpdateLoadBalancerRequest.PolicyNames":               name + "-browser",
		"UpdateLoadBalancerRequest.ServerCertificateId":       idle,
		"DeleteLoadBalancerPolicyRequest.PolicyName":          name + "-idle",
		"LinkLoadBalancerBackendMachinesRequest.BackendVmIds": has["LinkPublicIpRequest.VmId"],
		"RegisterVmsInLoadBalancerRequest.BackendVmIds":       has["LinkPublicIpRequest.VmId"],
		"the type of a policy with a CookieName":              "app",
	})
}

// checkBalancers makes sure that each load balancer has the NIC that is its own,
// and each rule a listener.
func (d *day) checkBalancers(name string) {
	d.w.view(name, func(tx *resource.Tx) error {
		for lb := range balancer.LoadBalancers.All(tx) {
			nic, err := network.Nics.Get(tx, lb.NicId)
			if err != nil || nic.LoadBalancerName != lb.LoadBalancerName || nic.NetId != lb.NetId {
				d.w.t.Errorf("the load balancer %+v has the NIC %+v", lb, nic)
			}
			if internal := lb.LoadBalancerType == balancer.Internal; nic != nil && internal != (nic.PublicAddress(tx) == "") {
				d.w.t.Errorf("the load balancer %s is %s and has the public IP '%s'", lb.LoadBalancerName, lb.LoadBalancerType, nic.PublicAddress(tx))
			}
			for rule := range balancer.ListenerRules.Of(tx, lb.LoadBalancerName) {
				if !slices.ContainsFunc(lb.Listeners, func(l balancer.Listener) bool { return l.ListenerId == rule.ListenerId }) {
					d.w.t.Errorf("the rule %+v is of no listener of %+v", rule, lb)
				}
			}
		}
		for rule := range balancer.ListenerRules.All(tx) {
			if !balancer.LoadBalancers.Has(tx, rule.LoadBalancerName) {
				d.w.t.Errorf("the rule %+v is of no load balancer", rule)
			}
		}
		return nil
	})
}

// balancerPool is what random runs say of load balancers, besides what an account
// has.
func balancerPool(name string, has map[string][]string) map[string][]string {
	names := []string{name + "-web", name + "-shop"}
	return map[string][]string{
		"id.LoadBalancer":                            append(names, has["id.LoadBalancer"]...),
		"balancer.BalancerName":                      append(names, "-web"),
		"balancer.BalancerType":                      {"internet-facing", "internal", "hidden"},
		"id.ListenerRule":                            append([]string{name + "-new-rule"}, has["id.ListenerRule"]...),
		"balancer.RuleName":                          {name + "-new-rule", ""},
		"balancer.HostPattern":                       {"*.example.com", "", "a_b"},
		"balancer.PathPattern":                       {"/docs/*", "", "a b"},
		"balancer.PolicyName":                        {"browser", "new", "no policy"},
		"balancer.CookieName":                        {"basket", "", "a;b"},
		".PolicyNames":                               {name + "-browser", name + "-session", "new", "nothing"},
		"DeleteLoadBalancerPolicyRequest.PolicyName": {name + "-idle", name + "-browser", "nothing"},
		".ServerCertificateId":                       append([]string{"", "site"}, has["UpdateLoadBalancerRequest.ServerCertificateId"]...),
		"iam.CertificateName":                        {name + "-used", name + "-site"},
		"CreateServerCertificateRequest.Body":        {someSite().body, "not PEM"},
		"CreateServerCertificateRequest.Chain":       {someSite().chain, "", "not PEM"},
		"CreateServerCertificateRequest.PrivateKey":  {someSite().key, "not PEM"},
		"UpdateServerCertificateRequest.Name":        {name + "-idle", name + "-used", name + "-site"},
		"DeleteServerCertificateRequest.Name":        {name + "-idle", name + "-used", name + "-site"},
		".SubregionNames":                            {"eu-west-2a", "us-east-2a"},
	}
}
