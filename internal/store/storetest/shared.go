package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/bastide-cloud/bastide/internal/store"
)

var sharedTests = []test{
	{"shows what others wrote", on(showsOthers)},
	{"shows what others removed", on(showsRemoved)},
	{"answers versions of many accounts", on(answersVersions)},
	{"holds an account for one alone", on(holdsAlone)},
	{"holds an account that was never created", on(holdsUnmade)},
	{"takes accounts in any order", on(takesAnyOrder)},
	{"takes what is free and does not wait", on(takesFree)},
	{"goes on beside an account that another holds", on(goesOnBeside)},
	{"answers updates of many accounts on many nodes", on(answersManyAccounts)},
	{"views accounts that others write to all the time", on(viewsBusy)},
	{"leaves nothing of a rollback", on(leavesNothing)},
	{"writes only what it holds", on(writesOnlyHeld)},
	{"stops waiting for an account", on(stopsWaiting)},
	{"lets a writer be followed", on(letsFollow)},
	{"forgets what was removed long ago", on(forgetsRemoved)},
	{"distinguishes accounts by their bytes", on(tellsAccountsApart)},
	{"moves between accounts as one", on(movesOnManyNodes)},
	{"takes one transaction for accounts that are known beforehand", on(takesKnownAccounts)},
	{"runs an update again that met another one", on(retriesConflicts)},
}

// shared opens the journal once more, for the length of a test.
func shared(t *testing.T, open Opener) store.Shared {
	t.Helper()
	j, ok := session(t, open).(store.Shared)
	if !ok {
		t.Fatal("the journal is not one that can be shared")
	}
	return j
}

func lock(t *testing.T, j store.Shared, accounts ...string) store.Locked {
	t.Helper()
	tx, err := j.Lock(t.Context(), accounts)
	if err != nil {
		t.Fatalf("locking %q: %v", accounts, err)
	}
	return tx
}

// sinceReader is what rows written since a version can be asked of.
type sinceReader interface {
	Since(ctx context.Context, account string, version uint64, each func(store.Row) error) (uint64, error)
}

func since(ctx context.Context, j sinceReader, account string, version uint64) (now uint64, rows []store.Row, err error) {
	now, err = j.Since(ctx, account, version, func(r store.Row) error {
		rows = append(rows, r)
		return nil
	})
	slices.SortFunc(rows, byKey)
	return now, rows, err
}

// wrote checks what is answered to have been written since a version.
func wrote(t *testing.T, j sinceReader, account string, after, version uint64, want ...store.Row) {
	t.Helper()
	now, rows, err := since(t.Context(), j, account, after)
	if err != nil || now != version {
		t.Errorf("since version %d %q has come to %d (%v), want %d", after, account, now, err, version)
	}
	slices.SortFunc(want, byKey)
	if len(rows) != len(want) || len(rows) > 0 && !reflect.DeepEqual(rows, want) {
		t.Errorf("since version %d these rows of %q were written:\n%+v, want\n%+v", after, account, rows, want)
	}
}

func showsOthers(t *testing.T, open Opener) {
	one, other := shared(t, open), shared(t, open)
	wrote(t, other, "one", 0, 0)
	a, b := row("box", "a", 1, 1, `{"n":1}`), row("box", "b", 1, 2, `{}`)
	commit(t, one, batch("one", 1, a, b), batch("two", 1, a))
	wrote(t, other, "one", 0, 1, a, b)
	wrote(t, other, "one", 1, 1)

	tx := lock(t, one, "one")
	wrote(t, tx, "one", 0, 1, a, b)
	a2, c := row("box", "a", 2, 1, `{"n":2}`), row("lid", "c", 3, 3, `{}`)
	c.DeletedAt = 7
	if err := tx.Commit(t.Context(), []store.Batch{batch("one", 3, a2, c)}); err != nil {
		t.Fatal(err)
	}
	wrote(t, other, "one", 1, 3, a2, c)
	wrote(t, other, "one", 2, 3, c)
	wrote(t, other, "one", 3, 3)
	wrote(t, other, "two", 0, 1, a)
	holds(t, other, "one", 3, a2, b, c)
}

func showsRemoved(t *testing.T, open Opener) {
	one, other := shared(t, open), shared(t, open)
	kept := row("box", "kept", 1, 1, `{}`)
	commit(t, one, batch("one", 1, kept, row("box", "a", 1, 2, `{}`), row("box", "b", 1, 3, `{}`)))
	a := store.Row{Kind: "box", ID: "a", Version: 2}
	commit(t, one, batch("one", 2, a))
	wrote(t, other, "one", 1, 2, a)
	again, b := row("box", "a", 3, 4, `{"again":true}`), store.Row{Kind: "box", ID: "b", Version: 3}
	commit(t, one, batch("one", 3, again, b))
	wrote(t, other, "one", 1, 3, again, b)
	wrote(t, other, "one", 2, 3, again, b)
	holds(t, other, "one", 3, kept, again)
}

func answersVersions(t *testing.T, open Opener) {
	one, other := shared(t, open), shared(t, open)
	accounts, want := []string{"nobody"}, map[string]uint64{"nobody": 0}
	var batches []store.Batch
	for i := range 100 {
		account := fmt.Sprint("account ", i)
		batches = append(batches, batch(account, uint64(i+1), row("box", "a", 1, 1, `{}`)))
		accounts = append(accounts, account)
		want[account] = uint64(i + 1)
	}
	commit(t, one, batches...)
	got, err := other.Versions(t.Context(), accounts)
	if err != nil {
		t.Fatal(err)
	}
	for account, version := range want {
		if got[account] != version {
			t.Errorf("%s is at version %d, want %d", account, got[account], version)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.Versions(ctx, accounts); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled question answered %v", err)
	}
}

// count writes one more row to each account than it has, in a transaction.
func count(ctx context.Context, j store.Shared, accounts ...string) error {
	tx, err := j.Lock(ctx, accounts)
	if err != nil {
		return fmt.Errorf("locking %q: %w", accounts, err)
	}
	var batches []store.Batch
	for account, version := range tx.Versions() {
		now, rows, err := since(ctx, tx, account, 0)
		if err == nil && (now != version || uint64(len(rows)) != version) {
			err = fmt.Errorf("%s is held at version %d, and has %d rows at version %d", account, version, len(rows), now)
		}
		if err != nil {
			tx.Rollback(ctx)
			return err
		}
		n := version + 1
		batches = append(batches, batch(account, n, row("box", fmt.Sprint(n), n, n, `{}`)))
	}
	return tx.Commit(ctx, batches)
}

func counted(t *testing.T, j store.Shared, account string, want uint64) {
	t.Helper()
	version, rows, err := load(t.Context(), j, account)
	if err != nil || version != want || uint64(len(rows)) != want {
		t.Errorf("%s has %d rows at version %d (%v), want %d of both", account, len(rows), version, err, want)
	}
}

// If two held the account at once, both would count from the same number.
func holdsAlone(t *testing.T, open Opener) {
	const handles, each = 4, 25
	var wg sync.WaitGroup
	for range handles {
		j := shared(t, open)
		for range 2 {
			wg.Go(func() {
				for range each {
					if err := count(t.Context(), j, "one"); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	counted(t, shared(t, open), "one", handles*2*each)
}

// There is no row yet that could be locked.
func holdsUnmade(t *testing.T, open Opener) {
	handles := []store.Shared{shared(t, open), shared(t, open), shared(t, open)}
	const rounds = 20
	for round := range rounds {
		account := fmt.Sprint("account ", round)
		var wg sync.WaitGroup
		for _, j := range handles {
			wg.Go(func() {
				if err := count(t.Context(), j, account); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		counted(t, handles[0], account, uint64(len(handles)))
	}
}

func takesAnyOrder(t *testing.T, open Opener) {
	names := []string{"a", "B", "b", "A", "é", "z", "Z", "_"}
	const handles, each = 3, 20
	var wg sync.WaitGroup
	for h := range handles {
		j := shared(t, open)
		for range 2 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(h), 0))
				for range each {
					// All that exist and some that do not, mixed and doubled.
					wanted := slices.Concat(names, names[:2], []string{fmt.Sprint("new ", r.IntN(10))})
					r.Shuffle(len(wanted), func(i, j int) { wanted[i], wanted[j] = wanted[j], wanted[i] })
					if err := count(t.Context(), j, wanted...); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, name := range names {
		counted(t, shared(t, open), name, handles*2*each)
	}
}

func takesFree(t *testing.T, open Opener) {
	one, other := shared(t, open), shared(t, open)
	a := row("box", "a", 2, 1, `{}`)
	commit(t, one, batch("free", 1), batch("held", 1), batch("other", 1))
	holder := lock(t, one, "held")
	tx, err := other.TryLock(t.Context(), []string{"held", "new", "free"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tx.Versions(), map[string]uint64{"free": 1}; !maps.Equal(got, want) {
		t.Errorf("the accounts held are at %v, want %v", got, want)
	}
	for name, j := range map[string]store.Shared{"the same node": other, "another node": one} {
		beside, err := j.TryLock(t.Context(), []string{"free", "held"})
		if err != nil {
			t.Fatal(err)
		}
		if got := beside.Versions(); len(got) > 0 {
			t.Errorf("%s holds %v as well", name, got)
		}
		beside.Rollback(t.Context())
	}
	if err := tx.Commit(t.Context(), []store.Batch{batch("free", 2, a)}); err != nil {
		t.Error(err)
	}
	holds(t, one, "free", 2, a)
	holder.Rollback(t.Context())

	tx, err = other.TryLock(t.Context(), []string{"held", "free"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tx.Versions(), map[string]uint64{"free": 2, "held": 1}; !maps.Equal(got, want) {
		t.Errorf("once they are free the accounts held are at %v, want %v", got, want)
	}
	if err := tx.Commit(t.Context(), []store.Batch{batch("other", 2, a)}); err == nil {
		t.Error("an account was written to that was not held")
	}
	holds(t, one, "other", 1)
}

// What waits for an account does not keep those that came with it.
func goesOnBeside(t *testing.T, open Opener) {
	j, s := shared(t, open), start(t, open)
	accounts := []string{"a", "b", "held", "y", "z"}
	for _, account := range accounts {
		commit(t, j, batch(account, 1))
	}
	holder := lock(t, j, "held")
	answered := map[string]chan error{}
	for _, account := range accounts {
		answer := make(chan error, 1)
		answered[account] = answer
		go func() { answer <- s.Update(t.Context(), account, put(account, "x", Thing{})) }()
	}
	for _, account := range accounts {
		if account == "held" {
			continue
		}
		if err := <-answered[account]; err != nil {
			t.Errorf("updating %s beside an account that is held: %v", account, err)
		}
	}
	select {
	case err := <-answered["held"]:
		t.Errorf("an update of an account that another holds was answered %v", err)
	default:
	}
	holder.Rollback(t.Context())
	if err := <-answered["held"]; err != nil {
		t.Errorf("once it is free, the account is answered %v", err)
	}
	for _, account := range accounts {
		if version, rows, err := load(t.Context(), j, account); err != nil || version != 2 || len(rows) != 1 {
			t.Errorf("%s is at version %d with %d rows (%v), want 2 and 1", account, version, len(rows), err)
		}
	}
}

// Each update counts in its own account and in one that all share. If an update
// were lost, done twice or done over an old version, a sum would show it.
func answersManyAccounts(t *testing.T, open Opener) {
	const nodes, accounts, each = 2, 12, 8
	add := func(tx *store.Tx, account string) {
		sum := Thing{}
		if o, ok := tx.In(account).Get("box", "sum"); ok {
			sum = o.Value.(Thing)
		}
		sum.Text += "."
		tx.In(account).Put("box", "sum", sum)
	}
	var stores []*store.Store
	for range nodes {
		stores = append(stores, start(t, open, func(o *store.Options) { o.After = atOnce }))
	}
	var wg sync.WaitGroup
	for _, s := range stores {
		for a := range accounts {
			wg.Go(func() {
				own := fmt.Sprint("account ", a)
				for i := range each {
					err := s.Update(t.Context(), own, func(tx *store.Tx) error {
						add(tx, own)
						if i == each/2 {
							add(tx, "all")
						}
						return nil
					})
					if err != nil {
						t.Errorf("update %d of %s answered %v", i, own, err)
					}
				}
			})
		}
	}
	wg.Wait()
	names := []string{"all"}
	for a := range accounts {
		names = append(names, fmt.Sprint("account ", a))
	}
	for _, s := range stores {
		snapshots, err := s.Views(t.Context(), names)
		if err != nil {
			t.Fatal(err)
		}
		for i, snap := range snapshots {
			want := nodes * each
			if names[i] == "all" {
				want = nodes * accounts
			}
			if o, ok := snap.Get("box", "sum"); snap.Account() != names[i] || !ok || len(o.Value.(Thing).Text) != want {
				t.Errorf("%s has become %+v, want %s with a sum of %d", snap.Account(), o, names[i], want)
			}
		}
	}
}

// busy is a journal that another node writes to whenever it is asked for
// versions.
type busy struct {
	store.Shared
	write func()
}

func (b busy) Versions(ctx context.Context, accounts []string) (map[string]uint64, error) {
	b.write()
	return b.Shared.Versions(ctx, accounts)
}

// counting is a journal that counts the transactions, and has some of them meet
// another one when they commit.
type counting struct {
	store.Shared
	transactions, conflicts int
}

func (c *counting) begin(tx store.Locked, err error) (store.Locked, error) {
	c.transactions++
	return conflicting{tx, c}, err
}

func (c *counting) Lock(ctx context.Context, accounts []string) (store.Locked, error) {
	return c.begin(c.Shared.Lock(ctx, accounts))
}

func (c *counting) TryLock(ctx context.Context, accounts []string) (store.Locked, error) {
	return c.begin(c.Shared.TryLock(ctx, accounts))
}

type conflicting struct {
	store.Locked
	journal *counting
}

func (c conflicting) Commit(ctx context.Context, batches []store.Batch) error {
	if c.journal.conflicts > 0 {
		c.journal.conflicts--
		c.Rollback(ctx)
		return store.ErrAgain
	}
	return c.Locked.Commit(ctx, batches)
}

// many are the names of accounts.
func many(n int) (accounts []string) {
	for i := range n {
		accounts = append(accounts, fmt.Sprintf("account %03d", i))
	}
	return accounts
}

// writeTo writes to all accounts.
func writeTo(accounts []string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		for _, account := range accounts {
			tx.In(account).Put(Box.Name(), "x", Thing{})
		}
		return nil
	}
}

// An update of 100 accounts that are there and known beforehand takes one
// transaction.
func takesKnownAccounts(t *testing.T, open Opener) {
	j := &counting{Shared: shared(t, open)}
	s := Open(j, func(o *store.Options) { o.After = atOnce })
	accounts := many(100)
	for _, round := range []string{"made", "written to"} {
		j.transactions = 0
		if err := s.Update(t.Context(), accounts[0], writeTo(accounts), accounts[1:]...); err != nil {
			t.Fatal(err)
		}
		// Accounts that do not exist are not locked in passing.
		if round == "written to" && j.transactions != 1 {
			t.Errorf("100 accounts are %s in %d transactions, want 1", round, j.transactions)
		}
	}
	views(t, s, accounts, 2)
}

// views checks the version of accounts.
func views(t *testing.T, s *store.Store, accounts []string, version uint64) {
	t.Helper()
	for _, account := range accounts {
		if snap, err := s.View(t.Context(), account); err != nil || snap.Version() != version {
			t.Errorf("%s is at the wrong version (%v), want %d", account, err, version)
		}
	}
}

// An update that met others is run again, however many accounts it had to find.
func retriesConflicts(t *testing.T, open Opener) {
	for i, accounts := range []int{1, 9, 10, 11, 30} {
		j := &counting{Shared: shared(t, open), conflicts: 3}
		s := Open(j, func(o *store.Options) { o.After = atOnce })
		if err := s.Update(t.Context(), "account 000", writeTo(many(accounts))); err != nil || j.conflicts > 0 {
			t.Errorf("an update that finds %d accounts and meets 3 others: %v, with %d left to meet", accounts, err, j.conflicts)
		}
		views(t, s, many(1), uint64(i+1))
	}
}

// Many accounts are viewed with one question, even if some would have changed
// again by the answer to a second one.
func viewsBusy(t *testing.T, open Opener) {
	j := shared(t, open)
	accounts := []string{"a", "b", "nobody", "c"}
	commit(t, j, batch("a", 1), batch("b", 1), batch("c", 1))
	asked, version := 0, uint64(1)
	inner, _ := openJournal(t, open).(store.Shared)
	s := Open(busy{inner, func() {
		if asked++; asked > 3 {
			return // it would be asked for ever
		}
		version++
		if err := j.Commit(t.Context(), []store.Batch{batch("b", version), batch("c", version)}); err != nil {
			t.Error(err)
		}
	}})
	defer s.Close()
	for want := uint64(2); want < 4; want++ {
		snapshots, err := s.Views(t.Context(), accounts)
		if err != nil {
			t.Fatal(err)
		}
		for i, version := range []uint64{1, want, 0, want} {
			if snap := snapshots[i]; snap.Account() != accounts[i] || snap.Version() != version {
				t.Errorf("%s is seen at version %d, want %s at %d", snap.Account(), snap.Version(), accounts[i], version)
			}
		}
		if asked != int(want)-1 {
			t.Errorf("%d questions were asked, want one for each time", asked)
		}
	}
}

func leavesNothing(t *testing.T, open Opener) {
	one, other := shared(t, open), shared(t, open)
	a := row("box", "a", 1, 1, `{}`)
	commit(t, one, batch("one", 1, a))
	tx := lock(t, one, "one", "new")
	if got, want := tx.Versions(), map[string]uint64{"one": 1, "new": 0}; !maps.Equal(got, want) {
		t.Errorf("the accounts held are at %v, want %v", got, want)
	}
	wrote(t, tx, "one", 0, 1, a)
	tx.Rollback(t.Context())
	holds(t, other, "one", 1, a)
	holds(t, other, "new", 0)

	// It holds nothing any more, and neither does one that writes nothing or
	// ends with its caller.
	tx = lock(t, other, "one", "new")
	if err := tx.Commit(t.Context(), nil); err != nil {
		t.Errorf("committing nothing answered %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tx = lock(t, one, "new", "one")
	cancel()
	tx.Rollback(ctx)
	tx = lock(t, other, "new", "one")
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := tx.Commit(ctx, []store.Batch{batch("new", 1, a)}); !errors.Is(err, context.Canceled) {
		t.Errorf("a commit that was canceled before it began answered %v", err)
	}
	lock(t, one, "new", "one").Rollback(t.Context())
	holds(t, other, "one", 1, a)
	holds(t, other, "new", 0)
}

func writesOnlyHeld(t *testing.T, open Opener) {
	j := shared(t, open)
	tx := lock(t, j, "one")
	a := row("box", "a", 1, 1, `{}`)
	if err := tx.Commit(t.Context(), []store.Batch{batch("one", 1, a), batch("two", 1, a)}); err == nil {
		t.Error("an account was written to that was not held")
	}
	holds(t, j, "one", 0)
	holds(t, j, "two", 0)
	commit(t, j, batch("one", 1, a), batch("two", 1, a))
}

func stopsWaiting(t *testing.T, open Opener) {
	one, other := shared(t, open), shared(t, open)
	for _, account := range []string{"made", "new"} {
		if account == "made" {
			commit(t, one, batch(account, 1))
		}
		tx := lock(t, one, account)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := other.Lock(ctx, []string{account})
			done <- err
		}()
		// It has either begun to wait by then or not.
		if _, err := other.Versions(t.Context(), []string{account}); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("waiting for an account was canceled, and answered %v", err)
		}
		version := tx.Versions()[account] + 1
		if err := tx.Commit(t.Context(), []store.Batch{batch(account, version)}); err != nil {
			t.Error(err)
		}
		tx = lock(t, other, account)
		if got := tx.Versions()[account]; got != version {
			t.Errorf("%s is held at version %d, want %d", account, got, version)
		}
		tx.Rollback(t.Context())
	}
}

// deed is what a writer does at a version: it puts a box, or removes it.
func deed(version uint64) store.Row {
	r := rand.New(rand.NewPCG(version, 0))
	id := fmt.Sprint(r.IntN(20))
	if r.IntN(3) == 0 {
		return store.Row{Kind: "box", ID: id, Version: version}
	}
	return row("box", id, version, version, fmt.Sprintf(`{"at":%d}`, version))
}

// A follower adds to what it has what was written since, and always has what
// the writer had at that version.
func letsFollow(t *testing.T, open Opener) {
	const versions, group = 300, 3
	writer := shared(t, open)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		j := shared(t, open)
		wg.Go(func() {
			has, want := map[string]store.Row{}, map[string]store.Row{}
			for version := uint64(0); version < versions; {
				now, rows, err := since(ctx, j, "one", version)
				if err != nil {
					t.Errorf("following from version %d: %v", version, err)
					return
				}
				for _, r := range rows {
					if has[r.ID] = r; r.Doc == nil {
						delete(has, r.ID)
					}
				}
				for v := version + 1; v <= now; v++ {
					r := deed(v)
					if want[r.ID] = r; r.Doc == nil {
						delete(want, r.ID)
					}
				}
				if !reflect.DeepEqual(has, want) {
					t.Errorf("from version %d to %d the account has become\n%+v, want\n%+v", version, now, has, want)
					return
				}
				version = now
			}
		})
	}
	for version := uint64(0); version < versions; version += group {
		b := batch("one", version+group)
		newest := map[string]store.Row{}
		for v := version + 1; v <= b.Version; v++ {
			newest[deed(v).ID] = deed(v)
		}
		b.Rows = slices.Collect(maps.Values(newest))
		if err := writer.Commit(ctx, []store.Batch{b}); err != nil {
			t.Errorf("committing version %d: %v", b.Version, err)
			cancel() // no reader can follow further
			break
		}
	}
	wg.Wait()
}

// A journal that remembered all removals would grow for ever. A reader that
// gets ErrForgotten loads the account, and follows from there.
func forgetsRemoved(t *testing.T, open Opener) {
	writer, follower := shared(t, open), shared(t, open)
	kept := row("box", "kept", 1, 1, `{}`)
	commit(t, writer, batch("one", 1, kept))
	const each, most = 500, 100_000
	removed := 0
	version := uint64(1)
	for ; removed < most; removed += each {
		version++
		b := batch("one", version)
		for i := range each {
			b.Rows = append(b.Rows, store.Row{Kind: "box", ID: fmt.Sprint(removed + i), Version: version})
		}
		commit(t, writer, b)
		now, rows, err := since(t.Context(), follower, "one", 1)
		if errors.Is(err, store.ErrForgotten) {
			break
		}
		if err != nil || now != version || len(rows) != removed+each {
			t.Fatalf("after %d removals %d rows were written up to version %d (%v)", removed+each, len(rows), now, err)
		}
	}
	if removed >= most {
		t.Fatalf("%d removals are remembered", removed)
	}
	tx := lock(t, follower, "one")
	if _, _, err := since(t.Context(), tx, "one", 1); !errors.Is(err, store.ErrForgotten) {
		t.Errorf("a transaction that asks for what is forgotten is answered %v", err)
	}
	tx.Rollback(t.Context())
	holds(t, follower, "one", version, kept)
	wrote(t, follower, "one", version, version)
	// A reader that has nothing yet needs no removals.
	wrote(t, follower, "one", 0, version, kept)
	last := store.Row{Kind: "box", ID: "kept", Version: version + 1}
	commit(t, writer, batch("one", version+1, last))
	wrote(t, follower, "one", version, version+1, last)
	holds(t, follower, "one", version+1)
}

func tellsAccountsApart(t *testing.T, open Opener) {
	handles := []store.Shared{shared(t, open), shared(t, open)}
	var wg sync.WaitGroup
	for _, j := range handles {
		wg.Go(func() {
			if err := count(t.Context(), j, alike...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, account := range alike {
		if i%2 == 0 {
			if err := count(t.Context(), handles[0], account); err != nil {
				t.Error(err)
			}
		}
	}
	for i, account := range alike {
		counted(t, handles[1], account, uint64(3-i%2))
	}
}
