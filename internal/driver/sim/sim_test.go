package sim_test

import (
	"errors"
	"net/netip"
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
	w := sim.New(clock.NewVirtual(start).Now, 0)
	broken := errors.New("the cable is cut")
	failing := func(op string) {
		w.Fail(func(called string) error {
			if called == op {
				return broken
			}
			return nil
		})
	}

	failing("EnsureNet")
	if err := w.EnsureNet(t.Context(), net); err != broken {
		t.Errorf("EnsureNet: got %v, want %v", err, broken)
	}
	if n := count(t, w); n != 0 {
		t.Error("an EnsureNet that failed made a Net")
	}
	failing("RemoveNet")
	if err := w.EnsureNet(t.Context(), net); err != nil {
		t.Errorf("EnsureNet when another method fails: %v", err)
	}
	if err := w.RemoveNet(t.Context(), net.Account, net.ID); err != broken {
		t.Errorf("RemoveNet: got %v, want %v", err, broken)
	}
	if n := count(t, w); n != 1 {
		t.Error("a RemoveNet that failed removed the Net")
	}
	failing("ObserveNets")
	if _, err := w.ObserveNets(t.Context()); err != broken {
		t.Errorf("ObserveNets: got %v, want %v", err, broken)
	}
	w.Fail(nil)
	if err := w.RemoveNet(t.Context(), net.Account, net.ID); err != nil {
		t.Errorf("RemoveNet without faults: %v", err)
	}
}
