package compute

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// SnapshotLoop brings snapshots to a driver, those of one instant as one value,
// and notes how far they are. What the world has and the store does not, it
// removes.
type SnapshotLoop struct {
	db    *kind.DB
	world driver.Disks
}

// NewSnapshotLoop makes the loop that joins a store and a driver.
func NewSnapshotLoop(db *kind.DB, world driver.Disks) *SnapshotLoop { return &SnapshotLoop{db, world} }

// Kind is the kind whose changes wake the loop.
func (l *SnapshotLoop) Kind() kind.Any { return snapshotSets }

// Step brings one set of snapshots to the world and notes what the world has
// then. It answers when to ask again if the world is not done.
func (l *SnapshotLoop) Step(ctx context.Context, account, set string) (again time.Time, err error) {
	caller := kind.Caller{Account: account}
	var s *snapshotSet
	err = l.db.View(ctx, caller, func(tx *kind.Tx) error {
		s = snapshotSets.Living(tx, setID(set))
		return nil
	})
	switch {
	case err != nil:
		return again, err
	case s == nil:
		return driver.UntilDone(l.world.RemoveSnapshot(ctx, account, set))
	case !s.Unsettled() || s.waits(): // a VM that is off wakes the loop
		return again, nil
	}
	if again, err = driver.UntilDone(l.world.EnsureSnapshot(ctx, wantedSnapshot(account, s))); err != nil {
		return again, err
	}
	if s.Vm != "" {
		if err := l.db.Update(ctx, caller, func(tx *kind.Tx) error { return instantOver(tx, s.SetId) }); err != nil {
			return again, err
		}
	}
	status, ok, err := l.world.Snapshot(ctx, account, set)
	if err != nil {
		return again, err
	}
	if !ok {
		return again, fmt.Errorf("the world has no snapshot %s, which it was asked for", set)
	}
	switch {
	case !again.IsZero():
		status.Progress = min(status.Progress, 99) // all parts are there, and one is to go
	case status.Failure == "":
		status.Progress = 100
	}
	if status.Progress > 0 || status.Failure != "" {
		err = l.db.Update(ctx, caller, func(tx *kind.Tx) error { return snapshotSeen(tx, s.SetId, s.Generation, status) })
	}
	return again, err
}

// Observe finds the snapshots that the world has.
func (l *SnapshotLoop) Observe(ctx context.Context, found reconcile.Found) error {
	snapshots, err := l.world.ObserveSnapshots(ctx)
	for _, s := range snapshots {
		found(s.Account, s.ID, false)
	}
	return err
}

// wantedSnapshot is a set as the world should have it.
func wantedSnapshot(account string, s *snapshotSet) driver.Snapshot {
	want := driver.Snapshot{Account: account, ID: string(s.SetId), Generation: s.Generation}
	for _, part := range s.Parts {
		p := driver.SnapshotPart{ID: string(part.SnapshotId), Disk: string(part.Volume), URL: string(part.FileLocation), Image: part.Image, Size: part.Size}
		if part.Copied != "" {
			p.Copy = &driver.SnapshotName{Account: string(part.CopiedFrom), ID: string(part.Copied)}
		}
		want.Parts = append(want.Parts, p)
	}
	return want
}

// instantOver lets a VM run that was off for a set.
func instantOver(tx *kind.Tx, set setID) error {
	if s := snapshotSets.Living(tx, set); s != nil {
		return s.letRun(tx)
	}
	return nil
}

// snapshotSeen notes how far the world is with a set of a generation. What was
// deleted since the world was asked stays so.
func snapshotSeen(tx *kind.Tx, set setID, generation uint64, status driver.SnapshotStatus) error {
	s := snapshotSets.Living(tx, set)
	if s == nil {
		return nil
	}
	event := snapshotBegun
	switch {
	case status.Failure != "":
		event = snapshotFailed
	case status.Progress >= 100:
		event = snapshotCompleted
	}
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
	s.Applied = max(s.Applied, generation)
	return s.taken(tx)
}

// advance notes how far a snapshot is, in percent. One that has ended stays as it
// is.
func (s *Snapshot) advance(tx *kind.Tx, event lifecycle.Event[SnapshotState], progress int) error {
	before := s.Progress
	s.Progress = progress
	if moved, err := kind.Try(tx, Snapshots, s, event); moved || err != nil {
		return err
	}
	if s.State != SnapshotPending || progress == before {
		s.Progress = before
		return nil
	}
	return Snapshots.Put(tx, s)
}
