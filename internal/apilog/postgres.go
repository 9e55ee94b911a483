package apilog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tables stores the days in PostgreSQL, in a table each, which the nodes of a
// region share. A list of them has the last sequence number of each day.
//
// They are separate tables and not partitions of one. CockroachDB cannot drop a
// partition. PostgreSQL can, but locks the whole table to create or drop one,
// so all nodes wait for any reader. And a query has no use for the whole: it
// reads one day after the other until its page is full.
type tables struct {
	pool  *pgxpool.Pool
	after func(time.Duration) <-chan time.Time
	log   *slog.Logger

	// this node has created the tables up to this day; guarded by the Archive's
	// turn
	ahead day
	away  atomic.Bool // the last operation did not reach the database
}

// The version of the schema is stored beside the journal's: a newer one must
// not be written to. All versions so far have this list and tableOfDay.
const (
	schemaVersion  = 2
	readVersion    = `SELECT version FROM schema_version WHERE part = 'api log'`
	makeListOfDays = `
CREATE TABLE IF NOT EXISTS schema_version (part text NOT NULL PRIMARY KEY, version bigint NOT NULL);
INSERT INTO schema_version (part, version) VALUES ('api log', 2) ON CONFLICT (part) DO NOTHING;
CREATE TABLE IF NOT EXISTS api_log_day (
	day  text   NOT NULL PRIMARY KEY, -- such as 2026-11-20, which has the table api_log_20261120
	last bigint NOT NULL              -- the seq that was given last
);`
)

// tableOfDay creates the table of a day. Creating and dropping a table locks
// its row in the list, so two nodes may create it at once. The statements are
// sent as one message, and so are one transaction: a node that stops in the
// middle holds no lock.
//
// Texts are bytea because strangers write them: text refuses zero bytes and
// anything but UTF-8, and one refused row fails all rows of its batch. And
// bytes compare as bytes in every collation. An operator uses SET bytea_output
// = 'escape' to read them, and action = 'ReadVms' to find them.
//
// The index has an account's rows in the order of a query, with the columns of
// filters, like the index in SQLite. It also refuses duplicate rows. It is not
// a primary key, which cannot include further columns everywhere.
const tableOfDay = `
INSERT INTO api_log_day (day, last) VALUES ('%[1]v', 0) ON CONFLICT (day) DO UPDATE SET last = api_log_day.last;
CREATE TABLE IF NOT EXISTS %[2]s (
	seq           bigint NOT NULL, -- orders rows of the same date
	date          bigint NOT NULL, -- milliseconds since 1970, UTC
	duration      bigint NOT NULL, -- microseconds
	header_size   bigint NOT NULL,
	payload_size  bigint NOT NULL,
	response_size bigint NOT NULL,
	status        bigint NOT NULL,
	account       bytea  NOT NULL,
	access_key    bytea  NOT NULL,
	action        bytea  NOT NULL,
	api           bytea  NOT NULL,
	version       bytea  NOT NULL,
	ip            bytea  NOT NULL,
	user_agent    bytea  NOT NULL,
	request_id    bytea  NOT NULL,
	header        bytea  NOT NULL,
	payload       bytea  NOT NULL,
	decision      bytea  NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX IF NOT EXISTS %[2]s_account_date
	ON %[2]s (account, date, seq) INCLUDE (status, action, access_key, api, ip, request_id);`

// dropDay times out when a long transaction reads the day, such as a backup,
// because the rows of all callers wait behind it.
const dropDay = `
SET LOCAL lock_timeout = '1s';
DELETE FROM api_log_day WHERE day = '%[1]v';
DROP TABLE IF EXISTS %[2]s;`

// giveSeqs reserves sequence numbers, so that a batch whose reply was lost can
// be written again without duplicates.
const giveSeqs = `
INSERT INTO api_log_day (day, last) VALUES ($1, $2)
ON CONFLICT (day) DO UPDATE SET last = api_log_day.last + excluded.last RETURNING last`

// table returns the name of a day's table.
func (d day) table() string {
	return "api_log_" + strings.ReplaceAll(d.String(), "-", "")
}

// The error codes of PostgreSQL that are handled.
const (
	uniqueViolation = "23505"
	undefinedTable  = "42P01"
	duplicateTable  = "42P07"
	lockNotGranted  = "55P03"
)

func openTables(ctx context.Context, pool *pgxpool.Pool, after func(time.Duration) <-chan time.Time, log *slog.Logger) (*tables, error) {
	t := &tables{pool: pool, after: after, log: log, ahead: math.MinInt64}
	err := t.patiently(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var version int
		err := conn.QueryRow(ctx, readVersion).Scan(&version)
		switch {
		case version > schemaVersion:
			return fmt.Errorf("it was written by a newer program: its schema has version %d, and this program supports %d", version, schemaVersion)
		case errors.Is(err, pgx.ErrNoRows) || sqlState(err) == undefinedTable:
			return run(ctx, conn, makeListOfDays)
		case err == nil && version < schemaVersion:
			return addDecisions(ctx, conn)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the API log in the database %q: %w", pool.Config().ConnConfig.Database, err)
	}
	return t, nil
}

// addDecisions makes version 2 of the schema of version 1, whose days have no column of
// decisions. Programs of version 1 cannot write to a day from then on.
func addDecisions(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		found, err := tx.Query(ctx, `SELECT day FROM api_log_day`)
		if err != nil {
			return err
		}
		dates, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, date := range dates {
			on, err := parseDay(date)
			if err != nil {
				return err
			}
			add := `ALTER TABLE IF EXISTS ` + on.table() + ` ADD COLUMN IF NOT EXISTS decision bytea NOT NULL DEFAULT ''`
			if _, err := tx.Exec(ctx, add); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `UPDATE schema_version SET version = 2 WHERE part = 'api log'`)
		return err
	})
}

// run runs statements that create what does not exist. If another node does the
// same at once, it returns errAgain.
func run(ctx context.Context, conn *pgx.Conn, statements string) error {
	_, err := conn.Exec(ctx, statements)
	if code := sqlState(err); code == uniqueViolation || code == duplicateTable {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

func makeDay(ctx context.Context, conn *pgx.Conn, on day) error {
	return run(ctx, conn, fmt.Sprintf(tableOfDay, on, on.table()))
}

// write implements [days]. The first rows of a day also create the table of the
// next day, so that no row waits for it at midnight.
func (t *tables) write(ctx context.Context, on day, rows rowReader) error {
	var last int64 // last seq of the rows; 0: none reserved yet
	unsure := false
	err := t.patiently(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if last == 0 {
			if err := conn.QueryRow(ctx, giveSeqs, on.String(), rows.rows()).Scan(&last); err != nil {
				return err
			}
		}
		err := insertRows(ctx, conn, on, last-int64(rows.rows()), rows)
		switch {
		case sqlState(err) == undefinedTable:
			// The table was never created, or was dropped and its numbers start anew.
			last, unsure = 0, false
			if err := makeDay(ctx, conn, on); err != nil {
				return err
			}
			return errAgain
		case sqlState(err) == uniqueViolation && unsure:
			return nil
		}
		unsure = unsure || conn.IsClosed()
		return err
	})
	if err == nil && t.ahead <= on {
		t.ahead = on + 1
		// An error comes back when the table is needed.
		_ = t.once(ctx, func(ctx context.Context, conn *pgx.Conn) error { return makeDay(ctx, conn, on+1) })
	}
	return err
}

// insertRows copies rows, numbered from seq+1, in a transaction: in databases
// other than PostgreSQL a COPY without one may leave a part of them.
func insertRows(ctx context.Context, conn *pgx.Conn, on day, seq int64, rows rowReader) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Conn().PgConn().CopyFrom(ctx, &copyReader{rows: rows, seq: seq, left: []byte(copyHeader)},
			"COPY "+on.table()+" FROM STDIN BINARY")
		return err
	})
}

// copyHeader starts the binary format of COPY, without options.
const copyHeader = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// copyReader reads rows in the binary format of COPY.
type copyReader struct {
	rows  rowReader
	seq   int64  // of the row encoded last
	row   []byte // buffer
	left  []byte // encoded and not read yet
	ended bool
}

func (c *copyReader) Read(b []byte) (n int, err error) {
	for n < len(b) {
		switch {
		case len(c.left) > 0:
		case c.rows.more():
			c.encode()
		case !c.ended:
			c.left, c.ended = []byte("\xff\xff"), true // the end: a row of -1 columns
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
		k := copy(b[n:], c.left)
		n, c.left = n+k, c.left[k:]
	}
	return n, nil
}

func (c *copyReader) encode() {
	c.seq++
	numbers, texts := c.rows.next()
	row := binary.BigEndian.AppendUint16(c.row[:0], 1+numberCount+textCount)
	number := func(n int64) {
		row = binary.BigEndian.AppendUint32(row, 8)
		row = binary.BigEndian.AppendUint64(row, uint64(n))
	}
	number(c.seq)
	for _, n := range numbers {
		number(n)
	}
	for _, text := range texts {
		row = binary.BigEndian.AppendUint32(row, uint32(len(text)))
		row = append(row, text...)
	}
	c.row, c.left = row, row
}

// between implements [days].
func (t *tables) between(ctx context.Context, first, last day) (list []day, err error) {
	err = t.patiently(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		found, err := conn.Query(ctx, `SELECT day FROM api_log_day`)
		if err != nil {
			return err
		}
		list = nil
		var date string
		_, err = pgx.ForEachRow(found, []any{&date}, func() error {
			on, err := parseDay(date)
			if first <= on && on <= last {
				list = append(list, on)
			}
			return err
		})
		return err
	})
	slices.Sort(list)
	return list, err
}

// find implements [days].
func (t *tables) find(ctx context.Context, on day, s *search, p *page) error {
	before := *p
	err := t.patiently(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		*p = before
		sql, args := s.postgres(on, p.room()+1) // one more shows whether another page follows
		found, err := conn.Query(ctx, sql, slices.Concat(queryMode, args)...)
		if err != nil {
			return err
		}
		for found.Next() {
			values := found.RawValues()
			number := func(column int) int64 { return int64(binary.BigEndian.Uint64(values[column])) }
			at := Position{Seq: number(0), Date: number(1)}
			added := p.add(at, func(r *Record) {
				r.Date = time.UnixMilli(at.Date).UTC()
				r.Duration = time.Duration(number(2)) * time.Microsecond
				r.HeaderSize, r.PayloadSize, r.ResponseSize = int(number(3)), int(number(4)), int(number(5))
				r.Status = int(number(6))
				for i, text := range r.texts() {
					*text = string(values[1+numberCount+i])
				}
			})
			if !added {
				break
			}
		}
		found.Close()
		return found.Err()
	})
	if sqlState(err) == undefinedTable {
		return nil
	}
	return err
}

// postgres returns the statement of the search and its arguments. Matches are
// found in the index first, and then only the rows of the page are read.
func (s *search) postgres(on day, limit int) (string, []any) {
	sql := fmt.Sprintf(`SELECT r.* FROM %[1]s AS r JOIN (
		SELECT date, seq FROM %[1]s WHERE account = $1 AND date >= $2 AND (date > $2 OR seq > $3) AND date < $4`, on.table())
	args := []any{[]byte(s.AccountID), s.from.Date, s.from.Seq, s.until, limit}
	for _, f := range s.filters() {
		set := f.set
		if texts, ok := set.([]string); ok {
			list := make([][]byte, len(texts))
			for i, text := range texts {
				list[i] = []byte(text)
			}
			set = list
		}
		args = append(args, set)
		sql += fmt.Sprintf(` AND %s = ANY($%d)`, f.column, len(args))
	}
	return sql + ` ORDER BY date, seq LIMIT $5
	) AS k ON r.account = $1 AND r.date = k.date AND r.seq = k.seq ORDER BY r.date, r.seq`, args
}

// queryMode plans each search anew, because a plan that is good for one account
// may be bad for another, and asks for binary values, which find decodes.
var queryMode = []any{pgx.QueryExecModeCacheDescribe, pgx.QueryResultFormats{pgx.BinaryFormatCode}}

// drop implements [days]. It stops at a day that is being read, because the
// reader may be a backup of all days.
func (t *tables) drop(ctx context.Context, first day) error {
	list, err := t.between(ctx, math.MinInt64, first-1)
	if err != nil {
		return err
	}
	for _, on := range list {
		if err := t.dropDay(ctx, on); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) dropDay(ctx context.Context, on day) error {
	err := t.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf(dropDay, on, on.table()))
		return err
	})
	if sqlState(err) == lockNotGranted {
		return fmt.Errorf("the table %s is being read: %w", on.table(), err)
	}
	if err != nil {
		return fmt.Errorf("dropping the table %s: %w", on.table(), err)
	}
	return nil
}

// sizesOfDays returns 0 for a table that is not there yet or was just dropped.
const sizesOfDays = `
SELECT day, coalesce(pg_total_relation_size(to_regclass('api_log_' || replace(day, '-', ''))), 0) FROM api_log_day ORDER BY day`

// sizes implements [days].
func (t *tables) sizes(ctx context.Context) (list []daySize, err error) {
	err = t.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		found, err := conn.Query(ctx, sizesOfDays)
		if err != nil {
			return err
		}
		var date string
		var bytes int64
		_, err = pgx.ForEachRow(found, []any{&date, &bytes}, func() error {
			on, err := parseDay(date)
			list = append(list, daySize{on, bytes})
			return err
		})
		return err
	})
	return list, err
}

// trim implements [days]. It drops the whole day, because the space of deleted
// rows is only reused after a vacuum and always counts as the table's size. The
// day is measured again, because another node may just have dropped it.
func (t *tables) trim(ctx context.Context, on day, bytes int64) error {
	sizes, err := t.sizes(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(sizes, func(s daySize) bool { return s.day == on && s.bytes > bytes }) {
		return nil
	}
	return t.dropDay(ctx, on)
}

// close implements [days]. The owner of the pool closes it when no operation is
// running.
func (t *tables) close() error { return nil }
