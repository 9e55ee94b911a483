package apilog

import (
	"context"
	"fmt"
	"time"
)

// A Query selects calls of one account. A row matches when it has one of the
// values of each list that is not empty.
type Query struct {
	AccountID string

	// After and Before bound the date: After is included, Before is not. Rows
	// older than Options.Keep are not found even if their day still exists.
	After, Before time.Time

	AccessKeys []string
	Actions    []string
	APIs       []string
	IPs        []string
	UserAgents []string
	RequestIDs []string
	Statuses   []int

	From  *Position // the position returned with the previous page; nil for the first page
	Limit int       // maximum number of rows of a page; at least 1

	// Bytes is the maximum size of a page, by the Size of its records; zero:
	// unlimited. A page has at least one row, whatever its size.
	Bytes int
	Size  func(*Record) int
}

// A Position is where a page ended. It stays valid whatever is appended later.
type Position struct {
	Date int64 // milliseconds since 1970
	Seq  int64 // orders the rows of a day that have the same date
}

func (p Position) before(q Position) bool {
	return p.Date < q.Date || p.Date == q.Date && p.Seq < q.Seq
}

// Query returns the rows that match q, oldest first, and the position to
// continue from, which is nil at the end.
//
// The service documents no order. Its own log follower uses the date of the
// last row as the start of its next interval, which only works oldest first;
// and it skips the row that it has seen, so After is included.
//
// Pages do not shift while calls come in: a row is on one page only. A long
// call is appended late, with the date of its beginning, and a call that
// another node served appears when that node has flushed; a walk that has
// passed its date does not find it.
func (l *Archive) Query(ctx context.Context, q Query) ([]Record, *Position, error) {
	ctx, cancel := l.limited(ctx)
	defer cancel()
	if err := l.Flush(ctx); err != nil {
		return nil, nil, err
	}
	s := search{Query: &q, from: Position{Date: max(milli(q.After), l.horizon())}, until: milli(q.Before)}
	if q.From != nil && s.from.before(*q.From) {
		s.from = *q.From
	}
	days, err := l.days.between(ctx, dayOf(s.from.Date), dayOf(s.until-1))
	if err != nil {
		return nil, nil, fmt.Errorf("listing the days of the API log: %w", err)
	}
	p := page{limit: max(q.Limit, 1), bytes: q.Bytes, size: q.Size}
	for _, on := range days {
		if err := l.days.find(ctx, on, &s, &p); err != nil {
			return nil, nil, fmt.Errorf("reading the API log of %s: %w", on, err)
		}
		if p.more {
			return p.records, &p.end, nil
		}
	}
	return p.records, nil, nil
}

// A search is a query with exact bounds: its rows are after from and before
// until.
type search struct {
	*Query
	from  Position
	until int64
}

// A filter selects the rows with one of the values in a column.
type filter struct {
	column string
	set    any
}

// filters returns the filters that are not empty.
func (q *Query) filters() []filter {
	var list []filter
	add := func(column string, set any, size int) {
		if size > 0 {
			list = append(list, filter{column, set})
		}
	}
	add("access_key", q.AccessKeys, len(q.AccessKeys))
	add("action", q.Actions, len(q.Actions))
	add("api", q.APIs, len(q.APIs))
	add("ip", q.IPs, len(q.IPs))
	add("user_agent", q.UserAgents, len(q.UserAgents))
	add("request_id", q.RequestIDs, len(q.RequestIDs))
	add("status", q.Statuses, len(q.Statuses))
	return list
}

// A page is the result of a query so far.
type page struct {
	limit   int
	bytes   int // 0: unlimited
	size    func(*Record) int
	filled  int // size of the records in bytes
	records []Record
	end     Position // of the last record
	more    bool     // another row follows
}

func (p *page) room() int { return p.limit - len(p.records) }

// add adds the record that read decodes, and reports whether it did: not if the
// page is full.
func (p *page) add(at Position, read func(*Record)) bool {
	if p.more = p.room() == 0; p.more {
		return false
	}
	var r Record
	read(&r)
	if p.bytes > 0 {
		size := p.size(&r)
		if p.more = len(p.records) > 0 && p.filled+size > p.bytes; p.more {
			return false
		}
		p.filled += size
	}
	p.records, p.end = append(p.records, r), at
	return true
}
