package kind_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

func TestFacts(t *testing.T) {
	t.Parallel()
	facts := houses.Facts()
	want := kind.Facts{
		Name: "House", Plural: "Houses", Tag: "house", Quota: houses.Quota,
		Type: reflect.TypeFor[house](), ID: reflect.TypeFor[House](),
	}
	if facts != want {
		t.Errorf("the facts are %+v, want %+v", facts, want)
	}
	if plural := keys.Facts().Plural; plural != "Keyes" {
		t.Errorf("the plural is %s, not the one the kind states", plural)
	}
}

func TestInsert(t *testing.T) {
	t.Parallel()
	db := open(t)
	var generated, given town
	update(t, db, alice, func(tx *kind.Tx) error {
		generated, given = town{Name: "Aigues"}, town{TownId: "town-00000001", Name: "Mortes"}
		must(towns.Insert(tx, &generated))
		must(towns.Insert(tx, &given))
		// What was written is there before the transaction ends.
		if got, err := towns.Get(tx, generated.TownId); err != nil || got.Name != "Aigues" {
			t.Errorf("inside the transaction Get answers %v and %v", got, err)
		}
		return nil
	})
	if err := Town("").Form().Check(string(generated.TownId)); err != nil {
		t.Errorf("the id that Insert chose: %v", err)
	}
	if given.TownId != "town-00000001" {
		t.Errorf("Insert changed the given id to %s", given.TownId)
	}
	view(t, db, alice, func(tx *kind.Tx) {
		for _, want := range []town{generated, given} {
			if got, err := towns.Get(tx, want.TownId); err != nil || !reflect.DeepEqual(*got, want) {
				t.Errorf("Get answers %v and %v, want %v", got, err, want)
			}
		}
	})
	refused(t, db, alice, fault.AlreadyExists, "town-00000001", func(tx *kind.Tx) error {
		return towns.Insert(tx, &town{TownId: "town-00000001"})
	})
	// An id belongs to an account.
	insert(t, db, bob, towns, town{TownId: "town-00000001"})
}

// chosen is a source that gives the same bytes a few times before others.
type chosen struct{ calls int }

func (c *chosen) Read(p []byte) (int, error) {
	c.calls++
	for i := range p {
		p[i] = byte(c.calls / 3)
	}
	return len(p), nil
}

func TestInsertAvoidsKnownIDs(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now), func(o *kind.Options) { o.Chance = &chosen{} })
	first := insert(t, db, alice, letters, letter{})
	second := insert(t, db, alice, letters, letter{})
	if first.LetterId == second.LetterId {
		t.Fatalf("two letters are called %s", first.LetterId)
	}
	// The id of a letter that is only readable still is not free.
	update(t, db, alice, func(tx *kind.Tx) error { return letters.Delete(tx, second) })
	refused(t, db, alice, fault.AlreadyExists, string(second.LetterId), func(tx *kind.Tx) error { return letters.Insert(tx, &letter{LetterId: second.LetterId}) })
}

func TestMissing(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	gone := insert(t, db, alice, letters, letter{})
	update(t, db, alice, func(tx *kind.Tx) error { return letters.Delete(tx, gone) })
	foreign := insert(t, db, bob, towns, town{})
	view(t, db, alice, func(tx *kind.Tx) {
		for _, test := range []struct {
			name string
			get  func() error
			has  bool
			code fault.Code
			says string
		}{
			{"its kind's own code", func() error { _, err := towns.Get(tx, "town-0"); return err }, towns.Has(tx, "town-0"), fault.NetNotFound, "The TownId 'town-0' doesn't exist."},
			{"another account's", func() error { _, err := towns.Get(tx, foreign.TownId); return err }, towns.Has(tx, foreign.TownId), fault.NetNotFound, string(foreign.TownId)},
			{"no code of its own", func() error { _, err := keys.Get(tx, "key-0"); return err }, keys.Has(tx, "key-0"), fault.ObjectNotFound, "The KeyId 'key-0' doesn't exist."},
			{"deleted and readable", func() error { _, err := letters.Get(tx, gone.LetterId); return err }, letters.Has(tx, gone.LetterId), fault.ObjectNotFound, string(gone.LetterId)},
			{"no id", func() error { _, err := towns.Get(tx, ""); return err }, towns.Has(tx, ""), fault.NetNotFound, "''"},
		} {
			if err := test.get(); !test.code.Is(err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: Get answers %v, want the code %s and the words %q", test.name, err, test.code, test.says)
			}
			if test.has {
				t.Errorf("%s: Has says that it is there", test.name)
			}
		}
		if !towns.Has(tx.In(bob), foreign.TownId) {
			t.Error("Has does not see a town where it is")
		}
	})
}

func TestGetAnswersACopy(t *testing.T) {
	t.Parallel()
	db := open(t)
	made := insert(t, db, alice, towns, town{Name: "Aigues"})
	made.Name = "changed after Insert"
	for _, way := range []struct {
		name string
		get  func(tx *kind.Tx) *town
	}{
		{"Get", func(tx *kind.Tx) *town { v, _ := towns.Get(tx, made.TownId); return v }},
		{"All", func(tx *kind.Tx) *town { return slices.Collect(towns.All(tx))[0] }},
	} {
		view(t, db, alice, func(tx *kind.Tx) {
			if got := way.get(tx); got.Name != "Aigues" {
				t.Errorf("%s: the stored town was changed through another copy: %s", way.name, got.Name)
			}
			way.get(tx).Name = "changed by a reader"
			if got := way.get(tx); got.Name != "Aigues" {
				t.Errorf("%s: the stored town was changed through its answer", way.name)
			}
		})
	}
	named := insert(t, db, alice, houses, house{TownId: made.TownId, Name: "mill"})
	view(t, db, alice, func(tx *kind.Tx) {
		for _, found := range [][]*house{slices.Collect(houses.Find(tx, "Name", "mill")), slices.Collect(houses.Of(tx, made.TownId))} {
			found[0].Name = "changed by a reader"
		}
		if got, _ := houses.Get(tx, named.HouseId); got.Name != "mill" {
			t.Error("the stored house was changed through the answer of Find or Of")
		}
	})
}

func TestPut(t *testing.T) {
	t.Parallel()
	db := open(t)
	a, b := insert(t, db, alice, towns, town{Name: "A"}), insert(t, db, alice, towns, town{Name: "B"})
	h := insert(t, db, alice, houses, house{TownId: a.TownId, Name: "mill"})
	update(t, db, alice, func(tx *kind.Tx) error {
		h.TownId, h.Name = b.TownId, "forge"
		return houses.Put(tx, h)
	})
	view(t, db, alice, func(tx *kind.Tx) {
		for _, test := range []struct {
			where string
			got   []string
			want  []string
		}{
			{"of the town before", each(houses.Of(tx, a.TownId), houseName), []string{}},
			{"of the town now", each(houses.Of(tx, b.TownId), houseName), []string{"forge"}},
			{"by the name before", each(houses.Find(tx, "Name", "mill"), houseName), []string{}},
			{"by the name now", each(houses.Find(tx, "Name", "forge"), houseName), []string{"forge"}},
			{"among all", each(houses.All(tx), houseName), []string{"forge"}},
		} {
			if !slices.Equal(test.got, test.want) {
				t.Errorf("%s there are %q, want %q", test.where, test.got, test.want)
			}
		}
	})
}

// What a view computes is in no snapshot, as it is in no document: a restart
// changes nothing.
func TestComputedFieldsAreNotStored(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	of := insert(t, db, alice, towns, town{})
	h := insert(t, db, alice, houses, house{TownId: of.TownId, Guests: 7})
	if h.Guests != 7 {
		t.Error("Insert changed a field that the rule had computed")
	}
	view(t, db, alice, func(tx *kind.Tx) {
		if got, _ := houses.Get(tx, h.HouseId); got.Guests != 0 {
			t.Errorf("a computed field was stored: %d", got.Guests)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	db := open(t)
	made := insert(t, db, alice, towns, town{Name: "Aigues"})
	update(t, db, alice, func(tx *kind.Tx) error { return towns.Delete(tx, made) })
	view(t, db, alice, func(tx *kind.Tx) {
		if towns.Has(tx, made.TownId) || towns.Count(tx) != 0 || len(slices.Collect(towns.All(tx))) != 0 {
			t.Error("a deleted town is still there")
		}
		for range towns.Each(tx, 0) {
			t.Error("a deleted town is still readable, and its kind does not keep it")
		}
	})
	refused(t, db, alice, fault.NetNotFound, string(made.TownId), func(tx *kind.Tx) error { return towns.Delete(tx, made) })
	insert(t, db, alice, towns, *made) // its id is free
}

func TestDeletedStaysReadable(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	post := insert(t, db, alice, towns, town{})
	office := insert(t, db, alice, houses, house{TownId: post.TownId, Name: "office"})
	first := insert(t, db, alice, letters, letter{Text: "first", Stops: []stop{{HouseId: office.HouseId}}})
	insert(t, db, alice, letters, letter{Text: "second"})
	now.advance(time.Minute)
	update(t, db, alice, func(tx *kind.Tx) error {
		first.Text = "first, read"
		return letters.Delete(tx, first)
	})

	text := func(l *letter) string { return l.Text }
	readable := func(tx *kind.Tx) (texts []string) {
		for _, l := range letters.Each(tx, 0) {
			texts = append(texts, l.Text)
		}
		return texts
	}
	view(t, db, alice, func(tx *kind.Tx) {
		if got := readable(tx); !slices.Equal(got, []string{"first, read", "second"}) {
			t.Errorf("readable are %q, want the deleted one as Delete left it, in its place", got)
		}
		if got := each(letters.All(tx), text); !slices.Equal(got, []string{"second"}) || letters.Count(tx) != 1 {
			t.Errorf("living are %q and counted %d", got, letters.Count(tx))
		}
	})
	refused(t, db, alice, fault.ObjectNotFound, string(first.LetterId), func(tx *kind.Tx) error { return letters.Delete(tx, first) })
	// A letter that is only readable holds nothing.
	update(t, db, alice, func(tx *kind.Tx) error { return houses.Delete(tx, office) })

	purge := func() (next time.Time) {
		update(t, db, alice, func(tx *kind.Tx) error { next = letters.Purge(tx); return nil })
		return next
	}
	due := midnight.Add(time.Minute + letters.Keep)
	now.advance(letters.Keep - time.Millisecond)
	if next := purge(); !next.Equal(due) {
		t.Errorf("the next is due at %v, want %v", next, due)
	}
	view(t, db, alice, func(tx *kind.Tx) {
		if got := readable(tx); len(got) != 2 {
			t.Errorf("readable a moment before the end are %q", got)
		}
	})
	now.advance(time.Millisecond)
	if next := purge(); !next.IsZero() {
		t.Errorf("nothing is left to purge, and due is %v", next)
	}
	view(t, db, alice, func(tx *kind.Tx) {
		if got := readable(tx); !slices.Equal(got, []string{"second"}) {
			t.Errorf("readable after the end are %q", got)
		}
	})
	insert(t, db, alice, letters, letter{LetterId: first.LetterId}) // its id is free
}

func TestPurgeAnswersTheNext(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	for range 3 {
		l := insert(t, db, alice, letters, letter{})
		update(t, db, alice, func(tx *kind.Tx) error { return letters.Delete(tx, l) })
		now.advance(10 * time.Minute)
	}
	now.advance(30 * time.Minute) // an hour after the first
	update(t, db, alice, func(tx *kind.Tx) error {
		if next, want := letters.Purge(tx), midnight.Add(70*time.Minute); !next.Equal(want) {
			t.Errorf("the next is due at %v, want %v", next, want)
		}
		return nil
	})
	view(t, db, alice, func(tx *kind.Tx) {
		left := 0
		for range letters.Each(tx, 0) {
			left++
		}
		if left != 2 {
			t.Errorf("%d letters are readable, want 2", left)
		}
	})
}

func TestOrderOfCreation(t *testing.T) {
	t.Parallel()
	db := open(t)
	names := []string{"d", "b", "a", "c"}
	of := insert(t, db, alice, towns, town{})
	var made []*house
	for _, name := range names {
		made = append(made, insert(t, db, alice, houses, house{TownId: of.TownId, Name: name}))
	}
	update(t, db, alice, func(tx *kind.Tx) error { return houses.Put(tx, made[0]) }) // keeps its place
	view(t, db, alice, func(tx *kind.Tx) {
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
		walk func(tx *kind.Tx, of Town) (seen []House)
	}{
		{"All", func(tx *kind.Tx, _ Town) (seen []House) {
			for h := range houses.All(tx) {
				seen = append(seen, h.HouseId)
				must(houses.Delete(tx, h))
			}
			return seen
		}},
		{"Of", func(tx *kind.Tx, of Town) (seen []House) {
			for h := range houses.Of(tx, of) {
				seen = append(seen, h.HouseId)
				must(houses.Delete(tx, h))
			}
			return seen
		}},
		{"Find, changing what was looked for", func(tx *kind.Tx, of Town) (seen []House) {
			other := town{}
			must(towns.Insert(tx, &other))
			for h := range houses.Find(tx, "TownId", string(of)) {
				seen = append(seen, h.HouseId)
				h.TownId = other.TownId
				must(houses.Put(tx, h))
			}
			return seen
		}},
		{"Each", func(tx *kind.Tx, _ Town) (seen []House) {
			for _, h := range houses.Each(tx, 0) {
				seen = append(seen, h.HouseId)
				must(houses.Delete(tx, h))
			}
			return seen
		}},
		{"All, adding", func(tx *kind.Tx, of Town) (seen []House) {
			for h := range houses.All(tx) {
				seen = append(seen, h.HouseId)
				must(houses.Insert(tx, &house{TownId: of}))
			}
			return seen
		}},
		{"AllTagged", func(tx *kind.Tx, _ Town) (seen []House) {
			for h := range tx.AllTagged {
				seen = append(seen, House(h.ID))
				tx.SetTags(h, nil)
			}
			return seen
		}},
		{"AllTagged, deleting", func(tx *kind.Tx, _ Town) (seen []House) {
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
			update(t, db, alice, func(tx *kind.Tx) error {
				of := town{}
				must(towns.Insert(tx, &of))
				var want []House
				for range many {
					h := house{TownId: of.TownId, Tags: []kind.ResourceTag{{Key: "k"}}}
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
		update(t, db, alice, func(tx *kind.Tx) error {
			for range many {
				l := letter{}
				must(letters.Insert(tx, &l))
				must(letters.Delete(tx, &l))
			}
			return nil
		})
		now.advance(letters.Keep)
		update(t, db, alice, func(tx *kind.Tx) error {
			must(letters.Insert(tx, &letter{}))
			letters.Purge(tx)
			return nil
		})
		view(t, db, alice, func(tx *kind.Tx) {
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
	view(t, db, alice, func(tx *kind.Tx) {
		for _, test := range []struct {
			name string
			call func()
			says string
		}{
			{"a field without an index", func() { letters.Find(tx, "Text", "x") }, "kind Letter: Text is no reference"},
			{"its own id", func() { houses.Find(tx, "HouseId", "x") }, "kind House: HouseId is no reference"},
			{"an id that is no reference", func() { letters.Find(tx, "Reader", "x") }, "kind Letter: Reader is no reference"},
			{"nothing", func() { houses.Find(tx, "Cellar", "x") }, "kind House: Cellar is no reference"},
			{"of what it does not refer to", func() { houses.Of(tx, Key("x")) }, "nothing in kind_test.house refers to a kind_test.Key"},
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
	view(t, db, alice, func(tx *kind.Tx) {
		got := each(letters.Of(tx, here.HouseId), func(l *letter) string { return l.Text })
		if want := []string{"stops here", "from here", "in a circle"}; !slices.Equal(got, want) {
			t.Errorf("Of yields %q, want %q", got, want)
		}
		if got := each(letters.Find(tx, "Stops.HouseId", string(here.HouseId)), func(l *letter) string { return l.Text }); !slices.Equal(got, []string{"stops here", "in a circle"}) {
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
	for _, h := range []house{{TownId: a.TownId, Name: "inn"}, {TownId: b.TownId, Name: "mill"}, {TownId: a.TownId, Name: "barn"}, {TownId: a.TownId}, {Name: "tent"}} {
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
			view(t, db, alice, func(tx *kind.Tx) {
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
	update(t, db, alice, func(tx *kind.Tx) error { return letters.Delete(tx, l) })
	view(t, db, alice, func(tx *kind.Tx) {
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

func TestReferencesLeadSomewhere(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	of := insert(t, db, alice, towns, town{})
	here := insert(t, db, alice, houses, house{TownId: of.TownId})
	foreign := insert(t, db, bob, towns, town{})
	gone := insert(t, db, alice, letters, letter{})
	update(t, db, alice, func(tx *kind.Tx) error { return letters.Delete(tx, gone) })
	for _, test := range []struct {
		name string
		put  func(*kind.Tx) error
		code fault.Code // 0: it is accepted
		says string
	}{
		{"living", func(tx *kind.Tx) error { return houses.Insert(tx, &house{TownId: of.TownId}) }, 0, ""},
		{"empty", func(tx *kind.Tx) error { return houses.Insert(tx, &house{}) }, 0, ""},
		{"absent", func(tx *kind.Tx) error { return houses.Insert(tx, &house{TownId: "town-0"}) }, fault.NetNotFound, "TownId 'town-0'"},
		{"another account's", func(tx *kind.Tx) error { return houses.Insert(tx, &house{TownId: foreign.TownId}) }, fault.NetNotFound, string(foreign.TownId)},
		{"by Put", func(tx *kind.Tx) error { return houses.Put(tx, &house{HouseId: here.HouseId, TownId: "town-0"}) }, fault.NetNotFound, "town-0"},
		{"weak", func(tx *kind.Tx) error { return letters.Insert(tx, &letter{From: "house-0"}) }, fault.SubnetNotFound, "house-0"},
		{"in a list", func(tx *kind.Tx) error {
			return letters.Insert(tx, &letter{Stops: []stop{{HouseId: here.HouseId}, {HouseId: "house-0"}}})
		}, fault.SubnetNotFound, "house-0"},
		{"in a list behind a pointer in a list", func(tx *kind.Tx) error {
			return letters.Insert(tx, &letter{Stops: []stop{{}, {Past: &route{Towns: []Town{of.TownId, "town-0"}}}}})
		}, fault.NetNotFound, "town-0"},
		{"all at once", func(tx *kind.Tx) error {
			return letters.Insert(tx, &letter{From: here.HouseId, Stops: []stop{{HouseId: here.HouseId, Past: &route{Towns: []Town{of.TownId}}}}})
		}, 0, ""},
		{"its own kind's, deleted and readable", func(tx *kind.Tx) error { return letters.Insert(tx, &letter{Answers: gone.LetterId}) }, fault.ObjectNotFound, string(gone.LetterId)},
		{"no reference", func(tx *kind.Tx) error { return letters.Insert(tx, &letter{Reader: "house-0"}) }, 0, ""},
		{"made in the same transaction", func(tx *kind.Tx) error {
			made := town{}
			must(towns.Insert(tx, &made))
			return houses.Insert(tx, &house{TownId: made.TownId})
		}, 0, ""},
		{"deleted in the same transaction", func(tx *kind.Tx) error {
			made := town{TownId: "town-9"}
			must(towns.Insert(tx, &made))
			must(towns.Delete(tx, &made))
			return houses.Insert(tx, &house{TownId: made.TownId})
		}, fault.NetNotFound, "town-9"},
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
	deleteTown := func(tx *kind.Tx) error { return towns.Delete(tx, of) }
	deleteHouses := func(ids ...string) {
		update(t, db, alice, func(tx *kind.Tx) error {
			for _, id := range ids {
				must(houses.Delete(tx, &house{HouseId: House(id)}))
			}
			return nil
		})
	}
	err := db.Update(t.Context(), kind.Caller{Account: alice}, deleteTown)
	want := fmt.Sprintf("The Town %s is in use by %s.", of.TownId, strings.Join(ids[:5], ", "))
	if !fault.NetInUse.Is(err) || fault.From(err).Details != want {
		t.Errorf("the refusal is %v, want the code %s and %q", err, fault.NetInUse, want)
	}
	deleteHouses(ids[:5]...)
	refused(t, db, alice, fault.NetInUse, strings.Join(ids[5:], ", ")+".", deleteTown)
	// What holds it may go in the same transaction.
	update(t, db, alice, func(tx *kind.Tx) error {
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
			deleteHouse := func(tx *kind.Tx) error { return houses.Delete(tx, here) }
			if test.house {
				refused(t, db, alice, fault.SubnetInUse, fmt.Sprintf("in use by %s.", l.LetterId), deleteHouse)
				return
			}
			update(t, db, alice, deleteHouse)
			deleteTown := func(tx *kind.Tx) error { return towns.Delete(tx, of) }
			if test.town {
				refused(t, db, alice, fault.NetInUse, fmt.Sprintf("in use by %s.", l.LetterId), deleteTown)
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
	refused(t, db, alice, fault.InUse, string(second.LetterId), func(tx *kind.Tx) error { return letters.Delete(tx, first) })
}

// A resource that refers to itself, as the rules of a group do, does not keep
// itself for ever.
func TestNothingHoldsItself(t *testing.T) {
	t.Parallel()
	db := open(t)
	l := insert(t, db, alice, letters, letter{})
	update(t, db, alice, func(tx *kind.Tx) error {
		l.Answers = l.LetterId
		return letters.Put(tx, l)
	})
	other := insert(t, db, alice, letters, letter{Answers: l.LetterId})
	refused(t, db, alice, fault.InUse, fmt.Sprintf("in use by %s.", other.LetterId), func(tx *kind.Tx) error { return letters.Delete(tx, l) })
	update(t, db, alice, func(tx *kind.Tx) error {
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
	tunnels := &kind.Kind[tunnel, Key]{Name: "Tunnel"}
	db := open(t, func(o *kind.Options) { o.Kinds = []kind.Any{towns, tunnels} })
	of := insert(t, db, alice, towns, town{})
	dug := insert(t, db, alice, tunnels, tunnel{From: of.TownId, To: of.TownId})
	refused(t, db, alice, fault.NetInUse, fmt.Sprintf("in use by %s.", dug.KeyId), func(tx *kind.Tx) error { return towns.Delete(tx, of) })
}

func TestUnique(t *testing.T) {
	t.Parallel()
	db := open(t)
	build := func(name string) func(*kind.Tx) error {
		return func(tx *kind.Tx) error { return houses.Insert(tx, &house{Name: name}) }
	}
	mill := insert(t, db, alice, houses, house{Name: "mill"})
	refused(t, db, alice, fault.UserNameTaken, "The Name 'mill' is used already.", build("mill"))
	insert(t, db, bob, houses, house{Name: "mill"})   // another account's names are its own
	insert(t, db, alice, houses, house{Name: "Mill"}) // another case is another name
	insert(t, db, alice, houses, house{})             // and no name is none,
	insert(t, db, alice, houses, house{})             // however often
	update(t, db, alice, func(tx *kind.Tx) error { return houses.Put(tx, mill) })
	refused(t, db, alice, fault.UserNameTaken, "forge", func(tx *kind.Tx) error {
		must(build("forge")(tx))
		return build("forge")(tx)
	})
	barn := insert(t, db, alice, houses, house{Name: "barn"})
	refused(t, db, alice, fault.UserNameTaken, "mill", func(tx *kind.Tx) error {
		return houses.Put(tx, &house{HouseId: barn.HouseId, Name: "mill"})
	})
	// A name is free once nobody has it: in the same transaction, too.
	update(t, db, alice, func(tx *kind.Tx) error {
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
	guests := &kind.Kind[guest, Key]{Name: "Guest", Keep: time.Hour, Unique: []string{"Names"}, Taken: fault.EmailTaken}
	db := open(t, func(o *kind.Options) { o.Kinds = []kind.Any{guests} })
	eve := insert(t, db, alice, guests, guest{Names: []string{"eve", "eva", "eve"}})
	refused(t, db, alice, fault.EmailTaken, "The Names 'eva' is used already.", func(tx *kind.Tx) error {
		return guests.Insert(tx, &guest{Names: []string{"adam", "eva"}})
	})
	update(t, db, alice, func(tx *kind.Tx) error { return guests.Delete(tx, eve) })
	insert(t, db, alice, guests, guest{Names: []string{"eva"}})
	refused(t, db, alice, fault.EmailTaken, "eva", func(tx *kind.Tx) error { return guests.Put(tx, eve) })
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	found := func(tx *kind.Tx) error { return towns.Insert(tx, &town{}) }

	t.Run("of all", func(t *testing.T) {
		t.Parallel()
		db := open(t, limits(map[string]int{"towns": 2}))
		first := insert(t, db, alice, towns, town{})
		update(t, db, alice, found)
		refused(t, db, alice, fault.TooManyNets, "The quota towns is reached: 2 of 2 are used.", found)
		update(t, db, bob, found) // another account has its own
		update(t, db, alice, func(tx *kind.Tx) error { return towns.Put(tx, first) })
		update(t, db, alice, func(tx *kind.Tx) error {
			must(towns.Delete(tx, first))
			return found(tx)
		})
		refused(t, db, alice, fault.TooManyNets, "towns", found)
	})

	t.Run("in one transaction", func(t *testing.T) {
		t.Parallel()
		db := open(t, limits(map[string]int{"towns": 2}))
		refused(t, db, alice, fault.TooManyNets, "2 of 2", func(tx *kind.Tx) error {
			must(found(tx))
			must(found(tx))
			return found(tx)
		})
		view(t, db, alice, func(tx *kind.Tx) {
			if n := towns.Count(tx); n != 0 {
				t.Errorf("a refused transaction left %d towns", n)
			}
		})
	})

	t.Run("per reference", func(t *testing.T) {
		t.Parallel()
		db := open(t, limits(map[string]int{"houses": 2}))
		a, b := insert(t, db, alice, towns, town{}), insert(t, db, alice, towns, town{})
		build := func(of Town) func(*kind.Tx) error {
			return func(tx *kind.Tx) error { return houses.Insert(tx, &house{TownId: of}) }
		}
		update(t, db, alice, build(a.TownId))
		update(t, db, alice, build(a.TownId))
		refused(t, db, alice, fault.TooManyCertificates, "The quota houses is reached: 2 of 2 are used.", build(a.TownId))
		update(t, db, alice, build(b.TownId))
		for range 3 {
			update(t, db, alice, build("")) // what belongs to no town uses none of its places
		}
		view(t, db, alice, func(tx *kind.Tx) {
			for of, want := range map[Town]int{a.TownId: 2, b.TownId: 1, "": 0} {
				if got := kind.Used(tx, houses, reflect.ValueOf(house{TownId: of})); got != want {
					t.Errorf("of %q %d places are used, want %d", of, got, want)
				}
			}
			if most := kind.MostUsed(tx, houses); most != 2 {
				t.Errorf("the town with the most houses has %d, want 2", most)
			}
			if most := kind.MostUsed(tx, towns); most != 2 {
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
		view(t, db, alice, func(tx *kind.Tx) {
			if limit, ok := tx.Limit("towns"); ok {
				t.Errorf("there is a limit of %d", limit)
			}
			if limit, ok := tx.Limit("other"); !ok || limit != 0 {
				t.Errorf("the limit that is set is %d, %t", limit, ok)
			}
			if most := kind.MostUsed(tx, houses); most != 0 {
				t.Errorf("of no houses %d are used", most)
			}
		})
	})

	t.Run("none at all", func(t *testing.T) {
		t.Parallel()
		db := open(t, limits(map[string]int{"towns": 0}))
		refused(t, db, alice, fault.TooManyNets, "0 of 0", found)
	})
}

func TestOpenRefusesMistakes(t *testing.T) {
	t.Parallel()
	type (
		lone struct{ Name string }
		lost struct {
			TownId Town
			Key    Key
		}
		bare   struct{ TownId Town }
		number struct {
			TownId Town
			Age    int
		}
		league struct {
			KeyId   Key
			TownIds []Town
		}
		chest struct {
			TownId Town
			Coins  map[string]kind.Secret
		}
		deep struct {
			TownId Town
			Chests []struct{ Coins [2]kind.Secret }
		}
	)
	for _, test := range []struct {
		name  string
		kinds []kind.Any
		says  string
	}{
		{"two kinds of a name", []kind.Any{towns, &kind.Kind[key, Key]{Name: "Town"}}, "the kind Town, or one with its ids, is listed twice"},
		{"two kinds of an id type", []kind.Any{towns, &kind.Kind[bare, Town]{Name: "Village"}}, "the kind Village, or one with its ids, is listed twice"},
		{"a kind twice", []kind.Any{towns, towns}, "listed twice"},
		{"a reference to no kind", []kind.Any{&kind.Kind[lost, Town]{Name: "Lost"}}, "Key of the kind Lost refers to a kind_test.Key, and no kind has such ids"},
		{"a tag type without tags", []kind.Any{&kind.Kind[bare, Town]{Name: "Bare", Tag: "bare"}}, "the kind Bare has a tag type, but no field for tags"},
		{"no id", []kind.Any{&kind.Kind[lone, Town]{Name: "Lone"}}, "kind Lone: kind_test.lone has no field of the type kind_test.Town"},
		{"a unique key of no field", []kind.Any{&kind.Kind[bare, Town]{Name: "Bare", Unique: []string{"Name"}}}, "kind Bare: unique key: Name: "},
		{"a unique key that is no text", []kind.Any{&kind.Kind[number, Town]{Name: "Number", Unique: []string{"Age"}}}, "kind Number: unique key: Age is no text"},
		{"a quota per what is no reference", []kind.Any{&kind.Kind[number, Town]{Name: "Number", Quota: &kind.Quota{Per: "Age"}}}, "kind Number: a quota per Age, which is no reference"},
		{"a quota per list of references", []kind.Any{towns, &kind.Kind[league, Key]{Name: "League", Quota: &kind.Quota{Per: "TownIds"}}}, "kind League: a quota per TownIds, which is no reference"},
		{"a secret in a map", []kind.Any{&kind.Kind[chest, Town]{Name: "Chest"}}, "kind Chest: Coins is a map[string]kind.Secret"},
		{"a secret in an array in a list", []kind.Any{&kind.Kind[deep, Town]{Name: "Deep"}}, "kind Deep: Chests.Coins is a [2]kind.Secret"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			said := panics(t, func() { _ = kind.Open(kind.Options{Kinds: test.kinds}).Close() })
			if !strings.Contains(said, test.says) {
				t.Errorf("the panic says %q, want %q", said, test.says)
			}
		})
	}
}

func TestKindsAreInOrder(t *testing.T) {
	t.Parallel()
	db := open(t)
	names := func(kinds []kind.Any) (names []string) {
		for _, k := range kinds {
			names = append(names, k.Facts().Name)
		}
		return names
	}
	want := []string{"Town", "House", "Letter", "Key"}
	if diff := cmp.Diff(want, names(db.Kinds())); diff != "" {
		t.Errorf("the kinds differ (-want +got):\n%s", diff)
	}
	view(t, db, alice, func(tx *kind.Tx) {
		if diff := cmp.Diff(want, names(tx.Kinds())); diff != "" {
			t.Errorf("the kinds in a transaction differ (-want +got):\n%s", diff)
		}
	})
}
