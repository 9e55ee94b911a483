package sim

import (
	"context"
	"slices"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Networks = (*Driver)(nil)

// EnsureNet implements [driver.Networks].
func (w *Driver) EnsureNet(ctx context.Context, net driver.Net) error { return w.nets.ensure(ctx, net) }

// RemoveNet implements [driver.Networks].
func (w *Driver) RemoveNet(ctx context.Context, account, id string) error {
	return w.nets.remove(ctx, account, id)
}

// ObserveNets implements [driver.Networks].
func (w *Driver) ObserveNets(ctx context.Context) ([]driver.Net, error) { return w.nets.observe(ctx) }

// Reach finds out, as [driver.Reach] does, whether a flow gets through the Nets
// that are there by now.
func (w *Driver) Reach(flow driver.Flow) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var nets []driver.Net
	for at := range w.nets.at {
		if t := w.nets.thing(at); t.is != nil {
			nets = append(nets, *t.is)
		}
	}
	return driver.Reach(nets, flow)
}

// ownNet is a copy that shares nothing with the Net.
func ownNet(n driver.Net) driver.Net {
	n.Dhcp.DomainNameServers = slices.Clone(n.Dhcp.DomainNameServers)
	n.Dhcp.LogServers = slices.Clone(n.Dhcp.LogServers)
	n.Dhcp.NtpServers = slices.Clone(n.Dhcp.NtpServers)
	n.Subnets = slices.Clone(n.Subnets)
	n.RouteTables = own(n.RouteTables, func(t *driver.RouteTable) { t.Routes = slices.Clone(t.Routes) })
	n.SecurityGroups = own(n.SecurityGroups, func(g *driver.SecurityGroup) {
		g.Inbound, g.Outbound = own(g.Inbound, ownRule), own(g.Outbound, ownRule)
	})
	n.Nics = own(n.Nics, func(nic *driver.Nic) {
		nic.Addresses = slices.Clone(nic.Addresses)
		nic.SecurityGroups = slices.Clone(nic.SecurityGroups)
	})
	n.Nats = own(n.Nats, func(nat *driver.Nat) { nat.Public = slices.Clone(nat.Public) })
	n.Peerings = slices.Clone(n.Peerings)
	n.AccessPoints = slices.Clone(n.AccessPoints)
	n.Services = own(n.Services, func(s *driver.Service) { s.Ranges = slices.Clone(s.Ranges) })
	return n
}

func ownRule(r *driver.Rule) {
	r.Ranges, r.Groups, r.Services = slices.Clone(r.Ranges), slices.Clone(r.Groups), slices.Clone(r.Services)
}

// own is a copy of a list, in which each element is given lists of its own.
func own[E any](list []E, inside func(*E)) []E {
	list = slices.Clone(list)
	for i := range list {
		inside(&list[i])
	}
	return list
}
