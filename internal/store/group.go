package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
)

// group is the closures that share a commit.
type group struct {
	store   *Store
	base    func(account string) *Snapshot // nil: the group does not have the account
	number  int64                          // unique
	updates []*update
	drafts  map[string]*working
	bytes   int // size of the documents written by its closures
}

func (s *Store) newGroup(base func(account string) *Snapshot) *group {
	return &group{store: s, base: base, number: s.tick.Add(1), drafts: map[string]*working{}}
}

// working is an account with the changes of the group's closures so far.
type working struct {
	snapshot *Snapshot
	rows     map[objectKey]Row
}

type objectKey struct{ kind, id string }

// run runs a closure over the changes of the closures before it. A closure that
// fails leaves no changes.
func (g *group) run(fn func(*Tx) error) (absent string, err error) {
	tx := &Tx{group: g, now: g.store.Now(), random: g.store.Rand, drafts: map[string]*Draft{}}
	defer func() {
		if p := recover(); p != nil {
			switch p := p.(type) {
			case absentAccount:
				absent, err = string(p), nil
			case tooMany:
				err = p
			default:
				err = &Panic{Value: p, Stack: debug.Stack()}
			}
		}
		if absent != "" || err != nil {
			for _, d := range tx.drafts {
				d.undo()
			}
		}
	}()
	if err := fn(tx); err != nil {
		return "", err
	}
	rows, bytes := map[string][]Row{}, 0
	for account, d := range tx.drafts {
		for k := range d.dirty {
			row, err := g.store.row(d.Snapshot, k)
			if err != nil {
				return "", err
			}
			if bytes += len(row.Doc); tx.bound > 0 && bytes > tx.bound {
				return "", TooLarge(tx.bound)
			}
			rows[account] = append(rows[account], row)
		}
	}
	g.bytes += bytes
	for account, rows := range rows {
		p := g.drafts[account]
		if p == nil {
			p = &working{rows: map[objectKey]Row{}}
			g.drafts[account] = p
		}
		p.snapshot = tx.drafts[account].Snapshot
		for _, row := range rows {
			p.rows[objectKey{row.Kind, row.ID}] = row
		}
	}
	return "", nil
}

// Panic is the error of a closure that panicked. It has written nothing.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string {
	return fmt.Sprintf("panic in a transaction: %v\n%s", p.Value, p.Stack)
}

// commit makes the group durable and then visible.
func (g *group) commit() error {
	batches := g.batches()
	if len(batches) == 0 {
		return nil
	}
	if g.store.Journal != nil {
		if err := g.store.Journal.Commit(context.Background(), batches); err != nil {
			return fmt.Errorf("committing to the journal: %w", err)
		}
	}
	g.publish(batches)
	return nil
}

// batches returns the changes of the group's closures, by account.
func (g *group) batches() []Batch {
	batches := make([]Batch, 0, len(g.drafts))
	for account, p := range g.drafts {
		b := Batch{Account: account, Version: p.snapshot.version, Pending: p.snapshot.pending, Rows: slices.Collect(maps.Values(p.rows))}
		// The order of a map is random; the journal and the loops get the
		// order in which the objects were made.
		slices.SortFunc(b.Rows, func(x, y Row) int { return cmp.Or(cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.ID, y.ID)) })
		batches = append(batches, b)
	}
	slices.SortFunc(batches, func(x, y Batch) int { return cmp.Compare(x.Account, y.Account) })
	return batches
}

// publish makes committed changes visible. In a shared journal the snapshot in
// memory may differ from the one that the group was based on: other nodes have
// written since, or it was dropped because the journal went back. Then it is
// left for the next reader to refresh.
func (g *group) publish(batches []Batch) {
	var changes []Change
	g.store.publishing.Lock()
	for _, b := range batches {
		p := g.drafts[b.Account]
		e := g.store.entry(b.Account)
		e.mu.Lock()
		if now := e.snapshot.Load(); now == g.base(b.Account) {
			e.snapshot.Store(p.snapshot)
			g.store.held.Add(p.snapshot.size - now.size)
		}
		e.mu.Unlock()
		for _, r := range b.Rows {
			changes = append(changes, Change{b.Account, r.Kind, r.ID})
		}
	}
	g.store.publishing.Unlock()
	if g.store.Changed != nil {
		g.store.Changed(changes)
	}
}

// row encodes an object that a closure has written. An object that cannot be
// encoded fails its own closure and no other.
func (s *Store) row(snap *Snapshot, k objectKey) (Row, error) {
	row := Row{Kind: k.kind, ID: k.id, Version: snap.version}
	o, ok := snap.Get(k.kind, k.id)
	if !ok {
		return row, nil
	}
	doc, err := s.codecs[k.kind].Encode(Place{snap.account, k.kind, k.id}, o.Value)
	if err != nil {
		return Row{}, fmt.Errorf("encoding %s %s: %w", k.kind, k.id, err)
	}
	// The object is not published yet, so its size can still be set.
	snap.size += int64(len(doc)) - int64(o.size)
	o.size = int32(len(doc))
	row.Seq, row.DeletedAt, row.Doc = o.Seq, o.DeletedAt, doc
	if s.audited {
		o.doc = doc
	}
	return row, nil
}

func (g *group) fail(err error) {
	for _, u := range g.updates {
		if u.err == nil && u.absent == "" {
			u.err = err
		}
	}
}
