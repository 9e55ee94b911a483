// Package gate decides who may call. It reads signatures and passwords,
// counts failures, limits rates, and matches API access rules.
//
// The parts decide from values: the time is an argument, nothing is read from
// disk or network, and every table that strangers can fill has a bound. [Gate]
// joins them with what the store knows of the callers.
package gate

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// Options configures a [Gate].
type Options struct {
	DB             *kind.DB
	Now            func() time.Time
	Limits         *Limits        // nil: nobody is throttled
	TrustedProxies []netip.Prefix // whose X-Forwarded-For counts
}

// Gate decides who may call. It is safe for concurrent use.
type Gate struct {
	Options
	verifier  *Verifier
	strangers *Strangers
	throttle  *Throttle
	chains    *Chains

	mu         sync.Mutex // guards what follows
	cas        *lru[id.Ca, *x509.Certificate]
	admissions *lru[string, admission] // by account
}

// admission is what an account asks of those who call, at a version of it.
type admission struct {
	version uint64
	rules   []Rule
	trusted bool // its policy asks for trusted sessions
}

// How much the gate remembers. Each entry takes some hundred bytes; what is
// forgotten is only computed again, but for strangers' locks, where a guesser
// needs as many names to be forgotten as there are entries.
const (
	signingKeys   = 1 << 15
	strangerNames = 1 << 16
	buckets       = 1 << 16
	knownChains   = 1 << 12
	parsedCAs     = 1 << 10
	readRules     = 1 << 12
)

// New makes a gate.
func New(o Options) *Gate {
	return &Gate{
		Options:    o,
		verifier:   NewVerifier(signingKeys),
		strangers:  NewStrangers(strangerNames),
		throttle:   NewThrottle(o.Limits, buckets),
		chains:     NewChains(knownChains),
		cas:        newLRU[id.Ca, *x509.Certificate](parsedCAs),
		admissions: newLRU[string, admission](readRules),
	}
}

// An Attempt counts the failures of an access key or a login in the account it
// belongs to, so that a lock survives a restart and holds on every node.
type Attempt struct {
	AttemptId AttemptID
	Lock      Lock
}

// AttemptID is what the attempts were made with: `key AKIA…` or `login a@b.c`.
type AttemptID string

// Form is not that of any id on the wire.
func (AttemptID) Form() kind.Form { return kind.Form{} }

// Attempts are the names that have failed and not succeeded since.
var Attempts = &kind.Kind[Attempt, AttemptID]{Name: "Attempt"}

func attemptByKey(key string) AttemptID     { return AttemptID("key " + key) }
func attemptByLogin(login string) AttemptID { return AttemptID("login " + strings.ToLower(login)) }

// Identify answers who makes a call of an action. When it refuses, the caller
// it answers is as much as is known, for the log: it has proven nothing.
func (g *Gate) Identify(r *http.Request, body []byte, action *api.Action) (kind.Caller, error) {
	now, address := g.Now(), g.Address(r)
	if action.Auth == api.Open || action.Auth == api.OpenOrKnown && r.Header.Get("Authorization") == "" {
		return kind.Caller{}, g.pace("address "+address.String(), action.Name, now)
	}
	caller, err := g.authenticate(r, body, action, address, now)
	if err != nil {
		return caller, err
	}
	if err := g.pace(caller.Account, action.Name, now); err != nil {
		return caller, err
	}
	return caller, g.checkRules(r, caller, action, address, now)
}

// Address is the caller's address.
func (g *Gate) Address(r *http.Request) netip.Addr {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ClientAddress(remote.Addr(), r.Header, g.TrustedProxies)
}

// Throttled is the error of a call that came too fast.
type Throttled struct {
	RetryAfter time.Duration
	error
}

// Unwrap is the fault that the caller sees.
func (t *Throttled) Unwrap() error { return t.error }

func (g *Gate) pace(who, call string, now time.Time) error {
	verdict, wait := g.throttle.Allow(who, call, now)
	switch verdict {
	case OverCall:
		return &Throttled{wait, fault.CallThrottled.Errorf("Request rate exceeded.")}
	case OverAccount:
		return &Throttled{wait, fault.AccountThrottled.Errorf("Request rate exceeded.")}
	}
	return nil
}

// authenticate reads the proof that the request carries and checks it.
func (g *Gate) authenticate(r *http.Request, body []byte, action *api.Action, address netip.Addr, now time.Time) (kind.Caller, error) {
	header := r.Header.Get("Authorization")
	if login, password, ok := ParseBasic(header); ok {
		if action.Auth == api.Signed {
			return kind.Caller{}, fault.PasswordRefused.Errorf("%s must be signed with an access key: it does not accept a login and password.", action.Name)
		}
		// Checking a password is costly on purpose, so its pace is limited
		// before anything is known of who asks.
		if err := g.pace("password from "+address.String(), "", now); err != nil {
			return kind.Caller{}, err
		}
		return g.logIn(r.Context(), login, password)
	}
	sig, err := ParseSignature(r)
	switch {
	case errors.Is(err, ErrNoAuthorization):
		return kind.Caller{}, fault.AuthenticationFailed.Errorf("The request is not signed.")
	case errors.Is(err, ErrUnknownScheme) && !strings.Contains(header, " "):
		return kind.Caller{}, fault.UnknownAuthorization.Errorf("An access key alone proves nothing: sign the request with AWS4-HMAC-SHA256 or OSC4-HMAC-SHA256.")
	case errors.Is(err, ErrUnknownScheme):
		return kind.Caller{}, fault.UnknownAuthorization.Errorf("The Authorization header must be of the type AWS4-HMAC-SHA256, OSC4-HMAC-SHA256 or Basic.")
	case err != nil:
		return kind.Caller{}, fault.AuthenticationFailed.Errorf("The signature cannot be read: %v.", err)
	case !sig.Fresh(now):
		return kind.Caller{AccessKey: sig.AccessKey}, fault.RequestExpired.Errorf("The request was signed for %s, more than 5 minutes from the region's time, %s.", sig.Time.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return g.checkSignature(r, body, sig, now)
}

// checkSignature checks a signature against the secret of its access key.
func (g *Gate) checkSignature(r *http.Request, body []byte, sig *Signature, now time.Time) (kind.Caller, error) {
	caller, attempt := kind.Caller{AccessKey: sig.AccessKey}, attemptByKey(sig.AccessKey)
	var key *iam.AccessKey
	var lock Lock
	err := g.DB.View(r.Context(), kind.Caller{}, func(tx *kind.Tx) (err error) {
		key = nil
		owner, ok := iam.KeyOwner(tx, sig.AccessKey)
		if !ok {
			return nil
		}
		tx = tx.In(owner)
		if key, err = iam.AccessKeys.Get(tx, id.AccessKey(sig.AccessKey)); err != nil {
			return err
		}
		caller.Account, caller.User = owner, string(key.UserId)
		lock = lockOf(tx, attempt)
		return nil
	})
	switch {
	case err != nil:
		return caller, err
	case key == nil:
		if g.strangers.Fail("key "+sig.AccessKey, now) {
			return caller, locked()
		}
		return caller, fault.UnknownCredentials.Bare()
	case lock.Locked(now):
		return caller, locked()
	}
	right := g.verifier.Verify(sig, string(key.Secret), r, body)
	if err := g.count(r.Context(), caller.Account, attempt, lock, right); err != nil {
		return caller, err
	}
	return caller, usable(key, now)
}

// usable reports why a key that signed rightly does not count.
func usable(key *iam.AccessKey, now time.Time) error {
	switch {
	case key.State != iam.AccessKeyActive:
		return fault.AuthenticationFailed.Errorf("The access key is inactive.")
	case !key.ExpirationDate.IsZero() && !now.Before(key.ExpirationDate.Time()):
		return fault.AuthenticationFailed.Errorf("The access key has expired.")
	}
	return nil
}

// CheckLogin checks a login and password that a caller asks about, and counts
// failures. It is how CheckAuthentication is answered.
func (g *Gate) CheckLogin(ctx context.Context, _ kind.Caller, login, password string) error {
	_, err := g.logIn(ctx, login, password)
	return err
}

func (g *Gate) logIn(ctx context.Context, login, password string) (kind.Caller, error) {
	var caller kind.Caller
	var account *iam.Account
	var lock Lock
	err := g.DB.View(ctx, kind.Caller{}, func(tx *kind.Tx) (err error) {
		account = nil
		owner, ok := iam.LoginOwner(tx, login)
		if !ok {
			return nil
		}
		tx = tx.In(owner)
		if account, err = iam.Accounts.Get(tx, id.Account(owner)); err != nil {
			return err
		}
		caller.Account = owner
		lock = lockOf(tx, attemptByLogin(login))
		return nil
	})
	switch {
	case err != nil:
		return caller, err
	case account == nil:
		iam.WasteTime(password)
		if g.strangers.Fail("login "+strings.ToLower(login), g.Now()) {
			return caller, locked()
		}
		return caller, fault.UnknownCredentials.Bare()
	case lock.Locked(g.Now()):
		return caller, locked()
	}
	right := account.PasswordFits(password)
	if err := g.count(ctx, caller.Account, attemptByLogin(login), lock, right); err != nil {
		if fault.AuthenticationFailed.Is(err) {
			// A wrong password and an unknown login give the same answer.
			return caller, fault.UnknownCredentials.Bare()
		}
		return caller, err
	}
	return caller, nil
}

func lockOf(tx *kind.Tx, name AttemptID) Lock {
	if !Attempts.Has(tx, name) { // nearly always, and Get would word an error
		return Lock{}
	}
	a, err := Attempts.Get(tx, name)
	if err != nil {
		return Lock{}
	}
	return a.Lock
}

func locked() error {
	return fault.Locked.Errorf("Too many attempts have failed. Try again later.")
}

// count records how an attempt ended, and answers what the caller learns of
// it. The transaction puts attempts that run at once in an order: once the
// fourth failure is counted, the others learn nothing, right or wrong.
func (g *Gate) count(ctx context.Context, account string, name AttemptID, seen Lock, right bool) error {
	if right && seen == (Lock{}) {
		return nil
	}
	var answer error
	// Hanging up must not spare a guesser the count.
	err := g.DB.Update(context.WithoutCancel(ctx), kind.Caller{Account: account}, func(tx *kind.Tx) error {
		answer = nil
		a := Attempts.Living(tx, name)
		if a == nil {
			a = &Attempt{AttemptId: name}
		}
		switch {
		case a.Lock.Locked(tx.Now()):
			answer = locked()
			return nil
		case !right:
			answer = fault.AuthenticationFailed.Bare()
			a.Lock = a.Lock.Fail(tx.Now())
			return Attempts.Put(tx, a)
		case a.Lock != Lock{}:
			return Attempts.Delete(tx, a)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("counting an attempt: %w", err)
	}
	return answer
}

// checkRules holds the call against the API access rules of the account.
func (g *Gate) checkRules(r *http.Request, caller kind.Caller, action *api.Action, address netip.Addr, now time.Time) error {
	var asked admission
	err := g.DB.View(r.Context(), caller, func(tx *kind.Tx) (err error) {
		asked, err = g.admission(tx)
		return err
	})
	if err != nil {
		return err
	}
	var chain []*x509.Certificate
	if r.TLS != nil {
		chain = r.TLS.PeerCertificates
	}
	// A trusted session is one of an access key.
	trusted := asked.trusted && caller.AccessKey != "" && !action.Sensitive
	if !g.chains.Admits(asked.rules, address, chain, now, trusted) {
		return fault.NoAccessRule.Errorf("No API access rule of the account admits a call from %s.", address)
	}
	return nil
}

// admission reads what an account asks of those who call it. What was read is
// good until the account changes.
func (g *Gate) admission(tx *kind.Tx) (admission, error) {
	g.mu.Lock()
	known, ok := g.admissions.get(tx.Account())
	g.mu.Unlock()
	if ok && known.version == tx.Version() {
		return known, nil
	}
	asked := admission{version: tx.Version()}
	for rule := range iam.ApiAccessRules.All(tx) {
		one := Rule{NeedsCA: len(rule.CaIds) > 0, CNs: rule.Cns}
		for _, ipRange := range rule.IpRanges {
			one.IPRanges = append(one.IPRanges, ipRange.Prefix())
		}
		for _, caID := range rule.CaIds {
			if ca, err := iam.Cas.Get(tx, caID); err == nil {
				one.CAs = append(one.CAs, g.certificate(ca))
			}
		}
		asked.rules = append(asked.rules, one)
	}
	account, err := iam.Accounts.Get(tx, id.Account(tx.Account()))
	if err != nil {
		return admission{}, err
	}
	asked.trusted = account.Policy.RequireTrustedEnv
	g.mu.Lock()
	*g.admissions.at(tx.Account()) = asked
	g.mu.Unlock()
	return asked, nil
}

// certificate parses the certificate of a CA, which never changes.
func (g *Gate) certificate(ca *iam.Ca) *x509.Certificate {
	g.mu.Lock()
	cert, ok := g.cas.get(ca.CaId)
	g.mu.Unlock()
	if ok {
		return cert
	}
	cert, err := ca.Certificate()
	if err != nil {
		// It was read when the CA was created; what cannot be read now
		// verifies nobody.
		cert = &x509.Certificate{}
	}
	g.mu.Lock()
	*g.cas.at(ca.CaId) = cert
	g.mu.Unlock()
	return cert
}

// Allow says whether a caller may make a call. The root account may make all.
// An EIM user may do what a policy allows, and nothing else; without the
// policy families no user has one.
func (g *Gate) Allow(caller kind.Caller, call *api.Call) error {
	if caller.User == "" {
		return nil
	}
	return fault.NotPermitted.Errorf("You are not authorized to perform this action.")
}
