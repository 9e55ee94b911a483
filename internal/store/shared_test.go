package store

import (
	"context"
	"errors"
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
		return &update{needs: []string{first}, done: make(chan struct{}), fn: func(tx *Tx) error {
			for _, account := range append([]string{first}, others...) {
				tx.In(account).Put("text", "x", "")
			}
			return nil
		}}
	}
	wrote, held, reaching := put("free"), put("held"), put("free", "held")
	over := s.together([]turn{{&lane{}, []*update{wrote, reaching}}, {&lane{}, []*update{held}}})
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
			t.Errorf("of turn %d are left %v, with the error %v, want the one that was left out", i, over[i].updates, want.err)
		}
	}
	if want := []string{"free", "held"}; !slices.Equal(reaching.needs, want) {
		t.Errorf("who was left out is known to need %q, want %q", reaching.needs, want)
	}
}
