package resource_test

import (
	"strconv"
	"testing"

	"github.com/bastide-cloud/bastide/internal/resource"
)

func BenchmarkGet(b *testing.B) {
	db := open(b)
	of := insert(b, db, alice, towns, town{Name: "Aigues"})
	view(b, db, alice, func(tx *resource.Tx) {
		for b.Loop() {
			if _, err := towns.Get(tx, of.TownId); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Each house has a reference and a unique key, and a transaction of its own.
func BenchmarkInsert(b *testing.B) {
	db := open(b)
	of := insert(b, db, alice, towns, town{Name: "Aigues"})
	for i := 0; b.Loop(); i++ {
		insert(b, db, alice, houses, house{TownId: of.TownId, Name: strconv.Itoa(i)})
	}
}
