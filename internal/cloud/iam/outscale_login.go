package iam

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Who may log in with a password of this region, beside an identity federation, is
// said for the root account and for each user. The region has no federation: what is
// said here applies always.
func outscaleLoginActions() []api.Action {
	const family = "IdentityProvider"
	return []api.Action{
		api.Command(family, setLogin[EnableOutscaleLoginRequest](true)).AsSensitive(),
		api.Command(family, setLogin[DisableOutscaleLoginRequest](false)).AsSensitive(),
		api.Command(family, setLoginForUsers[EnableOutscaleLoginForUsersRequest](true)).AsSensitive(),
		api.Command(family, setLoginForUsers[DisableOutscaleLoginForUsersRequest](false)).AsSensitive(),
		api.Command(family, func(tx *resource.Tx, req *EnableOutscaleLoginPerUsersRequest) error {
			return setLoginPerUsers(tx, req.UserNames, true)
		}).AsSensitive(),
		api.Command(family, func(tx *resource.Tx, req *DisableOutscaleLoginPerUsersRequest) error {
			return setLoginPerUsers(tx, req.UserNames, false)
		}).AsSensitive(),
	}
}

// EnableOutscaleLoginRequest asks to let the root account log in with its password.
type EnableOutscaleLoginRequest struct{}

// DisableOutscaleLoginRequest asks to keep the root account from logging in with its
// password. Its access keys go on working.
type DisableOutscaleLoginRequest struct{}

func setLogin[Req any](allowed bool) func(*resource.Tx, *Req) error {
	return func(tx *resource.Tx, _ *Req) error {
		account, err := accountOf(tx)
		if err != nil {
			return err
		}
		account.OutscaleLoginAllowed = allowed
		return Accounts.Put(tx, account)
	}
}

// EnableOutscaleLoginForUsersRequest asks to let all EIM users of the account log in
// with their passwords.
type EnableOutscaleLoginForUsersRequest struct{}

// DisableOutscaleLoginForUsersRequest asks to keep all EIM users of the account from
// logging in with their passwords. Users that are created afterwards may.
type DisableOutscaleLoginForUsersRequest struct{}

func setLoginForUsers[Req any](allowed bool) func(*resource.Tx, *Req) error {
	return func(tx *resource.Tx, _ *Req) error {
		for u := range Users.All(tx) {
			if err := u.setLogin(tx, allowed); err != nil {
				return err
			}
		}
		return nil
	}
}

func (u *User) setLogin(tx *resource.Tx, allowed bool) error {
	if u.OutscaleLoginAllowed == allowed {
		return nil
	}
	u.OutscaleLoginAllowed = allowed
	return Users.Put(tx, u)
}

// EnableOutscaleLoginPerUsersRequest asks to let EIM users log in with their passwords.
type EnableOutscaleLoginPerUsersRequest struct {
	UserNames []string `api:"required"` // The names of the users.
}

// DisableOutscaleLoginPerUsersRequest asks to keep EIM users from logging in with their
// passwords. Their access keys go on working.
type DisableOutscaleLoginPerUsersRequest struct {
	UserNames []string `api:"required"` // The names of the users.
}

func setLoginPerUsers(tx *resource.Tx, userNames []string, allowed bool) error {
	for _, name := range userNames {
		u, err := userNamed(tx, name)
		if err != nil {
			return err
		}
		if err := u.setLogin(tx, allowed); err != nil {
			return err
		}
	}
	return nil
}
