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
	sums  Amounts // of the objects that are not deleted

	// owner is the number of the group whose closures may write to the table,
	// because no reader can see it; 0: none. Only the writer reads it, or, in a
	// shared journal, the holder of forking.
	owner int64

	// readers counts the iterations over the table by closures. A write
	// meanwhile goes to a fork. Guarded like owner.
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

// fork returns a copy that shares all nodes until they are written. Only the
// writer forks.
func (t *table) fork() *table {
	return &table{byID: t.byID.Copy(), bySeq: t.bySeq.Copy(), keys: t.keys.Copy(), gone: t.gone, sums: t.sums}
}

// put puts an object into a table, replacing the one with its ID, and returns
// that. Most changes leave the keys unchanged, and then put does not touch
// them.
func (t *table) put(c Codec, o *Object) (old *Object) {
	keys, amounts := c.Keys(o.Value), c.Amounts(o.Value) // first, because it may panic
	if old, _ = t.byID.Get(o.ID); old != nil {
		if old.Seq == o.Seq && old.DeletedAt == 0 && o.DeletedAt == 0 && slices.Equal(c.Keys(old.Value), keys) {
			t.byID.Set(o.ID, o)
			t.bySeq.Set(o.Seq, o)
			t.sums = t.sums.plus(-1, c.Amounts(old.Value)).plus(1, amounts)
			return old
		}
		t.remove(c, old)
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

// remove removes everything that put added for the object.
func (t *table) remove(c Codec, o *Object) {
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
