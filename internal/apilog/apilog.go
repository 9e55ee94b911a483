// Package apilog keeps the record of every call for 32 days, and finds it by
// account, time and properties of the call.
//
// A row is copied into a slab of memory that all callers share, and the slab is
// written at most 100 ms later: the path of a request never waits for a disk
// that keeps up. A query sees every row appended before it. A process that is
// killed loses at most the rows of the last 100 ms and of the duration of one
// write: those not handed to the disk or the database yet. When the machine
// loses power, a file also lacks what its operating system had not written.
//
// The rows of a UTC day are one SQLite file, so a day is removed by unlinking
// its file, and an operator can look inside with sqlite3.
//
// Or they are one table in PostgreSQL, which the nodes of a region share. Then
// a query also sees the rows that other nodes appended 100 ms earlier. A
// written row is on the disk of the database, once, even if the database's
// reply was lost. Rows wait in memory while the database is away; rows that
// have waited for a minute are dropped.
//
// The caller decides which calls deserve a row, and masks secrets first with
// [MaskHeader] and [MaskPayload].
package apilog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Options configures an Archive. Now, After and Log are required.
type Options struct {
	// Dir is the directory of the files, created if it does not exist. If it is
	// empty, the days are kept in memory, at most 1 GiB each, until Close.
	Dir string

	// Postgres is the database to use instead of files, shared by all nodes of
	// a region. The log creates its tables there. It takes a connection for its
	// writes and one for each query, and does not close the pool.
	Postgres *pgxpool.Pool

	// Now is the clock of the region, which decides which rows are too old.
	Now func() time.Time
	// After is the timer for pauses: time.After, or a test's own.
	After func(d time.Duration) <-chan time.Time
	Log   *slog.Logger  // reports lost rows and damaged files
	Keep  time.Duration // how long a row can be found; 32 days if zero
	// Every is how long a row waits to be written; 100 ms if zero.
	Every time.Duration

	// Size is the maximum size of the log in bytes; zero: unlimited. It is
	// measured after each 16 MiB written, so the log may exceed it a little.
	// The oldest days are dropped first. When only today is left, its oldest
	// rows are dropped as new ones come; on PostgreSQL all rows of today are
	// dropped, because deleted rows leave the disk much later there.
	Size int64

	// Patience is how long rows or a query wait for a database that is away; a
	// minute if zero. Then the rows are lost.
	Patience time.Duration

	// Memory is the maximum size in bytes of the rows that wait or are being
	// written; 64 MiB if zero. Append waits while it is reached.
	Memory int
}

// closePatience is how long Close waits for a database that is away, within the
// time that a supervisor gives a process to end.
const closePatience = 5 * time.Second

var errClosed = errors.New("the API log is closed")

// Archive is the API log. It is safe for concurrent use.
type Archive struct {
	keep     time.Duration
	every    time.Duration
	patience time.Duration
	size     int64 // maximum size of all days; 0: unlimited
	// maximum size of the slab: a third of Options.Memory, because another slab
	// and its copy may be being written
	bound int
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
	log   *slog.Logger
	days  days

	writing context.Context // writes and drops end with it
	giveUp  context.CancelCauseFunc

	// turn is the lock for writing rows and removing files; a channel, so that
	// waiting for it can be abandoned. It is taken before mu.
	turn    chan struct{}
	spare   slab      // the slab that was written last, for reuse
	oldest  day       // earlier days were dropped
	retryAt time.Time // when to try again to drop days, after a failure

	unmeasured int64 // bytes written since the days were measured
	trimmed    day   // the last day that was trimmed

	mu     sync.Mutex // guards the fields below; never held during I/O
	room   sync.Cond  // the slab has room again, or the log is closed
	slab   slab
	closed bool

	wake chan struct{} // the slab has its first row
	full chan struct{} // an Append waits for room
	stop chan struct{}
	done chan struct{}
}

// Open opens the log and drops the days that are too old.
func Open(o Options) (*Archive, error) {
	if o.Now == nil || o.After == nil || o.Log == nil {
		return nil, errors.New("the API log needs the options Now, After and Log")
	}
	if o.Dir != "" && o.Postgres != nil {
		return nil, errors.New("the API log is kept in either a directory or a database, but both were given")
	}
	if o.Keep == 0 {
		o.Keep = 32 * 24 * time.Hour
	}
	if o.Every == 0 {
		o.Every = 100 * time.Millisecond
	}
	if o.Memory == 0 {
		o.Memory = 64 << 20
	}
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	l := &Archive{
		keep:     o.Keep,
		every:    o.Every,
		patience: o.Patience,
		size:     o.Size,
		trimmed:  math.MinInt64,
		bound:    o.Memory / 3,
		now:      o.Now,
		after:    o.After,
		log:      o.Log,
		turn:     make(chan struct{}, 1),
		wake:     make(chan struct{}, 1),
		full:     make(chan struct{}, 1),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	l.room.L = &l.mu
	l.writing, l.giveUp = context.WithCancelCause(context.Background())
	ctx, cancel := l.limited(l.writing)
	defer cancel()
	var err error
	if o.Postgres != nil {
		l.days, err = openTables(ctx, o.Postgres, o.After, o.Log)
	} else {
		l.days, err = openFiles(o.Dir, l.turn, o.Log)
	}
	if err != nil {
		l.giveUp(err)
		return nil, err
	}
	l.dropOld(ctx)
	if l.size > 0 {
		l.fit(ctx)
	}
	go l.run()
	return l, nil
}

// Append adds a row. It does not retain r, and returns before the row is
// written.
//
// When the disk is slower than the callers, Append waits for room rather than
// drop the row: an audit trail with holes where the region was busiest would
// hide just what it is for. The wait ends even if the disk fails, because the
// rows that it refuses are counted, logged and dropped. Rows for a database
// that is away are dropped after Options.Patience.
//
// A row appended after Close is lost.
func (l *Archive) Append(r *Record) {
	l.mu.Lock()
	for l.slab.size() >= l.bound && !l.closed {
		signal(l.full)
		l.room.Wait()
	}
	first := l.slab.rows() == 0
	l.slab.add(r)
	l.mu.Unlock()
	if first {
		signal(l.wake)
	}
}

// Flush returns when every row appended before it is written, or an error if
// rows could not be written and are lost. When ctx ends, Flush returns and the
// rows are written all the same.
func (l *Archive) Flush(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.isClosed() {
		<-l.turn
		return errClosed
	}
	written := make(chan error, 1)
	go func() {
		err := l.flush()
		<-l.turn
		written <- err
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// DropBefore removes the days before the UTC day of t. The log itself removes
// days older than Options.Keep.
func (l *Archive) DropBefore(t time.Time) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	ctx, cancel := l.limited(l.writing)
	defer cancel()
	return l.days.drop(ctx, dayOf(t.UnixMilli()))
}

// Close writes the rows that wait and closes the files. It waits for the
// queries under way, and for 5 seconds for a database that is away.
func (l *Archive) Close() error {
	defer l.giveUp(errClosed)
	go func() {
		select {
		case <-l.after(closePatience):
			l.giveUp(errClosed)
		case <-l.writing.Done():
		}
	}()
	l.turn <- struct{}{}
	defer func() {
		<-l.turn
		<-l.done // after the turn, which run may wait for
	}()
	if l.isClosed() {
		return errClosed
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	close(l.stop)
	return errors.Join(l.flush(), l.days.close())
}

// run flushes the slab a moment after its first row, so an idle log sleeps.
func (l *Archive) run() {
	defer close(l.done)
	for {
		select {
		case <-l.wake:
		case <-l.stop:
			return
		}
		select {
		case <-l.after(l.every):
		case <-l.full:
		case <-l.stop:
			return
		}
		// An error was logged where it happened.
		_ = l.Flush(context.Background())
	}
}

// flush writes the slab, and drops the days that have become too old. The
// caller holds the turn.
func (l *Archive) flush() error {
	l.mu.Lock()
	taken := l.slab
	l.slab, l.spare = l.spare, slab{}
	l.room.Broadcast()
	l.mu.Unlock()

	ctx, cancel := l.limited(l.writing)
	defer cancel()
	err, size := l.write(ctx, &taken), taken.size()
	if cap(taken.text) <= max(4*len(taken.text), 1<<20) { // a rare burst must not keep its memory for ever
		taken.reset()
		l.spare = taken
	}
	l.dropOld(ctx)
	l.grown(ctx, size)
	return err
}

// write writes the rows of s. Rows that cannot be written are lost, because the
// region must go on.
func (l *Archive) write(ctx context.Context, s *slab) error {
	rows := rowReader{numbers: s.numbers, text: string(s.text)}
	var lost []error
	for rows.more() {
		on, part := rows.splitDay()
		if err := l.days.write(ctx, on, part); err != nil {
			l.log.Error("rows of the API log could not be written and are lost", "day", on.String(), "rows", part.rows(), "cause", err)
			lost = append(lost, fmt.Errorf("writing the API log of %s: %w", on, err))
		}
	}
	return errors.Join(lost...)
}

// dropOld drops the days whose rows can no longer be found. The caller holds
// the turn.
func (l *Archive) dropOld(ctx context.Context) {
	first, now := dayOf(l.horizon()), l.now()
	if first <= l.oldest || now.Before(l.retryAt) {
		return
	}
	if err := l.days.drop(ctx, first); err != nil {
		l.retryAt = now.Add(time.Hour)
		l.log.Error("days of the API log that are too old could not be dropped: the next attempt is in an hour", "before", first.String(),
			"cause", err)
		return
	}
	l.oldest = first
}

// limited returns a context that ends after the log's patience.
func (l *Archive) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	limit := l.after(l.patience)
	go func() {
		select {
		case <-limit:
			cancel(fmt.Errorf("it took longer than %v", l.patience))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (l *Archive) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// horizon returns the date of the oldest row that can be found.
func (l *Archive) horizon() int64 {
	return milli(l.now().Add(-l.keep))
}

// milli returns the first millisecond that is not before t.
func milli(t time.Time) int64 {
	return t.Add(time.Millisecond - 1).UnixMilli()
}

// signal puts a token into c, unless there is one already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
