package sqljournal

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

// backInTime is two nodes on a database that can be put back to where it was.
type backInTime struct {
	*testing.T
	one, other *store.Store
	told       lines  // what one says
	committed  func() // once, when one has committed and not yet published
	restore    func()
}

// hooked is the journal of one.
type hooked struct {
	*Postgres
	committed *func()
}

func (h hooked) TryLock(ctx context.Context, accounts []string) (store.Locked, error) {
	locked, err := h.Postgres.TryLock(ctx, accounts)
	return hookedTransaction{locked, h.committed}, err
}

type hookedTransaction struct {
	store.Locked
	committed *func()
}

func (h hookedTransaction) Commit(ctx context.Context, batches []store.Batch) error {
	defer once(h.committed)
	return h.Locked.Commit(ctx, batches)
}

// setupBackInTime has both nodes hold the accounts one, two and three at version
// 4, and keeps what the database was at version 2.
func setupBackInTime(t *testing.T) *backInTime {
	url := postgrestest.Start(t)
	b := &backInTime{T: t}
	open := func(j store.Journal, log *slog.Logger) *store.Store {
		s := storetest.Open(j, func(o *store.Options) { o.After, o.Log = time.After, log })
		t.Cleanup(func() { s.Close() })
		return s
	}
	b.one = open(hooked{openPostgres(t, url), &b.committed}, slog.New(slog.NewTextHandler(&b.told, nil)))
	b.other = open(openPostgres(t, url), nil)
	var kept []store.Batch
	for version := range 4 {
		for _, account := range []string{"one", "two", "three"} {
			b.put(b.one, account, fmt.Sprint("old ", version))
		}
		if version == 1 {
			for batch, err := range openPostgres(t, url).Dump(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, batch)
			}
		}
	}
	b.has(b.other, "one", "old 0", "old 1", "old 2", "old 3")
	b.restore = func() {
		t.Helper()
		all := func(yield func(store.Batch, error) bool) {
			for _, batch := range kept {
				if !yield(batch, nil) {
					return
				}
			}
		}
		if err := openPostgres(t, url).Fill(t.Context(), all, store.OntoStopped); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *backInTime) put(s *store.Store, account, id string) {
	b.Helper()
	err := s.Update(b.Context(), account, func(tx *store.Tx) error {
		tx.In(account).Put("box", id, storetest.Thing{Name: id})
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// has checks what a node says is in an account.
func (b *backInTime) has(s *store.Store, account string, want ...string) {
	b.Helper()
	snap, err := s.View(b.Context(), account)
	if err != nil {
		b.Fatal(err)
	}
	var got []string
	for o := range snap.Scan("box", 0) {
		got = append(got, o.ID)
	}
	if !slices.Equal(got, want) {
		b.Errorf("%s has %q, want %q", account, got, want)
	}
}

// toldOnce checks that the operator was told, and once.
func (b *backInTime) toldOnce() {
	b.Helper()
	if n := strings.Count(b.told.String(), "level=ERROR"); n != 1 || !strings.Contains(b.told.String(), "account=one seen=4 version=2") {
		b.Errorf("the operator is told %d times, want once which account was lost:\n%s", n, &b.told)
	}
}

// A node serves nothing that the database no longer has.
func TestPostgresRestoredUnderAReader(t *testing.T) {
	t.Parallel()
	b := setupBackInTime(t)
	b.restore()
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() { b.has(b.one, "one", "old 0", "old 1") })
	}
	readers.Wait()
	b.has(b.one, "two", "old 0", "old 1")
	b.toldOnce()
	b.put(b.other, "one", "new")
	b.has(b.one, "one", "old 0", "old 1", "new")
	if strings.Count(b.told.String(), "level=ERROR") != 1 {
		t.Errorf("what is written after the restore is taken for lost:\n%s", &b.told)
	}
}

// Once a node knows, it believes no account, and so is not deceived where the
// versions have become equal again.
func TestPostgresRestoredAndWrittenTo(t *testing.T) {
	t.Parallel()
	b := setupBackInTime(t)
	b.restore()
	b.put(b.other, "two", "new 2")
	b.put(b.other, "two", "new 3")
	b.put(b.other, "three", "new 2")
	b.put(b.other, "three", "new 3")
	b.put(b.other, "three", "new 4")
	b.has(b.one, "one", "old 0", "old 1")
	b.has(b.one, "two", "old 0", "old 1", "new 2", "new 3")
	b.has(b.one, "three", "old 0", "old 1", "new 2", "new 3", "new 4")
	b.toldOnce()
}

// lossy is a journal whose locks are lost as soon as it has them.
type lossy struct {
	*Postgres
	loseFree, loseAwaited func() // once, by how it came to have them; nil: they are not lost
}

func (l *lossy) TryLock(ctx context.Context, accounts []string) (store.Locked, error) {
	locked, err := l.Postgres.TryLock(ctx, accounts)
	once(&l.loseFree)
	return locked, err
}

func (l *lossy) Lock(ctx context.Context, accounts []string) (store.Locked, error) {
	locked, err := l.Postgres.Lock(ctx, accounts)
	once(&l.loseAwaited)
	return locked, err
}

func once(fn *func()) {
	if do := *fn; do != nil {
		*fn = nil
		do()
	}
}

// A transaction that loses its locks before it has looked is run again, though it
// writes nothing: it would see one account as it was held and another one as
// somebody has left it since. Nobody takes that for a database that went back.
func TestPostgresLocksLostUnderAReader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lose func(*lossy) *func()
		also []string // what it looks at besides
	}{
		{"of accounts that were free", func(j *lossy) *func() { return &j.loseFree }, nil},
		{"of accounts that were waited for", func(j *lossy) *func() { return &j.loseAwaited }, []string{"two"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Start(t)
			var told lines
			j := &lossy{Postgres: openPostgres(t, with(t, url, "application_name", c.name))}
			s := storetest.Open(j, func(o *store.Options) {
				o.After, o.Log = time.After, slog.New(slog.NewTextHandler(&told, nil))
			})
			defer s.Close()
			put := func(account, id string) {
				t.Helper()
				err := s.Update(t.Context(), account, func(tx *store.Tx) error {
					tx.In(account).Put("box", id, storetest.Thing{})
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			put("one", "a")
			put("two", "a")
			*c.lose(j) = func() {
				killBackends(t, url, c.name)
				// The lane of one waits for this transaction, that of two does not.
				err := s.Update(t.Context(), "two", func(tx *store.Tx) error {
					tx.In("one").Put("box", "b", storetest.Thing{})
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
			var saw []int
			err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
				for _, account := range c.also {
					tx.In(account)
				}
				saw = append(saw, tx.In("one").Count("box"))
				return nil
			})
			if err != nil || !slices.Equal(saw, []int{2}) {
				t.Errorf("it has seen %d boxes (%v), want the 2 there are, and one run: the first had lost its locks", saw, err)
			}
			if told.String() != "" {
				t.Errorf("the operator is told:\n%s", &told)
			}
		})
	}
}

// A transaction does not build on what was lost.
func TestPostgresRestoredUnderAWriter(t *testing.T) {
	t.Parallel()
	b := setupBackInTime(t)
	b.restore()
	b.put(b.one, "one", "new")
	b.toldOnce()
	for _, s := range []*store.Store{b.one, b.other} {
		b.has(s, "one", "old 0", "old 1", "new")
	}
}

// Of a transaction over many accounts, one is enough to believe none of them.
func TestPostgresRestoredUnderAWriterOfMany(t *testing.T) {
	t.Parallel()
	b := setupBackInTime(t)
	b.restore()
	for _, account := range []string{"two", "three"} {
		b.put(b.other, account, "new 2")
		b.put(b.other, account, "new 3")
	}
	err := b.one.Update(t.Context(), "two", func(tx *store.Tx) error {
		for _, account := range []string{"two", "three", "one"} {
			tx.In(account).Put("box", "all", storetest.Thing{})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.toldOnce()
	for _, s := range []*store.Store{b.one, b.other} {
		b.has(s, "one", "old 0", "old 1", "all")
		b.has(s, "two", "old 0", "old 1", "new 2", "new 3", "all")
		b.has(s, "three", "old 0", "old 1", "new 2", "new 3", "all")
	}
}

// A transaction that began before a node knew leaves nothing in its memory.
func TestPostgresRestoredDuringACommit(t *testing.T) {
	t.Parallel()
	b := setupBackInTime(t)
	b.restore()
	b.put(b.other, "two", "new 2")
	b.put(b.other, "two", "new 3")
	b.committed = func() {
		if _, err := b.one.View(t.Context(), "one"); err != nil {
			t.Error(err)
		}
	}
	b.put(b.one, "two", "newest")
	b.toldOnce()
	b.has(b.one, "two", "old 0", "old 1", "new 2", "new 3", "newest")
}
