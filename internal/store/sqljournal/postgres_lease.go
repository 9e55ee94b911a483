package sqljournal

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Each statement of a lease reads the clock itself, and so after it has its
// lock: the time at which a transaction began may be long ago. A lease whose
// caller has given up, and which takes effect after the next one nevertheless,
// then only prolongs that one.
//
// A lease is not revoked before its end. The names above the share of a node
// are merely not renewed, because the node believes that it holds them until it
// has the reply, which may take long.
const (
	postgresTurn = `INSERT INTO lease (name, holder, until) VALUES ('turn', '', clock_timestamp()) ON CONFLICT (name) DO ` +
		`UPDATE SET until = excluded.until`
	postgresPresent = `INSERT INTO lease (name, holder, until)
		VALUES ('node ' || $1::text, $1::text, clock_timestamp() + $2::bigint * INTERVAL '1 microsecond')
		ON CONFLICT (name) DO UPDATE SET until = excluded.until`
	postgresAbsent = `DELETE FROM lease WHERE name LIKE 'node %' AND until <= clock_timestamp()`
	postgresLease  = `INSERT INTO lease (name, holder, until)
		SELECT name, $1::text, clock_timestamp() + $2::bigint * INTERVAL '1 microsecond' FROM (
			SELECT wanted.name, row_number() OVER (ORDER BY l.holder IS NOT NULL AND l.holder = $1::text DESC, wanted.name) AS place
			FROM unnest($3::text[]) AS wanted(name) LEFT JOIN lease l ON l.name = wanted.name
			WHERE l.name IS NULL OR l.holder = $1::text OR l.until <= clock_timestamp()
		) AS possible
		WHERE (place - 1) * (SELECT count(*) FROM lease WHERE name LIKE 'node %') < $4::bigint
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		RETURNING name`
	postgresNodes   = `SELECT count(*) FROM lease WHERE name LIKE 'node %' AND until > clock_timestamp()`
	postgresRelease = `DELETE FROM lease WHERE holder = $1`
)

// Lease makes the node present for the given life, and returns the names that
// it holds for as long. The names are shared fairly among the nodes that are
// present: each holds no more than an equal part of them, rounded up. A node
// keeps the names that it has, up to its share, and takes free ones. Names
// beyond its share pass to others when their leases end.
//
// The life is counted by the database's clock alone, from some time during the
// call. All nodes must give the same names.
func (j *Postgres) Lease(ctx context.Context, node string, names []string, life time.Duration) (held []string, err error) {
	err = j.patiently(ctx, func(ctx context.Context) error {
		return j.inTurn(ctx, func(b *pgx.Batch) {
			b.Queue(postgresPresent, node, life.Microseconds())
			b.Queue(postgresAbsent)
			b.Queue(postgresLease, node, life.Microseconds(), names, len(names)).Query(func(found pgx.Rows) (err error) {
				held, err = pgx.CollectRows(found, pgx.RowTo[string])
				return err
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// Release gives back at once what the node holds, and ends its presence. It must
// have stopped believing that it holds anything.
func (j *Postgres) Release(ctx context.Context, node string) error {
	return j.patiently(ctx, func(ctx context.Context) error {
		return j.inTurn(ctx, func(b *pgx.Batch) { b.Queue(postgresRelease, node) })
	})
}

// inTurn runs statements in a transaction, one node after the other. They are
// sent all at once: a node that is paused does not keep the turn.
func (j *Postgres) inTurn(ctx context.Context, queue func(*pgx.Batch)) error {
	return j.with(ctx, func(conn *pgx.Conn) error {
		var b pgx.Batch
		b.Queue(postgresBegin)
		b.Queue(postgresTurn)
		queue(&b)
		b.Queue(postgresCommit)
		return conn.SendBatch(ctx, &b).Close()
	})
}
