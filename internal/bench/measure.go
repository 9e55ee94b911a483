package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is a run: its parameters, and its results so far.
type bench struct {
	rounds   int
	each     time.Duration // duration of one measurement in a round
	accounts int           // number of accounts of the large region
	dir      string
	profiles string // directory; empty: none

	begun   time.Time
	busy    string // the machine's load average before the run
	echo    *process
	samples map[string][]sample // by name, one per round
	grown   grown
	shared  *shared // nil: PostgreSQL was not measured
	without string  // the reason
}

// sample is the result of one measurement in a round.
type sample struct {
	calls int
	rate  float64       // calls per second
	cpu   time.Duration // CPU time of the servers for all calls
	took  time.Duration
	spent spent // while the calls were made
}

// groups are the parts of a run that -only selects.
var groups = []string{"serving", "creating", "dividing", "machines", "nodes", "growing"}

// clients is the number of concurrent connections, except where a row says 1.
const clients = 64

// measure measures all groups, or the one of the given name.
func (b *bench) measure(ctx context.Context, only string) (err error) {
	if only != "" && !slices.Contains(groups, only) {
		return fmt.Errorf("there is no group %q: try %s", only, strings.Join(groups, ", "))
	}
	wanted := func(group string) bool { return only == "" || only == group }
	b.begun, b.busy, b.samples = time.Now(), loadAverage(), map[string][]sample{}
	if b.echo, err = start("echo"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.echo.stop()) }()

	measurements := []func() error{func() error { return b.call("echo", clients, target{b.echo, b.echo.Public, reads(b.echo.Public)}) }}
	if wanted("serving") {
		p, err := start(append([]string{"region", "-data", filepath.Join(b.dir, "serving")}, contents{accounts: 1, nets: listed}.args()...)...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.stop()) }()
		measurements = append(measurements,
			func() error { return b.call("read", clients, target{p, p.Public, reads(p.Public)}) },
			func() error {
				return b.call("read-unrecorded", clients, target{p, p.Unrecorded, reads(p.Unrecorded)})
			},
			func() error { return b.page(p) },
		)
	}
	if wanted("creating") {
		measurements = append(measurements, b.create, b.sync)
	}
	if wanted("dividing") {
		measurements = append(measurements, b.divide)
	}
	if wanted("machines") {
		p, err := start(append([]string{"region", "-data", filepath.Join(b.dir, "machines")},
			contents{accounts: machineAccounts, nets: 1, vms: machinesEach}.args()...)...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.stop()) }()
		measurements = append(measurements, func() error { return b.machines(p) })
	}
	if wanted("nodes") {
		end, err := b.share(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		if b.shared != nil {
			measurements = append(measurements, func() error { return b.compareNodes(ctx) })
		}
	}
	for round := range b.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, b.rounds)
		for _, measurement := range measurements {
			if err := errors.Join(measurement(), ctx.Err()); err != nil {
				return err
			}
		}
	}
	if wanted("growing") {
		return b.grow(ctx)
	}
	return nil
}

// call makes clients call servers for a while.
func (b *bench) call(name string, clients int, targets ...target) error {
	return b.callUntil(name, clients, func() error { return nil }, targets...)
}

// callUntil is call, followed by idle, which waits for the work that calls
// leave behind, such as rows of the log and work of loops. That work is part of
// their cost.
func (b *bench) callUntil(name string, clients int, settled func() error, targets ...target) error {
	profiled := b.profile(name, targets)
	before, err := b.spent(targets)
	if err != nil {
		return err
	}
	calls, took, err := load(clients, b.each, targets...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	called, err := b.spent(targets)
	if err != nil {
		return err
	}
	time.Sleep(400 * time.Millisecond)
	if err := settled(); err != nil {
		return err
	}
	after, err := b.spent(targets)
	if err != nil {
		return err
	}
	b.add(name, sample{calls, float64(calls) / took.Seconds(), after.servers - before.servers, took, called.since(before)})
	return profiled()
}

// profile starts CPU profiles of servers if they are requested, and returns a
// function that waits for them.
func (b *bench) profile(name string, targets []target) (done func() error) {
	if b.profiles == "" {
		return func() error { return nil }
	}
	profiled := make(chan error, len(targets))
	for i, t := range targets {
		go func() { profiled <- t.profile(b.profiles, fmt.Sprintf("%s-%d", name, i+1), b.each) }()
	}
	return func() (err error) {
		for range targets {
			err = errors.Join(err, <-profiled)
		}
		return err
	}
}

func (b *bench) add(name string, s sample) { b.samples[name] = append(b.samples[name], s) }

// read returns a call of ReadNets for one Net.
func read(addr string, account, net int) []byte {
	return request(addr, account, "ReadNets", fmt.Sprintf(`{"Filters":{"NetIds":["%s"]}}`, netID(net)), time.Now())
}

// create returns a call of CreateNet.
func create(addr string, account int) []byte {
	return request(addr, account, "CreateNet", `{"IpRange":"10.0.0.0/16"}`, time.Now())
}

// reads returns a read of the root account per client.
func reads(addr string) (requests [][]byte) {
	for net := range clients {
		requests = append(requests, read(addr, 0, net))
	}
	return requests
}

// The number of Nets that are listed page by page, and the size of a page.
const listed, pageSize = 10_000, 100

// page reads all pages of a list.
func (b *bench) page(p *process) error {
	pages, err := walk(p.Public)
	if err != nil {
		return err
	}
	return b.clock("page", "ReadNets", target{p, p.Public, pages})
}

// clock makes one client call for a while.
func (b *bench) clock(name, action string, t target) error {
	return b.timed(name, action, t, func() error {
		_, _, err := load(1, b.each/2, t)
		return err
	})
}

// timed measures the calls of an action by the region's clock, and their CPU
// time.
func (b *bench) timed(name, action string, t target, call func() error) error {
	profiled := b.profile(name, []target{t})
	before, err := t.usage()
	if err != nil {
		return err
	}
	calls, seconds, err := t.answered(action)
	if err != nil {
		return err
	}
	if err := call(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	callsThen, secondsThen, err := t.answered(action)
	if err != nil {
		return err
	}
	after, err := t.usage()
	calls, seconds = callsThen-calls, secondsThen-seconds
	b.add(name, sample{calls: int(calls), rate: calls / seconds, cpu: after.CPU - before.CPU})
	return errors.Join(err, profiled())
}

// walk returns the calls that read a list, each with the token returned by the
// one before.
func walk(addr string) (pages [][]byte, err error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	var answer struct {
		Nets          []struct{}
		NextPageToken string
	}
	for len(pages) == 0 || answer.NextPageToken != "" {
		page := request(addr, 0, "ReadNets", fmt.Sprintf(`{"ResultsPerPage":%d,"NextPageToken":%q}`, pageSize, answer.NextPageToken), time.Now())
		text, err := c.call(page)
		if err != nil {
			return nil, fmt.Errorf("reading all pages: %w", err)
		}
		answer.NextPageToken = ""
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, err
		}
		pages = append(pages, page)
	}
	if len(pages) != listed/pageSize {
		return nil, fmt.Errorf("%d Nets are on %d pages", listed, len(pages))
	}
	return pages, nil
}

// create creates Nets in a new region, by one client and then by many.
func (b *bench) create() (err error) {
	data, err := os.MkdirTemp(b.dir, "creating-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	p, err := start("region", "-data", data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	t := target{p, p.Public, [][]byte{create(p.Public, 0)}}
	return errors.Join(
		b.call("create-by-1", 1, t),
		b.call("create", clients, t),
	)
}

// sync appends as much to a file as a create appends to a journal, some pages,
// and waits for the disk each time: with O_DSYNC a write returns when fdatasync
// after it would.
func (b *bench) sync() error {
	path := filepath.Join(b.dir, "sync")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_DSYNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer f.Close()
	record := make([]byte, synced)
	begun, n := time.Now(), 0
	for ; time.Since(begun) < b.each; n++ {
		if _, err := f.Write(record); err != nil {
			return err
		}
	}
	b.add("sync", sample{rate: float64(n) / time.Since(begun).Seconds()})
	return nil
}

// synced is the size of a synchronous write in bytes.
const synced = 3 * 4096
