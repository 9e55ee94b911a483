package resource_test

import (
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/resource"
)

// Barrel is the ID of a barrel, whose litres the account adds up.
type Barrel string

func (Barrel) Form() resource.Form { return hex("barrel-") }

type barrel struct {
	BarrelId Barrel
	Litres   int
	Mislaid  bool
}

func (b *barrel) Sums() resource.Sums {
	if b.Mislaid {
		return resource.Sums{{Name: "litres"}, {Name: "lost", N: int64(b.Litres)}}
	}
	return resource.Sums{{Name: "barrels", N: 1}, {Name: "litres", N: int64(b.Litres)}}
}

var barrels = &resource.Kind[barrel, Barrel]{Name: "Barrel"}

func TestSumsHaveNames(t *testing.T) {
	t.Parallel()
	db := open(t, func(o *resource.Options) { o.Kinds = append(o.Kinds, barrels) })
	small := insert(t, db, alice, barrels, barrel{Litres: 30})
	insert(t, db, alice, barrels, barrel{Litres: 200})
	insert(t, db, bob, barrels, barrel{Litres: 1000})
	have := func(wantBarrels, wantLitres int) {
		t.Helper()
		view(t, db, alice, func(tx *resource.Tx) {
			if n, litres := barrels.Sum(tx, "barrels"), barrels.Sum(tx, "litres"); n != wantBarrels || litres != wantLitres {
				t.Errorf("%d barrels of %d litres, want %d of %d", n, litres, wantBarrels, wantLitres)
			}
		})
	}
	have(2, 230)
	update(t, db, alice, func(tx *resource.Tx) error {
		b, err := barrels.Get(tx, small.BarrelId)
		must(err)
		b.Litres = 50
		return barrels.Put(tx, b)
	})
	have(2, 250)
	update(t, db, alice, func(tx *resource.Tx) error { return barrels.Delete(tx, small) })
	have(1, 200)
	view(t, db, alice, func(tx *resource.Tx) {
		panics(t, func() { barrels.Sum(tx, "gallons") })
		panics(t, func() { towns.Sum(tx, "litres") })
	})
	err := db.Update(t.Context(), resource.Caller{Account: alice}, func(tx *resource.Tx) error {
		return barrels.Insert(tx, &barrel{Mislaid: true})
	})
	if err == nil || !strings.Contains(err.Error(), "not declared") {
		t.Errorf("a barrel with other sums than an empty one is stored: %v", err)
	}
	have(1, 200)
}

// What adds up costs no memory when a resource is written.
func TestSumsAllocateNothing(t *testing.T) {
	var b resource.Summed = &barrel{Litres: 30}
	if n := testing.AllocsPerRun(100, func() { b.Sums() }); n != 0 {
		t.Errorf("sums take %v allocations", n)
	}
}

type (
	late    struct{ BarrelId Barrel }
	shy     struct{ BarrelId Barrel }
	twice   struct{ BarrelId Barrel }
	holey   struct{ BarrelId Barrel }
	counted struct{ BarrelId Barrel }
	noticed struct {
		BarrelId           Barrel
		Generation         string
		ObservedGeneration uint64
	}
)

func (*late) Pending() int            { return 1 }
func (*shy) Hidden(bool) bool         { return false }
func (*twice) Sums() resource.Sums    { return resource.Sums{{Name: "a"}, {Name: "a"}} }
func (*holey) Sums() resource.Sums    { return resource.Sums{{}, {Name: "a"}} }
func (*counted) Sums() map[string]int { return nil }

// A stored struct that means to implement what it does not is a mistake of ours.
func TestStoredStructsAreChecked(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]resource.Any{
		"Pending of another type":        &resource.Kind[late, Barrel]{Name: "Barrel"},
		"Hidden of another type":         &resource.Kind[shy, Barrel]{Name: "Barrel"},
		"Sums of another type":           &resource.Kind[counted, Barrel]{Name: "Barrel"},
		"two sums of a name":             &resource.Kind[twice, Barrel]{Name: "Barrel"},
		"a sum after none":               &resource.Kind[holey, Barrel]{Name: "Barrel"},
		"a generation that is a text":    &resource.Kind[noticed, Barrel]{Name: "Barrel"},
		"told tags without a generation": &resource.Kind[town, Town]{Name: "Town", Tag: "town", ToldTags: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			panics(t, func() { resource.Open(resource.Options{Kinds: []resource.Any{k}}) })
		})
	}
}
