package sim

import (
	"context"
	"slices"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Networks = (*Driver)(nil)

// EnsureNet implements [driver.Networks].
func (drv *Driver) EnsureNet(ctx context.Context, net driver.Net) error {
	return drv.nets.ensure(ctx, net)
}

// RemoveNet implements [driver.Networks].
func (drv *Driver) RemoveNet(ctx context.Context, account, id string) error {
	return drv.nets.remove(ctx, account, id)
}

// ObserveNets implements [driver.Networks].
func (drv *Driver) ObserveNets(ctx context.Context) ([]driver.Net, error) {
	return drv.nets.observe(ctx)
}

// Reach reports, as [driver.Reach] does, whether a flow gets through the Nets
// that exist now.
func (drv *Driver) Reach(flow driver.Flow) error {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	var nets []driver.Net
	for at := range drv.nets.at {
		if t := drv.nets.item(at); t.current != nil {
			nets = append(nets, *t.current)
		}
	}
	return driver.Reach(nets, flow)
}

// ownNet returns a copy that shares nothing with the Net.
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

// own returns a copy of a list, with clone called on each element of the copy.
func own[E any](list []E, clone func(*E)) []E {
	list = slices.Clone(list)
	for i := range list {
		clone(&list[i])
	}
	return list
}
