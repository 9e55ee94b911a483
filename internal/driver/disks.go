package driver

import "context"

// Disks keeps the disks of a region, and what is made of them, in the driver.
// What it promises is what [Networks] promises, for values of more kinds. It may
// be called from many goroutines at once.
//
// While a snapshot or an export is made, Ensure answers [Later] at times that
// suit to see how far it is. It answers nil once it is done, and also once it
// has failed for good, which its status says.
type Disks interface {
	// EnsureDisk makes the driver have the disk as it is given, whether or not
	// a machine uses it. A machine that does is told of a new size.
	EnsureDisk(ctx context.Context, d Disk) error
	// RemoveDisk removes a disk that no machine uses. Snapshots of it stay.
	RemoveDisk(ctx context.Context, account, id string) error
	ObserveDisks(ctx context.Context) ([]Disk, error)

	// EnsureSnapshot takes all parts of the value at one instant, which is over
	// with its first answer that is nil or [Later]: a machine may write to the
	// disks again. It returns nil once they are complete or never will be. A part
	// does not change any more. A later generation has fewer parts: what it lacks is removed.
	EnsureSnapshot(ctx context.Context, s Snapshot) error
	// RemoveSnapshot removes all parts, be they not complete yet. Disks and
	// copies that were made from them stay.
	RemoveSnapshot(ctx context.Context, account, id string) error
	ObserveSnapshots(ctx context.Context) ([]SnapshotStatus, error)
	// Snapshot is how far one snapshot is; ok is false if there is none.
	Snapshot(ctx context.Context, account, id string) (status SnapshotStatus, ok bool, err error)

	// EnsureExport has a snapshot written to an object store, once, however long
	// that takes: the call answers soon. An export does not change: a later
	// generation differs in nothing else.
	EnsureExport(ctx context.Context, e Export) error
	// RemoveExport ends an export, be it under way, and forgets it. What it
	// wrote stays.
	RemoveExport(ctx context.Context, account, id string) error
	// ObserveExports lists the exports that the driver knows of, without their
	// secrets.
	ObserveExports(ctx context.Context) ([]ExportStatus, error)
	// Export is how far one export is; ok is false if there is none.
	Export(ctx context.Context, account, id string) (status ExportStatus, ok bool, err error)
}

// Disk is a disk, which machines can use one at a time.
type Disk struct {
	Account, ID string // together they name the disk
	Generation  uint64

	Subregion string
	Size      int    // GiB; it only grows
	Type      string // standard, gp2 or io1
	Iops      int
	From      *SnapshotName // what is on it from the beginning; nil: nothing
	// the name of the content of an image of the region's own, instead; empty: nothing
	Image string
}

// Key says which disk it is, and how new.
func (d Disk) Key() Key { return Key{d.Account, d.ID, d.Generation} }

// SnapshotName names a part of a snapshot, perhaps of another account.
type SnapshotName struct{ Account, ID string }

// Snapshot is what is on some disks at an instant, or what is elsewhere.
type Snapshot struct {
	// together they name the snapshot; the id is that of its first part, at first
	Account, ID string
	Generation  uint64

	Parts []SnapshotPart
}

// Key says which snapshot it is, and how new.
func (s Snapshot) Key() Key { return Key{s.Account, s.ID, s.Generation} }

// SnapshotPart is what is on one disk. It has one source. A part that is
// complete may come without: whoever wants it again has forgotten where it came
// from.
type SnapshotPart struct {
	ID   string        // by which disks and other snapshots name it
	Disk string        // the id of a disk of the account
	Copy *SnapshotName // another snapshot
	URL  string        // a file that is fetched
	// The name of the content of an image of the region's own.
	Image string
	Size  int // GiB
}

// SnapshotStatus is a snapshot as the driver has it, and how far it is.
type SnapshotStatus struct {
	Snapshot
	Progress int    // percent; 100: it is done
	Failure  string // why it never will be, for people; empty: it will
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
	// With whose credentials: the operator's if empty. Nobody else may learn
	// the secret.
	AccessKey, SecretKey string
}

// Key says which export it is, and how new.
func (e Export) Key() Key { return Key{e.Account, e.ID, e.Generation} }

// ExportStatus is an export as the driver has it, and how far it is.
type ExportStatus struct {
	Export
	Progress int    // percent; 100: it is done
	Failure  string // why it never will be, for people; empty: it will
}
