package balancer

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// nicPace is how soon a load balancer looks again whether the driver has its NIC.
const nicPace = 100 * time.Millisecond

// NewLoop makes the loop that brings load balancers to a driver, each as one value,
// and takes them through their states.
func NewLoop(db *resource.DB, d driver.Balancers) reconcile.Loop {
	return reconcile.For(db, LoadBalancers, reconcile.Ops[LoadBalancer, driver.Balancer, struct{}]{
		Want: func(tx *resource.Tx, lb *LoadBalancer) (*driver.Balancer, error) {
			nic, err := network.Nics.Get(tx, lb.NicId)
			if err != nil {
				return nil, err
			}
			if !nic.IsApplied(tx) {
				return nil, driver.Later{At: tx.Now().Add(nicPace)}
			}
			return lb.wanted(tx, nic), nil
		},
		Ensure: func(ctx context.Context, want driver.Balancer) (struct{}, error) {
			return struct{}{}, d.EnsureBalancer(ctx, want)
		},
		Remove: d.RemoveBalancer,
		Note:   noteBalancer,
		Ending: func(lb *LoadBalancer) bool { return lb.State == BalancerDeleting },
		Ended:  end,
		Inspect: func(ctx context.Context, account string, lb *LoadBalancer) (func(*resource.Tx, *LoadBalancer) error, error) {
			return inspect(ctx, db, d, account, lb)
		},
		// Whether a load balancer is as it should be is not known here.
		Observe: reconcile.List(d.ObserveBalancers, func(driver.BalancerStatus) bool { return true }),
	})
}

// NewLook makes a way to look at what a driver has found of backends.
func NewLook(d driver.Balancers) Look {
	known := map[driver.Health]Health{driver.Healthy: Healthy, driver.HealthFailing: Failing}
	return func(ctx context.Context, account string, balancer id.LoadBalancer) (map[string]Health, error) {
		status, _, err := d.Balancer(ctx, account, string(balancer))
		seen := map[string]Health{}
		for _, h := range status.Health {
			seen[h.ID] = known[h.State]
		}
		return seen, err
	}
}

// noteBalancer notes that the driver has a load balancer. A new one is asked for
// once more before it is active, as clients wait for both states.
func noteBalancer(tx *resource.Tx, lb *LoadBalancer, _ driver.Balancer, _ struct{}) error {
	switch {
	case lb.State == BalancerProvisioning:
		return lb.save(tx, balancerPlaced)
	case lb.Pending():
		return LoadBalancers.Put(tx, lb)
	}
	if ok, err := resource.Try(tx, LoadBalancers, lb, balancerApplied); ok || err != nil {
		return err
	}
	return LoadBalancers.Put(tx, lb)
}

// inspect finds that a driver has lost a load balancer, or has an older one, and
// that VMs among its backends have other addresses.
func inspect(
	ctx context.Context, db *resource.DB, d driver.Balancers, account string, lb *LoadBalancer,
) (note func(*resource.Tx, *LoadBalancer) error, err error) {
	status, ok, err := d.Balancer(ctx, account, string(lb.LoadBalancerName))
	if err != nil {
		return nil, err
	}
	lost := !ok || status.Generation != lb.Generation || !status.Address.IsValid()
	if !lost {
		lost, err = stale(ctx, db, account, lb.LoadBalancerName)
	}
	if err != nil || !lost {
		return nil, err
	}
	generation := lb.Generation
	return func(tx *resource.Tx, lb *LoadBalancer) error {
		if lb.Generation != generation {
			return nil
		}
		lb.Addresses = lb.addresses(tx)
		return relinked(tx, lb)
	}, nil
}

// stale reports whether VMs among the backends of a load balancer have other
// addresses than it knows.
func stale(ctx context.Context, db *resource.DB, account string, name id.LoadBalancer) (is bool, err error) {
	err = db.View(ctx, resource.Caller{Account: account}, func(tx *resource.Tx) error {
		lb := LoadBalancers.Find(tx, name)
		is = lb != nil && !slices.Equal(lb.Addresses, lb.addresses(tx))
		return nil
	})
	return is, err
}

// NewBackendLoop makes the loop that has load balancers know the addresses of their
// backends: a VM has one while it runs.
func NewBackendLoop(db *resource.DB) reconcile.Loop { return backendLoop{db} }

type backendLoop struct{ db *resource.DB }

func (l backendLoop) Kind() resource.Any { return compute.Vms }

// Observe implements [reconcile.Loop]. What becomes of a VM while no loop runs is
// found when its load balancers are inspected.
func (l backendLoop) Observe(context.Context, reconcile.Found) error { return nil }

func (l backendLoop) Reconcile(ctx context.Context, account, vm string) (again time.Time, err error) {
	caller, moved := resource.Caller{Account: account}, false
	err = l.db.View(ctx, caller, func(tx *resource.Tx) error {
		moved = len(movedBy(tx, id.Vm(vm))) > 0
		return nil
	})
	if err != nil || !moved {
		return again, err
	}
	return again, l.db.Update(ctx, caller, func(tx *resource.Tx) error {
		for _, lb := range movedBy(tx, id.Vm(vm)) {
			lb.Addresses = lb.addresses(tx)
			if err := relinked(tx, lb); err != nil {
				return err
			}
		}
		return nil
	})
}

// movedBy are the load balancers that know another address of a VM than it has.
func movedBy(tx *resource.Tx, vm id.Vm) (moved []*LoadBalancer) {
	for lb := range LoadBalancers.Of(tx, vm) {
		if !slices.Contains(lb.Addresses, backendAddress{vm, addressOf(tx, vm)}) {
			moved = append(moved, lb)
		}
	}
	return moved
}

// wanted is the load balancer as a driver must have it.
func (lb *LoadBalancer) wanted(tx *resource.Tx, nic *network.Nic) *driver.Balancer {
	want := &driver.Balancer{
		Account: tx.Account(), ID: string(lb.LoadBalancerName), Generation: lb.Generation,
		Name: string(lb.LoadBalancerName), DnsName: lb.DnsName, Internal: lb.LoadBalancerType == Internal, Subregions: lb.SubregionNames,
		Net: string(lb.NetId), Public: addrOf(nic.PublicAddress(tx)),
		HealthCheck: lb.HealthCheck.driver(), SecuredCookies: lb.SecuredCookies,
	}
	if lb.NetId != "" {
		want.Private = addrOf(nic.PrivateIps[0].PrivateIp)
	}
	for _, subnet := range lb.Subnets {
		want.Subnets = append(want.Subnets, string(subnet))
	}
	for _, group := range lb.SecurityGroups {
		want.SecurityGroups = append(want.SecurityGroups, string(group))
	}
	for _, a := range lb.Addresses {
		want.Backends = append(want.Backends, driver.Backend{ID: string(a.VmId), Address: addrOf(a.PrivateIp)})
	}
	for _, ip := range lb.BackendIps {
		want.Backends = append(want.Backends, driver.Backend{ID: string(ip), Address: addrOf(ip)})
	}
	if log := lb.AccessLog; log.IsEnabled {
		want.AccessLog = &driver.AccessLog{
			Bucket: log.OsuBucketName, Prefix: log.OsuBucketPrefix, Interval: time.Duration(log.PublicationInterval) * time.Minute,
		}
	}
	lb.wantListeners(tx, want)
	return want
}

// wantListeners adds the listeners of a load balancer, with their rules and
// certificates.
func (lb *LoadBalancer) wantListeners(tx *resource.Tx, want *driver.Balancer) {
	rules := map[int][]driver.ListenerRule{}
	for rule := range ListenerRules.Of(tx, lb.LoadBalancerName) {
		r := driver.ListenerRule{
			ID: string(rule.ListenerRuleName), Priority: int(rule.Priority), Host: rule.HostNamePattern, Path: rule.PathPattern,
		}
		for _, vm := range rule.VmIds {
			r.Backends = append(r.Backends, string(vm))
		}
		rules[rule.LoadBalancerPort] = append(rules[rule.LoadBalancerPort], r)
	}
	seen := map[id.ServerCertificate]bool{}
	for _, l := range lb.Listeners {
		listener := driver.Listener{
			Port: l.LoadBalancerPort, Protocol: string(l.LoadBalancerProtocol),
			BackendPort: l.BackendPort, BackendProtocol: string(l.BackendProtocol), Certificate: string(l.CertificateId),
		}
		if l.LoadBalancerProtocol.carriesHttp() {
			listener.Rules, listener.Stickiness = rules[l.LoadBalancerPort], lb.stickiness(l.PolicyNames)
		}
		want.Listeners = append(want.Listeners, listener)
		if c := iam.ServerCertificates.Find(tx, l.CertificateId); c != nil && !seen[c.Id] {
			seen[c.Id] = true
			want.Certificates = append(want.Certificates, driver.Certificate{
				ID: string(c.Id), Chain: []byte(strings.TrimSpace(c.Body) + "\n" + c.Chain), PrivateKey: []byte(c.PrivateKey),
			})
		}
	}
}

// stickiness is what the policies of a listener make a driver do; nil: nothing.
func (lb *LoadBalancer) stickiness(policies []string) *driver.Stickiness {
	for _, name := range policies {
		if p, ok := lb.byApplication(name); ok {
			return &driver.Stickiness{Cookie: p.CookieName}
		}
		if p, ok := lb.byLoadBalancer(name); ok {
			s := &driver.Stickiness{}
			if p.CookieExpirationPeriod > 1 {
				s.Period = time.Duration(p.CookieExpirationPeriod) * time.Second
			}
			return s
		}
	}
	return nil
}

func (c HealthCheck) driver() driver.HealthCheck {
	return driver.HealthCheck{
		Protocol: string(c.Protocol), Port: c.Port, Path: c.Path,
		Interval: time.Duration(c.CheckInterval) * time.Second, Timeout: time.Duration(c.Timeout) * time.Second,
		Healthy: c.HealthyThreshold, Unhealthy: c.UnhealthyThreshold,
	}
}

// addrOf is an address as drivers have it; the zero one if there is none.
func addrOf(ip api.IPv4) netip.Addr {
	addr, _ := netip.ParseAddr(string(ip))
	return addr
}
