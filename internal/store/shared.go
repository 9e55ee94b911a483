package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

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

// checks asks for versions. Those who ask while a question is on its way share
// the next one, so that a node asks one question at a time however many read.
type checks struct {
	mu      sync.Mutex // guards what follows
	next    *check     // the question that is being put together
	running bool
}

// check is one question.
type check struct {
	accounts map[string]bool
	versions map[string]uint64
	err      error
	done     chan struct{}
}

// versions answers the versions of accounts, as they were at some moment since
// the call.
func (s *Store) versions(ctx context.Context, accounts []string) (map[string]uint64, error) {
	s.checks.mu.Lock()
	c := s.checks.next
	if c == nil {
		c = &check{accounts: map[string]bool{}, done: make(chan struct{})}
		s.checks.next = c
	}
	for _, account := range accounts {
		c.accounts[account] = true
	}
	if !s.checks.running {
		s.checks.running = true
		go s.ask()
	}
	s.checks.mu.Unlock()
	select {
	case <-c.done:
		return c.versions, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask asks one question after the other until nobody waits.
func (s *Store) ask() {
	for {
		s.checks.mu.Lock()
		c := s.checks.next
		s.checks.next = nil
		s.checks.running = c != nil
		s.checks.mu.Unlock()
		if c == nil {
			return
		}
		// No asker's context bounds the question: the others would share its
		// end. The journal has a bound of its own.
		c.versions, c.err = s.shared.Versions(context.Background(), slices.Collect(maps.Keys(c.accounts)))
		close(c.done)
	}
}

// Glance is what one reader has made sure of: the versions of accounts, each
// as it was at some moment since the Glance began. A snapshot of this version or
// a newer one is fresh for this reader. Snapshots of several accounts must also
// be of one moment, so that no transaction is seen in one of them and not in
// another: they are what one question was answered.
type Glance struct {
	mu       sync.Mutex // guards what follows
	versions map[string]uint64
	last     map[string]uint64 // what the last question was answered
}

// covers reports whether the reader has made sure of the snapshots before.
func (g *Glance) covers(snapshots []*Snapshot) bool {
	for _, snap := range snapshots {
		version, sure := g.versions[snap.account]
		if len(snapshots) > 1 {
			version, sure = g.last[snap.account]
			sure = sure && snap.version == version
		}
		if !sure || snap.version < version {
			return false
		}
	}
	return true
}

type glanceKey struct{}

// Glance begins a [Glance] for all that reads with the context. A call of the
// region is one: it looks at the same accounts several times, and asks once.
func (s *Store) Glance(ctx context.Context) context.Context {
	if s.shared == nil {
		return ctx
	}
	return context.WithValue(ctx, glanceKey{}, &Glance{})
}

// Cached answers the account as it is in memory, which may be behind; if it is
// not there, it is loaded. Whoever uses it must ask [Store.Fresh] afterwards.
func (s *Store) Cached(ctx context.Context, account string) (*Snapshot, error) {
	e := s.entry(account)
	if tick := s.tick.Load(); e.used.Load() != tick {
		e.used.Store(tick)
	}
	if snap := e.snapshot.Load(); snap != nil {
		return snap, nil
	}
	return s.load(ctx, account, e)
}

// Fresh reports whether the snapshots are, together, what the accounts were at
// some moment since the call, or since the context's [Glance] began. Those that
// are not it brings up to date in memory, so that [Store.Cached] answers better.
func (s *Store) Fresh(ctx context.Context, snapshots []*Snapshot) (bool, error) {
	if s.shared == nil {
		return true, nil
	}
	g, _ := ctx.Value(glanceKey{}).(*Glance)
	if g == nil {
		g = &Glance{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.covers(snapshots) {
		return true, nil
	}
	accounts := make([]string, len(snapshots))
	for i, snap := range snapshots {
		accounts[i] = snap.account
	}
	versions, err := s.versions(ctx, accounts)
	if err != nil {
		return false, fmt.Errorf("asking for the versions of accounts: %w", err)
	}
	if g.versions == nil {
		g.versions = map[string]uint64{}
	}
	g.last = map[string]uint64{}
	fresh := true
	for _, snap := range snapshots {
		version := versions[snap.account]
		g.versions[snap.account], g.last[snap.account] = version, version
		switch {
		case snap.version > version:
			s.forsake(snap, version)
			fresh = false
		case snap.version < version:
			if _, err := s.refresh(ctx, snap.account, version, s.shared.Since); err != nil {
				return false, err
			}
			fresh = false
		}
	}
	return fresh, nil
}

// Views is [Store.View] of each of many accounts, for little more than one of them
// costs. They need not be of one moment: those that others write to all the time
// would never be.
func (s *Store) Views(ctx context.Context, accounts []string) (snapshots []*Snapshot, err error) {
	ctx = s.Glance(ctx)
	snapshots = make([]*Snapshot, len(accounts))
	for i, account := range accounts {
		if snapshots[i], err = s.Cached(ctx, account); err != nil {
			return nil, err
		}
	}
	if fresh, err := s.Fresh(ctx, snapshots); err != nil || fresh {
		return snapshots, err
	}
	// What was behind no longer is, and was asked for: this asks no more.
	for i, account := range accounts {
		if snapshots[i], err = s.View(ctx, account); err != nil {
			return nil, err
		}
	}
	return snapshots, nil
}

// forsake drops all that is in memory, because a snapshot there is newer than
// the journal, which was asked after it was taken: the journal has lost what this
// node has seen. It was restored to an earlier time, or a failover lost commits.
// Nobody can tell what else it has lost, so no account is believed any more.
func (s *Store) forsake(snap *Snapshot, version uint64) {
	s.forsaking.Lock()
	defer s.forsaking.Unlock()
	if s.inMemory(snap.account) != snap {
		return // somebody else was faster
	}
	s.Log.Error("the journal is at an earlier version than this node has seen: it was restored, or has lost commits. What is in memory is dropped and read anew. Restart all nodes",
		"account", snap.account, "seen", snap.version, "version", version)
	s.accounts.Range(func(_, e any) bool {
		s.drop(e.(*entry))
		return true
	})
}

// drop forgets an account. One that is being read from the journal is forgotten
// after that.
func (s *Store) drop(e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if snap := e.snapshot.Swap(nil); snap != nil {
		s.held.Add(-snap.size)
	}
}

// since is how the rows of an account since a version are read: in a
// transaction or outside of one.
type since func(ctx context.Context, account string, version uint64, each func(Row) error) (uint64, error)

// refresh brings the account in memory to a version at least, and answers it.
func (s *Store) refresh(ctx context.Context, account string, version uint64, read since) (*Snapshot, error) {
	e := s.entry(account)
	e.mu.Lock()
	defer e.mu.Unlock()
	snap := e.snapshot.Load()
	if snap != nil && snap.version >= version {
		return snap, nil
	}
	if snap == nil {
		snap = &Snapshot{account: account, tables: map[string]*table{}}
	}
	fresh, changes, err := s.absorb(ctx, snap, read)
	if errors.Is(err, ErrForgotten) {
		fresh, changes, err = s.absorb(ctx, &Snapshot{account: account, tables: map[string]*table{}}, read)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what others wrote to the account %s: %w", account, err)
	}
	if old := e.snapshot.Swap(fresh); old != nil {
		s.held.Add(-old.size)
	}
	s.held.Add(fresh.size)
	if s.Changed != nil && len(changes) > 0 {
		s.Changed(changes)
	}
	return fresh, nil
}

// absorb is the snapshot with what was written since.
func (s *Store) absorb(ctx context.Context, snap *Snapshot, read since) (*Snapshot, []Change, error) {
	type change struct {
		codec Codec
		id    string
		o     *Object // nil: removed
	}
	var all []change
	var changes []Change
	version, err := read(ctx, snap.account, snap.version, func(r Row) error {
		c := change{codec: s.codecs[r.Kind], id: r.ID}
		if c.codec == nil {
			return unknownKind(r)
		}
		if r.Doc != nil {
			var err error
			if c.o, err = s.object(snap.account, c.codec, r); err != nil {
				return err
			}
		}
		all = append(all, c)
		changes = append(changes, Change{snap.account, r.Kind, r.ID})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	s.forking.Lock()
	defer s.forking.Unlock()
	fresh := *snap
	fresh.version, fresh.tables = version, maps.Clone(snap.tables)
	own := map[string]bool{}
	for _, c := range all {
		name := c.codec.Name()
		if t := fresh.tables[name]; t != nil && !own[name] {
			fresh.tables[name] = t.fork()
		}
		own[name] = true
		if c.o != nil {
			fresh.set(c.codec, c.o)
		} else if old, ok := fresh.Get(name, c.id); ok {
			fresh.tables[name].take(c.codec, old)
			fresh.count(c.codec, old, -1)
		}
	}
	return &fresh, changes, nil
}

// lane is the updates of an account that wait. One transaction at a time takes
// some of them, in their order.
type lane struct {
	waiting []*update
	busy    bool // it is ready, or its turn has not ended
}

// turn is the updates of a lane that a transaction has taken.
type turn struct {
	lane    *lane
	updates []*update
}

// lanes are those of all accounts. What is ready when a transaction begins
// shares it, whatever the account: that spares the database most of its work, as
// a commit for all does on a journal that is not shared.
type lanes struct {
	mu      sync.Mutex // guards what follows, and what is in the lanes
	ready   []*lane
	drivers int
}

// maxDrivers bounds how many transactions take what is ready. With more of them
// each has less to share.
const maxDrivers = 2

// join has the closure run in a transaction of its account.
func (s *Store) join(account string, fn func(*Tx) error) error {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return ErrClosed
	}
	u := &update{fn: fn, needs: []string{account}, done: make(chan struct{})}
	l := &s.entry(account).lane
	s.lanes.mu.Lock()
	l.waiting = append(l.waiting, u)
	if !l.busy {
		s.enqueue(l)
	}
	s.lanes.mu.Unlock()
	<-u.done
	return u.err
}

// enqueue makes a lane ready. The mutex of the lanes is held.
func (s *Store) enqueue(l *lane) {
	l.busy = true
	s.lanes.ready = append(s.lanes.ready, l)
	if s.lanes.drivers < maxDrivers {
		s.lanes.drivers++
		go s.drive()
	}
}

// drive runs what is ready until nothing is.
func (s *Store) drive() {
	for turns := s.take(); turns != nil; turns = s.take() {
		for _, t := range s.together(turns) {
			if len(t.updates) == 0 {
				s.leave(t.lane)
				continue
			}
			go func() {
				s.alone(t.updates)
				s.leave(t.lane)
				s.evict()
			}()
		}
		s.evict()
	}
}

// take takes what is ready, as much as may share a transaction; nil: nothing is,
// and the driver ends.
func (s *Store) take() (turns []turn) {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	for room := maxGroup; room > 0 && len(s.lanes.ready) > 0; {
		l := s.lanes.ready[0]
		n := min(len(l.waiting), room)
		turns = append(turns, turn{l, slices.Clone(l.waiting[:n])})
		l.waiting, s.lanes.ready, room = slices.Delete(l.waiting, 0, n), s.lanes.ready[1:], room-n
	}
	if turns == nil {
		s.lanes.ready = nil
		s.lanes.drivers--
	}
	return turns
}

// leave ends the turn of a lane.
func (s *Store) leave(l *lane) {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	if l.busy = len(l.waiting) > 0; l.busy {
		s.enqueue(l)
	}
}

// together runs the updates of the turns in one transaction, and answers the
// turns with those that must be run by themselves: because somebody else holds
// the account, because they need more accounts, or because one of the others may
// have made the transaction fail. These have written nothing.
func (s *Store) together(turns []turn) []turn {
	var all []*update
	for _, t := range turns {
		all = append(all, t.updates...)
	}
	ctx := context.Background()
	locked, err := s.shared.TryLock(ctx, needed(all))
	var left []*update
	if err != nil {
		err = fmt.Errorf("locking accounts: %w", err)
	} else if left, err = s.attempt(ctx, locked, all); err != nil && !errors.Is(err, ErrUnknown) {
		return turns
	}
	for i, t := range turns {
		turns[i].updates = finish(t.updates, left, err)
	}
	return turns
}

// finish answers those of the updates that are not left over, and lists those
// that are.
func finish(updates, left []*update, err error) (over []*update) {
	for _, u := range updates {
		if slices.Contains(left, u) {
			over = append(over, u)
			continue
		}
		if err != nil {
			u.err = err
		}
		close(u.done)
	}
	return over
}

// How often a transaction that met others is run again, and the longest pause
// before that.
const (
	maxRetries = 9
	maxPause   = 500 * time.Millisecond
)

// alone runs updates in a transaction that waits for its accounts, and those
// that turn out to need more in another that holds these too. Only the first
// kind of repetition is bounded: a round that finds another account is progress.
func (s *Store) alone(updates []*update) {
	ctx := context.Background()
	for retries := 0; len(updates) > 0; {
		var left []*update
		locked, err := s.shared.Lock(ctx, needed(updates))
		if err != nil {
			err = fmt.Errorf("locking accounts: %w", err)
		} else {
			left, err = s.attempt(ctx, locked, updates)
		}
		if errors.Is(err, ErrAgain) && retries < maxRetries {
			retries++
			// Longer each time, so that they do not meet again and again.
			<-s.After(min(time.Millisecond<<retries, maxPause))
			continue
		}
		updates = finish(updates, left, err)
	}
}

// needed are the accounts that updates need, as far as it is known.
func needed(updates []*update) []string {
	accounts := map[string]bool{}
	for _, u := range updates {
		for _, account := range u.needs {
			accounts[account] = true
		}
	}
	return slices.Sorted(maps.Keys(accounts))
}

// base is the account at the version at which it is held. No other will do: all
// accounts of a transaction are as they were when it held the last of them, also
// for a closure that writes nothing and so never learns that the locks were lost.
func (s *Store) base(ctx context.Context, locked Locked, account string, version uint64) (*Snapshot, error) {
	snap, err := s.refresh(ctx, account, version, locked.Since)
	if err != nil || snap.version == version {
		return snap, err
	}
	// What is in memory is newer. Either the locks were lost, and somebody
	// else has written, or the journal went back.
	if _, err := locked.Since(ctx, account, version, func(Row) error { return nil }); err != nil {
		return nil, fmt.Errorf("making sure of the account %s: %w", account, err)
	}
	s.forsake(snap, version)
	// Nor is what the transaction has taken from memory of other accounts believed.
	return nil, fmt.Errorf("%w: the account %s is older than it was", ErrAgain, account)
}

// attempt runs updates in a transaction, and ends it. It answers those that need
// accounts that the transaction does not hold; they have written nothing, whatever
// became of the others.
func (s *Store) attempt(ctx context.Context, locked Locked, updates []*update) (left []*update, err error) {
	bases := map[string]*Snapshot{}
	for account, version := range locked.Versions() {
		if bases[account], err = s.base(ctx, locked, account, version); err != nil {
			locked.Rollback(ctx)
			return nil, err
		}
	}
	g := s.newGroup(func(account string) *Snapshot { return bases[account] })
	s.forking.Lock()
	for _, u := range updates {
		if slices.ContainsFunc(u.needs, func(account string) bool { return bases[account] == nil }) {
			left = append(left, u)
			continue
		}
		var absent string
		if absent, u.err = g.run(u.fn); absent != "" {
			u.needs = append(u.needs, absent)
			left = append(left, u)
		}
	}
	s.forking.Unlock()
	batches := g.batches()
	if len(batches) == 0 {
		locked.Rollback(ctx)
		return left, nil
	}
	if err := locked.Commit(ctx, batches); err != nil {
		return left, fmt.Errorf("committing to the journal: %w", err)
	}
	g.publish(batches)
	return left, nil
}
