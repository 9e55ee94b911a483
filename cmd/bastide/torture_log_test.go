package main

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Records wait up to 100 ms to be written. How long a write takes then, on a
// machine that is shared with the nemesis, is no longer than what the slowest of
// recent calls took, or a second.
const (
	logWait    = 100 * time.Millisecond
	shortWrite = time.Second
	recent     = 5 * time.Second
)

// call is a call that was answered.
type call struct {
	node           *node
	action         string
	called, ending time.Time
}

// life is what the nemesis has done to a node.
type life struct {
	kills  [][2]time.Time // from when it was about to be, until it was gone
	pauses [][2]time.Time
}

// running is how long a node ran from one time to another, pauses apart.
func (l *life) running(from, to time.Time) time.Duration {
	ran := to.Sub(from)
	for _, p := range l.pauses {
		begun, ended := p[0], p[1]
		if begun.Before(from) {
			begun = from
		}
		if ended.After(to) {
			ended = to
		}
		if ended.After(begun) {
			ran -= ended.Sub(begun)
		}
	}
	return ran
}

// killed is when a node was killed after a call. It is not ok if it was not.
func (l *life) killed(c call) (at time.Time, ok bool) {
	for _, kill := range l.kills {
		if kill[1].After(c.called) { // a client may look at its answer late
			return kill[0], true
		}
	}
	return at, false
}

// remember keeps a call for the check of the API log.
func (r *round) remember(id string, c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered[id] = c
}

// checkLog looks for the record of each answered call: it is there once, or the
// node was killed right after it. Of calls that were not answered there may be
// records, one each.
func (r *round) checkLog() {
	// The log knows milliseconds, and a call that changes nothing may take less: the
	// last one is before the next of them.
	ended := time.Now().Truncate(time.Millisecond).Add(time.Millisecond)
	for time.Now().Before(ended) {
	}
	records := r.records(ended)
	lost, excused := r.unrecorded(records)
	// A record is appended once the answer was sent.
	for deadline := ended.Add(10 * time.Second); len(lost) > 0 && time.Now().Before(deadline); {
		records = r.records(ended)
		lost, excused = r.unrecorded(records)
	}
	if len(lost) > 0 {
		r.t.Errorf("%d of %d answered calls have no record in the API log, and their nodes were not killed right after them: %q …",
			len(lost), len(r.answered), lost[:min(len(lost), 5)])
	}
	strange := 0
	for id, n := range records {
		if n > 1 {
			r.t.Errorf("the API log has the call %s %d times", id, n)
		}
		if _, ok := r.answered[id]; !ok {
			strange++
		}
	}
	if most := int(r.lost.Load()); strange > most {
		r.t.Errorf("the API log has %d calls of unknown origin, and only %d calls were not answered", strange, most)
	}
	r.t.Logf("round %d: of %d answered calls %d lost their records, the first %v before its node was killed",
		r.number, len(r.answered), len(excused), slices.Max(append(excused, 0)).Round(time.Millisecond))
}

// unrecorded are the answered calls without a record: those lost, and for those
// that a kill excuses how long before it they were answered.
func (r *round) unrecorded(records map[string]int) (lost []string, excused []time.Duration) {
	for id, c := range r.answered {
		if records[id] > 0 {
			continue
		}
		killed, ok := c.node.life.killed(c)
		after := c.node.life.running(c.ending, killed)
		if ok && (after <= logWait+shortWrite || after <= logWait+r.slowest(killed)) {
			excused = append(excused, after)
		} else {
			lost = append(lost, fmt.Sprintf("%s %s, %v before a kill (%t)", c.action, id, after, ok))
		}
	}
	return lost, excused
}

// slowest is the longest time that a call took that was answered shortly before.
func (r *round) slowest(before time.Time) (longest time.Duration) {
	for _, c := range r.answered {
		if since := before.Sub(c.ending); since >= 0 && since < recent {
			longest = max(longest, c.node.life.running(c.called, c.ending))
		}
	}
	return longest
}

// records counts the records of the calls since the round began, by request ID.
func (r *round) records(until time.Time) map[string]int {
	wire := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
	filters := params{"QueryDateAfter": wire(r.begun), "QueryDateBefore": wire(until)}
	for _, n := range r.victim.nodes {
		// Each shows what it has itself not written yet, and so writes it.
		n.process.asRoot().call(r.t, "ReadApiLogs", params{"Filters": filters, "ResultsPerPage": 1})
	}
	records := map[string]int{}
	c := r.guest(clients, r.victim.nodes[0])
	c.all("ReadApiLogs", "Logs", params{"Filters": filters}, func(a answer, i int) { records[a.text("Logs", i, "RequestId")]++ })
	return records
}

// The check itself: what excuses that a record is lost.
func TestLostRecords(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	l := life{kills: [][2]time.Time{{at(10_000), at(10_000)}, {at(20_000), at(20_000)}},
		pauses: [][2]time.Time{{at(7000), at(9000)}, {at(19_950), at(20_050)}}}
	for _, c := range []struct {
		name           string
		called, ending int
		after          time.Duration
		killed         bool
	}{
		{"just before a kill", 9900, 9950, 50 * time.Millisecond, true},
		{"before a pause", 6900, 6950, 1050 * time.Millisecond, true},
		{"during a pause", 6900, 8500, 1000 * time.Millisecond, true},
		{"after a pause", 9000, 9500, 500 * time.Millisecond, true},
		{"read after the kill", 9990, 10_100, -100 * time.Millisecond, true},
		{"of the next process", 10_100, 10_200, 9750 * time.Millisecond, true},
		{"when nobody was killed any more", 20_100, 20_200, 0, false},
	} {
		done := call{called: at(c.called), ending: at(c.ending)}
		killed, ok := l.killed(done)
		if after := l.running(done.ending, killed); ok != c.killed || ok && after != c.after {
			t.Errorf("%s: %v before a kill (%t), want %v (%t)", c.name, after, ok, c.after, c.killed)
		}
	}
}
