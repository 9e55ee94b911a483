package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Two kinds that can have tags, and one that cannot.
type (
	boat struct {
		BoatId boatID
		Name   string
		Tags   []api.Tag
	}
	kite struct {
		KiteId kiteID
		Tags   []api.Tag
	}
	rock struct{ RockId rockID }

	boatID string
	kiteID string
	rockID string
)

func (boatID) Form() resource.Form {
	return resource.Form{Prefix: "boat-", Length: 8, Alphabet: resource.Hexadecimal}
}
func (kiteID) Form() resource.Form {
	return resource.Form{Prefix: "kite-", Length: 8, Alphabet: resource.Hexadecimal}
}
func (rockID) Form() resource.Form {
	return resource.Form{Prefix: "rock-", Length: 8, Alphabet: resource.Hexadecimal}
}

var alice, bob = resource.Caller{Account: "123456789012"}, resource.Caller{Account: "210987654321"}

// tagRegion is a region with those kinds and the actions on tags.
type tagRegion struct {
	rapid.TB
	*cloudtest.Region
	boats *resource.Kind[boat, boatID]
	kites *resource.Kind[kite, kiteID]
	rocks *resource.Kind[rock, rockID]
}

func newTagRegion(t rapid.TB) *tagRegion {
	s := &tagRegion{
		TB:    t,
		boats: &resource.Kind[boat, boatID]{Name: "Boat", Tag: "boat", NotFound: apierror.VmNotFound},
		kites: &resource.Kind[kite, kiteID]{Name: "Kite", Tag: "kite", NotFound: apierror.VolumeNotFound},
		rocks: &resource.Kind[rock, rockID]{Name: "Rock"},
	}
	s.Region = cloudtest.Open(t, tagActions(), resource.Options{
		Kinds: []resource.Any{s.boats, s.kites, s.rocks}, Log: slog.New(slog.DiscardHandler),
	})
	return s
}

// do runs a rule for a caller.
func (s *tagRegion) do(caller resource.Caller, rule func(tx *resource.Tx) error) {
	s.Helper()
	if err := s.DB.Update(context.Background(), caller, rule); err != nil {
		s.Fatal(err)
	}
}

func (s *tagRegion) boat(caller resource.Caller, tags ...api.Tag) string {
	b := &boat{Name: "Windrose", Tags: tags}
	s.do(caller, func(tx *resource.Tx) error { return s.boats.Insert(tx, b) })
	return string(b.BoatId)
}

func (s *tagRegion) kite(caller resource.Caller, tags ...api.Tag) string {
	k := &kite{Tags: tags}
	s.do(caller, func(tx *resource.Tx) error { return s.kites.Insert(tx, k) })
	return string(k.KiteId)
}

type tagsPage struct {
	Tags          []resource.Tag
	NextPageToken string
}

// call calls an action with a request that is made to JSON.
func (s *tagRegion) call(caller resource.Caller, action string, request any) (page tagsPage, err error) {
	s.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		s.Fatal(err)
	}
	answer, err := s.Send(caller, action, string(body))
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		s.Fatal(err)
	}
	return page, nil
}

// m is a JSON object.
type m map[string]any

// tags are the tags that ReadTags shows, as texts.
func (s *tagRegion) tags(caller resource.Caller, filters m) []string {
	s.Helper()
	page, err := s.call(caller, "ReadTags", m{"Filters": filters, "ResultsPerPage": 1000})
	if err != nil {
		s.Fatal(err)
	}
	texts := []string{}
	for _, t := range page.Tags {
		texts = append(texts, fmt.Sprintf("%s %s %s=%s", t.ResourceType, t.ResourceId, t.Key, t.Value))
	}
	return texts
}

func (s *tagRegion) wantTags(caller resource.Caller, filters m, want ...string) {
	s.Helper()
	if got := s.tags(caller, filters); !slices.Equal(got, append([]string{}, want...)) {
		s.Errorf("ReadTags %v shows %q, want %q", filters, got, want)
	}
}

func TestCreateTags(t *testing.T) {
	t.Parallel()
	s := newTagRegion(t)
	b, k := s.boat(alice, api.Tag{Key: "color", Value: "red"}), s.kite(alice)
	_, err := s.call(alice, "CreateTags", m{
		"ResourceIds": []string{b, k}, "Tags": []api.Tag{{Key: "owner", Value: ""}, {Key: "color", Value: "blue"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantTags(alice, nil, "boat "+b+" color=blue", "boat "+b+" owner=", "kite "+k+" color=blue", "kite "+k+" owner=")
	// The rest of the resource is as it was.
	err = s.DB.View(t.Context(), alice, func(tx *resource.Tx) error {
		got, err := s.boats.Get(tx, boatID(b))
		if err == nil && got.Name != "Windrose" {
			t.Errorf("the boat is now called %q", got.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSpecialKeysAreAccepted(t *testing.T) {
	t.Parallel()
	s := newTagRegion(t)
	b := s.boat(alice)
	for _, key := range []string{"osc.fcu.eip.auto-attach", "Key:", "kubernetes.io/cluster/a", strings.Repeat("é", 255)} {
		if _, err := s.call(alice, "CreateTags", m{"ResourceIds": []string{b}, "Tags": []api.Tag{{Key: key, Value: ":value=x"}}}); err != nil {
			t.Errorf("the key %q is refused: %v", key, err)
		}
	}
}

func TestCreateTagsRefuses(t *testing.T) {
	t.Parallel()
	tag := []m{{"Key": "a", "Value": "b"}}
	many := make([]m, resource.MaxTags+1)
	for i := range many {
		many[i] = m{"Key": fmt.Sprint(i), "Value": ""}
	}
	for name, tt := range map[string]struct {
		ids  func(s *tagRegion) []string
		tags []m
		want apierror.Code
	}{
		"an unknown resource":        {func(*tagRegion) []string { return []string{"boat-00000000"} }, tag, apierror.VmNotFound},
		"another account's resource": {func(s *tagRegion) []string { return []string{s.boat(bob)} }, tag, apierror.VmNotFound},
		"what cannot have tags": {func(s *tagRegion) []string {
			r := &rock{}
			s.do(alice, func(tx *resource.Tx) error { return s.rocks.Insert(tx, r) })
			return []string{string(r.RockId)}
		}, tag, apierror.ResourceNotFound},
		"no resources": {func(*tagRegion) []string { return []string{} }, tag, apierror.MissingParameter},
		"no tags":      {func(s *tagRegion) []string { return []string{s.boat(alice)} }, []m{}, apierror.MissingParameter},
		"no key":       {func(s *tagRegion) []string { return []string{s.boat(alice)} }, []m{{"Value": "b"}}, apierror.MissingParameter},
		"no value":     {func(s *tagRegion) []string { return []string{s.boat(alice)} }, []m{{"Key": "a"}}, apierror.MissingParameter},
		"an empty key": {func(s *tagRegion) []string { return []string{s.boat(alice)} }, []m{{"Key": "", "Value": "b"}},
			apierror.InvalidTagKey},
		"a key of 256": {func(s *tagRegion) []string { return []string{s.boat(alice)} },
			[]m{{"Key": strings.Repeat("k", 256), "Value": ""}}, apierror.InvalidLength},
		"a value of 256": {func(s *tagRegion) []string { return []string{s.boat(alice)} },
			[]m{{"Key": "k", "Value": strings.Repeat("v", 256)}}, apierror.TagValueTooLong},
		"more tags than fit": {func(s *tagRegion) []string { return []string{s.boat(alice)} }, many, apierror.TooManyTags},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTagRegion(t)
			// The first resource could have the tag, and must not get it.
			ids := tt.ids(s)
			if len(ids) > 0 {
				ids = append([]string{s.kite(alice)}, ids...)
			}
			_, err := s.call(alice, "CreateTags", m{"ResourceIds": ids, "Tags": tt.tags})
			if !tt.want.Is(err) {
				t.Errorf("the error is %v, want code %s", err, tt.want)
			}
			s.wantTags(alice, nil)
		})
	}
}

// Two lists of a request are not multiplied: what is said a thousand times costs
// reading it a thousand times, and is done once.
func TestRepeatedTagsAreSetOnce(t *testing.T) {
	s := newTagRegion(t)
	b := s.boat(alice)
	ids, tags := make([]string, 1000), make([]m, 1000)
	for i := range ids {
		ids[i], tags[i] = b, m{"Key": fmt.Sprint("key ", i%resource.MaxTags), "Value": fmt.Sprint(i % resource.MaxTags)}
	}
	for _, action := range []string{"CreateTags", "DeleteTags"} {
		allocated := testing.AllocsPerRun(1, func() {
			if _, err := s.call(alice, action, m{"ResourceIds": ids, "Tags": tags}); err != nil {
				t.Fatal(err)
			}
		})
		if most := 50_000.0; allocated > most {
			t.Errorf("%s allocates %.0f times, want at most %.0f", action, allocated, most)
		}
	}
	s.wantTags(alice, nil)
}

func TestTheLastTagOfAKeyCounts(t *testing.T) {
	t.Parallel()
	s := newTagRegion(t)
	b := s.boat(alice)
	if _, err := s.call(alice, "CreateTags", m{"ResourceIds": []string{b, b},
		"Tags": []api.Tag{{Key: "a", Value: "1"}, {Key: "b", Value: ""}, {Key: "a", Value: "2"}}}); err != nil {
		t.Fatal(err)
	}
	s.wantTags(alice, nil, "boat "+b+" a=2", "boat "+b+" b=")
}

func TestDeleteTags(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tag  api.Tag
		left []string
	}{
		"key and value match": {api.Tag{Key: "color", Value: "red"}, []string{"size=big"}},
		"another value":       {api.Tag{Key: "color", Value: "blue"}, []string{"color=red", "size=big"}},
		"any value":           {api.Tag{Key: "size", Value: ""}, []string{"color=red"}},
		"no such key":         {api.Tag{Key: "age", Value: "1"}, []string{"color=red", "size=big"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTagRegion(t)
			b := s.boat(alice, api.Tag{Key: "color", Value: "red"}, api.Tag{Key: "size", Value: "big"})
			if _, err := s.call(alice, "DeleteTags", m{"ResourceIds": []string{b}, "Tags": []api.Tag{tt.tag}}); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, tag := range tt.left {
				want = append(want, "boat "+b+" "+tag)
			}
			s.wantTags(alice, nil, want...)
		})
	}
}

func TestDeleteTagsTakesAsManyAsAResourceHas(t *testing.T) {
	t.Parallel()
	s := newTagRegion(t)
	b := s.boat(alice)
	tags := make([]api.Tag, resource.MaxTags+1)
	for i := range tags {
		tags[i] = api.Tag{Key: fmt.Sprint(i)}
	}
	_, err := s.call(alice, "DeleteTags", m{"ResourceIds": []string{b}, "Tags": tags})
	if !apierror.TooManyTags.Is(err) {
		t.Errorf("the error is %v, want code 10041", err)
	}
}

func TestDeleteTagsOfUnknownResource(t *testing.T) {
	t.Parallel()
	s := newTagRegion(t)
	b := s.boat(alice, api.Tag{Key: "a", Value: "b"})
	_, err := s.call(alice, "DeleteTags", m{"ResourceIds": []string{b, "kite-ffffffff"}, "Tags": []api.Tag{{Key: "a", Value: "b"}}})
	if !apierror.VolumeNotFound.Is(err) {
		t.Errorf("the error is %v, want code 5064", err)
	}
	s.wantTags(alice, nil, "boat "+b+" a=b")
}

func TestReadTagsFilters(t *testing.T) {
	t.Parallel()
	s := newTagRegion(t)
	s.boat(bob, api.Tag{Key: "color", Value: "red"})
	k := s.kite(alice, api.Tag{Key: "color", Value: "red"})
	b := s.boat(alice, api.Tag{Key: "color", Value: "blue"}, api.Tag{Key: "size", Value: "red"})
	s.boat(alice)
	kc, bc, bs := "kite "+k+" color=red", "boat "+b+" color=blue", "boat "+b+" size=red"
	s.wantTags(alice, nil, kc, bc, bs) // in order of creation, whatever the kind
	s.wantTags(alice, m{"Keys": []string{"color"}}, kc, bc)
	s.wantTags(alice, m{"Values": []string{"red"}}, kc, bs)
	s.wantTags(alice, m{"Keys": []string{"color"}, "Values": []string{"red"}}, kc)
	s.wantTags(alice, m{"ResourceIds": []string{b, "boat-00000000"}}, bc, bs)
	s.wantTags(alice, m{"ResourceTypes": []string{"kite", "instance"}}, kc)
	s.wantTags(alice, m{"ResourceTypes": []string{"kite"}, "ResourceIds": []string{b}})
}

// TestReadTagsPagesAreStable walks through pages while tags and resources come
// and go: no tag is shown twice, and none that was there all the time is left
// out.
func TestReadTagsPagesAreStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newTagRegion(t)
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "é", "z"})
		var ids []string
		have := map[string]bool{} // "id key" of all tags there are
		grow := func() {
			if rapid.Bool().Draw(t, "a boat") {
				ids = append(ids, s.boat(alice))
			} else {
				ids = append(ids, s.kite(alice))
			}
		}
		tag := func() {
			id, key := rapid.SampledFrom(ids).Draw(t, "tagged"), keys.Draw(t, "key")
			if _, err := s.call(alice, "CreateTags", m{"ResourceIds": []string{id}, "Tags": []api.Tag{{Key: key, Value: "x"}}}); err != nil {
				t.Fatal(err)
			}
			have[id+" "+key] = true
		}
		untag := func() {
			id, key := rapid.SampledFrom(ids).Draw(t, "untagged"), keys.Draw(t, "key")
			if _, err := s.call(alice, "DeleteTags", m{"ResourceIds": []string{id}, "Tags": []api.Tag{{Key: key, Value: ""}}}); err != nil {
				t.Fatal(err)
			}
			delete(have, id+" "+key)
		}
		for range 6 {
			grow()
		}
		for range 15 {
			tag()
		}
		throughout := maps.Clone(have)
		shown := map[string]bool{}
		for token, first := "", true; first || token != ""; first = false {
			page, err := s.call(alice, "ReadTags", m{"ResultsPerPage": rapid.IntRange(1, 4).Draw(t, "size"), "NextPageToken": token})
			if err != nil {
				t.Fatal(err)
			}
			for _, tag := range page.Tags {
				name := tag.ResourceId + " " + tag.Key
				if shown[name] {
					t.Fatalf("%s is shown twice", name)
				}
				shown[name] = true
			}
			token = page.NextPageToken
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				rapid.SampledFrom([]func(){grow, tag, untag}).Draw(t, "change")()
				maps.DeleteFunc(throughout, func(name string, _ bool) bool { return !have[name] })
			}
		}
		for name := range throughout {
			if !shown[name] {
				t.Errorf("%s was there all the time and is not shown", name)
			}
		}
		s.DB.Close()
	})
}
