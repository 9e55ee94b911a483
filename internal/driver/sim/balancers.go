package sim

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Balancers = (*Driver)(nil)

// SetHealth makes the health of each backend what the rule returns from now on. nil
// is the rule that backends with an address are healthy.
func (drv *Driver) SetHealth(rule func(account, balancer string, backend driver.Backend) driver.BackendHealth) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if rule == nil {
		rule = healthByAddress
	}
	drv.health = rule
}

func healthByAddress(_, _ string, backend driver.Backend) driver.BackendHealth {
	if !backend.Address.IsValid() {
		return driver.BackendHealth{State: driver.HealthNoAddress, Reason: "The VM has no address."}
	}
	return driver.BackendHealth{State: driver.Healthy}
}

// EnsureBalancer implements [driver.Balancers].
func (drv *Driver) EnsureBalancer(ctx context.Context, b driver.Balancer) error {
	return drv.balancers.ensure(ctx, b)
}

// RemoveBalancer implements [driver.Balancers].
func (drv *Driver) RemoveBalancer(ctx context.Context, account, id string) error {
	return drv.balancers.remove(ctx, account, id)
}

// ObserveBalancers implements [driver.Balancers].
func (drv *Driver) ObserveBalancers(ctx context.Context) (seen []driver.BalancerStatus, err error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "ObserveBalancers"); err != nil {
		return nil, err
	}
	for _, b := range drv.balancers.list() {
		seen = append(seen, drv.balancerStatus(b))
	}
	return seen, nil
}

// Balancer implements [driver.Balancers].
func (drv *Driver) Balancer(ctx context.Context, account, id string) (status driver.BalancerStatus, ok bool, err error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "Balancer"); err != nil {
		return status, false, err
	}
	b, ok := drv.balancers.get(place{account, id})
	if !ok {
		return status, false, nil
	}
	return drv.balancerStatus(b), true, nil
}

// ResolveBalancer implements [driver.Balancers].
func (drv *Driver) ResolveBalancer(ctx context.Context, dnsName string) (address netip.Addr, ok bool, err error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "ResolveBalancer"); err != nil {
		return address, false, err
	}
	for at := range drv.balancers.at {
		if b, ok := drv.balancers.get(at); ok && strings.EqualFold(b.DnsName, dnsName) {
			address = addressOf(b)
			return address, address.IsValid(), nil
		}
	}
	return address, false, nil
}

// balancerStatus is how a load balancer is doing. The caller holds the mutex.
func (drv *Driver) balancerStatus(b driver.Balancer) driver.BalancerStatus {
	s := driver.BalancerStatus{Balancer: b, Address: addressOf(b)}
	for _, backend := range b.Backends {
		health := drv.health(b.Account, b.ID, backend)
		health.ID = backend.ID
		s.Health = append(s.Health, health)
	}
	return s
}

// addressOf is where clients would reach a load balancer. Nothing listens there.
func addressOf(b driver.Balancer) netip.Addr {
	if b.Public.IsValid() {
		return b.Public
	}
	return b.Private
}

// ownBalancer is a copy that shares nothing with the load balancer, and has no
// private keys, which nothing in memory needs.
func ownBalancer(b driver.Balancer) driver.Balancer {
	b.Subregions, b.Subnets, b.SecurityGroups = slices.Clone(b.Subregions), slices.Clone(b.Subnets), slices.Clone(b.SecurityGroups)
	b.Backends = slices.Clone(b.Backends)
	b.Listeners = own(b.Listeners, func(l *driver.Listener) {
		l.Stickiness = clone(l.Stickiness)
		l.Rules = own(l.Rules, func(r *driver.ListenerRule) { r.Backends = slices.Clone(r.Backends) })
	})
	b.Certificates = own(b.Certificates, func(c *driver.Certificate) { c.Chain, c.PrivateKey = slices.Clone(c.Chain), nil })
	b.AccessLog = clone(b.AccessLog)
	return b
}

// clone is a pointer to a copy; nil: there is nothing.
func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}
