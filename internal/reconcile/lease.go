package reconcile

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
)

// The accounts are divided into shares, each run by one node. Of a node that
// dies the shares are free after the life of a lease, and taken at another's
// next renewal: 8 seconds at most, and the database's answer.
const (
	leaseShares  = 16
	leaseLife    = 6 * time.Second
	leaseRenewal = 2 * time.Second

	// A node stops believing in a lease earlier, for a clock that is slower
	// than the database's, and for what comes between asking and acting.
	leaseMargin = time.Second
)

// Lessor gives leases to the nodes of a region.
type Lessor interface {
	// Lease answers which of the names the node now holds. No other node holds
	// them for the given life, counted from the call or later.
	Lease(ctx context.Context, node string, names []string, life time.Duration) (held []string, err error)
	// Release gives back what the node holds.
	Release(ctx context.Context, node string) error
}

// LeaseOptions configures [Leases].
type LeaseOptions struct {
	Lessor  Lessor
	Node    string      // a name that no other node has, nor had
	Clock   clock.Clock // as fast as the lessor's: a clock that stands still believes for ever
	Log     *slog.Logger
	Arrived func() // called when the node holds more than before; nil: nobody is told
}

// Leases divide the loops of a region among its nodes. A node that is paused, or
// does not reach its lessor, stops believing in what it holds before another
// node can take it. A step that has begun by then is not stopped: one done twice
// does no harm.
//
// Leases are safe for concurrent use.
type Leases struct {
	LeaseOptions
	names []string // of the shares

	mu    sync.Mutex // guards what follows; never held during a call
	held  map[string]bool
	until time.Time // held is believed before
}

// NewLeases makes leases that hold nothing before [Leases.Renew].
func NewLeases(o LeaseOptions) *Leases {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Arrived == nil {
		o.Arrived = func() {}
	}
	l := &Leases{LeaseOptions: o}
	for i := range uint32(leaseShares) {
		l.names = append(l.names, shareName(i))
	}
	return l
}

func shareName(share uint32) string { return fmt.Sprintf("loops %02d", share) }

// Mine reports whether this node runs the loops of an account now. It is what
// [Options] calls Mine.
func (l *Leases) Mine(account string) bool {
	h := fnv.New32a()
	h.Write([]byte(account))
	share := shareName(h.Sum32() % leaseShares)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[share] && l.Clock.Now().Before(l.until)
}

// Run renews the leases until the context ends, and then gives them back. The
// loops should have ended before. It is called once, after [Leases.Renew].
func (l *Leases) Run(ctx context.Context) {
	for next := l.Clock.Now().Add(leaseRenewal); sleep(ctx, l.Clock, next); {
		next = l.Clock.Now().Add(leaseRenewal)
		if err := l.Renew(ctx); err != nil && ctx.Err() == nil {
			l.Log.Warn("this node's part of the loops is not renewed", "error", err)
		}
	}
	l.hold(nil, time.Time{})
	ctx, cancel := l.within(context.WithoutCancel(ctx), leaseRenewal)
	defer cancel()
	if err := l.Lessor.Release(ctx, l.Node); err != nil {
		l.Log.Warn("this node's part of the loops waits for the end of its leases", "error", err)
	}
}

// Renew renews the leases once, and takes what is free.
func (l *Leases) Renew(ctx context.Context) error {
	// The lease may be as old as the question. After this time the answer would
	// be worth nothing.
	asked, worth := l.Clock.Now(), leaseLife-leaseMargin
	ctx, cancel := l.within(ctx, worth)
	defer cancel()
	held, err := l.Lessor.Lease(ctx, l.Node, l.names, leaseLife)
	if err != nil {
		return err
	}
	if l.hold(held, asked.Add(worth)) {
		l.Arrived()
	}
	return nil
}

// hold notes what the node holds, and reports whether that is more than before.
func (l *Leases) hold(held []string, until time.Time) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.held
	if !l.Clock.Now().Before(l.until) {
		before = nil
	}
	l.held, l.until = make(map[string]bool, len(held)), until
	for _, share := range held {
		l.held[share] = true
		more = more || !before[share]
	}
	return more
}

// within bounds a call to the lessor.
func (l *Leases) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := l.Clock.At(l.Clock.Now().Add(limit), cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}
