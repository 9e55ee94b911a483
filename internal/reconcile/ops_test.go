package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Disk is a resource with generations.
type Disk struct {
	DiskId                         diskID
	Size                           int
	Ends, Waits                    bool
	Said                           string // what was noted last
	Generation, ObservedGeneration uint64
}

func (d *Disk) Pending() bool { return d.ObservedGeneration < d.Generation || d.Waits }

type diskID string

func (diskID) Form() resource.Form {
	return resource.Form{Prefix: "disk-", Length: 8, Alphabet: resource.Hexadecimal}
}

// bay is a store of disks and a driver that has them, or does what a test says.
type opsHarness struct {
	*testing.T
	disks *resource.Kind[Disk, diskID]
	db    *resource.DB
	loop  reconcile.Loop

	mu     sync.Mutex
	asked  []string
	ensure func(size int) error // nil: it succeeds
	broken int                  // the size that Inspect finds to be wrong
}

func newOpsHarness(t *testing.T) *opsHarness {
	b := &opsHarness{T: t, disks: &resource.Kind[Disk, diskID]{Name: "Disk"}}
	b.db = resource.Open(resource.Options{Kinds: []resource.Any{b.disks}, Now: func() time.Time { return start },
		Rand: rand.NewChaCha8([32]byte{})})
	t.Cleanup(func() { b.db.Close() })
	said := func(what string) func(*resource.Tx, *Disk) error {
		return func(tx *resource.Tx, d *Disk) error {
			d.Said = what
			return b.disks.Put(tx, d)
		}
	}
	b.loop = reconcile.For(b.db, b.disks, reconcile.Ops[Disk, int, string]{
		Want: func(_ *resource.Tx, d *Disk) (*int, error) {
			switch d.Size {
			case 0:
				return nil, nil
			case -1:
				return nil, driver.Later{At: start.Add(time.Minute)}
			case -2:
				return nil, errors.New("it cannot be described")
			}
			return &d.Size, nil
		},
		Ensure: func(_ context.Context, size int) (string, error) {
			b.note("ensure", size)
			if b.ensure == nil {
				return "whole", nil
			}
			return "half", b.ensure(size)
		},
		Remove: func(_ context.Context, account, id string) error { b.note("remove", account, id); return nil },
		Note: func(tx *resource.Tx, d *Disk, want int, report string) error {
			return said(fmt.Sprint("has ", want, " ", report))(tx, d)
		},
		Progress: func(tx *resource.Tx, d *Disk, want int, report string, until time.Time) error {
			return said(fmt.Sprint("will have ", want, " ", report, " in ", until.Sub(start)))(tx, d)
		},
		Never: func(tx *resource.Tx, d *Disk, why driver.Never) error {
			return said(fmt.Sprint("can never be: ", why))(tx, d)
		},
		NoCapacity: said("has no room"),
		Ending:     func(d *Disk) bool { return d.Ends },
		Ended:      b.disks.Delete,
		Inspect: func(_ context.Context, _ string, d *Disk) (func(*resource.Tx, *Disk) error, error) {
			b.note("inspect", d.Size)
			if d.Size == b.broken {
				return said("is broken"), nil
			}
			return nil, nil
		},
		Observe: func(_ context.Context, found reconcile.Found) error {
			found("alice", "disk-00000000", true)
			return nil
		},
	})
	return b
}

func (b *opsHarness) note(what ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, fmt.Sprint(what...))
}

func (b *opsHarness) update(fn func(tx *resource.Tx) error) {
	b.Helper()
	if err := b.db.Update(b.Context(), resource.Caller{Account: "alice"}, fn); err != nil {
		b.Fatal(err)
	}
}

// insert makes a disk that the driver must have.
func (b *opsHarness) insert(d Disk) diskID {
	b.Helper()
	d.Generation = 1
	b.update(func(tx *resource.Tx) error { return b.disks.Insert(tx, &d) })
	return d.DiskId
}

// get returns a disk; nil: it is not there.
func (b *opsHarness) get(id diskID) (d *Disk) {
	b.Helper()
	err := b.db.View(b.Context(), resource.Caller{Account: "alice"}, func(tx *resource.Tx) error { d = b.disks.Find(tx, id); return nil })
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// change raises the generation of a disk.
func (b *opsHarness) change(id diskID, change func(d *Disk)) {
	b.Helper()
	b.update(func(tx *resource.Tx) error {
		d, err := b.disks.Get(tx, id)
		if err != nil {
			return err
		}
		d.Generation++
		change(d)
		return b.disks.Put(tx, d)
	})
}

// step makes a call and checks what was asked of the driver.
func (b *opsHarness) reconcile(id diskID, asked ...string) (requeueAfter time.Time, err error) {
	b.Helper()
	b.asked = nil
	requeueAfter, err = b.loop.Reconcile(b.Context(), "alice", string(id))
	if !slices.Equal(b.asked, asked) {
		b.Errorf("the driver was asked for %q, want %q", b.asked, asked)
	}
	return requeueAfter, err
}

// want checks the result of a call and what has become of a disk.
func (b *opsHarness) want(id diskID, requeueAfter time.Time, err error, said string, applied uint64) {
	b.Helper()
	d := b.get(id)
	if err != nil || !requeueAfter.IsZero() || d == nil || d.Said != said || d.ObservedGeneration != applied {
		b.Errorf("the call returns %v and %v, and the disk is %+v, want that it %q with the generation %d applied", requeueAfter, err, d, said,
			applied)
	}
}

// What the store does not have is removed, what is up to date only inspected, and
// anything else ensured and noted.
func TestOps(t *testing.T) {
	t.Parallel()
	b := newOpsHarness(t)
	if _, err := b.reconcile("disk-00000000", "removealicedisk-00000000"); err != nil {
		t.Error(err)
	}
	id := b.insert(Disk{Size: 1})
	requeueAfter, err := b.reconcile(id, "ensure1")
	b.want(id, requeueAfter, err, "has 1 whole", 1)
	requeueAfter, err = b.reconcile(id, "inspect1")
	b.want(id, requeueAfter, err, "has 1 whole", 1)
	b.broken = 1
	requeueAfter, err = b.reconcile(id, "inspect1")
	b.want(id, requeueAfter, err, "is broken", 1)
	var found []string
	if err := b.loop.Observe(t.Context(), func(account, id string,
		drift bool) {
		found = append(found, fmt.Sprint(account, id, drift))
	}); err != nil || len(found) != 1 || b.loop.Kind() != resource.Any(b.disks) {
		t.Errorf("it observes %q, %v", found, err)
	}
}

// A resource that waits is not asked for, and one that cannot be described is a
// failure.
func TestOpsThatWait(t *testing.T) {
	t.Parallel()
	b := newOpsHarness(t)
	if requeueAfter, err := b.reconcile(b.insert(Disk{Size: 0})); err != nil || !requeueAfter.IsZero() {
		t.Errorf("what waits to be woken returns %v and %v", requeueAfter, err)
	}
	if requeueAfter, err := b.reconcile(b.insert(Disk{Size: -1})); err != nil || !requeueAfter.Equal(start.Add(time.Minute)) {
		t.Errorf("what waits for a minute returns %v and %v", requeueAfter, err)
	}
	if _, err := b.reconcile(b.insert(Disk{Size: -2})); err == nil {
		t.Error("what cannot be described is no failure")
	}
}

// A resource that has no generation is noted upon all the same.
func TestOpsWithoutAGeneration(t *testing.T) {
	t.Parallel()
	b := newOpsHarness(t)
	d := Disk{Size: 1, Waits: true}
	b.update(func(tx *resource.Tx) error { return b.disks.Insert(tx, &d) })
	requeueAfter, err := b.reconcile(d.DiskId, "ensure1")
	b.want(d.DiskId, requeueAfter, err, "has 1 whole", 0)
}

// While a change is under way its progress is noted; what fails is asked for
// again; what is refused is noted.
func TestOpsThatAreNotDone(t *testing.T) {
	t.Parallel()
	b := newOpsHarness(t)
	id := b.insert(Disk{Size: 1})
	b.ensure = func(int) error { return driver.Later{At: start.Add(time.Second)} }
	if requeueAfter, err := b.reconcile(id, "ensure1"); err != nil || !requeueAfter.Equal(start.Add(time.Second)) ||
		b.get(id).Said != "will have 1 half in 1s" || b.get(id).ObservedGeneration != 0 {
		t.Errorf("what is under way returns %v and %v, and the disk is %+v", requeueAfter, err, b.get(id))
	}
	b.ensure = func(int) error { return errors.New("a fuse has blown") }
	if requeueAfter, err := b.reconcile(id, "ensure1"); err == nil || !requeueAfter.IsZero() || b.get(id).ObservedGeneration != 0 {
		t.Errorf("what failed returns %v and %v", requeueAfter, err)
	}
	b.ensure = func(int) error { return driver.Never{Why: "it is full"} }
	requeueAfter, err := b.reconcile(id, "ensure1")
	b.want(id, requeueAfter, err, "can never be: it is full", 0)
	b.ensure = func(int) error { return driver.NoCapacity{What: "a disk"} }
	requeueAfter, err = b.reconcile(id, "ensure1")
	b.want(id, requeueAfter, err, "has no room", 0)
	b.ensure = nil
	requeueAfter, err = b.reconcile(id, "ensure1")
	b.want(id, requeueAfter, err, "has 1 whole", 1)
	// Interrupted after the driver was asked, a call is made again.
	b.change(id, func(d *Disk) { d.ObservedGeneration = 0 })
	requeueAfter, err = b.reconcile(id, "ensure1")
	b.want(id, requeueAfter, err, "has 1 whole", 2)
}

// What became of a resource while the driver was asked stays as it is.
func TestOpsThatAreOvertaken(t *testing.T) {
	t.Parallel()
	b := newOpsHarness(t)
	for name, c := range map[string]struct {
		err  error
		said string
	}{
		"done":      {nil, "has 1 half"}, // of the older generation, which the driver has
		"under way": {driver.Later{At: start.Add(time.Second)}, ""},
		"refused":   {driver.Never{Why: "it is full"}, ""},
		"no room":   {driver.NoCapacity{What: "a disk"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			id := b.insert(Disk{Size: 1})
			b.ensure = func(size int) error {
				if size == 1 {
					b.change(id, func(d *Disk) { d.Size = 2 })
				}
				return c.err
			}
			if _, err := b.reconcile(id, "ensure1"); err != nil {
				t.Fatal(err)
			}
			if d := b.get(id); d.Said != c.said || d.Generation != 2 || d.ObservedGeneration >= d.Generation {
				t.Errorf("overtaken by a change, the disk is %+v, want that it %q", d, c.said)
			}
			requeueAfter, err := b.reconcile(id, "ensure2")
			if d := b.get(id); c.err == nil && (err != nil || !requeueAfter.IsZero() || d.ObservedGeneration != 2) {
				t.Errorf("the next call returns %v and %v, and the disk is %+v", requeueAfter, err, d)
			}
			newer := b.insert(Disk{Size: 1})
			b.ensure = func(int) error {
				b.change(newer, func(d *Disk) { d.ObservedGeneration = 5; d.Generation = 5 }) // another node was faster
				return c.err
			}
			if _, err := b.reconcile(newer, "ensure1"); err != nil || b.get(newer).Said != "" || b.get(newer).ObservedGeneration != 5 {
				t.Errorf("overtaken by another node: %v, and the disk is %+v", err, b.get(newer))
			}
			gone := b.insert(Disk{Size: 1})
			b.ensure = func(int) error {
				b.update(func(tx *resource.Tx) error { return b.disks.Delete(tx, b.disks.Find(tx, gone)) })
				return c.err
			}
			if _, err := b.reconcile(gone, "ensure1"); err != nil || b.get(gone) != nil {
				t.Errorf("overtaken by its deletion: %v, and the disk is %+v", err, b.get(gone))
			}
		})
	}
}

// A resource that ends does so once the driver has nothing of it.
func TestOpsThatEnd(t *testing.T) {
	t.Parallel()
	b := newOpsHarness(t)
	id := b.insert(Disk{Size: 1, Ends: true})
	if requeueAfter, err := b.reconcile(id, "removealice"+string(id)); err != nil || !requeueAfter.IsZero() || b.get(id) != nil {
		t.Errorf("what ends returns %v and %v, and is %+v", requeueAfter, err, b.get(id))
	}
}
