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

// parseDay is the day that String writes so.
func parseDay(date string) (day, error) {
	t, err := time.Parse(time.DateOnly, date)
	return dayOf(t.UnixMilli()), err
}

// days keep the rows, those of each day apart, so that a day is forgotten as a
// whole. They are files of SQLite or tables in PostgreSQL.
//
// Whoever writes or drops has the Archive's turn; the rest may be done meanwhile.
type days interface {
	// write writes rows of one day: all, or with an error none.
	write(ctx context.Context, on day, rows rowReader) error

	// between lists the days there are from first to last, in their order.
	between(ctx context.Context, first, last day) ([]day, error)

	// find adds rows of a day to a page until it is full. A day that is not there
	// has none.
	find(ctx context.Context, on day, s *search, p *page) error

	// drop forgets the days before first.
	drop(ctx context.Context, first day) error

	// sizes are the days there are, in their order, and the room that each takes
	// with all that is kept beside it.
	sizes(ctx context.Context) ([]daySize, error)

	// trim forgets the oldest rows of a day so that it takes at most bytes. One
	// call may do a part of that, and where rows cannot be forgotten without the
	// day, all of them go.
	trim(ctx context.Context, on day, bytes int64) error

	// close waits for what is under way.
	close() error
}
