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

// The accounts are divided into shares, each run by one node. When a node dies,
// its shares are free after leaseLife and taken at another node's next renewal:
// after at most 8 seconds and the database's round trip.
const (
	leaseShares  = 16
	leaseLife    = 6 * time.Second
	leaseRenewal = 2 * time.Second

	// A node stops relying on a lease earlier, because its clock may be slower
	// than the database's and some time passes between its check and its
	// action.
	leaseMargin = time.Second
)

// Lessor gives leases to the nodes of a region.
type Lessor interface {
	// Lease returns the names that the node now holds. No other node holds them
	// for the given life, counted from the call or later.
	Lease(ctx context.Context, node string, names []string, life time.Duration) (held []string, err error)
	// Release returns all leases of the node.
	Release(ctx context.Context, node string) error
}

// LeaseOptions configures [Leases].
type LeaseOptions struct {
	Lessor  Lessor
	Node    string      // a name that no other node has or has had
	Clock   clock.Clock // must run as fast as the lessor's: on a clock that stands still a lease never ends
	Log     *slog.Logger
	Arrived func() // called when the node holds more than before; may be nil
}

// Leases divide the loops of a region among its nodes. A node that is paused,
// or cannot reach its lessor, stops relying on its leases before another node
// can take them. A call of Reconcile that has begun by then is not stopped,
// because a second one does no harm.
//
// Leases are safe for concurrent use.
type Leases struct {
	LeaseOptions
	names []string // of the shares

	mu    sync.Mutex // guards the fields below; never held during a call to the lessor
	held  map[string]bool
	until time.Time // held is valid before this time
}

// NewLeases returns leases that hold nothing before [Leases.Renew].
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

// Mine reports whether this node runs the loops of an account now. It is meant
// for [Options.Mine].
func (l *Leases) Mine(account string) bool {
	h := fnv.New32a()
	h.Write([]byte(account))
	share := shareName(h.Sum32() % leaseShares)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[share] && l.Clock.Now().Before(l.until)
}

// Run renews the leases until the context ends, and then releases them. The
// loops must have ended before. It may be called once, after [Leases.Renew].
func (l *Leases) Run(ctx context.Context) {
	for next := l.Clock.Now().Add(leaseRenewal); sleep(ctx, l.Clock, next); {
		next = l.Clock.Now().Add(leaseRenewal)
		if err := l.Renew(ctx); err != nil && ctx.Err() == nil {
			l.Log.Warn("the leases of this node's loops are not renewed", "error", err)
		}
	}
	l.hold(nil, time.Time{})
	ctx, cancel := l.within(context.WithoutCancel(ctx), leaseRenewal)
	defer cancel()
	if err := l.Lessor.Release(ctx, l.Node); err != nil {
		l.Log.Warn("the leases of this node's loops are not released: other nodes wait until they end", "error", err)
	}
}

// Renew renews the leases once, and takes those that are free.
func (l *Leases) Renew(ctx context.Context) error {
	// The lease is counted from the question at the earliest, so an answer that
	// takes longer than this is worth nothing.
	asked, validFor := l.Clock.Now(), leaseLife-leaseMargin
	ctx, cancel := l.within(ctx, validFor)
	defer cancel()
	held, err := l.Lessor.Lease(ctx, l.Node, l.names, leaseLife)
	if err != nil {
		return err
	}
	if l.hold(held, asked.Add(validFor)) {
		l.Arrived()
	}
	return nil
}

// hold records which shares the node holds, and reports whether it has gained
// one.
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
