package store

import (
	"bytes"
	"fmt"
	"reflect"
)

// audit panics if an object is no longer what was published. Objects are shared
// by all snapshots and readers, so a rule that changes one in place changes
// durable state without writing it. In tests each object keeps its document,
// and is compared with it when it is replaced, dropped from memory, or the
// store is closed.
//
// Sealed secrets are encoded differently each time, so documents that differ
// are compared by their decoded values.
func (s *Store) audit(account string, codec Codec, o *Object) {
	if o.doc == nil {
		return
	}
	at := Place{account, codec.Name(), o.ID}
	now, err := codec.Encode(at, o.Value)
	if err == nil && bytes.Equal(now, o.doc) {
		return
	}
	is, isErr := codec.Decode(at, now)
	was, wasErr := codec.Decode(at, o.doc)
	if err == nil && isErr == nil && wasErr == nil && reflect.DeepEqual(is, was) {
		return
	}
	panic(fmt.Sprintf("store: %s %s of the account %s was changed after it was published\nfrom %s\nto   %s", at.Kind, at.ID, account, o.doc,
		now))
}

// auditAll audits all objects of a snapshot.
func (s *Store) auditAll(snap *Snapshot) {
	if !s.audited {
		return
	}
	for kind := range snap.tables {
		for o := range snap.Scan(kind, 0) {
			s.audit(snap.account, s.codecs[kind], o)
		}
	}
}
