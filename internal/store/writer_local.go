package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// local is the only writer of its journal. One goroutine runs the closures,
// commits and publishes, so memory is always current.
type local struct {
	store *Store
	queue chan *update
	stop  sync.Once
	done  chan struct{}
}

func newLocal(s *Store) *local {
	// Room for the closures that arrive while a commit is on its way.
	w := &local{store: s, queue: make(chan *update, 1024), done: make(chan struct{})}
	go w.run()
	return w
}

func (w *local) submit(ctx context.Context, accounts []string, fn func(*Tx) error) error {
	var wanted wanted
	defer func() { wanted.release() }()
	for {
		if err := wanted.load(ctx, w.store, accounts); err != nil {
			return err
		}
		u := newUpdate(nil, fn)
		if err := w.enqueue(u); err != nil {
			return err
		}
		// The caller's context is not checked here: what was submitted will be
		// committed, and the caller should learn that it was.
		<-u.done
		if u.absent == "" {
			return u.err
		}
		accounts = []string{u.absent}
	}
}

// wanted are accounts that are pinned in memory. If the accounts of one closure
// could be evicted before it runs, accounts that do not fit into memory
// together would evict each other for ever.
type wanted []*entry

func (w *wanted) load(ctx context.Context, s *Store, accounts []string) error {
	for _, account := range accounts {
		e := s.entry(account)
		e.wanted.Add(1)
		*w = append(*w, e)
		if _, err := s.Cached(ctx, account); err != nil {
			return err
		}
	}
	return nil
}

func (w wanted) release() {
	for _, e := range w {
		e.wanted.Add(-1)
	}
}

func (w *local) enqueue(u *update) error {
	w.store.closing.RLock()
	defer w.store.closing.RUnlock()
	if w.store.closed {
		return ErrClosed
	}
	w.queue <- u
	return nil
}

// run is the writer goroutine: it alone runs closures, commits, publishes and
// evicts. After a failed commit it refuses all updates.
func (w *local) run() {
	defer close(w.done)
	var broken error
	for first := range w.queue {
		g := w.store.newGroup(w.store.inMemory)
		for u := first; u != nil; u = w.next(g) {
			if u.err = broken; broken == nil {
				u.absent, u.err = g.run(u.fn)
			}
			g.updates = append(g.updates, u)
		}
		if broken == nil {
			if err := g.commit(); err != nil {
				w.store.failed <- err
				broken = fmt.Errorf("%w: %w", ErrClosed, err)
				g.fail(broken)
			}
		}
		for _, u := range g.updates {
			close(u.done)
		}
		w.store.evict()
	}
}

// next takes one more closure into the group if one is waiting.
func (w *local) next(g *group) *update {
	if len(g.updates) == maxGroup || g.bytes > maxGroupBytes {
		return nil
	}
	select {
	case u := <-w.queue:
		return u
	default:
		return nil
	}
}

func (*local) barrier(ctx context.Context) context.Context { return ctx }

// validate compares snapshots of several accounts with memory: a group is
// published account by account, and a reader may have read between two of them.
func (w *local) validate(_ context.Context, snapshots []*Snapshot) (bool, error) {
	if len(snapshots) < 2 {
		return true, nil
	}
	w.store.publishing.RLock()
	defer w.store.publishing.RUnlock()
	for _, snap := range snapshots {
		if w.store.inMemory(snap.account) != snap {
			return false, nil
		}
	}
	return true, nil
}

func (w *local) snapshots(ctx context.Context, accounts []string) ([]*Snapshot, error) {
	var wanted wanted
	defer func() { wanted.release() }()
	for {
		if err := wanted.load(ctx, w.store, accounts); err != nil {
			return nil, err
		}
		snapshots := w.inMemory(accounts)
		// An account that was being evicted when it was pinned is loaded again.
		if !slices.Contains(snapshots, nil) {
			return snapshots, nil
		}
	}
}

// inMemory returns the accounts as they are in memory at one moment.
func (w *local) inMemory(accounts []string) []*Snapshot {
	w.store.publishing.RLock()
	defer w.store.publishing.RUnlock()
	snapshots := make([]*Snapshot, len(accounts))
	for i, account := range accounts {
		snapshots[i] = w.store.inMemory(account)
	}
	return snapshots
}

// relieve wakes the writer, which evicts between groups, when no closure
// depends on memory.
func (w *local) relieve() {
	select {
	case w.queue <- newUpdate(nil, func(*Tx) error { return nil }):
	default:
	}
}

func (w *local) close() {
	w.stop.Do(func() { close(w.queue) })
	<-w.done
}
