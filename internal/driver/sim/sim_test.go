package sim_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/drivertest"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func TestNetworks(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"at once": 0, "delayed": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			drivertest.Networks(t, func(*testing.T) (driver.Networks, func(time.Time)) {
				c := clock.NewVirtual(start)
				return sim.New(c.Now, delay), c.AdvanceTo
			})
		})
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"at once": 0, "delayed": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			drivertest.Links(t, func(*testing.T) (driver.Links, func(time.Time)) {
				c := clock.NewVirtual(start)
				return sim.New(c.Now, delay), c.AdvanceTo
			})
		})
	}
}

var net = driver.Net{Account: "000000000001", ID: "vpc-00000001", Generation: 1, IpRange: netip.MustParsePrefix("10.0.0.0/16")}

// count is the number of Nets in the world that have a range.
func count(t *testing.T, w *sim.World) (n int) {
	t.Helper()
	nets, err := w.ObserveNets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, net := range nets {
		if net.IpRange.IsValid() {
			n++
		}
	}
	return n
}

func TestDelay(t *testing.T) {
	t.Parallel()
	c := clock.NewVirtual(start)
	w := sim.New(c.Now, 3*time.Second)

	due := driver.Later{At: start.Add(3 * time.Second)}
	if err := w.EnsureNet(t.Context(), net); err != due {
		t.Errorf("a change that takes 3 s: got %v, want %v", err, due)
	}
	c.Advance(2 * time.Second)
	if n := count(t, w); n != 0 {
		t.Errorf("after 2 of 3 s the world has %d Nets", n)
	}
	// What comes in between is done at the same time.
	next := net
	next.Generation++
	if err := w.EnsureNet(t.Context(), next); err != due {
		t.Errorf("a change during a change: got %v, want %v", err, due)
	}
	c.Advance(time.Second)
	if n := count(t, w); n != 1 {
		t.Errorf("after 3 s the world has %d Nets", n)
	}
	if err := w.EnsureNet(t.Context(), next); err != nil {
		t.Errorf("asked again once it is done: %v", err)
	}
	due = driver.Later{At: start.Add(6 * time.Second)}
	if err := w.RemoveNet(t.Context(), net.Account, net.ID); err != due {
		t.Errorf("a removal that takes 3 s: got %v, want %v", err, due)
	}
	if n := count(t, w); n != 1 {
		t.Errorf("a Net whose removal is under way is not there")
	}
	c.Advance(3 * time.Second)
	if n := count(t, w); n != 0 {
		t.Errorf("after its removal the world has %d Nets", n)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	tunnel := driver.Tunnel{Account: net.Account, ID: "vpn-00000001", Generation: 1}
	link := driver.Interface{Account: net.Account, ID: "dxvif-00000001", Generation: 1}
	// Each call makes a difference only after the ones before it.
	calls := []struct {
		op   string
		call func(context.Context, *sim.World) error
	}{
		{"EnsureNet", func(ctx context.Context, w *sim.World) error { return w.EnsureNet(ctx, net) }},
		{"EnsureTunnel", func(ctx context.Context, w *sim.World) error { return w.EnsureTunnel(ctx, tunnel) }},
		{"EnsureInterface", func(ctx context.Context, w *sim.World) error { return w.EnsureInterface(ctx, link) }},
		{"ObserveNets", func(ctx context.Context, w *sim.World) error { _, err := w.ObserveNets(ctx); return err }},
		{"ObserveTunnels", func(ctx context.Context, w *sim.World) error { _, err := w.ObserveTunnels(ctx); return err }},
		{"ObserveInterfaces", func(ctx context.Context, w *sim.World) error { _, err := w.ObserveInterfaces(ctx); return err }},
		{"RemoveNet", func(ctx context.Context, w *sim.World) error { return w.RemoveNet(ctx, net.Account, net.ID) }},
		{"RemoveTunnel", func(ctx context.Context, w *sim.World) error { return w.RemoveTunnel(ctx, tunnel.Account, tunnel.ID) }},
		{"RemoveInterface", func(ctx context.Context, w *sim.World) error { return w.RemoveInterface(ctx, link.Account, link.ID) }},
	}
	w := sim.New(clock.NewVirtual(start).Now, 0)
	has := func() string {
		nets, err := w.ObserveNets(t.Context())
		tunnels, tunnelsErr := w.ObserveTunnels(t.Context())
		links, linksErr := w.ObserveInterfaces(t.Context())
		if err := errors.Join(err, tunnelsErr, linksErr); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(nets, tunnels, links)
	}
	broken := errors.New("the cable is cut")
	failing := func(which func(op string) bool) {
		w.Fail(func(op string) error {
			if which(op) {
				return broken
			}
			return nil
		})
	}
	for _, c := range calls {
		before := has()
		failing(func(op string) bool { return op == c.op })
		if err := c.call(t.Context(), w); err != broken {
			t.Errorf("%s: got %v, want %v", c.op, err, broken)
		}
		w.Fail(nil)
		if after := has(); after != before {
			t.Errorf("%s failed and changed the world from %s to %s", c.op, before, after)
		}
		failing(func(op string) bool { return op != c.op })
		if err := c.call(t.Context(), w); err != nil {
			t.Errorf("%s when all other methods fail: %v", c.op, err)
		}
		w.Fail(nil)
		if changes := !strings.HasPrefix(c.op, "Observe"); changes != (has() != before) {
			t.Errorf("%s has changed the world: %t, want %t", c.op, !changes, changes)
		}
	}
}

// A tunnel is up while it and the client's end are there.
func TestTunnelStatus(t *testing.T) {
	t.Parallel()
	tunnel := driver.Tunnel{Account: "000000000001", ID: "vpn-00000001", Generation: 1}
	c := clock.NewVirtual(start)
	w := sim.New(c.Now, 3*time.Second)
	ensure := func() {
		t.Helper()
		for {
			later, under := errors.AsType[driver.Later](w.EnsureTunnel(t.Context(), tunnel))
			if !under {
				return
			}
			c.AdvanceTo(later.At)
		}
	}
	is := func(when string, up bool, since time.Time, routes int) {
		t.Helper()
		seen, err := w.ObserveTunnels(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(seen) != 1 || seen[0].Up != up || !seen[0].Since.Equal(since) || seen[0].Routes != routes {
			t.Errorf("%s: got %+v, want up %t since %s with %d routes", when, seen, up, since, routes)
		}
	}

	w.EnsureTunnel(t.Context(), tunnel)
	c.Advance(time.Second)
	is("being made", false, start, 0)
	ensure()
	made := c.Now()
	is("made", false, made, 0)

	c.Advance(time.Minute)
	w.ConnectTunnel(tunnel.Account, tunnel.ID, 5)
	connected := c.Now()
	c.Advance(time.Minute)
	is("connected", true, connected, 5)
	tunnel.Generation, tunnel.StaticOnly = 2, true
	ensure()
	is("changed to static routes", true, connected, 0)
	tunnel.Generation, tunnel.StaticOnly = 3, false
	ensure()

	w.DisconnectTunnel(tunnel.Account, tunnel.ID)
	is("disconnected", false, c.Now(), 0)

	w.ConnectTunnel(tunnel.Account, tunnel.ID, 5)
	w.RemoveTunnel(t.Context(), tunnel.Account, tunnel.ID)
	c.Advance(time.Minute)
	if seen, err := w.ObserveTunnels(t.Context()); err != nil || len(seen) != 0 {
		t.Errorf("a removed tunnel shows %+v, %v", seen, err)
	}
	ensure()
	is("made again, while the client goes on answering", true, c.Now(), 5)
}

// What is reached is what is there, and not what was asked for.
func TestReach(t *testing.T) {
	t.Parallel()
	c := clock.NewVirtual(start)
	w := sim.New(c.Now, 3*time.Second)
	all := []driver.Rule{{Protocol: "-1", Ranges: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}}
	open := driver.Net{
		Account: "000000000001", ID: "vpc-00000001", Generation: 1, IpRange: netip.MustParsePrefix("10.0.0.0/16"),
		Subnets:        []driver.Subnet{{ID: "subnet-00000001", IpRange: netip.MustParsePrefix("10.0.0.0/24")}},
		SecurityGroups: []driver.SecurityGroup{{ID: "sg-00000001", Inbound: all, Outbound: all}},
	}
	flow := driver.Flow{Protocol: "tcp", Port: 22}
	for i, at := range []*driver.Place{&flow.From, &flow.To} {
		*at = driver.Place{Account: open.Account, Net: open.ID, Nic: fmt.Sprint("eni-", i), Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(4 + i)})}
		open.Nics = append(open.Nics, driver.Nic{
			ID: at.Nic, Subnet: "subnet-00000001", Machine: "i-00000001",
			Addresses: []driver.Address{{Private: at.Address}}, SecurityGroups: []string{"sg-00000001"},
		})
	}
	shut := open
	shut.Generation, shut.SecurityGroups = 2, nil

	changes := []struct {
		name   string
		change func() error
		before bool // whether the flow gets through until the change is done
		after  bool
	}{
		{"a Net is made", func() error { return w.EnsureNet(t.Context(), open) }, false, true},
		{"it loses its rules", func() error { return w.EnsureNet(t.Context(), shut) }, true, false},
		{"it is removed", func() error { return w.RemoveNet(t.Context(), open.Account, open.ID) }, false, false},
	}
	for _, change := range changes {
		if _, under := errors.AsType[driver.Later](change.change()); !under {
			t.Fatalf("%s: at once", change.name)
		}
		for _, through := range []bool{change.before, change.after} {
			if err := w.Reach(flow); (err == nil) != through {
				t.Errorf("%s: got %v, want it through: %t", change.name, err, through)
			}
			c.Advance(3 * time.Second)
		}
	}
}
