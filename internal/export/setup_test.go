package export_test

import (
	"math/rand/v2"
	"slices"

	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
)

// The tests keep houses, and keys that have a secret.
type (
	House string
	Key   string
)

func (House) Form() resource.Form {
	return resource.Form{Prefix: "house-", Length: 8, Alphabet: resource.Hexadecimal}
}
func (Key) Form() resource.Form {
	return resource.Form{Prefix: "key-", Length: 8, Alphabet: resource.Hexadecimal}
}

type house struct {
	HouseId House
	Name    string
	Text    string
	Floors  []floor
	Burning bool
}

type floor struct {
	Number int
	Name   string
}

// Pending makes a house that burns work for a loop.
func (h *house) Pending() bool { return h.Burning }

type key struct {
	KeyId Key
	Opens House
	Teeth resource.Secret
}

var (
	houses = &resource.Kind[house, House]{Name: "House"}
	keys   = &resource.Kind[key, Key]{Name: "Key"}
	kinds  = []resource.Any{houses, keys}
)

func masterKey(seed byte) *seal.Key {
	k, err := seal.New(slices.Repeat([]byte{seed}, 32), rand.NewChaCha8([32]byte{seed}))
	if err != nil {
		panic(err)
	}
	return k
}
