package resource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/store"
)

// Caller is the originator of a transaction. The zero value is the region
// itself.
type Caller struct {
	Account   string
	User      string     // the EIM user's id; empty: the root account
	AccessKey string     // the key that signed, if one did
	Address   netip.Addr // where the call comes from; invalid: the region itself
}

// Options configures a [DB]. What it shares with [store.Options] means the same.
type Options struct {
	Kinds   []Any
	Journal store.Journal
	Seal    Sealer
	Limits  map[string]int // by quota name; a quota that is not in it has no limit
	Now     func() time.Time
	Rand    io.Reader
	Log     *slog.Logger
	Memory  int64
	Changed func([]store.Change)
	After   func(time.Duration) <-chan time.Time

	// Transitioned is called for each transition of a life, with the name of
	// the kind or, for a state that is a part of a resource, of its type. It is
	// also called by transactions that run again or fail. It may be nil.
	Transitioned func(of string, e lifecycle.Edge)
}

// DB is the region's resources.
type DB struct {
	*store.Store
	kinds  []Any
	byID   map[reflect.Type]Any   // the kind that an id type identifies
	refs   map[reflect.Type][]ref // references to an id type…
	holder map[reflect.Type][]Any // …and of which kind each of them is
	limits map[string]int
	now    func() time.Time
	random io.Reader

	transitioned func(of string, e lifecycle.Edge)
}

// Open opens the store for these kinds. It panics if two of them share a name
// or an id type, or if a reference leads to no kind: programming errors. A weak
// reference may lead to no kind, so that a domain can be had without those
// above it.
func Open(o Options) *DB {
	db := &DB{
		kinds: o.Kinds, limits: o.Limits, now: o.Now, random: o.Rand,
		transitioned: o.Transitioned,
		byID:         map[reflect.Type]Any{}, refs: map[reflect.Type][]ref{}, holder: map[reflect.Type][]Any{},
	}
	if db.transitioned == nil {
		db.transitioned = func(string, lifecycle.Edge) {}
	}
	names := map[string]bool{}
	var codecs []store.Codec
	for _, k := range o.Kinds {
		facts := k.Facts()
		_, isID := FormOf(facts.ID)
		if names[facts.Name] || isID && db.byID[facts.ID] != nil {
			panic(fmt.Sprintf("the kind %s, or one with its ids, is listed twice", facts.Name))
		}
		if facts.Tag != "" && k.layout().tags < 0 {
			panic(fmt.Sprintf("the kind %s has a tag type, but no field for tags", facts.Name))
		}
		if names[facts.Name] = true; isID {
			db.byID[facts.ID] = k
		}
		codecs = append(codecs, k.codec(o.Seal))
	}
	for _, k := range o.Kinds {
		for _, r := range k.layout().refs {
			if db.byID[r.Type] == nil && !r.weak {
				panic(fmt.Sprintf("%s of the kind %s refers to a %s, and no kind has such ids", r.Name, k.Facts().Name, r.Type))
			}
			db.refs[r.Type] = append(db.refs[r.Type], r)
			db.holder[r.Type] = append(db.holder[r.Type], k)
		}
	}
	db.Store = store.Open(store.Options{
		Codecs: codecs, Journal: o.Journal, Now: o.Now, Rand: o.Rand, Log: o.Log, Memory: o.Memory, Changed: o.Changed, After: o.After,
	})
	return db
}

// Kinds are the kinds of the region, in the order given.
func (db *DB) Kinds() []Any { return db.kinds }

// Tx is a rule's access to the region: the resources of one account, read only
// or in a transaction, the time, randomness and the caller.
type Tx struct {
	Caller  Caller
	db      *DB
	account string
	ctx     context.Context
	write   *store.Tx // nil: read only
	seen    *seen     // what a read-only rule has seen so far
	random  io.Reader
	spent   *int // steps since the context was last looked at
	free    bool // of quotas

	// owned are the values that a transaction that writes has given out.
	owned map[ownKey]any
}

// ownKey names a resource.
type ownKey struct{ account, kind, id string }

// seen holds the snapshots that a read-only rule looked at, so that it sees
// each account at one version only.
type seen struct {
	snapshots []*store.Snapshot
	first     [2]*store.Snapshot // room for as many as most rules look at
	spent     int
}

func (s *seen) accounts() []string {
	accounts := make([]string, len(s.snapshots))
	for i, snap := range s.snapshots {
		accounts[i] = snap.Account()
	}
	return accounts
}

// broken unwinds a rule that cannot go on: a read-only one whose account cannot
// be loaded, or one whose caller has gone.
type broken struct{ err error }

// maxRounds bounds how often a rule that only reads is run again before the
// accounts that it reads are locked.
const maxRounds = 8

// View runs fn over the caller's account as it is now. It may run it again,
// when what it saw turns out to be behind what others wrote: fn keeps nothing of
// an earlier run. Accounts that others write to all the time would never be
// found at one moment: after some rounds they are locked instead.
func (db *DB) View(ctx context.Context, caller Caller, fn func(*Tx) error) error {
	ctx = db.Barrier(ctx)
	var known int // how many of the snapshots are of one moment
	seen := &seen{}
	seen.snapshots = seen.first[:0]
	for round := 1; ; round++ {
		err := db.look(&Tx{Caller: caller, db: db, account: caller.Account, ctx: ctx, seen: seen, random: db.random, spent: &seen.spent}, fn)
		if known > 0 && known == len(seen.snapshots) {
			return err
		}
		switch fresh, failure := db.Validate(ctx, seen.snapshots); {
		case failure != nil:
			return failure
		case fresh:
			return err
		case round < maxRounds:
			seen.snapshots = seen.snapshots[:0]
		default:
			if seen.snapshots, failure = db.Snapshots(ctx, seen.accounts()); failure != nil {
				return failure
			}
			known = len(seen.snapshots)
		}
	}
}

// look runs a rule, and returns why if it cannot go on.
func (db *DB) look(tx *Tx, fn func(*Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			b, ok := p.(broken)
			if !ok {
				panic(p)
			}
			err = b.err
		}
	}()
	return fn(tx)
}

// Update runs fn in a transaction over the caller's account, and over others that
// it is known to need. See [store.Store.Update]. When the context ends before fn
// has, nothing is written.
func (db *DB) Update(ctx context.Context, caller Caller, fn func(*Tx) error, others ...string) error {
	random := &replay{source: db.random}
	err := db.Store.Update(ctx, caller.Account, func(tx *store.Tx) error {
		// Others may have been in front of it for long.
		if err := ctx.Err(); err != nil {
			return err
		}
		random.next = 0
		return db.look(&Tx{Caller: caller, db: db, account: caller.Account, ctx: ctx, write: tx, random: random, spent: &random.spent,
			owned: map[ownKey]any{}}, fn)
	}, others...)
	if large, ok := errors.AsType[store.TooLarge](err); ok {
		return apierror.InsufficientCapacity.Errorf("The call would write more than %d MiB, the maximum for one call: ask for less at once.",
			int(large)>>20)
	}
	return err
}

// Bound has the transaction refused if it writes more bytes: for transactions
// whose size follows from a request.
func (tx *Tx) Bound(bytes int) { tx.write.Bound(bytes) }

// replay gives a rule that runs again the same randomness as before. A rule
// that writes to an account it has just chosen an id for runs again once that
// account is in memory; were it to choose another id then, it would never end.
type replay struct {
	source io.Reader
	taken  []byte
	next   int // the byte of taken to be read next
	spent  int // see Tx
}

func (r *replay) Read(p []byte) (int, error) {
	if r.next == len(r.taken) {
		n, err := r.source.Read(p)
		r.taken = append(r.taken, p[:n]...)
		r.next += n
		return n, err
	}
	n := copy(p, r.taken[r.next:])
	r.next += n
	return n, nil
}

// In returns the same transaction over another account.
func (tx *Tx) In(account string) *Tx {
	other := *tx
	other.account = account
	return &other
}

// Account returns the account whose resources the transaction sees.
func (tx *Tx) Account() string { return tx.account }

// Now returns the region's time.
func (tx *Tx) Now() time.Time {
	if tx.write != nil {
		return tx.write.Now()
	}
	return tx.db.now()
}

// Rand returns the region's source of randomness.
func (tx *Tx) Rand() io.Reader { return tx.random }

// Context is the caller's, for rules that read what is not in the store.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Kinds are the kinds of the region.
func (tx *Tx) Kinds() []Any { return tx.db.kinds }

// Unlimited is the same transaction without quotas, for what the region makes for
// its own needs.
func (tx *Tx) Unlimited() *Tx {
	other := *tx
	other.free = true
	return &other
}

// Limit is the limit that a quota sets, if it sets one.
func (tx *Tx) Limit(quota string) (int, bool) {
	if tx.free {
		return 0, false
	}
	limit, ok := tx.db.limits[quota]
	return limit, ok
}

// reader is an account as a rule looks at it: a snapshot, or the draft that the
// rule writes to.
type reader interface {
	Version() uint64
	Get(kind, id string) (*store.Object, bool)
	Scan(kind string, after uint64) iter.Seq[*store.Object]
	Find(kind string, key store.Key) iter.Seq[*store.Object]
	Count(kind string) int
	Sums(kind string) store.Amounts
}

// stepsUnseen is how many steps a rule takes before it looks whether anything
// still waits for it: a fraction of a millisecond of most.
const stepsUnseen = 4096

// Spend counts steps of the rule's work, and unwinds the rule when its context
// has ended: what a small request can make large ends with its client. Looking at
// resources counts by itself.
func (tx *Tx) Spend(steps int) {
	if *tx.spent += steps; *tx.spent >= stepsUnseen {
		tx.goOn()
	}
}

// goOn unwinds the rule unless its context goes on.
func (tx *Tx) goOn() {
	*tx.spent = 0
	if err := tx.ctx.Err(); err != nil {
		panic(broken{err})
	}
}

// scan and find are the snapshot's, and count a step for each object.
func (tx *Tx) scan(kind string, after uint64) iter.Seq[*store.Object] {
	return tx.counted(tx.snapshot().Scan(kind, after))
}

func (tx *Tx) find(kind string, key store.Key) iter.Seq[*store.Object] {
	snap := tx.snapshot()
	if snap.Count(kind) == 0 { // many rules and loops ask for what most accounts have none of
		return func(func(*store.Object) bool) {}
	}
	return tx.counted(snap.Find(kind, key))
}

func (tx *Tx) counted(objects iter.Seq[*store.Object]) iter.Seq[*store.Object] {
	return func(yield func(*store.Object) bool) {
		objects(func(o *store.Object) bool {
			tx.Spend(1)
			return yield(o)
		})
	}
}

func (tx *Tx) snapshot() reader {
	tx.Spend(1)
	if tx.write != nil {
		return tx.write.In(tx.account)
	}
	for _, snap := range tx.seen.snapshots {
		if snap.Account() == tx.account {
			return snap
		}
	}
	snap, err := tx.db.Cached(tx.ctx, tx.account)
	if err != nil {
		panic(broken{err})
	}
	tx.seen.snapshots = append(tx.seen.snapshots, snap)
	return snap
}

func (tx *Tx) draft() *store.Draft {
	if tx.write == nil {
		panic("resource: a rule that only reads wrote to " + tx.account)
	}
	return tx.write.In(tx.account)
}

// Version is the version of the account that the transaction sees.
func (tx *Tx) Version() uint64 { return tx.snapshot().Version() }

// checkRef makes sure that a reference leads to living resources of this
// account.
func (tx *Tx) checkRef(r ref, v reflect.Value) error {
	target := tx.db.byID[r.Type]
	if target == nil {
		return nil
	}
	var err error
	r.Each(v, func(f reflect.Value) bool {
		if f.Len() == 0 {
			return true
		}
		if o, ok := tx.snapshot().Get(target.Facts().Name, f.String()); !ok || o.DeletedAt != 0 {
			err = target.missing(f.String())
		}
		return err == nil
	})
	return err
}

// maxHolders bounds how many holders a refusal names.
const maxHolders = 5

// holders lists the ids of other living resources that keep the given one.
func (tx *Tx) holders(idType reflect.Type, id string) []string {
	target := tx.db.byID[idType]
	var ids []string
	for i, r := range tx.db.refs[idType] {
		if r.weak {
			continue
		}
		holder := tx.db.holder[idType][i]
		for o := range tx.find(holder.Facts().Name, store.Key{Index: r.Name, Value: id}) {
			if holder == target && o.ID == id || slices.Contains(ids, o.ID) {
				continue
			}
			if ids = append(ids, o.ID); len(ids) == maxHolders {
				return ids
			}
		}
	}
	return ids
}

// Used counts what a kind's quota counts. For a quota per reference, v is a
// resource that has the reference.
func Used(tx *Tx, k Any, v reflect.Value) int {
	facts := k.Facts()
	if facts.Quota.Per == "" {
		return tx.snapshot().Count(facts.Name)
	}
	n := 0
	for range tx.find(facts.Name, store.Key{Index: facts.Quota.Per, Value: v.FieldByName(facts.Quota.Per).String()}) {
		n++
	}
	return n
}

// MostUsed is the largest use of a kind's quota: how many resources there are
// or, for a quota per reference, how many share the one with the most.
func MostUsed(tx *Tx, k Any) int {
	facts := k.Facts()
	if facts.Quota.Per == "" {
		return tx.snapshot().Count(facts.Name)
	}
	most, used := 0, map[string]int{}
	for o := range tx.scan(facts.Name, 0) {
		by := reflect.ValueOf(o.Value).Elem().FieldByName(facts.Quota.Per).String()
		if o.DeletedAt == 0 && by != "" {
			used[by]++
			most = max(most, used[by])
		}
	}
	return most
}
