package resource

import (
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Sealer encrypts secrets at rest. A sealed text opens only with the place it
// was sealed for.
type Sealer interface {
	Seal(text, place string) (string, error)
	Open(sealed, place string) (string, error)
}

// codec is the store's view of a kind: JSON documents without zero values,
// and keys for references and unique fields.
type codec[T any] struct {
	name  string
	shape *shape
	seal  Sealer
}

func (k *Kind[T, I]) codec(seal Sealer) store.Codec { return &codec[T]{k.Name, k.layout(), seal} }

func (c *codec[T]) Name() string { return c.name }

// Documents are read by later programs: unknown members are an error when
// decoding, since dropping them would lose what a newer program wrote.
var (
	writing = json.JoinOptions(json.OmitZeroStructFields(true), json.Deterministic(true))
	reading = json.RejectUnknownMembers(true)
)

func (c *codec[T]) Encode(at store.Place, value any) ([]byte, error) {
	if !c.shape.secrets {
		return json.Marshal(value, writing)
	}
	sealing := json.MarshalToFunc(func(enc *jsontext.Encoder, s Secret) error {
		if s == "" {
			return enc.WriteToken(jsontext.String(""))
		}
		sealed, err := c.seal.Seal(string(s), placeOf(at))
		if err != nil {
			return err
		}
		return enc.WriteToken(jsontext.String(sealed))
	})
	return json.Marshal(value, writing, json.WithMarshalers(sealing))
}

func (c *codec[T]) Decode(at store.Place, doc []byte) (any, error) {
	value := new(T)
	if !c.shape.secrets {
		return value, json.Unmarshal(doc, value, reading)
	}
	opening := json.UnmarshalFromFunc(func(dec *jsontext.Decoder, s *Secret) error {
		token, err := dec.ReadToken()
		if err != nil || token.String() == "" {
			return err
		}
		text, err := c.seal.Open(token.String(), placeOf(at))
		*s = Secret(text)
		return err
	})
	return value, json.Unmarshal(doc, value, reading, json.WithUnmarshalers(opening))
}

func placeOf(at store.Place) string { return at.Account + "/" + at.Kind + "/" + at.ID }

func (c *codec[T]) Keys(value any) []store.Key {
	v := reflect.ValueOf(value).Elem()
	keys := make([]store.Key, 0, len(c.shape.refs)+len(c.shape.unique))
	add := func(p Path) {
		p.Each(v, func(f reflect.Value) bool {
			if f.Len() > 0 {
				keys = append(keys, store.Key{Index: p.Name, Value: f.String()})
			}
			return true
		})
	}
	for _, r := range c.shape.refs {
		add(r.Path)
	}
	for _, p := range c.shape.unique {
		add(p)
	}
	return keys
}

func (c *codec[T]) Pending(value any) bool { return IsPending(value) }
