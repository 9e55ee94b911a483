package drivertest

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// Disks tests a driver of disks. open returns an empty driver that has the
// content of an image named image and can write objects to a bucket named
// bucket, and a function that returns once the driver's clock shows at least
// the given time.
func Disks(t *testing.T, open func(t *testing.T) (drivers driver.Disks, until func(time.Time))) {
	t.Run("disks", func(t *testing.T) {
		run(t, func(t *testing.T) methods[driver.Disk] {
			drivers, until := open(t)
			source(t, drivers, until)
			return methods[driver.Disk]{drivers.EnsureDisk, drivers.RemoveDisk, disksOf(drivers), until}
		}, disk, changedDisk, func(d driver.Disk) driver.Disk { return d })
	})
	t.Run("snapshots", func(t *testing.T) {
		files := files(t)
		prepare := func(t *testing.T) (driver.Disks, methods[driver.Snapshot]) {
			drivers, until := open(t)
			source(t, drivers, until)
			return drivers, methods[driver.Snapshot]{drivers.EnsureSnapshot, drivers.RemoveSnapshot, snapshotsOf(drivers), until}
		}
		run(t, func(t *testing.T) methods[driver.Snapshot] {
			_, methods := prepare(t)
			return methods
		}, snapshot(files), changedSnapshot, func(s driver.Snapshot) driver.Snapshot { return s })
		t.Run("a snapshot says how far it is", func(t *testing.T) {
			t.Parallel()
			drivers, methods := prepare(t)
			s := subject[driver.Snapshot]{T: t, methods: methods}
			testProgress(s, snapshot(files)(one), func(ctx context.Context) (int, string, bool, error) {
				status, ok, err := drivers.Snapshot(ctx, one.Account, one.ID)
				return status.Progress, status.Failure, ok, err
			})
		})
	})
	t.Run("exports", func(t *testing.T) {
		prepare := func(t *testing.T) (driver.Disks, methods[driver.Export]) {
			drivers, until := open(t)
			source(t, drivers, until)
			return drivers, methods[driver.Export]{drivers.EnsureExport, drivers.RemoveExport, exportsOf(drivers), until}
		}
		run(t, func(t *testing.T) methods[driver.Export] {
			_, methods := prepare(t)
			return methods
		}, export, changedExport, func(e driver.Export) driver.Export {
			e.SecretKey = ""
			return e
		})
		t.Run("an export says how far it is, and no secret", func(t *testing.T) {
			t.Parallel()
			drivers, methods := prepare(t)
			s := subject[driver.Export]{T: t, methods: methods}
			testProgress(s, export(one), func(ctx context.Context) (int, string, bool, error) {
				status, ok, err := drivers.Export(ctx, one.Account, one.ID)
				if status.SecretKey != "" {
					t.Errorf("its secret is shown")
				}
				return status.Progress, status.Failure, ok, err
			})
		})
	})
}

// testProgress follows a value from nothing to its completion. far returns its
// status.
func testProgress[V driver.Value](s subject[V], v V, far func(context.Context) (progress int, failure string, ok bool, err error)) {
	look := func() (int, bool) {
		s.Helper()
		progress, failure, ok, err := far(s.Context())
		if err != nil || failure != "" {
			s.Fatalf("it fails: %q, %v", failure, err)
		}
		return progress, ok
	}
	if progress, ok := look(); ok || progress != 0 {
		s.Errorf("before it is asked for, it is there: %t, %d%%", ok, progress)
	}
	was := 0
	s.done("making it", func() error {
		err := s.ensure(s.Context(), v)
		is, ok := look()
		if !ok || is < was || is == 100 && err != nil {
			s.Errorf("after %d%% it is there: %t, %d%%; the error is %v", was, ok, is, err)
		}
		was = is
		return err
	})
	if was != 100 {
		s.Errorf("once it is made, it is at %d%%", was)
	}
	s.unmake(v)
	if progress, ok := look(); ok || progress != 0 {
		s.Errorf("once it is removed, it is there: %t, %d%%", ok, progress)
	}
}

// volume and shared name the sources of all samples: a disk of each account,
// and a snapshot of bob's.
const volume, shared = "vol-source", "snap-source"

// source creates the sources of all samples.
func source(t *testing.T, drivers driver.Disks, until func(time.Time)) {
	t.Helper()
	disks := subject[driver.Disk]{T: t, methods: methods[driver.Disk]{ensure: drivers.EnsureDisk, until: until}}
	for _, account := range []string{alice, bob} {
		disks.make(driver.Disk{Account: account, ID: volume, Generation: 1, Subregion: "region-a", Size: 1, Type: "standard", Iops: 150})
	}
	snapshots := subject[driver.Snapshot]{T: t, methods: methods[driver.Snapshot]{ensure: drivers.EnsureSnapshot, until: until}}
	snapshots.make(driver.Snapshot{Account: bob, ID: shared, Generation: 1, Parts: []driver.SnapshotPart{{ID: shared, Disk: volume, Size: 1}}})
}

// disksOf returns a function that observes the disks of a driver without the
// source.
func disksOf(drivers driver.Disks) func(context.Context) ([]driver.Disk, error) {
	return func(ctx context.Context) (disks []driver.Disk, err error) {
		seen, err := drivers.ObserveDisks(ctx)
		for _, d := range seen {
			if d.ID != volume {
				disks = append(disks, d)
			}
		}
		return disks, err
	}
}

// snapshotsOf returns a function that observes the snapshots of a driver
// without the source.
func snapshotsOf(drivers driver.Disks) func(context.Context) ([]driver.Snapshot, error) {
	return func(ctx context.Context) (snapshots []driver.Snapshot, err error) {
		seen, err := drivers.ObserveSnapshots(ctx)
		for _, s := range seen {
			if s.ID != shared {
				snapshots = append(snapshots, s.Snapshot)
			}
		}
		return snapshots, err
	}
}

func exportsOf(drivers driver.Disks) func(context.Context) ([]driver.Export, error) {
	return func(ctx context.Context) (exports []driver.Export, err error) {
		seen, err := drivers.ObserveExports(ctx)
		for _, e := range seen {
			exports = append(exports, e.Export)
		}
		return exports, err
	}
}

// files serves the content of a disk, and returns its URL.
func files(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "disk.raw", time.Time{}, bytes.NewReader(make([]byte, 1<<20)))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/disk.raw"
}

// disk returns a disk with every field set: the disk named other starts as an
// image, and every other one as a snapshot.
func disk(key driver.Key) driver.Disk {
	d := driver.Disk{
		Account: key.Account, ID: key.ID, Generation: key.Generation,
		Subregion: "region-a", Size: 1, Type: "standard", Iops: 150,
	}
	if key.ID == other.ID {
		d.Image = "image"
	} else {
		d.From = &driver.SnapshotName{Account: bob, ID: shared}
	}
	return d
}

// changedDisk returns the next generation of a disk, with every field changed
// that may change.
func changedDisk(d driver.Disk) driver.Disk {
	d.Generation++
	d.Size, d.Type, d.Iops = 2, "io1", 200
	return d
}

// snapshot returns a function that makes a snapshot with a part of each kind of
// source. url is a file to fetch.
func snapshot(url string) func(driver.Key) driver.Snapshot {
	return func(key driver.Key) driver.Snapshot {
		return driver.Snapshot{Account: key.Account, ID: key.ID, Generation: key.Generation, Parts: []driver.SnapshotPart{
			{ID: key.ID, Disk: volume, Size: 1},
			{ID: key.ID + "-copy", Copy: &driver.SnapshotName{Account: bob, ID: shared}, Size: 1},
			{ID: key.ID + "-file", URL: url, Size: 1},
			{ID: key.ID + "-image", Image: "image", Size: 1},
		}}
	}
}

// changedSnapshot returns the next generation of a snapshot, without its first
// part.
func changedSnapshot(s driver.Snapshot) driver.Snapshot {
	s.Generation++
	s.Parts = s.Parts[1:]
	return s
}

// export returns an export with every field set.
func export(key driver.Key) driver.Export {
	return driver.Export{
		Account: key.Account, ID: key.ID, Generation: key.Generation,
		From: driver.SnapshotName{Account: bob, ID: shared}, Size: 1, Format: "raw",
		Bucket: "bucket", Object: "some/" + key.ID + ".raw",
		AccessKey: "ACCESS", SecretKey: "sample",
	}
}

// changedExport returns the next generation of an export, which differs in
// nothing else.
func changedExport(e driver.Export) driver.Export {
	e.Generation++
	return e
}
