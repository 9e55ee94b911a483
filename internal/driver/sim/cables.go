package sim

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Cables = (*Driver)(nil)

// cable is a dedicated link and its progress.
type cable struct {
	driver.Cable
	port time.Time // when its port is reserved
	live time.Time // when it carries packets; zero: not requested
}

// EnsurePort implements [driver.Cables].
func (drv *Driver) EnsurePort(ctx context.Context, asked driver.Cable) error {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "EnsurePort"); err != nil {
		return err
	}
	return drv.until(drv.cable(asked).port)
}

// EnsureCable implements [driver.Cables].
func (drv *Driver) EnsureCable(ctx context.Context, asked driver.Cable) error {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "EnsureCable"); err != nil {
		return err
	}
	c := drv.cable(asked)
	if c.live.IsZero() {
		c.live = drv.now().Add(drv.delay)
		if c.port.After(drv.now()) {
			c.live = c.port.Add(drv.delay)
		}
	}
	return drv.until(c.live)
}

// cable returns a cable, and reserves its port if it is new. The caller holds
// the mutex.
func (drv *Driver) cable(asked driver.Cable) *cable {
	at := place{asked.Account, asked.ID}
	if drv.cables[at] == nil {
		drv.cables[at] = &cable{Cable: asked, port: drv.now().Add(drv.delay)}
	}
	return drv.cables[at]
}

// until returns [driver.Later] before the given time and nil afterwards.
func (drv *Driver) until(due time.Time) error {
	if due.After(drv.now()) {
		return driver.Later{At: due}
	}
	return nil
}

// RemoveCable implements [driver.Cables].
func (drv *Driver) RemoveCable(ctx context.Context, account, id string) error {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "RemoveCable"); err != nil {
		return err
	}
	delete(drv.cables, place{account, id})
	return nil
}

// ObserveCables implements [driver.Cables].
func (drv *Driver) ObserveCables(ctx context.Context) ([]driver.Cable, error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "ObserveCables"); err != nil {
		return nil, err
	}
	var cables []driver.Cable
	for _, c := range drv.cables {
		cables = append(cables, c.Cable)
	}
	return cables, nil
}
