// Package store keeps the state of a region: one immutable snapshot of decoded
// objects per account in memory, transactions over them, and a [Journal] that
// makes them durable.
//
// The account is the unit of consistency, and has a version. A reader takes an
// account's newest snapshot and needs no lock and no I/O. A writer hands in a
// closure; closures run one after the other over memory, the rows they leave
// are committed together, and only then is anything published or answered. So
// a reader sees nothing that a power cut could take back, and a closure that
// fails has written nothing.
//
// The store knows nothing of clouds: what it must know of a kind of resource
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
	Journal Journal          // nil: nothing outlives the process
	Now     func() time.Time // the region's clock
	Rand    io.Reader        // the region's source of ids, secrets and choices
	Log     *slog.Logger

	// Memory bounds the documents held in memory, in bytes of their encoding
	// (decoded they take about two to three times that). Accounts not used for
	// longest are dropped above it. 0 means no bound.
	Memory int64

	// Changed is told of each commit before it is answered, and of what others
	// wrote to a shared journal when it is read. It must return at once.
	Changed func([]Change)

	// After is the pause before a transaction that met another one in a shared
	// journal is run again: time.After, or a test's own.
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
	tick       atomic.Int64 // moves with each group of commits; orders the use of accounts
	publishing sync.RWMutex // held while a group is published; before the mutex of an entry

	// closing is held for reading while an update is handed in, or made in a
	// shared journal, and while the journal is read. It is taken before the mutex of an entry.
	closing sync.RWMutex
	closed  bool

	audited bool // see [Store.audit]
}

// ErrClosed is returned by calls on a store that was closed or has failed.
var ErrClosed = errors.New("the store is closed")

// Open starts a store over a journal, which it closes in the end.
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

// Close lets the updates already handed in finish, then closes the journal.
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

// Failed delivers the error of a commit that failed. What the journal holds is
// then unknown, so the store takes no more updates and the process should end:
// the next start reads what is true. A store over a [Shared] journal never fails
// in this way: it can ask.
func (s *Store) Failed() <-chan error { return s.failed }

// Held is the number of bytes of documents in memory.
func (s *Store) Held() int64 { return s.held.Load() }

// Update runs the closure over memory and, if it returns nil, makes what it
// wrote durable before returning. It is given the account, and others that it is
// known to need; a closure that turns out to need one more is run again with it.
// So it must be pure but for the Tx, and does no I/O, since others wait while it
// runs.
func (s *Store) Update(ctx context.Context, account string, fn func(*Tx) error, others ...string) error {
	return s.writer.submit(ctx, append([]string{account}, others...), fn)
}

// View returns the newest snapshot of the account. An account that was never
// written to has an empty one.
func (s *Store) View(ctx context.Context, account string) (*Snapshot, error) {
	// The second round finds what the first has brought up to date.
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

// Views is [Store.View] of each of many accounts, for little more than one of them
// costs. They need not be of one moment.
func (s *Store) Views(ctx context.Context, accounts []string) (snapshots []*Snapshot, err error) {
	ctx = s.Barrier(ctx)
	if snapshots, err = s.cachedAll(ctx, accounts); err != nil {
		return nil, err
	}
	if fresh, err := s.Validate(ctx, snapshots); err != nil || fresh {
		return snapshots, err
	}
	// What was behind no longer is, and was asked for: this asks no more.
	for i, account := range accounts {
		if snapshots[i], err = s.View(ctx, account); err != nil {
			return nil, err
		}
	}
	return snapshots, nil
}

// Barrier begins a [Barrier] for all that reads with the context, if it has none.
// A call of the region is one: it looks at the same accounts several times, and
// asks the journal once.
func (s *Store) Barrier(ctx context.Context) context.Context { return s.writer.barrier(ctx) }

// Cached returns the account as it is in memory, which may be behind; if it is
// not there, it is loaded. The caller must ask [Store.Validate] afterwards.
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

// Validate reports whether the snapshots are, together, what the accounts were at
// some moment since the call, or since the context's [Barrier] began. If they are
// not, [Store.Cached] returns newer ones.
func (s *Store) Validate(ctx context.Context, snapshots []*Snapshot) (bool, error) {
	return s.writer.validate(ctx, snapshots)
}

// Snapshots returns accounts as they are at one moment since the call, which
// writers wait for. It is for a reader whose accounts others write to all the
// time, so that it would never find them valid together.
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
