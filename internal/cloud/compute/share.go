package compute

import (
	"iter"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// The shares say which resources of others an account may use. They are the
// region's, and so kept in accounts of the region's own: for each kind one for
// each account that something is shared with, and one for what everybody may
// use. So a reader finds what there is for it without asking anybody.

// share is a resource that its owner shares.
type share struct {
	Resource resource.Name // the ID of a resource of any kind
	Owner    id.Account    `ref:"-"`
}

var shares = &resource.Kind[share, resource.Name]{Name: "Share"}

// PermissionsOnResource says which accounts may use a resource.
type PermissionsOnResource struct {
	AccountIds       []id.Account `ref:"-"` // The IDs of the accounts that may.
	GlobalPermission bool         // Whether everybody may.
}

// PermissionsOnResourceCreation changes who may use a resource: it has one of
// both.
type PermissionsOnResourceCreation struct {
	Additions *PermissionsOnResource // Who may from now on.
	Removals  *PermissionsOnResource // Who may not any more.
}

// maxShared is with how many accounts a resource can be shared by their IDs. For
// each of them there is an account of the region's own, all of which one call may
// change: a transaction that reaches so many takes a while.
const maxShared = 100

// apply is what the permissions become.
func (c PermissionsOnResourceCreation) apply(p PermissionsOnResource) (PermissionsOnResource, error) {
	switch {
	case c.Additions != nil && c.Removals != nil:
		return p, apierror.InvalidParameterSet.Errorf("Additions and Removals cannot be given together.")
	case c.Additions != nil:
		if all := len(p.AccountIds) + len(c.Additions.AccountIds); all > maxShared {
			return p, apierror.InvalidCount.Errorf(
				"The resource would be shared with %[2]d accounts. The maximum is %[1]d, or all accounts with GlobalPermission.", maxShared, all)
		}
		for _, account := range c.Additions.AccountIds {
			if !slices.Contains(p.AccountIds, account) {
				p.AccountIds = append(slices.Clip(p.AccountIds), account)
			}
		}
		p.GlobalPermission = p.GlobalPermission || c.Additions.GlobalPermission
		return p, nil
	case c.Removals != nil:
		p.AccountIds = slices.DeleteFunc(slices.Clone(p.AccountIds), func(account id.Account) bool {
			return slices.Contains(c.Removals.AccountIds, account)
		})
		p.GlobalPermission = p.GlobalPermission && !c.Removals.GlobalPermission
		return p, nil
	}
	return p, apierror.MissingParameter.Errorf("One of Additions and Removals is required.")
}

// sharing is a kind whose resources accounts share.
type sharing[T any, I resource.ID] struct {
	*resource.Kind[T, I]
	id          func(*T) I
	permissions func(*T) *PermissionsOnResource
	// private takes away what only the owner is shown, besides with whom else
	// it is shared.
	private func(*T)
}

// everybody stands for all accounts among those that something is shared with.
const everybody = "everybody"

// with is the account of the region that keeps what is shared with an account.
func (s sharing[T, I]) with(account string) string { return "shared-" + s.Name + "-" + account }

// readers are the accounts of the region that lead to a resource.
func (s sharing[T, I]) readers(p PermissionsOnResource) (all []string) {
	for _, account := range p.AccountIds {
		all = append(all, s.with(string(account)))
	}
	if p.GlobalPermission {
		all = append(all, s.with(everybody))
	}
	return all
}

// reached are the accounts of the region that a change of permissions may write to.
func (s sharing[T, I]) reached(c PermissionsOnResourceCreation) (all []string) {
	for _, p := range []*PermissionsOnResource{c.Additions, c.Removals} {
		if p != nil {
			all = append(all, s.readers(*p)...)
		}
	}
	return all
}

// permit gives a resource of the account other permissions. The caller writes
// the resource; that of one that is deleted loses all.
func (s sharing[T, I]) permit(tx *resource.Tx, v *T, to PermissionsOnResource) error {
	p := s.permissions(v)
	had, has := s.readers(*p), s.readers(to)
	entry := share{Resource: resource.Name(s.id(v)), Owner: id.Account(tx.Account())}
	for _, reader := range had {
		if !slices.Contains(has, reader) {
			if err := shares.Delete(tx.In(reader), &entry); err != nil {
				return err
			}
		}
	}
	for _, reader := range has {
		if !slices.Contains(had, reader) {
			if err := shares.Insert(tx.In(reader), &share{Resource: entry.Resource, Owner: entry.Owner}); err != nil {
				return err
			}
		}
	}
	*p = to
	return nil
}

// find finds a resource of the account, or one of another account that it may
// use, and the transaction over the account that has it. Another account's that
// it may not use is none.
func (s sharing[T, I]) find(tx *resource.Tx, resourceID I) (owner *resource.Tx, v *T, err error) {
	if v, err = s.Get(tx, resourceID); err == nil {
		return tx, v, nil
	}
	for f := range s.others(tx, []string{string(resourceID)}) {
		return f.Owner, f.Value, nil
	}
	return nil, nil, err
}

// others yields what other accounts share with that of the transaction: only
// those with the ids, if there are any.
func (s sharing[T, I]) others(tx *resource.Tx, ids []string) iter.Seq[api.Foreign[T]] {
	wanted := func(string) ([]string, bool) { return ids, ids != nil }
	account := tx.Account()
	return func(yield func(api.Foreign[T]) bool) {
		for i, reader := range []string{account, everybody} {
			for seq, entry := range shares.Select(tx.In(s.with(reader)), 0, wanted) {
				owner := tx.In(string(entry.Owner))
				v, err := s.Get(owner, I(entry.Resource))
				if err != nil || owner.Account() == account {
					continue
				}
				// What is shared with both is listed once.
				if reader == everybody && slices.Contains(s.permissions(v).AccountIds, id.Account(account)) {
					continue
				}
				// What the account is not shown is left out of a copy: a transaction
				// that writes has one value of each resource.
				shown := *v
				v = &shown
				s.private(v)
				p := s.permissions(v)
				p.AccountIds = slices.DeleteFunc(slices.Clone(p.AccountIds), func(a id.Account) bool { return string(a) != account })
				if !yield(api.Foreign[T]{At: api.Position{Seq: uint64(i+1)<<sharedSeq + seq}, Owner: owner, Value: v}) {
					return
				}
			}
		}
	}
}

// sharedSeq is where in a position it says with whom something is shared: after
// all numbers that a resource of an account can have.
const sharedSeq = 62
