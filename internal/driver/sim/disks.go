package sim

import (
	"context"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Disks = (*Driver)(nil)

// EnsureDisk implements [driver.Disks].
func (w *Driver) EnsureDisk(ctx context.Context, d driver.Disk) error { return w.disks.ensure(ctx, d) }

// RemoveDisk implements [driver.Disks].
func (w *Driver) RemoveDisk(ctx context.Context, account, id string) error {
	return w.disks.remove(ctx, account, id)
}

// ObserveDisks implements [driver.Disks].
func (w *Driver) ObserveDisks(ctx context.Context) ([]driver.Disk, error) {
	return w.disks.observe(ctx)
}

// EnsureSnapshot implements [driver.Disks].
func (w *Driver) EnsureSnapshot(ctx context.Context, s driver.Snapshot) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "EnsureSnapshot"); err != nil {
		return err
	}
	return w.snapshots.make(s)
}

// RemoveSnapshot implements [driver.Disks].
func (w *Driver) RemoveSnapshot(ctx context.Context, account, id string) error {
	return w.snapshots.remove(ctx, account, id)
}

// ObserveSnapshots implements [driver.Disks].
func (w *Driver) ObserveSnapshots(ctx context.Context) (seen []driver.SnapshotStatus, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "ObserveSnapshots"); err != nil {
		return nil, err
	}
	for _, s := range w.snapshots.seen() {
		seen = append(seen, w.snapshotStatus(s))
	}
	return seen, nil
}

// Snapshot implements [driver.Disks].
func (w *Driver) Snapshot(ctx context.Context, account, id string) (driver.SnapshotStatus, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fault(ctx, "Snapshot"); err != nil {
		return driver.SnapshotStatus{}, false, err
	}
	s, ok := w.snapshots.look(place{account, id})
	if !ok {
		return driver.SnapshotStatus{}, false, nil
	}
	return w.snapshotStatus(s), true, nil
}

// snapshotStatus says how far a snapshot is. The caller holds the mutex.
func (w *Driver) snapshotStatus(s driver.Snapshot) driver.SnapshotStatus {
	status := driver.SnapshotStatus{Snapshot: s, Failure: w.broken[s.ID]}
	status.Progress = w.snapshots.progress(place{s.Account, s.ID}, status.Failure == "")
	return status
}

// Break makes the snapshot or the export of an id fail for good, for a reason.
// It may be called before there is one.
func (w *Driver) Break(id, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[id] = why
}

// size is that of a part of a snapshot in bytes; 0 if it is not known.
func (w *Driver) size(name driver.SnapshotName) int64 {
	for at := range w.snapshots.at {
		t := w.snapshots.thing(at)
		if t.is == nil || at.account != name.Account {
			continue
		}
		for _, part := range t.is.Parts {
			if part.ID == name.ID {
				return int64(part.Size) << 30
			}
		}
	}
	return 0
}

// ownDisk is a copy that shares nothing with the disk.
func ownDisk(d driver.Disk) driver.Disk {
	d.From = ownName(d.From)
	return d
}

// ownSnapshot is a copy that shares nothing with the snapshot.
func ownSnapshot(s driver.Snapshot) driver.Snapshot {
	s.Parts = own(s.Parts, func(p *driver.SnapshotPart) { p.Copy = ownName(p.Copy) })
	return s
}

func ownName(name *driver.SnapshotName) *driver.SnapshotName {
	if name == nil {
		return nil
	}
	return new(*name)
}
