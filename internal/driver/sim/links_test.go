package sim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

// A tunnel is up while it and the client's end are there.
func TestTunnelStatus(t *testing.T) {
	t.Parallel()
	tunnel := driver.Tunnel{Account: "000000000001", ID: "vpn-00000001", Generation: 1}
	c := clock.NewVirtual(start)
	drv := sim.New(c.Now, 3*time.Second)
	ensure := func() {
		t.Helper()
		for {
			later, under := errors.AsType[driver.Later](drv.EnsureTunnel(t.Context(), tunnel))
			if !under {
				return
			}
			c.AdvanceTo(later.At)
		}
	}
	is := func(when string, up bool, since time.Time, routes int) {
		t.Helper()
		seen, err := drv.ObserveTunnels(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(seen) != 1 || seen[0].Up != up || !seen[0].Since.Equal(since) || seen[0].Routes != routes {
			t.Errorf("%s: got %+v, want up %t since %s with %d routes", when, seen, up, since, routes)
		}
	}

	drv.EnsureTunnel(t.Context(), tunnel)
	c.Advance(time.Second)
	is("being made", false, start, 0)
	ensure()
	made := c.Now()
	is("made", false, made, 0)

	c.Advance(time.Minute)
	drv.ConnectTunnel(tunnel.Account, tunnel.ID, 5)
	connected := c.Now()
	c.Advance(time.Minute)
	is("connected", true, connected, 5)
	tunnel.Generation, tunnel.StaticOnly = 2, true
	ensure()
	is("changed to static routes", true, connected, 0)
	tunnel.Generation, tunnel.StaticOnly = 3, false
	ensure()

	drv.DisconnectTunnel(tunnel.Account, tunnel.ID)
	is("disconnected", false, c.Now(), 0)

	drv.ConnectTunnel(tunnel.Account, tunnel.ID, 5)
	drv.RemoveTunnel(t.Context(), tunnel.Account, tunnel.ID)
	c.Advance(time.Minute)
	if seen, err := drv.ObserveTunnels(t.Context()); err != nil || len(seen) != 0 {
		t.Errorf("a removed tunnel shows %+v, %v", seen, err)
	}
	ensure()
	is("made again, while the client goes on answering", true, c.Now(), 5)
}
