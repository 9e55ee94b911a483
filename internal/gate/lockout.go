package gate

import (
	"crypto/sha256"
	"sync"
	"time"
)

// The lockout of the specification, section 5: every four failures in a row
// refuse the name for a minute longer than the four before, up to ten minutes.
const (
	failuresPerLock = 4
	lockStep        = time.Minute
	maxLockSteps    = 10
)

// Lock counts the failures in a row of one access key or login. The zero
// value is a name that has not failed; a success brings it back to zero.
type Lock struct {
	Failures int       `json:",omitzero"`
	Until    time.Time `json:",omitzero"` // refused before this time
}

// Locked reports whether an attempt at this time is refused unheard.
func (l Lock) Locked(now time.Time) bool { return now.Before(l.Until) }

// Fail returns the Lock after one more failure. An attempt that is refused
// unheard is none, and changes nothing.
func (l Lock) Fail(now time.Time) Lock {
	if l.Locked(now) {
		return l
	}
	l.Failures++
	if l.Failures%failuresPerLock == 0 {
		l.Until = now.Add(lockStep * time.Duration(min(l.Failures/failuresPerLock, maxLockSteps)))
	}
	return l
}

// Strangers locks the names that belong to nobody just as those of somebody
// are locked, so that guessing tells no one which names exist. It remembers a
// bounded number of names, those tried last. It is safe for concurrent use.
type Strangers struct {
	mu    sync.Mutex // guards locks
	locks *lru[[sha256.Size]byte, Lock]
}

// NewStrangers makes room for a number of names.
func NewStrangers(entries int) *Strangers {
	return &Strangers{locks: newLRU[[sha256.Size]byte, Lock](entries)}
}

// Fail counts an attempt under a name that belongs to nobody. It reports
// whether the attempt was refused unheard, and so not counted.
func (s *Strangers) Fail(name string, now time.Time) (locked bool) {
	// The hash has one size, whatever a stranger sends as a name.
	key := sha256.Sum256([]byte(name))
	s.mu.Lock()
	defer s.mu.Unlock()
	lock := s.locks.at(key)
	if lock.Locked(now) {
		return true
	}
	*lock = lock.Fail(now)
	return false
}
