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
	// its version and how many objects are unsettled. A journal that holds
	// something is refused with [ErrNotEmpty], before the first batch is asked
	// for, unless all of it is to be replaced.
	Fill(ctx context.Context, batches iter.Seq2[Batch, error], replace bool) error
}

// ErrNotEmpty says that a journal that was to be filled holds something.
var ErrNotEmpty = errors.New("the store is not empty")

// MadeAt is the version of the account in which the object of this Seq was made.
func MadeAt(seq uint64) (version uint64) { return seq >> seqBits }
