// Package apilog keeps the record of every call, for 32 days, and finds it
// again by account, time and what the call was.
//
// A row is copied into a slab of memory that all callers share, and the slab
// is written at most 100 ms later: the path of a request never waits for a
// disk that keeps pace. Whoever queries sees every row appended before. A
// process that is killed loses at most the rows of the last 100 ms, and of the
// time that one write takes: those not handed to the disk or the database yet.
// When the machine loses power, a file also lacks what its operating system had
// not written.
//
// The rows of a UTC day are one SQLite file, so forgetting a day is
// unlinking it, and an operator can look inside with sqlite3.
//
// Or they are one table in PostgreSQL, which the nodes of a region share. Then
// whoever queries also sees the rows that other nodes appended 100 ms before. A
// row that was written is on the disk of the database, once, even when the
// answer to that was lost. Rows wait in memory while the database is away; those
// that have waited for a minute are given up.
//
// The package keeps what it is given: who calls decides what is worth a row
// and masks it first, with [MaskHeader] and [MaskPayload].
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

// Options say where an Archive is kept, and on whose time. Now, After and Log must
// be given.
type Options struct {
	// Dir is the directory of the files, made when absent. When it is empty
	// the days are kept in memory, at most 1 GiB each, and end with Close.
	Dir string

	// Postgres leads to the database that has the days instead, for all nodes of
	// a region. The log makes its tables there. It takes a connection for its
	// writes and one for each query, and does not close the pool.
	Postgres *pgxpool.Pool

	// The clock of the region: it says which rows are too old.
	Now func() time.Time
	// The pause before a flush: time.After, or a test's own.
	After func(d time.Duration) <-chan time.Time
	Log   *slog.Logger  // Where rows lost and files damaged are told.
	Keep  time.Duration // How long a row can be found: 32 days when zero.
	// How long a row waits to be written: 100 ms when zero.
	Every time.Duration

	// Size is the room that the log may take, in bytes; zero: as much as there is.
	// It is measured after each 16 MiB written, so the log may take a little more.
	// The oldest days go first. When only today is left its oldest rows go, as new
	// ones come; on PostgreSQL all rows of today go and it begins anew, because
	// rows that are deleted there leave the disk much later.
	Size int64

	// Patience is how long rows or a query wait for a database that is away: a
	// minute when zero. Then the rows are lost.
	Patience time.Duration

	// Memory is how many bytes of rows may wait or be under way to the
	// disk: 64 MiB when zero. At the bound, Append waits.
	Memory int
}

// lastChance is how long Close waits for a database that is away, in the time
// that a supervisor leaves a process to end.
const lastChance = 5 * time.Second

var errClosed = errors.New("the API log is closed")

// An Archive is safe for concurrent use.
type Archive struct {
	keep     time.Duration
	every    time.Duration
	patience time.Duration
	size     int64 // that the days may have in all; 0: any
	// of the slab: a third of Options.Memory, as another and its copy may be under way to the
	// disk
	bound int
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
	log   *slog.Logger
	days  days

	writing context.Context // what is written and dropped ends with it
	giveUp  context.CancelCauseFunc

	// turn is held by whoever writes rows or takes files away; a channel, so
	// that waiting for it can be given up. It comes before mu.
	turn   chan struct{}
	spare  slab      // the slab that was written last, to be filled again
	oldest day       // what is before was dropped
	again  time.Time // no day is dropped before, because one could not be

	unmeasured int64 // bytes that were written since the days were measured
	trimmed    day   // the last day that was trimmed

	mu     sync.Mutex // guards the rest, for the time of a copy and never of I/O
	room   sync.Cond  // the slab was taken, or the log closed
	slab   slab
	closed bool

	wake chan struct{} // the slab has its first row
	full chan struct{} // somebody waits for room
	stop chan struct{}
	done chan struct{}
}

// Open opens the log kept in o.Dir and drops the days that are too old.
func Open(o Options) (*Archive, error) {
	if o.Now == nil || o.After == nil || o.Log == nil {
		return nil, errors.New("the API log needs Now, After and Log to be given")
	}
	if o.Dir != "" && o.Postgres != nil {
		return nil, errors.New("the API log is kept in a directory or in a database, and both were given")
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

// Append adds a row, and keeps nothing of r. It returns before the row is
// written.
//
// When the disk is slower than the callers, Append waits for room rather than
// drop the row: an audit trail with holes where the region was busiest would
// hide just what it is for. The wait ends even if the disk fails, for then
// the rows it refuses are counted, told and given up. Rows for a database that
// is away are given up after Options.Patience.
//
// A row appended once Close was called is lost.
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

// Flush returns when every row appended before it is written, or could not
// be: then the error says why, and the rows are lost. Rows whose flush is not
// waited for any more are written all the same.
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

// DropBefore forgets the days before the UTC day of t. The log does so by
// itself for days older than Options.Keep.
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
		case <-l.after(lastChance):
			l.giveUp(errClosed)
		case <-l.writing.Done():
		}
	}()
	l.turn <- struct{}{}
	defer func() {
		<-l.turn
		<-l.done // of the turn first: run may be waiting for it
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
		// What went wrong was told where it happened; nobody waits here.
		_ = l.Flush(context.Background())
	}
}

// flush writes the slab, and drops the days that have become too old. The
// caller has the turn.
func (l *Archive) flush() error {
	l.mu.Lock()
	taken := l.slab
	l.slab, l.spare = l.spare, slab{}
	l.room.Broadcast()
	l.mu.Unlock()

	ctx, cancel := l.limited(l.writing)
	defer cancel()
	err, size := l.write(ctx, &taken), taken.size()
	if cap(taken.text) <= max(4*len(taken.text), 1<<20) { // a rare burst should not hold its memory for ever
		taken.reset()
		l.spare = taken
	}
	l.dropOld(ctx)
	l.grown(ctx, size)
	return err
}

// write writes the rows of s. Those that cannot be written are lost: the region
// goes on.
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

// dropOld drops the days of which no row can be found any more. The caller has
// the turn.
func (l *Archive) dropOld(ctx context.Context) {
	first, now := dayOf(l.horizon()), l.now()
	if first <= l.oldest || now.Before(l.again) {
		return
	}
	if err := l.days.drop(ctx, first); err != nil {
		l.again = now.Add(time.Hour)
		l.log.Error("days of the API log that are too old could not be dropped, which is tried again in an hour", "before", first.String(), "cause", err)
		return
	}
	l.oldest = first
}

// limited is a context for what waits no longer than the log has patience.
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

// horizon is the date of the oldest row that can be found.
func (l *Archive) horizon() int64 {
	return milli(l.now().Add(-l.keep))
}

// milli is the first millisecond that is not before t.
func milli(t time.Time) int64 {
	return t.Add(time.Millisecond - 1).UnixMilli()
}

// signal leaves a token in c, unless one is there already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
