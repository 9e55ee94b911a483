package sim

import (
	"context"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Links = (*Driver)(nil)

// client is the client's end of a tunnel. It is outside of the region, so it
// exists whether or not the tunnel does.
type client struct {
	up     bool
	since  time.Time
	routes int
}

// ConnectTunnel makes the client's end of a tunnel respond from now on, and
// announce the given number of routes if it uses BGP. The tunnel is up while
// both ends exist.
func (drv *Driver) ConnectTunnel(account, id string, routes int) {
	drv.setClient(account, id, client{up: true, since: drv.now(), routes: routes})
}

// DisconnectTunnel makes the client's end of a tunnel stop responding.
func (drv *Driver) DisconnectTunnel(account, id string) {
	drv.setClient(account, id, client{since: drv.now()})
}

func (drv *Driver) setClient(account, id string, c client) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	drv.clients[place{account, id}] = c
}

// EnsureTunnel implements [driver.Links].
func (drv *Driver) EnsureTunnel(ctx context.Context, tunnel driver.Tunnel) error {
	return drv.tunnels.ensure(ctx, tunnel)
}

// RemoveTunnel implements [driver.Links].
func (drv *Driver) RemoveTunnel(ctx context.Context, account, id string) error {
	return drv.tunnels.remove(ctx, account, id)
}

// ObserveTunnels implements [driver.Links].
func (drv *Driver) ObserveTunnels(ctx context.Context) (list []driver.TunnelStatus, err error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "ObserveTunnels"); err != nil {
		return nil, err
	}
	for _, t := range drv.tunnels.list() {
		list = append(list, drv.status(t))
	}
	return list, nil
}

// status returns the status of a tunnel. The caller holds the mutex.
func (drv *Driver) status(t driver.Tunnel) driver.TunnelStatus {
	at := place{t.Account, t.ID}
	here := drv.tunnels.item(at)
	s := driver.TunnelStatus{Tunnel: t, Since: here.since}
	if here.current == nil {
		s.Since = here.began
		return s
	}
	c := drv.clients[at]
	if c.since.After(s.Since) {
		s.Since = c.since
	}
	if s.Up = c.up; c.up && !t.StaticOnly {
		s.Routes = c.routes
	}
	return s
}

// EnsureInterface implements [driver.Links].
func (drv *Driver) EnsureInterface(ctx context.Context, i driver.Interface) error {
	return drv.interfaces.ensure(ctx, i)
}

// RemoveInterface implements [driver.Links].
func (drv *Driver) RemoveInterface(ctx context.Context, account, id string) error {
	return drv.interfaces.remove(ctx, account, id)
}

// ObserveInterfaces implements [driver.Links].
func (drv *Driver) ObserveInterfaces(ctx context.Context) ([]driver.Interface, error) {
	return drv.interfaces.observe(ctx)
}

// ownTunnel returns a copy that shares nothing with the tunnel. It has no
// secret, because the simulation needs none.
func ownTunnel(t driver.Tunnel) driver.Tunnel {
	t.Secret = ""
	t.StaticRoutes = slices.Clone(t.StaticRoutes)
	t.IkeVersions = slices.Clone(t.IkeVersions)
	for _, phase := range []*driver.Phase{&t.Phase1, &t.Phase2} {
		phase.DhGroups = slices.Clone(phase.DhGroups)
		phase.Encryptions = slices.Clone(phase.Encryptions)
		phase.Integrities = slices.Clone(phase.Integrities)
	}
	return t
}

// ownInterface returns the interface without its secret.
func ownInterface(i driver.Interface) driver.Interface {
	i.Secret = ""
	return i
}
