package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// base returns the account at the version at which it is locked, and no newer
// one: all accounts of a transaction are as they were when it locked the last
// of them, also for a closure that writes nothing and so never notices that the
// locks were lost.
func (w *shared) base(ctx context.Context, locked Locked, account string, version uint64) (*Snapshot, error) {
	snap, err := w.refresh(ctx, account, version, locked.Since)
	if err != nil || snap.version == version {
		return snap, err
	}
	// The snapshot in memory is newer: either the locks were lost and another
	// node has written, or the journal went back.
	if _, err := locked.Since(ctx, account, version, func(Row) error { return nil }); err != nil {
		return nil, fmt.Errorf("verifying the lock of the account %s: %w", account, err)
	}
	w.invalidate(snap, version)
	// The snapshots of other accounts that the transaction has taken cannot be
	// trusted, either.
	return nil, fmt.Errorf("%w: the account %s is older than it was", ErrAgain, account)
}

// run runs updates in a transaction, and ends it. It returns the updates that
// need accounts that the transaction does not hold; they have written nothing,
// whatever the result of the others.
func (w *shared) run(ctx context.Context, locked Locked, updates []*update) (left []*update, err error) {
	bases := map[string]*Snapshot{}
	for account, version := range locked.Versions() {
		if bases[account], err = w.base(ctx, locked, account, version); err != nil {
			locked.Rollback(ctx)
			return nil, err
		}
	}
	g := w.store.newGroup(func(account string) *Snapshot { return bases[account] })
	w.forking.Lock()
	for _, u := range updates {
		if slices.ContainsFunc(u.accounts, func(account string) bool { return bases[account] == nil }) {
			left = append(left, u)
			continue
		}
		if u.absent, u.err = g.run(u.fn); u.absent != "" {
			u.accounts = append(slices.Clip(u.accounts), u.absent)
			left = append(left, u)
		}
	}
	w.forking.Unlock()
	batches := g.batches()
	if len(batches) == 0 {
		locked.Rollback(ctx)
		return left, nil
	}
	if err := locked.Commit(ctx, batches); err != nil {
		return left, fmt.Errorf("committing to the journal: %w", err)
	}
	g.publish(batches)
	return left, nil
}

// snapshots locks the accounts, so that they are of one moment.
func (w *shared) snapshots(ctx context.Context, accounts []string) (taken []*Snapshot, err error) {
	w.store.closing.RLock()
	defer w.store.closing.RUnlock()
	if w.store.closed {
		return nil, ErrClosed
	}
	err = w.retry(func() error {
		taken = taken[:0]
		locked, err := w.journal.Lock(ctx, slices.Sorted(slices.Values(accounts)))
		if err != nil {
			return fmt.Errorf("locking accounts: %w", err)
		}
		defer locked.Rollback(ctx)
		versions := locked.Versions()
		for _, account := range accounts {
			snap, err := w.base(ctx, locked, account, versions[account])
			if err != nil {
				return err
			}
			taken = append(taken, snap)
		}
		return nil
	})
	return taken, err
}

// How often a transaction that conflicts is retried, and the longest pause
// before a retry.
const (
	maxRetries = 9
	maxPause   = 500 * time.Millisecond
)

// retry retries a transaction while it conflicts, with growing pauses.
func (w *shared) retry(transaction func() error) error {
	for retries := 1; ; retries++ {
		err := transaction()
		if !errors.Is(err, ErrAgain) || retries > maxRetries {
			return err
		}
		<-w.store.After(min(time.Millisecond<<retries, maxPause))
	}
}
