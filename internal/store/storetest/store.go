package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bastide-cloud/bastide/internal/store"
)

var storeTests = []test{
	{"keeps nothing of a closure that fails", on(keepsNothingOfFailure)},
	{"keeps nothing of a closure that panics", on(keepsNothingOfPanic)},
	{"keeps nothing of a value that cannot be encoded", on(keepsNothingUnencodable)},
	{"runs a closure again that reaches an absent account", on(runsAgain)},
	{"answers every update of a group", on(answersGroups)},
	{"shows accounts at one moment", on(movesBetweenAccounts)},
	{"gives back what it evicted", on(givesBackEvicted)},
	{"works with accounts that do not fit in memory together", on(worksInLittleMemory)},
	{"answers nothing once closed", on(answersNothingClosed)},
	{"finishes what was handed in before it closes", on(finishesBeforeClose)},
	{"opens again with all it had", on(storeOpensAgain)},
	{"stops when a commit fails", on(stopsOnFailure)},
	{"never shows what is not committed", on(showsCommittedOnly)},
	{"behaves like a map", behavesLikeMap},
	{"behaves like a map when evicted and opened again", behavesLikeDurableMap},
}

// start opens a store over the journal for the length of a test.
func start(t *testing.T, open Opener, set ...func(*store.Options)) *store.Store {
	t.Helper()
	s := Open(openJournal(t, open), set...)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

func update(t *testing.T, s *store.Store, account string, fn func(*store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), account, fn); err != nil {
		t.Fatalf("updating %s: %v", account, err)
	}
}

// put is a closure that writes one box.
func put(account, id string, thing Thing) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		tx.In(account).Put(Box.Name(), id, thing)
		return nil
	}
}

func render(t *testing.T, s *store.Store, accounts ...string) string {
	t.Helper()
	var b strings.Builder
	for _, account := range accounts {
		snap, err := s.View(t.Context(), account)
		if err != nil {
			t.Fatalf("viewing %s: %v", account, err)
		}
		b.WriteString(Render(snap))
	}
	return b.String()
}

// scribble writes all over two accounts.
func scribble(tx *store.Tx) {
	for _, account := range []string{"one", "two"} {
		d := tx.In(account)
		d.Put("box", "a", Thing{Name: "scribble"})
		d.SoftDelete("box", "b", Thing{Name: "scribble"}, tx.Now())
		d.Remove("box", "c")
		d.Put("lid", "new", Thing{Name: "scribble"})
	}
}

func fill(t *testing.T, s *store.Store) {
	t.Helper()
	for _, account := range []string{"one", "two"} {
		for _, id := range []string{"a", "b", "c"} {
			update(t, s, account, put(account, id, Thing{Name: "name of " + id, Parts: []string{"shared"}, Busy: id == "c"}))
		}
	}
}

// unchanged checks that nothing that fn does to the store is seen, now or when
// the accounts are loaded again.
func unchanged(t *testing.T, open Opener, fn func(*store.Store)) {
	t.Helper()
	j := openJournal(t, open)
	s := Open(j)
	fill(t, s)
	before := render(t, s, "one", "two")
	fn(s)
	if after := render(t, s, "one", "two"); after != before {
		t.Errorf("the accounts are\n%s, want\n%s", after, before)
	}
	update(t, s, "one", put("one", "d", Thing{}))
	before = render(t, s, "one", "two")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if j == nil {
		return
	}
	if after := render(t, start(t, open), "one", "two"); after != before {
		t.Errorf("opened again, the accounts are\n%s, want\n%s", after, before)
	}
}

func keepsNothingOfFailure(t *testing.T, open Opener) {
	unchanged(t, open, func(s *store.Store) {
		refused := errors.New("refused")
		err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
			scribble(tx)
			return refused
		})
		if err != refused {
			t.Errorf("the update answered %v, want the closure's own error", err)
		}
	})
}

func keepsNothingOfPanic(t *testing.T, open Opener) {
	unchanged(t, open, func(s *store.Store) {
		err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
			scribble(tx)
			panic("a rule is broken")
		})
		p, ok := errors.AsType[*store.Panic](err)
		if !ok || p.Value != "a rule is broken" || !strings.Contains(string(p.Stack), "keepsNothingOfPanic") {
			t.Errorf("the update answered %v, want the panic and where it was", err)
		}
	})
}

func keepsNothingUnencodable(t *testing.T, open Opener) {
	unchanged(t, open, func(s *store.Store) {
		err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
			scribble(tx)
			tx.In("two").Put("box", "z", "not a thing")
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "encoding box z") {
			t.Errorf("the update answered %v, want which value cannot be encoded", err)
		}
	})
}

func runsAgain(t *testing.T, open Opener) {
	s := start(t, open)
	runs := 0
	update(t, s, "one", func(tx *store.Tx) error {
		runs++
		tx.In("one").Put("box", "a", Thing{})
		tx.In("two").Put("box", "a", Thing{})
		tx.In("three").Put("box", "a", Thing{})
		return nil
	})
	// It was stopped at the second account and at the third.
	if runs != 3 {
		t.Errorf("the closure ran %d times, want 3", runs)
	}
	for _, account := range []string{"one", "two", "three"} {
		snap, err := s.View(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		if snap.Version() != 1 || snap.Count("box") != 1 {
			t.Errorf("%s is at version %d with %d boxes, want one of each", account, snap.Version(), snap.Count("box"))
		}
	}
}

func answersGroups(t *testing.T, open Opener) {
	s := start(t, open)
	const writers, each = 32, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				err := s.Update(t.Context(), "sum", func(tx *store.Tx) error {
					// What an earlier closure of the same group left counts.
					sum := ""
					if o, ok := tx.In("sum").Get("box", "sum"); ok {
						sum = o.Value.(Thing).Text
					}
					tx.In("sum").Put("box", "sum", Thing{Text: sum + "."})
					tx.In("own").Put("box", fmt.Sprintf("%d-%d", w, i), Thing{})
					if i == each/2 {
						return errors.New("one in the middle fails")
					}
					return nil
				})
				if (err != nil) != (i == each/2) {
					t.Errorf("update %d of writer %d answered %v", i, w, err)
				}
			}
		})
	}
	wg.Wait()
	const want = writers * (each - 1)
	sum, err := s.View(t.Context(), "sum")
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := sum.Get("box", "sum"); !ok || len(o.Value.(Thing).Text) != want || sum.Version() != want {
		t.Errorf("%v was summed up in %d versions, want %d", o, sum.Version(), want)
	}
	own, err := s.View(t.Context(), "own")
	if err != nil {
		t.Fatal(err)
	}
	if own.Count("box") != want {
		t.Errorf("%d boxes were made, want %d", own.Count("box"), want)
	}
}

func memory(bytes int64) func(*store.Options) {
	return func(o *store.Options) { o.Memory = bytes }
}

func givesBackEvicted(t *testing.T, open Opener) {
	const accounts, room = 20, 4000
	s := start(t, open, memory(room))
	var before []string
	for i := range accounts {
		account := fmt.Sprint("account ", i)
		for _, id := range []string{"a", "b"} {
			update(t, s, account, put(account, id, Thing{Name: id, Parts: []string{"x", "y"}, Text: strings.Repeat("t", 300)}))
		}
		update(t, s, account, func(tx *store.Tx) error {
			tx.In(account).SoftDelete("box", "a", Thing{Name: "gone"}, tx.Now())
			return nil
		})
		before = append(before, render(t, s, account))
	}
	// The writer may not yet have looked after the last update.
	if held := s.Held(); held > room+1000 {
		t.Errorf("%d bytes are in memory, want no more than %d and the last account", held, room)
	}
	for i, want := range before {
		if got := render(t, s, fmt.Sprint("account ", i)); got != want {
			t.Errorf("after eviction the account is\n%s, want\n%s", got, want)
		}
	}
}

func worksInLittleMemory(t *testing.T, open Opener) {
	s := start(t, open, memory(1))
	const writers, each = 8, 5
	accounts := []string{"one", "two", "three"}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				err := s.Update(t.Context(), accounts[w%3], func(tx *store.Tx) error {
					for _, account := range accounts {
						tx.In(account).Put("box", fmt.Sprintf("%d-%d", w, i), Thing{})
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, account := range accounts {
		snap, err := s.View(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		if snap.Count("box") != writers*each || snap.Version() != writers*each {
			t.Errorf("%s has %d boxes at version %d, want %d", account, snap.Count("box"), snap.Version(), writers*each)
		}
	}
}

func answersNothingClosed(t *testing.T, open Opener) {
	s := Open(openJournal(t, open))
	fill(t, s)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("closing: %v", err)
		}
	}
	for _, account := range []string{"one", "never seen"} {
		if err := s.Update(t.Context(), account, put(account, "a", Thing{})); !errors.Is(err, store.ErrClosed) {
			t.Errorf("updating %s answered %v, want that the store is closed", account, err)
		}
	}
	if _, err := s.View(t.Context(), "never seen"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("viewing an account that is not in memory answered %v, want that the store is closed", err)
	}
	if _, err := s.Pending(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("listing pending accounts returned %v, want that the store is closed", err)
	}
}

func finishesBeforeClose(t *testing.T, open Opener) {
	j := openJournal(t, open)
	s := Open(j)
	const writers = 16
	var answered [writers]bool
	var first, all sync.WaitGroup
	for w := range writers {
		first.Add(1)
		all.Go(func() {
			for i := 0; ; i++ {
				err := s.Update(t.Context(), "one", put("one", fmt.Sprintf("%d-%d", w, i), Thing{}))
				if i == 0 {
					answered[w] = err == nil
					first.Done()
				}
				if errors.Is(err, store.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("an update while the store closes answered %v", err)
					return
				}
			}
		})
	}
	first.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if j != nil {
		s = start(t, open)
	}
	snap, err := s.View(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	for w, ok := range answered {
		if _, found := snap.Get("box", fmt.Sprintf("%d-0", w)); !found || !ok {
			t.Errorf("the first update of writer %d was answered well: %t, and is there: %t", w, ok, found)
		}
	}
	if snap.Version() != uint64(snap.Count("box")) {
		t.Errorf("%d boxes at version %d, want as many", snap.Count("box"), snap.Version())
	}
}

func storeOpensAgain(t *testing.T, open Opener) {
	s := Open(openJournal(t, open))
	fill(t, s)
	update(t, s, "one", func(tx *store.Tx) error {
		scribble(tx)
		return nil
	})
	want := render(t, s, "one", "two", "nobody")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start(t, open)
	// The loops ask before any account was read.
	if accounts, err := s.Pending(t.Context()); err != nil || !slices.Equal(accounts, []string{"one", "two"}) {
		t.Errorf("the pending accounts are %q and %v, want the ones with deleted objects", accounts, err)
	}
	if got := render(t, s, "one", "two", "nobody"); got != want {
		t.Errorf("opened again, the accounts are\n%s, want\n%s", got, want)
	}
}

// between is a journal that runs a function before and after each commit.
type between struct {
	store.Journal
	before, after func([]store.Batch) error
}

func (b between) Commit(ctx context.Context, batches []store.Batch) error {
	if err := b.before(batches); err != nil {
		return err
	}
	if err := b.Journal.Commit(ctx, batches); err != nil {
		return err
	}
	return b.after(batches)
}

func nothing([]store.Batch) error { return nil }

// A commit that fails may have been written or not. The store shows neither,
// and the next one shows what is true.
func stopsOnFailure(t *testing.T, open Opener) {
	torn := errors.New("the cable is torn")
	for _, written := range []bool{false, true} {
		var broken atomic.Bool
		fail := func([]store.Batch) error {
			if broken.Load() {
				return torn
			}
			return nil
		}
		j := between{openJournal(t, open), fail, nothing}
		if written {
			j.before, j.after = nothing, fail
		}
		s := Open(j)
		fill(t, s)
		before := render(t, s, "one", "two")
		broken.Store(true)
		const writers = 8
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				errs[w] = s.Update(t.Context(), "one", func(tx *store.Tx) error {
					scribble(tx)
					return nil
				})
			})
		}
		wg.Wait()
		for _, err := range errs {
			if !errors.Is(err, torn) || !errors.Is(err, store.ErrClosed) {
				t.Errorf("an update answered %v, want that the store is closed and why", err)
			}
		}
		if err := <-s.Failed(); !errors.Is(err, torn) {
			t.Errorf("the store failed because of %v, want %v", err, torn)
		}
		broken.Store(false)
		if err := s.Update(t.Context(), "one", put("one", "late", Thing{})); !errors.Is(err, store.ErrClosed) {
			t.Errorf("an update after the failure answered %v, want that the store is closed", err)
		}
		if after := render(t, s, "one", "two"); after != before {
			t.Errorf("after a failed commit the accounts are\n%s, want\n%s", after, before)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = Open(openJournal(t, open))
		if after := render(t, s, "one", "two"); (after == before) == written {
			t.Errorf("written before it failed: %t; opened again, the accounts are\n%s, before the commit\n%s", written, after, before)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func showsCommittedOnly(t *testing.T, open Opener) {
	var s *store.Store
	committed := map[string]uint64{}
	same := func(when string, account string) {
		snap, err := s.View(t.Context(), account)
		if err != nil {
			t.Errorf("viewing %s %s: %v", account, when, err)
		} else if snap.Version() != committed[account] {
			t.Errorf("%s its commit, %s shows version %d, want %d", when, account, snap.Version(), committed[account])
		}
	}
	look := func(when string) func([]store.Batch) error {
		return func(batches []store.Batch) error {
			for _, b := range batches {
				same(when, b.Account)
			}
			return nil
		}
	}
	// Published is what was committed, and only once Commit has returned.
	j := between{openJournal(t, open), look("before"), look("until the end of")}
	s = Open(j, func(o *store.Options) {
		o.Changed = func(changes []store.Change) {
			for _, c := range changes {
				if c.ID == "once" {
					committed[c.Account]++
				}
			}
			for _, c := range changes {
				same("after", c.Account)
			}
		}
	})
	for i := range 20 {
		update(t, s, "one", func(tx *store.Tx) error {
			for _, account := range []string{"one", "two"}[:1+i%2] {
				tx.In(account).Put("box", fmt.Sprint(i), Thing{})
				tx.In(account).Put("box", "once", Thing{Text: fmt.Sprint(i)})
			}
			return nil
		})
	}
	if want := map[string]uint64{"one": 20, "two": 10}; !reflect.DeepEqual(committed, want) {
		t.Errorf("the reported commits add up to %v, want %v", committed, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
