package auth

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// queues let the attempts under one name pass one after the other, in the order
// in which they came. They are safe for concurrent use.
type queues struct {
	limit int // maximum number of attempts in all queues; 0: unlimited

	mu   sync.Mutex // guards the fields below
	in   int        // attempts in all queues
	left uint64     // attempts that have left them
	// by name; the first attempt of each is the one that passes, its channel is closed
	next map[string][]chan struct{}
}

func newQueues(limit int) *queues { return &queues{limit: limit, next: map[string][]chan struct{}{}} }

// enter waits until all attempts under the name that came before have left. It
// fails if there are too many attempts already, or when the context ends: then
// the attempt has left the queue.
func (q *queues) enter(ctx context.Context, name string) (leave func(), err error) {
	ticket := make(chan struct{})
	q.mu.Lock()
	if q.limit > 0 && q.in == q.limit {
		q.mu.Unlock()
		return nil, &Throttled{time.Second, apierror.CallThrottled.Errorf(
			"%d passwords are being checked or wait for it, which is the maximum.", q.limit)}
	}
	q.in++
	q.next[name] = append(q.next[name], ticket)
	if len(q.next[name]) == 1 {
		close(ticket)
	}
	q.mu.Unlock()

	leave = func() { q.leave(name, ticket) }
	select {
	case <-ticket:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

func (q *queues) leave(name string, ticket chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.in--
	q.left++
	waiting := q.next[name]
	i := slices.Index(waiting, ticket)
	waiting = slices.Delete(waiting, i, i+1)
	q.next[name] = waiting
	switch {
	case len(waiting) == 0:
		delete(q.next, name)
	case i == 0:
		close(waiting[0])
	}
}

// now counts the attempts that have left, for quietSince.
func (q *queues) now() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
}

// quietSince reports whether no attempt under the name is in its queue, and none
// under any name has left since.
func (q *queues) quietSince(then uint64, name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left == then && len(q.next[name]) == 0
}
