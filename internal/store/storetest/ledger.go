package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Ledger makes many goroutines move amounts between accounts, in transactions
// over two of them: through several stores, one over each journal. The journals
// are one shared journal, and are closed at the end. A goroutine that has made
// n moves makes another one if more returns true. Meanwhile others add up all
// accounts.
//
// A move preserves the sum, so it is always the same for readers and
// transactions that see all accounts at one moment. At the end each successful
// move is in both of its accounts, each failed one in neither, and one whose
// outcome is [store.ErrUnknown] in both or neither.
//
// The test fails if nothing was moved.
func Ledger(t *testing.T, more func(n int) bool, journals ...store.Journal) {
	t.Helper()
	l := &ledger{T: t, done: make(chan struct{}), moves: map[string]move{}}
	for i, j := range journals {
		s := Open(j, func(o *store.Options) { o.After = atOnce })
		defer func() {
			if err := s.Close(); err != nil {
				t.Errorf("closing store %d: %v", i, err)
			}
		}()
		l.stores = append(l.stores, s)
	}
	var writers, readers sync.WaitGroup
	for i, s := range l.stores {
		for w := range ledgerWriters {
			writers.Go(func() { l.write(s, fmt.Sprintf("%d-%d", i, w), rand.New(rand.NewPCG(uint64(i), uint64(w))), more) })
		}
		readers.Go(func() { l.addUp(s, "a transaction", l.inTransaction) })
		readers.Go(func() { l.addUp(s, "a reader", l.inSnapshots) })
		readers.Go(func() { l.addUp(s, "a reader who has looked before", l.inBarrier) })
		readers.Go(func() { l.addUp(s, "a reader who has them locked", l.inLocks) })
	}
	writers.Wait()
	close(l.done)
	readers.Wait()
	l.check()
}

// atOnce is a pause that takes no time.
func atOnce(time.Duration) <-chan time.Time {
	now := make(chan time.Time)
	close(now)
	return now
}

// ledgerWriters is how many move amounts through each store.
const ledgerWriters = 4

// ledgerAccounts are few, so that moves meet, and not in the order in which
// engines lock them.
var ledgerAccounts = []string{"c", "a", "B", "b"}

type ledger struct {
	*testing.T
	stores []*store.Store
	done   chan struct{} // closed when no more is moved

	mu    sync.Mutex // guards what follows
	moves map[string]move
	sums  int // that were right
}

// move is what was asked for, and what was answered.
type move struct {
	from, to string
	amount   int
	err      error
}

// purse is what an account holds: the sum of all that was moved there.
func purse(r interface {
	Get(kind, id string) (*store.Object, bool)
}) (amount int) {
	if o, ok := r.Get(Box.Name(), "purse"); ok {
		_, _ = fmt.Sscan(o.Value.(Thing).Text, &amount)
	}
	return amount
}

// write moves amounts, one after the other.
func (l *ledger) write(s *store.Store, name string, random *rand.Rand, more func(int) bool) {
	for n := 0; more(n) && !l.Failed(); n++ {
		places := random.Perm(len(ledgerAccounts))
		m := move{from: ledgerAccounts[places[0]], to: ledgerAccounts[places[1]], amount: 1 + random.IntN(9)}
		id := fmt.Sprint(name, "-", n)
		// One account is named; that another one is needed comes out.
		m.err = s.Update(l.Context(), m.from, func(tx *store.Tx) error {
			for account, amount := range map[string]int{m.from: -m.amount, m.to: m.amount} {
				d := tx.In(account)
				d.Put(Box.Name(), "purse", Thing{Text: fmt.Sprint(purse(d) + amount)})
				d.Put(Lid.Name(), id, Thing{Text: fmt.Sprint(amount)})
			}
			return nil
		})
		l.mu.Lock()
		l.moves[id] = m
		l.mu.Unlock()
	}
}

// addUp adds up all accounts, again and again.
func (l *ledger) addUp(s *store.Store, who string, see func(*store.Store) (map[string]int, error)) {
	for right := 0; ; right++ {
		purses, err := see(s)
		sum := 0
		for _, amount := range purses {
			sum += amount
		}
		switch {
		case err != nil && !errors.Is(err, store.ErrAgain): // a transaction that met too many others
			l.Errorf("%s: %v", who, err)
		case err == nil && sum != 0:
			l.Errorf("%s sees %v, which adds up to %d and not to nothing", who, purses, sum)
		}
		select {
		case <-l.done:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.sums += right
			return
		default:
		}
	}
}

func (l *ledger) inTransaction(s *store.Store) (purses map[string]int, err error) {
	err = s.Update(l.Context(), ledgerAccounts[0], func(tx *store.Tx) error {
		purses = map[string]int{}
		for _, account := range ledgerAccounts {
			purses[account] = purse(tx.In(account))
		}
		return nil
	})
	return purses, err
}

func (l *ledger) inSnapshots(s *store.Store) (map[string]int, error) {
	return together(l.Context(), s)
}

// inBarrier has looked at each account alone before, as a gate does, at moments
// that are not the same.
func (l *ledger) inBarrier(s *store.Store) (map[string]int, error) {
	ctx := s.Barrier(l.Context())
	for _, account := range ledgerAccounts {
		if _, err := s.View(ctx, account); err != nil {
			return nil, err
		}
	}
	return together(ctx, s)
}

func (l *ledger) inLocks(s *store.Store) (map[string]int, error) {
	snapshots, err := s.Snapshots(l.Context(), ledgerAccounts)
	purses := map[string]int{}
	for _, snap := range snapshots {
		purses[snap.Account()] = purse(snap)
	}
	return purses, err
}

// together reads all accounts as they were at one moment.
func together(ctx context.Context, s *store.Store) (map[string]int, error) {
	for {
		purses := map[string]int{}
		var snapshots []*store.Snapshot
		for _, account := range ledgerAccounts {
			snap, err := s.Cached(ctx, account)
			if err != nil {
				return nil, err
			}
			purses[account] = purse(snap)
			snapshots = append(snapshots, snap)
		}
		if fresh, err := s.Validate(ctx, snapshots); err != nil || fresh {
			return purses, err
		}
	}
}

// check holds what each store says in the end against what was answered.
func (l *ledger) check() {
	answered, unknown := 0, 0
	for i, s := range l.stores {
		has := map[string]map[string]string{} // the moves that an account has, and what each did there
		purses := map[string]int{}
		for _, account := range ledgerAccounts {
			snap, err := s.View(l.Context(), account)
			if err != nil {
				l.Fatal(err)
			}
			has[account], purses[account] = map[string]string{}, purse(snap)
			for o := range snap.Scan(Lid.Name(), 0) {
				has[account][o.ID] = o.Value.(Thing).Text
			}
			if made := len(has[account]); uint64(made) != snap.Version() {
				l.Errorf("store %d: %s has %d moves at version %d", i, account, made, snap.Version())
			}
		}
		for id, m := range l.moves {
			given, taken := has[m.from][id] == fmt.Sprint(-m.amount), has[m.to][id] == fmt.Sprint(m.amount)
			made := given && taken
			switch {
			case given != taken:
				l.Errorf("store %d: half of the move %s is there: %+v", i, id, m)
			case m.err == nil && !made:
				l.Errorf("store %d: the move %s was answered and is not there: %+v", i, id, m)
			case m.err != nil && made && !errors.Is(m.err, store.ErrUnknown):
				l.Errorf("store %d: the move %s is there, and was answered %v", i, id, m.err)
			}
			switch {
			case made:
				purses[m.from] += m.amount
				purses[m.to] -= m.amount
			case i == 0 && errors.Is(m.err, store.ErrUnknown):
				unknown++
			}
			if i == 0 && m.err == nil {
				answered++
			}
			delete(has[m.from], id)
			delete(has[m.to], id)
		}
		for account, left := range has {
			if len(left) > 0 || purses[account] != 0 {
				l.Errorf("store %d: in %s is %d beyond what its moves say, and moves that were never made: %q",
					i, account, purses[account], slices.Sorted(maps.Keys(left)))
			}
		}
	}
	if answered == 0 || l.sums == 0 {
		l.Errorf("%d moves were answered and %d sums were right: nothing was tried", answered, l.sums)
	}
	l.Logf("%d moves, of which %d were answered and %d have an unknown outcome and were not made; %d sums were right", len(l.moves),
		answered, unknown, l.sums)
}

// A transaction over two accounts is seen whole or not at all, on one node…
func movesBetweenAccounts(t *testing.T, open Opener) {
	Ledger(t, func(n int) bool { return n < 15 }, openJournal(t, open))
}

// … and on all.
func movesOnManyNodes(t *testing.T, open Opener) {
	Ledger(t, func(n int) bool { return n < 15 }, openJournal(t, open), openJournal(t, open))
}
