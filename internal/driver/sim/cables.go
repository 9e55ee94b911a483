package sim

import (
	"context"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Cables = (*Driver)(nil)

// cable is a dedicated link in the driver.
type cable struct {
	driver.Cable
	port time.Time // when it has a port
	live time.Time // when it carries packets; zero: nobody has asked for it
}

// EnsurePort implements [driver.Cables].
func (w *Driver) EnsurePort(ctx context.Context, asked driver.Cable) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "EnsurePort"); err != nil {
		return err
	}
	return w.until(w.cable(asked).port)
}

// EnsureCable implements [driver.Cables].
func (w *Driver) EnsureCable(ctx context.Context, asked driver.Cable) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "EnsureCable"); err != nil {
		return err
	}
	c := w.cable(asked)
	if c.live.IsZero() {
		c.live = w.now().Add(w.delay)
		if c.port.After(w.now()) {
			c.live = c.port.Add(w.delay)
		}
	}
	return w.until(c.live)
}

// cable finds a cable, or begins with one. The caller holds the mutex.
func (w *Driver) cable(asked driver.Cable) *cable {
	at := place{asked.Account, asked.ID}
	if w.cables[at] == nil {
		w.cables[at] = &cable{Cable: asked, port: w.now().Add(w.delay)}
	}
	return w.cables[at]
}

// until answers a call that takes until a time.
func (w *Driver) until(due time.Time) error {
	if due.After(w.now()) {
		return driver.Later{At: due}
	}
	return nil
}

// RemoveCable implements [driver.Cables].
func (w *Driver) RemoveCable(ctx context.Context, account, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "RemoveCable"); err != nil {
		return err
	}
	delete(w.cables, place{account, id})
	return nil
}

// ObserveCables implements [driver.Cables].
func (w *Driver) ObserveCables(ctx context.Context) ([]driver.Cable, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "ObserveCables"); err != nil {
		return nil, err
	}
	var cables []driver.Cable
	for _, c := range w.cables {
		cables = append(cables, c.Cable)
	}
	return cables, nil
}
