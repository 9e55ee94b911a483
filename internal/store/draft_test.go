package store

import (
	"context"
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
func (texts) Unsettled(any) bool                        { return false }

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
			case !c.want && (err == nil || !strings.Contains(err.Error(), "1048575 objects at most") || !strings.Contains(err.Error(), "in one")):
				t.Errorf("it answered %v, want how many objects a transaction makes at most, and in which account", err)
			case !c.want && (snap.Count("text") != 0 || snap.Version() != 0):
				t.Errorf("%d objects were made in a transaction that was refused", snap.Count("text"))
			}
		})
	}
}
