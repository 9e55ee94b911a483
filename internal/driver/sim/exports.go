package sim

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// write is what becomes of the file of an export.
type write struct {
	cancel  func()
	removed bool // the export is, and the file is not wanted any more
	over    chan struct{}
	written bool
	failure string
}

// errRemoved answers who asked for an export that somebody else has removed.
var errRemoved = errors.New("the export was removed while it was written")

// EnsureExport implements [driver.Disks]. The call that finds the export due
// writes it.
func (w *World) EnsureExport(ctx context.Context, e driver.Export) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "EnsureExport"); err != nil {
		return err
	}
	if err := w.exports.make(e); err != nil {
		return err
	}
	at := place{e.Account, e.ID}
	file := w.writes[at]
	switch {
	case w.broken[e.ID] != "" || file != nil && (file.written || file.failure != ""):
		return nil
	case file != nil:
		return driver.Later{At: w.now().Add(time.Second)} // another call writes it
	}
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	file = &write{cancel: cancel, over: make(chan struct{})}
	w.writes[at] = file
	size := int64(e.Size) << 30
	if size == 0 {
		size = w.size(e.From)
	}
	err := w.unlocked(func() error { return w.write(writing, e, size) })
	close(file.over)
	switch {
	case file.removed:
		delete(w.writes, at)
		return errRemoved
	case err != nil && ctx.Err() != nil:
		delete(w.writes, at) // so that the next call writes it again
		return ctx.Err()
	case err != nil:
		file.failure = err.Error()
	default:
		file.written = true
	}
	return nil
}

// unlocked does what takes long without the mutex, which the caller holds.
func (w *World) unlocked(do func() error) error {
	w.mu.Unlock()
	defer w.mu.Lock()
	return do()
}

func (w *World) write(ctx context.Context, e driver.Export, size int64) error {
	if w.Write == nil {
		return errors.New("this world has no object store")
	}
	return w.Write(ctx, e, size, io.LimitReader(zeroes{}, size))
}

// zeroes is what is on all disks of the world.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// RemoveExport implements [driver.Disks]. Once it answers nil, nobody writes
// any more.
func (w *World) RemoveExport(ctx context.Context, account, id string) error {
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
func (w *World) removed(at place, is *driver.Export, _ time.Time) {
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
func (w *World) ObserveExports(ctx context.Context) (seen []driver.ExportStatus, err error) {
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
func (w *World) Export(ctx context.Context, account, id string) (driver.ExportStatus, bool, error) {
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
func (w *World) exportStatus(e driver.Export) driver.ExportStatus {
	e.SecretKey = ""
	at := place{e.Account, e.ID}
	status, file := driver.ExportStatus{Export: e, Failure: w.broken[e.ID]}, w.writes[at]
	if status.Failure == "" && file != nil {
		status.Failure = file.failure
	}
	status.Progress = w.exports.progress(at, status.Failure == "" && file != nil && file.written)
	return status
}
