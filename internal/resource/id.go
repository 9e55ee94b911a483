package resource

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// ID is a typed identifier: a string on the wire, a type of its own in Go that
// knows its form. A field of such a type in a stored struct is a reference.
type ID interface {
	~string
	Form() Form
}

// Form is the form of a kind's identifiers: a prefix and a number of symbols.
type Form struct {
	Prefix   string
	Length   int    // symbols after the prefix
	Alphabet string // of the symbols
}

// Name is the key of a table of the region's own, whose rules give each entry its
// name: a credential, an address, the id of something of any kind. Several kinds
// have such keys, and a field of this type is no reference.
type Name string

// Form is none: no name is ever chosen.
func (Name) Form() Form { return Form{} }

// The alphabets of the real service's identifiers.
const (
	Hexadecimal  = "0123456789abcdef"
	Decimal      = "0123456789"
	Alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// Random returns a random identifier of this form.
func (f Form) Random(random io.Reader) string { return f.Prefix + Random(random, f.Length, f.Alphabet) }

// Random returns a random text over an alphabet, with all symbols equally
// likely.
func Random(random io.Reader, length int, alphabet string) string {
	text := make([]byte, 0, length)
	// Bytes beyond the last whole multiple of the alphabet are dropped: they
	// would make its first symbols likelier.
	fair := 256 / len(alphabet) * len(alphabet)
	raw := make([]byte, length)
	for len(text) < length {
		if _, err := io.ReadFull(random, raw[:length-len(text)]); err != nil {
			panic(fmt.Errorf("reading the source of randomness: %w", err))
		}
		for _, b := range raw[:length-len(text)] {
			if int(b) < fair {
				text = append(text, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(text)
}

// Check reports an identifier that no resource of this form can have.
func (f Form) Check(s string) error {
	symbols, ok := strings.CutPrefix(s, f.Prefix)
	if !ok {
		return apierror.InvalidID.Errorf("'%s' is not an identifier of the form %s.", s, f)
	}
	if len(symbols) != f.Length || strings.Trim(symbols, f.Alphabet) != "" {
		return apierror.MalformedID.Errorf("'%s' is not an identifier of the form %s.", s, f)
	}
	return nil
}

func (f Form) String() string { return f.Prefix + strings.Repeat("x", f.Length) }

var formed = reflect.TypeFor[interface{ Form() Form }]()

// FormOf returns the form of an identifier type, if t is one. A [Name] has none.
func FormOf(t reflect.Type) (Form, bool) {
	if t.Kind() != reflect.String || t == reflect.TypeFor[Name]() || !t.Implements(formed) {
		return Form{}, false
	}
	return reflect.Zero(t).Interface().(interface{ Form() Form }).Form(), true
}
