package resource_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestFacts(t *testing.T) {
	t.Parallel()
	facts := houses.Facts()
	want := resource.Facts{
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
	update(t, db, alice, func(tx *resource.Tx) error {
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
	view(t, db, alice, func(tx *resource.Tx) {
		for _, want := range []town{generated, given} {
			if got, err := towns.Get(tx, want.TownId); err != nil || !reflect.DeepEqual(*got, want) {
				t.Errorf("Get answers %v and %v, want %v", got, err, want)
			}
		}
	})
	refused(t, db, alice, apierror.AlreadyExists, "town-00000001", func(tx *resource.Tx) error {
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
	db := open(t, at(now), func(o *resource.Options) { o.Rand = &chosen{} })
	first := insert(t, db, alice, letters, letter{})
	second := insert(t, db, alice, letters, letter{})
	if first.LetterId == second.LetterId {
		t.Fatalf("two letters are called %s", first.LetterId)
	}
	// The id of a letter that is only readable still is not free.
	update(t, db, alice, func(tx *resource.Tx) error { return letters.Delete(tx, second) })
	refused(t, db, alice, apierror.AlreadyExists, string(second.LetterId),
		func(tx *resource.Tx) error { return letters.Insert(tx, &letter{LetterId: second.LetterId}) })
}

func TestNewIDIsFreeInAllAccounts(t *testing.T) {
	t.Parallel()
	db := open(t, func(o *resource.Options) { o.Rand = &chosen{} })
	theirs := insert(t, db, bob, letters, letter{})
	update(t, db, alice, func(tx *resource.Tx) error {
		if got := letters.NewID(tx, tx.In(bob)); got == theirs.LetterId {
			t.Errorf("%s is bob's already", got)
		}
		return nil
	})
}

func TestMissing(t *testing.T) {
	t.Parallel()
	now := &clock{}
	db := open(t, at(now))
	gone := insert(t, db, alice, letters, letter{})
	update(t, db, alice, func(tx *resource.Tx) error { return letters.Delete(tx, gone) })
	foreign := insert(t, db, bob, towns, town{})
	view(t, db, alice, func(tx *resource.Tx) {
		for _, test := range []struct {
			name string
			get  func() error
			has  bool
			code apierror.Code
			says string
		}{
			{"its kind's own code", func() error { _, err := towns.Get(tx, "town-0"); return err }, towns.Has(tx, "town-0"), apierror.NetNotFound,
				"The TownId 'town-0' doesn't exist."},
			{"another account's", func() error { _, err := towns.Get(tx, foreign.TownId); return err }, towns.Has(tx, foreign.TownId),
				apierror.NetNotFound, string(foreign.TownId)},
			{"no code of its own", func() error { _, err := keys.Get(tx, "key-0"); return err }, keys.Has(tx, "key-0"), apierror.ObjectNotFound,
				"The KeyId 'key-0' doesn't exist."},
			{"deleted and readable", func() error { _, err := letters.Get(tx, gone.LetterId); return err }, letters.Has(tx, gone.LetterId),
				apierror.ObjectNotFound, string(gone.LetterId)},
			{"no id", func() error { _, err := towns.Get(tx, ""); return err }, towns.Has(tx, ""), apierror.NetNotFound, "''"},
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
		get  func(tx *resource.Tx) *town
	}{
		{"Get", func(tx *resource.Tx) *town { v, _ := towns.Get(tx, made.TownId); return v }},
		{"Living", func(tx *resource.Tx) *town { return towns.Find(tx, made.TownId) }},
		{"All", func(tx *resource.Tx) *town { return slices.Collect(towns.All(tx))[0] }},
	} {
		view(t, db, alice, func(tx *resource.Tx) {
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
	view(t, db, alice, func(tx *resource.Tx) {
		for _, found := range [][]*house{slices.Collect(houses.Where(tx, "Name", "mill")), slices.Collect(houses.Of(tx, made.TownId))} {
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
	update(t, db, alice, func(tx *resource.Tx) error {
		h.TownId, h.Name = b.TownId, "forge"
		return houses.Put(tx, h)
	})
	view(t, db, alice, func(tx *resource.Tx) {
		for _, test := range []struct {
			where string
			got   []string
			want  []string
		}{
			{"of the town before", each(houses.Of(tx, a.TownId), houseName), []string{}},
			{"of the town now", each(houses.Of(tx, b.TownId), houseName), []string{"forge"}},
			{"by the name before", each(houses.Where(tx, "Name", "mill"), houseName), []string{}},
			{"by the name now", each(houses.Where(tx, "Name", "forge"), houseName), []string{"forge"}},
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
	view(t, db, alice, func(tx *resource.Tx) {
		if got, _ := houses.Get(tx, h.HouseId); got.Guests != 0 {
			t.Errorf("a computed field was stored: %d", got.Guests)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	db := open(t)
	made := insert(t, db, alice, towns, town{Name: "Aigues"})
	update(t, db, alice, func(tx *resource.Tx) error { return towns.Delete(tx, made) })
	view(t, db, alice, func(tx *resource.Tx) {
		if towns.Has(tx, made.TownId) || towns.Count(tx) != 0 || len(slices.Collect(towns.All(tx))) != 0 {
			t.Error("a deleted town is still there")
		}
		for range towns.Each(tx, 0) {
			t.Error("a deleted town is still readable, and its kind does not keep it")
		}
	})
	refused(t, db, alice, apierror.NetNotFound, string(made.TownId), func(tx *resource.Tx) error { return towns.Delete(tx, made) })
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
	update(t, db, alice, func(tx *resource.Tx) error {
		first.Text = "first, read"
		return letters.Delete(tx, first)
	})

	text := func(l *letter) string { return l.Text }
	readable := func(tx *resource.Tx) (texts []string) {
		for _, l := range letters.Each(tx, 0) {
			texts = append(texts, l.Text)
		}
		return texts
	}
	view(t, db, alice, func(tx *resource.Tx) {
		if got := readable(tx); !slices.Equal(got, []string{"first, read", "second"}) {
			t.Errorf("readable are %q, want the deleted one as Delete left it, in its place", got)
		}
		if got := each(letters.All(tx), text); !slices.Equal(got, []string{"second"}) || letters.Count(tx) != 1 {
			t.Errorf("living are %q and counted %d", got, letters.Count(tx))
		}
	})
	refused(t, db, alice, apierror.ObjectNotFound, string(first.LetterId), func(tx *resource.Tx) error { return letters.Delete(tx, first) })
	// A letter that is only readable holds nothing.
	update(t, db, alice, func(tx *resource.Tx) error { return houses.Delete(tx, office) })

	purge := func() (next time.Time) {
		update(t, db, alice, func(tx *resource.Tx) error { next = letters.Purge(tx); return nil })
		return next
	}
	due := midnight.Add(time.Minute + letters.Retention)
	now.advance(letters.Retention - time.Millisecond)
	if next := purge(); !next.Equal(due) {
		t.Errorf("the next is due at %v, want %v", next, due)
	}
	view(t, db, alice, func(tx *resource.Tx) {
		if got := readable(tx); len(got) != 2 {
			t.Errorf("readable a moment before the end are %q", got)
		}
	})
	now.advance(time.Millisecond)
	if next := purge(); !next.IsZero() {
		t.Errorf("nothing is left to purge, and due is %v", next)
	}
	view(t, db, alice, func(tx *resource.Tx) {
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
		update(t, db, alice, func(tx *resource.Tx) error { return letters.Delete(tx, l) })
		now.advance(10 * time.Minute)
	}
	now.advance(30 * time.Minute) // an hour after the first
	update(t, db, alice, func(tx *resource.Tx) error {
		if next, want := letters.Purge(tx), midnight.Add(70*time.Minute); !next.Equal(want) {
			t.Errorf("the next is due at %v, want %v", next, want)
		}
		return nil
	})
	view(t, db, alice, func(tx *resource.Tx) {
		left := 0
		for range letters.Each(tx, 0) {
			left++
		}
		if left != 2 {
			t.Errorf("%d letters are readable, want 2", left)
		}
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
			Coins  map[string]resource.Secret
		}
		deep struct {
			TownId Town
			Chests []struct{ Coins [2]resource.Secret }
		}
	)
	for _, test := range []struct {
		name  string
		kinds []resource.Any
		says  string
	}{
		{"two kinds of a name", []resource.Any{towns, &resource.Kind[key, Key]{Name: "Town"}},
			"the kind Town, or one with its ids, is listed twice"},
		{"two kinds of an id type", []resource.Any{towns, &resource.Kind[bare, Town]{Name: "Village"}},
			"the kind Village, or one with its ids, is listed twice"},
		{"a kind twice", []resource.Any{towns, towns}, "listed twice"},
		{"a reference to no kind", []resource.Any{&resource.Kind[lost, Town]{Name: "Lost"}},
			"Key of the kind Lost refers to a resource_test.Key, and no kind has such ids"},
		{"a tag type without tags", []resource.Any{&resource.Kind[bare, Town]{Name: "Bare", Tag: "bare"}},
			"the kind Bare has a tag type, but no field for tags"},
		{"no id", []resource.Any{&resource.Kind[lone, Town]{Name: "Lone"}},
			"kind Lone: resource_test.lone has no field of the type resource_test.Town"},
		{"a unique key of no field", []resource.Any{&resource.Kind[bare, Town]{Name: "Bare", Unique: []string{"Name"}}},
			"kind Bare: unique key: Name: "},
		{"a unique key that is no text", []resource.Any{&resource.Kind[number, Town]{Name: "Number", Unique: []string{"Age"}}},
			"kind Number: unique key: Age is no text"},
		{"a quota per what is no reference", []resource.Any{&resource.Kind[number, Town]{Name: "Number", Quota: &resource.Quota{Per: "Age"}}},
			"kind Number: a quota per Age, which is no reference"},
		{"a quota per list of references", []resource.Any{towns,
			&resource.Kind[league, Key]{Name: "League", Quota: &resource.Quota{Per: "TownIds"}}},
			"kind League: a quota per TownIds, which is no reference"},
		{"a secret in a map", []resource.Any{&resource.Kind[chest, Town]{Name: "Chest"}}, "kind Chest: Coins is a map[string]resource.Secret"},
		{"a secret in an array in a list", []resource.Any{&resource.Kind[deep, Town]{Name: "Deep"}},
			"kind Deep: Chests.Coins is a [2]resource.Secret"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			said := panics(t, func() { _ = resource.Open(resource.Options{Kinds: test.kinds}).Close() })
			if !strings.Contains(said, test.says) {
				t.Errorf("the panic says %q, want %q", said, test.says)
			}
		})
	}
}

func TestKindsAreInOrder(t *testing.T) {
	t.Parallel()
	db := open(t)
	names := func(kinds []resource.Any) (names []string) {
		for _, k := range kinds {
			names = append(names, k.Facts().Name)
		}
		return names
	}
	want := []string{"Town", "House", "Letter", "Key"}
	if diff := cmp.Diff(want, names(db.Kinds())); diff != "" {
		t.Errorf("the kinds differ (-want +got):\n%s", diff)
	}
	view(t, db, alice, func(tx *resource.Tx) {
		if diff := cmp.Diff(want, names(tx.Kinds())); diff != "" {
			t.Errorf("the kinds in a transaction differ (-want +got):\n%s", diff)
		}
	})
}
