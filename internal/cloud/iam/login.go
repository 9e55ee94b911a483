package iam

import (
	"strings"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Login is what the region knows of a login: the email address of the root account, or
// the ID of an account, a slash and the name of an EIM user of it.
type Login struct {
	Account      string  // the account that it belongs to; empty: nothing has the login
	User         id.User // the user; empty: the root account
	PasswordHash string  // see [HashPassword]; empty: no password fits
	Allowed      bool    // passwords are accepted
}

// isUserLogin reports whether a login has the form of those of EIM users.
func isUserLogin(login string) bool {
	account, _, ok := strings.Cut(login, "/")
	return ok && id.Account("").Form().Check(account) == nil
}

// LoginKey is the same for all spellings of a login. Email addresses do not differ by
// case, names of users do.
func LoginKey(login string) string {
	if isUserLogin(login) {
		return login
	}
	return strings.ToLower(login)
}

// FindLogin looks a login up. One that nothing has is no error.
func FindLogin(tx *resource.Tx, login string) (Login, error) {
	if isUserLogin(login) {
		account, name, _ := strings.Cut(login, "/")
		for u := range Users.Where(tx.In(account), "UserName", name) {
			return Login{account, u.UserId, u.PasswordHash, u.OutscaleLoginAllowed}, nil
		}
		return Login{}, nil
	}
	owner, ok := LoginOwner(tx, login)
	if !ok {
		return Login{}, nil
	}
	account, err := Accounts.Get(tx.In(owner), id.Account(owner))
	if err != nil {
		return Login{}, err
	}
	return Login{owner, "", account.PasswordHash, account.OutscaleLoginAllowed}, nil
}
