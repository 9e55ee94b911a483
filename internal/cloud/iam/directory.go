package iam

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// The directory leads from a credential to the account it belongs to. It is
// the region's, and so kept in accounts of the region's own.

// entry is a credential and its account.
type entry struct {
	Name    resource.Name
	Account id.Account `ref:"-"`
}

var directory = &resource.Kind[entry, resource.Name]{Name: "DirectoryEntry", Plural: "DirectoryEntries"}

// name is a credential, told apart by what it is.
type name string

func keyName(key string) name { return name("key/" + key) }

// loginName is the same for all spellings of an email address.
func loginName(login string) name { return name("login/" + strings.ToLower(login)) }

// shard is the account that keeps a name. There are 256 of them, by a byte of
// a hash, so that reading one name loads, and writing it copies, little of a
// large directory.
func (n name) shard() string {
	hash := sha256.Sum256([]byte(n))
	return "directory-" + hex.EncodeToString(hash[:1])
}

func (n name) owner(tx *resource.Tx) (account string, ok bool) {
	e, err := directory.Get(tx.In(n.shard()), resource.Name(n))
	if err != nil {
		return "", false
	}
	return string(e.Account), true
}

func (n name) enter(tx *resource.Tx, account id.Account) error {
	return directory.Insert(tx.In(n.shard()), &entry{Name: resource.Name(n), Account: account})
}

func (n name) leave(tx *resource.Tx) error {
	return directory.Delete(tx.In(n.shard()), &entry{Name: resource.Name(n)})
}

// KeyOwner finds the account that an access key belongs to.
func KeyOwner(tx *resource.Tx, accessKeyID string) (account string, ok bool) {
	return keyName(accessKeyID).owner(tx)
}

// LoginOwner finds the account that logs in with an email address, in whatever
// case it is written.
func LoginOwner(tx *resource.Tx, login string) (account string, ok bool) {
	return loginName(login).owner(tx)
}
