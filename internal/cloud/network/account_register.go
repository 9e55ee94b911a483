package network

import (
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// registeredAccount says that an account exists. The register is kept in accounts
// of the region's own, so that a rule can check the ID of another account without
// loading it: to read an account keeps a place for it in memory, and a caller can
// guess a million million IDs.
type registeredAccount struct{ Name accountName }

var accountRegister = &resource.Kind[registeredAccount, accountName]{Name: "Resident"}

// accountName is the ID of an account.
type accountName string

// Form implements [resource.ID]. A name is never chosen at random.
func (accountName) Form() resource.Form { return resource.Form{} }

// shard returns the account of the region that keeps a name: one for each two last
// digits, so that reading one name loads little of a large region.
func (n accountName) shard() string { return "residents-" + string(n[len(n)-2:]) }

// registerAccount registers the account of the transaction.
func registerAccount(tx *resource.Tx) error {
	n := accountName(tx.Account())
	return accountRegister.Insert(tx.In(n.shard()), &registeredAccount{Name: n})
}

// isRegistered reports whether an account exists.
func isRegistered(tx *resource.Tx, account id.Account) bool {
	n := accountName(account)
	return accountRegister.Has(tx.In(n.shard()), n)
}
