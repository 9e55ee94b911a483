package auth

import (
	"net/netip"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// An EIM user logs in with the ID of the account, a slash and its name. Failures are
// counted and lock the login as those of the root account do.
func TestUsersLogIn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	carol := l.user("carol")
	l.user("dave") // who has no password
	setUser := func(change func(u *iam.User)) {
		t.Helper()
		l.update(func(tx *resource.Tx) error {
			u, err := iam.Users.Get(tx, id.User(carol.User))
			if err != nil {
				return err
			}
			change(u)
			return iam.Users.Put(tx, u)
		})
	}
	setUser(func(u *iam.User) { u.PasswordHash, u.OutscaleLoginAllowed = "carols", true })
	login := l.account + "/carol"
	check := func(login, password string, user string, want apierror.Code) {
		t.Helper()
		caller, err := l.Identify(withPassword(home, login, password), nil, byEither)
		code := apierror.Code(0)
		if err != nil {
			code = apierror.From(err).Code
		}
		if code != want || want == 0 && (caller.User != user || caller.Account != l.account) {
			t.Errorf("%s with %s: %+v, %v, want the user %q and code %s", login, password, caller, err, user, want)
		}
	}
	check(login, "carols", carol.User, 0)
	check(testLogin, testPassword, "", 0)
	for _, other := range []string{
		l.account + "/dave", l.account + "/Carol", l.account + "/nobody", "999999999999/carol", l.account + "/", "carol",
	} {
		check(other, "carols", "", apierror.UnknownCredentials)
		check(other, "", "", apierror.UnknownCredentials)
	}

	// A login that was disabled refuses the right password, and a wrong one as ever.
	setUser(func(u *iam.User) { u.OutscaleLoginAllowed = false })
	check(login, "carols", "", apierror.LoginNotAllowed)
	check(login, "a guess", "", apierror.UnknownCredentials)
	err := l.CheckLogin(t.Context(), resource.Caller{Address: netip.MustParseAddr(home)}, login, "carols")
	if !apierror.LoginNotAllowed.Is(err) {
		t.Errorf("asked about, it is answered with %v", err)
	}
	setUser(func(u *iam.User) { u.OutscaleLoginAllowed = true })
	check(login, "carols", carol.User, 0)

	// The root account's is a login of its own.
	l.update(func(tx *resource.Tx) error {
		account, err := iam.Accounts.Get(tx, id.Account(l.account))
		if err != nil {
			return err
		}
		account.OutscaleLoginAllowed = false
		return iam.Accounts.Put(tx, account)
	})
	check(testLogin, testPassword, "", apierror.LoginNotAllowed)
	check(login, "carols", carol.User, 0)

	for range 4 {
		check(login, "a guess", "", apierror.UnknownCredentials)
	}
	check(login, "carols", "", apierror.Locked)
}
