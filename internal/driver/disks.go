package driver

import "context"

// Disks manages the disks of a region, their snapshots and their exports. Its
// methods keep the promises of [Networks], for other kinds of values, and are
// safe for concurrent use.
//
// While a snapshot or an export is being made, Ensure returns [Later] with a
// time that suits for reporting progress. It returns nil once the work is done,
// and also once it has failed for good, which the status reports.
type Disks interface {
	// EnsureDisk creates or changes the disk, whether or not a machine uses it.
	// A machine that does is notified of a new size.
	EnsureDisk(ctx context.Context, d Disk) error
	// RemoveDisk removes a disk that no machine uses. Snapshots of it stay.
	RemoveDisk(ctx context.Context, account, id string) error
	ObserveDisks(ctx context.Context) ([]Disk, error)

	// EnsureSnapshot takes all parts of the value at one instant. That instant
	// has passed when it first returns nil or [Later], so machines may write to
	// the disks again. It returns nil once the parts are complete or have
	// failed. A part never changes. A later generation may have fewer parts:
	// those that it lacks are removed.
	EnsureSnapshot(ctx context.Context, s Snapshot) error
	// RemoveSnapshot removes all parts, complete or not. Disks and copies that
	// were made from them stay.
	RemoveSnapshot(ctx context.Context, account, id string) error
	ObserveSnapshots(ctx context.Context) ([]SnapshotStatus, error)
	// Snapshot returns the status of one snapshot; ok is false if there is
	// none.
	Snapshot(ctx context.Context, account, id string) (status SnapshotStatus, ok bool, err error)

	// EnsureExport starts writing a snapshot to an object store, once, and
	// returns without waiting for the end. Generations of an export differ in
	// nothing else.
	EnsureExport(ctx context.Context, e Export) error
	// RemoveExport cancels an export if it is under way, and forgets it.
	// Objects that it has written stay.
	RemoveExport(ctx context.Context, account, id string) error
	// ObserveExports lists the exports that the driver has, without their
	// secrets.
	ObserveExports(ctx context.Context) ([]ExportStatus, error)
	// Export returns the status of one export; ok is false if there is none.
	Export(ctx context.Context, account, id string) (status ExportStatus, ok bool, err error)
}

// Disk is a disk, which one machine at a time can use.
type Disk struct {
	Account, ID string // together they name the disk
	Generation  uint64

	Subregion string
	Size      int    // GiB; it only grows
	Type      string // standard, gp2 or io1
	Iops      int
	From      *SnapshotName // its initial content; nil: an empty disk
	// the initial content instead of From: the name of the content of an image
	// of the region; empty: none
	Image string
}

// Key returns the name and generation of the disk.
func (d Disk) Key() Key { return Key{d.Account, d.ID, d.Generation} }

// SnapshotName names a part of a snapshot, perhaps of another account.
type SnapshotName struct{ Account, ID string }

// Snapshot is the content of some disks at one instant, or content from
// elsewhere.
type Snapshot struct {
	// together they name the snapshot; the ID is initially the ID of the first
	// part
	Account, ID string
	Generation  uint64

	Parts []SnapshotPart
}

// Key returns the name and generation of the snapshot.
func (s Snapshot) Key() Key { return Key{s.Account, s.ID, s.Generation} }

// SnapshotPart is the content of one disk. It has one source, except that a
// part that is complete may come without one, because the control plane no
// longer stores it.
type SnapshotPart struct {
	ID   string        // the name that disks and other snapshots use
	Disk string        // source: the ID of a disk of the account
	Copy *SnapshotName // source: another snapshot
	URL  string        // source: a file to fetch
	// Image is the source if the part is the content of an image of the region:
	// its name.
	Image string
	Size  int // GiB
}

// SnapshotStatus is a snapshot as the driver has it, and its progress.
type SnapshotStatus struct {
	Snapshot
	Progress int    // percent; 100: done
	Failure  string // why it has failed for good, in a sentence; empty: it has not
}

// Export writes a snapshot to an object store, as a file.
type Export struct {
	Account, ID string
	Generation  uint64

	From   SnapshotName
	Size   int    // GiB, of the snapshot
	Format string // qcow2, vdi, vmdk or raw
	Bucket string
	Object string // its key in the bucket
	// The credentials to write with; empty: the operator's. The secret is
	// disclosed to no other party.
	AccessKey, SecretKey string
}

// Key returns the name and generation of the export.
func (e Export) Key() Key { return Key{e.Account, e.ID, e.Generation} }

// ExportStatus is an export as the driver has it, and its progress.
type ExportStatus struct {
	Export
	Progress int    // percent; 100: done
	Failure  string // why it has failed for good, in a sentence; empty: it has not
}
