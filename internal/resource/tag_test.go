package resource_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestTagCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		tag  resource.ResourceTag
		want apierror.Code // 0: it may be had
	}{
		{"a key and a value", resource.ResourceTag{Key: "k", Value: "v"}, 0},
		{"no value", resource.ResourceTag{Key: "k"}, 0},
		{"no key", resource.ResourceTag{Value: "v"}, apierror.InvalidTagKey},
		{"a long key", resource.ResourceTag{Key: strings.Repeat("é", 255)}, 0},
		{"a key too long", resource.ResourceTag{Key: strings.Repeat("k", 256)}, apierror.InvalidLength},
		{"a long value", resource.ResourceTag{Key: "k", Value: strings.Repeat("é", 255)}, 0},
		{"a value too long", resource.ResourceTag{Key: "k", Value: strings.Repeat("v", 256)}, apierror.TagValueTooLong},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if err := test.tag.Check(); test.want == 0 && err != nil || test.want != 0 && !test.want.Is(err) {
				t.Errorf("Check answers %v, want the code %s", err, test.want)
			}
		})
	}
}

// However they come, tags are ordered by key, each key has its last value, and
// the lists that were there before are as they were.
func TestWithTags(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tags []resource.ResourceTag
		want := map[string]string{}
		for range rapid.IntRange(0, 4).Draw(t, "calls") {
			var more []resource.ResourceTag
			for range rapid.IntRange(0, 6).Draw(t, "tags") {
				tag := resource.ResourceTag{Key: rapid.StringMatching(`[a-dA-D]{1,2}`).Draw(t, "key"), Value: rapid.StringN(0, 3, -1).Draw(t, "value")}
				more, want[tag.Key] = append(more, tag), tag.Value
			}
			had, given := slices.Clone(tags), slices.Clone(more)
			after := resource.WithTags(tags, resource.UniqueTags(more))
			if diff := cmp.Diff([][]resource.ResourceTag{had, given}, [][]resource.ResourceTag{tags, more}); diff != "" {
				t.Fatalf("the lists that were given are changed (-before +after):\n%s", diff)
			}
			tags = after
		}
		got := map[string]string{}
		for i, tag := range tags {
			got[tag.Key] = tag.Value
			if i > 0 && tags[i-1].Key >= tag.Key {
				t.Errorf("%q comes before %q", tags[i-1].Key, tag.Key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the tags differ (-want +got):\n%s", diff)
		}
	})
}

func TestTagged(t *testing.T) {
	t.Parallel()
	db := open(t)
	a := insert(t, db, alice, towns, town{Name: "A", Tags: []resource.ResourceTag{{Key: "size", Value: "small"}}})
	bare := insert(t, db, alice, towns, town{Name: "bare"})
	h := insert(t, db, alice, houses, house{TownId: a.TownId, Name: "mill", Tags: []resource.ResourceTag{{Key: "roof", Value: "red"}}})
	late := insert(t, db, alice, towns, town{Name: "late", Tags: []resource.ResourceTag{{Key: "size", Value: "large"}}})
	read := insert(t, db, alice, letters, letter{Tags: []resource.ResourceTag{{Key: "k"}}})
	k := insert(t, db, alice, keys, key{})
	insert(t, db, bob, towns, town{Tags: []resource.ResourceTag{{Key: "his", Value: ""}}})
	gone := insert(t, db, alice, towns, town{Tags: []resource.ResourceTag{{Key: "k"}}})
	update(t, db, alice, func(tx *resource.Tx) error {
		must(letters.Delete(tx, read))
		return towns.Delete(tx, gone)
	})

	type shown struct {
		Kind, Type, ID string
		Tags           []resource.ResourceTag
	}
	show := func(r resource.Tagged) shown { return shown{r.Kind, r.Type, r.ID, r.Tags()} }
	inTownA := shown{"Town", "town", string(a.TownId), a.Tags}
	view(t, db, alice, func(tx *resource.Tx) {
		for id, want := range map[string]*shown{
			string(a.TownId):      &inTownA,
			string(bare.TownId):   {"Town", "town", string(bare.TownId), nil},
			string(h.HouseId):     {"House", "house", string(h.HouseId), h.Tags},
			string(k.KeyId):       nil, // a kind without tags
			string(gone.TownId):   nil,
			string(read.LetterId): nil, // deleted and readable
			"town-0":              nil,
		} {
			r, ok := tx.Tagged(id)
			if ok != (want != nil) {
				t.Errorf("Tagged(%s) says %t", id, ok)
			} else if ok {
				if diff := cmp.Diff(*want, show(r)); diff != "" {
					t.Errorf("Tagged(%s) differs (-want +got):\n%s", id, diff)
				}
			}
		}

		var all []shown
		var seqs []uint64
		for r := range tx.AllTagged {
			all, seqs = append(all, show(r)), append(seqs, r.Seq)
		}
		want := []shown{inTownA, {"Town", "town", string(late.TownId), late.Tags}, {"House", "house", string(h.HouseId), h.Tags}}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Errorf("what is tagged differs (-want +got):\n%s", diff)
		}
		if len(seqs) == 3 && (seqs[0] >= seqs[2] || seqs[2] >= seqs[1]) {
			t.Errorf("the positions %d are not those of creation", seqs)
		}
		for range tx.AllTagged {
			break
		}
	})
}

func TestSetTags(t *testing.T) {
	t.Parallel()
	db := open(t)
	of := insert(t, db, alice, towns, town{})
	h := insert(t, db, alice, houses, house{TownId: of.TownId, Name: "mill", Tags: []resource.ResourceTag{{Key: "roof", Value: "red"}}})
	insert(t, db, alice, houses, house{TownId: of.TownId, Name: "barn"})
	set := func(tags []resource.ResourceTag) {
		update(t, db, alice, func(tx *resource.Tx) error {
			r, ok := tx.Tagged(string(h.HouseId))
			if !ok {
				return errors.New("the house is not found")
			}
			tx.SetTags(r, tags)
			return nil
		})
	}
	for _, tags := range [][]resource.ResourceTag{{{Key: "a"}, {Key: "roof", Value: "blue"}}, {}, nil} {
		view(t, db, alice, func(tx *resource.Tx) {
			before, _ := houses.Get(tx, h.HouseId)
			was := slices.Clone(before.Tags)
			set(tags)
			if diff := cmp.Diff(was, before.Tags); diff != "" {
				t.Errorf("setting tags changed what a view sees (-before +after):\n%s", diff)
			}
		})
		view(t, db, alice, func(tx *resource.Tx) {
			got, err := houses.Get(tx, h.HouseId)
			if err != nil {
				t.Fatal(err)
			}
			if want := (house{HouseId: h.HouseId, TownId: of.TownId, Name: "mill", Tags: tags}); !cmp.Equal(want, *got) {
				t.Errorf("the house is now (-want +got):\n%s", cmp.Diff(want, *got))
			}
			// Its place and its indexes are as before.
			if got := each(houses.Of(tx, of.TownId), houseName); !slices.Equal(got, []string{"mill", "barn"}) {
				t.Errorf("of the town are %q", got)
			}
			if got := each(houses.Where(tx, "Name", "mill"), houseName); len(got) != 1 {
				t.Errorf("called mill are %q", got)
			}
		})
	}
}

// What the region made for its own needs has no tags for anybody.
func TestHiddenIsNotTagged(t *testing.T) {
	t.Parallel()
	db := open(t)
	secret := insert(t, db, alice, houses, house{Name: hideout, Tags: []resource.ResourceTag{{Key: "roof", Value: "none"}}})
	view(t, db, alice, func(tx *resource.Tx) {
		if _, ok := tx.Tagged(string(secret.HouseId)); ok {
			t.Errorf("the hidden house %s can be tagged", secret.HouseId)
		}
	})
}
