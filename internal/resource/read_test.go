package resource_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestOrderOfCreation(t *testing.T) {
	t.Parallel()
	db := open(t)
	names := []string{"d", "b", "a", "c"}
	of := insert(t, db, alice, towns, town{})
	var made []*house
	for _, name := range names {
		made = append(made, insert(t, db, alice, houses, house{TownId: of.TownId, Name: name}))
	}
	update(t, db, alice, func(tx *resource.Tx) error { return houses.Put(tx, made[0]) }) // keeps its place
	view(t, db, alice, func(tx *resource.Tx) {
		if got := each(houses.All(tx), houseName); !slices.Equal(got, names) {
			t.Errorf("All yields %q, want %q", got, names)
		}
		if got := each(houses.Of(tx, of.TownId), houseName); !slices.Equal(got, names) {
			t.Errorf("Of yields %q, want %q", got, names)
		}
		var seqs []uint64
		for seq := range houses.Each(tx, 0) {
			seqs = append(seqs, seq)
		}
		for i, after := range seqs {
			var rest []string
			for seq, h := range houses.Each(tx, after) {
				if seq <= after {
					t.Errorf("after %d comes %d", after, seq)
				}
				rest = append(rest, h.Name)
			}
			if !slices.Equal(rest, names[i+1:]) {
				t.Errorf("after %s come %q, want %q", names[i], rest, names[i+1:])
			}
		}
		// Who looks may stop.
		for range houses.All(tx) {
			break
		}
		for range houses.Of(tx, of.TownId) {
			break
		}
		for range houses.Each(tx, 0) {
			break
		}
	})
}

// A rule may write while it looks: it goes once over what was there when it
// began, whatever it wrote before and writes on the way.
func TestWritingWhileLooking(t *testing.T) {
	t.Parallel()
	const many = 300 // more than a node of the trees below holds
	for _, way := range []struct {
		name string
		walk func(tx *resource.Tx, of Town) (seen []House)
	}{
		{"All", func(tx *resource.Tx, _ Town) (seen []House) {
			for h := range houses.All(tx) {
				seen = append(seen, h.HouseId)
				must(houses.Delete(tx, h))
			}
			return seen
		}},
		{"Of", func(tx *resource.Tx, of Town) (seen []House) {
			for h := range houses.Of(tx, of) {
				seen = append(seen, h.HouseId)
				must(houses.Delete(tx, h))
			}
			return seen
		}},
		{"Find, changing what was looked for", func(tx *resource.Tx, of Town) (seen []House) {
			other := town{}
			must(towns.Insert(tx, &other))
			for h := range houses.Where(tx, "TownId", string(of)) {
				seen = append(seen, h.HouseId)
				h.TownId = other.TownId
				must(houses.Put(tx, h))
			}
			return seen
		}},
		{"Each", func(tx *resource.Tx, _ Town) (seen []House) {
			for _, h := range houses.Each(tx, 0) {
				seen = append(seen, h.HouseId)
				must(houses.Delete(tx, h))
			}
			return seen
		}},
		{"All, adding", func(tx *resource.Tx, of Town) (seen []House) {
			for h := range houses.All(tx) {
				seen = append(seen, h.HouseId)
				must(houses.Insert(tx, &house{TownId: of}))
			}
			return seen
		}},
		{"AllTagged", func(tx *resource.Tx, _ Town) (seen []House) {
			for h := range tx.AllTagged {
				seen = append(seen, House(h.ID))
				tx.SetTags(h, nil)
			}
			return seen
		}},
		{"AllTagged, deleting", func(tx *resource.Tx, _ Town) (seen []House) {
			for h := range tx.AllTagged {
				seen = append(seen, House(h.ID))
				must(houses.Delete(tx, &house{HouseId: House(h.ID)}))
			}
			return seen
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			update(t, db, alice, func(tx *resource.Tx) error {
				of := town{}
				must(towns.Insert(tx, &of))
				var want []House
				for range many {
					h := house{TownId: of.TownId, Tags: []resource.ResourceTag{{Key: "k"}}}
					must(houses.Insert(tx, &h))
					want = append(want, h.HouseId)
				}
				if got := way.walk(tx, of.TownId); !slices.Equal(got, want) {
					t.Errorf("the walk passed %d of %d houses, or not in order", len(got), many)
				}
				return nil
			})
		})
	}

	t.Run("Purge", func(t *testing.T) {
		t.Parallel()
		now := &clock{}
		db := open(t, at(now))
		update(t, db, alice, func(tx *resource.Tx) error {
			for range many {
				l := letter{}
				must(letters.Insert(tx, &l))
				must(letters.Delete(tx, &l))
			}
			return nil
		})
		now.advance(letters.Retention)
		update(t, db, alice, func(tx *resource.Tx) error {
			must(letters.Insert(tx, &letter{}))
			letters.Purge(tx)
			return nil
		})
		view(t, db, alice, func(tx *resource.Tx) {
			left := 0
			for range letters.Each(tx, 0) {
				left++
			}
			if left != 1 {
				t.Errorf("%d letters are readable, want the living one", left)
			}
		})
	})
}

func TestFindNeedsAnIndex(t *testing.T) {
	t.Parallel()
	db := open(t)
	view(t, db, alice, func(tx *resource.Tx) {
		for _, test := range []struct {
			name string
			call func()
			says string
		}{
			{"a field without an index", func() { letters.Where(tx, "Text", "x") }, "kind Letter: Text is no reference"},
			{"its own id", func() { houses.Where(tx, "HouseId", "x") }, "kind House: HouseId is no reference"},
			{"an id that is no reference", func() { letters.Where(tx, "Reader", "x") }, "kind Letter: Reader is no reference"},
			{"nothing", func() { houses.Where(tx, "Cellar", "x") }, "kind House: Cellar is no reference"},
			{"of what it does not refer to", func() { houses.Of(tx, Key("x")) }, "nothing in resource_test.house refers to a resource_test.Key"},
		} {
			if said := panics(t, test.call); !strings.Contains(said, test.says) {
				t.Errorf("%s: the panic says %q, want %q", test.name, said, test.says)
			}
		}
	})
}

// Through whichever field a resource refers to the target, Of finds it, once.
func TestOfFindsEveryReference(t *testing.T) {
	t.Parallel()
	db := open(t)
	of := insert(t, db, alice, towns, town{})
	here := insert(t, db, alice, houses, house{TownId: of.TownId, Name: "here"})
	there := insert(t, db, alice, houses, house{TownId: of.TownId, Name: "there"})
	for _, l := range []letter{
		{Text: "stops here", Stops: []stop{{HouseId: there.HouseId}, {HouseId: here.HouseId}}},
		{Text: "elsewhere", From: there.HouseId},
		{Text: "from here", From: here.HouseId},
		{Text: "in a circle", From: here.HouseId, Stops: []stop{{HouseId: here.HouseId}, {HouseId: there.HouseId}, {HouseId: here.HouseId}}},
		{Text: "for another account's house", Reader: here.HouseId},
	} {
		insert(t, db, alice, letters, l)
	}
	view(t, db, alice, func(tx *resource.Tx) {
		got := each(letters.Of(tx, here.HouseId), func(l *letter) string { return l.Text })
		if want := []string{"stops here", "from here", "in a circle"}; !slices.Equal(got, want) {
			t.Errorf("Of yields %q, want %q", got, want)
		}
		if got := each(letters.Where(tx, "Stops.HouseId", string(here.HouseId)), func(l *letter) string { return l.Text }); !slices.Equal(got,
			[]string{"stops here", "in a circle"}) {
			t.Errorf("Find through a list yields %q", got)
		}
	})
}

func TestSelect(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	a, b := insert(t, db, alice, towns, town{Name: "A"}), insert(t, db, alice, towns, town{Name: "B"})
	ids := map[string]string{"absent": "house-0", "A": string(a.TownId), "B": string(b.TownId)}
	for _, h := range []house{{TownId: a.TownId, Name: "inn"}, {TownId: b.TownId, Name: "mill"}, {TownId: a.TownId, Name: "barn"},
		{TownId: a.TownId}, {Name: "tent"}} {
		ids[h.Name] = string(insert(t, db, alice, houses, h).HouseId)
	}
	for _, test := range []struct {
		name   string
		wanted map[string][]string
		want   []string
	}{
		{"nothing known", nil, []string{"inn", "mill", "barn", "", "tent"}},
		{"no indexed field", map[string][]string{"Guests": {"3"}}, []string{"inn", "mill", "barn", "", "tent"}},
		{"ids", map[string][]string{"HouseId": {ids["barn"], ids["inn"], ids["absent"], ids["barn"]}}, []string{"inn", "barn"}},
		{"no ids", map[string][]string{"HouseId": {}}, nil},
		{"a reference", map[string][]string{"TownId": {ids["A"]}}, []string{"inn", "barn", ""}},
		{"several references", map[string][]string{"TownId": {ids["B"], ids["A"], ids["B"]}}, []string{"inn", "mill", "barn", ""}},
		{"a unique key", map[string][]string{"Name": {"mill", "castle"}}, []string{"mill"}},
		{"ids before references", map[string][]string{"HouseId": {ids["mill"]}, "TownId": {ids["A"]}}, []string{"mill"}},
		{"no reference at all", map[string][]string{"TownId": {""}}, []string{"tent"}},
		{"no unique key at all", map[string][]string{"Name": {"", "mill"}}, []string{"mill", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			view(t, db, alice, func(tx *resource.Tx) {
				wanted := func(field string) ([]string, bool) { v, ok := test.wanted[field]; return v, ok }
				var names []string
				var seqs []uint64
				for seq, h := range houses.Select(tx, 0, wanted) {
					names, seqs = append(names, h.Name), append(seqs, seq)
				}
				// It may yield more than is wanted, in order; never less.
				if !slices.IsSorted(seqs) || len(slices.Compact(seqs)) != len(names) {
					t.Errorf("the positions are %d", seqs)
				}
				for _, name := range test.want {
					if !slices.Contains(names, name) {
						t.Errorf("Select yields %q, want at least %q", names, test.want)
					}
				}
				indexed := test.name != "no reference at all" && test.name != "no unique key at all"
				if indexed && !slices.Equal(names, test.want) {
					t.Errorf("Select yields %q, want %q and no more", names, test.want)
				}
				for i, after := range seqs {
					var rest []string
					for _, h := range houses.Select(tx, after, wanted) {
						rest = append(rest, h.Name)
					}
					if !slices.Equal(rest, names[i+1:]) {
						t.Errorf("after %s Select yields %q, want %q", names[i], rest, names[i+1:])
					}
				}
			})
		})
	}
}

// No index leads to what is deleted and readable, and yet Select yields it.
func TestSelectYieldsTheDeleted(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	of := insert(t, db, alice, towns, town{})
	office := insert(t, db, alice, houses, house{TownId: of.TownId})
	l := insert(t, db, alice, letters, letter{From: office.HouseId})
	update(t, db, alice, func(tx *resource.Tx) error { return letters.Delete(tx, l) })
	view(t, db, alice, func(tx *resource.Tx) {
		for field, value := range map[string]string{"LetterId": string(l.LetterId), "From": string(office.HouseId)} {
			found := 0
			for range letters.Select(tx, 0, func(f string) ([]string, bool) { return []string{value}, f == field }) {
				found++
			}
			if found != 1 {
				t.Errorf("by %s Select finds %d letters, want the deleted one", field, found)
			}
		}
	})
}

// Lookup finds what is there, and what was deleted and is kept, until it is not.
func TestLookup(t *testing.T) {
	t.Parallel()
	c := &clock{}
	db := open(t, at(c))
	l := insert(t, db, alice, letters, letter{Text: "kept"})
	h := insert(t, db, alice, towns, town{Name: "not kept"})
	update(t, db, alice, func(tx *resource.Tx) error {
		if got, err := letters.Get(tx, l.LetterId); err != nil || letters.Lookup(tx, l.LetterId) != got {
			t.Errorf("a living letter is found twice in a transaction: %v", err)
		}
		must(towns.Delete(tx, h))
		return letters.Delete(tx, l)
	})
	update(t, db, alice, func(tx *resource.Tx) error {
		switch found := letters.Lookup(tx, l.LetterId); {
		case found == nil || found.Text != "kept":
			t.Errorf("of the deleted letter there is %+v", found)
		case letters.Find(tx, l.LetterId) != nil || letters.Lookup(tx, "letter-00000000") != nil || towns.Lookup(tx, h.TownId) != nil:
			t.Error("what is not there, or not kept, is found")
		}
		return nil
	})
	view(t, db, bob, func(tx *resource.Tx) {
		if letters.Lookup(tx, l.LetterId) != nil {
			t.Error("another account finds it")
		}
	})
}
