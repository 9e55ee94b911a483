package resource_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bastide-cloud/bastide/internal/resource"
)

// lookAround is every way to look at many resources. Each looks for ever, unless
// it is stopped.
var lookAround = map[string]func(tx *resource.Tx, looked func()){
	"all": func(tx *resource.Tx, looked func()) {
		for range towns.All(tx) {
			looked()
		}
	},
	"pages": func(tx *resource.Tx, looked func()) {
		for range towns.Each(tx, 0) {
			looked()
		}
	},
	"an index": func(tx *resource.Tx, looked func()) {
		for v := range towns.All(tx) {
			for range houses.Of(tx, v.TownId) {
				looked()
			}
		}
	},
	"tags": func(tx *resource.Tx, looked func()) {
		for range tx.AllTagged {
			looked()
		}
	},
	"ids": func(tx *resource.Tx, looked func()) {
		for v := range towns.All(tx) {
			towns.Has(tx, v.TownId)
			looked()
		}
	},
	"a rule's own work": func(tx *resource.Tx, looked func()) {
		tx.Spend(1)
		looked()
	},
}

// A rule whose client has gone ends soon, wherever it is, and has written nothing.
func TestARuleEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	db := open(t)
	for name := range lookAround {
		insert(t, db, alice, towns, town{Name: name, Tags: []resource.ResourceTag{{Key: "k"}}})
	}
	for v := range 8 {
		insert(t, db, alice, houses, house{Name: fmt.Sprint("house ", v),
			TownId: insert(t, db, alice, towns, town{Tags: []resource.ResourceTag{{Key: "k"}}}).TownId})
	}
	for name, look := range lookAround {
		for _, way := range []struct {
			name string
			run  func(context.Context, resource.Caller, func(*resource.Tx) error) error
		}{{"View", db.View}, {"Update", func(ctx context.Context, caller resource.Caller, fn func(*resource.Tx) error) error {
			return db.Update(ctx, caller, fn)
		}}} {
			ctx, hangUp := context.WithCancel(t.Context())
			n := 0
			err := way.run(ctx, resource.Caller{Account: alice}, func(tx *resource.Tx) error {
				if way.name == "Update" {
					if err := towns.Insert(tx, &town{Name: "unfinished"}); err != nil {
						return err
					}
				}
				for {
					look(tx, func() {
						if n++; n == 100 {
							hangUp()
						}
						if n > 100_000 {
							panic("it goes on")
						}
					})
				}
			})
			if !errors.Is(err, context.Canceled) || n < 100 {
				t.Errorf("%s, %s: after %d looks the error is %v, want that it was cancelled", way.name, name, n, err)
			}
		}
	}
	view(t, db, alice, func(tx *resource.Tx) {
		for v := range towns.All(tx) {
			if v.Name == "unfinished" {
				t.Errorf("%s was written", v.TownId)
			}
		}
	})
}

// What waited for others so long that its client has gone does not begin.
func TestAnUpdateOfNoCallerDoesNotBegin(t *testing.T) {
	t.Parallel()
	db := open(t)
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	err := db.Update(ctx, resource.Caller{Account: alice}, func(*resource.Tx) error {
		t.Error("the rule runs")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want that it was cancelled", err)
	}
}
