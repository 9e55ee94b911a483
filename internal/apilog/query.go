package apilog

import (
	"context"
	"fmt"
	"time"
)

// A Query asks for calls of one account. A row matches when, for each set that
// is not empty, it has one of the set's values.
type Query struct {
	AccountID string

	// After and Before are the interval: After belongs to it, Before does
	// not. What is older than Options.Keep is not found even where its day
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

	// Bytes is how many bytes a page has at most, by the Size of its records; zero:
	// as many as its rows have. One row is in a page whatever its size.
	Bytes int
	Size  func(*Record) int
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
// that took long is appended late, with the date it began, and one that another
// node answered is there when that node has flushed; when its date is before the
// position, a walk already past it does not meet it.
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

// A search is a query with its bounds made exact: it is for rows that come after
// from and before until.
type search struct {
	*Query
	from  Position
	until int64
}

// A filter lets pass what has one of the values in a column.
type filter struct {
	column string
	set    any
}

// filters are those that are not empty.
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

// A page is what a query has found so far.
type page struct {
	limit   int
	bytes   int // 0: any
	size    func(*Record) int
	filled  int // bytes of the records
	records []Record
	end     Position // of the last record
	more    bool     // a row follows it
}

func (p *page) room() int { return p.limit - len(p.records) }

// add adds the record that read makes of a row, and reports whether it did: it
// does not when the page is full.
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
