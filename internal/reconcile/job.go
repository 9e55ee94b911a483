package reconcile

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
)

// task is what a step is about: one resource of a loop or, if it names none,
// a sweep.
type task struct {
	loop        *loop
	account, id string
}

func (t task) isSweep() bool { return t.id == "" }

// name is what the task is counted as.
func (t task) name() string {
	if t.isSweep() {
		return t.loop.name + " sweep"
	}
	return t.loop.name
}

// job is a task that needs a step: now, once it is due, or again after the one
// it is in.
type job struct {
	task
	phase    phase
	woken    bool // while it was at a worker
	failures int  // in a row

	// When it waits:
	due   time.Time
	timer clock.Timer
}

// phase is where a job is.
type phase int

const (
	ready   phase = iota // in the queue
	active               // at a worker
	waiting              // for its time
)

// wake has a step of the task made soon. A step that has failed waits out its
// pace whatever wakes it, so that a resource that is often changed does not
// keep a broken driver busy. The caller holds the mutex.
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

// wait has a job wait until it is due. The caller holds the mutex.
func (r *Reconciler) wait(j *job, due time.Time) {
	j.phase, j.due = waiting, due
	j.timer = r.Clock.At(due, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		// A timer that was stopped too late, or never because the loops have
		// ended, finds its job elsewhere.
		if j.phase == waiting && j.due.Equal(due) && r.state == started {
			r.enqueue(j)
		}
	})
}

// The pace at which a step that fails is repeated: each time twice as long
// after, between these bounds.
const (
	firstPace = time.Second
	lastPace  = 2 * time.Minute
)

// pace is how long to wait after the given number of failures in a row. Up to
// half of it is taken off so that what failed together does not come back
// together. How much follows from what it is, given by names, and not from
// random: a region with a given seed repeats itself.
func pace(failures int, names ...string) time.Duration {
	longest := lastPace
	if doublings := failures - 1; doublings < 7 {
		longest = min(firstPace<<doublings, lastPace)
	}
	h := fnv.New32a()
	h.Write([]byte(strings.Join(append(names, strconv.Itoa(failures)), "\x00")))
	off := float64(h.Sum32()) / (1 << 32) * float64(longest/2)
	return longest - time.Duration(off)
}
