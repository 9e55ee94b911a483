package store

import "context"

// writer is how a store writes, and how it knows that what it has in memory is
// current. There are two: [local], the only writer of its journal, and
// [shared], beside those of other nodes.
type writer interface {
	// submit runs the closure in a transaction over the accounts and those that
	// it turns out to need, and returns when what it wrote is durable.
	submit(ctx context.Context, accounts []string, fn func(*Tx) error) error
	// barrier is [Store.Barrier].
	barrier(ctx context.Context) context.Context
	// validate is [Store.Validate].
	validate(ctx context.Context, snapshots []*Snapshot) (bool, error)
	// snapshots is [Store.Snapshots].
	snapshots(ctx context.Context, accounts []string) ([]*Snapshot, error)
	// relieve has accounts evicted, now or soon: memory holds more than it
	// should.
	relieve()
	// close waits for the closures that were submitted. The store is marked as
	// closed, so there will be no more.
	close()
}

// maxGroup bounds how many closures share a commit, and so how long the first
// of them waits for the last.
const maxGroup = 512

// maxGroupBytes is how many bytes of documents a group of a local writer has
// written when it takes no more closures.
const maxGroupBytes = 16 << 20

// update is a closure on its way to a writer.
type update struct {
	fn       func(*Tx) error
	accounts []string // those that it needs, as far as is known
	absent   string   // an account that it needs and its group does not have
	err      error
	done     chan struct{}
}

func newUpdate(accounts []string, fn func(*Tx) error) *update {
	return &update{fn: fn, accounts: accounts, done: make(chan struct{})}
}
