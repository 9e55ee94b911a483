package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

const account = "000000000001"

var (
	snapshot = driver.Snapshot{Account: account, ID: "snap-00000001", Generation: 1, Parts: []driver.SnapshotPart{
		{ID: "snap-00000001", Disk: "vol-00000001", Size: 10}, {ID: "snap-00000002", Disk: "vol-00000002", Size: 2},
	}}
	export = driver.Export{
		Account: account, ID: "snap-export-00000001", Generation: 1,
		From: driver.SnapshotName{Account: account, ID: "snap-00000002"}, Format: "qcow2",
		Bucket: "bucket", Object: "one.qcow2", AccessKey: "ACCESS", SecretKey: "sample",
	}
)

// A snapshot gets on by quarters, and an answer says when the next one is.
func TestSnapshotProgress(t *testing.T) {
	t.Parallel()
	c := clock.NewVirtual(start)
	drv := sim.New(c.Now, 4*time.Second)
	s := snapshot
	progress := func() int {
		t.Helper()
		status, ok, err := drv.Snapshot(t.Context(), account, s.ID)
		if !ok || err != nil || status.Failure != "" {
			t.Fatalf("got %+v, %t, %v", status, ok, err)
		}
		return status.Progress
	}
	for second := range 4 {
		at := start.Add(time.Duration(second) * time.Second)
		for range 2 {
			s.Generation++ // which makes no difference
			if err := drv.EnsureSnapshot(t.Context(), s); err != (driver.Later{At: at.Add(time.Second)}) {
				t.Errorf("after %d s: got %v, want it in a second", second, err)
			}
			if got := progress(); got != 25*second {
				t.Errorf("after %d s it is at %d%%", second, got)
			}
			c.AdvanceTo(at.Add(999 * time.Millisecond))
		}
		c.AdvanceTo(at.Add(time.Second))
	}
	if err := drv.EnsureSnapshot(t.Context(), s); err != nil || progress() != 100 {
		t.Errorf("after 4 s: got %v, at %d%%", err, progress())
	}
	s.Generation, s.Parts = s.Generation+1, s.Parts[1:]
	if err := drv.EnsureSnapshot(t.Context(), s); err != (driver.Later{At: c.Now().Add(4 * time.Second)}) || progress() != 100 {
		t.Errorf("a part is removed: got %v, at %d%%", err, progress())
	}
}

// What is broken ends without being done.
func TestBreak(t *testing.T) {
	t.Parallel()
	for name, delay := range paces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clock.NewVirtual(start)
			drv := sim.New(c.Now, delay)
			drv.Write = func(context.Context, driver.Export, int64, io.Reader, func(int)) error {
				t.Error("a broken export is written")
				return nil
			}
			drv.Break(snapshot.ID, "the disk is on fire")
			drv.Break(export.ID, "so is the store")
			for _, ensure := range []func() error{
				func() error { return drv.EnsureSnapshot(t.Context(), snapshot) },
				func() error { return drv.EnsureExport(t.Context(), export) },
			} {
				for {
					later, under := errors.AsType[driver.Later](ensure())
					if !under {
						break
					}
					c.AdvanceTo(later.At)
				}
			}
			s, _, err := drv.Snapshot(t.Context(), account, snapshot.ID)
			if err != nil || s.Progress >= 100 || s.Failure != "the disk is on fire" {
				t.Errorf("a broken snapshot: %+v, %v", s, err)
			}
			e, _, err := drv.Export(t.Context(), account, export.ID)
			if err != nil || e.Progress >= 100 || e.Failure != "so is the store" {
				t.Errorf("a broken export: %+v, %v", e, err)
			}
		})
	}
}

// An export is written once, with all that the store needs to know.
func TestExportIsWritten(t *testing.T) {
	t.Parallel()
	for name, delay := range paces {
		for size, gib := range map[string]int{"told": 1, "known": 0} {
			t.Run(name+", of a size that is "+size, func(t *testing.T) {
				t.Parallel()
				c := clock.NewVirtual(start)
				drv := sim.New(c.Now, delay)
				writes := 0
				want := export
				want.Size = gib
				bytesOf := int64(gib) << 30
				if gib == 0 {
					bytesOf = 2 << 30 // the size of the part that is exported
				}
				drv.Write = func(_ context.Context, e driver.Export, size int64, content io.Reader, far func(int)) error {
					writes++
					if e != want || size != bytesOf {
						t.Errorf("got %+v of %d bytes, want %+v of %d", e, size, want, bytesOf)
					}
					if content != nil {
						t.Error("there is something on the disk")
					}
					if status, _, err := drv.Export(t.Context(), account, e.ID); err != nil || status.Progress != 75 || status.SecretKey != "" {
						t.Errorf("while it is written: %+v, %v", status, err)
					}
					return nil
				}
				drv.EnsureSnapshot(t.Context(), snapshot)
				c.Advance(delay)
				for range 2 {
					for {
						later, under := errors.AsType[driver.Later](drv.EnsureExport(t.Context(), want))
						if !under {
							break
						}
						if writes > 0 {
							t.Errorf("under way when it is written")
						}
						c.AdvanceTo(later.At)
					}
				}
				if status, _, err := drv.Export(t.Context(), account, export.ID); err != nil || status.Progress != 100 || writes != 1 {
					t.Errorf("written %d times: %+v, %v", writes, status, err)
				}
			})
		}
	}
}

func TestExportFails(t *testing.T) {
	t.Parallel()
	drv := sim.New(clock.NewVirtual(start).Now, 0)
	failure := func() string {
		t.Helper()
		status, ok, err := drv.Export(t.Context(), account, export.ID)
		if !ok || err != nil || status.Progress == 100 {
			t.Fatalf("got %+v, %t, %v", status, ok, err)
		}
		return status.Failure
	}
	if err := drv.EnsureExport(t.Context(), export); err != nil || !strings.Contains(failure(), "no object store") {
		t.Errorf("without a store: %q, %v", failure(), err)
	}
	full := errors.New("the bucket is full")
	drv.Write = func(context.Context, driver.Export, int64, io.Reader, func(int)) error { return full }
	again := func() {
		t.Helper()
		if err := drv.RemoveExport(t.Context(), account, export.ID); err != nil {
			t.Fatal(err)
		}
	}
	again()
	if err := drv.EnsureExport(t.Context(), export); err != nil || failure() != full.Error() {
		t.Errorf("into a full bucket: %q, %v", failure(), err)
	}
	drv.Write = nil
	if err := drv.EnsureExport(t.Context(), export); err != nil || failure() != full.Error() {
		t.Errorf("what has failed is tried again: %q, %v", failure(), err)
	}

	// A call that ends has failed, and not the export.
	again()
	ending, end := context.WithCancel(t.Context())
	release := make(chan struct{})
	drv.Write = func(context.Context, driver.Export, int64, io.Reader, func(int)) error {
		end()
		<-release
		return nil
	}
	if err := drv.EnsureExport(ending, export); !errors.Is(err, context.Canceled) || failure() != "" {
		t.Errorf("a call that ends: %q, %v", failure(), err)
	}
	close(release)
	if err := drv.EnsureExport(t.Context(), export); err != nil {
		t.Errorf("the call after one that ended: %v", err)
	}
	if status, _, err := drv.Export(t.Context(), account, export.ID); err != nil || status.Progress != 100 {
		t.Errorf("after one that ended: %+v, %v", status, err)
	}
}

// A file that takes long is written by itself: calls answer soon, and say how far
// it is.
func TestLongExport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drv := sim.New(time.Now, 0)
		drv.After = time.After
		drv.Write = func(_ context.Context, _ driver.Export, _ int64, _ io.Reader, far func(int)) error {
			for percent := range 100 {
				far(percent)
				time.Sleep(time.Minute)
			}
			return nil
		}
		seen := map[int]bool{}
		for begin := time.Now(); ; {
			asked := time.Now()
			err := drv.EnsureExport(t.Context(), export)
			status, _, _ := drv.Export(t.Context(), account, export.ID)
			seen[status.Progress] = true
			if took := time.Since(asked); took > 100*time.Millisecond {
				t.Fatalf("a call takes %s", took)
			}
			later, under := errors.AsType[driver.Later](err)
			if !under {
				if took := time.Since(begin).Round(time.Minute); err != nil || took != 100*time.Minute || status.Progress != 100 {
					t.Errorf("after %s: %+v, %v", took, status, err)
				}
				break
			}
			time.Sleep(time.Until(later.At))
		}
		if len(seen) != 26 || !seen[75] || !seen[99] || !seen[100] {
			t.Errorf("it was at %v", seen)
		}
	})
}

// No more files are written at once than the process can bear, and those that
// wait are not forgotten.
func TestManyExports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drv := sim.New(time.Now, 0)
		drv.After = time.After
		now, most, all := 0, 0, 0
		var mu sync.Mutex // guards these
		drv.Write = func(context.Context, driver.Export, int64, io.Reader, func(int)) error {
			mu.Lock()
			now, all = now+1, all+1
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Hour)
			mu.Lock()
			defer mu.Unlock()
			now--
			return nil
		}
		for n := range 20 {
			e := export
			e.ID = fmt.Sprint("snap-export-", n)
			if _, under := errors.AsType[driver.Later](drv.EnsureExport(t.Context(), e)); !under {
				t.Errorf("%s is done at once", e.ID)
			}
		}
		if err := drv.RemoveExport(t.Context(), account, "snap-export-19"); err != nil {
			t.Errorf("one that waits is removed: %v", err)
		}
		time.Sleep(24 * time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if most != 4 || all != 19 {
			t.Errorf("%d of %d files were written at once", most, all)
		}
	})
}

// The end of the driver ends what it writes.
func TestCloseEndsExports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drv := sim.New(clock.NewVirtual(start).Now, 0)
		ended := false
		drv.Write = func(ctx context.Context, _ driver.Export, _ int64, _ io.Reader, _ func(int)) error {
			<-ctx.Done()
			ended = true
			return ctx.Err()
		}
		call := make(chan error)
		go func() { call <- drv.EnsureExport(t.Context(), export) }()
		synctest.Wait()
		drv.Close()
		if err := <-call; !ended || !errors.Is(err, context.Canceled) {
			t.Errorf("ended: %t; who waits hears %v", ended, err)
		}
	})
}

// Two calls do not write the same, and a removal ends what is written.
func TestExportUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewVirtual(start)
		drv := sim.New(c.Now, 0)
		writes := 0
		drv.Write = func(ctx context.Context, _ driver.Export, _ int64, _ io.Reader, _ func(int)) error {
			writes++
			<-ctx.Done()
			return ctx.Err()
		}
		first := make(chan error)
		go func() { first <- drv.EnsureExport(t.Context(), export) }()
		synctest.Wait()
		drv.After = time.After
		if err := drv.EnsureExport(t.Context(), export); err != (driver.Later{At: start.Add(time.Second)}) || writes != 1 {
			t.Errorf("a second call: got %v and %d writes, want one, and to come again in a second", err, writes)
		}
		removed := make(chan error)
		go func() { removed <- drv.RemoveExport(t.Context(), account, export.ID) }()
		if err := <-first; err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("the first call: got %v, want that the export was removed", err)
		}
		if err := <-removed; err != nil {
			t.Errorf("the removal: %v", err)
		}
		if status, ok, err := drv.Export(t.Context(), account, export.ID); ok || err != nil {
			t.Errorf("after the removal: %+v, %v", status, err)
		}
		drv.Write = func(context.Context, driver.Export, int64, io.Reader, func(int)) error { return nil }
		if err := drv.EnsureExport(t.Context(), export); err != nil {
			t.Errorf("made again: %v", err)
		}
	})
}

// A removal that is not waited for ends all the same.
func TestExportRemovalEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drv := sim.New(clock.NewVirtual(start).Now, 0)
		release := make(chan struct{})
		drv.Write = func(context.Context, driver.Export, int64, io.Reader, func(int)) error {
			<-release // it does not hear that it is to end
			return nil
		}
		first := make(chan error)
		go func() { first <- drv.EnsureExport(t.Context(), export) }()
		synctest.Wait()
		impatient, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if err := drv.RemoveExport(impatient, account, export.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want its context's error", err)
		}
		close(release)
		if err := <-first; err == nil {
			t.Errorf("an export that was removed is said to be done")
		}
		if err := drv.RemoveExport(t.Context(), account, export.ID); err != nil {
			t.Errorf("once nobody writes: %v", err)
		}
	})
}
