package api

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/resource"
)

// ShareGardensRequest writes to other accounts.
type ShareGardensRequest struct{ Accounts []string }

// The rule of an action that says which accounts it needs runs once, and that of
// another once more for each account.
func TestReaching(t *testing.T) {
	t.Parallel()
	type park struct {
		ParkId gardenID
		Title  string
	}
	parks := &resource.Kind[park, gardenID]{Name: "Park"}
	for name, want := range map[string]int{"known": 1, "found out": 4} {
		db := resource.Open(resource.Options{Kinds: []resource.Any{parks}, Now: time.Now, Rand: rand.NewChaCha8([32]byte{})})
		defer db.Close()
		runs := 0
		a := Command("Garden", func(tx *resource.Tx, req *ShareGardensRequest) error {
			runs++
			for _, account := range req.Accounts {
				if err := parks.Insert(tx.In(account), &park{Title: fmt.Sprint("from ", tx.Account())}); err != nil {
					return err
				}
			}
			return nil
		})
		if want == 1 {
			a = Reaching(a, func(req *ShareGardensRequest) []string { return req.Accounts })
		}
		others := []string{"bob", "carol", "dave"}
		c := &Call{Action: &a, Request: &ShareGardensRequest{Accounts: others}}
		if _, err := c.Run(t.Context(), db, resource.Caller{Account: "alice"}); err != nil {
			t.Fatal(err)
		}
		if runs != want {
			t.Errorf("with accounts that are %s the rule runs %d times, want %d", name, runs, want)
		}
		for _, account := range others {
			err := db.View(t.Context(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
				if got := slices.Collect(parks.All(tx)); len(got) != 1 || got[0].Title != "from alice" {
					t.Errorf("%s has %v", account, got)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
