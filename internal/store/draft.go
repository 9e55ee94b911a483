package store

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"time"
)

// Tx is a transaction. Time and random come from it, so that a region with a
// given clock and seed always does the same.
type Tx struct {
	group  *group
	now    time.Time
	random io.Reader
	drafts map[string]*Draft
	bound  int // of the bytes of the documents that it may write; 0: none
}

// Bound makes the transaction fail with [TooLarge] if the documents that it
// writes have more bytes together.
func (tx *Tx) Bound(bytes int) { tx.bound = bytes }

// TooLarge is the error of a transaction that writes more than its [Tx.Bound],
// in bytes. It has written nothing.
type TooLarge int

func (t TooLarge) Error() string {
	return fmt.Sprintf("the transaction writes more than %d bytes", int(t))
}

// Now is the time of the transaction.
func (tx *Tx) Now() time.Time { return tx.now }

// Rand is the region's random source.
func (tx *Tx) Rand() io.Reader { return tx.random }

// tooMany unwinds a closure that makes more objects in an account than there
// are Seqs for in one version of it. The next would have the Seq of an object of
// another version.
type tooMany struct{ account string }

func (t tooMany) Error() string {
	return fmt.Sprintf("one transaction makes %d objects at most in an account, and makes more in %s", maxMade, t.account)
}

// absentAccount unwinds a closure that reached an account that its group does
// not have. The writer gets it and runs the closure again.
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

// SoftDelete marks an object as gone at the given time: it can still be read by id
// and listed, but no index leads to it and it is not counted.
func (d *Draft) SoftDelete(kind, id string, value any, at time.Time) {
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
	o := &Object{ID: id, DeletedAt: gone, Value: value}
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
		if old != nil {
			d.group.store.audit(d.account, d.codec(kind), old)
		}
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
