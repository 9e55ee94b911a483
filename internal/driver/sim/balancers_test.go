package sim_test

import (
	"net/netip"
	"testing"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

// The health of backends goes by their addresses, or by the rule of a test.
func TestSetHealth(t *testing.T) {
	t.Parallel()
	w := sim.New(clock.NewVirtual(start).Now, 0)
	b := driver.Balancer{Account: "000000000001", ID: "web", Generation: 1, Backends: []driver.Backend{
		{ID: "i-1", Address: netip.MustParseAddr("10.0.0.4")}, {ID: "i-2"},
	}}
	if err := w.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	health := func(want ...driver.Health) {
		t.Helper()
		status, _, err := w.Balancer(t.Context(), b.Account, b.ID)
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range status.Health {
			if h.ID != b.Backends[i].ID || h.State != want[i] {
				t.Errorf("the backend %s is %s, want %s %s", h.ID, h.State, b.Backends[i].ID, want[i])
			}
		}
	}
	health(driver.Healthy, driver.HealthNoAddress)
	w.SetHealth(func(account, balancer string, backend driver.Backend) driver.BackendHealth {
		if account == b.Account && balancer == b.ID && backend.ID == "i-2" {
			return driver.BackendHealth{State: driver.HealthFailing, Reason: "It does not listen."}
		}
		return driver.BackendHealth{State: driver.HealthPending}
	})
	health(driver.HealthPending, driver.HealthFailing)
	w.SetHealth(nil)
	health(driver.Healthy, driver.HealthNoAddress)
}
