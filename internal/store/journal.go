package store

import (
	"context"
	"errors"
)

// Codec is what the store must know of one kind of resource.
type Codec interface {
	// Name identifies the kind in the journal. It never changes.
	Name() string
	// Encode makes the document that the journal keeps.
	Encode(at Place, value any) ([]byte, error)
	// Decode is the inverse of Encode.
	Decode(at Place, doc []byte) (any, error)
	// Keys lists what the value can be found by, apart from its id.
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

// Place says where a document belongs, so that a secret in it can be bound to it.
type Place struct{ Account, Kind, ID string }

// Key is an entry of an index of a kind.
type Key struct{ Index, Value string }

// Journal keeps the rows of all accounts. The store is its only writer.
type Journal interface {
	// Load hands every row of the account to each, in any order and for each
	// to keep, and answers the account's version: 0 if there is no such
	// account.
	Load(ctx context.Context, account string, each func(Row) error) (version uint64, err error)
	// Commit writes all batches or none, and returns when they would survive
	// a power cut. After an error the journal's state is unknown: the store
	// stops. (One that is [Shared] is written to by [Locked.Commit], which says
	// more.)
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
	Doc       []byte // nil: the object is no more
}

// Batch is what one account gains in a commit.
type Batch struct {
	Account string
	Version uint64
	Pending int // how many objects of the account a loop must look at
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
	// Versions answers the versions of accounts as they are at some moment
	// between the call and the answer: 0 if there is no such account.
	Versions(ctx context.Context, accounts []string) (map[string]uint64, error)
	// Since hands the rows of the account written after a version to each, in
	// any order, removed ones too (without a document), and answers the version
	// that they lead to. It answers [ErrForgotten] if rows removed since are no
	// longer known. Since version 0 nothing is ever forgotten: whoever has
	// nothing has nothing that could have been removed, and so can always be
	// given all there is.
	Since(ctx context.Context, account string, version uint64, each func(Row) error) (uint64, error)
	// Lock begins a transaction that alone may write to the accounts until it
	// ends. It waits for those that hold one of them.
	Lock(ctx context.Context, accounts []string) (Locked, error)
	// TryLock is Lock, but waits for nobody: the transaction holds those of the
	// accounts that exist and that nobody else holds.
	TryLock(ctx context.Context, accounts []string) (Locked, error)
}

// Locked is a transaction that holds accounts. One of its last two methods
// ends it.
type Locked interface {
	// Versions are those of the accounts held.
	Versions() map[string]uint64
	// Since is as [Shared.Since], within the transaction.
	Since(ctx context.Context, account string, version uint64, each func(Row) error) (uint64, error)
	// Commit writes all batches or none. After [ErrUnknown] nobody knows which;
	// after any other error none was written, and the accounts are as they
	// were.
	Commit(ctx context.Context, batches []Batch) error
	// Rollback leaves everything as it was.
	Rollback(ctx context.Context)
}

var (
	// ErrForgotten says that an account must be loaded as a whole.
	ErrForgotten = errors.New("rows removed since that version are no longer known")
	// ErrAgain says that a transaction wrote nothing because of others, and may
	// succeed when it is run again.
	ErrAgain = errors.New("the transaction met another one")
	// ErrUnknown says that the journal was lost during a commit, and did not come
	// back in time to say whether it was made. A node need not stop: it learns
	// what is true when it asks for versions again.
	ErrUnknown = errors.New("the connection was lost during a commit, and whether it was made is unknown")
)
