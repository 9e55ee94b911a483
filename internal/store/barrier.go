package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// versionChecks queries a shared journal for versions. Readers that ask while a
// query is on its way share the next one, so that a node has one query on its
// way however many readers there are.
type versionChecks struct {
	journal Shared
	mu      sync.Mutex // guards what follows
	next    *versionCheck
	running bool
}

// versionCheck is one query, to which accounts are added until it is sent.
type versionCheck struct {
	accounts map[string]bool
	versions map[string]uint64
	err      error
	done     chan struct{}
}

// versions returns the versions of accounts, as they were at some moment since
// the call.
func (c *versionChecks) versions(ctx context.Context, accounts []string) (map[string]uint64, error) {
	c.mu.Lock()
	check := c.next
	if check == nil {
		check = &versionCheck{accounts: map[string]bool{}, done: make(chan struct{})}
		c.next = check
	}
	for _, account := range accounts {
		check.accounts[account] = true
	}
	if !c.running {
		c.running = true
		go c.run()
	}
	c.mu.Unlock()
	select {
	case <-check.done:
		return check.versions, check.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run sends one query after the other until no reader waits.
func (c *versionChecks) run() {
	for {
		c.mu.Lock()
		check := c.next
		c.next = nil
		c.running = check != nil
		c.mu.Unlock()
		if check == nil {
			return
		}
		// No reader's context bounds the query, because the others would be
		// canceled with it. The journal has its own timeout.
		check.versions, check.err = c.journal.Versions(context.Background(), slices.Collect(maps.Keys(check.accounts)))
		close(check.done)
	}
}

// Barrier is a read barrier: the versions of accounts that one reader has
// validated, each as it was at some moment since the Barrier began. A snapshot
// of this version or a newer one is fresh for this reader. Snapshots of several
// accounts must also be of one moment, so that no transaction is visible in one
// of them and not in another: they have the versions that the last query
// returned.
type Barrier struct {
	mu       sync.Mutex // guards what follows
	versions map[string]uint64
	last     map[string]uint64 // results of the last query
}

type barrierKey struct{}

// covers reports whether the reader has validated the snapshots before.
func (b *Barrier) covers(snapshots []*Snapshot) bool {
	for _, snap := range snapshots {
		version, known := b.versions[snap.account]
		if len(snapshots) > 1 {
			version, known = b.last[snap.account]
			known = known && snap.version == version
		}
		if !known || snap.version < version {
			return false
		}
	}
	return true
}

// learn records the result of a query for the accounts.
func (b *Barrier) learn(accounts []string, versions map[string]uint64) {
	if b.versions == nil {
		b.versions = map[string]uint64{}
	}
	b.last = map[string]uint64{}
	for _, account := range accounts {
		b.versions[account], b.last[account] = versions[account], versions[account]
	}
}

func (w *shared) barrier(ctx context.Context) context.Context {
	if ctx.Value(barrierKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, barrierKey{}, &Barrier{})
}

// validate implements [writer]. It refreshes snapshots that are stale.
func (w *shared) validate(ctx context.Context, snapshots []*Snapshot) (bool, error) {
	b, _ := ctx.Value(barrierKey{}).(*Barrier)
	if b == nil {
		b = &Barrier{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.covers(snapshots) {
		return true, nil
	}
	accounts := make([]string, len(snapshots))
	for i, snap := range snapshots {
		accounts[i] = snap.account
	}
	versions, err := w.checks.versions(ctx, accounts)
	if err != nil {
		return false, fmt.Errorf("asking for the versions of accounts: %w", err)
	}
	b.learn(accounts, versions)
	fresh := true
	for _, snap := range snapshots {
		version := versions[snap.account]
		switch {
		case snap.version > version:
			w.invalidate(snap, version)
			fresh = false
		case snap.version < version:
			if _, err := w.refresh(ctx, snap.account, version, w.journal.Since); err != nil {
				return false, err
			}
			fresh = false
		}
	}
	return fresh, nil
}
