package store

import (
	"context"
	"errors"
	"iter"
)

// Dumper is a journal that can be exported, and filled with another one's
// export. No [Store] is open over it meanwhile.
type Dumper interface {
	Journal
	// Count returns the number of rows that Dump would yield now.
	Count(ctx context.Context) (rows int, err error)
	// Dump yields the journal's content at one moment, for the consumer to
	// keep. Accounts come in the order of their IDs, compared byte by byte, and
	// the rows of each by kind and ID. An account of many rows comes in several
	// batches, and one without rows in one. After an error nothing follows.
	Dump(ctx context.Context) iter.Seq2[Batch, error]
	// Fill replaces the journal's content by the batches, completely or not at
	// all: if it returns an error, if the batches end in one, or if the process
	// dies, the journal is unchanged. The last batch of an account has its
	// version and number of pending objects. Fill refuses a journal whose
	// content it may not replace with [ErrNotEmpty], and one that nodes run on
	// with [ErrRunning], before it asks for the first batch.
	Fill(ctx context.Context, batches iter.Seq2[Batch, error], onto Onto) error
}

// Onto is what a journal may contain before it is filled.
type Onto int

// From the strictest.
const (
	OntoEmpty   Onto = iota // nothing
	OntoStopped             // anything, which is replaced, if no node runs on it
	OntoRunning             // anything; nodes that run on it continue with the old state, and must be restarted
)

var (
	// ErrNotEmpty means that Fill was called on a journal that is not empty.
	ErrNotEmpty = errors.New("the store is not empty")
	// ErrRunning means that Fill was called on a journal that nodes run on.
	ErrRunning = errors.New("nodes run on the store")
)

// MadeAt returns the version of the account in which the object of this Seq was
// created.
func MadeAt(seq uint64) (version uint64) { return seq >> seqBits }
