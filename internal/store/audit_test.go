package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// lists are objects that hold a list, which those who read it share.
type lists struct{ texts }

type list struct{ Items []string }

func (lists) Name() string                              { return "list" }
func (lists) Encode(_ Place, value any) ([]byte, error) { return json.Marshal(value) }
func (lists) Decode(_ Place, doc []byte) (any, error) {
	v := new(list)
	return v, json.Unmarshal(doc, v)
}

// An object that is changed in place instead of being replaced is found out:
// when it is replaced, evicted, or the store is closed.
func TestPublishedObjectsAreAudited(t *testing.T) {
	t.Parallel()
	change := func(tx *Tx) *list {
		o, _ := tx.In("one").Get("list", "a")
		v := *o.Value.(*list)
		v.Items[0] = "changed"
		return &v
	}
	for _, c := range []struct {
		name string
		want bool // that it is found out
		do   func(s *Store) error
	}{
		{"nothing changed", false, func(*Store) error { return nil }},
		{"replaced", false, func(s *Store) error {
			return s.Update(t.Context(), "one", func(tx *Tx) error {
				tx.In("one").Put("list", "a", &list{[]string{"changed"}})
				return nil
			})
		}},
		{"changed, and the update was refused", true, func(s *Store) error {
			_ = s.Update(t.Context(), "one", func(tx *Tx) error {
				change(tx)
				return errors.New("refused")
			})
			return nil
		}},
		{"changed and written", true, func(s *Store) error {
			return s.Update(t.Context(), "one", func(tx *Tx) error {
				tx.In("one").Put("list", "a", change(tx))
				return nil
			})
		}},
		{"changed and removed", true, func(s *Store) error {
			return s.Update(t.Context(), "one", func(tx *Tx) error {
				change(tx)
				tx.In("one").Remove("list", "a")
				return nil
			})
		}},
		{"changed by a reader", true, func(s *Store) error {
			snap, err := s.View(context.Background(), "one")
			o, _ := snap.Get("list", "a")
			o.Value.(*list).Items[0] = "changed"
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := Open(Options{Codecs: []Codec{lists{}}, Now: time.Now})
			err := s.Update(t.Context(), "one", func(tx *Tx) error {
				tx.In("one").Put("list", "a", &list{[]string{"first"}})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(c.do(s)) + fmt.Sprint(closed(s))
			if got := strings.Contains(said, "was changed after it was published"); got != c.want {
				t.Errorf("it was found out: %v, want %v (%s)", got, c.want, said)
			}
		})
	}
}

// closed closes the store and returns what it panicked with, if it did.
func closed(s *Store) (panicked any) {
	defer func() { panicked = recover() }()
	if err := s.Close(); err != nil {
		return err
	}
	return nil
}
