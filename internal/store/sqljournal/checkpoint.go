package sqljournal

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/bastide-cloud/bastide/internal/store"
)

// checkpointer copies the write-ahead log to region.db as often as there are
// commits: an idle region writes nothing.
//
// A passive checkpoint neither waits for writers nor blocks them. But the log
// restarts only after all of it was copied, and continuous commits keep it
// ahead for ever. So once it is large, one more checkpoint copies the little
// that is left while commits are held up.
type checkpointer struct {
	conn *sqlite.Conn
	wake chan struct{}
	done chan struct{}

	every        int64 // bytes that are committed between two checkpoints
	restartAbove int64 // bytes of the log
	// bytes that await a checkpoint, since the last wake-up; guarded by SQLite.writing
	written int64
}

func newCheckpointer() *checkpointer {
	return &checkpointer{
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
		// Enough that a page which many commits write is copied once, and so
		// little that it takes a fraction of a second.
		every:        32 << 20,
		restartAbove: 256 << 20,
	}
}

const sqlitePage = 4096

func (c *checkpointer) connect(path string) (err error) {
	if c.conn, err = sqlite.OpenConn(path, sqlite.OpenReadWrite); err != nil {
		return err
	}
	// A reader in the way is no reason to wait: the next checkpoint comes.
	c.conn.SetBusyTimeout(0)
	return nil
}

// committed counts what a commit wrote, and wakes the goroutine when it is
// enough.
func (c *checkpointer) committed(batches []store.Batch) {
	c.written += logged(batches)
	if c.written < c.every {
		return
	}
	c.written = 0
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// logged estimates the bytes that a commit adds to the log, which has whole
// pages: for an account one of its table and one of the index of pending
// accounts, for a row one of its table and one of the index, and its document. It
// is too much where rows share pages, so that the log is not longer than it seems.
func logged(batches []store.Batch) (bytes int64) {
	for _, b := range batches {
		bytes += 2 * sqlitePage
		for _, r := range b.Rows {
			bytes += 2*sqlitePage + int64(len(r.Doc))
		}
	}
	return bytes
}

// stop lets the checkpoint under way end.
func (c *checkpointer) stop() {
	close(c.wake)
	<-c.done
}

// checkpoints runs until stop. Commits stay durable when a checkpoint fails,
// but the log grows; so the failure is only logged.
func (j *SQLite) checkpoints() {
	defer close(j.checkpointer.done)
	for range j.checkpointer.wake {
		if err := j.explain(context.Background(), j.checkpoint()); err != nil {
			j.log.Error("the journal's log could not be copied to region.db, and grows", "dir", j.dir, "error", err)
		}
	}
}

func (j *SQLite) checkpoint() error {
	c := j.checkpointer
	size, err := c.run("PASSIVE")
	if err != nil || size <= c.restartAbove {
		return err
	}
	j.log.Debug("commits wait for the journal's log to start anew", "dir", j.dir, "bytes", size)
	j.writing.Lock()
	defer j.writing.Unlock()
	_, err = c.run("RESTART")
	return err
}

// copyLeft copies to region.db what an earlier process has left in the log, which
// the process did not do if it was killed. Otherwise the log of a region that is
// killed again and again grows for ever, and each start reads all of it. A
// connection of the operator's in the way is not waited for, and a disk that is
// full does not prevent a start: what stays in the log counts as written.
func (j *SQLite) copyLeft(ctx context.Context) error {
	c := j.checkpointer
	c.conn.SetInterrupt(ctx.Done())
	defer c.conn.SetInterrupt(nil)
	left, err := c.run("TRUNCATE")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err = j.explain(ctx, err); err != nil {
		j.log.Error("what an earlier process left in the journal's log could not be copied to region.db", "dir", j.dir, "error", err)
		left = c.every
	}
	c.written = left
	return nil
}

// run runs a checkpoint and returns the bytes in the log, copied or not.
func (c *checkpointer) run(mode string) (size int64, err error) {
	stmt, err := c.conn.Prepare("PRAGMA wal_checkpoint(" + mode + ")")
	if err != nil {
		return 0, err
	}
	defer stmt.Reset()
	found, err := stmt.Step()
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("the checkpoint answered nothing")
	}
	return stmt.ColumnInt64(1) * sqlitePage, nil
}
