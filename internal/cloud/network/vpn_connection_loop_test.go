package network_test

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tunnels is a driver that has tunnels only. Each is down until a test says
// otherwise.
type tunnels struct {
	driver.Links // none of interfaces
	now          func() time.Time

	mu    sync.Mutex
	has   map[string]driver.TunnelStatus
	later time.Time // until when changes are under way
	fail  error
}

func (w *tunnels) EnsureTunnel(_ context.Context, t driver.Tunnel) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, ok := w.has[t.ID]
	switch {
	case w.fail != nil:
		return w.fail
	case ok && old.Generation > t.Generation:
		return driver.ErrStale
	case w.now().Before(w.later):
		return driver.Later{At: w.later}
	case !ok:
		old.Since = w.now()
	}
	old.Tunnel = t
	w.has[t.ID] = old
	return nil
}

func (w *tunnels) RemoveTunnel(_ context.Context, _, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return w.fail
	}
	delete(w.has, id)
	return nil
}

func (w *tunnels) ObserveTunnels(context.Context) ([]driver.TunnelStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.has)), w.fail
}

// change changes the driver behind the back of the loop.
func (w *tunnels) change(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

// runTunnels starts the loop over a driver.
func (r *region) runTunnels() (*tunnels, *reconcile.Reconciler) {
	drivers := &tunnels{now: r.Clock.Now, has: map[string]driver.TunnelStatus{}}
	loops := reconcile.New(reconcile.Options{Clock: r.Clock})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loops.Run(ctx, r.DB, network.NewTunnelLoop(r.DB, drivers))
	}()
	r.changed.Store(new(loops.Changed))
	r.tester.(*testing.T).Cleanup(func() {
		cancel()
		<-ended
	})
	return drivers, loops
}

func TestTunnelLoop(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers, loops := r.runTunnels()
	e, net := r.ends(alice), r.net(alice, "10.0.0.0/16")
	vpn := r.vpn(alice, e, "192.168.0.0/16", "172.16.0.0/12")
	r.Call(alice, "DeleteVpnConnectionRoute", routing(vpn, "172.16.0.0/12"))
	r.Call(alice, "UpdateVpnConnection", `{"VpnConnectionId": %q, "VpnOptions": {"TunnelInsideIpRange": "169.254.254.6/30",
		"Phase1Options": {"IkeVersions": ["ikev2"], "Phase1DhGroupNumbers": [14], "Phase1EncryptionAlgorithms": ["AES256"],
			"Phase1IntegrityAlgorithms": ["SHA2-256"],
			"Phase1LifetimeSeconds": 7200, "DpdTimeoutAction": "restart", "DpdTimeoutSeconds": 40, "ReplayWindowSize": 128,
				"StartupAction": "start"},
		"Phase2Options": {"Phase2DhGroupNumbers": [5], "Phase2EncryptionAlgorithms": ["AES128"], "Phase2IntegrityAlgorithms": ["SHA1"],
			"Phase2LifetimeSeconds": 1800, "PreSharedKey": "hunter2"}}}`, vpn)
	r.linkGateway(alice, e.virtual, net)
	r.settle(loops)
	c := r.connection(alice, vpn)
	if c.Text("State") != "available" {
		t.Errorf("the connection is %s", c.Text("State"))
	}
	want := driver.Tunnel{
		Account: alice, ID: vpn, Gateway: e.virtual, Net: net,
		Local: netip.MustParseAddr(c.At("VgwTelemetries", 0, "OutsideIpAddress").(string)), Remote: netip.MustParseAddr("192.0.2.1"),
		Inside: netip.MustParsePrefix("169.254.254.4/30"), LocalAsn: 50624, RemoteAsn: 65000, StaticOnly: true,
		StaticRoutes: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}, Secret: "hunter2",
		Phase1:    driver.Phase{DhGroups: []int{14}, Encryptions: []string{"AES256"}, Integrities: []string{"SHA2-256"}, Lifetime: 2 * time.Hour},
		Phase2:    driver.Phase{DhGroups: []int{5}, Encryptions: []string{"AES128"}, Integrities: []string{"SHA1"}, Lifetime: 30 * time.Minute},
		DpdAction: "restart", DpdTimeout: 40 * time.Second, StartUp: "start", IkeVersions: []string{"ikev2"}, ReplayWindow: 128,
	}
	in := func() driver.Tunnel { return drivers.has[vpn].Tunnel }
	comparing := cmp.Options{cmpopts.IgnoreFields(driver.Tunnel{}, "Generation"), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}
	drivers.change(func() {
		if diff := cmp.Diff(want, in(), comparing); diff != "" {
			t.Errorf("the tunnel in the driver (-want +got)\n%s", diff)
		}
	})

	// The driver hears where the gateway goes.
	r.Call(alice, "UnlinkVirtualGateway", linking(e.virtual, net))
	r.settle(loops)
	drivers.change(func() {
		if in().Net != "" {
			t.Errorf("the tunnel leads to %s", in().Net)
		}
	})

	// A change under way is waited for, and the connection is pending again.
	drivers.change(func() { drivers.later = r.Clock.Now().Add(time.Minute) })
	r.Call(alice, "UpdateVpnConnection", `{"VpnConnectionId": %q, "VpnOptions": {"Phase2Options": {"PreSharedKey": "hunter3"}}}`, vpn)
	if next := r.settle(loops); next != time.Minute || r.connection(alice, vpn).Text("State") != "pending" {
		t.Errorf("it is %s, and something is to do in %s", r.connection(alice, vpn).Text("State"), next)
	}
	r.Clock.Advance(time.Minute)
	r.settle(loops)
	drivers.change(func() {
		if r.connection(alice, vpn).Text("State") != "available" || in().Secret != "hunter3" {
			t.Errorf("the driver has not heard of the new key")
		}
	})

	// A connection that is deleted leaves the driver, whatever it fails at first.
	drivers.change(func() { drivers.fail = errors.New("no power") })
	r.Call(alice, "DeleteVpnConnection", about("VpnConnectionId", vpn))
	r.settle(loops)
	drivers.change(func() { drivers.fail = nil })
	r.finish(loops)
	drivers.change(func() {
		if len(drivers.has) > 0 {
			t.Errorf("the driver still has %v", drivers.has)
		}
	})
	if left := r.List(alice, "ReadVpnConnections", `{}`); len(left) > 0 {
		t.Errorf("an hour later there is still %v", left)
	}
}

// Sweeps tell how tunnels are doing, and remove those that nobody knows.
func TestTunnelLoopObserves(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers, loops := r.runTunnels()
	e := r.ends(alice)
	static := r.vpn(alice, e)
	dynamic := r.One(alice, "CreateVpnConnection", ends{r.virtualGateway(alice), e.client}.joined(false)).Text("VpnConnectionId")
	r.settle(loops)
	telemetry := func(vpn string) object {
		return object(r.connection(alice, vpn).At("VgwTelemetries", 0).(map[string]any))
	}
	up := start.Add(time.Minute)
	drivers.change(func() {
		for _, vpn := range []string{static, dynamic} {
			status := drivers.has[vpn]
			status.Up, status.Since, status.Routes = true, up, 3
			drivers.has[vpn] = status
		}
		drivers.has["vpn-12345678"] = driver.TunnelStatus{Tunnel: driver.Tunnel{Account: bob, ID: "vpn-12345678"}}
	})
	sweep := func() {
		loops.LookAgain()
		r.settle(loops)
	}
	sweep()
	for vpn, description := range map[string]string{static: "IPSEC IS UP", dynamic: "3 BGP ROUTES"} {
		got := telemetry(vpn)
		if got.Text("State") != "UP" || got.Text("StateDescription") != description || got["AcceptedRouteCount"] != 3.0 ||
			got.Text("LastStateChangeDate") != "2026-11-20T10:01:00.000Z" {
			t.Errorf("the tunnel is doing like %v, want UP, %s", got, description)
		}
	}
	drivers.change(func() {
		if _, ok := drivers.has["vpn-12345678"]; ok {
			t.Error("a tunnel that nobody knows is left")
		}
	})

	// Nothing is written when there is no news.
	before := r.Revision(alice)
	sweep()
	if after := r.Revision(alice); after != before {
		t.Error("a sweep without news has changed the account")
	}
	drivers.change(func() {
		status := drivers.has[static]
		status.Up, status.Since, status.Routes = false, up.Add(time.Second), 0
		drivers.has[static] = status
	})
	sweep()
	if got := telemetry(static); got.Text("State") != "DOWN" || got.Text("StateDescription") != "IPSEC IS DOWN" ||
		got.Text("LastStateChangeDate") != "2026-11-20T10:01:01.000Z" {
		t.Errorf("the tunnel is doing like %v", got)
	}
}

// A step that comes too late changes nothing, and one that is done twice does
// no harm.
func TestTunnelStepsMayComeLate(t *testing.T) {
	t.Parallel()
	r := setup(t)
	vpn := r.vpn(alice, r.ends(alice))
	drivers := &tunnels{now: r.Clock.Now, has: map[string]driver.TunnelStatus{}}
	loop := network.NewTunnelLoop(r.DB, drivers)
	step := func() {
		t.Helper()
		if again, err := loop.Reconcile(t.Context(), alice, vpn); err != nil || !again.IsZero() {
			t.Fatalf("a step ends with %s, %v", again, err)
		}
	}
	step()
	step()
	if state := r.connection(alice, vpn).Text("State"); state != "available" {
		t.Errorf("the connection is %s", state)
	}
	// While the driver does as it was asked, the connection changes.
	drivers.change(func() { drivers.later = r.Clock.Now().Add(time.Second) })
	r.Call(alice, "CreateVpnConnectionRoute", routing(vpn, "192.168.0.0/16"))
	if again, err := loop.Reconcile(t.Context(), alice, vpn); err != nil || again.Sub(r.Clock.Now()) != time.Second {
		t.Errorf("a step ends with %s, %v", again, err)
	}
	r.Update(alice, func(tx *resource.Tx) error {
		for c := range network.VpnConnections.All(tx) {
			if !c.Pending() {
				t.Error("the connection is taken for settled")
			}
		}
		return nil
	})
	r.Call(alice, "DeleteVpnConnection", about("VpnConnectionId", vpn))
	step()
	step()
	if len(drivers.has) > 0 {
		t.Errorf("the driver still has %v", drivers.has)
	}
}
