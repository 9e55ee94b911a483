package compute

import (
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NewSnapshotLoop makes the loop that brings snapshots to a driver, those of one
// instant as one value, and notes how far they are.
func NewSnapshotLoop(db *resource.DB, disks driver.Disks) reconcile.Loop {
	return reconcile.For(db, snapshotSets, reconcile.Ops[snapshotSet, driver.Snapshot, driver.SnapshotStatus]{
		Want: func(tx *resource.Tx, s *snapshotSet) (*driver.Snapshot, error) {
			if s.waits() { // a VM that is off wakes the loop
				return nil, nil
			}
			return wantedSnapshot(tx.Account(), s), nil
		},
		Ensure: reconcile.ApplyAndReport(disks.EnsureSnapshot, disks.Snapshot),
		Remove: disks.RemoveSnapshot,
		Note: func(tx *resource.Tx, s *snapshotSet, _ driver.Snapshot, status driver.SnapshotStatus) error {
			if status.Failure == "" {
				status.Progress = 100
			}
			return s.note(tx, status)
		},
		Progress: func(tx *resource.Tx, s *snapshotSet, _ driver.Snapshot, status driver.SnapshotStatus, _ time.Time) error {
			status.Progress = min(status.Progress, 99) // all parts are there, and one is to go
			if status.Failure != "" {
				s.ObservedGeneration = s.Generation
			}
			return s.note(tx, status)
		},
		Observe: reconcile.List(disks.ObserveSnapshots, nil),
	})
}

// wantedSnapshot is a set as the driver should have it.
func wantedSnapshot(account string, s *snapshotSet) *driver.Snapshot {
	want := &driver.Snapshot{Account: account, ID: string(s.SetId), Generation: s.Generation}
	for _, part := range s.Parts {
		p := driver.SnapshotPart{ID: string(part.SnapshotId), Disk: string(part.Volume), URL: string(part.FileLocation), Image: part.Image,
			Size: part.Size}
		if part.Copied != "" {
			p.Copy = &driver.SnapshotName{Account: string(part.CopiedFrom), ID: string(part.Copied)}
		}
		want.Parts = append(want.Parts, p)
	}
	return want
}

// note notes how far the driver is with a set: its instant is over. What was deleted
// since the driver was asked stays so.
func (s *snapshotSet) note(tx *resource.Tx, status driver.SnapshotStatus) error {
	if err := s.letRun(tx); err != nil {
		return err
	}
	if status.Progress == 0 && status.Failure == "" {
		return nil
	}
	event := snapshotEvent(status)
	for _, part := range s.Parts {
		snapshot, err := Snapshots.Get(tx, part.SnapshotId)
		if err != nil {
			return err
		}
		if err := snapshot.advance(tx, event, status.Progress); err != nil {
			return err
		}
	}
	if event == snapshotBegun {
		return nil
	}
	for _, part := range s.Parts {
		if err := snapshotEnded(tx, part.SnapshotId); err != nil {
			return err
		}
	}
	s.Parts = slices.Clone(s.Parts)
	for i := range s.Parts {
		s.Parts[i].FileLocation = ""
	}
	return s.taken(tx)
}

// snapshotEvent returns what has happened to a snapshot in the driver.
func snapshotEvent(status driver.SnapshotStatus) lifecycle.Event[SnapshotState] {
	switch {
	case status.Failure != "":
		return snapshotFailed
	case status.Progress >= 100:
		return snapshotCompleted
	}
	return snapshotBegun
}

// advance notes how far a snapshot is, in percent. One that has ended stays as it
// is.
func (s *Snapshot) advance(tx *resource.Tx, event lifecycle.Event[SnapshotState], progress int) error {
	before := s.Progress
	s.Progress = progress
	if moved, err := resource.Try(tx, Snapshots, s, event); moved || err != nil {
		return err
	}
	if s.State != SnapshotPending || progress == before {
		s.Progress = before
		return nil
	}
	return Snapshots.Put(tx, s)
}
