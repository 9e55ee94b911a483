package sim

import (
	"context"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Links = (*Driver)(nil)

// client is the client's end of a tunnel. It is outside of the region, so it is
// there whether or not the tunnel is.
type client struct {
	up     bool
	since  time.Time
	routes int
}

// ConnectTunnel makes the client's end of a tunnel answer from now on, and
// announce so many routes if it speaks BGP. The tunnel is up from when both
// ends are there.
func (w *Driver) ConnectTunnel(account, id string, routes int) {
	w.setClient(account, id, client{up: true, since: w.now(), routes: routes})
}

// DisconnectTunnel makes the client's end of a tunnel silent from now on.
func (w *Driver) DisconnectTunnel(account, id string) {
	w.setClient(account, id, client{since: w.now()})
}

func (w *Driver) setClient(account, id string, c client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[place{account, id}] = c
}

// EnsureTunnel implements [driver.Links].
func (w *Driver) EnsureTunnel(ctx context.Context, tunnel driver.Tunnel) error {
	return w.tunnels.ensure(ctx, tunnel)
}

// RemoveTunnel implements [driver.Links].
func (w *Driver) RemoveTunnel(ctx context.Context, account, id string) error {
	return w.tunnels.remove(ctx, account, id)
}

// ObserveTunnels implements [driver.Links].
func (w *Driver) ObserveTunnels(ctx context.Context) (seen []driver.TunnelStatus, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "ObserveTunnels"); err != nil {
		return nil, err
	}
	for _, t := range w.tunnels.seen() {
		seen = append(seen, w.status(t))
	}
	return seen, nil
}

// status says how a tunnel is doing. The caller holds the mutex.
func (w *Driver) status(t driver.Tunnel) driver.TunnelStatus {
	at := place{t.Account, t.ID}
	here := w.tunnels.thing(at)
	s := driver.TunnelStatus{Tunnel: t, Since: here.since}
	if here.is == nil {
		s.Since = here.began
		return s
	}
	c := w.clients[at]
	if c.since.After(s.Since) {
		s.Since = c.since
	}
	if s.Up = c.up; c.up && !t.StaticOnly {
		s.Routes = c.routes
	}
	return s
}

// EnsureInterface implements [driver.Links].
func (w *Driver) EnsureInterface(ctx context.Context, i driver.Interface) error {
	return w.interfaces.ensure(ctx, i)
}

// RemoveInterface implements [driver.Links].
func (w *Driver) RemoveInterface(ctx context.Context, account, id string) error {
	return w.interfaces.remove(ctx, account, id)
}

// ObserveInterfaces implements [driver.Links].
func (w *Driver) ObserveInterfaces(ctx context.Context) ([]driver.Interface, error) {
	return w.interfaces.observe(ctx)
}

// ownTunnel is a copy that shares nothing with the tunnel, and has no secret:
// in this driver nobody needs it.
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

// ownInterface is the interface without its secret.
func ownInterface(i driver.Interface) driver.Interface {
	i.Secret = ""
	return i
}
