package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

// handover is how long the work of a node that is no more may wait for another
// node: up to 8 seconds for its leases, and what a step takes.
const handover = 10 * time.Second

// The node that runs an account's loops dies, or stands still, and another one
// runs them within the time that is promised. What tells is a Subnet that becomes
// available.
//
// It is about time, so it does not run beside other tests.
func TestHandover(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "paused": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			c.awaitFairShares()
			worker := c.worker()
			caller := c.nodes[(worker+1)%3].asRoot()

			begun := time.Now()
			if err := c.nodes[worker].cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			subnet := c.divide(caller)
			c.awaitAvailable(caller, subnet, begun.Add(handover))
			t.Logf("another node took over after %v", time.Since(begun).Round(time.Millisecond))

			if signal == syscall.SIGSTOP {
				// It wakes up, and answers what has happened meanwhile.
				if err := c.nodes[worker].cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				c.awaitAvailable(c.nodes[worker].asRoot(), subnet, time.Now())
				c.awaitFairShares()
			}
			for i, n := range c.nodes {
				if i == worker && signal == syscall.SIGKILL {
					_ = n.cmd.Wait()
				} else {
					n.stop(t)
				}
			}
		})
	}
}

// cluster is nodes that share a database.
type cluster struct {
	*testing.T
	nodes   []*process
	conn    *pgx.Conn // to see what leases say, and to wait
	net     string
	subnets int
}

func newCluster(t *testing.T, nodes int) *cluster {
	database := postgrestest.Start(t)
	c := &cluster{T: t}
	data := filepath.Join(t.TempDir(), "data")
	for range nodes {
		c.nodes = append(c.nodes, start(t, data, "--store", database))
	}
	var err error
	if c.conn, err = pgx.Connect(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close(t.Context()) })
	c.net = c.nodes[0].asRoot().call(t, "CreateNet", params{"IpRange": "10.0.0.0/16"}).text("Net", "NetId")
	return c
}

// pause lets the others do something.
func (c *cluster) pause() {
	c.Helper()
	if _, err := c.conn.Exec(c.Context(), "SELECT pg_sleep(0.05)"); err != nil {
		c.Fatal(err)
	}
}

// awaitFairShares returns once all loops are run, and each node runs its part of
// them.
func (c *cluster) awaitFairShares() {
	c.Helper()
	for deadline := time.Now().Add(time.Minute); ; c.pause() {
		var holders, shares, most int
		err := c.conn.QueryRow(c.Context(), `SELECT count(*), coalesce(sum(n), 0), coalesce(max(n), 0) FROM
			(SELECT count(*) AS n FROM lease WHERE name LIKE 'loops %' AND until > clock_timestamp() GROUP BY holder) AS held`).Scan(&holders,
			&shares, &most)
		if err != nil {
			c.Fatal(err)
		}
		if holders == len(c.nodes) && shares == 16 && most == (16+holders-1)/holders {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%d nodes run %d shares of the loops, the busiest %d, want %d nodes and a fair part for each", holders, shares, most,
				len(c.nodes))
		}
	}
}

// divide makes a Subnet, which is pending.
func (c *cluster) divide(caller *caller) (subnet string) {
	c.Helper()
	c.subnets++
	made := caller.call(c, "CreateSubnet", params{"NetId": c.net, "IpRange": "10.0." + strconv.Itoa(c.subnets) + ".0/24"})
	return made.text("Subnet", "SubnetId")
}

// awaitAvailable looks until the Subnet is available, at least once.
func (c *cluster) awaitAvailable(caller *caller, subnet string, deadline time.Time) {
	c.Helper()
	for ; ; c.pause() {
		found := caller.call(c, "ReadSubnets", params{"Filters": params{"SubnetIds": []string{subnet}}})
		if found.text("Subnets", 0, "State") == "available" {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("nobody has made the Subnet available in time: %v", found)
		}
	}
}

// worker is the node that runs the loops of the root account: the only one that
// has done anything for a Subnet.
func (c *cluster) worker() (node int) {
	c.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		before := make([]int, len(c.nodes))
		for i, n := range c.nodes {
			before[i] = c.steps(n)
		}
		caller := c.nodes[0].asRoot()
		c.awaitAvailable(caller, c.divide(caller), time.Now().Add(time.Minute))
		var workers []int
		for i, n := range c.nodes {
			if c.steps(n) > before[i] {
				workers = append(workers, i)
			}
		}
		if len(workers) == 1 {
			return workers[0]
		}
		if time.Now().After(deadline) { // they may have changed places meanwhile, but not for ever
			c.Fatalf("the nodes %v work for one Subnet", workers)
		}
	}
}

// steps is how many steps a node has made that had to wait for the driver: those
// of Nets that are another node's to run are done at once.
func (c *cluster) steps(n *process) int {
	c.Helper()
	response, err := http.Get(n.admin + "/metrics")
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatal(err)
	}
	_, number, _ := strings.Cut(string(text), `bastide_loop_steps_total{loop="Net",outcome="waiting"} `)
	number, _, _ = strings.Cut(number, "\n")
	steps, _ := strconv.Atoi(number) // there is no such line before the first
	return steps
}
