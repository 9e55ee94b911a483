package reconcile

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
)

// task identifies what a job works on: one resource of a loop, or the resync of
// the loop if id is empty.
type task struct {
	loop        *loop
	account, id string
}

func (t task) isResync() bool { return t.id == "" }

// name is the label under which the task is counted and logged.
func (t task) name() string {
	if t.isResync() {
		return t.loop.name + " sweep"
	}
	return t.loop.name
}

// job is a task with work to do: now, at its due time, or once more after the
// call that is running.
type job struct {
	task
	phase    phase
	woken    bool // while a worker ran it
	failures int  // consecutive

	// Set in phase waiting:
	due   time.Time
	timer clock.Timer
}

// phase is the state of a job.
type phase int

const (
	ready   phase = iota // in the queue
	active               // run by a worker
	waiting              // until its due time
)

// wake queues a task. A task that has failed waits until its backoff has passed
// whatever wakes it, so that a resource that changes often does not keep a
// broken driver busy. The caller holds the mutex.
func (r *Reconciler) wake(t task) {
	j := r.jobs[t]
	switch {
	case j == nil:
		j = &job{task: t}
		r.jobs[t] = j
		r.enqueue(j)
	case j.phase == active:
		j.woken = true
	case j.phase == waiting && j.failures == 0:
		j.timer.Stop()
		r.enqueue(j)
	}
}

// enqueue puts a job into the queue. The caller holds the mutex.
func (r *Reconciler) enqueue(j *job) {
	j.phase, j.woken = ready, false
	r.ready = append(r.ready, j)
	r.work.Signal()
}

// wait parks a job until it is due. The caller holds the mutex.
func (r *Reconciler) wait(j *job, due time.Time) {
	j.phase, j.due = waiting, due
	j.timer = r.Clock.At(due, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		// A timer may fire after it was stopped, or after the loops have ended:
		// its job has moved on by then.
		if j.phase == waiting && j.due.Equal(due) && r.state == started {
			r.enqueue(j)
		}
	})
}

// The bounds of the backoff, which doubles with each failure.
const (
	minBackoff = time.Second
	maxBackoff = 2 * time.Minute
)

// backoff is how long to wait after the given number of consecutive failures.
// Up to half of it is taken off, so that jobs that failed together do not
// return together. The jitter is a hash of the names and not random, so that a
// region with a given seed repeats itself.
func backoff(failures int, names ...string) time.Duration {
	longest := maxBackoff
	if doublings := failures - 1; doublings < 7 {
		longest = min(minBackoff<<doublings, maxBackoff)
	}
	h := fnv.New32a()
	h.Write([]byte(strings.Join(append(names, strconv.Itoa(failures)), "\x00")))
	off := float64(h.Sum32()) / (1 << 32) * float64(longest/2)
	return longest - time.Duration(off)
}
