package store

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"
)

// Object is a resource in a snapshot. Nobody may change it, or anything that
// Value leads to.
type Object struct {
	ID    string
	Seq   uint64 // the order of creation within the account; never used twice
	Gone  int64  // when it was deleted, in Unix milliseconds; 0: it lives
	Value any

	size int32 // bytes of its document
}

// Snapshot is the state of one account at one version. It never changes.
type Snapshot struct {
	account   string
	version   uint64
	tables    map[string]*table
	size      int64 // bytes of all documents
	unsettled int
}

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

// Account is the account the snapshot is of.
func (s *Snapshot) Account() string { return s.account }

// Version counts the transactions that wrote to the account.
func (s *Snapshot) Version() uint64 { return s.version }

// Get finds an object by its id.
func (s *Snapshot) Get(kind, id string) (*Object, bool) {
	t := s.tables[kind]
	if t == nil {
		return nil, false
	}
	return t.byID.Get(id)
}

// Scan yields the objects of a kind made after the given Seq, in order of
// creation, those gone included.
func (s *Snapshot) Scan(kind string, after uint64) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		if t := s.tables[kind]; t != nil {
			t.bySeq.Ascend(after+1, func(_ uint64, o *Object) bool { return yield(o) })
		}
	}
}

// Find yields the living objects of a kind that have the key, in order of
// creation.
func (s *Snapshot) Find(kind string, key Key) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		t := s.tables[kind]
		if t == nil {
			return
		}
		t.keys.Ascend(keyEntry{index: key.Index, value: key.Value}, func(e keyEntry) bool {
			if e.index != key.Index || e.value != key.Value {
				return false
			}
			o, _ := t.bySeq.Get(e.seq)
			return yield(o)
		})
	}
}

// Count is the number of living objects of a kind.
func (s *Snapshot) Count(kind string) int {
	if t := s.tables[kind]; t != nil {
		return t.byID.Len() - t.gone
	}
	return 0
}

// Sums is what the living objects of a kind add up to.
func (s *Snapshot) Sums(kind string) (sums Amounts) {
	if t := s.tables[kind]; t != nil {
		sums = t.sums
	}
	return sums
}

// set puts an object into tables that nobody else sees.
func (s *Snapshot) set(c Codec, o *Object) {
	t := s.tables[c.Name()]
	if t == nil {
		t = newTable()
		s.tables[c.Name()] = t
	}
	if old := t.put(c, o); old != nil {
		s.count(c, old, -1)
	}
	s.count(c, o, +1)
}

// count adds an object to the sums, or takes it from them.
func (s *Snapshot) count(c Codec, o *Object, sign int) {
	s.size += int64(sign) * int64(o.size)
	if unsettled(c, o) {
		s.unsettled += sign
	}
}

// put puts an object into a table in place of the one of its id, and answers
// that. Most changes leave the keys alone, and so does put then.
func (t *table) put(c Codec, o *Object) (old *Object) {
	keys, amounts := c.Keys(o.Value), c.Amounts(o.Value) // first: if it panics, nothing is half done
	if old, _ = t.byID.Get(o.ID); old != nil {
		if old.Seq == o.Seq && old.Gone == 0 && o.Gone == 0 && slices.Equal(c.Keys(old.Value), keys) {
			t.byID.Set(o.ID, o)
			t.bySeq.Set(o.Seq, o)
			t.sums = t.sums.plus(-1, c.Amounts(old.Value)).plus(1, amounts)
			return old
		}
		t.take(c, old)
	}
	t.byID.Set(o.ID, o)
	t.bySeq.Set(o.Seq, o)
	if o.Gone != 0 {
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
	if o.Gone != 0 {
		t.gone--
		return
	}
	t.sums = t.sums.plus(-1, c.Amounts(o.Value))
	for _, k := range c.Keys(o.Value) {
		t.keys.Delete(keyEntry{k.Index, k.Value, o.Seq})
	}
}

// unsettled reports whether a loop must look at the object. What is gone is
// still to be removed one day.
func unsettled(c Codec, o *Object) bool { return o.Gone != 0 || c.Unsettled(o.Value) }

// Tx is a transaction. Time and chance come from it, so that a region with a
// given clock and seed always does the same.
type Tx struct {
	group  *group
	now    time.Time
	chance io.Reader
	drafts map[string]*Draft
}

// Now is the time of the transaction.
func (tx *Tx) Now() time.Time { return tx.now }

// Chance is the region's random source.
func (tx *Tx) Chance() io.Reader { return tx.chance }

// tooMany unwinds a closure that makes more objects in an account than there
// are Seqs for in one version of it. The next would have the Seq of an object of
// another version.
type tooMany struct{ account string }

func (t tooMany) Error() string {
	return fmt.Sprintf("one transaction makes %d objects at most in an account, and makes more in %s", maxMade, t.account)
}

// absentAccount unwinds a closure that reached an account that is not in
// memory. Update loads it and runs the closure again.
type absentAccount string

// In is the account as the transaction has left it so far.
func (tx *Tx) In(account string) *Draft {
	if d, ok := tx.drafts[account]; ok {
		return d
	}
	var base *Snapshot
	if p, ok := tx.group.drafts[account]; ok {
		base = p.snapshot
	} else if base = tx.group.base(account); base == nil {
		panic(absentAccount(account))
	}
	d := &Draft{Snapshot: base, base: base, group: tx.group}
	tx.drafts[account] = d
	return d
}

// Draft is an account inside a transaction: a snapshot that can be written.
//
// The closures of a group write to the same tables, one after the other, so
// that only the first of them copies what it changes. What a closure has
// written is taken back if it fails.
type Draft struct {
	*Snapshot
	base  *Snapshot
	group *group
	dirty map[objectKey]before
	made  uint64
}

// before is what an object was before a closure wrote it first, and in which
// table.
type before struct {
	table  *table
	object *Object // nil: there was none
}

// seqBits is how many bits of a Seq count the objects that one transaction makes
// in one account. The rest is the account's version, which makes it unique for
// ever.
const seqBits = 20

// maxMade is how many these can count, from 1.
const maxMade = 1<<seqBits - 1

// Scan is as [Snapshot.Scan]. It goes through what was there when it began,
// whatever the closure writes meanwhile.
func (d *Draft) Scan(kind string, after uint64) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		defer d.read(kind)()
		d.Snapshot.Scan(kind, after)(yield)
	}
}

// Find is as [Snapshot.Find], and like [Draft.Scan] when the closure writes.
func (d *Draft) Find(kind string, key Key) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		defer d.read(kind)()
		d.Snapshot.Find(kind, key)(yield)
	}
}

// read has writes leave the table alone until the answer is called.
func (d *Draft) read(kind string) (done func()) {
	t := d.tables[kind]
	if t == nil || t.owner != d.group.number {
		return func() {} // it is never written to
	}
	t.readers++
	return func() { t.readers-- }
}

// Put writes an object, making it if there is none of this id.
func (d *Draft) Put(kind, id string, value any) {
	d.write(kind, id, value, 0)
}

// Bury marks an object as gone at the given time: it can still be read by id
// and listed, but no index leads to it and it is not counted.
func (d *Draft) Bury(kind, id string, value any, at time.Time) {
	d.write(kind, id, value, at.UnixMilli())
}

// Remove removes an object, if there is one of this id.
func (d *Draft) Remove(kind, id string) {
	if o, ok := d.Get(kind, id); ok {
		codec := d.codec(kind)
		d.open(kind, id, o).take(codec, o)
		d.count(codec, o, -1)
	}
}

func (d *Draft) write(kind, id string, value any, gone int64) {
	old, _ := d.Get(kind, id)
	codec := d.codec(kind)
	d.open(kind, id, old)
	o := &Object{ID: id, Gone: gone, Value: value}
	if old != nil {
		o.Seq = old.Seq
	} else {
		if d.made == maxMade {
			panic(tooMany{d.account})
		}
		d.made++
		o.Seq = d.version<<seqBits | d.made
	}
	d.set(codec, o)
}

func (d *Draft) codec(kind string) Codec {
	c, ok := d.group.store.codecs[kind]
	if !ok {
		panic("store: unknown kind " + kind)
	}
	return c
}

// open makes the table of a kind the group's own, and one that nobody goes
// through, and notes which object is written and what it was.
func (d *Draft) open(kind, id string, old *Object) *table {
	if d.dirty == nil {
		own := *d.base
		own.version++
		own.tables = maps.Clone(d.base.tables)
		d.Snapshot, d.dirty = &own, map[objectKey]before{}
	}
	t := d.tables[kind]
	if t == nil || t.owner != d.group.number || t.readers > 0 {
		if t == nil {
			t = newTable()
		} else {
			t = t.fork()
		}
		t.owner = d.group.number
		d.tables[kind] = t
	}
	key := objectKey{kind, id}
	if _, ok := d.dirty[key]; !ok {
		d.dirty[key] = before{t, old}
	}
	return t
}

// undo takes back what the closure has written to tables that the group goes
// on to use. What it wrote to one that it forked later is lost anyhow.
func (d *Draft) undo() {
	for key, was := range d.dirty {
		codec := d.codec(key.kind)
		if is, ok := was.table.byID.Get(key.id); ok {
			was.table.take(codec, is)
		}
		if was.object != nil {
			was.table.put(codec, was.object)
		}
	}
}
