package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

// shared is a PostgreSQL server with regions of one node, of two, and so on.
// All of them run all the time, so that the loops of each are distributed
// before it is called; an idle region costs almost nothing.
type shared struct {
	conn       *pgx.Conn
	end        func() error // stops the server, if this program started it
	url        string
	version    string
	settings   string // the settings that determine when a commit is durable
	postmaster int    // its process ID; 0: it is not on this machine
	regions    []sharedRegion
	schemas    []string

	pgbench string // path of the program; empty: not found
	script  string // path of its script
	row     int    // size in bytes of a row of a Net, and of the rows that it inserts
}

// sharedRegion is a region with its own schema.
type sharedRegion struct {
	schema string
	nodes  []*process
}

const (
	mostNodes = 3
	// sharedAccounts is prime, so that each client and each node calls all
	// accounts, as behind a proxy that spreads calls evenly.
	sharedAccounts = 251
	// For the nodes of all regions, pgbench, and some more.
	neededConnections = 200
)

// share starts the regions on PostgreSQL. If there is no such server, it sets
// b.without.
func (b *bench) share(ctx context.Context) (end func() error, err error) {
	s := &shared{}
	s.url, s.end, err = postgrestest.Find()
	if errors.Is(err, postgrestest.ErrNoServer) {
		b.without = err.Error()
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	err = s.open(ctx, b.dir)
	if errors.Is(err, errFewConnections) {
		b.without = err.Error()
		return func() error { return nil }, s.close()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	b.shared = s
	return s.close, nil
}

var errFewConnections = errors.New("max_connections of the PostgreSQL server is too low for these measurements")

func (s *shared) open(ctx context.Context, dir string) (err error) {
	if s.conn, err = pgx.Connect(ctx, s.url); err != nil {
		return err
	}
	var backend, connections int
	err = s.conn.QueryRow(ctx, `SELECT pg_backend_pid(), current_setting('max_connections')::int, current_setting('server_version'),
		'fsync=' || current_setting('fsync') || ' synchronous_commit=' || current_setting('synchronous_commit')`).
		Scan(&backend, &connections, &s.version, &s.settings)
	if err != nil {
		return err
	}
	if connections < neededConnections {
		return fmt.Errorf("%w: it allows %d, and they need %d", errFewConnections, connections, neededConnections)
	}
	s.postmaster = postmaster(backend)
	for n := range mostNodes {
		fmt.Fprintf(os.Stderr, "starting a region of %d nodes\n", n+1)
		if err := s.addRegion(ctx, n+1, filepath.Join(dir, fmt.Sprintf("nodes-%d", n+1))); err != nil {
			return err
		}
	}
	return s.prepareInserts(ctx, dir)
}

// addRegion starts a region of some nodes and makes each node load all
// accounts.
func (s *shared) addRegion(ctx context.Context, nodes int, data string) error {
	url, schema, err := postgrestest.Schema(ctx, s.url)
	if err != nil {
		return err
	}
	s.schemas = append(s.schemas, schema)
	s.regions = append(s.regions, sharedRegion{schema: schema})
	r := &s.regions[len(s.regions)-1]
	for range nodes {
		p, err := start(append([]string{"region", "-data", data, "-postgres", url}, contents{accounts: sharedAccounts, nets: 1}.args()...)...)
		if err != nil {
			return err
		}
		r.nodes = append(r.nodes, p)
		for account := range sharedAccounts {
			if err := errors.Join(first(p, account), ctx.Err()); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepareInserts prepares the yardstick of creates: pgbench inserts a row as
// long as the row of a Net, and commits.
func (s *shared) prepareInserts(ctx context.Context, dir string) error {
	path, ok := postgrestest.Program("pgbench")
	if !ok {
		return nil
	}
	_, schema, err := postgrestest.Schema(ctx, s.url)
	if err != nil {
		return err
	}
	s.schemas = append(s.schemas, schema)
	if _, err := s.conn.Exec(ctx, "CREATE TABLE "+schema+".simple (id bigserial PRIMARY KEY, doc text NOT NULL)"); err != nil {
		return err
	}
	err = s.conn.QueryRow(ctx, "SELECT avg(pg_column_size(r.*))::int FROM "+s.regions[0].schema+".resource r WHERE kind = 'Net'").Scan(&s.row)
	if err != nil {
		return err
	}
	s.pgbench, s.script = path, filepath.Join(dir, "insert.sql")
	insert := fmt.Sprintf("INSERT INTO %s.simple (doc) VALUES ('%s');\n", schema, strings.Repeat("x", s.row))
	return os.WriteFile(s.script, []byte(insert), 0o600)
}

// close stops everything that was started, and removes it from the server.
func (s *shared) close() (err error) {
	for _, r := range s.regions {
		for _, p := range r.nodes {
			err = errors.Join(err, p.stop())
		}
	}
	if s.conn != nil {
		ctx := context.Background() // the caller's context may have ended
		for _, schema := range s.schemas {
			_, failed := s.conn.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE")
			err = errors.Join(err, failed)
		}
		err = errors.Join(err, s.conn.Close(ctx))
	}
	return errors.Join(err, s.end())
}

// compareNodes measures one round: reads and creates through one node, two, and
// so on, and the inserts of pgbench.
func (b *bench) compareNodes(ctx context.Context) error {
	if b.shared.pgbench != "" {
		if err := b.inserts(ctx); err != nil {
			return err
		}
	}
	for _, r := range b.shared.regions {
		var reads, creates []target
		for _, p := range r.nodes {
			reading, creating := target{p, p.Public, nil}, target{p, p.Public, nil}
			for account := range sharedAccounts {
				reading.requests = append(reading.requests, read(p.Public, account, 0))
				creating.requests = append(creating.requests, create(p.Public, account))
			}
			reads, creates = append(reads, reading), append(creates, creating)
		}
		n := len(r.nodes)
		err := errors.Join(
			b.call(readThrough(n), clients, reads...),
			b.callUntil(createThrough(n), clients, func() error { return b.shared.settled(ctx, r.schema) }, creates...),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func readThrough(nodes int) string   { return fmt.Sprintf("read-through-%d", nodes) }
func createThrough(nodes int) string { return fmt.Sprintf("create-through-%d", nodes) }

// waitIdle waits until the loops of a region are idle.
func (s *shared) settled(ctx context.Context, schema string) error {
	for left := 1; left > 0; time.Sleep(50 * time.Millisecond) {
		if err := s.conn.QueryRow(ctx, "SELECT count(*) FROM "+schema+".account WHERE unsettled > 0").Scan(&left); err != nil {
			return err
		}
	}
	return nil
}

// inserts makes pgbench insert rows.
func (b *bench) inserts(ctx context.Context) error {
	before, err := b.spent(nil)
	if err != nil {
		return err
	}
	begun := time.Now()
	// pgbench takes whole seconds. Nodes use prepared statements, too.
	seconds := max(int(b.each.Seconds()), 1)
	pgbench := exec.CommandContext(ctx, b.shared.pgbench, "--no-vacuum", "--protocol=prepared", "--client="+strconv.Itoa(clients),
		"--jobs="+strconv.Itoa(min(runtime.NumCPU(), clients)), "--time="+strconv.Itoa(seconds), "--file="+b.shared.script, b.shared.url)
	out, err := pgbench.CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgbench: %w: %s", err, out)
	}
	took := time.Since(begun) // including the time to connect
	after, err := b.spent(nil)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(out), "\ntps = ")
	text, _, _ := strings.Cut(rest, " ")
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("pgbench printed no rate: %s", out)
	}
	spent := after.since(before)
	spent.clients += pgbench.ProcessState.UserTime() + pgbench.ProcessState.SystemTime()
	b.add("insert", sample{calls: int(rate * float64(seconds)), rate: rate, took: took, spent: spent})
	return nil
}
