package resource_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestReferencesLeadSomewhere(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	of := insert(t, db, alice, towns, town{})
	here := insert(t, db, alice, houses, house{TownId: of.TownId})
	foreign := insert(t, db, bob, towns, town{})
	gone := insert(t, db, alice, letters, letter{})
	update(t, db, alice, func(tx *resource.Tx) error { return letters.Delete(tx, gone) })
	for _, test := range []struct {
		name string
		put  func(*resource.Tx) error
		code apierror.Code // 0: it is accepted
		says string
	}{
		{"living", func(tx *resource.Tx) error { return houses.Insert(tx, &house{TownId: of.TownId}) }, 0, ""},
		{"empty", func(tx *resource.Tx) error { return houses.Insert(tx, &house{}) }, 0, ""},
		{"absent", func(tx *resource.Tx) error { return houses.Insert(tx, &house{TownId: "town-0"}) }, apierror.NetNotFound, "TownId 'town-0'"},
		{"another account's", func(tx *resource.Tx) error { return houses.Insert(tx, &house{TownId: foreign.TownId}) }, apierror.NetNotFound,
			string(foreign.TownId)},
		{"by Put", func(tx *resource.Tx) error { return houses.Put(tx, &house{HouseId: here.HouseId, TownId: "town-0"}) }, apierror.NetNotFound,
			"town-0"},
		{"weak", func(tx *resource.Tx) error { return letters.Insert(tx, &letter{From: "house-0"}) }, apierror.SubnetNotFound, "house-0"},
		{"in a list", func(tx *resource.Tx) error {
			return letters.Insert(tx, &letter{Stops: []stop{{HouseId: here.HouseId}, {HouseId: "house-0"}}})
		}, apierror.SubnetNotFound, "house-0"},
		{"in a list behind a pointer in a list", func(tx *resource.Tx) error {
			return letters.Insert(tx, &letter{Stops: []stop{{}, {Past: &route{Towns: []Town{of.TownId, "town-0"}}}}})
		}, apierror.NetNotFound, "town-0"},
		{"all at once", func(tx *resource.Tx) error {
			return letters.Insert(tx, &letter{From: here.HouseId, Stops: []stop{{HouseId: here.HouseId, Past: &route{Towns: []Town{of.TownId}}}}})
		}, 0, ""},
		{"its own kind's, deleted and readable", func(tx *resource.Tx) error { return letters.Insert(tx, &letter{Answers: gone.LetterId}) },
			apierror.ObjectNotFound, string(gone.LetterId)},
		{"no reference", func(tx *resource.Tx) error { return letters.Insert(tx, &letter{Reader: "house-0"}) }, 0, ""},
		{"made in the same transaction", func(tx *resource.Tx) error {
			made := town{}
			must(towns.Insert(tx, &made))
			return houses.Insert(tx, &house{TownId: made.TownId})
		}, 0, ""},
		{"deleted in the same transaction", func(tx *resource.Tx) error {
			made := town{TownId: "town-9"}
			must(towns.Insert(tx, &made))
			must(towns.Delete(tx, &made))
			return houses.Insert(tx, &house{TownId: made.TownId})
		}, apierror.NetNotFound, "town-9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.code == 0 {
				update(t, db, alice, test.put)
			} else {
				refused(t, db, alice, test.code, test.says, test.put)
			}
		})
	}
}

func TestReferencesHold(t *testing.T) {
	t.Parallel()
	db := open(t)
	of := insert(t, db, alice, towns, town{})
	var ids []string
	for range 7 {
		ids = append(ids, string(insert(t, db, alice, houses, house{TownId: of.TownId}).HouseId))
	}
	deleteTown := func(tx *resource.Tx) error { return towns.Delete(tx, of) }
	deleteHouses := func(ids ...string) {
		update(t, db, alice, func(tx *resource.Tx) error {
			for _, id := range ids {
				must(houses.Delete(tx, &house{HouseId: House(id)}))
			}
			return nil
		})
	}
	err := db.Update(t.Context(), resource.Caller{Account: alice}, deleteTown)
	want := fmt.Sprintf("The Town %s is in use by %s.", of.TownId, strings.Join(ids[:5], ", "))
	if !apierror.NetInUse.Is(err) || apierror.From(err).Details != want {
		t.Errorf("the refusal is %v, want the code %s and %q", err, apierror.NetInUse, want)
	}
	deleteHouses(ids[:5]...)
	refused(t, db, alice, apierror.NetInUse, strings.Join(ids[5:], ", ")+".", deleteTown)
	// What holds it may go in the same transaction.
	update(t, db, alice, func(tx *resource.Tx) error {
		for h := range houses.Of(tx, of.TownId) {
			must(houses.Delete(tx, h))
		}
		return deleteTown(tx)
	})
}

func TestWhatHolds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		letter func(of Town, here House) letter
		town   bool // the letter holds the town, besides the house that does
		house  bool // the letter holds the house
	}{
		{"weak", func(_ Town, here House) letter { return letter{From: here} }, false, false},
		{"no reference", func(_ Town, here House) letter { return letter{Reader: here} }, false, false},
		{"in a list", func(_ Town, here House) letter { return letter{Stops: []stop{{}, {HouseId: here}}} }, false, true},
		{"behind a pointer", func(of Town, _ House) letter { return letter{Stops: []stop{{Past: &route{[]Town{"", of}}}}} }, true, false},
		{"weak and in a list", func(_ Town, here House) letter { return letter{From: here, Stops: []stop{{HouseId: here}}} }, false, true},
		{"twice in a list", func(_ Town, here House) letter { return letter{Stops: []stop{{HouseId: here}, {HouseId: here}}} }, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			of := insert(t, db, alice, towns, town{})
			here := insert(t, db, alice, houses, house{TownId: of.TownId})
			l := insert(t, db, alice, letters, test.letter(of.TownId, here.HouseId))
			deleteHouse := func(tx *resource.Tx) error { return houses.Delete(tx, here) }
			if test.house {
				refused(t, db, alice, apierror.SubnetInUse, fmt.Sprintf("in use by %s.", l.LetterId), deleteHouse)
				return
			}
			update(t, db, alice, deleteHouse)
			deleteTown := func(tx *resource.Tx) error { return towns.Delete(tx, of) }
			if test.town {
				refused(t, db, alice, apierror.NetInUse, fmt.Sprintf("in use by %s.", l.LetterId), deleteTown)
			} else {
				update(t, db, alice, deleteTown)
			}
		})
	}
}

// A kind without a code of its own for what is held answers the common one.
func TestHeldWithoutACode(t *testing.T) {
	t.Parallel()
	db := open(t)
	first := insert(t, db, alice, letters, letter{})
	second := insert(t, db, alice, letters, letter{Answers: first.LetterId})
	refused(t, db, alice, apierror.InUse, string(second.LetterId), func(tx *resource.Tx) error { return letters.Delete(tx, first) })
}

// A resource that refers to itself, as the rules of a group do, does not keep
// itself for ever.
func TestNothingHoldsItself(t *testing.T) {
	t.Parallel()
	db := open(t)
	l := insert(t, db, alice, letters, letter{})
	update(t, db, alice, func(tx *resource.Tx) error {
		l.Answers = l.LetterId
		return letters.Put(tx, l)
	})
	other := insert(t, db, alice, letters, letter{Answers: l.LetterId})
	refused(t, db, alice, apierror.InUse, fmt.Sprintf("in use by %s.", other.LetterId),
		func(tx *resource.Tx) error { return letters.Delete(tx, l) })
	update(t, db, alice, func(tx *resource.Tx) error {
		must(letters.Delete(tx, other))
		return letters.Delete(tx, l)
	})
}

// A holder that refers to the target in two ways is named once.
func TestHoldersAreNamedOnce(t *testing.T) {
	t.Parallel()
	type tunnel struct {
		KeyId    Key
		From, To Town
	}
	tunnels := &resource.Kind[tunnel, Key]{Name: "Tunnel"}
	db := open(t, func(o *resource.Options) { o.Kinds = []resource.Any{towns, tunnels} })
	of := insert(t, db, alice, towns, town{})
	dug := insert(t, db, alice, tunnels, tunnel{From: of.TownId, To: of.TownId})
	refused(t, db, alice, apierror.NetInUse, fmt.Sprintf("in use by %s.", dug.KeyId),
		func(tx *resource.Tx) error { return towns.Delete(tx, of) })
}

// Domains are above each other: what is below may point to what is above, and
// be had without it.
func TestWeakReferencesToNoKind(t *testing.T) {
	t.Parallel()
	type sign struct {
		KeyId Key
		Way   House `ref:"weak"`
	}
	signs := &resource.Kind[sign, Key]{Name: "Sign"}
	db := resource.Open(resource.Options{Kinds: []resource.Any{signs}, Now: time.Now, Rand: rand.NewChaCha8([32]byte{})})
	t.Cleanup(func() { _ = db.Close() })
	update(t, db, alice, func(tx *resource.Tx) error { return signs.Insert(tx, &sign{Way: "house-0"}) })
	view(t, db, alice, func(tx *resource.Tx) {
		n := 0
		for range signs.Where(tx, "Way", "house-0") {
			n++
		}
		if n != 1 {
			t.Errorf("%d signs to the house are found, want 1", n)
		}
	})
}
