package sim

import (
	"context"

	"github.com/bastide-cloud/bastide/internal/driver"
)

var _ driver.Disks = (*Driver)(nil)

// EnsureDisk implements [driver.Disks].
func (drv *Driver) EnsureDisk(ctx context.Context, d driver.Disk) error {
	return drv.disks.ensure(ctx, d)
}

// RemoveDisk implements [driver.Disks].
func (drv *Driver) RemoveDisk(ctx context.Context, account, id string) error {
	return drv.disks.remove(ctx, account, id)
}

// ObserveDisks implements [driver.Disks].
func (drv *Driver) ObserveDisks(ctx context.Context) ([]driver.Disk, error) {
	return drv.disks.observe(ctx)
}

// EnsureSnapshot implements [driver.Disks].
func (drv *Driver) EnsureSnapshot(ctx context.Context, s driver.Snapshot) error {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "EnsureSnapshot"); err != nil {
		return err
	}
	return drv.snapshots.build(s)
}

// RemoveSnapshot implements [driver.Disks].
func (drv *Driver) RemoveSnapshot(ctx context.Context, account, id string) error {
	return drv.snapshots.remove(ctx, account, id)
}

// ObserveSnapshots implements [driver.Disks].
func (drv *Driver) ObserveSnapshots(ctx context.Context) (list []driver.SnapshotStatus, err error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "ObserveSnapshots"); err != nil {
		return nil, err
	}
	for _, s := range drv.snapshots.list() {
		list = append(list, drv.snapshotStatus(s))
	}
	return list, nil
}

// Snapshot implements [driver.Disks].
func (drv *Driver) Snapshot(ctx context.Context, account, id string) (driver.SnapshotStatus, bool, error) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	if err := drv.fault(ctx, "Snapshot"); err != nil {
		return driver.SnapshotStatus{}, false, err
	}
	s, ok := drv.snapshots.get(place{account, id})
	if !ok {
		return driver.SnapshotStatus{}, false, nil
	}
	return drv.snapshotStatus(s), true, nil
}

// snapshotStatus returns the status of a snapshot. The caller holds the mutex.
func (drv *Driver) snapshotStatus(s driver.Snapshot) driver.SnapshotStatus {
	status := driver.SnapshotStatus{Snapshot: s, Failure: drv.broken[s.ID]}
	status.Progress = drv.snapshots.progress(place{s.Account, s.ID}, status.Failure == "")
	return status
}

// Break makes the snapshot or the export with the ID fail for good, with a
// reason. It may be called before the resource exists.
func (drv *Driver) Break(id, why string) {
	drv.mu.Lock()
	defer drv.mu.Unlock()
	drv.broken[id] = why
}

// size returns the size of a part of a snapshot in bytes; 0 if it is not known.
func (drv *Driver) size(name driver.SnapshotName) int64 {
	for at := range drv.snapshots.at {
		t := drv.snapshots.item(at)
		if t.current == nil || at.account != name.Account {
			continue
		}
		for _, part := range t.current.Parts {
			if part.ID == name.ID {
				return int64(part.Size) << 30
			}
		}
	}
	return 0
}

// ownDisk returns a copy that shares nothing with the disk.
func ownDisk(d driver.Disk) driver.Disk {
	d.From = ownName(d.From)
	return d
}

// ownSnapshot returns a copy that shares nothing with the snapshot.
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
