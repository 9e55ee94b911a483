package network

import (
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// twoSided is a kind whose resources belong to two accounts: a Net peering joins
// the Nets of both, a hosted DirectLink interface leads one account over the link
// of the other. Each account keeps a copy under the same ID, which is free in both
// when it is chosen. A copy has what both accounts may know, and what is private to
// its own: tags, and references, since these lead only within an account. So an
// account reads, tags and counts its copy like any other resource.
//
// A change of one copy changes the other in the same transaction, so that no
// account ever sees a peering that the other does not, and an end is the end of
// both. If both sides are one account, there is one copy.
type twoSided[T any, I resource.ID, S ~string] struct {
	kind  *resource.Kind[T, I]
	id    func(*T) I
	sides func(*T) []id.Account // the accounts that keep a copy, each once
}

// distinctAccounts returns two accounts, or one if they are the same.
func distinctAccounts(one, other id.Account) []id.Account {
	if one == other {
		return []id.Account{one}
	}
	return []id.Account{one, other}
}

// newID chooses an ID that is free in the accounts of both sides.
func (k *twoSided[T, I, S]) newID(tx *resource.Tx, v *T) I {
	var accounts []*resource.Tx
	for _, account := range k.sides(v) {
		accounts = append(accounts, tx.In(string(account)))
	}
	return k.kind.NewID(accounts...)
}

// create inserts a copy in each account, after a function has set what is private
// to it. The copy of the account of the transaction is v itself.
func (k *twoSided[T, I, S]) create(
	tx *resource.Tx, v *T, event lifecycle.Event[S], prepare func(in *resource.Tx, own *T) error,
) error {
	common := *v
	for _, account := range k.sides(v) {
		in, own := tx.In(string(account)), v
		if string(account) != tx.Account() {
			theirs := common
			own = &theirs
		}
		if err := prepare(in, own); err != nil {
			return err
		}
		if err := resource.Transition(in, k.kind, own, event); err != nil {
			return err
		}
	}
	return nil
}

// update calls a function that changes and writes a copy, for each copy of a
// living resource, with the transaction over its account.
func (k *twoSided[T, I, S]) update(tx *resource.Tx, v *T, change func(in *resource.Tx, own *T) error) error {
	for _, account := range k.sides(v) {
		in := tx.In(string(account))
		own, err := k.kind.Get(in, k.id(v))
		if err != nil {
			return err
		}
		if err := change(in, own); err != nil {
			return err
		}
	}
	return nil
}

// transition applies an event to each copy, after a function has changed what
// changes with the state; nil: nothing does. It refuses an event that the state of
// v, the copy that a caller sees, does not allow.
func (k *twoSided[T, I, S]) transition(
	tx *resource.Tx, v *T, event lifecycle.Event[S], change func(in *resource.Tx, own *T) error,
) error {
	if !resource.Allows(k.kind, v, event) {
		return resource.Transition(tx, k.kind, v, event)
	}
	return k.update(tx, v, func(in *resource.Tx, own *T) error {
		if change != nil {
			if err := change(in, own); err != nil {
				return err
			}
		}
		return resource.Transition(in, k.kind, own, event)
	})
}
