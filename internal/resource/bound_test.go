package resource_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestUnique(t *testing.T) {
	t.Parallel()
	db := open(t)
	build := func(name string) func(*resource.Tx) error {
		return func(tx *resource.Tx) error { return houses.Insert(tx, &house{Name: name}) }
	}
	mill := insert(t, db, alice, houses, house{Name: "mill"})
	refused(t, db, alice, apierror.UserNameTaken, "The Name 'mill' is used already.", build("mill"))
	insert(t, db, bob, houses, house{Name: "mill"})   // another account's names are its own
	insert(t, db, alice, houses, house{Name: "Mill"}) // another case is another name
	insert(t, db, alice, houses, house{})             // and no name is none,
	insert(t, db, alice, houses, house{})             // however often
	update(t, db, alice, func(tx *resource.Tx) error { return houses.Put(tx, mill) })
	refused(t, db, alice, apierror.UserNameTaken, "forge", func(tx *resource.Tx) error {
		must(build("forge")(tx))
		return build("forge")(tx)
	})
	barn := insert(t, db, alice, houses, house{Name: "barn"})
	refused(t, db, alice, apierror.UserNameTaken, "mill", func(tx *resource.Tx) error {
		return houses.Put(tx, &house{HouseId: barn.HouseId, Name: "mill"})
	})
	// A name is free once nobody has it: in the same transaction, too.
	update(t, db, alice, func(tx *resource.Tx) error {
		must(houses.Delete(tx, mill))
		barn.Name = "mill"
		must(houses.Put(tx, barn))
		return build("barn")(tx)
	})
}

// The name of what is deleted and readable is free.
func TestUniqueOfTheDeleted(t *testing.T) {
	t.Parallel()
	type guest struct {
		KeyId Key
		Names []string
	}
	guests := &resource.Kind[guest, Key]{Name: "Guest", Retention: time.Hour, Unique: []string{"Names"}, Conflict: apierror.EmailTaken}
	db := open(t, func(o *resource.Options) { o.Kinds = []resource.Any{guests} })
	eve := insert(t, db, alice, guests, guest{Names: []string{"eve", "eva", "eve"}})
	refused(t, db, alice, apierror.EmailTaken, "The Names 'eva' is used already.", func(tx *resource.Tx) error {
		return guests.Insert(tx, &guest{Names: []string{"adam", "eva"}})
	})
	update(t, db, alice, func(tx *resource.Tx) error { return guests.Delete(tx, eve) })
	insert(t, db, alice, guests, guest{Names: []string{"eva"}})
	refused(t, db, alice, apierror.EmailTaken, "eva", func(tx *resource.Tx) error { return guests.Put(tx, eve) })
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	found := func(tx *resource.Tx) error { return towns.Insert(tx, &town{}) }

	t.Run("of all", func(t *testing.T) {
		t.Parallel()
		db := open(t, limits(map[string]int{"towns": 2}))
		first := insert(t, db, alice, towns, town{})
		update(t, db, alice, found)
		refused(t, db, alice, apierror.TooManyNets, "The quota towns is reached: 2 of 2 are used.", found)
		update(t, db, bob, found) // another account has its own
		update(t, db, alice, func(tx *resource.Tx) error { return towns.Put(tx, first) })
		update(t, db, alice, func(tx *resource.Tx) error {
			must(towns.Delete(tx, first))
			return found(tx)
		})
		refused(t, db, alice, apierror.TooManyNets, "towns", found)
	})

	t.Run("in one transaction", func(t *testing.T) {
		t.Parallel()
		db := open(t, limits(map[string]int{"towns": 2}))
		refused(t, db, alice, apierror.TooManyNets, "2 of 2", func(tx *resource.Tx) error {
			must(found(tx))
			must(found(tx))
			return found(tx)
		})
		view(t, db, alice, func(tx *resource.Tx) {
			if n := towns.Count(tx); n != 0 {
				t.Errorf("a refused transaction left %d towns", n)
			}
		})
	})

	t.Run("per reference", func(t *testing.T) {
		t.Parallel()
		db := open(t, limits(map[string]int{"houses": 2}))
		a, b := insert(t, db, alice, towns, town{}), insert(t, db, alice, towns, town{})
		build := func(of Town) func(*resource.Tx) error {
			return func(tx *resource.Tx) error { return houses.Insert(tx, &house{TownId: of}) }
		}
		update(t, db, alice, build(a.TownId))
		update(t, db, alice, build(a.TownId))
		refused(t, db, alice, apierror.TooManyCertificates, "The quota houses is reached: 2 of 2 are used.", build(a.TownId))
		update(t, db, alice, build(b.TownId))
		for range 3 {
			update(t, db, alice, build("")) // what belongs to no town uses none of its places
		}
		view(t, db, alice, func(tx *resource.Tx) {
			for of, want := range map[Town]int{a.TownId: 2, b.TownId: 1, "": 0} {
				if got := resource.Used(tx, houses, reflect.ValueOf(house{TownId: of})); got != want {
					t.Errorf("of %q %d places are used, want %d", of, got, want)
				}
			}
			if most := resource.MostUsed(tx, houses); most != 2 {
				t.Errorf("the town with the most houses has %d, want 2", most)
			}
			if most := resource.MostUsed(tx, towns); most != 2 {
				t.Errorf("%d towns are used, want 2", most)
			}
		})
	})

	t.Run("no limit", func(t *testing.T) {
		t.Parallel()
		db := open(t, limits(map[string]int{"other": 0}))
		for range 3 {
			update(t, db, alice, found)
		}
		view(t, db, alice, func(tx *resource.Tx) {
			if limit, ok := tx.Limit("towns"); ok {
				t.Errorf("there is a limit of %d", limit)
			}
			if limit, ok := tx.Limit("other"); !ok || limit != 0 {
				t.Errorf("the limit that is set is %d, %t", limit, ok)
			}
			if most := resource.MostUsed(tx, houses); most != 0 {
				t.Errorf("of no houses %d are used", most)
			}
		})
	})

	t.Run("none at all", func(t *testing.T) {
		t.Parallel()
		db := open(t, limits(map[string]int{"towns": 0}))
		refused(t, db, alice, apierror.TooManyNets, "0 of 0", found)
		update(t, db, alice, func(tx *resource.Tx) error {
			own := tx.Unlimited()
			must(own.CheckLimit("towns", apierror.TooManyNets, 1))
			return found(own.In(alice)) // the region's own needs have no quota
		})
	})
}

func TestCheckLimit(t *testing.T) {
	t.Parallel()
	db := open(t, limits(map[string]int{"stones": 7}))
	view(t, db, alice, func(tx *resource.Tx) {
		must(tx.CheckLimit("stones", apierror.TooManyNets, 7))
		must(tx.CheckLimit("pebbles", apierror.TooManyNets, 1_000_000)) // which has no limit
		err := tx.CheckLimit("stones", apierror.TooManyNets, 8)
		if !apierror.TooManyNets.Is(err) || !strings.Contains(err.Error(), "The quota stones is 7, and 8 would be used.") {
			t.Errorf("8 of 7 stones: %v", err)
		}
	})
}
