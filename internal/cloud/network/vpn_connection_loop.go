package network

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// TunnelLoop brings VPN connections to a driver, moves those that the world has
// to available, and notes how their tunnels are doing. What the world has and
// the store does not, it removes.
//
// The world is asked how tunnels are doing at each sweep, of all of them at
// once, and after a change of one.
type TunnelLoop struct {
	db    *kind.DB
	world driver.Links

	mu   sync.Mutex // guards what follows
	seen map[tunnelName]tunnelReport
}

// tunnelName names a tunnel in the world.
type tunnelName struct{ account, id string }

// NewTunnelLoop makes the loop that joins a store and a driver.
func NewTunnelLoop(db *kind.DB, world driver.Links) *TunnelLoop {
	return &TunnelLoop{db: db, world: world}
}

// Kind is the kind whose changes wake the loop.
func (l *TunnelLoop) Kind() kind.Any { return VpnConnections }

// Step brings one connection to the world and notes what the world has then. It
// answers when to ask again if the world is not done.
func (l *TunnelLoop) Step(ctx context.Context, account, connectionID string) (again time.Time, err error) {
	var connection *VpnConnection
	var want driver.Tunnel
	err = l.db.View(ctx, kind.Caller{Account: account}, func(tx *kind.Tx) (err error) {
		connection, want = VpnConnections.Living(tx, id.VpnConnection(connectionID)), driver.Tunnel{}
		if connection != nil && connection.Unsettled() {
			want, err = wantedTunnel(tx, connection)
		}
		return err
	})
	switch {
	case err != nil:
		return again, err
	case connection == nil:
		return driver.UntilDone(l.world.RemoveTunnel(ctx, account, connectionID))
	case connection.Unsettled():
		if again, err = driver.UntilDone(l.world.EnsureTunnel(ctx, want)); err != nil || !again.IsZero() {
			return again, err
		}
		if _, err = l.look(ctx); err != nil {
			return again, err
		}
	}
	report, ok := l.report(tunnelName{account, connectionID})
	if !ok {
		report = connection.Report
	}
	if !connection.Unsettled() && report == connection.Report {
		return again, nil
	}
	return again, l.db.Update(ctx, kind.Caller{Account: account}, func(tx *kind.Tx) error {
		return settleTunnel(tx, connection.VpnConnectionId, want.Generation, report)
	})
}

// Observe finds the tunnels that the world has.
func (l *TunnelLoop) Observe(ctx context.Context, found reconcile.Found) error {
	tunnels, err := l.look(ctx)
	for _, t := range tunnels {
		found(t.Account, t.ID, true) // what is noted of it is not known here
	}
	return err
}

// look asks the world for its tunnels and keeps how they are doing.
func (l *TunnelLoop) look(ctx context.Context) ([]driver.TunnelStatus, error) {
	tunnels, err := l.world.ObserveTunnels(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[tunnelName]tunnelReport{}
	for _, t := range tunnels {
		seen[tunnelName{t.Account, t.ID}] = tunnelReport{Up: t.Up, Since: api.At(t.Since), Routes: t.Routes}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = seen
	return tunnels, nil
}

// report is how a tunnel was doing when the world was last asked, if it had it.
func (l *TunnelLoop) report(name tunnelName) (tunnelReport, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	report, ok := l.seen[name]
	return report, ok
}

// wantedTunnel is the connection as the world should have it.
func wantedTunnel(tx *kind.Tx, c *VpnConnection) (driver.Tunnel, error) {
	gateway, err := VirtualGateways.Get(tx, c.VirtualGatewayId)
	if err != nil {
		return driver.Tunnel{}, err
	}
	client, err := ClientGateways.Get(tx, c.ClientGatewayId)
	if err != nil {
		return driver.Tunnel{}, err
	}
	first, second := c.VpnOptions.Phase1Options, c.VpnOptions.Phase2Options
	want := driver.Tunnel{
		Account:    tx.Account(),
		ID:         string(c.VpnConnectionId),
		Generation: c.Generation,

		Gateway:    string(c.VirtualGatewayId),
		Net:        string(gateway.NetId),
		Local:      netip.MustParseAddr(string(c.OutsideIp)),
		Remote:     netip.MustParseAddr(string(client.PublicIp)),
		Inside:     c.VpnOptions.TunnelInsideIpRange.Prefix(),
		LocalAsn:   int64(regionAsn),
		RemoteAsn:  int64(client.BgpAsn),
		StaticOnly: c.StaticRoutesOnly,

		Secret: string(second.PreSharedKey),
		Phase1: driver.Phase{
			DhGroups: first.Phase1DhGroupNumbers, Encryptions: first.Phase1EncryptionAlgorithms,
			Integrities: first.Phase1IntegrityAlgorithms, Lifetime: seconds(first.Phase1LifetimeSeconds),
		},
		Phase2: driver.Phase{
			DhGroups: second.Phase2DhGroupNumbers, Encryptions: second.Phase2EncryptionAlgorithms,
			Integrities: second.Phase2IntegrityAlgorithms, Lifetime: seconds(second.Phase2LifetimeSeconds),
		},
		DpdAction:    first.DpdTimeoutAction,
		DpdTimeout:   seconds(first.DpdTimeoutSeconds),
		StartUp:      first.StartupAction,
		IkeVersions:  first.IkeVersions,
		ReplayWindow: first.ReplayWindowSize,
	}
	for _, destination := range c.destinations() {
		want.StaticRoutes = append(want.StaticRoutes, destination.Prefix())
	}
	return want, nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// settleTunnel notes which generation of a connection the world has, 0 being
// none newer, and how its tunnel is doing. A connection that has changed since
// the world was asked is still behind, and one that is gone stays so.
func settleTunnel(tx *kind.Tx, which id.VpnConnection, applied uint64, report tunnelReport) error {
	c := VpnConnections.Living(tx, which)
	if c == nil {
		return nil
	}
	c.Applied, c.Report = max(c.Applied, applied), report
	if !c.Unsettled() {
		if ok, err := kind.Try(tx, VpnConnections, c, gatewayApplied); ok || err != nil {
			return err
		}
	}
	return VpnConnections.Put(tx, c)
}
