package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// shared is one of several writers of its journal. The updates of an account
// wait in its queue. A worker takes the ready batches of all queues and runs
// them in one transaction, which saves the database most of its work. Updates
// that this transaction cannot run get one of their own.
type shared struct {
	store   *Store
	journal Shared
	checks  versionChecks

	invalidating sync.Mutex // held while all of memory is dropped; before the mutex of an entry
	forking      sync.Mutex // held while tables are forked; only one goroutine may

	mu      sync.Mutex // guards what follows, and the queues
	queues  map[string]*queue
	ready   []*queue
	workers int
}

// queue is the waiting updates of an account. One batch of them at a time is in
// a transaction, in their order.
type queue struct {
	account string
	waiting []*update
	busy    bool // it is in ready, or a batch of it is running
}

// batch is the updates of a queue that run in one transaction.
type batch struct {
	queue   *queue
	updates []*update
}

// maxWorkers is the maximum number of concurrent shared transactions. With more
// of them each would have less to share.
const maxWorkers = 2

func newShared(s *Store, journal Shared) *shared {
	return &shared{store: s, journal: journal, checks: versionChecks{journal: journal}, queues: map[string]*queue{}}
}

// submit puts the update into the queue of its first account.
func (w *shared) submit(_ context.Context, accounts []string, fn func(*Tx) error) error {
	w.store.closing.RLock()
	defer w.store.closing.RUnlock()
	if w.store.closed {
		return ErrClosed
	}
	u := newUpdate(accounts, fn)
	w.mu.Lock()
	q := w.queues[accounts[0]]
	if q == nil {
		q = &queue{account: accounts[0]}
		w.queues[q.account] = q
	}
	q.waiting = append(q.waiting, u)
	if !q.busy {
		w.enqueue(q)
	}
	w.mu.Unlock()
	<-u.done
	return u.err
}

// enqueue makes a queue ready. The mutex is held.
func (w *shared) enqueue(q *queue) {
	q.busy = true
	w.ready = append(w.ready, q)
	if w.workers < maxWorkers {
		w.workers++
		go w.work()
	}
}

// work runs ready batches until there are none.
func (w *shared) work() {
	for batches := w.take(); batches != nil; batches = w.take() {
		for _, b := range w.runShared(batches) {
			if len(b.updates) == 0 {
				w.release(b.queue)
				continue
			}
			go func() {
				w.runSingle(b.updates)
				w.release(b.queue)
				w.store.evict()
			}()
		}
		w.store.evict()
	}
}

// take returns the ready batches, up to maxGroup updates; nil: there are none,
// and the worker ends.
func (w *shared) take() (batches []batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for room := maxGroup; room > 0 && len(w.ready) > 0; {
		q := w.ready[0]
		n := min(len(q.waiting), room)
		batches = append(batches, batch{q, slices.Clone(q.waiting[:n])})
		q.waiting, w.ready, room = slices.Delete(q.waiting, 0, n), w.ready[1:], room-n
	}
	if batches == nil {
		w.ready = nil
		w.workers--
	}
	return batches
}

// release makes the next batch of a queue ready. An empty queue is removed, so
// that there are only queues of accounts with updates.
func (w *shared) release(q *queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.busy = len(q.waiting) > 0; q.busy {
		w.enqueue(q)
	} else {
		delete(w.queues, q.account)
	}
}

// runShared runs the batches in one transaction and returns the updates that
// must run alone: those whose account another node holds, those that need more
// accounts, and all of them if the transaction failed, since any of them may be
// the reason. The returned updates have written nothing.
func (w *shared) runShared(batches []batch) []batch {
	var all []*update
	for _, b := range batches {
		all = append(all, b.updates...)
	}
	ctx := context.Background()
	locked, err := w.journal.TryLock(ctx, needed(all))
	var left []*update
	if err != nil {
		err = fmt.Errorf("locking accounts: %w", err)
	} else if left, err = w.run(ctx, locked, all); err != nil && !errors.Is(err, ErrUnknown) {
		return batches
	}
	for i, b := range batches {
		batches[i].updates = finish(b.updates, left, err)
	}
	return batches
}

// finish ends the updates that are not in left, and returns the others.
func finish(updates, left []*update, err error) (over []*update) {
	for _, u := range updates {
		if slices.Contains(left, u) {
			over = append(over, u)
			continue
		}
		if err != nil {
			u.err = err
		}
		close(u.done)
	}
	return over
}

// runSingle runs updates in a transaction that waits for its accounts, and those
// that turn out to need more in another that holds these too.
func (w *shared) runSingle(updates []*update) {
	ctx := context.Background()
	for len(updates) > 0 {
		var left []*update
		err := w.retry(func() error {
			locked, err := w.journal.Lock(ctx, needed(updates))
			if err != nil {
				return fmt.Errorf("locking accounts: %w", err)
			}
			left, err = w.run(ctx, locked, updates)
			return err
		})
		updates = finish(updates, left, err)
	}
}

// needed returns the accounts that updates are known to need.
func needed(updates []*update) []string {
	accounts := map[string]bool{}
	for _, u := range updates {
		for _, account := range u.accounts {
			accounts[account] = true
		}
	}
	return slices.Sorted(maps.Keys(accounts))
}

// relieve evicts at once: closures keep the snapshots that they are based on.
func (w *shared) relieve() { w.store.evict() }

// close has nothing to wait for: submit keeps the store open until it returns.
func (*shared) close() {}
