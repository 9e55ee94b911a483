package resource_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// moment is a time as the API keeps it: zero is none.
type moment int64

func (m moment) IsZero() bool { return m == 0 }

// everything has a field of each type that a stored struct may have.
type everything struct {
	KeyId   Key
	Text    string
	Color   plain
	Yes     bool
	Maybe   *bool
	Int     int
	Int64   int64
	Uint16  uint16
	Uint64  uint64
	Float   float64
	Bytes   []byte
	When    time.Time
	Moment  moment
	Twin    Key `ref:"-"`
	Twins   []Key
	Texts   []string
	Number  *int
	Leaf    leaf
	Perhaps *leaf
	Leaves  []leaf
	Shoots  []*branch
	Secret  resource.Secret
	Secrets []resource.Secret
	Hidden  *resource.Secret
	Boxes   []box
	Crown
	Tags []resource.ResourceTag
}

type box struct {
	Label string
	Code  *resource.Secret
}

var everythings = &resource.Kind[everything, Key]{Name: "Everything", Tag: "everything"}

// optional draws a pointer, nil half of the time.
func optional[T any](of *rapid.Generator[T]) *rapid.Generator[*T] { return rapid.Ptr(of, true) }

// list draws a list, nil when it is empty: JSON has one empty list.
func list[T any](of *rapid.Generator[T]) *rapid.Generator[[]T] {
	return rapid.Map(rapid.SliceOfN(of, 0, 4), func(l []T) []T {
		if len(l) == 0 {
			return nil
		}
		return l
	})
}

// drawEverything draws values of all fields, zero ones often.
func drawEverything(t *rapid.T) everything {
	secret := rapid.Map(rapid.String(), func(s string) resource.Secret { return resource.Secret(s) })
	color := rapid.Map(rapid.String(), func(s string) leaf { return leaf{s} })
	tag := rapid.Custom(func(t *rapid.T) resource.ResourceTag {
		return resource.ResourceTag{Key: rapid.String().Draw(t, "key"), Value: rapid.String().Draw(t, "value")}
	})
	shoot := rapid.Custom(func(t *rapid.T) *branch {
		return &branch{Length: rapid.Int().Draw(t, "length"), Leaf: optional(color).Draw(t, "leaf"), Leaves: list(color).Draw(t, "leaves")}
	})
	locked := rapid.Custom(func(t *rapid.T) box {
		return box{Label: rapid.String().Draw(t, "label"), Code: optional(secret).Draw(t, "code")}
	})
	return everything{
		Text:    rapid.String().Draw(t, "Text"),
		Color:   plain(rapid.String().Draw(t, "Color")),
		Yes:     rapid.Bool().Draw(t, "Yes"),
		Maybe:   optional(rapid.Bool()).Draw(t, "Maybe"),
		Int:     rapid.Int().Draw(t, "Int"),
		Int64:   rapid.Int64().Draw(t, "Int64"),
		Uint16:  rapid.Uint16().Draw(t, "Uint16"),
		Uint64:  rapid.Uint64().Draw(t, "Uint64"),
		Float:   rapid.Float64Range(-1e300, 1e300).Draw(t, "Float"),
		Bytes:   list(rapid.Byte()).Draw(t, "Bytes"),
		When:    time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "When"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")).UTC(),
		Moment:  moment(rapid.Int64().Draw(t, "Moment")),
		Twin:    Key(rapid.StringMatching("key-[0-9]").Draw(t, "Twin")),
		Texts:   list(rapid.String()).Draw(t, "Texts"),
		Number:  optional(rapid.Int()).Draw(t, "Number"),
		Leaf:    color.Draw(t, "Leaf"),
		Perhaps: optional(color).Draw(t, "Perhaps"),
		Leaves:  list(color).Draw(t, "Leaves"),
		Shoots:  list(shoot).Draw(t, "Shoots"),
		Secret:  secret.Draw(t, "Secret"),
		Secrets: list(secret).Draw(t, "Secrets"),
		Hidden:  optional(secret).Draw(t, "Hidden"),
		Boxes:   list(locked).Draw(t, "Boxes"),
		Crown:   Crown{rapid.Int().Draw(t, "Height")},
		Tags:    list(tag).Draw(t, "Tags"),
	}
}

// What a restart reads is what was written.
func TestRestart(t *testing.T) {
	t.Parallel()
	options := func(j store.Journal) resource.Options {
		return resource.Options{Kinds: []resource.Any{everythings}, Journal: j, Seal: masterKey(1), Now: (&clock{}).Now, Rand: &scattered{}}
	}
	rapid.Check(t, func(t *rapid.T) {
		j := newRows()
		db := resource.Open(options(j))
		zero := insert(t, db, alice, everythings, everything{})
		made := drawEverything(t)
		made.Twins = []Key{zero.KeyId}
		made = *insert(t, db, alice, everythings, made)
		must(db.Close())

		db = resource.Open(options(j))
		defer db.Close()
		view(t, db, alice, func(tx *resource.Tx) {
			for _, want := range []everything{*zero, made} {
				got, err := everythings.Get(tx, want.KeyId)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, *got); diff != "" {
					t.Errorf("after a restart a resource differs (-before +after):\n%s", diff)
				}
			}
			if n := len(slices.Collect(everythings.Of(tx, zero.KeyId))); n != 1 {
				t.Errorf("after a restart %d references are found, want 1", n)
			}
		})
	})
}

func TestDocumentsOmitWhatIsZero(t *testing.T) {
	t.Parallel()
	j := newRows()
	db := open(t, over(j))
	of := insert(t, db, alice, towns, town{})
	h := insert(t, db, alice, houses, house{TownId: of.TownId, Guests: 3})
	want := fmt.Sprintf(`{"HouseId":%q,"TownId":%q}`, h.HouseId, of.TownId)
	if doc := j.doc(t, alice, "House", string(h.HouseId)); doc != want {
		t.Errorf("the document is %s, want %s", doc, want)
	}
}

// reopened answers what reading an account says after its rows were changed.
func reopened(t *testing.T, j *rows, account string, set ...func(*resource.Options)) error {
	t.Helper()
	db := open(t, append(set, over(j))...)
	return db.View(t.Context(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
		keys.Count(tx)
		return nil
	})
}

// A member that this program does not know was written by a newer one, and
// would be lost.
func TestUnknownMembersAreRefused(t *testing.T) {
	t.Parallel()
	j := newRows()
	of := insert(t, open(t, over(j)), alice, towns, town{})
	place := [2]string{"Town", string(of.TownId)}
	row := j.accounts[alice].rows[place]
	row.Doc = []byte(strings.Replace(string(row.Doc), "{", `{"Moat":true,`, 1))
	j.accounts[alice].rows[place] = row
	if err := reopened(t, j, alice); err == nil || !strings.Contains(err.Error(), "Moat") {
		t.Errorf("reading it answers %v, not what is unknown", err)
	}
}

const (
	teeth  = "teeth-of-the-key"
	copied = "teeth-of-a-copy"
	spare  = "teeth-of-the-spare"
)

func cut() key {
	return key{Teeth: teeth, Copies: []resource.Secret{copied, "", copied}, Spare: new(resource.Secret(spare))}
}

func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	j := newRows()
	k := insert(t, open(t, over(j)), alice, keys, cut())
	doc := j.doc(t, alice, "Key", string(k.KeyId))
	if strings.Contains(doc, "teeth") || strings.Contains(doc, "*") {
		t.Errorf("the document shows a secret, or lost it: %s", doc)
	}
	var stored struct{ Copies []string }
	if err := json.Unmarshal([]byte(doc), &stored); err != nil {
		t.Fatal(err)
	}
	if stored.Copies[0] == stored.Copies[2] {
		t.Errorf("two equal secrets are sealed alike: %s", doc)
	}
	if stored.Copies[1] != "" {
		t.Errorf("a secret that is none is sealed: %s", doc)
	}
	db := open(t, over(j))
	view(t, db, alice, func(tx *resource.Tx) {
		got, err := keys.Get(tx, k.KeyId)
		if err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(*k, *got) {
			t.Error("the key that was read is not the one that was written")
		}
	})
}

func TestSecretsOpenInTheirPlaceOnly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		move func(j *rows, k Key)
		with func(*resource.Options)
	}{
		{"another master key", func(*rows, Key) {}, func(o *resource.Options) { o.Seal = masterKey(2) }},
		{"another account", func(j *rows, _ Key) { j.accounts[alice], j.accounts[bob] = nil, j.accounts[alice] }, func(*resource.Options) {}},
		{"another id", func(j *rows, k Key) {
			row := j.accounts[alice].rows[[2]string{"Key", string(k)}]
			delete(j.accounts[alice].rows, [2]string{"Key", string(k)})
			row.ID = "key-00000000"
			j.accounts[alice].rows[[2]string{"Key", row.ID}] = row
		}, func(*resource.Options) {}},
		{"no longer sealed", func(j *rows, k Key) {
			place := [2]string{"Key", string(k)}
			row := j.accounts[alice].rows[place]
			row.Doc = fmt.Appendf(nil, `{"KeyId":%q,"Teeth":%q}`, k, teeth)
			j.accounts[alice].rows[place] = row
		}, func(*resource.Options) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := newRows()
			k := insert(t, open(t, over(j)), alice, keys, cut())
			test.move(j, k.KeyId)
			account := alice
			if j.accounts[alice] == nil {
				account = bob
			}
			err := reopened(t, j, account, test.with)
			if err == nil {
				t.Fatal("it can be read")
			}
			if strings.Contains(err.Error(), "teeth") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	k := cut()
	var logged bytes.Buffer
	for _, log := range []*slog.Logger{slog.New(slog.NewJSONHandler(&logged, nil)), slog.New(slog.NewTextHandler(&logged, nil))} {
		log.Info("cut", "teeth", k.Teeth, "key", k, "pointer", &k, "group", slog.GroupValue(slog.Any("copies", k.Copies)))
		log.With("teeth", k.Teeth).Info(fmt.Sprint(k.Teeth))
	}
	asJSON, err := json.Marshal(map[string]any{"teeth": k.Teeth, "key": k})
	must(err)
	shown := map[string]string{
		"the logs":  logged.String(),
		"JSON":      string(asJSON),
		"an error":  fmt.Errorf("the key %s is bent: %v", k.Teeth, k).Error(),
		"a message": k.Teeth.String(),
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x"} {
		shown["a secret by "+verb] = fmt.Sprintf(verb, k.Teeth)
		shown["a struct by "+verb] = fmt.Sprintf(verb, k)
		shown["a pointer by "+verb] = fmt.Sprintf(verb, &k)
		shown["a list by "+verb] = fmt.Sprintf(verb, k.Copies)
	}
	for where, text := range shown {
		for _, secret := range []string{teeth, copied, spare} {
			for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprintf("% x", secret)} {
				if strings.Contains(text, form) {
					t.Errorf("%s shows a secret: %s", where, text)
				}
			}
		}
	}
	if !strings.Contains(logged.String(), "*****") {
		t.Errorf("the logs do not show that there is a secret: %s", &logged)
	}
}
