package auth

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// The lockout of the specification, section 5: every four failures in a row
// refuse a client for a minute longer than the four before, up to ten minutes.
const (
	failuresPerLock = 4
	lockStep        = time.Minute
	maxLockSteps    = 10
)

// Failures under one name are counted by address, so that a client is locked by
// its own. Only once maxAddresses have failed do all others share one lock: so
// many addresses together have at most (maxAddresses+1)*failuresPerLock guesses
// before all of them are refused. An address that has been quiet for an hour
// gives its place to another, since waiting for an hour is slower than the
// longest lock.
const (
	maxAddresses = 16
	quiet        = time.Hour
)

// Lock counts failures in a row. The zero value has none.
type Lock struct {
	Failures int       `json:",omitzero"`
	Until    time.Time `json:",omitzero"` // refused before this time
	Last     time.Time `json:",omitzero"` // of the last failure
}

// Locked reports whether an attempt at this time is refused unchecked.
func (l Lock) Locked(now time.Time) bool { return now.Before(l.Until) }

// Fail returns the Lock after one more failure. An attempt that is refused
// unchecked does not count, and changes nothing.
func (l Lock) Fail(now time.Time) Lock {
	if l.Locked(now) {
		return l
	}
	l.Failures++
	l.Last = now
	if l.Failures%failuresPerLock == 0 {
		l.Until = now.Add(lockStep * time.Duration(min(l.Failures/failuresPerLock, maxLockSteps)))
	}
	return l
}

// isQuiet reports whether the last failure is long ago.
func (l Lock) isQuiet(now time.Time) bool { return now.Sub(l.Last) >= quiet }

// Locks are the locks of one access key or login. They are immutable: changes
// return new ones.
type Locks struct {
	Lock      Lock          // shared by all addresses without their own
	Addresses []AddressLock // at most maxAddresses
}

// AddressLock is the lock of one address.
type AddressLock struct {
	Address string // see [Source]
	Lock
}

// Source returns the text that identifies the client at an address. An IPv6
// client has a whole /64 to choose addresses from, so that all of it is one
// source.
func Source(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.Is6() {
		return netip.PrefixFrom(address, 64).Masked().String()
	}
	return address.String()
}

// find returns the index of the lock of a source; negative: it has none of its
// own.
func (l Locks) find(from string) int {
	return slices.IndexFunc(l.Addresses, func(a AddressLock) bool { return a.Address == from })
}

// Counts reports whether failures from the source are counted on their own.
func (l Locks) Counts(from string) bool { return l.find(from) >= 0 }

// Locked reports whether an attempt from the source is refused unchecked.
func (l Locks) Locked(from string, now time.Time) bool {
	if i := l.find(from); i >= 0 {
		return l.Addresses[i].Locked(now)
	}
	return l.Lock.Locked(now)
}

// Fail returns the locks after one more failure from the source.
func (l Locks) Fail(from string, now time.Time) Locks {
	if l.Locked(from, now) {
		return l
	}
	l.Addresses = slices.Clone(l.Addresses)
	i := l.find(from)
	if i < 0 && len(l.Addresses) < maxAddresses {
		i, l.Addresses = len(l.Addresses), append(l.Addresses, AddressLock{Address: from})
	}
	if i < 0 {
		if i = slices.IndexFunc(l.Addresses, func(a AddressLock) bool { return a.isQuiet(now) }); i >= 0 {
			l.Addresses[i] = AddressLock{Address: from}
		}
	}
	switch {
	case i >= 0:
		l.Addresses[i].Lock = l.Addresses[i].Fail(now)
	case l.Lock.isQuiet(now):
		l.Lock = Lock{}.Fail(now)
	default:
		l.Lock = l.Lock.Fail(now)
	}
	return l
}

// Succeed returns the locks after a success from the source. It forgives the
// source and no other: otherwise each success of the owner would give all
// others four more guesses.
func (l Locks) Succeed(from string, now time.Time) Locks {
	l.Addresses = slices.DeleteFunc(slices.Clone(l.Addresses), func(a AddressLock) bool { return a.Address == from })
	if l.Lock.isQuiet(now) {
		l.Lock = Lock{}
	}
	return l
}

// isZero reports whether nothing is counted.
func (l Locks) isZero() bool { return l.Lock == (Lock{}) && len(l.Addresses) == 0 }

// Strangers locks access keys that do not exist like existing ones, but in
// memory: nothing is written for them, because strangers can invent as many as
// they like. It remembers a bounded number of names, the most recent ones. It
// is safe for concurrent use.
type Strangers struct {
	mu    sync.Mutex // guards locks
	locks *lru[[sha256.Size]byte, Locks]
}

// NewStrangers returns Strangers for a number of names.
func NewStrangers(entries int) *Strangers {
	return &Strangers{locks: newLRU[[sha256.Size]byte, Locks](entries)}
}

// Fail counts an attempt under a name that does not exist. It reports whether
// the attempt was refused unchecked, and so not counted.
func (s *Strangers) Fail(name, from string, now time.Time) (locked bool) {
	// The hash has one size, whatever a stranger sends as a name.
	key := sha256.Sum256([]byte(name))
	s.mu.Lock()
	defer s.mu.Unlock()
	locks := s.locks.at(key)
	if locks.Locked(from, now) {
		return true
	}
	*locks = locks.Fail(from, now)
	return false
}
