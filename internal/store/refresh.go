package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
)

// invalidate drops all snapshots, because one of them is newer than the
// journal, although the journal was queried later: the journal has lost commits
// that this node has seen. It was restored to an earlier time, or a failover
// lost them. Other losses are unknown, so no snapshot can be trusted.
func (w *shared) invalidate(snap *Snapshot, version uint64) {
	w.invalidating.Lock()
	defer w.invalidating.Unlock()
	if w.store.inMemory(snap.account) != snap {
		return // another reader was faster
	}
	w.store.Log.Error("the journal is at an earlier version than this node has seen: it was restored, or has lost commits. What "+
		"is in memory is dropped and read anew. Restart all nodes",
		"account", snap.account, "seen", snap.version, "version", version)
	w.store.accounts.Range(func(_, e any) bool {
		w.store.drop(e.(*entry))
		return true
	})
}

// since reads the rows of an account after a version, in a transaction or
// outside of one.
type since func(ctx context.Context, account string, version uint64, each func(Row) error) (uint64, error)

// refresh updates the cached snapshot of the account to at least a version, and
// returns it.
func (w *shared) refresh(ctx context.Context, account string, version uint64, read since) (*Snapshot, error) {
	e := w.store.entry(account)
	e.mu.Lock()
	defer e.mu.Unlock()
	snap := e.snapshot.Load()
	if snap != nil && snap.version >= version {
		return snap, nil
	}
	if snap == nil {
		snap = emptySnapshot(account)
	}
	fresh, changes, err := w.absorb(ctx, snap, read)
	if errors.Is(err, ErrForgotten) {
		fresh, changes, err = w.absorb(ctx, emptySnapshot(account), read)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the changes of other nodes to the account %s: %w", account, err)
	}
	if old := e.snapshot.Swap(fresh); old != nil {
		w.store.held.Add(-old.size)
	}
	w.store.held.Add(fresh.size)
	if w.store.Changed != nil && len(changes) > 0 {
		w.store.Changed(changes)
	}
	return fresh, nil
}

// absorbed is a decoded row that another node wrote.
type absorbed struct {
	codec Codec
	id    string
	o     *Object // nil: removed
}

// absorb returns the snapshot with the changes since.
func (w *shared) absorb(ctx context.Context, snap *Snapshot, read since) (*Snapshot, []Change, error) {
	var rows []absorbed
	var changes []Change
	version, err := read(ctx, snap.account, snap.version, func(r Row) error {
		row := absorbed{codec: w.store.codecs[r.Kind], id: r.ID}
		if row.codec == nil {
			return unknownKind(r)
		}
		if r.Doc != nil {
			var err error
			if row.o, err = w.store.object(snap.account, row.codec, r); err != nil {
				return err
			}
		}
		rows = append(rows, row)
		changes = append(changes, Change{snap.account, r.Kind, r.ID})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	w.forking.Lock()
	defer w.forking.Unlock()
	fresh := *snap
	fresh.version, fresh.tables = version, maps.Clone(snap.tables)
	forked := map[string]bool{}
	for _, r := range rows {
		name := r.codec.Name()
		if t := fresh.tables[name]; t != nil && !forked[name] {
			fresh.tables[name] = t.fork()
		}
		forked[name] = true
		if r.o != nil {
			fresh.set(r.codec, r.o)
		} else if old, ok := fresh.Get(name, r.id); ok {
			fresh.tables[name].remove(r.codec, old)
			fresh.count(r.codec, old, -1)
		}
	}
	return &fresh, changes, nil
}
