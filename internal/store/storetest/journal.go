package storetest

import (
	"cmp"
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

var journalTests = []test{
	{"answers what was committed", on(answersCommitted)},
	{"keeps the newest of each row", on(keepsNewest)},
	{"forgets rows without a document", on(forgetsTombstones)},
	{"keeps what is gone", on(keepsGone)},
	{"lists pending accounts", on(listsUnsettled)},
	{"distinguishes ids by their bytes", on(tellsBytesApart)},
	{"keeps documents of 1 MiB", on(keepsLargeDocuments)},
	{"keeps many rows of many accounts", on(keepsMany)},
	{"writes all batches or none", on(writesAllOrNone)},
	{"loads one version while commits go on", on(loadsOneVersion)},
	{"loads no further than it is asked to", on(loadsNoFurther)},
	{"opens again with all it had", on(opensAgain)},
}

func openJournal(t *testing.T, open Opener) store.Journal {
	t.Helper()
	j, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// session opens the journal for the length of a test.
func session(t *testing.T, open Opener) store.Journal {
	t.Helper()
	j := openJournal(t, open)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("closing the journal: %v", err)
		}
	})
	return j
}

func commit(t *testing.T, j store.Journal, batches ...store.Batch) {
	t.Helper()
	if err := j.Commit(t.Context(), batches); err != nil {
		t.Fatalf("committing: %v", err)
	}
}

// load returns an account's rows in the order of their kinds and IDs.
func load(ctx context.Context, j store.Journal, account string) (version uint64, rows []store.Row, err error) {
	version, err = j.Load(ctx, account, func(r store.Row) error {
		rows = append(rows, r)
		return nil
	})
	slices.SortFunc(rows, byKey)
	return version, rows, err
}

func byKey(x, y store.Row) int {
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.ID, y.ID))
}

// holds checks that the journal has these rows of the account and no others.
func holds(t *testing.T, j store.Journal, account string, version uint64, want ...store.Row) {
	t.Helper()
	gotVersion, got, err := load(t.Context(), j, account)
	if err != nil {
		t.Fatalf("loading %q: %v", account, err)
	}
	if gotVersion != version {
		t.Errorf("the version of %q is %d, want %d", account, gotVersion, version)
	}
	slices.SortFunc(want, byKey)
	if len(got) != len(want) {
		t.Fatalf("%q has %d rows, want %d", account, len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("a row of %q is\n%s, want\n%s", account, brief(got[i]), brief(want[i]))
		}
	}
}

func brief(r store.Row) string {
	s := fmt.Sprintf("{%q %q version %d seq %d gone %d doc %q", r.Kind, r.ID, r.Version, r.Seq, r.DeletedAt, r.Doc)
	return s[:min(len(s), 300)] + "}"
}

func row(kind, id string, version, seq uint64, doc string) store.Row {
	return store.Row{Kind: kind, ID: id, Version: version, Seq: seq, Doc: []byte(doc)}
}

func batch(account string, version uint64, rows ...store.Row) store.Batch {
	return store.Batch{Account: account, Version: version, Rows: rows}
}

func answersCommitted(t *testing.T, open Opener) {
	j := session(t, open)
	box, lid, other := row("box", "a", 1, 10, `{"a":1}`), row("lid", "a", 1, 11, `{"b":[2,"é"]}`), row("box", "a", 7, 12, `{}`)
	commit(t, j, batch("one", 1, box, lid), batch("two", 7, other))
	holds(t, j, "one", 1, box, lid)
	holds(t, j, "two", 7, other)
	holds(t, j, "nobody", 0)
}

func keepsNewest(t *testing.T, open Opener) {
	j := session(t, open)
	old, kept := row("box", "a", 1, 1, `{"is":"old"}`), row("box", "b", 1, 2, `{"is":"kept"}`)
	commit(t, j, batch("one", 1, old, kept))
	newer, added := row("box", "a", 5, 1, `{"is":"new"}`), row("box", "c", 5, 3, `{"is":"added"}`)
	commit(t, j, batch("one", 5, newer, added))
	holds(t, j, "one", 5, newer, kept, added)
}

func forgetsTombstones(t *testing.T, open Opener) {
	j := session(t, open)
	kept := row("box", "b", 1, 2, `{}`)
	commit(t, j, batch("one", 1, row("box", "a", 1, 1, `{}`), kept), batch("two", 1, row("box", "a", 1, 1, `{}`)))
	commit(t, j, batch("one", 2, store.Row{Kind: "box", ID: "a", Version: 2}, store.Row{Kind: "box", ID: "never was", Version: 2}))
	holds(t, j, "one", 2, kept)
	holds(t, j, "two", 1, row("box", "a", 1, 1, `{}`))

	again := row("box", "a", 3, 9, `{"second":true}`)
	commit(t, j, batch("one", 3, again))
	holds(t, j, "one", 3, kept, again)

	// An account without rows still has a version, so that no Seq comes again.
	commit(t, j, batch("one", 4, store.Row{Kind: "box", ID: "a", Version: 4}, store.Row{Kind: "box", ID: "b", Version: 4}))
	holds(t, j, "one", 4)
}

func keepsGone(t *testing.T, open Opener) {
	j := session(t, open)
	gone := row("box", "a", 1, 1, `{"was":"here"}`)
	gone.DeletedAt = 1_700_000_000_123
	commit(t, j, batch("one", 1, gone))
	holds(t, j, "one", 1, gone)
	back := row("box", "a", 2, 1, `{"is":"back"}`)
	commit(t, j, batch("one", 2, back))
	holds(t, j, "one", 2, back)
}

func listsUnsettled(t *testing.T, open Opener) {
	j := session(t, open)
	check := func(want ...string) {
		t.Helper()
		got, err := j.Pending(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the pending accounts are %q, want %q", got, want)
		}
	}
	check()
	with := func(b store.Batch, pending int) store.Batch {
		b.Pending = pending
		return b
	}
	commit(t, j, with(batch("b", 1), 3), with(batch("a", 1), 1), with(batch("calm", 1), 0))
	check("a", "b")
	commit(t, j, with(batch("a", 2), 0))
	check("b")
	commit(t, j, with(batch("b", 2), 1), with(batch("calm", 2), 1))
	check("b", "calm")
}

// alike are strings that a journal with a collation, a padding or a folding of
// its own would take for one another, or for a part of its language.
var alike = []string{
	"a", "A", "a ", " a", "aa", "á", "a\u0301", "Á", "ß", "ss", "0", "00", "0.0", "1e0", "-", "_", "%", "a%", "a_",
	"'", "''", `"`, "`", `\`, "\t", "\n", "\r\n", ";", "--", "?", "$1", ":a", "null", "NULL", "i-0123abcd", "i-0123ABCD",
	"\U0001F3F0", "\uFFFD", "\u0001", "~",
}

func tellsBytesApart(t *testing.T, open Opener) {
	j := session(t, open)
	var rows []store.Row
	var batches []store.Batch
	for i, s := range alike {
		rows = append(rows, row("box", s, 1, uint64(i+1), fmt.Sprintf(`{"box":%d}`, i)),
			row(s, "x", 1, uint64(i+100), fmt.Sprintf(`{"kind":%d}`, i)))
		batches = append(batches, batch("account "+s, uint64(i+1), row("box", "x", 1, 1, fmt.Sprintf(`{"account":%d}`, i))))
	}
	commit(t, j, append(batches, batch("one", 1, rows...))...)
	holds(t, j, "one", 1, rows...)
	for i, s := range alike {
		holds(t, j, "account "+s, uint64(i+1), batches[i].Rows...)
	}
	// Removing one leaves the others.
	commit(t, j, batch("one", 2, store.Row{Kind: "box", ID: "a", Version: 2}))
	holds(t, j, "one", 2, slices.DeleteFunc(rows, func(r store.Row) bool { return r.Kind == "box" && r.ID == "a" })...)
}

func keepsLargeDocuments(t *testing.T, open Opener) {
	j := session(t, open)
	var rows []store.Row
	for i, unit := range []string{"x", "é", `\"`, "\U0001F3F0"} {
		rows = append(rows, row("box", fmt.Sprint(i), 1, uint64(i+1), `{"text":"`+strings.Repeat(unit, 1<<20/len(unit))+`"}`))
	}
	commit(t, j, batch("one", 1, rows...))
	holds(t, j, "one", 1, rows...)
	small := row("box", "0", 2, 1, `{}`)
	commit(t, j, batch("one", 2, small))
	holds(t, j, "one", 2, append(rows[1:], small)...)
}

func keepsMany(t *testing.T, open Opener) {
	j := session(t, open)
	const accounts, each = 100, 40
	var batches []store.Batch
	for a := range accounts {
		b := batch(fmt.Sprintf("account %d", a), uint64(a+1))
		for i := range each {
			b.Rows = append(b.Rows, row("box", fmt.Sprintf("%d-%d", a, i), 1, uint64(i+1), fmt.Sprintf(`{"n":%d}`, i)))
		}
		batches = append(batches, b)
	}
	commit(t, j, batches...)
	for a, b := range batches {
		holds(t, j, b.Account, uint64(a+1), b.Rows...)
	}
}

// A commit is interrupted at moments of the scheduler's choice. Whatever it
// answered, all of it is there afterwards or nothing is.
func writesAllOrNone(t *testing.T, open Opener) {
	const rows = 200
	var written uint64
	for round := range 20 {
		j := openJournal(t, open)
		var batches []store.Batch
		for _, account := range []string{"one", "two"} {
			b := batch(account, written+1)
			for i := range rows {
				b.Rows = append(b.Rows, row("box", fmt.Sprint(i), written+1, uint64(i+1), fmt.Sprintf(`{"round":%d}`, round)))
			}
			batches = append(batches, b)
		}
		ctx, cancel := context.WithCancel(t.Context())
		canceled := make(chan struct{})
		go func() {
			defer close(canceled)
			for range round * 20 {
				_, _ = j.Pending(t.Context())
			}
			cancel()
		}()
		err := j.Commit(ctx, batches)
		<-canceled
		if closed := j.Close(); closed != nil {
			t.Fatal(closed)
		}

		j = openJournal(t, open)
		version, got, loadErr := load(t.Context(), j, "one")
		if loadErr != nil {
			t.Fatal(loadErr)
		}
		if version != written && version != written+1 || err == nil && version != written+1 {
			t.Fatalf("the commit of version %d answered %v and left version %d", written+1, err, version)
		}
		want := uint64(0)
		if version > 0 {
			want = rows
		}
		if uint64(len(got)) != want || slices.ContainsFunc(got, func(r store.Row) bool { return r.Version != version }) {
			t.Fatalf("version %d has %d rows, not all of that version", version, len(got))
		}
		holds(t, j, "two", version, got...)
		written = version
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func loadsOneVersion(t *testing.T, open Opener) {
	j := session(t, open)
	const versions, rows = 60, 30
	at := func(v uint64) store.Batch {
		b := batch("one", v)
		for i := range rows {
			b.Rows = append(b.Rows, row("box", fmt.Sprint(i), v, uint64(i+1), fmt.Sprintf(`{"v":%d}`, v)))
		}
		return b
	}
	commit(t, j, at(1))
	var durable atomic.Uint64
	durable.Store(1)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for before := uint64(0); before < versions; {
				before = durable.Load()
				version, got, err := load(t.Context(), j, "one")
				if err != nil {
					t.Errorf("loading while commits go on: %v", err)
					return
				}
				if version < before {
					t.Errorf("version %d was loaded after %d was committed", version, before)
				}
				want := at(version).Rows
				slices.SortFunc(want, byKey)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("what was loaded is not version %d", version)
				}
			}
		})
	}
	for v := uint64(2); v <= versions; v++ {
		if err := j.Commit(t.Context(), []store.Batch{at(v)}); err != nil {
			t.Errorf("committing version %d: %v", v, err)
			v = versions // nothing follows an error
		}
		durable.Store(v)
	}
	readers.Wait()
}

func loadsNoFurther(t *testing.T, open Opener) {
	j := session(t, open)
	rows := []store.Row{row("box", "a", 1, 1, `{}`), row("box", "b", 1, 2, `{}`)}
	commit(t, j, batch("one", 1, rows...))

	enough, calls := errors.New("enough"), 0
	_, err := j.Load(t.Context(), "one", func(store.Row) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("after %d rows the load answered %v, want %v after 1", calls, err, enough)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := j.Load(ctx, "one", func(store.Row) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a load that was canceled half way answered %v", err)
	}
	if _, _, err := load(ctx, j, "one"); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled load answered %v", err)
	}
	if _, err := j.Pending(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled list of pending accounts returned %v", err)
	}
	holds(t, j, "one", 1, rows...)
}

func opensAgain(t *testing.T, open Opener) {
	j := openJournal(t, open)
	kept, gone := row("box", "a", 1, 1, `{"kept":true}`), row("lid", "a", 1, 2, `{"kept":false}`)
	gone.DeletedAt = 42
	pending := batch("one", 1, kept, gone, row("box", "removed", 1, 3, `{}`))
	pending.Pending = 1
	commit(t, j, pending)
	pending = batch("one", 2, store.Row{Kind: "box", ID: "removed", Version: 2})
	pending.Pending = 1
	commit(t, j, pending)
	for range 2 {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = openJournal(t, open)
		holds(t, j, "one", 2, kept, gone)
		if accounts, err := j.Pending(t.Context()); err != nil || !slices.Equal(accounts, []string{"one"}) {
			t.Errorf("the pending accounts are %q and %v, want one", accounts, err)
		}
	}
	added := row("box", "b", 3, 4, `{}`)
	commit(t, j, batch("one", 3, added))
	holds(t, j, "one", 3, kept, gone, added)
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}
