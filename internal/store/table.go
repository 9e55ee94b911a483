package store

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// table is the objects of one kind.
type table struct {
	byID  *btree.Map[string, *Object]
	bySeq *btree.Map[uint64, *Object]
	keys  *btree.BTreeG[keyEntry]
	gone  int
	sums  Amounts // of the living

	// owner is the number of the group whose closures may write to the table,
	// as nobody else has seen it; 0: none. Only the writer looks at it, or, in a
	// shared journal, who forks.
	owner int64

	// readers counts the closures that go through the table right now. Whoever
	// writes meanwhile leaves it to them and writes to a fork. Only those who look
	// at owner count.
	readers int
}

// keyEntry leads from an index to the object made at Seq. The strings are the
// object's own, so an entry costs no copy of them.
type keyEntry struct {
	index, value string
	seq          uint64
}

func lessKey(a, b keyEntry) bool {
	if order := strings.Compare(a.index, b.index); order != 0 {
		return order < 0
	}
	if order := strings.Compare(a.value, b.value); order != 0 {
		return order < 0
	}
	return a.seq < b.seq
}

func newTable() *table {
	return &table{
		byID:  btree.NewMap[string, *Object](0),
		bySeq: btree.NewMap[uint64, *Object](0),
		keys:  btree.NewBTreeGOptions(lessKey, btree.Options{NoLocks: true}),
	}
}

// fork is a copy that shares all nodes until they are written. Only the writer
// forks.
func (t *table) fork() *table {
	return &table{byID: t.byID.Copy(), bySeq: t.bySeq.Copy(), keys: t.keys.Copy(), gone: t.gone, sums: t.sums}
}

// put puts an object into a table in place of the one of its id, and answers
// that. Most changes leave the keys alone, and so does put then.
func (t *table) put(c Codec, o *Object) (old *Object) {
	keys, amounts := c.Keys(o.Value), c.Amounts(o.Value) // first: if it panics, nothing is half done
	if old, _ = t.byID.Get(o.ID); old != nil {
		if old.Seq == o.Seq && old.DeletedAt == 0 && o.DeletedAt == 0 && slices.Equal(c.Keys(old.Value), keys) {
			t.byID.Set(o.ID, o)
			t.bySeq.Set(o.Seq, o)
			t.sums = t.sums.plus(-1, c.Amounts(old.Value)).plus(1, amounts)
			return old
		}
		t.take(c, old)
	}
	t.byID.Set(o.ID, o)
	t.bySeq.Set(o.Seq, o)
	if o.DeletedAt != 0 {
		t.gone++
		return old
	}
	t.sums = t.sums.plus(1, amounts)
	for _, k := range keys {
		t.keys.Set(keyEntry{k.Index, k.Value, o.Seq})
	}
	return old
}

// take removes all that put added for the object.
func (t *table) take(c Codec, o *Object) {
	t.byID.Delete(o.ID)
	t.bySeq.Delete(o.Seq)
	if o.DeletedAt != 0 {
		t.gone--
		return
	}
	t.sums = t.sums.plus(-1, c.Amounts(o.Value))
	for _, k := range c.Keys(o.Value) {
		t.keys.Delete(keyEntry{k.Index, k.Value, o.Seq})
	}
}
