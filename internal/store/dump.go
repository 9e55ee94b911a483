package store

import (
	"context"
	"errors"
	"iter"
)

// Dumper is a journal that can give away all it holds, and be filled with what
// another one gave away. No [Store] is open over it meanwhile.
type Dumper interface {
	Journal
	// Count is the number of rows that a dump would have now.
	Count(ctx context.Context) (rows int, err error)
	// Dump yields all that the journal holds at one moment, for the consumer to
	// keep. Accounts come in the order of their ids, compared byte by byte,
	// and the rows of each in that of their kinds and ids. An account of many
	// rows comes in several batches, and one without rows in one. After an
	// error nothing follows.
	Dump(ctx context.Context) iter.Seq2[Batch, error]
	// Fill makes the journal hold what the batches say, all of it or nothing:
	// if it answers an error, if the batches end in one, or if the process
	// dies, the journal is as it was before. The last batch of an account says
	// its version and how many objects are pending. A journal that holds
	// something that it may not replace is refused with [ErrNotEmpty], and one
	// that others run on with [ErrRunning], before the first batch is asked for.
	Fill(ctx context.Context, batches iter.Seq2[Batch, error], onto Onto) error
}

// Onto says what a journal may hold that is to be filled.
type Onto int

// What a journal may hold, from the strictest.
const (
	OntoEmpty   Onto = iota // nothing
	OntoStopped             // anything, which is replaced, if nobody runs on it
	OntoRunning             // anything. Whoever runs on it goes on with what was there before, and must be restarted
)

var (
	// ErrNotEmpty says that a journal that was to be filled holds something.
	ErrNotEmpty = errors.New("the store is not empty")
	// ErrRunning says that others run on a journal that was to be filled.
	ErrRunning = errors.New("nodes run on the store")
)

// MadeAt is the version of the account in which the object of this Seq was made.
func MadeAt(seq uint64) (version uint64) { return seq >> seqBits }
