package network

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NewTunnelLoop makes the loop that brings VPN connections to a driver, moves those
// that the driver has to available, and notes how their tunnels are doing.
//
// The driver is asked how tunnels are doing at each sweep, of all of them at once,
// and after a change of one.
func NewTunnelLoop(db *resource.DB, d driver.Links) reconcile.Loop {
	reports := &tunnelReports{driver: d}
	return reconcile.For(db, VpnConnections, reconcile.Ops[VpnConnection, driver.Tunnel, *tunnelReport]{
		Want: wantedTunnel,
		Ensure: func(ctx context.Context, want driver.Tunnel) (*tunnelReport, error) {
			if err := d.EnsureTunnel(ctx, want); err != nil {
				return nil, err
			}
			_, err := reports.look(ctx)
			return reports.of(want.Account, want.ID), err
		},
		Remove: d.RemoveTunnel,
		Note:   noteTunnel,
		Inspect: func(_ context.Context, account string, c *VpnConnection) (func(*resource.Tx, *VpnConnection) error, error) {
			report := reports.of(account, string(c.VpnConnectionId))
			if report == nil || *report == c.Report {
				return nil, nil
			}
			return func(tx *resource.Tx, c *VpnConnection) error {
				c.Report = *report
				return VpnConnections.Put(tx, c)
			}, nil
		},
		// What is noted of a tunnel is not known here.
		Observe: reconcile.List(reports.look, func(driver.TunnelStatus) bool { return true }),
	})
}

// tunnelReports has how all tunnels were doing when the driver was last asked.
type tunnelReports struct {
	driver driver.Links

	mu   sync.Mutex // guards what follows
	seen map[tunnelName]tunnelReport
}

// tunnelName names a tunnel as drivers do.
type tunnelName struct{ account, id string }

// look asks the driver for its tunnels and keeps how they are doing.
func (r *tunnelReports) look(ctx context.Context) ([]driver.TunnelStatus, error) {
	tunnels, err := r.driver.ObserveTunnels(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[tunnelName]tunnelReport{}
	for _, t := range tunnels {
		seen[tunnelName{t.Account, t.ID}] = tunnelReport{Up: t.Up, Since: api.At(t.Since), Routes: t.Routes}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = seen
	return tunnels, nil
}

// of is how a tunnel was doing; nil: the driver did not have it.
func (r *tunnelReports) of(account, id string) *tunnelReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if report, ok := r.seen[tunnelName{account, id}]; ok {
		return &report
	}
	return nil
}

// wantedTunnel is the connection as the driver must have it.
func wantedTunnel(tx *resource.Tx, c *VpnConnection) (*driver.Tunnel, error) {
	gateway, err := VirtualGateways.Get(tx, c.VirtualGatewayId)
	if err != nil {
		return nil, err
	}
	client, err := ClientGateways.Get(tx, c.ClientGatewayId)
	if err != nil {
		return nil, err
	}
	first, second := c.VpnOptions.Phase1Options, c.VpnOptions.Phase2Options
	want := &driver.Tunnel{
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

// noteTunnel notes that the driver has a connection, and how its tunnel is doing. A
// connection that has changed since the driver was asked is still behind.
func noteTunnel(tx *resource.Tx, c *VpnConnection, _ driver.Tunnel, report *tunnelReport) error {
	if report != nil {
		c.Report = *report
	}
	if !c.Pending() {
		if ok, err := resource.Try(tx, VpnConnections, c, gatewayApplied); ok || err != nil {
			return err
		}
	}
	return VpnConnections.Put(tx, c)
}
