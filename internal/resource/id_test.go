package resource_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestFormCheck(t *testing.T) {
	t.Parallel()
	account := resource.Form{Length: 12, Alphabet: resource.Decimal}
	for _, test := range []struct {
		name string
		form resource.Form
		id   string
		want apierror.Code // 0: it has the form
	}{
		{"right", hex("town-"), "town-0123abcd", 0},
		{"of digits only", account, "123456789012", 0},
		{"empty", hex("town-"), "", apierror.InvalidID},
		{"of another kind", hex("town-"), "house-0123abcd", apierror.InvalidID},
		{"prefix in upper case", hex("town-"), "TOWN-0123abcd", apierror.InvalidID},
		{"space before", hex("town-"), " town-0123abcd", apierror.InvalidID},
		{"prefix cut short", hex("town-"), "town", apierror.InvalidID},
		{"prefix only", hex("town-"), "town-", apierror.MalformedID},
		{"too short", hex("town-"), "town-0123abc", apierror.MalformedID},
		{"too long", hex("town-"), "town-0123abcde", apierror.MalformedID},
		{"upper case", hex("town-"), "town-0123ABCD", apierror.MalformedID},
		{"wrong symbol inside", hex("town-"), "town-0123gbcd", apierror.MalformedID},
		{"wrong symbol at the end", hex("town-"), "town-0123abc\n", apierror.MalformedID},
		{"as long in bytes, not in symbols", hex("town-"), "town-0123abé", apierror.MalformedID},
		{"prefix twice", hex("town-"), "town-town-012", apierror.MalformedID},
		{"letters in an account", account, "12345678901a", apierror.MalformedID},
		{"no account", account, "", apierror.MalformedID},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.form.Check(test.id)
			if test.want == 0 && err != nil || test.want != 0 && !test.want.Is(err) {
				t.Errorf("Check(%q) = %v, want the code %s", test.id, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), test.form.String()) {
				t.Errorf("%q does not say the form %s", err, test.form)
			}
		})
	}
}

func TestRandomHasItsForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		form := resource.Form{
			Prefix:   rapid.SampledFrom([]string{"", "i-", "subnet-"}).Draw(t, "prefix"),
			Length:   rapid.IntRange(0, 40).Draw(t, "length"),
			Alphabet: rapid.SampledFrom([]string{resource.Hexadecimal, resource.Decimal, resource.Alphanumeric, "x"}).Draw(t, "alphabet"),
		}
		seed := [32]byte{rapid.Byte().Draw(t, "seed")}
		id := form.Random(rand.NewChaCha8(seed))
		if err := form.Check(id); err != nil {
			t.Errorf("a random id does not have its form: %v", err)
		}
		if again := form.Random(rand.NewChaCha8(seed)); again != id {
			t.Errorf("the same seed made %s and then %s", id, again)
		}
	})
}

// scattered is a source that gives each byte once before any comes again, the
// largest first and then in an order that has nothing to do with their size.
type scattered struct{ given int }

func (s *scattered) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(255 - 157*s.given) // 157 is odd, so that it meets every byte
		s.given++
	}
	return len(p), nil
}

// A source that gives every byte once gives every symbol as often as any other.
func TestRandomIsFair(t *testing.T) {
	t.Parallel()
	symbols := make([]byte, 128)
	for i := range symbols {
		symbols[i] = byte(i)
	}
	for n := 1; n <= len(symbols); n++ {
		alphabet := string(symbols[:n])
		text := resource.Random(&scattered{}, 256/n*n, alphabet)
		for _, symbol := range symbols[:n] {
			if got := strings.Count(text, string(rune(symbol))); got != 256/n {
				t.Fatalf("of %d symbols number %d came %d times, want %d", n, symbol, got, 256/n)
			}
		}
	}
}

func TestRandomNeedsItsSource(t *testing.T) {
	t.Parallel()
	said := panics(t, func() { resource.Random(iotest.ErrReader(errors.New("dry")), 8, resource.Decimal) })
	if !strings.Contains(said, "dry") {
		t.Errorf("the panic says %q, not why", said)
	}
}

type (
	plain    string
	numbered int
	pointed  string
)

func (numbered) Form() resource.Form { return hex("n-") }
func (*pointed) Form() resource.Form { return hex("p-") }

func TestFormOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		of   reflect.Type
		want string // empty: it has no form
	}{
		{"an id", reflect.TypeFor[Town](), "town-xxxxxxxx"},
		{"a text", reflect.TypeFor[string](), ""},
		{"a named text", reflect.TypeFor[plain](), ""},
		{"a number with a form", reflect.TypeFor[numbered](), ""},
		{"a form of the pointer only", reflect.TypeFor[pointed](), ""},
		{"a pointer to an id", reflect.TypeFor[*Town](), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			form, ok := resource.FormOf(test.of)
			if ok != (test.want != "") || ok && form.String() != test.want {
				t.Errorf("FormOf(%s) = %s, %t, want %q", test.of, form, ok, test.want)
			}
		})
	}
}

// Several tables have names as keys, which are no references, and which only rules
// choose.
func TestNames(t *testing.T) {
	t.Parallel()
	type entry struct{ Key, Same resource.Name }
	streets := &resource.Kind[entry, resource.Name]{Name: "Street"}
	lanes := &resource.Kind[entry, resource.Name]{Name: "Lane"}
	db := open(t, func(o *resource.Options) { o.Kinds = append(o.Kinds, streets, lanes) })
	insert(t, db, alice, streets, entry{Key: "a/b", Same: "nothing of the sort"})
	insert(t, db, alice, lanes, entry{Key: "a/b"})
	view(t, db, alice, func(tx *resource.Tx) {
		if streets.Find(tx, "a/b") == nil || lanes.Find(tx, "a/b").Same != "" || streets.Has(tx, "nothing of the sort") {
			t.Error("the tables do not have what was inserted into them")
		}
	})
	panics(t, func() {
		db.View(t.Context(), resource.Caller{Account: alice}, func(tx *resource.Tx) error { streets.NewID(tx); return nil })
	})
}
