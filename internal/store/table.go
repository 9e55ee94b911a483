package store

import (
	"hash/maphash"
	"slices"

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

// keyEntry leads from a key to the object made at seq. The key is a hash of 128
// bits, because entries without pointers are small, quick to compare and nothing
// to the garbage collector. That two keys of an account have the same hash is as
// good as impossible, also for a client that chooses values: the seeds are the
// process's own.
type keyEntry struct{ high, low, seq uint64 }

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func entryOf(k Key, seq uint64) keyEntry {
	return keyEntry{hashOf(seeds[0], k), hashOf(seeds[1], k), seq}
}

// hashOf multiplies in between, so that index and value cannot change places.
func hashOf(seed maphash.Seed, k Key) uint64 {
	const odd = 0x9e3779b97f4a7c15
	return maphash.String(seed, k.Index)*odd ^ maphash.String(seed, k.Value)
}

func lessKey(a, b keyEntry) bool {
	switch {
	case a.high != b.high:
		return a.high < b.high
	case a.low != b.low:
		return a.low < b.low
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
		t.keys.Set(entryOf(k, o.Seq))
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
		t.keys.Delete(entryOf(k, o.Seq))
	}
}
