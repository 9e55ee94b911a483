package resource

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Codecs returns the store's view of the kinds, for reading and writing
// documents without a [DB].
func Codecs(kinds []Any, seal Sealer) []store.Codec {
	var codecs []store.Codec
	for _, k := range kinds {
		codecs = append(codecs, k.codec(seal))
	}
	return codecs
}

// WithSecrets returns the kinds whose resources have secrets.
func WithSecrets(kinds []Any) []Any {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Any) bool { return !k.layout().secrets })
}

// AsIs is a Sealer that leaves each text as it is. Documents read with a key
// and written with AsIs have their secrets in plain text; read and written with
// AsIs, they keep them as they were.
var AsIs Sealer = asIs{}

type asIs struct{}

func (asIs) Seal(text, _ string) (string, error)   { return text, nil }
func (asIs) Open(sealed, _ string) (string, error) { return sealed, nil }
