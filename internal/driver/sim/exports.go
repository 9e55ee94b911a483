package sim

import (
	"context"
	"errors"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// write is the writing of one export's file.
type write struct {
	cancel  func()
	removed bool // the export was removed, so the file is not needed
	done    chan struct{}
	percent int // written so far
	written bool
	failure string
}

// maxWrites is the maximum number of files written at once, because each takes
// space on the disk of the process and bandwidth.
const maxWrites = 4

// A call waits up to patience for a file, so that a small one is done at once.
// A caller that gets Later is asked to come back after writePace.
const patience, writePace = 100 * time.Millisecond, time.Second

// EnsureExport implements [driver.Disks]. The file of an export that is due is
// written in the background.
func (drv *Driver) EnsureExport(ctx context.Context, e driver.Export) error {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "EnsureExport"); err != nil {
		return err
	}
	if err := drv.exports.build(e); err != nil || drv.broken[e.ID] != "" {
		return err
	}
	at := place{e.Account, e.ID}
	file := drv.writes[at]
	if file == nil {
		file = drv.begin(at, e)
	}
	var timeout <-chan time.Time
	if drv.After != nil {
		timeout = drv.After(patience)
	}
	err := drv.unlocked(func() error {
		select {
		case <-file.done:
			return nil
		case <-timeout:
			return driver.Later{At: drv.now().Add(writePace)}
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
		return drv.background.Err()
	}
	return nil
}

// errRemoved is returned to callers that wait for an export that another caller
// has removed.
var errRemoved = errors.New("the export was removed while it was written")

// begin starts writing the file of an export. The caller holds the mutex.
func (drv *Driver) begin(at place, e driver.Export) *write {
	size := int64(e.Size) << 30
	if size == 0 {
		size = drv.size(e.From)
	}
	ctx, cancel := context.WithCancel(drv.background)
	file := &write{cancel: cancel, done: make(chan struct{})}
	drv.writes[at] = file
	drv.writing.Go(func() {
		defer cancel()
		err := drv.write(ctx, e, size, file)
		drv.mu.Lock()
		defer drv.mu.Unlock()
		close(file.done)
		switch {
		case file.removed || drv.background.Err() != nil:
			delete(drv.writes, at)
		case err != nil:
			file.failure = err.Error()
		default:
			file.written = true
		}
	})
	return file
}

// unlocked runs a slow function without the mutex, which the caller holds.
func (drv *Driver) unlocked(do func() error) error {
	drv.mu.Unlock()
	defer drv.mu.Lock()
	return do()
}

func (drv *Driver) write(ctx context.Context, e driver.Export, size int64, file *write) error {
	if drv.Write == nil {
		return errors.New("this driver has no object store")
	}
	select {
	case drv.writers <- struct{}{}:
		defer func() { <-drv.writers }()
	case <-ctx.Done():
		return ctx.Err()
	}
	// Simulated disks have no content.
	return drv.Write(ctx, e, size, nil, func(percent int) {
		drv.mu.Lock()
		defer drv.mu.Unlock()
		file.percent = max(file.percent, percent)
	})
}

// Close stops the driver's background work: files that are being written are
// abandoned. EnsureExport must not be called after it.
func (drv *Driver) Close() {
	drv.end()
	drv.writing.Wait()
}

// RemoveExport implements [driver.Disks]. Once it has returned nil, the file is
// no longer written.
func (drv *Driver) RemoveExport(ctx context.Context, account, id string) error {
	if err := drv.exports.remove(ctx, account, id); err != nil {
		return err
	}
	drv.mu.Lock()
	file := drv.writes[place{account, id}]
	drv.mu.Unlock()
	if file == nil {
		return nil
	}
	select {
	case <-file.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// removed stops the writing of an export that was removed.
func (drv *Driver) removed(at place, current *driver.Export, _ time.Time) {
	file := drv.writes[at]
	switch {
	case current != nil || file == nil:
	case file.written || file.failure != "":
		delete(drv.writes, at)
	default:
		file.removed = true
		file.cancel()
	}
}

// ObserveExports implements [driver.Disks].
func (drv *Driver) ObserveExports(ctx context.Context) (list []driver.ExportStatus, err error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "ObserveExports"); err != nil {
		return nil, err
	}
	for _, e := range drv.exports.list() {
		list = append(list, drv.exportStatus(e))
	}
	return list, nil
}

// Export implements [driver.Disks].
func (drv *Driver) Export(ctx context.Context, account, id string) (driver.ExportStatus, bool, error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "Export"); err != nil {
		return driver.ExportStatus{}, false, err
	}
	e, ok := drv.exports.get(place{account, id})
	if !ok {
		return driver.ExportStatus{}, false, nil
	}
	return drv.exportStatus(e), true, nil
}

// exportStatus returns the status of an export. The caller holds the mutex.
func (drv *Driver) exportStatus(e driver.Export) driver.ExportStatus {
	e.SecretKey = ""
	at := place{e.Account, e.ID}
	status, file := driver.ExportStatus{Export: e, Failure: drv.broken[e.ID]}, drv.writes[at]
	if status.Failure == "" && file != nil {
		status.Failure = file.failure
	}
	status.Progress = drv.exports.progress(at, status.Failure == "" && file != nil && file.written)
	if status.Progress == 99 && file != nil {
		status.Progress = 75 + min(file.percent, 99)/4 // the last quarter is the file
	}
	return status
}
