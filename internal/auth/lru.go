package auth

// lru is a map of bounded size: a new entry replaces the least recently used
// one. It is not safe for concurrent use; its owner holds a lock.
type lru[K comparable, V any] struct {
	size    int
	entries map[K]*entry[K, V]
	ring    entry[K, V] // ring.next is the entry used last, ring.prev the one used longest ago
}

type entry[K comparable, V any] struct {
	key        K
	value      V
	next, prev *entry[K, V]
}

// newLRU returns a map for at most size entries, and at least one.
func newLRU[K comparable, V any](size int) *lru[K, V] {
	l := &lru[K, V]{size: max(size, 1), entries: map[K]*entry[K, V]{}}
	l.ring.next, l.ring.prev = &l.ring, &l.ring
	return l
}

// get returns the value of a key, if there is one.
func (l *lru[K, V]) get(key K) (value V, ok bool) {
	e, ok := l.entries[key]
	if !ok {
		return value, false
	}
	l.touch(e)
	return e.value, true
}

// at returns a pointer to a key's value, a zero value if the key is new. The
// pointer is valid until the next call.
func (l *lru[K, V]) at(key K) *V {
	e, ok := l.entries[key]
	if !ok {
		if len(l.entries) >= l.size {
			oldest := l.ring.prev
			oldest.unlink()
			delete(l.entries, oldest.key)
		}
		e = &entry[K, V]{key: key}
		e.next, e.prev = e, e
		l.entries[key] = e
	}
	l.touch(e)
	return &e.value
}

// touch makes e the entry used last.
func (l *lru[K, V]) touch(e *entry[K, V]) {
	e.unlink()
	e.prev, e.next = &l.ring, l.ring.next
	e.prev.next, e.next.prev = e, e
}

func (e *entry[K, V]) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
}
