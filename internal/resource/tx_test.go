package resource_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

func TestWhatARuleIsGiven(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	now.advance(time.Minute)
	caller := resource.Caller{Account: alice, User: "U", AccessKey: "K"}
	type hint struct{}
	ctx := context.WithValue(t.Context(), hint{}, "here")
	rule := func(tx *resource.Tx) error {
		for _, tx := range []*resource.Tx{tx, tx.In(bob)} {
			if tx.Caller != caller {
				t.Errorf("the caller is %v, want %v", tx.Caller, caller)
			}
			if want := midnight.Add(time.Minute); !tx.Now().Equal(want) {
				t.Errorf("it is %v, want %v", tx.Now(), want)
			}
			if tx.Context().Value(hint{}) != "here" {
				t.Error("the context is not the caller's")
			}
			if n, err := tx.Rand().Read(make([]byte, 8)); n != 8 || err != nil {
				t.Errorf("chance gives %d bytes and %v", n, err)
			}
		}
		if tx.Account() != alice || tx.In(bob).Account() != bob || tx.In(bob).In(alice).Account() != alice {
			t.Errorf("the accounts are %s, %s, %s", tx.Account(), tx.In(bob).Account(), tx.In(bob).In(alice).Account())
		}
		return nil
	}
	// Bob's account was not in memory, so that an update runs the rule twice.
	must(db.View(ctx, caller, rule))
	must(db.Update(ctx, caller, rule))
}

func TestOtherAccounts(t *testing.T) {
	t.Parallel()
	db := open(t)
	var his, hers town
	update(t, db, alice, func(tx *resource.Tx) error {
		his, hers = town{Name: "his"}, town{Name: "hers"}
		must(towns.Insert(tx.In(bob), &his))
		return towns.Insert(tx, &hers)
	})
	name := func(v *town) string { return v.Name }
	view(t, db, alice, func(tx *resource.Tx) {
		if got := each(towns.All(tx), name); !slices.Equal(got, []string{"hers"}) {
			t.Errorf("alice has %q", got)
		}
		if got := each(towns.All(tx.In(bob)), name); !slices.Equal(got, []string{"his"}) {
			t.Errorf("bob has %q", got)
		}
	})
	// A reference leads to what is in the account of the one who refers.
	update(t, db, alice, func(tx *resource.Tx) error { return houses.Insert(tx.In(bob), &house{TownId: his.TownId}) })
	refused(t, db, alice, towns.NotFound, string(hers.TownId), func(tx *resource.Tx) error {
		return houses.Insert(tx.In(bob), &house{TownId: hers.TownId})
	})

	// What fails in one account is written in none.
	refused(t, db, alice, towns.InUse, "in use", func(tx *resource.Tx) error {
		must(towns.Delete(tx, &hers))
		return towns.Delete(tx.In(bob), &his)
	})
	view(t, db, alice, func(tx *resource.Tx) {
		if !towns.Has(tx, hers.TownId) {
			t.Error("a refused transaction deleted a town in another account")
		}
	})
}

func TestAbsentAccounts(t *testing.T) {
	t.Parallel()
	j := newRows()
	first := open(t, over(j))
	of := insert(t, first, bob, towns, town{Name: "his"})
	must(first.Close())

	db := open(t, over(j))
	runs := 0
	var made town
	update(t, db, alice, func(tx *resource.Tx) error {
		runs++
		made = town{Name: "hers"}
		must(towns.Insert(tx, &made))
		if got, err := towns.Get(tx.In(bob), of.TownId); err != nil || got.Name != "his" {
			t.Errorf("in the account that was not in memory Get answers %v and %v", got, err)
		}
		return nil
	})
	if runs != 2 {
		t.Errorf("the rule ran %d times, want again once its other account is there", runs)
	}
	view(t, db, alice, func(tx *resource.Tx) {
		if n := towns.Count(tx); n != 1 || !towns.Has(tx, made.TownId) {
			t.Errorf("a rule that ran twice left %d towns", n)
		}
	})
}

// broken is a journal that cannot be read.
type broken struct{ rows }

var errBroken = errors.New("the disk is gone")

func (*broken) Load(context.Context, string, func(store.Row) error) (uint64, error) {
	return 0, errBroken
}

func TestAccountThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	db := open(t, over(&broken{}))
	count := func(tx *resource.Tx) error {
		towns.Count(tx)
		t.Error("the rule went on")
		return nil
	}
	if err := db.View(t.Context(), resource.Caller{Account: alice}, count); !errors.Is(err, errBroken) {
		t.Errorf("the view answered %v, want %v", err, errBroken)
	}
	if err := db.Update(t.Context(), resource.Caller{Account: alice}, count); !errors.Is(err, errBroken) {
		t.Errorf("the transaction answered %v, want %v", err, errBroken)
	}
}

// A rule that only reads and writes is our mistake, and so is any other panic:
// a view passes it on, a transaction answers it.
func TestPanics(t *testing.T) {
	t.Parallel()
	db := open(t)
	of := insert(t, db, alice, towns, town{Tags: []resource.ResourceTag{{Key: "k"}}})
	for _, test := range []struct {
		name  string
		write func(*resource.Tx)
	}{
		{"Insert", func(tx *resource.Tx) { _ = towns.Insert(tx, &town{}) }},
		{"Put", func(tx *resource.Tx) { _ = towns.Put(tx, of) }},
		{"Delete", func(tx *resource.Tx) { _ = towns.Delete(tx, of) }},
		{"SetTags", func(tx *resource.Tx) {
			tagged, _ := tx.Tagged(string(of.TownId))
			tx.SetTags(tagged, nil)
		}},
		{"in another account", func(tx *resource.Tx) { _ = towns.Insert(tx.In(bob), &town{}) }},
	} {
		view(t, db, alice, func(tx *resource.Tx) {
			if said := panics(t, func() { test.write(tx) }); !strings.Contains(said, "only reads wrote") {
				t.Errorf("%s in a view panics with %q", test.name, said)
			}
		})
	}
	said := panics(t, func() {
		_ = db.View(t.Context(), resource.Caller{Account: alice}, func(*resource.Tx) error { panic("a rule's own") })
	})
	if said != "a rule's own" {
		t.Errorf("a view turned a panic into %q", said)
	}
	err := db.Update(t.Context(), resource.Caller{Account: alice}, func(tx *resource.Tx) error {
		must(towns.Delete(tx, of))
		panic("a rule's own")
	})
	if p, ok := errors.AsType[*store.Panic](err); !ok || p.Value != "a rule's own" {
		t.Errorf("a transaction that panicked answered %v", err)
	}
	view(t, db, alice, func(tx *resource.Tx) {
		if !towns.Has(tx, of.TownId) {
			t.Error("a transaction that panicked has written")
		}
	})
}

func TestErrorsOfRules(t *testing.T) {
	t.Parallel()
	db := open(t)
	mine := errors.New("mine")
	rule := func(*resource.Tx) error { return mine }
	if err := db.View(t.Context(), resource.Caller{Account: alice}, rule); err != mine {
		t.Errorf("the view answered %v, not the rule's error", err)
	}
	if err := db.Update(t.Context(), resource.Caller{Account: alice}, rule); err != mine {
		t.Errorf("the transaction answered %v, not the rule's error", err)
	}
}

// A transaction that may write so much writes all of it or nothing, whatever the
// accounts are.
func TestBound(t *testing.T) {
	t.Parallel()
	db := open(t)
	rule := func(bound, size int) func(tx *resource.Tx) error {
		return func(tx *resource.Tx) error {
			tx.Bound(bound)
			for _, account := range []string{alice, bob} {
				if err := letters.Insert(tx.In(account), &letter{Text: strings.Repeat("x", size)}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	refused(t, db, alice, apierror.InsufficientCapacity, "more than 1 MiB", rule(1<<20, 1<<19))
	for _, account := range []string{alice, bob} {
		view(t, db, account, func(tx *resource.Tx) {
			if n := letters.Count(tx); n != 0 || tx.Version() != 0 {
				t.Errorf("what was refused has left %d letters, at the version %d", n, tx.Version())
			}
		})
	}
	update(t, db, alice, rule(1<<20, 1<<19-1000))
	update(t, db, alice, rule(0, 1<<20))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	db := open(t)
	version := func(account string) (v uint64) {
		view(t, db, account, func(tx *resource.Tx) { v = tx.Version() })
		return v
	}
	if v := version(alice); v != 0 {
		t.Errorf("an account that nobody wrote to has the version %d", v)
	}
	insert(t, db, alice, towns, town{})
	update(t, db, alice, func(tx *resource.Tx) error {
		if v := tx.Version(); v != 1 {
			t.Errorf("a transaction begins at the version %d, want 1", v)
		}
		return nil
	})
	if a, b := version(alice), version(bob); a != 1 || b != 0 {
		t.Errorf("after one write to alice's account the versions are %d and %d", a, b)
	}
}

// A transaction has one value of each resource, so that a rule and a function that
// it calls do not undo what the other has changed.
func TestATransactionHasOneValueOfAResource(t *testing.T) {
	t.Parallel()
	db := open(t)
	made := insert(t, db, alice, towns, town{Name: "first"})
	theirs := insert(t, db, bob, towns, town{TownId: made.TownId, Name: "bob's"})
	update(t, db, alice, func(tx *resource.Tx) error {
		mine, err := towns.Get(tx, made.TownId)
		must(err)
		for same := range towns.All(tx) {
			same.Tags = []resource.ResourceTag{{Key: "by a helper"}}
			must(towns.Put(tx, same))
		}
		mine.Name = "second"
		must(towns.Put(tx, mine))
		if other, err := towns.Get(tx.In(bob), made.TownId); err != nil || other.Name != theirs.Name {
			t.Errorf("the town of the same ID in another account is %+v, %v", other, err)
		}
		fresh := &town{Name: "inserted"}
		must(towns.Insert(tx, fresh))
		if got := towns.Find(tx, fresh.TownId); got != fresh {
			t.Error("what was inserted is another value than what is got")
		}
		must(towns.Delete(tx, fresh))
		again := &town{TownId: fresh.TownId, Name: "inserted again"}
		must(towns.Insert(tx, again))
		if got := towns.Find(tx, fresh.TownId); got != again {
			t.Errorf("what was deleted and inserted again is got as %+v", got)
		}
		return nil
	})
	view(t, db, alice, func(tx *resource.Tx) {
		if got, err := towns.Get(tx, made.TownId); err != nil || got.Name != "second" || len(got.Tags) != 1 {
			t.Errorf("the town has become %+v (%v), want what both have changed", got, err)
		}
	})
	err := db.Update(t.Context(), resource.Caller{Account: alice}, func(tx *resource.Tx) error {
		got, err := towns.Get(tx, made.TownId)
		must(err)
		copied := *got
		return towns.Put(tx, &copied)
	})
	if err == nil || !strings.Contains(err.Error(), "another value") {
		t.Errorf("a rule that puts another value than it got is answered %v", err)
	}
}

// A view looks at each account as it was when it first looked, while others
// write on. One that has met several accounts at different moments runs again.
func TestViewSeesOneVersion(t *testing.T) {
	t.Parallel()
	db := open(t)
	of := map[string]*town{alice: insert(t, db, alice, towns, town{}), bob: insert(t, db, bob, towns, town{})}
	build := func(account string) {
		insert(t, db, account, houses, house{TownId: of[account].TownId})
	}
	count := func(tx *resource.Tx) int { return len(slices.Collect(houses.Of(tx, of[tx.Account()].TownId))) }
	runs := 0
	view(t, db, alice, func(tx *resource.Tx) {
		if runs++; runs > 1 {
			if a, b := count(tx), count(tx.In(bob)); a != 1 || b != 2 {
				t.Errorf("run again, a view sees %d and %d houses, want 1 and 2", a, b)
			}
			return
		}
		if n := count(tx); n != 0 {
			t.Errorf("there are %d houses before any was built", n)
		}
		build(alice)
		build(bob)
		if n := count(tx); n != 0 || houses.Count(tx) != 0 || houses.Count(tx.In(bob).In(alice)) != 0 {
			t.Errorf("a view saw %d houses built after it first looked", n)
		}
		if n := count(tx.In(bob)); n != 1 {
			t.Errorf("in an account where it had not looked yet a view sees %d houses, want 1", n)
		}
		build(bob)
		if n := count(tx.In(bob)); n != 1 {
			t.Errorf("later a view sees %d houses there, want 1", n)
		}
	})
	if runs != 2 {
		t.Errorf("a view of two accounts at different moments ran %d times, want 2", runs)
	}

	// A view whose accounts are written to each time it runs finds them at one
	// moment all the same.
	runs = 0
	var a, b int
	view(t, db, alice, func(tx *resource.Tx) {
		if runs++; runs > 100 {
			t.Fatal("a view of two accounts that others write to is run again for ever")
		}
		a = count(tx)
		build(alice)
		build(bob)
		b = count(tx.In(bob))
	})
	if b != a+1 {
		t.Errorf("a view sees %d and %d houses, want one more of the second, as before each run", a, b)
	}

	// The same with many at once: a writer moves all houses to a new name, in
	// one transaction each time, and readers always see one name.
	moving := open(t)
	const inhabitants = 50
	update(t, moving, alice, func(tx *resource.Tx) error {
		for range inhabitants {
			must(towns.Insert(tx, &town{Name: "0"}))
		}
		return nil
	})
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				err := moving.View(t.Context(), resource.Caller{Account: alice}, func(tx *resource.Tx) error {
					names := slices.Compact(each(towns.All(tx), func(v *town) string { return v.Name }))
					if len(names) != 1 || towns.Count(tx) != inhabitants {
						return fmt.Errorf("a view sees %d towns with the names %q", towns.Count(tx), names)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 100 {
		update(t, moving, alice, func(tx *resource.Tx) error {
			for v := range towns.All(tx) {
				v.Name = string(rune('0' + i))
				must(towns.Put(tx, v))
			}
			return nil
		})
	}
	close(done)
	all.Wait()
}

// Loops look for work by the accounts that have some.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	db := open(t)
	insert(t, db, bob, letters, letter{})
	insert(t, db, bob, towns, town{}) // a kind without a life of its own
	check := func(want ...string) {
		t.Helper()
		got, err := db.Pending(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("unsettled are %q and %v, want %q", got, err, want)
		}
	}
	check()
	sent := insert(t, db, alice, letters, letter{Sent: true})
	check(alice)
	sent.Sent = false
	update(t, db, alice, func(tx *resource.Tx) error { return letters.Put(tx, sent) })
	check()
}

// The same seed and the same calls make the same ids.
func TestSeed(t *testing.T) {
	t.Parallel()
	play := func() (ids []Town) {
		db := open(t)
		for _, account := range []string{alice, bob, alice} {
			ids = append(ids, insert(t, db, account, towns, town{}).TownId)
		}
		return ids
	}
	if first, second := play(), play(); !slices.Equal(first, second) || first[0] == first[2] {
		t.Errorf("the same seed made %s and %s", first, second)
	}
	other := open(t, func(o *resource.Options) {
		o.Rand = io.MultiReader(strings.NewReader("abcdefgh"), strings.NewReader("ijklmnop"))
	})
	if a, b := insert(t, other, alice, towns, town{}).TownId, play()[0]; a == b {
		t.Errorf("another seed made %s too", a)
	}
}
