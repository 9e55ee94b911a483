package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// unsure is a shared journal that loses the answer to every commit. Only the
// account free is not held by others.
type unsure struct{ Shared }

func (unsure) TryLock(context.Context, []string) (Locked, error) { return unsureLocked{}, nil }
func (unsure) Close() error                                      { return nil }

type unsureLocked struct{ Locked }

func (unsureLocked) Versions() map[string]uint64           { return map[string]uint64{"free": 0} }
func (unsureLocked) Commit(context.Context, []Batch) error { return ErrUnknown }
func (unsureLocked) Since(context.Context, string, uint64, func(Row) error) (uint64, error) {
	return 0, nil
}

// An unknown outcome is that of those who have written, and not of those who
// were left out.
func TestUnknownIsSharedByWhoHasWritten(t *testing.T) {
	t.Parallel()
	s := Open(Options{Codecs: []Codec{texts{}}, Journal: unsure{}, Now: time.Now})
	defer s.Close()
	put := func(first string, others ...string) *update {
		return newUpdate([]string{first}, func(tx *Tx) error {
			for _, account := range append([]string{first}, others...) {
				tx.In(account).Put("text", "x", "")
			}
			return nil
		})
	}
	wrote, held, reaching := put("free"), put("held"), put("free", "held")
	over := s.writer.(*shared).runShared([]batch{{&queue{}, []*update{wrote, reaching}}, {&queue{}, []*update{held}}})
	select {
	case <-wrote.done:
	default:
		t.Fatal("who has written is not answered")
	}
	if !errors.Is(wrote.err, ErrUnknown) {
		t.Errorf("who has written is answered %v", wrote.err)
	}
	for i, want := range []*update{reaching, held} {
		if !slices.Equal(over[i].updates, []*update{want}) || want.err != nil {
			t.Errorf("of batch %d are left %v, with the error %v, want the one that was left out", i, over[i].updates, want.err)
		}
	}
	if want := []string{"free", "held"}; !slices.Equal(reaching.accounts, want) {
		t.Errorf("who was left out is known to need %q, want %q", reaching.accounts, want)
	}
}

// contended is a shared journal whose accounts are all empty and free. Its first
// commits meet another transaction.
type contended struct {
	Shared
	conflicts int // how many commits are yet to fail
	locks     int // how many transactions were begun
}

func (c *contended) Lock(_ context.Context, accounts []string) (Locked, error) {
	c.locks++
	versions := map[string]uint64{}
	for _, account := range accounts {
		versions[account] = 0
	}
	return &contendedLocked{journal: c, versions: versions}, nil
}

func (c *contended) TryLock(ctx context.Context, accounts []string) (Locked, error) {
	return c.Lock(ctx, accounts)
}

func (*contended) Close() error { return nil }

type contendedLocked struct {
	journal  *contended
	versions map[string]uint64
}

func (l *contendedLocked) Versions() map[string]uint64 { return l.versions }

func (*contendedLocked) Since(context.Context, string, uint64, func(Row) error) (uint64, error) {
	return 0, nil
}

func (l *contendedLocked) Commit(context.Context, []Batch) error {
	if l.journal.conflicts > 0 {
		l.journal.conflicts--
		return ErrAgain
	}
	return nil
}

func (*contendedLocked) Rollback(context.Context) {}

// now is After without a pause.
func now(time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}

// An update is run again after it met another one, however many accounts it had
// to find first: looking for them uses up no retry.
func TestRetriesDoNotDependOnTheNumberOfAccounts(t *testing.T) {
	t.Parallel()
	for _, accounts := range []int{1, 2, 9, 10, 11, 100} {
		journal := &contended{conflicts: maxRetries}
		s := Open(Options{Codecs: []Codec{texts{}}, Journal: journal, Now: time.Now, After: now})
		err := s.Update(t.Context(), "account-0", func(tx *Tx) error {
			for i := range accounts {
				tx.In(fmt.Sprintf("account-%d", i)).Put("text", "x", "")
			}
			return nil
		})
		if err != nil {
			t.Errorf("an update of %d accounts that met %d others: %v", accounts, maxRetries, err)
		}
		if journal.conflicts != 0 {
			t.Errorf("an update of %d accounts was not run again: %d conflicts are left", accounts, journal.conflicts)
		}
		s.Close()
	}
}

// An update that meets another one each time gives up.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	s := Open(Options{Codecs: []Codec{texts{}}, Journal: &contended{conflicts: 1000}, Now: time.Now, After: now})
	defer s.Close()
	err := s.Update(t.Context(), "account", func(tx *Tx) error {
		tx.In("account").Put("text", "x", "")
		return nil
	})
	if !errors.Is(err, ErrAgain) {
		t.Errorf("an update that always meets another one returns %v, want ErrAgain", err)
	}
}
