package network

import (
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// registeredAccount says that an account exists. The register is kept in accounts
// of the region's own, so that a rule can check the ID of another account without
// loading it: to read an account keeps a place for it in memory, and a caller can
// guess a million million IDs.
type registeredAccount struct{ Name resource.Name }

var accountRegister = &resource.Kind[registeredAccount, resource.Name]{Name: "Resident"}

// shard returns the account of the region that keeps the ID of an account: one for
// each two last digits, so that reading one ID loads little of a large region.
func shard(account string) string { return "residents-" + account[len(account)-2:] }

// registerAccount registers the account of the transaction.
func registerAccount(tx *resource.Tx) error {
	name := resource.Name(tx.Account())
	return accountRegister.Insert(tx.In(shard(tx.Account())), &registeredAccount{Name: name})
}

// isRegistered reports whether an account exists.
func isRegistered(tx *resource.Tx, account id.Account) bool {
	return accountRegister.Has(tx.In(shard(string(account))), resource.Name(account))
}
