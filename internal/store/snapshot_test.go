package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

// scatter writes to a few of many boxes: enough for trees of several levels.
func scatter(tx *store.Tx, r *rand.Rand) {
	d := tx.In("one")
	for range 10 {
		id := fmt.Sprint(r.IntN(1000))
		thing := storetest.Thing{Name: fmt.Sprint("name ", r.IntN(20)), Text: fmt.Sprint(r.IntN(100))}
		switch r.IntN(5) {
		case 0:
			d.Remove("box", id)
		case 1:
			d.SoftDelete("box", id, thing, tx.Now())
		default:
			d.Put("box", id, thing)
		}
	}
}

// A snapshot stays as it was, whatever is written after it.
func TestOldSnapshotsStay(t *testing.T) {
	t.Parallel()
	s := storetest.Open(nil)
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 2))
	var snaps []*store.Snapshot
	var were []string
	for range 100 {
		if err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
			scatter(tx, r)
			if r.IntN(4) == 0 {
				return fmt.Errorf("nor do those that fail leave a trace")
			}
			return nil
		}); err != nil {
			continue
		}
		snap, err := s.View(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		snaps, were = append(snaps, snap), append(were, storetest.Render(snap))
	}
	for i, snap := range snaps {
		if is := storetest.Render(snap); is != were[i] {
			t.Errorf("version %d was\n%s, and is now\n%s", snap.Version(), were[i], is)
		}
	}
}

// Readers go through new and old snapshots while the writer writes. The race
// detector is what makes this a test, and that coins only change hands.
func TestReadersBesideTheWriter(t *testing.T) {
	t.Parallel()
	const purses, coins = 200, 1000
	s := storetest.Open(nil)
	defer s.Close()
	purse := func(i int) string { return fmt.Sprint("purse ", i) }
	hold := func(d *store.Draft, id string, n int) {
		d.Put("box", id, storetest.Thing{Name: id, Parts: []string{"all"}, Text: strings.Repeat("o", n)})
	}
	held := func(o *store.Object) int { return len(o.Value.(storetest.Thing).Text) }
	if err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
		for i := range purses {
			hold(tx.In("one"), purse(i), coins/purses)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	count := func(snap *store.Snapshot) error {
		listed, found := 0, 0
		for o := range snap.Scan("box", 0) {
			listed += held(o)
		}
		for o := range snap.Find("box", store.Key{Index: "part", Value: "all"}) {
			byID, ok := snap.Get("box", o.ID)
			if !ok || byID != o {
				return fmt.Errorf("version %d finds another %s than it lists", snap.Version(), o.ID)
			}
			found += held(o)
		}
		if listed != coins || found != coins || snap.Count("box") != purses {
			return fmt.Errorf("version %d lists %d coins and finds %d in %d purses, want %d in %d", snap.Version(), listed, found,
				snap.Count("box"), coins, purses)
		}
		return nil
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		first, err := s.View(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			for {
				newest, err := s.View(t.Context(), "one")
				if err == nil {
					err = count(newest)
				}
				if err == nil {
					err = count(first)
				}
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 0))
			for range 100 {
				from, to, n := purse(r.IntN(purses)), purse(r.IntN(purses)), r.IntN(5)
				if err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
					d := tx.In("one")
					giver, _ := d.Get("box", from)
					n := min(n, held(giver))
					hold(d, from, held(giver)-n)
					taker, _ := d.Get("box", to)
					hold(d, to, held(taker)+n)
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

// A closure may write to what it is going through: it goes through what was
// there when it began to.
func TestWritingWhileReading(t *testing.T) {
	t.Parallel()
	const boxes = 500
	s := storetest.Open(nil)
	defer s.Close()
	all := store.Key{Index: "part", Value: "all"}
	err := s.Update(t.Context(), "one", func(tx *store.Tx) error {
		d := tx.In("one")
		for i := range boxes {
			d.Put("box", fmt.Sprint(i), storetest.Thing{Parts: []string{"all"}})
		}
		seen := 0
		for o := range d.Scan("box", 0) {
			d.Put("box", o.ID, storetest.Thing{Parts: []string{"all"}, Text: "scanned"})
			d.Put("box", "after "+o.ID, storetest.Thing{})
			seen++
		}
		if seen != boxes {
			return fmt.Errorf("went through %d, want %d", seen, boxes)
		}
		seen = 0
		for o := range d.Find("box", all) {
			if o.Value.(storetest.Thing).Text != "scanned" {
				return fmt.Errorf("%s was not scanned", o.ID)
			}
			d.Remove("box", o.ID)
			seen++
		}
		if seen != boxes {
			return fmt.Errorf("found %d, want %d", seen, boxes)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := s.View(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if snap.Count("box") != boxes {
		t.Errorf("%d boxes are left, want the %d that were made last", snap.Count("box"), boxes)
	}
	for range snap.Find("box", all) {
		t.Error("one of the first is left")
	}
}
