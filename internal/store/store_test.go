package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

// A store without a journal keeps all promises but those about what comes
// after it.
func TestWithoutJournal(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opener {
		return func() (store.Journal, error) { return nil, nil }
	},
		storetest.Except{Test: "Journal", Reason: "there is none"},
		storetest.Except{Test: "Store/opens again with all it had", Reason: "nothing outlives Close"},
		storetest.Except{Test: "Store/behaves like a map when evicted and opened again", Reason: "nothing outlives Close"},
		storetest.Except{Test: "Store/gives back what it evicted", Reason: "nothing is evicted: it could not be loaded again"},
		storetest.Except{Test: "Store/stops when a commit fails", Reason: "no commit can fail"},
		storetest.Except{Test: "Store/never shows what is not committed", Reason: "a commit takes no time"},
	)
}

// memory is a journal over a map that outlives it, as a disk would.
type memory struct {
	mu       sync.Mutex
	accounts map[string]*kept
	loads    []string // the accounts that were loaded, in order
	commits  int
	hold     chan struct{} // a commit waits until it is closed,
	slow     chan struct{} // and a load of the account slow until this is
}

type kept struct {
	version uint64
	pending int
	rows    map[[2]string]store.Row
}

func newMemory() *memory { return &memory{accounts: map[string]*kept{}} }

func (m *memory) Load(ctx context.Context, account string, each func(store.Row) error) (uint64, error) {
	if account == "slow" {
		<-m.slow
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads = append(m.loads, account)
	a := m.accounts[account]
	if a == nil {
		return 0, nil
	}
	for _, r := range a.rows {
		r.Doc = slices.Clone(r.Doc)
		if err := cmp.Or(ctx.Err(), each(r)); err != nil {
			return 0, err
		}
	}
	return a.version, nil
}

func (m *memory) Commit(ctx context.Context, batches []store.Batch) error {
	if m.hold != nil {
		<-m.hold
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.commits++
	for _, b := range batches {
		a := m.accounts[b.Account]
		if a == nil {
			a = &kept{rows: map[[2]string]store.Row{}}
			m.accounts[b.Account] = a
		}
		a.version, a.pending = b.Version, b.Pending
		for _, r := range b.Rows {
			if key := [2]string{r.Kind, r.ID}; r.Doc == nil {
				delete(a.rows, key)
			} else {
				a.rows[key] = r
			}
		}
	}
	return nil
}

func (m *memory) Pending(ctx context.Context) (accounts []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, account := range slices.Sorted(maps.Keys(m.accounts)) {
		if m.accounts[account].pending > 0 {
			accounts = append(accounts, account)
		}
	}
	return accounts, ctx.Err()
}

func (m *memory) Close() error { return nil }

// The smallest journal passes, so what fails with another is that one's fault.
func TestWithMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opener {
		m := newMemory()
		return func() (store.Journal, error) { return m, nil }
	})
}

// large is a closure that writes a box of some 1,000 bytes.
func large(account string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		tx.In(account).Put("box", "a", storetest.Thing{Text: strings.Repeat("t", 900)})
		return nil
	}
}

func put(id string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		tx.In("one").Put("box", id, storetest.Thing{Name: id})
		return nil
	}
}

// All updates that arrive during a commit share the next one.
func TestUpdatesShareCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.hold = make(chan struct{})
		s := storetest.Open(m)
		defer s.Close()
		const updates = 100
		answered := 0
		var mu sync.Mutex
		for i := range updates {
			go func() {
				if err := s.Update(t.Context(), "one", put(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				answered++
			}()
			synctest.Wait() // the first is being committed, the others wait in the queue
		}
		if answered != 0 {
			t.Errorf("%d updates were answered before anything was committed", answered)
		}
		close(m.hold)
		synctest.Wait()
		if answered != updates || m.commits != 2 {
			t.Errorf("%d updates were answered after %d commits, want %d after 2", answered, m.commits, updates)
		}
	})
}

// An update whose caller gives up is committed all the same, and its caller
// learns that it was.
func TestHandedInIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.hold = make(chan struct{})
		s := storetest.Open(m)
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		answered := false
		go func() {
			err = s.Update(ctx, "one", put("a"))
			answered = true
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if answered {
			t.Errorf("the update was answered with %v before its commit", err)
		}
		close(m.hold)
		synctest.Wait()
		if err != nil || m.accounts["one"] == nil {
			t.Errorf("the update answered %v, and %v was committed", err, m.accounts["one"])
		}
	})
}

func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	var told []string
	s := storetest.Open(newMemory(), func(o *store.Options) {
		o.Changed = func(changes []store.Change) {
			var line []string
			for _, c := range changes {
				line = append(line, fmt.Sprintf("%s %s %s", c.Account, c.Kind, c.ID))
			}
			told = append(told, strings.Join(line, ", "))
		}
	})
	update := func(fn func(*store.Tx) error) {
		_ = s.Update(t.Context(), "one", fn)
	}
	update(func(tx *store.Tx) error {
		tx.In("two").Put("box", "z", storetest.Thing{})
		tx.In("one").Put("lid", "y", storetest.Thing{})
		tx.In("one").Put("box", "x", storetest.Thing{})
		return nil
	})
	update(func(tx *store.Tx) error { return nil })
	update(func(tx *store.Tx) error {
		tx.In("one").Put("box", "lost", storetest.Thing{})
		return errors.New("refused")
	})
	update(func(tx *store.Tx) error {
		tx.In("one").Remove("lid", "y")
		tx.In("one").SoftDelete("box", "x", storetest.Thing{}, tx.Now())
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"one lid y, one box x, two box z",
		"one lid y, one box x",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}

// The accounts that nobody has used for longest are dropped first.
func TestEvictionOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := storetest.Open(m, func(o *store.Options) { o.Memory = 2500 })
		defer s.Close()
		write := func(account string) {
			t.Helper()
			if err := s.Update(t.Context(), account, large(account)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // for what the writer does after it has answered
		}
		view := func(account string) {
			t.Helper()
			if _, err := s.View(t.Context(), account); err != nil {
				t.Fatal(err)
			}
		}
		write("one")
		write("two")
		view("one")
		write("three") // there is room for two of them
		m.loads = nil
		view("one")
		view("three")
		if len(m.loads) != 0 {
			t.Errorf("%q were dropped, though two was not used for longer", m.loads)
		}
		view("two")
		if !slices.Equal(m.loads, []string{"two"}) {
			t.Errorf("%q were loaded again, want two", m.loads)
		}
	})
}

// A region that is only read stays within its memory, too.
func TestReadersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := storetest.Open(m)
		for i := range 50 {
			account := fmt.Sprint("account ", i)
			if err := s.Update(t.Context(), account, large(account)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		const room = 5000
		s = storetest.Open(m, func(o *store.Options) { o.Memory = room })
		defer s.Close()
		for i := range 50 {
			if _, err := s.View(t.Context(), fmt.Sprint("account ", i)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if s.Held() > room {
				t.Fatalf("%d bytes are in memory after reading %d accounts, want no more than %d", s.Held(), i+1, room)
			}
		}
	})
}

// The writer evicts without waiting for accounts that are being loaded.
func TestEvictionWaitsForNoLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.slow = make(chan struct{})
		s := storetest.Open(m, func(o *store.Options) { o.Memory = 1 })
		defer s.Close()
		go func() {
			if _, err := s.View(t.Context(), "slow"); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		for _, account := range []string{"old", "new"} {
			if err := s.Update(t.Context(), account, large(account)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if s.Held() > 1500 {
			t.Errorf("%d bytes are in memory, want no more than one of two accounts", s.Held())
		}
		close(m.slow)
	})
}

// Time and random are those the region was given.
func TestTimeAndChanceAreGiven(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	s := storetest.Open(nil, func(o *store.Options) {
		o.Now = func() time.Time {
			now = now.Add(time.Second)
			return now
		}
		o.Rand = rand.NewChaCha8([32]byte{7})
	})
	defer s.Close()
	want := make([]byte, 8)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(want)
	for i := range 2 {
		got := make([]byte, 4)
		var at, again time.Time
		err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
			_, err := tx.Rand().Read(got)
			at, again = tx.Now(), tx.Now()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if wantAt := time.Unix(int64(2+i), 0); !at.Equal(wantAt) || !again.Equal(at) {
			t.Errorf("transaction %d was at %v and %v, want %v", i, at, again, wantAt)
		}
		if !slices.Equal(got, want[i*4:i*4+4]) {
			t.Errorf("transaction %d drew %x, want %x", i, got, want[i*4:i*4+4])
		}
	}
}

// What cannot be read names the object, for the operator.
func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		row  store.Row
		want []string
	}{
		{"of a kind of a newer program", store.Row{Kind: "crate", ID: "c-1", Doc: []byte(`{}`)}, []string{"one", "c-1", "crate", "newer"}},
		{"damaged", store.Row{Kind: "box", ID: "b-1", Doc: []byte(`{`)}, []string{"one", "b-1", "box", "JSON"}},
		{"moved from another place", store.Row{Kind: "box", ID: "b-1", Doc: []byte(`{"At":{"Account":"two"}}`)}, []string{"one", "b-1", "two"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMemory()
			if err := m.Commit(t.Context(), []store.Batch{{Account: "one", Version: 1, Rows: []store.Row{c.row}}}); err != nil {
				t.Fatal(err)
			}
			s := storetest.Open(m)
			defer s.Close()
			_, err := s.View(t.Context(), "one")
			if err == nil {
				t.Fatal("the account was read")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error %q does not name %q", err, want)
				}
			}
		})
	}
}
