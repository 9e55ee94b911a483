package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var crashSeed = flag.Uint64("crash.seed", 0, "seed of the crash test; 0 chooses one")

// crashes is how often the crash test kills the region.
func crashes(t *testing.T) int {
	text := os.Getenv("BASTIDE_CRASHES")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("BASTIDE_CRASHES: %v", err)
	}
	return n
}

// writers is how many write at once.
const writers = 64

// TestCrash kills a region with SIGKILL at random moments while many write, and
// checks after each restart that every answered write is there and that no
// transaction is half there.
func TestCrash(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat: -crash.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data := filepath.Join(t.TempDir(), "data")
	// The clients below call as fast as they can.
	flags := []string{"--throttle", "off"}
	p := start(t, data, flags...)
	answered := 0
	for round := range crashes(t) {
		work := newWorkload(p, round)
		work.run(t, 20+random.IntN(100), p)
		p = start(t, data, flags...)
		work.check(t, p)
		answered += int(work.answered.Load())
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d answered writes survived", answered)
	p.stop(t)
}

// workload is what the writers did in a round. Each has a pair of Nets of its
// own, which it tags together, and users whose keys it makes and deletes.
type workload struct {
	caller   *caller
	round    int
	answered atomic.Int64
	writers  [writers]*writer
}

// writer remembers what the region answered to one of the writers, and what it
// was doing when the region died.
type writer struct {
	nets    []string // answered
	pair    []string // the Nets that are tagged together
	tagged  int      // the last tag that was answered
	tagging int      // the last tag that was asked for
	deleted []string // Nets whose deletion was answered
	keys    [][2]string
	user    string
}

func newWorkload(p *process, round int) *workload {
	w := &workload{caller: p.asRoot(), round: round}
	for i := range w.writers {
		w.writers[i] = &writer{user: fmt.Sprintf("crash-%d-%d", round, i)}
	}
	return w
}

// run lets all write and kills the region after so many answers.
func (w *workload) run(t *testing.T, answers int, p *process) {
	enough := make(chan struct{})
	var once sync.Once
	var all sync.WaitGroup
	for _, one := range w.writers {
		all.Go(func() {
			for step := 0; one.step(w.caller, step) == nil; step++ {
				if w.answered.Add(1) >= int64(answers) {
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(time.Minute):
		t.Errorf("round %d: the region does not answer:\n%s", w.round, p.output())
	}
	p.kill(t)
	all.Wait()
}

// step makes one write, and remembers it if it was answered.
func (w *writer) step(c *caller, step int) error {
	write := func(action string, params any) (answer, error) {
		a, err := c.try(action, params)
		if err == nil && a.status != 200 {
			err = fmt.Errorf("%s: %v", action, a)
		}
		return a, err
	}
	switch {
	case len(w.pair) < 2:
		a, err := write("CreateNet", params{"IpRange": "10.0.0.0/16"})
		if err == nil {
			w.pair = append(w.pair, a.text("Net", "NetId"))
			w.nets = append(w.nets, a.text("Net", "NetId"))
		}
		return err
	case step%4 == 0:
		w.tagging = step
		_, err := write("CreateTags", params{"ResourceIds": w.pair, "Tags": []params{{"Key": "step", "Value": strconv.Itoa(step)}}})
		if err == nil {
			w.tagged = step
		}
		return err
	case step%4 == 1:
		a, err := write("CreateNet", params{"IpRange": "10.1.0.0/16"})
		if err != nil {
			return err
		}
		id := a.text("Net", "NetId")
		if _, err = write("DeleteNet", params{"NetId": id}); err == nil {
			w.deleted = append(w.deleted, id)
		}
		return err
	case step == 3:
		_, err := write("CreateUser", params{"UserName": w.user})
		return err
	case step > 3 && len(w.keys) < 3:
		a, err := write("CreateAccessKey", params{"UserName": w.user})
		if err == nil {
			w.keys = append(w.keys, [2]string{a.text("AccessKey", "AccessKeyId"), a.text("AccessKey", "SecretKey")})
		}
		return err
	}
	a, err := write("CreateNet", params{"IpRange": "10.2.0.0/16"})
	if err == nil {
		w.nets = append(w.nets, a.text("Net", "NetId"))
	}
	return err
}

// check holds a restarted region against what the writers remember, then
// deletes the Nets, so that rounds do not run into quotas.
func (w *workload) check(t *testing.T, p *process) {
	t.Helper()
	c := p.asRoot()
	tags := map[string]string{} // of all Nets
	token := ""
	for {
		// Those that were deleted are listed for a while still.
		request := params{"ResultsPerPage": 1000, "Filters": params{"States": []string{"available"}}}
		if token != "" {
			request["NextPageToken"] = token
		}
		page := c.call(t, "ReadNets", request)
		nets, _ := page.get("Nets").([]any)
		for i := range nets {
			tags[page.text("Nets", i, "NetId")] = page.text("Nets", i, "Tags", 0, "Value")
		}
		if token = page.text("NextPageToken"); token == "" {
			break
		}
	}
	for i, one := range w.writers {
		for _, id := range one.nets {
			if _, ok := tags[id]; !ok {
				t.Errorf("round %d, writer %d: the Net %s was answered and is gone", w.round, i, id)
			}
		}
		for _, id := range one.deleted {
			if _, ok := tags[id]; ok {
				t.Errorf("round %d, writer %d: the Net %s was deleted and is back", w.round, i, id)
			}
		}
		if len(one.pair) == 2 {
			a, b := tags[one.pair[0]], tags[one.pair[1]]
			if a != b {
				t.Errorf("round %d, writer %d: of a pair tagged together, one has %q and one %q", w.round, i, a, b)
			}
			if got, _ := strconv.Atoi(a); got < one.tagged || got > one.tagging {
				t.Errorf("round %d, writer %d: the tag is %d, answered was %d and asked for %d", w.round, i, got, one.tagged, one.tagging)
			}
		}
		// A key that is in its account but not in the directory, or the other
		// way round, is unknown; one that is whole signs, and is told that its
		// user may do nothing.
		for _, key := range one.keys {
			a, err := p.client(key[0], key[1]).try("ReadNets", params{})
			if err != nil || a.text("Errors", 0, "Code") != "4" {
				t.Errorf("round %d, writer %d: the key %s does not sign: %v, %v", w.round, i, key[0], a, err)
			}
		}
	}
	for id := range tags {
		c.call(t, "DeleteNet", params{"NetId": id})
	}
}
