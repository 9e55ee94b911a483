package store

import "context"

// writer is how a store writes, and how it validates what it has in memory.
// There are two: [local] is the only writer of its journal, and [shared] is one
// of several nodes.
type writer interface {
	// submit runs the closure in a transaction over the accounts and others
	// that it turns out to need, and returns when its changes are durable.
	submit(ctx context.Context, accounts []string, fn func(*Tx) error) error
	// barrier is [Store.Barrier].
	barrier(ctx context.Context) context.Context
	// validate is [Store.Validate].
	validate(ctx context.Context, snapshots []*Snapshot) (bool, error)
	// snapshots is [Store.Snapshots].
	snapshots(ctx context.Context, accounts []string) ([]*Snapshot, error)
	// relieve makes accounts be evicted soon, because memory exceeds its bound.
	relieve()
	// close waits for the submitted closures. The store is marked as closed
	// before, so that no more can come.
	close()
}

// maxGroup is the maximum number of closures that share a commit, which bounds
// how long the first waits for the last.
const maxGroup = 512

// maxGroupBytes is the size of written documents from which a group of a local
// writer takes no more closures.
const maxGroupBytes = 16 << 20

// update is a submitted closure.
type update struct {
	fn       func(*Tx) error
	accounts []string // the accounts that it is known to need
	absent   string   // an account that it needs and its group does not have
	err      error
	done     chan struct{}
}

func newUpdate(accounts []string, fn func(*Tx) error) *update {
	return &update{fn: fn, accounts: accounts, done: make(chan struct{})}
}
