package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report returns the document: how it was made, a table, and how to read it.
func (b *bench) report() string {
	var out strings.Builder
	fmt.Fprintf(&out, heading, strings.Join(os.Args[1:], " "), b.begun.Format(time.DateOnly), runtime.NumCPU(), processor(),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, b.busy, b.rounds, b.each)
	for _, r := range b.rows() {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", r.what, r.result, r.cpu, r.ratio, r.verdict())
	}
	fmt.Fprintf(&out, explanation, b.rounds, b.grown.document)
	out.WriteString(b.nodesReport())
	return out.String()
}

const heading = `# What a region costs

Measured by

    go run ./internal/bench %s

on %s, on %d cores (%s), with %s for %s/%s; the load average before it began was %s. %d rounds of %s per measurement. The goals were
set before the program was written.

| measured | result | server's CPU per call | ratio | goal |
|---|---:|---:|---:|---|
`

const explanation = `
## How to read it

- **Ratios, not rates.** The number of calls per second says more about the machine than about the program. So every rate is compared with
  another one that the same machine had seconds before or after, in the same one of %d rounds. The ratio is the median of the rounds, with
  the lowest and the highest in brackets. Where these are far apart, something else was running; CPU time is the better measure then.
- **CPU per call** is the CPU time of the server's process over all rounds, including the work that calls leave behind: rows of the log,
  work of loops, and garbage.
- **The echo** is net/http with the settings of the region's listener. It gets the same bytes, including the
  signature, and returns the body.
- **The client** is a separate process on the same cores, and its cost is in all rates alike. It sends bytes that were signed before, and
  of a response only reads the length.
- **The region** is what ` + "`bastide serve`" + ` runs, on SQLite and with its API log, but without throttling and quotas.

## What is in it

- **A signed read** is an echo, a signature, a strict decoding, a lookup in memory, a response, and a row of the API log. Most of the
  row's cost is not on the path of the call: SQLite writes the rows of a tenth of a second together, but on the same cores.
- **A create** of a Net creates its main route table and its default security group, too. It returns once the disk has them; creates that
  come at the same time share the wait. Then a loop passes the Net to the driver and records that it is applied: a second transaction per
  Net, which counts in the CPU per call, and in the rate where the disk or the cores are the limit. The wait for the disk is measured on a
  growing file, like the journal's log.
- **VMs** are read in an account where each has a NIC, a volume and three tags, and returned with all of them. Tags and states have no
  index: the call visits all VMs of the account. VMs are created in the public Cloud, from an image, by one call at a time: each VM with
  its volume, its NIC, and a private and a public address. The CPU per call is counted until all VMs of the call run: loops let the driver
  create a volume and a machine for each, and record it.
- **A restart** reads no account before its first call. The files are in the operating system's cache at that time, as after an upgrade,
  but not after a power failure. The resources are Nets and Subnets with tags, %d bytes each in the journal, about as large as a VM.
- **Other accounts** are not visited by a call, but they enlarge the heap: garbage collections pass over all of it, and less of it is in the
  processor's caches. With a large heap the program limits garbage to a small part of it; where calls matter more,
  ` + "`GOGC=100`" + ` in its environment makes collections three times less frequent.
`

// row is a line of the table.
type row struct {
	what   string
	result string
	cpu    string
	ratio  string
	goal   string
	met    bool
}

// verdict compares the result with the goal, if there is one.
func (r row) verdict() string {
	switch {
	case r.goal == "":
		return ""
	case r.met:
		return r.goal + ": met"
	}
	return r.goal + ": **missed**"
}

// rows returns the rows of the table.
func (b *bench) rows() []row {
	rows := []row{b.rate("bare `net/http` echo, 64 clients", "echo")}
	if b.has("read") {
		rows = append(rows, b.servingRows()...)
	}
	if b.has("create") {
		rows = append(rows, b.creatingRows()...)
	}
	if b.has("divide") {
		rows = append(rows, b.dividingRows()...)
	}
	if b.has("launch-1") {
		rows = append(rows, b.machinesRows()...)
	}
	if b.shared != nil {
		rows = append(rows, b.nodesRows()...)
	}
	if b.has("read-all") {
		rows = append(rows, b.growingRows()...)
	}
	return rows
}

func (b *bench) has(name string) bool { return len(b.samples[name]) > 0 }

func (b *bench) servingRows() []row {
	logged := b.cpu("read") - b.cpu("read-unrecorded")
	return []row{
		b.ratio("signed `ReadNets` by id, 64 clients, to the echo", "read", "echo", 0.60),
		b.ratio("the same without the API log, to the echo", "read-unrecorded", "echo", 0),
		{what: "what the API log adds to a call", cpu: micros(logged), goal: "about 2 µs", met: logged < 3},
		b.clocked(fmt.Sprintf("a page of %d of %d Nets, by the region's clock", pageSize, listed), "page", 1),
	}
}

func (b *bench) creatingRows() []row {
	return []row{
		b.ratio("`CreateNet`, durable, 64 clients, to the echo", "create", "echo", 0.40),
		b.rate(fmt.Sprintf("appending %d KiB and waiting for the disk", synced>>10), "sync"),
		b.ratio("`CreateNet`, durable, 1 client, to the disk", "create-by-1", "sync", 0),
	}
}

func (b *bench) dividingRows() []row {
	first, last := b.cpu("divide-first"), b.cpu("divide-last")
	growth := last / first
	return []row{
		b.rate(fmt.Sprintf("`CreateSubnet`, the first 2 in each of %d Nets of an account, until the driver has them", dividedNets),
			"divide-first"),
		{
			what:   fmt.Sprintf("the same, the last 2 of %d, to the first", dividedNets*dividedInto),
			result: fmt.Sprintf("%.0f/s", median(b.rates("divide-last"))), cpu: micros(last),
			ratio: fmt.Sprintf("**%.2f** of the CPU", growth), goal: "at most 1.50", met: growth <= 1.5,
		},
	}
}

func (b *bench) machinesRows() []row {
	return []row{
		b.ratio(fmt.Sprintf("signed `ReadVms` by id, among %d VMs, with %d of other accounts loaded, 64 clients, to the echo",
			machinesEach, machinesEach*(machineAccounts-1)), "vms-by-id", "echo", 0.55),
		b.clocked(fmt.Sprintf("the same by a tag that %d of them have, 1 client, by the region's clock", clusterSize), "vms-by-tag", 2),
		b.clocked(fmt.Sprintf("the same by a state that %d of them are in, 1 client, by the region's clock", machinesEach/stoppedOneIn),
			"vms-by-state", 0),
		b.clocked("`CreateVms` of 1 VM beside as many, durable, by the region's clock", "launch-1", 0),
		b.clocked("`CreateVms` of 100 VMs, the same", "launch-100", 20),
	}
}

func (b *bench) nodesRows() (rows []row) {
	const reads = "PostgreSQL: signed, strictly fresh `ReadNets` by id, %d clients over %d accounts, 1 node, to the echo"
	rows = append(rows, b.ratio(fmt.Sprintf(reads, clients, sharedAccounts), readThrough(1), "echo", 0.40))
	for n := 2; n <= mostNodes; n++ {
		rows = append(rows, b.ratio(fmt.Sprintf("the same, %d nodes, to the echo", n), readThrough(n), "echo", 0))
	}
	if b.has("insert") {
		rows = append(rows, b.rate(fmt.Sprintf("`pgbench` inserting rows of %d bytes, %d clients", b.shared.row, clients), "insert"))
	}
	creates := func(what, name string, goal float64) row {
		if !b.has("insert") {
			return b.rate(what, name)
		}
		return b.ratio(what+", to `pgbench`", name, "insert", goal)
	}
	rows = append(rows, creates(fmt.Sprintf("PostgreSQL: `CreateNet`, durable, %d clients over %d accounts, 1 node", clients,
		sharedAccounts), createThrough(1), 0.50))
	for n := 2; n <= mostNodes; n++ {
		rows = append(rows, creates(fmt.Sprintf("the same, %d nodes", n), createThrough(n), 0))
	}
	return rows
}

func (b *bench) growingRows() []row {
	g, restart := b.grown, median(b.grown.restarts)
	return []row{
		{
			what:   fmt.Sprintf("restart with %d resources in %d accounts, to the first signed answer", g.resources, b.accounts),
			result: fmt.Sprintf("%.0f ms", restart.Seconds()*1000), goal: "below 1 s", met: restart < time.Second,
		},
		{what: "first call of one of these accounts, which loads it", result: fmt.Sprintf("%.1f ms", g.load.Seconds()*1000)},
		{
			what:   "most memory it held, with all of them loaded and calls going on",
			result: fmt.Sprintf("%.2f GB", float64(g.peak)/1e9), goal: "below 2.5 GB", met: g.peak < 2_500_000_000,
		},
		b.ratio("signed `ReadNets` by id, 1 other account loaded, to the echo", "read-one", "echo-one", 0),
		b.ratio(fmt.Sprintf("the same, %d other accounts loaded, to the echo", b.accounts-1), "read-all", "echo-all", 0),
		{what: "what these accounts add to a call of another", cpu: micros(b.cpu("read-all") - b.cpu("read-one"))},
	}
}

// rate returns the row of a rate.
func (b *bench) rate(what, name string) row {
	r := row{what: what, result: fmt.Sprintf("%.0f/s", median(b.rates(name)))}
	if used := b.cpu(name); used > 0 {
		r.cpu = micros(used)
	}
	return r
}

// clocked returns the row of the duration of a call. The goal is in
// milliseconds; 0 means no goal.
func (b *bench) clocked(what, name string, goal float64) row {
	took := 1000 / median(b.rates(name))
	r := row{what: what, result: fmt.Sprintf("%.2f ms", took), cpu: micros(b.cpu(name))}
	if goal > 0 {
		r.goal, r.met = fmt.Sprintf("below %g ms", goal), took < goal
	}
	return r
}

// ratio returns the row of a rate with its ratio to another. A goal of 0 means
// no goal.
func (b *bench) ratio(what, name, to string, goal float64) row {
	r, ratios := b.rate(what, name), b.ratios(name, to)
	r.ratio = fmt.Sprintf("**%.2f** (%.2f to %.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
	if goal > 0 {
		r.goal, r.met = fmt.Sprintf("%.2f", goal), median(ratios) >= goal
	}
	return r
}

// ratios returns the ratio of two rates in each round.
func (b *bench) ratios(name, to string) []float64 {
	ratios := b.rates(name)
	for i, s := range b.samples[to] {
		ratios[i] /= s.rate
	}
	return ratios
}

// rates returns the rate of each round.
func (b *bench) rates(name string) (rates []float64) {
	for _, s := range b.samples[name] {
		rates = append(rates, s.rate)
	}
	return rates
}

// cpu returns the CPU time of the server per call, in microseconds, over all
// rounds together, because a garbage collection falls into one of many.
func (b *bench) cpu(name string) float64 {
	calls, used := 0, time.Duration(0)
	for _, s := range b.samples[name] {
		calls, used = calls+s.calls, used+s.cpu
	}
	return float64(used.Microseconds()) / float64(max(calls, 1))
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func micros(n float64) string { return fmt.Sprintf("%.0f µs", n) }

// processor returns the name of the processor, if the system provides it.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(text), "model name")
	_, rest, _ = strings.Cut(rest, ": ")
	name, _, _ := strings.Cut(rest, "\n")
	return cmp.Or(name, "of an unknown kind")
}

// loadAverage returns the load average of the last minute, if the system
// provides it.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	return cmp.Or(load, "unknown")
}
