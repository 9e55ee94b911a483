package sim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

func TestCables(t *testing.T) {
	t.Parallel()
	link := driver.Cable{Account: "000000000001", ID: "dxcon-00000001", Location: "LOC1", Gigabits: 1}
	c := clock.NewVirtual(start)
	drv := sim.New(c.Now, 3*time.Second)
	answers := func(what string, got, want error) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	has := func(want int) {
		t.Helper()
		if cables, err := drv.ObserveCables(t.Context()); err != nil || len(cables) != want || want == 1 && cables[0] != link {
			t.Errorf("the driver has %v, %v, want %d cables", cables, err, want)
		}
	}
	has(0)
	answers("a port", drv.EnsurePort(t.Context(), link), driver.Later{At: start.Add(3 * time.Second)})
	has(1)
	answers("a cable before its port", drv.EnsureCable(t.Context(), link), driver.Later{At: start.Add(6 * time.Second)})
	c.Advance(3 * time.Second)
	answers("the port", drv.EnsurePort(t.Context(), link), nil)
	answers("the cable, asked for twice", drv.EnsureCable(t.Context(), link), driver.Later{At: start.Add(6 * time.Second)})
	c.Advance(3 * time.Second)
	answers("the cable", drv.EnsureCable(t.Context(), link), nil)
	has(1)

	other := link
	other.Account = "000000000002"
	answers("no cable of another account", drv.RemoveCable(t.Context(), other.Account, other.ID), nil)
	has(1)
	broken := errors.New("the ladder is gone")
	drv.Fail(func(string) error { return broken })
	answers("a port that fails", drv.EnsurePort(t.Context(), other), broken)
	answers("a cable that fails", drv.EnsureCable(t.Context(), other), broken)
	answers("a removal that fails", drv.RemoveCable(t.Context(), link.Account, link.ID), broken)
	drv.Fail(nil)
	has(1)
	answers("the removal", drv.RemoveCable(t.Context(), link.Account, link.ID), nil)
	answers("the removal again", drv.RemoveCable(t.Context(), link.Account, link.ID), nil)
	has(0)
	answers("a cable without a port before", drv.EnsureCable(t.Context(), link), driver.Later{At: c.Now().Add(6 * time.Second)})
}
