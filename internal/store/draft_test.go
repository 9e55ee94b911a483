package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// texts are objects that are strings.
type texts struct{}

func (texts) Name() string                              { return "text" }
func (texts) Encode(_ Place, value any) ([]byte, error) { return []byte(value.(string)), nil }
func (texts) Decode(_ Place, doc []byte) (any, error)   { return string(doc), nil }
func (texts) Keys(any) []Key                            { return nil }
func (texts) Amounts(any) Amounts                       { return Amounts{} }
func (texts) Pending(any) bool                          { return false }

// A transaction that makes more objects than there are Seqs for is refused as a
// whole, and one that takes the last Seq is not.
func TestSeqsOfAVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		after uint64 // so many were made before the last two
		want  bool
	}{
		{"as many as there are", 1<<seqBits - 3, true},
		{"one more", 1<<seqBits - 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := Open(Options{Codecs: []Codec{texts{}}, Now: time.Now})
			defer s.Close()
			var seq uint64
			err := s.Update(context.Background(), "one", func(tx *Tx) error {
				d := tx.In("one")
				d.made = c.after
				for i := range 2 {
					d.Put("text", fmt.Sprint(i), "")
				}
				last, _ := d.Get("text", "1")
				seq = last.Seq
				return nil
			})
			snap, viewed := s.View(context.Background(), "one")
			if viewed != nil {
				t.Fatal(viewed)
			}
			switch {
			case c.want && (err != nil || MadeAt(seq) != 1 || snap.Count("text") != 2):
				t.Errorf("%d objects were made, the last with the Seq %x: %v", snap.Count("text"), seq, err)
			case !c.want && (err == nil || !strings.Contains(err.Error(), "at most 1048575 objects") || !strings.Contains(err.Error(), "in one")):
				t.Errorf("it answered %v, want how many objects a transaction makes at most, and in which account", err)
			case !c.want && (snap.Count("text") != 0 || snap.Version() != 0):
				t.Errorf("%d objects were made in a transaction that was refused", snap.Count("text"))
			}
		})
	}
}

// Closures of a group write to the same tables. One that fails, be it while it
// goes through what it writes, leaves nothing to the next; and one that is done
// with reading has the next copy nothing.
func TestGroupShareTables(t *testing.T) {
	t.Parallel()
	s := Open(Options{Codecs: []Codec{texts{}}, Now: time.Now})
	defer s.Close()
	if _, err := s.View(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	g := s.newGroup(s.inMemory)
	var tables []*table
	run := func(fn func(d *Draft) error) error {
		absent, err := g.run(func(tx *Tx) error {
			d := tx.In("one")
			defer func() { tables = append(tables, d.tables["text"]) }()
			return fn(d)
		})
		if absent != "" {
			t.Fatalf("%s is not in memory", absent)
		}
		return err
	}
	list := func(d *Draft) (all []string) {
		for o := range d.Scan("text", 0) {
			all = append(all, o.ID+"="+o.Value.(string))
		}
		return all
	}
	fails := errors.New("fails")
	if err := run(func(d *Draft) error { d.Put("text", "a", "1"); d.Put("text", "b", "1"); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := run(func(d *Draft) error {
		d.Put("text", "a", "2")
		for o := range d.Scan("text", 0) {
			d.Put("text", o.ID, "3")
			d.Put("text", o.ID+o.ID, "3")
		}
		d.Put("text", "c", "4")
		d.Remove("text", "b")
		return fails
	}); !errors.Is(err, fails) {
		t.Fatal(err)
	}
	if err := run(func(d *Draft) error {
		if got := fmt.Sprint(list(d)); got != "[a=1 b=1]" {
			return fmt.Errorf("the group has %s", got)
		}
		d.Put("text", "c", "1")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if tables[0] != tables[2] {
		t.Error("a closure has copied a table that it had read before it wrote to it")
	}
	if tables[0] == tables[1] {
		t.Error("a closure wrote to the table that it went through")
	}
}
