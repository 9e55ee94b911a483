package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bastide-cloud/bastide/internal/store"
)

// RunDump runs the tests of journals that are a [store.Dumper], each on fresh
// data made by setup.
func RunDump(t *testing.T, setup func(t *testing.T) Opener, except ...Except) {
	run(t, setup, except, group{"Dump", dumpTests})
}

var dumpTests = []test{
	{"dumps all in order", on(dumpsInOrder)},
	{"dumps large accounts in pieces", on(dumpsInPieces)},
	{"dumps one moment", on(dumpsOneMoment)},
	{"dumps no further than it is asked to", on(dumpsNoFurther)},
	{"fills another journal", fillsAnother},
	{"goes on after it was filled", on(goesOnAfterFill)},
	{"takes the last batch of an account", on(takesLastBatch)},
	{"fills no journal that holds something", on(fillsOnlyEmpty)},
	{"replaces all", on(replacesAll)},
	{"fills all or nothing", on(fillsAllOrNothing)},
}

// dumper opens the journal for the length of a test.
func dumper(t *testing.T, open Opener) store.Dumper {
	t.Helper()
	d, ok := session(t, open).(store.Dumper)
	if !ok {
		t.Fatal("the journal is no store.Dumper")
	}
	return d
}

// dumped is all that a dump yields, the pieces of an account put together.
func dumped(t *testing.T, d store.Dumper) (all []store.Batch) {
	t.Helper()
	for b, err := range d.Dump(t.Context()) {
		if err != nil {
			t.Fatalf("dumping: %v", err)
		}
		if n := len(all); n > 0 && all[n-1].Account == b.Account {
			b.Rows = append(all[n-1].Rows, b.Rows...)
			all = all[:n-1]
		}
		all = append(all, b)
	}
	return all
}

// gives checks that the journal dumps these accounts and rows, in this order.
func gives(t *testing.T, d store.Dumper, want ...store.Batch) {
	t.Helper()
	got := dumped(t, d)
	if len(got) != len(want) {
		t.Fatalf("%d accounts were dumped, want %d", len(got), len(want))
	}
	rows := 0
	for i, b := range want {
		rows += len(b.Rows)
		g := got[i]
		if g.Account != b.Account || g.Version != b.Version || g.Pending != b.Pending || len(g.Rows) != len(b.Rows) {
			t.Fatalf("%q was dumped at version %d, with %d rows and %d pending, want %q at %d with %d and %d",
				g.Account, g.Version, len(g.Rows), g.Pending, b.Account, b.Version, len(b.Rows), b.Pending)
		}
		for k := range b.Rows {
			if !reflect.DeepEqual(g.Rows[k], b.Rows[k]) {
				t.Errorf("row %d of %q was dumped as\n%s, want\n%s", k, b.Account, brief(g.Rows[k]), brief(b.Rows[k]))
			}
		}
	}
	if n, err := d.Count(t.Context()); err != nil || n != rows {
		t.Errorf("%d rows are counted (%v), want %d", n, err, rows)
	}
}

func fillWith(t *testing.T, d store.Dumper, onto store.Onto, batches ...store.Batch) {
	t.Helper()
	if err := d.Fill(t.Context(), yielding(nil, batches...), onto); err != nil {
		t.Fatalf("filling: %v", err)
	}
}

// yielding yields batches, and then an error if there is one.
func yielding(end error, batches ...store.Batch) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
		if end != nil {
			yield(store.Batch{}, end)
		}
	}
}

// country is what the tests commit and dump: ids that only their bytes order,
// one that is gone, an account without rows, pending ones.
func country() []store.Batch {
	gone := row("lid", "a", 2, 77, `{"was":"here"}`)
	gone.DeletedAt = 1_700_000_000_123
	one := batch("one", 7, gone, row("lid", "b", 7, 78, `{"b":[2,"é"],"spaced":  1.0}`))
	one.Pending = 1
	for i, s := range alike {
		one.Rows = append(one.Rows, row("box", s, 1, uint64(i+1), fmt.Sprintf(`{"box":%d}`, i)),
			row(s, "x", 1, uint64(i+100), fmt.Sprintf(`{"kind":%d}`, i)))
	}
	all := []store.Batch{one, batch("empty", 3)}
	for i, s := range alike {
		b := batch("account "+s, uint64(i+1), row("box", "x", 1, 1, fmt.Sprintf(`{"account":%d}`, i)))
		b.Pending = i % 3
		all = append(all, b)
	}
	for _, b := range all {
		slices.SortFunc(b.Rows, byKey)
	}
	slices.SortFunc(all, func(x, y store.Batch) int { return strings.Compare(x.Account, y.Account) })
	return all
}

func dumpsInOrder(t *testing.T, open Opener) {
	d := dumper(t, open)
	gives(t, d)
	commit(t, d, batch("one", 1, row("box", "removed", 1, 500, `{}`)))
	all := country()
	for _, i := range []int{3, 1} { // not in the order of the dump
		all[0], all[i] = all[i], all[0]
	}
	commit(t, d, all...)
	commit(t, d, withUnsettled(batch("one", 8, store.Row{Kind: "box", ID: "removed", Version: 8}), 2))
	want := country()
	for i := range want {
		if want[i].Account == "one" {
			want[i].Version, want[i].Pending = 8, 2
		}
	}
	gives(t, d, want...)
}

func withUnsettled(b store.Batch, pending int) store.Batch {
	b.Pending = pending
	return b
}

// crowd is an account of many rows, in order.
func crowd(account string, rows int) store.Batch {
	b := withUnsettled(batch(account, 1), rows)
	for i := range rows {
		b.Rows = append(b.Rows, row("box", fmt.Sprintf("%06d", i), 1, uint64(i+1), fmt.Sprintf(`{"n":%d}`, i)))
	}
	return b
}

func dumpsInPieces(t *testing.T, open Opener) {
	d := dumper(t, open)
	all := []store.Batch{crowd("a", 499), crowd("b", 500), crowd("c", 501), crowd("d", 2000), batch("e", 1)}
	commit(t, d, all...)
	gives(t, d, all...)
	largest := 0
	for b, err := range d.Dump(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(b.Rows))
	}
	if largest > 1000 {
		t.Errorf("a batch has %d rows, and would have as many as an account", largest)
	}
}

// Every commit writes to both accounts. No dump has one without the other.
func dumpsOneMoment(t *testing.T, open Opener) {
	const versions, rows = 40, 30
	d := dumper(t, open)
	at := func(account string, v uint64) store.Batch {
		b := batch(account, v)
		for i := range rows {
			b.Rows = append(b.Rows, row("box", fmt.Sprint(i), v, uint64(i+1), fmt.Sprintf(`{"v":%d}`, v)))
		}
		return b
	}
	commit(t, d, at("one", 1), at("two", 1))
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for seen := uint64(0); seen < versions; {
				var all []store.Batch
				for b, err := range d.Dump(t.Context()) {
					if err != nil {
						t.Errorf("dumping while commits go on: %v", err)
						return
					}
					all = append(all, b)
				}
				if len(all) != 2 || all[0].Version != all[1].Version || all[0].Version < seen {
					t.Errorf("after version %d two accounts were dumped as %+v", seen, all)
					return
				}
				seen = all[0].Version
				for _, b := range all {
					if len(b.Rows) != rows || slices.ContainsFunc(b.Rows, func(r store.Row) bool { return r.Version != seen }) {
						t.Errorf("the rows of %s are not all of version %d", b.Account, seen)
					}
				}
			}
		})
	}
	for v := uint64(2); v <= versions; v++ {
		if err := d.Commit(t.Context(), []store.Batch{at("one", v), at("two", v)}); err != nil {
			t.Errorf("committing version %d: %v", v, err)
			break
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	readers.Wait()
}

func dumpsNoFurther(t *testing.T, open Opener) {
	d := dumper(t, open)
	all := []store.Batch{crowd("a", 1200), crowd("b", 1200)}
	commit(t, d, all...)
	for range 20 { // more often than there are connections
		for range d.Dump(t.Context()) {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range d.Dump(ctx) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a dump that was canceled half way ended with %v", last)
	}
	if _, err := d.Count(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled count answered %v", err)
	}
	gives(t, d, all...)
}

func fillsAnother(t *testing.T, setup func(*testing.T) Opener) {
	from, to := dumper(t, setup(t)), dumper(t, setup(t))
	commit(t, from, append(country(), crowd("z", 1200))...)
	if err := to.Fill(t.Context(), from.Dump(t.Context()), store.OntoEmpty); err != nil {
		t.Fatal(err)
	}
	gives(t, to, dumped(t, from)...)
}

func goesOnAfterFill(t *testing.T, open Opener) {
	d := dumper(t, open)
	kept, old := row("box", "a", 1, 1, `{}`), row("box", "b", 1, 2, `{}`)
	fillWith(t, d, store.OntoEmpty, withUnsettled(batch("one", 5, kept, old), 1))
	holds(t, d, "one", 5, kept, old)
	if accounts, err := d.Pending(t.Context()); err != nil || !slices.Equal(accounts, []string{"one"}) {
		t.Errorf("the pending accounts are %q and %v, want one", accounts, err)
	}
	added := row("box", "c", 6, 3, `{}`)
	commit(t, d, batch("one", 6, added, store.Row{Kind: "box", ID: "b", Version: 6}))
	holds(t, d, "one", 6, kept, added)
	holds(t, d, "one", 6, kept, added)
}

func takesLastBatch(t *testing.T, open Opener) {
	d := dumper(t, open)
	a, b := row("box", "a", 1, 1, `{}`), row("box", "b", 2, 2, `{}`)
	fillWith(t, d, store.OntoEmpty, withUnsettled(batch("one", 2, a), 1), withUnsettled(batch("one", 2, b), 3),
		withUnsettled(batch("one", 2), 4), batch("two", 1))
	gives(t, d, withUnsettled(batch("one", 2, a, b), 4), batch("two", 1))
}

func fillsOnlyEmpty(t *testing.T, open Opener) {
	d := dumper(t, open)
	all := country()
	commit(t, d, all...)
	err := d.Fill(t.Context(), func(func(store.Batch, error) bool) { t.Error("it was asked for batches") }, store.OntoEmpty)
	if !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("filling a journal that holds something answered %v", err)
	}
	gives(t, d, all...)
}

func replacesAll(t *testing.T, open Opener) {
	d := dumper(t, open)
	fillWith(t, d, store.OntoStopped, batch("one", 1, row("box", "new", 1, 1, `{}`)))
	commit(t, d, country()...)
	want := []store.Batch{batch("one", 2, row("box", "newer", 2, 2, `{}`)), batch("two", 1)}
	fillWith(t, d, store.OntoStopped, want...)
	gives(t, d, want...)
	if accounts, err := d.Pending(t.Context()); err != nil || len(accounts) > 0 {
		t.Errorf("the pending accounts are %q and %v, want none", accounts, err)
	}
}

func fillsAllOrNothing(t *testing.T, open Opener) {
	d := dumper(t, open)
	refusesParts(t, d, store.OntoEmpty)
	before := country()
	commit(t, d, before...)
	refusesParts(t, d, store.OntoStopped, before...)
}

// refusesParts checks that a fill that is not given all leaves what there was.
func refusesParts(t *testing.T, d store.Dumper, onto store.Onto, before ...store.Batch) {
	t.Helper()
	broken := errors.New("the input is broken")
	if err := d.Fill(t.Context(), yielding(broken, crowd("a", 1200), crowd("b", 1)), onto); !errors.Is(err, broken) {
		t.Errorf("batches that end in an error were answered %v", err)
	}
	gives(t, d, before...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	endless := func(yield func(store.Batch, error) bool) {
		for i := 0; yield(crowd(fmt.Sprintf("%09d", i), 600), nil); i++ {
			if i == 2 {
				cancel()
			}
			if i == 10_000 {
				t.Error("a canceled fill goes on")
				return
			}
		}
	}
	if err := d.Fill(ctx, endless, onto); !errors.Is(err, context.Canceled) {
		t.Errorf("a fill that was canceled half way answered %v", err)
	}
	gives(t, d, before...)
}
