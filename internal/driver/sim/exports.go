package sim

import (
	"context"
	"errors"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// write is what becomes of the file of an export.
type write struct {
	cancel  func()
	removed bool // the export is, and the file is not wanted any more
	over    chan struct{}
	percent int // of the file that is written so far
	written bool
	failure string
}

// writesAtOnce bounds how many files are written at a time: each takes room on
// the disk of the process, and what reads or sends it.
const writesAtOnce = 4

// A call waits this long for a file, so that a short one is there at once, and
// who is told to come again comes after the pace.
const patience, writePace = 100 * time.Millisecond, time.Second

// EnsureExport implements [driver.Disks]. The file of an export that is due is
// written by itself, however long that takes.
func (w *Driver) EnsureExport(ctx context.Context, e driver.Export) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "EnsureExport"); err != nil {
		return err
	}
	if err := w.exports.make(e); err != nil || w.broken[e.ID] != "" {
		return err
	}
	at := place{e.Account, e.ID}
	file := w.writes[at]
	if file == nil {
		file = w.begin(at, e)
	}
	var enough <-chan time.Time
	if w.After != nil {
		enough = w.After(patience)
	}
	err := w.unlocked(func() error {
		select {
		case <-file.over:
			return nil
		case <-enough:
			return driver.Later{At: w.now().Add(writePace)}
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	switch {
	case err != nil:
		return err
	case file.removed:
		return errRemoved
	case !file.written && file.failure == "":
		return w.life.Err()
	}
	return nil
}

// errRemoved answers who waits for an export that somebody else has removed.
var errRemoved = errors.New("the export was removed while it was written")

// begin has the file of an export written. The caller holds the mutex.
func (w *Driver) begin(at place, e driver.Export) *write {
	size := int64(e.Size) << 30
	if size == 0 {
		size = w.size(e.From)
	}
	ctx, cancel := context.WithCancel(w.life)
	file := &write{cancel: cancel, over: make(chan struct{})}
	w.writes[at] = file
	w.writing.Go(func() {
		defer cancel()
		err := w.write(ctx, e, size, file)
		w.mu.Lock()
		defer w.mu.Unlock()
		close(file.over)
		switch {
		case file.removed || w.life.Err() != nil:
			delete(w.writes, at)
		case err != nil:
			file.failure = err.Error()
		default:
			file.written = true
		}
	})
	return file
}

// unlocked does what takes long without the mutex, which the caller holds.
func (w *Driver) unlocked(do func() error) error {
	w.mu.Unlock()
	defer w.mu.Lock()
	return do()
}

func (w *Driver) write(ctx context.Context, e driver.Export, size int64, file *write) error {
	if w.Write == nil {
		return errors.New("this driver has no object store")
	}
	select {
	case w.writers <- struct{}{}:
		defer func() { <-w.writers }()
	case <-ctx.Done():
		return ctx.Err()
	}
	// There is nothing on the disks of the driver.
	return w.Write(ctx, e, size, nil, func(percent int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		file.percent = max(file.percent, percent)
	})
}

// Close ends what the driver does by itself: files that are being written are
// given up. Nobody may ask it for exports any more.
func (w *Driver) Close() {
	w.end()
	w.writing.Wait()
}

// RemoveExport implements [driver.Disks]. Once it answers nil, nobody writes
// any more.
func (w *Driver) RemoveExport(ctx context.Context, account, id string) error {
	if err := w.exports.remove(ctx, account, id); err != nil {
		return err
	}
	w.mu.Lock()
	file := w.writes[place{account, id}]
	w.mu.Unlock()
	if file == nil {
		return nil
	}
	select {
	case <-file.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// removed ends the writing of an export that is no more.
func (w *Driver) removed(at place, is *driver.Export, _ time.Time) {
	file := w.writes[at]
	switch {
	case is != nil || file == nil:
	case file.written || file.failure != "":
		delete(w.writes, at)
	default:
		file.removed = true
		file.cancel()
	}
}

// ObserveExports implements [driver.Disks].
func (w *Driver) ObserveExports(ctx context.Context) (seen []driver.ExportStatus, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "ObserveExports"); err != nil {
		return nil, err
	}
	for _, e := range w.exports.seen() {
		seen = append(seen, w.exportStatus(e))
	}
	return seen, nil
}

// Export implements [driver.Disks].
func (w *Driver) Export(ctx context.Context, account, id string) (driver.ExportStatus, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "Export"); err != nil {
		return driver.ExportStatus{}, false, err
	}
	e, ok := w.exports.look(place{account, id})
	if !ok {
		return driver.ExportStatus{}, false, nil
	}
	return w.exportStatus(e), true, nil
}

// exportStatus says how far an export is. The caller holds the mutex.
func (w *Driver) exportStatus(e driver.Export) driver.ExportStatus {
	e.SecretKey = ""
	at := place{e.Account, e.ID}
	status, file := driver.ExportStatus{Export: e, Failure: w.broken[e.ID]}, w.writes[at]
	if status.Failure == "" && file != nil {
		status.Failure = file.failure
	}
	status.Progress = w.exports.progress(at, status.Failure == "" && file != nil && file.written)
	if status.Progress == 99 && file != nil {
		status.Progress = 75 + min(file.percent, 99)/4 // the last quarter is the file
	}
	return status
}
