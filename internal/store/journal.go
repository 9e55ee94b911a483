package store

import (
	"context"
	"errors"
)

// Codec is what the store must know about one kind of resource.
type Codec interface {
	// Name identifies the kind in the journal. It never changes.
	Name() string
	// Encode returns the document that the journal keeps.
	Encode(at Place, value any) ([]byte, error)
	// Decode is the inverse of Encode.
	Decode(at Place, doc []byte) (any, error)
	// Keys lists the index entries of the value.
	Keys(value any) []Key
	// Amounts is what the value adds to the sums of its kind.
	Amounts(value any) Amounts
	// Pending reports whether a loop has work to do for the value.
	Pending(value any) bool
}

// Amounts is how much there is of whatever the living objects of a kind add up
// to: their kind says of what.
type Amounts [4]int64

// plus adds other amounts, or, by -1, takes them away.
func (a Amounts) plus(sign int64, b Amounts) Amounts {
	for i := range a {
		a[i] += sign * b[i]
	}
	return a
}

// Place is the identity of a document, so that a secret in it can be bound to it.
type Place struct{ Account, Kind, ID string }

// Key is an entry of an index of a kind.
type Key struct{ Index, Value string }

// Journal keeps the rows of all accounts. The store is its only writer.
type Journal interface {
	// Load calls each with every row of the account, in any order and for it to
	// keep, and returns the account's version: 0 if there is no such account.
	Load(ctx context.Context, account string, each func(Row) error) (version uint64, err error)
	// Commit writes all batches or none, and returns when they would survive a
	// power failure. After an error the journal's state is unknown and the
	// store stops. ([Shared] journals are written by [Locked.Commit], which
	// reports more.)
	Commit(ctx context.Context, batches []Batch) error
	// Pending lists the accounts that have objects a loop must look at.
	Pending(ctx context.Context) ([]string, error)
	Close() error
}

// Row is one object as the journal keeps it.
type Row struct {
	Kind, ID  string
	Version   uint64 // of the account when the row was written
	Seq       uint64 // see [Object]
	DeletedAt int64  // see [Object]
	Doc       []byte // nil: the object was removed
}

// Batch is the changes of one account in a commit.
type Batch struct {
	Account string
	Version uint64
	Pending int // number of objects of the account that a loop must look at
	Rows    []Row
}

// Change names an object that a committed transaction wrote or removed.
type Change struct{ Account, Kind, ID string }

// Shared is a journal that other processes write to as well. A snapshot in
// memory may then be behind, so a reader asks for the version of each account
// it sees, and a writer locks the accounts it writes to and first reads what
// others have written.
type Shared interface {
	Journal
	// Versions returns the versions of accounts as they are at some moment
	// during the call: 0 if there is no such account.
	Versions(ctx context.Context, accounts []string) (map[string]uint64, error)
	// Since calls each with the rows of the account written after a version, in
	// any order, including removed ones (without a document), and returns the
	// version that they lead to. It returns [ErrForgotten] if rows removed
	// since are no longer known. From version 0 it never does, because a reader
	// that has nothing needs no removals.
	Since(ctx context.Context, account string, version uint64, each func(Row) error) (uint64, error)
	// Lock begins a transaction with exclusive write access to the accounts. It
	// waits for transactions that hold one of them.
	Lock(ctx context.Context, accounts []string) (Locked, error)
	// TryLock is Lock without waiting: the transaction holds only those
	// accounts that exist and that no other transaction holds.
	TryLock(ctx context.Context, accounts []string) (Locked, error)
}

// Locked is a transaction that holds accounts. One of its last two methods
// ends it.
type Locked interface {
	// Versions returns the versions of the accounts that it holds.
	Versions() map[string]uint64
	// Since is [Shared.Since] within the transaction.
	Since(ctx context.Context, account string, version uint64, each func(Row) error) (uint64, error)
	// Commit writes all batches or none. After [ErrUnknown] it is unknown
	// which; after any other error none was written, and the accounts are
	// unchanged.
	Commit(ctx context.Context, batches []Batch) error
	// Rollback ends the transaction without changes.
	Rollback(ctx context.Context)
}

var (
	// ErrForgotten means that an account must be loaded as a whole.
	ErrForgotten = errors.New("rows removed since that version are no longer known")
	// ErrAgain means that a transaction wrote nothing because of others, and
	// may succeed when it is retried.
	ErrAgain = errors.New("the transaction met another one")
	// ErrUnknown means that the connection to the journal was lost during a
	// commit, and was not restored in time to look up its outcome. The node
	// need not stop: it gets the truth with the next query for versions.
	ErrUnknown = errors.New("the connection was lost during a commit, and whether it was made is unknown")
)
