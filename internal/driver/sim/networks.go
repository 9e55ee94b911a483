package sim

import (
	"context"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Networks = (*World)(nil)

// place names a Net.
type place struct{ account, id string }

// netState is a Net in the world. A change that comes while another is under
// way joins it, so that a Net that is changed often still gets somewhere.
type netState struct {
	is       *driver.Net // nil: there is none
	becomes  *driver.Net // what the change under way leads to; nil: none
	changing bool
	due      time.Time // when the change under way is done
}

// asked is what the Net was last asked to be.
func (s *netState) asked() *driver.Net {
	if s.changing {
		return s.becomes
	}
	return s.is
}

// settle ends the change under way once it is due.
func (s *netState) settle(now time.Time) {
	if s.changing && !s.due.After(now) {
		*s = netState{is: s.becomes}
	}
}

// change begins a change, or joins the one under way.
func (s *netState) change(to *driver.Net, due time.Time) {
	if !s.changing {
		s.changing, s.due = true, due
	}
	s.becomes = to
}

// EnsureNet implements [driver.Networks].
func (w *World) EnsureNet(ctx context.Context, net driver.Net) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "EnsureNet"); err != nil {
		return err
	}
	at := place{net.Account, net.ID}
	asked := w.net(at).asked()
	if asked != nil && asked.Generation > net.Generation {
		return driver.ErrStale
	}
	if asked == nil || asked.Generation < net.Generation {
		own := clone(net)
		w.net(at).change(&own, w.now().Add(w.delay))
	}
	return w.answer(at)
}

// RemoveNet implements [driver.Networks].
func (w *World) RemoveNet(ctx context.Context, account, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "RemoveNet"); err != nil {
		return err
	}
	at := place{account, id}
	if w.net(at).asked() != nil {
		w.net(at).change(nil, w.now().Add(w.delay))
	}
	return w.answer(at)
}

// net is the Net at a place as it is now. The caller holds the mutex.
func (w *World) net(at place) *netState {
	if w.nets[at] == nil {
		w.nets[at] = &netState{}
	}
	w.nets[at].settle(w.now())
	return w.nets[at]
}

// answer says whether the Net is what it was asked to be, and forgets it if
// that is nothing. The caller holds the mutex.
func (w *World) answer(at place) error {
	s := w.net(at)
	if s.changing {
		return driver.Later{At: s.due}
	}
	if s.is == nil {
		delete(w.nets, at)
	}
	return nil
}

// ObserveNets implements [driver.Networks].
func (w *World) ObserveNets(ctx context.Context) ([]driver.Net, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "ObserveNets"); err != nil {
		return nil, err
	}
	var nets []driver.Net
	for at, s := range w.nets {
		s.settle(w.now())
		switch {
		case s.is != nil:
			nets = append(nets, clone(*s.is))
		case s.asked() != nil:
			nets = append(nets, driver.Net{Account: at.account, ID: at.id})
		}
	}
	return nets, nil
}

// clone is a copy that shares nothing with the Net.
func clone(n driver.Net) driver.Net {
	n.Subnets = slices.Clone(n.Subnets)
	n.Dhcp.DomainNameServers = slices.Clone(n.Dhcp.DomainNameServers)
	n.Dhcp.LogServers = slices.Clone(n.Dhcp.LogServers)
	n.Dhcp.NtpServers = slices.Clone(n.Dhcp.NtpServers)
	return n
}
