package main

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// nodesReport returns how the measurements on PostgreSQL were made, and from
// how many nodes on more do not help and why, as far as the numbers show.
func (b *bench) nodesReport() string {
	if b.shared == nil {
		return "\n## Many nodes\n\nThey were not measured: " + cmp.Or(b.without, "they were not requested") + ".\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, nodesHeading, b.shared.version, b.shared.settings)
	if b.has("insert") {
		fmt.Fprintf(&out, insertsHeading, b.cores("insert"))
	} else {
		out.WriteString("- **pgbench** was not found, so creates are compared with nothing. It comes with PostgreSQL's server: on " +
			"Debian, `apt-get install postgresql`.\n")
	}
	fmt.Fprintf(&out, "- **Reads**, %s\n- **Creates**, %s%s\n", b.saturation(readThrough), b.saturation(createThrough), b.databaseBound())
	return out.String()
}

const nodesHeading = `
## Many nodes

- **The nodes** are processes that share the cores with the database and the clients. It is PostgreSQL %s, with %s. They run without
  throttling and quotas, too, because the quota of five Nets per account would soon be reached. Each client calls one node for all
  accounts, so an account is written to by one node and then by another, as behind a proxy that spreads calls evenly.
`

const insertsHeading = `- **pgbench** comes with PostgreSQL. It inserts a row as long as the row of a Net and commits, by prepared
  statements: one row in one table, where a create has two transactions, with a row in each, one more index, a version, and a row of the
  API log. %s
`

// databaseBound returns the limit set by the database alone.
func (b *bench) databaseBound() string {
	each := func(name string) (micros float64) {
		used, calls := 0.0, 0
		for _, s := range b.samples[name] {
			used, calls = used+s.spent.database.Seconds()*1e6, calls+s.calls
		}
		return used / float64(max(calls, 1))
	}
	insert, create := each("insert"), each(createThrough(1))
	if insert == 0 || create == 0 {
		return ""
	}
	return fmt.Sprintf("\n  Of the database's CPU a create through 1 node takes %.0f µs, and an insert of `pgbench` %.0f µs: "+
		"if the nodes had their own cores, "+
		"the database's cores\n  would limit creates to about %.2f of `pgbench`'s rate.", create, insert, insert/create)
}

const (
	enough = 1.1 // times the rate of one node fewer: a smaller gain is none
	full   = 0.9 // of the cores: above it they are the limit
	many   = 0.2 // of the cores: if others use more, the result depends on them
)

// saturation returns how the rate grows with the nodes, and what limits it
// where it does not.
func (b *bench) saturation(through func(nodes int) string) string {
	rates := []string{fmt.Sprintf("%.0f/s", median(b.rates(through(1))))}
	at, grows := 1, true // the nodes beyond which more do not help
	for n := 2; n <= mostNodes; n++ {
		rates = append(rates, fmt.Sprintf("%.0f/s", median(b.rates(through(n)))))
		if grows = grows && median(b.ratios(through(n), through(n-1))) >= enough; grows {
			at = n
		}
	}
	text := fmt.Sprintf("through 1 node and more: %s. ", strings.Join(rates, ", "))
	if at == mostNodes {
		return text + "That still grows with each node. " + b.cores(through(at))
	}
	text += fmt.Sprintf("On this machine that saturates at %d of the nodes. %s\n  ", at, b.cores(through(at)))
	busy, others, _ := b.use(through(at))
	switch {
	case busy == 0:
		return text + "The limit is not known."
	case busy >= full && others >= many:
		return text + "So the cores are the limit, and others used much of them: measure again on a quiet machine."
	case busy >= full:
		return text + "So the cores are the limit: what another node needs it takes from the others."
	}
	return text + "So the cores are not the limit: calls wait for the database's disk, for its answers, and for each other's accounts."
}

// cores returns how much of the cores each process used during a measurement.
func (b *bench) cores(name string) string {
	busy, _, by := b.use(name)
	if busy == 0 {
		return "The system does not provide how busy the cores were."
	}
	return fmt.Sprintf("There the %d cores were %.0f %% busy: %s.", runtime.NumCPU(), 100*busy, strings.Join(by, ", "))
}

// use returns the part of the cores that was busy, from 0 to 1, the part used
// by processes outside of the measurement, and the part of each process.
func (b *bench) use(name string) (busy, others float64, by []string) {
	var sum spent
	var took time.Duration
	for _, s := range b.samples[name] {
		sum.servers, sum.database, sum.clients, sum.machine = sum.servers+s.spent.servers, sum.database+s.spent.database,
			sum.clients+s.spent.clients, sum.machine+s.spent.machine
		took += s.took
	}
	part := func(d time.Duration) float64 { return d.Seconds() / took.Seconds() / float64(runtime.NumCPU()) }
	others = part(sum.machine - sum.servers - sum.database - sum.clients)
	for _, u := range []struct {
		who   string
		share float64
	}{
		{"nodes", part(sum.servers)},
		{"database", part(sum.database)},
		{"clients", part(sum.clients)},
		{"others", others},
	} {
		if u.share >= 0.005 {
			by = append(by, fmt.Sprintf("%s %.0f %%", u.who, 100*u.share))
		}
	}
	return min(part(sum.machine), 1), others, by
}
