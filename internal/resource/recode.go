package resource

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Codecs are the store's view of the kinds, for who reads and writes documents
// without a [DB].
func Codecs(kinds []Any, seal Sealer) []store.Codec {
	var codecs []store.Codec
	for _, k := range kinds {
		codecs = append(codecs, k.codec(seal))
	}
	return codecs
}

// WithSecrets are those of the kinds whose resources have secrets.
func WithSecrets(kinds []Any) []Any {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Any) bool { return !k.layout().secrets })
}

// AsIs is a Sealer that leaves each text as it is. What is read with a key and
// written with AsIs has its secrets in the open; what is read and written with
// AsIs has them as they were.
var AsIs Sealer = asIs{}

type asIs struct{}

func (asIs) Seal(text, _ string) (string, error)   { return text, nil }
func (asIs) Open(sealed, _ string) (string, error) { return sealed, nil }
