package sqljournal

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Postgres is a journal in a PostgreSQL database, which the nodes of a region
// share. Its SQL is understood by CockroachDB and YugabyteDB, too.
//
// A call waits for a database that is away, up to the journal's patience, and
// continues when it is back. Its result is never guessed: a commit whose reply
// was lost is looked up.
type Postgres struct {
	pool *pgxpool.Pool
	name string // of the database, for messages
	user string

	size     int
	password string // in place of the URL's
	patience time.Duration
	after    func(time.Duration) <-chan time.Time
	log      *slog.Logger

	drawing sync.Mutex // guards random
	random  io.Reader

	// writers are those who have no transaction. There are fewer of them than
	// connections: a transaction lasts as long as its caller wants, who may
	// wait for a read, so no read waits for a transaction to end.
	writers chan *writer

	// waiting has a place for each of those who may wait for accounts that
	// others hold: for some of the writers only, so that one who holds many
	// accounts for long does not keep all writers from the rest.
	waiting chan struct{}

	away atomic.Bool // the database did not answer the last time
}

// PostgresOption changes what [OpenPostgres] does by default. [After] and
// [Rand] have no default and must be given.
type PostgresOption func(*Postgres)

// After gives the journal the clock for its patience and its pauses:
// time.After, or a test's own.
func After(after func(time.Duration) <-chan time.Time) PostgresOption {
	return func(j *Postgres) { j.after = after }
}

// Rand gives the journal a random source, for the ids of its writers and the
// length of its pauses. It must not repeat what another node was given, or this
// one before: writers of the same id would take each other's commits for theirs.
func Rand(random io.Reader) PostgresOption {
	return func(j *Postgres) { j.random = random }
}

// PoolSize bounds the connections to the database, two at least. By default it
// is pool_max_conns in the URL, or 16.
func PoolSize(connections int) PostgresOption {
	return func(j *Postgres) { j.size = connections }
}

// Password gives the password of the database's user, for a URL that has none.
func Password(password string) PostgresOption {
	return func(j *Postgres) { j.password = password }
}

// Patience bounds how long a call waits for the database, by default a minute.
func Patience(patience time.Duration) PostgresOption {
	return func(j *Postgres) { j.patience = patience }
}

// PostgresLog sets the logger, which reports when the database goes away and
// when it is back.
func PostgresLog(log *slog.Logger) PostgresOption {
	return func(j *Postgres) { j.log = log }
}

// A single statement each, because it sees a single moment: the version belongs
// to the rows. An account without rows is one row of nulls. A reader at version
// 0 has nothing that could have been removed.
const (
	postgresVersions  = `SELECT id, version FROM account WHERE id = ANY($1)`
	postgresUnsettled = `SELECT id FROM account WHERE unsettled > 0`
	postgresSince     = `SELECT a.version, a.floor, r.kind, r.id, r.version, r.seq, r.gone, r.doc
		FROM account a LEFT JOIN resource r ON r.account = a.id AND r.version > $2 AND (a.floor <= $2 OR $2 = 0)
		WHERE a.id = $1`
)

// OpenPostgres opens the journal in the database at a URL like
// postgres://USER:PASSWORD@HOST:PORT/DATABASE. A password that is neither in it
// nor in [Password] is looked up as libpq does: in PGPASSWORD, and in the file
// that the URL's passfile or PGPASSFILE names. It creates the tables if there
// are none, and migrates tables of an older program; it refuses a database that
// a newer program wrote, and one that it may not write to. It does not wait for
// a host that does not respond, because that is most likely the wrong one. The
// context bounds the opening only.
func OpenPostgres(ctx context.Context, url string, opts ...PostgresOption) (*Postgres, error) {
	j := &Postgres{patience: time.Minute, log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		o(j)
	}
	if j.after == nil || j.random == nil {
		panic("sqljournal: OpenPostgres needs After and Rand")
	}
	config, err := j.configure(url)
	if err != nil {
		return nil, err
	}
	// The pool is given no context of its caller's: it lives longer.
	if j.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, j.explain(err)
	}
	if err = j.reach(ctx); err == nil {
		err = j.patiently(ctx, j.migrate)
	}
	if err != nil {
		j.pool.Close()
		return nil, err
	}
	return j, nil
}

// errPostgresURL holds nothing of the URL: where it is broken there may be a
// part of its password.
var errPostgresURL = errors.New("the URL of the database is not understood: it should be like " +
	"postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for what is special in a password")

func (j *Postgres) configure(address string) (*pgxpool.Config, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errPostgresURL
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		// What is wrong, without the URL around it.
		why := errors.Unwrap(err)
		if password, _ := u.User.Password(); why == nil || password != "" && strings.Contains(why.Error(), password) {
			return nil, errPostgresURL
		}
		return nil, fmt.Errorf("the URL of the database on %s cannot be used: %w", u.Host, why)
	}
	switch {
	case j.size != 0:
		config.MaxConns = int32(j.size)
	case !u.Query().Has("pool_max_conns"):
		config.MaxConns = 16
	}
	config.MaxConns = max(config.MaxConns, 2)
	j.writers = make(chan *writer, config.MaxConns-max(1, config.MaxConns/4))
	j.waiting = make(chan struct{}, max(1, cap(j.writers)/2))
	for range cap(j.writers) {
		id, err := j.number()
		if err != nil {
			return nil, err
		}
		j.writers <- &writer{id: id}
	}

	c := config.ConnConfig
	if j.password != "" {
		if HasPassword(address) {
			return nil, errors.New("the password of the database is given twice: in its URL and beside it")
		}
		c.Password = j.password
	}
	j.name, j.user = databaseName(c), c.User
	// A standby would answer, and be behind.
	c.ValidateConnect = writable
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	for parameter, value := range map[string]string{
		"application_name": "bastide",
		// A node that stops in the middle of a transaction does not hold the
		// accounts for longer.
		"idle_in_transaction_session_timeout": "10s",
	} {
		if _, given := c.RuntimeParams[parameter]; !given {
			c.RuntimeParams[parameter] = value
		}
	}
	return config, nil
}

// HasPassword reports whether the URL of a database has a password in it.
func HasPassword(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}

// databaseName says which database and where.
func databaseName(c *pgx.ConnConfig) string {
	hosts := []string{fmt.Sprintf("%s:%d", c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if host := fmt.Sprintf("%s:%d", f.Host, f.Port); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return fmt.Sprintf("the database %q on %s", cmp.Or(c.Database, c.User), strings.Join(hosts, ", "))
}

var errReadOnly = errors.New("its transactions are read-only")

// writable refuses a connection that cannot write.
func writable(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, "SHOW transaction_read_only").ReadAll()
	if err != nil {
		return err
	}
	if string(results[0].Rows[0][0]) == "on" {
		return errReadOnly
	}
	return nil
}

// reach connects once, for the errors that waiting does not mend.
func (j *Postgres) reach(ctx context.Context) error {
	conn, err := j.pool.Acquire(ctx)
	switch {
	case err == nil:
		defer conn.Release()
	case ctx.Err() != nil:
		return ctx.Err()
	case notYet(err):
		return nil
	default:
		return j.explain(err)
	}
	// Others would not take every id.
	if encoding := conn.Conn().PgConn().ParameterStatus("server_encoding"); encoding != "UTF8" && encoding != "SQL_ASCII" && encoding != "" {
		return fmt.Errorf("%s has the encoding %s: it must be UTF8", j.name, encoding)
	}
	return nil
}

// Pool are the journal's connections, for what else is kept in its database.
// They are closed with the journal.
func (j *Postgres) Pool() *pgxpool.Pool { return j.pool }

// Close implements [store.Journal]. It lets what is under way end.
func (j *Postgres) Close() error {
	j.pool.Close()
	return nil
}

// Load implements [store.Journal].
func (j *Postgres) Load(ctx context.Context, account string, each func(store.Row) error) (uint64, error) {
	return j.Since(ctx, account, 0, func(r store.Row) error {
		if r.Doc == nil {
			return nil
		}
		return each(r)
	})
}

// Since implements [store.Shared]. Since 0 nothing is ever forgotten.
func (j *Postgres) Since(ctx context.Context, account string, version uint64, each func(store.Row) error) (now uint64, err error) {
	var rows []store.Row
	err = j.patiently(ctx, func(ctx context.Context) error {
		return j.with(ctx, func(conn *pgx.Conn) (err error) {
			now, rows, err = rowsSince(ctx, conn, account, version)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return now, hand(ctx, rows, each)
}

// rowsSince reads all rows before any is handed over, so that reading can be
// done again when the connection is lost half-way.
func rowsSince(ctx context.Context, conn *pgx.Conn, account string, version uint64) (now uint64, rows []store.Row, err error) {
	found, err := conn.Query(ctx, postgresSince, account, version)
	if err != nil {
		return 0, nil, err
	}
	defer found.Close()
	for found.Next() {
		var floor uint64
		var kind, id *string
		var written, seq *uint64
		var gone *int64
		var doc []byte
		if err := found.Scan(&now, &floor, &kind, &id, &written, &seq, &gone, &doc); err != nil {
			return 0, nil, err
		}
		if version != 0 && version < floor {
			return 0, nil, store.ErrForgotten
		}
		if kind != nil {
			rows = append(rows, store.Row{Kind: *kind, ID: *id, Version: *written, Seq: *seq, DeletedAt: *gone, Doc: doc})
		}
	}
	return now, rows, found.Err()
}

func hand(ctx context.Context, rows []store.Row, each func(store.Row) error) error {
	for _, r := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}

// Versions implements [store.Shared].
func (j *Postgres) Versions(ctx context.Context, accounts []string) (versions map[string]uint64, err error) {
	err = j.patiently(ctx, func(ctx context.Context) error {
		return j.with(ctx, func(conn *pgx.Conn) error {
			found, err := conn.Query(ctx, postgresVersions, accounts)
			if err != nil {
				return err
			}
			versions = make(map[string]uint64, len(accounts))
			var account string
			var version uint64
			_, err = pgx.ForEachRow(found, []any{&account, &version}, func() error {
				versions[account] = version
				return nil
			})
			return err
		})
	})
	return versions, err
}

// Pending implements [store.Journal].
func (j *Postgres) Pending(ctx context.Context) (accounts []string, err error) {
	err = j.patiently(ctx, func(ctx context.Context) error {
		return j.with(ctx, func(conn *pgx.Conn) error {
			found, err := conn.Query(ctx, postgresUnsettled)
			if err != nil {
				return err
			}
			accounts, err = pgx.CollectRows(found, pgx.RowTo[string])
			return err
		})
	})
	slices.Sort(accounts)
	return accounts, err
}

// number draws a number.
func (j *Postgres) number() (n uint64, err error) {
	j.drawing.Lock()
	defer j.drawing.Unlock()
	err = binary.Read(j.random, binary.BigEndian, &n)
	return n, err
}
