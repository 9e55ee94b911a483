package apilog

import (
	"context"
	"time"
)

// A day is a UTC day, counted from 1970.
type day int64

const dayMillis = 24 * 60 * 60 * 1000

func dayOf(milli int64) day {
	d := milli / dayMillis
	if milli%dayMillis < 0 {
		d-- // before 1970, where division rounds the other way
	}
	return day(d)
}

func (d day) String() string {
	return time.UnixMilli(int64(d) * dayMillis).UTC().Format(time.DateOnly)
}

// parseDay is the inverse of String.
func parseDay(date string) (day, error) {
	t, err := time.Parse(time.DateOnly, date)
	return dayOf(t.UnixMilli()), err
}

// days stores the rows by day, so that a day is dropped as a whole. The
// implementations are SQLite files and PostgreSQL tables.
//
// Callers of write, drop and trim hold the Archive's turn; the other methods
// may run meanwhile.
type days interface {
	// write writes rows of one day: all of them, or none if it returns an
	// error.
	write(ctx context.Context, on day, rows rowReader) error

	// between lists the days that exist from first to last, in order.
	between(ctx context.Context, first, last day) ([]day, error)

	// find adds rows of a day to a page until it is full. A day that does not
	// exist has none.
	find(ctx context.Context, on day, s *search, p *page) error

	// drop removes the days before first.
	drop(ctx context.Context, first day) error

	// sizes returns the days that exist, in order, with the size of each
	// including its auxiliary files.
	sizes(ctx context.Context) ([]daySize, error)

	// trim deletes the oldest rows of a day so that its size is at most bytes.
	// One call may do a part of that. Where rows cannot be deleted apart, it
	// deletes all of them.
	trim(ctx context.Context, on day, bytes int64) error

	// close waits for running operations.
	close() error
}
