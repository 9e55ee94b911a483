package store

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"time"
)

// Tx is a transaction. It provides time and randomness, so that a region with a
// given clock and seed is deterministic.
type Tx struct {
	group  *group
	now    time.Time
	random io.Reader
	drafts map[string]*Draft
	bound  int // maximum size of the documents that it writes, in bytes; 0: unlimited
}

// Bound makes the transaction fail with [TooLarge] if the documents that it
// writes have more than the given number of bytes together.
func (tx *Tx) Bound(bytes int) { tx.bound = bytes }

// TooLarge is the error of a transaction that writes more than its [Tx.Bound],
// in bytes. It has written nothing.
type TooLarge int

func (t TooLarge) Error() string {
	return fmt.Sprintf("the transaction writes more than %d bytes", int(t))
}

// Now returns the time of the transaction.
func (tx *Tx) Now() time.Time { return tx.now }

// Rand returns the region's source of randomness.
func (tx *Tx) Rand() io.Reader { return tx.random }

// tooMany unwinds a closure that creates more objects in an account than there
// are Seqs for in one version of it. The next one would have the Seq of an
// object of another version.
type tooMany struct{ account string }

func (t tooMany) Error() string {
	return fmt.Sprintf("a transaction can create at most %d objects in an account, and this one creates more in %s", maxMade, t.account)
}

// absentAccount unwinds a closure that uses an account that its group does not
// have. The writer loads it and runs the closure again.
type absentAccount string

// In returns the draft of an account in this transaction.
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
// written is undone if it fails.
type Draft struct {
	*Snapshot
	base  *Snapshot
	group *group
	dirty map[objectKey]before
	made  uint64
}

// before is an object before a closure first wrote it, and its table.
type before struct {
	table  *table
	object *Object // nil: it did not exist
}

// seqBits is the number of bits of a Seq that count the objects created by one
// transaction in one account. The rest is the account's version, which makes a
// Seq unique.
const seqBits = 20

// maxMade is the maximum that these bits can count, from 1.
const maxMade = 1<<seqBits - 1

// Scan is [Snapshot.Scan] over the objects at its beginning, whatever the
// closure writes meanwhile.
func (d *Draft) Scan(kind string, after uint64) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		defer d.read(kind)()
		d.Snapshot.Scan(kind, after)(yield)
	}
}

// Find is [Snapshot.Find] over the objects at its beginning, like [Draft.Scan].
func (d *Draft) Find(kind string, key Key) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		defer d.read(kind)()
		d.Snapshot.Find(kind, key)(yield)
	}
}

// read makes writes fork the table until done is called.
func (d *Draft) read(kind string) (done func()) {
	t := d.tables[kind]
	if t == nil || t.owner != d.group.number {
		return func() {} // it is never written to
	}
	t.readers++
	return func() { t.readers-- }
}

// Put writes an object, creating it if there is none of this ID.
func (d *Draft) Put(kind, id string, value any) {
	d.write(kind, id, value, 0)
}

// SoftDelete marks an object as deleted at the given time: it can still be read
// by ID and listed, but no index leads to it and it is not counted.
func (d *Draft) SoftDelete(kind, id string, value any, at time.Time) {
	d.write(kind, id, value, at.UnixMilli())
}

// Remove removes an object, if there is one of this ID.
func (d *Draft) Remove(kind, id string) {
	if o, ok := d.Get(kind, id); ok {
		codec := d.codec(kind)
		d.open(kind, id, o).remove(codec, o)
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

// open returns a table of the kind that the group owns and that no reader
// iterates over, and records which object is written and its former value.
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

// undo reverts what the closure has written to tables that the group continues
// to use. Tables that the closure forked are dropped anyway.
func (d *Draft) undo() {
	for key, was := range d.dirty {
		codec := d.codec(key.kind)
		if is, ok := was.table.byID.Get(key.id); ok {
			was.table.remove(codec, is)
		}
		if was.object != nil {
			was.table.put(codec, was.object)
		}
	}
}
