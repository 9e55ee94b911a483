package store

import "iter"

// Object is a resource in a snapshot. It must not be changed, nor anything that
// Value points to.
type Object struct {
	ID        string
	Seq       uint64 // order of creation within the account; unique
	DeletedAt int64  // when it was deleted, in Unix milliseconds; 0: it exists
	Value     any

	size int32  // size of its document in bytes
	doc  []byte // its document, if the store is audited
}

// Snapshot is the state of one account at one version. It never changes.
type Snapshot struct {
	account string
	version uint64
	tables  map[string]*table
	size    int64 // size of all documents in bytes
	pending int
}

func emptySnapshot(account string) *Snapshot {
	return &Snapshot{account: account, tables: map[string]*table{}}
}

// Account returns the ID of the account.
func (s *Snapshot) Account() string { return s.account }

// Version returns the number of transactions that wrote to the account.
func (s *Snapshot) Version() uint64 { return s.version }

// Get returns an object by its ID.
func (s *Snapshot) Get(kind, id string) (*Object, bool) {
	t := s.tables[kind]
	if t == nil {
		return nil, false
	}
	return t.byID.Get(id)
}

// Scan yields the objects of a kind created after the given Seq, in order of
// creation, including deleted ones.
func (s *Snapshot) Scan(kind string, after uint64) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		if t := s.tables[kind]; t != nil {
			t.bySeq.Ascend(after+1, func(_ uint64, o *Object) bool { return yield(o) })
		}
	}
}

// Find yields the objects of a kind that have the key and are not deleted, in
// order of creation.
func (s *Snapshot) Find(kind string, key Key) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		t := s.tables[kind]
		if t == nil {
			return
		}
		first := entryOf(key, 0)
		t.keys.Ascend(first, func(e keyEntry) bool {
			if e.high != first.high || e.low != first.low {
				return false
			}
			o, _ := t.bySeq.Get(e.seq)
			return yield(o)
		})
	}
}

// Count returns the number of objects of a kind that are not deleted.
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

// set puts an object into tables that are not published.
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

// count adds an object to the totals, or subtracts it.
func (s *Snapshot) count(c Codec, o *Object, sign int) {
	s.size += int64(sign) * int64(o.size)
	if pending(c, o) {
		s.pending += sign
	}
}

// pending reports whether a loop must look at the object. A deleted object must
// be purged some day.
func pending(c Codec, o *Object) bool { return o.DeletedAt != 0 || c.Pending(o.Value) }
