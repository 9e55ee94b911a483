package apilog

import (
	"context"
	"fmt"
)

// maxUnmeasured is the maximum number of bytes written between two measurements
// of a log with a bound. Measuring takes microseconds, and the excess is
// deleted within a second.
const maxUnmeasured = 16 << 20

// A daySize is the size of a day in bytes.
type daySize struct {
	day   day
	bytes int64
}

// grown counts written bytes, and fits the log to its bound when there are
// enough of them. The caller holds the turn.
func (l *Archive) grown(ctx context.Context, bytes int) {
	l.unmeasured += int64(bytes)
	if l.size > 0 && l.unmeasured >= min(maxUnmeasured, l.size/64) {
		l.fit(ctx)
	}
}

// fit drops the oldest days until the log is within its bound or only today is
// left, which it then trims. The caller holds the turn.
func (l *Archive) fit(ctx context.Context) {
	l.unmeasured = 0
	if err := l.makeFit(ctx); err != nil {
		l.log.Error("the API log exceeds its bound and could not be made smaller", "bound", l.size, "cause", err)
	}
}

func (l *Archive) makeFit(ctx context.Context) error {
	sizes, err := l.days.sizes(ctx)
	if err != nil {
		return fmt.Errorf("measuring it: %w", err)
	}
	var total int64
	for _, s := range sizes {
		total += s.bytes
	}
	if total <= l.size {
		return nil
	}
	today := dayOf(l.now().UnixMilli())
	left := sizes
	for len(left) > 0 && left[0].day < today && total > l.size {
		total -= left[0].bytes
		left = left[1:]
	}
	if dropped := len(sizes) - len(left); dropped > 0 {
		first := sizes[dropped-1].day + 1
		l.log.Warn("the API log reached its bound: the oldest days are dropped", "bound", l.size, "before", first.String())
		if err := l.days.drop(ctx, first); err != nil {
			return err
		}
	}
	if total <= l.size || len(left) == 0 {
		return nil
	}
	if l.trimmed != left[0].day {
		l.trimmed = left[0].day
		l.log.Warn("the API log of a single day reached its bound: its oldest calls are dropped", "bound", l.size, "day", left[0].day.String())
	}
	return l.days.trim(ctx, left[0].day, left[0].bytes-(total-l.size))
}
