// Package store keeps the state of a region: one immutable snapshot of decoded
// objects per account in memory, transactions over them, and a [Journal] that
// makes them durable.
//
// The account is the unit of consistency, and has a version. A reader takes an
// account's newest snapshot and needs no lock and no I/O. A writer hands in a
// closure; closures run one after the other over memory, the rows they leave
// are committed together, and only then is anything published or answered. So
// a reader sees nothing that a power cut could take back, and a closure that
// fails has written nothing.
//
// The store knows nothing of clouds: what it must know of a kind of resource
// is a [Codec].
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
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
	// Unsettled reports whether a loop has work to do for the value.
	Unsettled(value any) bool
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
	// Unsettled lists the accounts that have objects a loop must look at.
	Unsettled(ctx context.Context) ([]string, error)
	Close() error
}

// Row is one object as the journal keeps it.
type Row struct {
	Kind, ID string
	Version  uint64 // of the account when the row was written
	Seq      uint64 // see [Object]
	Gone     int64  // see [Object]
	Doc      []byte // nil: the object is no more
}

// Batch is what one account gains in a commit.
type Batch struct {
	Account   string
	Version   uint64
	Unsettled int // how many objects of the account a loop must look at
	Rows      []Row
}

// Change names an object that a committed transaction wrote or removed.
type Change struct{ Account, Kind, ID string }

// Options configures a [Store].
type Options struct {
	Codecs  []Codec
	Journal Journal          // nil: nothing outlives the process
	Now     func() time.Time // the region's clock
	Chance  io.Reader        // the region's source of ids, secrets and choices
	Log     *slog.Logger

	// Memory bounds the documents held in memory, in bytes of their encoding
	// (decoded they take about two to three times that). Accounts not used for
	// longest are dropped above it. 0 means no bound.
	Memory int64

	// Changed is told of each commit before it is answered, and of what others
	// wrote to a shared journal when it is read. It must return at once.
	Changed func([]Change)

	// After is the pause before a transaction that met another one in a shared
	// journal is run again: time.After, or a test's own.
	After func(time.Duration) <-chan time.Time
}

// Store is safe for concurrent use.
type Store struct {
	Options
	codecs    map[string]Codec
	shared    Shared     // the journal, if it is one
	checks    checks     // of versions, in a shared journal
	lanes     lanes      // of updates, in a shared journal
	forsaking sync.Mutex // held while memory is dropped because the journal went back; before the mutex of an entry
	forking   sync.Mutex // held while tables are forked; only one writer may
	accounts  sync.Map   // string → *entry
	queue     chan *update
	done      chan struct{}
	failed    chan error
	held      atomic.Int64 // bytes of documents in memory
	tick      atomic.Int64 // moves with each batch of commits; orders the use of accounts

	// closing is held for reading while an update is handed in, or made in a
	// shared journal, and while the journal is read. It is taken before the mutex of an entry.
	closing sync.RWMutex
	closed  bool
}

// entry is the place of an account in memory. Its mutex is held while the
// account is loaded, dropped or published, never while it is read.
type entry struct {
	mu       sync.Mutex
	snapshot atomic.Pointer[Snapshot]
	used     atomic.Int64
	wanted   atomic.Int32 // how many updates need it in memory
	lane     lane         // of its updates, in a shared journal
}

// ErrClosed answers calls on a store that was closed or has failed.
var ErrClosed = errors.New("the store is closed")

// Open starts a store over a journal, which it closes in the end.
func Open(o Options) *Store {
	s := &Store{
		Options: o,
		codecs:  map[string]Codec{},
		// Room for the closures that arrive while a commit is on its way.
		queue:  make(chan *update, 1024),
		done:   make(chan struct{}),
		failed: make(chan error, 1),
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	for _, c := range o.Codecs {
		s.codecs[c.Name()] = c
	}
	s.shared, _ = o.Journal.(Shared)
	go s.write()
	return s
}

// Close lets the updates already handed in finish, then closes the journal.
func (s *Store) Close() error {
	s.closing.Lock()
	if s.closed {
		s.closing.Unlock()
		<-s.done
		return nil
	}
	s.closed = true
	close(s.queue)
	s.closing.Unlock()
	<-s.done
	if s.Journal == nil {
		return nil
	}
	return s.Journal.Close()
}

// Failed delivers the error of a commit that failed. What the journal holds is
// then unknown, so the store takes no more updates and the process should end:
// the next start reads what is true. A store over a [Shared] journal never fails
// in this way: it can ask.
func (s *Store) Failed() <-chan error { return s.failed }

// Held is the number of bytes of documents in memory.
func (s *Store) Held() int64 { return s.held.Load() }

// View answers the newest snapshot of the account. An account that nobody
// wrote to has an empty one.
func (s *Store) View(ctx context.Context, account string) (*Snapshot, error) {
	for {
		snap, err := s.Cached(ctx, account)
		if err != nil || s.shared == nil {
			return snap, err
		}
		if fresh, err := s.Fresh(ctx, []*Snapshot{snap}); err != nil || fresh {
			return snap, err
		}
	}
}

func (s *Store) entry(account string) *entry {
	if e, ok := s.accounts.Load(account); ok {
		return e.(*entry)
	}
	e, _ := s.accounts.LoadOrStore(account, &entry{})
	return e.(*entry)
}

func (s *Store) load(ctx context.Context, account string, e *entry) (*Snapshot, error) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if snap := e.snapshot.Load(); snap != nil {
		return snap, nil
	}
	snap := &Snapshot{account: account, tables: map[string]*table{}}
	if s.Journal != nil {
		version, err := s.Journal.Load(ctx, account, func(r Row) error { return s.place(snap, r) })
		if err != nil {
			return nil, fmt.Errorf("loading account %s: %w", account, err)
		}
		snap.version = version
	}
	e.snapshot.Store(snap)
	if held := s.held.Add(snap.size); s.Memory != 0 && held > s.Memory {
		// The writer evicts after each group: give it one if it has none.
		select {
		case s.queue <- &update{fn: func(*Tx) error { return nil }, done: make(chan struct{})}:
		default:
		}
	}
	return snap, nil
}

// place decodes a row into a snapshot that nobody else sees yet.
func (s *Store) place(snap *Snapshot, r Row) error {
	codec, ok := s.codecs[r.Kind]
	if !ok {
		return unknownKind(r)
	}
	o, err := s.object(snap.account, codec, r)
	if err == nil {
		snap.set(codec, o)
	}
	return err
}

func unknownKind(r Row) error {
	return fmt.Errorf("%s is of the kind %s, which this program does not know: was it written by a newer one?", r.ID, r.Kind)
}

// object decodes a row.
func (s *Store) object(account string, codec Codec, r Row) (*Object, error) {
	value, err := codec.Decode(Place{account, r.Kind, r.ID}, r.Doc)
	if err != nil {
		return nil, fmt.Errorf("decoding %s %s: %w", r.Kind, r.ID, err)
	}
	return &Object{ID: r.ID, Seq: r.Seq, Gone: r.Gone, Value: value, size: int32(len(r.Doc))}, nil
}

// Unsettled lists the accounts that have objects a loop must look at.
func (s *Store) Unsettled(ctx context.Context) ([]string, error) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.Journal != nil {
		return s.Journal.Unsettled(ctx)
	}
	var accounts []string
	s.accounts.Range(func(account, e any) bool {
		if snap := e.(*entry).snapshot.Load(); snap != nil && snap.unsettled > 0 {
			accounts = append(accounts, account.(string))
		}
		return true
	})
	slices.Sort(accounts)
	return accounts, nil
}

// update is a closure on its way to the writer.
type update struct {
	fn     func(*Tx) error
	err    error
	absent string   // an account that the closure needs and that is not in memory
	needs  []string // the accounts that a transaction in a shared journal must hold
	done   chan struct{}
}

// Update runs the closure over memory and, if it returns nil, makes what it
// wrote durable before answering. The closure must be pure but for the Tx: it
// may run again when it reaches an account that was not in memory, and others
// wait while it runs, so it does no I/O.
func (s *Store) Update(ctx context.Context, account string, fn func(*Tx) error) error {
	if s.shared != nil {
		return s.join(account, fn)
	}
	// What the closure has needed stays in memory until it is answered.
	// Otherwise accounts that do not fit together could drop each other for ever.
	var needs []*entry
	defer func() {
		for _, e := range needs {
			e.wanted.Add(-1)
		}
	}()
	for {
		e := s.entry(account)
		e.wanted.Add(1)
		needs = append(needs, e)
		if _, err := s.View(ctx, account); err != nil {
			return err
		}
		u := &update{fn: fn, done: make(chan struct{})}
		if err := s.hand(u); err != nil {
			return err
		}
		// The caller's context is not asked here: what was handed in will be
		// committed, and the caller should learn that it was.
		<-u.done
		if u.absent == "" {
			return u.err
		}
		account = u.absent
	}
}

func (s *Store) hand(u *update) error {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return ErrClosed
	}
	s.queue <- u
	return nil
}

// maxGroup bounds how many closures share a commit, and so how long the first
// of them waits for the last.
const maxGroup = 512

// write is the writer: it alone runs closures, commits and publishes.
func (s *Store) write() {
	defer close(s.done)
	var broken error
	for first := range s.queue {
		g := s.newGroup(s.inMemory)
		for u := first; u != nil; u = next(s.queue, g) {
			if u.err = broken; broken == nil {
				u.absent, u.err = g.run(u.fn)
			}
			g.updates = append(g.updates, u)
		}
		if broken == nil {
			if broken = g.commit(); broken != nil {
				s.failed <- broken
				broken = fmt.Errorf("%w: %w", ErrClosed, broken)
				g.fail(broken)
			}
		}
		for _, u := range g.updates {
			close(u.done)
		}
		s.evict()
	}
}

// next takes one more closure into the group if one is waiting.
func next(queue <-chan *update, g *group) *update {
	if len(g.updates) == maxGroup {
		return nil
	}
	select {
	case u := <-queue:
		return u
	default:
		return nil
	}
}

// group is the closures that share a commit.
type group struct {
	store   *Store
	base    func(account string) *Snapshot // nil: the group does not have the account
	number  int64                          // never used twice
	updates []*update
	drafts  map[string]*pending
}

func (s *Store) newGroup(base func(account string) *Snapshot) *group {
	return &group{store: s, base: base, number: s.tick.Add(1), drafts: map[string]*pending{}}
}

// pending is an account as the closures of the group have left it so far.
type pending struct {
	snapshot *Snapshot
	rows     map[objectKey]Row
}

type objectKey struct{ kind, id string }

// run runs a closure over what those before it left. A closure that fails
// leaves nothing.
func (g *group) run(fn func(*Tx) error) (absent string, err error) {
	tx := &Tx{group: g, now: g.store.Now(), chance: g.store.Chance, drafts: map[string]*Draft{}}
	defer func() {
		if p := recover(); p != nil {
			switch p := p.(type) {
			case absentAccount:
				absent, err = string(p), nil
			case tooMany:
				err = p
			default:
				err = &Panic{Value: p, Stack: debug.Stack()}
			}
		}
		if absent != "" || err != nil {
			for _, d := range tx.drafts {
				d.undo()
			}
		}
	}()
	if err := fn(tx); err != nil {
		return "", err
	}
	rows := map[string][]Row{}
	for account, d := range tx.drafts {
		for k := range d.dirty {
			row, err := g.store.row(d.Snapshot, k)
			if err != nil {
				return "", err
			}
			rows[account] = append(rows[account], row)
		}
	}
	for account, rows := range rows {
		p := g.drafts[account]
		if p == nil {
			p = &pending{rows: map[objectKey]Row{}}
			g.drafts[account] = p
		}
		p.snapshot = tx.drafts[account].Snapshot
		for _, row := range rows {
			p.rows[objectKey{row.Kind, row.ID}] = row
		}
	}
	return "", nil
}

// Panic is the error of a closure that panicked. It has written nothing.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string {
	return fmt.Sprintf("panic in a transaction: %v\n%s", p.Value, p.Stack)
}

// inMemory is the account as it is in memory, if it is.
func (s *Store) inMemory(account string) *Snapshot { return s.entry(account).snapshot.Load() }

// commit makes the group durable and then visible.
func (g *group) commit() error {
	batches := g.batches()
	if len(batches) == 0 {
		return nil
	}
	if g.store.Journal != nil {
		if err := g.store.Journal.Commit(context.Background(), batches); err != nil {
			return fmt.Errorf("committing to the journal: %w", err)
		}
	}
	g.publish(batches)
	return nil
}

// batches are what the group's closures have written, by account.
func (g *group) batches() []Batch {
	batches := make([]Batch, 0, len(g.drafts))
	for account, p := range g.drafts {
		b := Batch{Account: account, Version: p.snapshot.version, Unsettled: p.snapshot.unsettled, Rows: slices.Collect(maps.Values(p.rows))}
		// The order of a map is chance; the journal and the loops get the
		// order in which the objects were made.
		slices.SortFunc(b.Rows, func(x, y Row) int { return cmp.Or(cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.ID, y.ID)) })
		batches = append(batches, b)
	}
	slices.SortFunc(batches, func(x, y Batch) int { return cmp.Compare(x.Account, y.Account) })
	return batches
}

// publish makes visible what was made durable. In a shared journal memory may have
// something else by then than the group was based on: what others have written
// since, or nothing, because the journal went back. That is left to be read.
func (g *group) publish(batches []Batch) {
	var changes []Change
	for _, b := range batches {
		p := g.drafts[b.Account]
		e := g.store.entry(b.Account)
		e.mu.Lock()
		if now := e.snapshot.Load(); now == g.base(b.Account) {
			e.snapshot.Store(p.snapshot)
			g.store.held.Add(p.snapshot.size - now.size)
		}
		e.mu.Unlock()
		for _, r := range b.Rows {
			changes = append(changes, Change{b.Account, r.Kind, r.ID})
		}
	}
	if g.store.Changed != nil {
		g.store.Changed(changes)
	}
}

// row encodes what a closure has left of an object. An object that cannot be
// encoded fails its own closure and no other.
func (s *Store) row(snap *Snapshot, k objectKey) (Row, error) {
	row := Row{Kind: k.kind, ID: k.id, Version: snap.version}
	o, ok := snap.Get(k.kind, k.id)
	if !ok {
		return row, nil
	}
	doc, err := s.codecs[k.kind].Encode(Place{snap.account, k.kind, k.id}, o.Value)
	if err != nil {
		return Row{}, fmt.Errorf("encoding %s %s: %w", k.kind, k.id, err)
	}
	// The object is not published yet, so its size can still be set.
	snap.size += int64(len(doc)) - int64(o.size)
	o.size = int32(len(doc))
	row.Seq, row.Gone, row.Doc = o.Seq, o.Gone, doc
	return row, nil
}

func (g *group) fail(err error) {
	for _, u := range g.updates {
		if u.err == nil && u.absent == "" {
			u.err = err
		}
	}
}

// evict drops the accounts not used for longest once the documents in memory
// exceed the bound, down to nine tenths of it so that it is not for one account
// only. The writer does it between commits, when no draft is open.
func (s *Store) evict() {
	if s.Journal == nil || s.Memory == 0 || s.held.Load() <= s.Memory {
		return
	}
	var all []*entry
	s.accounts.Range(func(_, e any) bool {
		all = append(all, e.(*entry))
		return true
	})
	slices.SortFunc(all, func(x, y *entry) int { return cmp.Compare(x.used.Load(), y.used.Load()) })
	for _, e := range all {
		if s.held.Load() <= s.Memory/10*9 {
			return
		}
		// An account that is being loaded, or is needed, is not unused.
		if e.wanted.Load() > 0 || !e.mu.TryLock() {
			continue
		}
		if snap := e.snapshot.Swap(nil); snap != nil {
			s.held.Add(-snap.size)
		}
		e.mu.Unlock()
	}
}
