package apilog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
)

// A Query asks for calls of one account. A row matches when, for each set that
// is not empty, it has one of the set's values.
type Query struct {
	AccountID string

	// After and Before are the interval: After belongs to it, Before does
	// not. What is older than Options.Keep is not found even where its file
	// is still there.
	After, Before time.Time

	AccessKeys []string
	Actions    []string
	APIs       []string
	IPs        []string
	UserAgents []string
	RequestIDs []string
	Statuses   []int

	From  *Position // The position the page before gave; nil for the first page.
	Limit int       // How many rows a page has at most; one at least.
}

// A Position is where a page ended. It means the same on every page of the
// log, whatever was appended since.
type Position struct {
	Date int64 // milliseconds since 1970
	Seq  int64 // orders the rows of a day that have the same date
}

func (p Position) before(q Position) bool {
	return p.Date < q.Date || p.Date == q.Date && p.Seq < q.Seq
}

// Query finds the rows that q asks for, oldest first, and the position to go
// on from; it is nil when there is no more.
//
// The service documents no order. Its own log follower takes the date of the
// last row of an answer as the start of its next interval, which only works
// oldest first; and it skips the row it has seen, so After is in the interval.
//
// Pages do not shift while calls come in: a row is on one page only. A call
// that took long is appended late, with the date it began; when that is
// before the position, a walk already past it does not meet it.
func (l *Archive) Query(ctx context.Context, q Query) ([]Record, *Position, error) {
	if err := l.Flush(ctx); err != nil {
		return nil, nil, err
	}
	from := Position{Date: max(milli(q.After), l.horizon())}
	if q.From != nil && from.before(*q.From) {
		from = *q.From
	}
	until := milli(q.Before)
	p := page{limit: max(q.Limit, 1)}
	for _, f := range l.days.between(dayOf(from.Date), dayOf(until-1)) {
		err := l.read(ctx, f, func(conn *sqlite.Conn) error {
			return p.fill(conn, &q, from, until)
		})
		if err != nil {
			return nil, nil, fmt.Errorf("reading the API log of %s: %w", f.day, err)
		}
		if p.more {
			return p.records, &p.end, nil
		}
	}
	return p.records, nil, nil
}

// read calls fn with a connection to f, unless f was taken away. A file that
// turns out to be unusable is set aside, as if it had no rows.
func (l *Archive) read(ctx context.Context, f *file, fn func(*sqlite.Conn) error) error {
	r, ok, err := l.days.take(f)
	if ok {
		r.conn.SetInterrupt(ctx.Done())
		err = fn(r.conn)
		r.conn.SetInterrupt(nil)
		l.days.give(r)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !unusable(err) {
		return err
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.days.files[f.day] != f {
		return nil // somebody was faster
	}
	return l.days.setAside(f, err)
}

// A page is what a query has found so far.
type page struct {
	limit   int
	records []Record
	end     Position // of the last record
	more    bool     // a row follows it
}

// fill adds the rows of a day that come after from and before until.
func (p *page) fill(conn *sqlite.Conn, q *Query, from Position, until int64) error {
	sql, sets, err := q.sql()
	if err != nil {
		return err
	}
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	stmt.BindText(1, q.AccountID)
	stmt.BindInt64(2, from.Date)
	stmt.BindInt64(3, from.Seq)
	stmt.BindInt64(4, until)
	stmt.BindInt64(5, int64(p.limit-len(p.records)+1)) // one more tells whether the page is the last
	for i, set := range sets {
		stmt.BindText(6+i, set)
	}
	for {
		if found, err := stmt.Step(); err != nil || !found {
			return errors.Join(err, stmt.Reset())
		}
		if p.more = len(p.records) == p.limit; p.more {
			return stmt.Reset()
		}
		p.records = append(p.records, Record{})
		p.end = p.records[len(p.records)-1].scan(stmt)
	}
}

// sql is the statement of the query, and the sets it is to be given as JSON
// lists. Queries with sets for the same columns share a statement, so few are
// ever prepared.
func (q *Query) sql() (string, []string, error) {
	sql := `SELECT * FROM call WHERE account = ?1 AND date >= ?2 AND (date > ?2 OR seq > ?3) AND date < ?4`
	var sets []string
	for _, filter := range []struct {
		column string
		set    any
		size   int
	}{
		{"access_key", q.AccessKeys, len(q.AccessKeys)},
		{"action", q.Actions, len(q.Actions)},
		{"api", q.APIs, len(q.APIs)},
		{"ip", q.IPs, len(q.IPs)},
		{"user_agent", q.UserAgents, len(q.UserAgents)},
		{"request_id", q.RequestIDs, len(q.RequestIDs)},
		{"status", q.Statuses, len(q.Statuses)},
	} {
		if filter.size == 0 {
			continue
		}
		set, err := json.Marshal(filter.set)
		if err != nil {
			return "", nil, err
		}
		sets = append(sets, string(set))
		sql += fmt.Sprintf(` AND %s IN (SELECT value FROM json_each(?%d))`, filter.column, 5+len(sets))
	}
	return sql + ` ORDER BY date, seq LIMIT ?5`, sets, nil
}
