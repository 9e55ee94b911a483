package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// An Attempt counts the failures of an access key or a login in the account it
// belongs to, so that a lock survives a restart and holds on every node.
type Attempt struct {
	// AttemptId is what the attempts were made with, `key AKIA…` or `login a@b.c`, or
	// a hash of that among the strangers.
	AttemptId resource.Name
	Locks
}

// Attempts are the names that have failed and not succeeded since.
var Attempts = &resource.Kind[Attempt, resource.Name]{Name: "Attempt"}

// strangers is the internal account that counts failures of logins that do not
// exist, and of attempts from addresses that no API access rule admits. They
// are written like an account's failures, so that time does not reveal which
// logins exist.
const strangers = "strangers"

// tally says where the failures under a name are counted.
type tally struct {
	account string
	id      resource.Name
}

func (t tally) locks(tx *resource.Tx) Locks {
	if a := Attempts.Find(tx.In(t.account), t.id); a != nil {
		return a.Locks
	}
	return Locks{}
}

func (t tally) put(tx *resource.Tx, locks Locks) error {
	a := Attempts.Find(tx, t.id)
	if a == nil {
		a = &Attempt{AttemptId: t.id}
	}
	a.Locks = locks
	if locks.isZero() {
		return Attempts.Delete(tx, a)
	}
	if err := Attempts.Put(tx, a); err != nil {
		return err
	}
	if t.account == strangers && Attempts.Count(tx) > strangerNames {
		for oldest := range Attempts.All(tx) {
			return Attempts.Delete(tx, oldest)
		}
	}
	return nil
}

// claim is the state of a name that a caller presents, such as a login.
type claim struct {
	asked admission // of the account it belongs to
	tally tally
	locks Locks
}

// claimed looks a name up. The owner is empty if the name does not exist.
func (g *Gate) claimed(tx *resource.Tx, name, owner string, address netip.Addr) (c claim, err error) {
	if owner != "" {
		if c.asked, err = g.admission(tx.In(owner)); err != nil {
			return c, err
		}
		// An attempt from an address that no rule admits could not have
		// succeeded, so it does not count against the owner of the name.
		if g.chains.Admits(c.asked.rules, address, nil, g.Now(), true) {
			c.tally = tally{owner, resource.Name(name)}
		}
	}
	if c.tally == (tally{}) {
		hash := sha256.Sum256([]byte(name))
		c.tally = tally{strangers, resource.Name(hex.EncodeToString(hash[:]))}
	}
	c.locks = c.tally.locks(tx)
	return c, nil
}

// proven is an authenticated caller, and what its account requires of callers.
type proven struct {
	resource.Caller
	asked admission
}

// authenticate checks the credentials of the request. If it fails, the caller
// is as much as is known.
func (g *Gate) authenticate(r *http.Request, body []byte, action *api.Action, address netip.Addr, now time.Time) (proven, error) {
	caller := proven{Caller: resource.Caller{Address: address}}
	header := r.Header.Get("Authorization")
	if login, password, ok := ParseBasic(header); ok {
		if action.Auth == api.Signed {
			return caller, apierror.PasswordRefused.Errorf(
				"%s must be signed with an access key: it does not accept a login and password.", action.Name)
		}
		return g.logIn(r.Context(), login, password, address)
	}
	sig, err := ParseSignature(r)
	switch {
	case errors.Is(err, ErrNoAuthorization):
		return caller, apierror.AuthenticationFailed.Errorf("The request is not signed.")
	case errors.Is(err, ErrUnknownScheme) && !strings.Contains(header, " "):
		return caller, apierror.UnknownAuthorization.Errorf(
			"An access key alone proves nothing: sign the request with AWS4-HMAC-SHA256 or OSC4-HMAC-SHA256.")
	case errors.Is(err, ErrUnknownScheme):
		return caller, apierror.UnknownAuthorization.Errorf(
			"The Authorization header must be of the type AWS4-HMAC-SHA256, OSC4-HMAC-SHA256 or Basic.")
	case err != nil:
		return caller, apierror.AuthenticationFailed.Errorf("The signature cannot be read: %v.", err)
	}
	caller.AccessKey = sig.AccessKey
	if !sig.Fresh(now) {
		return caller, apierror.RequestExpired.Errorf("The request was signed for %s, more than 5 minutes from the region's time, %s.",
			sig.Time.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return g.checkSignature(r, body, sig, caller, now)
}

// checkSignature checks a signature against the secret of its access key.
func (g *Gate) checkSignature(r *http.Request, body []byte, sig *Signature, caller proven, now time.Time) (proven, error) {
	ctx, from, name := r.Context(), Source(caller.Address), "key "+sig.AccessKey
	var key *iam.AccessKey
	var c claim
	then := g.failing.now()
	err := g.DB.View(ctx, resource.Caller{}, func(tx *resource.Tx) (err error) {
		key = nil
		owner, ok := iam.KeyOwner(tx, sig.AccessKey)
		if !ok {
			return nil
		}
		if key, err = iam.AccessKeys.Get(tx.In(owner), id.AccessKey(sig.AccessKey)); err != nil {
			return err
		}
		caller.Account, caller.User = owner, string(key.UserId)
		c, err = g.claimed(tx, name, owner, caller.Address)
		return err
	})
	caller.asked = c.asked
	switch {
	case err != nil:
		return caller, err
	case key == nil:
		if g.strangers.Fail(name, from, now) {
			return caller, locked()
		}
		return caller, apierror.UnknownCredentials.Bare()
	case c.locks.Locked(from, now):
		return caller, locked()
	}
	right := g.verifier.Verify(sig, string(key.Secret), r, body)
	if right && !c.locks.Counts(from) && g.failing.quietSince(then, name) {
		return caller, usable(key, now) // the locks have not changed since they were read
	}
	// Failures are counted one after the other. A right signature that comes
	// while some are counted waits for them, because they may lock the key.
	ctx = context.Background() // as in logIn
	leave, err := g.failing.enter(ctx, name)
	if err != nil {
		return caller, err
	}
	defer leave()
	switch refused, err := g.count(ctx, c.tally, from, right); {
	case err != nil:
		return caller, err
	case refused:
		return caller, locked()
	case !right:
		return caller, apierror.AuthenticationFailed.Bare()
	}
	return caller, usable(key, now)
}

// usable returns an error if a key is inactive or expired.
func usable(key *iam.AccessKey, now time.Time) error {
	switch {
	case key.State != iam.AccessKeyActive:
		return apierror.AuthenticationFailed.Errorf("The access key is inactive.")
	case !key.ExpirationDate.IsZero() && !now.Before(key.ExpirationDate.Time()):
		return apierror.AuthenticationFailed.Errorf("The access key has expired.")
	}
	return nil
}

// CheckLogin checks a login and password that a caller asks about, and counts
// failures. It implements CheckAuthentication.
func (g *Gate) CheckLogin(ctx context.Context, caller resource.Caller, login, password string) error {
	_, err := g.logIn(ctx, login, password, caller.Address)
	return err
}

// logIn checks a login and password. The steps, and so the time they take, are
// the same for a login that does not exist.
func (g *Gate) logIn(ctx context.Context, login, password string, address netip.Addr) (proven, error) {
	caller := proven{Caller: resource.Caller{Address: address}}
	from, name := Source(address), "login "+iam.LoginKey(login)
	// Checking a password is expensive on purpose, so it is throttled before
	// anything about the caller is known.
	if err := g.limitRate("address "+from, passwordCheck, g.Now()); err != nil {
		return caller, err
	}
	var known iam.Login
	var c claim
	look := func() error {
		err := g.DB.View(ctx, resource.Caller{}, func(tx *resource.Tx) (err error) {
			if known, err = iam.FindLogin(tx, login); err != nil {
				return err
			}
			caller.Account, caller.User = known.Account, string(known.User)
			c, err = g.claimed(tx, name, known.Account, address)
			return err
		})
		caller.asked = c.asked
		if err == nil && c.locks.Locked(from, g.Now()) {
			return locked()
		}
		return err
	}
	if err := look(); err != nil {
		return caller, err
	}
	// One password of a login is checked at a time, so that four of many
	// concurrent guesses are checked: the others find the login locked, and
	// cost nothing.
	leave, err := g.checks.enter(ctx, name)
	if err != nil {
		return caller, err
	}
	defer leave()
	if err := look(); err != nil {
		return caller, err
	}
	right, err := g.fits(ctx, known.PasswordHash, password)
	if err != nil {
		return caller, err
	}
	// The result counts even if the client has hung up meanwhile, and is
	// compared with the failures counted by all nodes: neither the end of the
	// call's context nor its earlier reads apply.
	switch refused, err := g.count(context.Background(), c.tally, from, right); {
	case err != nil:
		return caller, err
	case refused:
		return caller, locked()
	case !right:
		return caller, apierror.UnknownCredentials.Bare()
	case !known.Allowed:
		return caller, apierror.LoginNotAllowed.Errorf("This login may not be used with its password: it was disabled.")
	}
	return caller, nil
}

func locked() error {
	return apierror.Locked.Errorf("Too many attempts have failed. Try again later.")
}

// count records how an attempt ended. It reports whether the name has been
// locked while the attempt was checked: then it is refused, right or wrong, and
// changes nothing.
func (g *Gate) count(ctx context.Context, t tally, from string, right bool) (refused bool, err error) {
	var locks Locks
	err = g.DB.View(ctx, resource.Caller{}, func(tx *resource.Tx) error { locks = t.locks(tx); return nil })
	if refused = locks.Locked(from, g.Now()); err != nil || refused || right && !locks.Counts(from) {
		return refused, err
	}
	err = g.DB.Update(ctx, resource.Caller{Account: t.account}, func(tx *resource.Tx) error {
		locks := t.locks(tx)
		refused = locks.Locked(from, tx.Now())
		switch {
		case refused:
			return nil
		case !right:
			return t.put(tx, locks.Fail(from, tx.Now()))
		case locks.Counts(from):
			return t.put(tx, locks.Succeed(from, tx.Now()))
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("counting an attempt: %w", err)
	}
	return refused, nil
}
