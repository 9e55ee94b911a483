// Package store keeps the state of a region: one immutable snapshot of decoded
// objects per account in memory, transactions over them, and a [Journal] that
// makes them durable.
//
// The account is the unit of consistency, and has a version. A reader takes an
// account's newest snapshot and needs no lock and no I/O. A writer submits a
// closure; closures run one after the other in memory, their rows are committed
// together, and only then the changes are published and the calls return. So a
// reader sees nothing that a power failure could revert, and a closure that
// fails has written nothing.
//
// The store knows nothing of clouds: what it must know about a kind of resource
// is a [Codec].
package store

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Options configures a [Store].
type Options struct {
	Codecs  []Codec
	Journal Journal          // nil: the state ends with the process
	Now     func() time.Time // the region's clock
	Rand    io.Reader        // the region's source of randomness
	Log     *slog.Logger

	// Memory is the maximum size of the documents in memory, in bytes of their
	// encoding (decoded they take two to three times as much). Above it the
	// least recently used accounts are dropped. 0 means no maximum.
	Memory int64

	// Changed is called for each commit before the calls return, and for
	// changes of other nodes to a shared journal when they are read. It must
	// not block.
	Changed func([]Change)

	// After is the timer for the pause before a transaction that conflicted in
	// a shared journal is retried: time.After, or a test's own.
	After func(time.Duration) <-chan time.Time
}

// Store is safe for concurrent use.
type Store struct {
	Options
	codecs     map[string]Codec
	writer     writer
	accounts   sync.Map // string → *entry
	failed     chan error
	held       atomic.Int64 // bytes of documents in memory
	tick       atomic.Int64 // advances with each group of commits; orders the use of accounts
	publishing sync.RWMutex // held while a group is published; before the mutex of an entry

	// closing is held for reading while an update is submitted, or runs in a
	// shared journal, and while the journal is read. It is taken before the
	// mutex of an entry.
	closing sync.RWMutex
	closed  bool

	audited bool // see [Store.audit]
}

// ErrClosed is returned by calls on a store that was closed or has failed.
var ErrClosed = errors.New("the store is closed")

// Open starts a store over a journal, which [Store.Close] closes.
func Open(o Options) *Store {
	s := &Store{Options: o, codecs: map[string]Codec{}, failed: make(chan error, 1), audited: testing.Testing()}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	for _, c := range o.Codecs {
		s.codecs[c.Name()] = c
	}
	if journal, ok := o.Journal.(Shared); ok {
		s.writer = newShared(s, journal)
	} else {
		s.writer = newLocal(s)
	}
	return s
}

// Close waits for the submitted updates, and then closes the journal.
func (s *Store) Close() error {
	s.closing.Lock()
	first := !s.closed
	s.closed = true
	s.closing.Unlock()
	s.writer.close()
	if first {
		s.accounts.Range(func(_, e any) bool {
			if snap := e.(*entry).snapshot.Load(); snap != nil {
				s.auditAll(snap)
			}
			return true
		})
	}
	if !first || s.Journal == nil {
		return nil
	}
	return s.Journal.Close()
}

// Failed delivers the error of a failed commit. The journal's state is then
// unknown, so the store refuses further updates and the process should end: the
// next start reads what is true. A store over a [Shared] journal never fails in
// this way, because it can look up the outcome.
func (s *Store) Failed() <-chan error { return s.failed }

// Held returns the size of the documents in memory in bytes.
func (s *Store) Held() int64 { return s.held.Load() }

// Update runs the closure in memory and, if it returns nil, makes its changes
// durable before returning. account and others are the accounts that it is
// known to need; a closure that turns out to need another one is run again with
// it. So it must have no effects but on the Tx, and must do no I/O, because
// other updates wait while it runs.
func (s *Store) Update(ctx context.Context, account string, fn func(*Tx) error, others ...string) error {
	return s.writer.submit(ctx, append([]string{account}, others...), fn)
}

// View returns the newest snapshot of the account. An account that was never
// written to has an empty one.
func (s *Store) View(ctx context.Context, account string) (*Snapshot, error) {
	// The second round finds what the first has refreshed.
	ctx = s.Barrier(ctx)
	for {
		snap, err := s.Cached(ctx, account)
		if err != nil {
			return nil, err
		}
		if fresh, err := s.Validate(ctx, []*Snapshot{snap}); err != nil || fresh {
			return snap, err
		}
	}
}

// Views is [Store.View] for many accounts, at little more than the cost of one.
// The snapshots need not be of one moment.
func (s *Store) Views(ctx context.Context, accounts []string) (snapshots []*Snapshot, err error) {
	ctx = s.Barrier(ctx)
	if snapshots, err = s.cachedAll(ctx, accounts); err != nil {
		return nil, err
	}
	if fresh, err := s.Validate(ctx, snapshots); err != nil || fresh {
		return snapshots, err
	}
	// Stale accounts were refreshed and are validated, so this sends no more
	// queries.
	for i, account := range accounts {
		if snapshots[i], err = s.View(ctx, account); err != nil {
			return nil, err
		}
	}
	return snapshots, nil
}

// Barrier adds a [Barrier] to the context, if it has none. A call of the region
// has one barrier: it reads the same accounts several times, and queries the
// journal once.
func (s *Store) Barrier(ctx context.Context) context.Context { return s.writer.barrier(ctx) }

// Cached returns the account as it is in memory, which may be stale; it is
// loaded if it is not there. The caller must call [Store.Validate] afterwards.
func (s *Store) Cached(ctx context.Context, account string) (*Snapshot, error) {
	e := s.entry(account)
	if tick := s.tick.Load(); e.used.Load() != tick {
		e.used.Store(tick)
	}
	if snap := e.snapshot.Load(); snap != nil {
		return snap, nil
	}
	return s.load(ctx, account, e)
}

func (s *Store) cachedAll(ctx context.Context, accounts []string) (snapshots []*Snapshot, err error) {
	snapshots = make([]*Snapshot, len(accounts))
	for i, account := range accounts {
		if snapshots[i], err = s.Cached(ctx, account); err != nil {
			return nil, err
		}
	}
	return snapshots, nil
}

// Validate reports whether the snapshots together are the accounts' state at
// some moment since the call, or since the context's [Barrier] began. If they
// are not, [Store.Cached] returns newer ones.
func (s *Store) Validate(ctx context.Context, snapshots []*Snapshot) (bool, error) {
	return s.writer.validate(ctx, snapshots)
}

// Snapshots returns the accounts as they are at one moment since the call,
// while writers wait. It is for a reader whose accounts are written so often
// that it would never find them valid together.
func (s *Store) Snapshots(ctx context.Context, accounts []string) ([]*Snapshot, error) {
	return s.writer.snapshots(ctx, accounts)
}

// Pending lists the accounts that have objects a loop must look at.
func (s *Store) Pending(ctx context.Context) ([]string, error) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.Journal != nil {
		return s.Journal.Pending(ctx)
	}
	var accounts []string
	s.accounts.Range(func(account, e any) bool {
		if snap := e.(*entry).snapshot.Load(); snap != nil && snap.pending > 0 {
			accounts = append(accounts, account.(string))
		}
		return true
	})
	slices.Sort(accounts)
	return accounts, nil
}
