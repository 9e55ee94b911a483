package network

import (
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Some resources belong to two accounts: a Net peering joins the Nets of both,
// a hosted DirectLink interface is one's way over the link of the other. Each
// account keeps a copy under the same ID, which is free in both when it is
// chosen. A copy has what both may know, and what is its own account's alone:
// tags, and references, since these lead only within an account. So an account
// reads, tags and counts its copy like any other resource.
//
// Whatever changes one copy changes the other in the same transaction, by
// [onBothSides]: no account ever sees a peering that the other does not, and an
// end is the end of both. If both sides are one account, there is one copy.

// sides are the accounts that keep a copy.
func sides(one, other id.Account) []id.Account {
	if one == other {
		return []id.Account{one}
	}
	return []id.Account{one, other}
}

// onBothSides hands each copy of a living resource to a function that changes
// it, with the transaction over its account.
func onBothSides[T any, I resource.ID](tx *resource.Tx, k *resource.Kind[T, I], rid I, sides []id.Account, change func(tx *resource.Tx, own *T) error) error {
	for _, account := range sides {
		in := tx.In(string(account))
		own, err := k.Get(in, rid)
		if err != nil {
			return err
		}
		if err := change(in, own); err != nil {
			return err
		}
	}
	return nil
}

// onBothSidesLet lets an event happen to each copy of a resource, after a function
// has changed what goes along with it. It refuses an event that the state of own,
// the copy that a caller sees, does not allow.
func onBothSidesLet[T any, I resource.ID, S ~string](
	tx *resource.Tx, k *resource.Kind[T, I], own *T, rid I, sides []id.Account, event lifecycle.Event[S], along func(tx *resource.Tx, own *T) error,
) error {
	if !resource.Allows(k, own, event) {
		return resource.Transition(tx, k, own, event)
	}
	return onBothSides(tx, k, rid, sides, func(tx *resource.Tx, own *T) error {
		if err := along(tx, own); err != nil {
			return err
		}
		return resource.Transition(tx, k, own, event)
	})
}

// A resident is an account of the region. Residents are kept in accounts of
// the region's own, so that a rule can tell the account of somebody else from a
// guess: to ask an account itself is to keep a place for it in memory, and
// there are a million million to guess.
type resident struct{ Name residentName }

var residents = &resource.Kind[resident, residentName]{Name: "Resident"}

// residentName is the ID of an account.
type residentName string

// Form is only here to make a name an identifier: it is chosen otherwise.
func (residentName) Form() resource.Form { return resource.Form{} }

// street is the account of the region that keeps a name: one for each two last
// digits, so that reading one name loads little of a large region.
func (n residentName) street() string { return "residents-" + string(n[len(n)-2:]) }

// settleIn notes that the account of the transaction is one of the region's.
func settleIn(tx *resource.Tx) error {
	n := residentName(tx.Account())
	return residents.Insert(tx.In(n.street()), &resident{Name: n})
}

// isResident reports whether there is such an account.
func isResident(tx *resource.Tx, account id.Account) bool {
	n := residentName(account)
	return residents.Has(tx.In(n.street()), n)
}
