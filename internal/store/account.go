package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// entry is the cache entry of an account. Its mutex is held while the account
// is loaded, evicted or published, never while it is read.
type entry struct {
	mu       sync.Mutex
	snapshot atomic.Pointer[Snapshot]
	used     atomic.Int64
	wanted   atomic.Int32 // number of updates that pin it in memory; see [local.submit]
}

func (s *Store) entry(account string) *entry {
	if e, ok := s.accounts.Load(account); ok {
		return e.(*entry)
	}
	e, _ := s.accounts.LoadOrStore(account, &entry{})
	return e.(*entry)
}

func (s *Store) load(ctx context.Context, account string, e *entry) (*Snapshot, error) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if snap := e.snapshot.Load(); snap != nil {
		return snap, nil
	}
	snap := emptySnapshot(account)
	if s.Journal != nil {
		version, err := s.Journal.Load(ctx, account, func(r Row) error { return s.place(snap, r) })
		if err != nil {
			return nil, fmt.Errorf("loading account %s: %w", account, err)
		}
		snap.version = version
	}
	e.snapshot.Store(snap)
	if held := s.held.Add(snap.size); s.Memory != 0 && held > s.Memory {
		s.writer.relieve()
	}
	return snap, nil
}

// place decodes a row into a snapshot that is not published yet.
func (s *Store) place(snap *Snapshot, r Row) error {
	codec, ok := s.codecs[r.Kind]
	if !ok {
		return unknownKind(r)
	}
	o, err := s.object(snap.account, codec, r)
	if err == nil {
		snap.set(codec, o)
	}
	return err
}

func unknownKind(r Row) error {
	return fmt.Errorf("%s is of the kind %s, which this program does not know: was it written by a newer one?", r.ID, r.Kind)
}

// object decodes a row.
func (s *Store) object(account string, codec Codec, r Row) (*Object, error) {
	value, err := codec.Decode(Place{account, r.Kind, r.ID}, r.Doc)
	if err != nil {
		return nil, fmt.Errorf("decoding %s %s: %w", r.Kind, r.ID, err)
	}
	o := &Object{ID: r.ID, Seq: r.Seq, DeletedAt: r.DeletedAt, Value: value, size: int32(len(r.Doc))}
	if s.audited {
		o.doc = r.Doc
	}
	return o, nil
}

// inMemory returns the cached snapshot of the account, or nil.
func (s *Store) inMemory(account string) *Snapshot { return s.entry(account).snapshot.Load() }

// evict drops the least recently used accounts once the documents in memory
// exceed the bound, down to nine tenths of it, so that it does not run for each
// account.
func (s *Store) evict() {
	if s.Journal == nil || s.Memory == 0 || s.held.Load() <= s.Memory {
		return
	}
	var all []*entry
	s.accounts.Range(func(_, e any) bool {
		all = append(all, e.(*entry))
		return true
	})
	slices.SortFunc(all, func(x, y *entry) int { return cmp.Compare(x.used.Load(), y.used.Load()) })
	for _, e := range all {
		if s.held.Load() <= s.Memory/10*9 {
			return
		}
		// An account that is being loaded or is pinned is in use.
		if e.wanted.Load() > 0 || !e.mu.TryLock() {
			continue
		}
		s.clear(e)
		e.mu.Unlock()
	}
}

// drop removes an account from memory, after its loading if it is being loaded.
func (s *Store) drop(e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.clear(e)
}

// clear removes an account from memory. The caller holds the entry's mutex.
func (s *Store) clear(e *entry) {
	if snap := e.snapshot.Swap(nil); snap != nil {
		s.held.Add(-snap.size)
		s.auditAll(snap)
	}
}
