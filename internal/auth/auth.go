// Package auth decides who may call. It reads signatures and passwords,
// counts failures, limits rates, and matches API access rules.
//
// The parts decide from values: the time is an argument, nothing is read from
// disk or network, and every table that strangers can fill has a bound. [Gate]
// combines them with the accounts in the store.
package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/policy"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Options configures a [Gate].
type Options struct {
	DB             *resource.DB
	Now            func() time.Time
	Limits         *Limits        // nil: no throttling
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-For is trusted
}

// Gate decides who may call. It is safe for concurrent use.
type Gate struct {
	Options
	verifier  *Verifier
	strangers *Strangers
	throttle  *Throttle
	chains    *Chains
	checks    *queues // of passwords to be checked, by login
	failing   *queues // of wrong signatures to be counted, by access key

	// fits is [iam.PasswordFits], except in tests.
	fits func(ctx context.Context, stored, password string) (bool, error)

	mu         sync.Mutex // guards the fields below
	cas        *lru[id.Ca, *x509.Certificate]
	admissions *lru[string, admission] // by account
	powers     *lru[userKey, powers]
	documents  *lru[iam.PolicyDocument, *policy.Document]
}

// admission is what an account requires of callers, at one version of the
// account.
type admission struct {
	version uint64
	rules   []Rule
	trusted bool // its policy asks for trusted sessions
}

// The sizes of the caches. Each entry takes some hundred bytes, a stranger at
// most 2 KB, and a policy document at most 100 KB. Evicted entries are computed
// again. Only the locks of strangers are lost, for which a guesser needs as many
// names as there are entries.
const (
	signingKeys   = 1 << 15
	strangerNames = 1 << 14 // of access keys in memory, and of logins in the store
	buckets       = 1 << 16
	knownChains   = 1 << 12
	parsedCAs     = 1 << 10
	readRules     = 1 << 12
	knownUsers    = 1 << 12
	readDocuments = 1 << 10
)

// maxChecks is the maximum number of passwords that are checked or wait for it.
// Two at a time take some 20 ms each, so the last one waits for less than a
// second.
const maxChecks = 64

// New returns a Gate.
func New(o Options) *Gate {
	return &Gate{
		Options:    o,
		verifier:   NewVerifier(signingKeys),
		strangers:  NewStrangers(strangerNames),
		throttle:   NewThrottle(o.Limits, buckets),
		chains:     NewChains(knownChains),
		checks:     newQueues(maxChecks),
		failing:    newQueues(0),
		fits:       iam.PasswordFits,
		cas:        newLRU[id.Ca, *x509.Certificate](parsedCAs),
		admissions: newLRU[string, admission](readRules),
		powers:     newLRU[userKey, powers](knownUsers),
		documents:  newLRU[iam.PolicyDocument, *policy.Document](readDocuments),
	}
}

// Identify returns who makes a call of an action. If it refuses, the returned
// caller has as much as is known, for the log, but is not authenticated.
func (g *Gate) Identify(r *http.Request, body []byte, action *api.Action) (resource.Caller, error) {
	now, address := g.Now(), g.Address(r)
	stranger := func() (resource.Caller, error) {
		return resource.Caller{Address: address}, g.limitRate("address "+address.String(), action.Name, now)
	}
	if action.Auth == api.Open || action.Auth == api.OpenOrKnown && r.Header.Get("Authorization") == "" {
		return stranger()
	}
	who, err := g.authenticate(r, body, action, address, now)
	if err == nil {
		err = g.limitRate(who.Account, action.Name, now)
	}
	if err == nil {
		err = g.admit(r, who, action, now)
	}
	if err == nil && action.Auth == api.OpenOrKnown {
		_, err = g.Allow(r.Context(), who.Caller, "oapi", action.Name)
	}
	if action.Auth == api.OpenOrKnown && isRefusal(err) {
		return stranger()
	}
	return who.Caller, err
}

// isRefusal reports whether a call was refused because of its caller, and
// neither by throttling nor by an internal error.
func isRefusal(err error) bool {
	if _, ok := errors.AsType[*Throttled](err); ok {
		return false
	}
	_, ok := errors.AsType[*apierror.Error](err)
	return ok
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

// Unwrap returns the error that the caller sees.
func (t *Throttled) Unwrap() error { return t.error }

func (g *Gate) limitRate(who, call string, now time.Time) error {
	verdict, wait := g.throttle.Allow(who, call, now)
	switch verdict {
	case OverCall:
		return &Throttled{wait, apierror.CallThrottled.Errorf("Request rate exceeded.")}
	case OverAccount:
		return &Throttled{wait, apierror.AccountThrottled.Errorf("Request rate exceeded.")}
	}
	return nil
}

// admit checks a call against the API access rules of its account.
func (g *Gate) admit(r *http.Request, who proven, action *api.Action, now time.Time) error {
	var chain []*x509.Certificate
	if r.TLS != nil {
		chain = r.TLS.PeerCertificates
	}
	// A trusted session is one of an access key.
	trusted := who.asked.trusted && who.AccessKey != "" && !action.Sensitive
	if !g.chains.Admits(who.asked.rules, who.Address, chain, now, trusted) {
		return apierror.NoAccessRule.Errorf("No API access rule of the account admits a call from %s.", who.Address)
	}
	return nil
}

// admission returns what an account requires of callers. It is cached until the
// account changes.
func (g *Gate) admission(tx *resource.Tx) (admission, error) {
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
		// It was parsed when the CA was created; a certificate that cannot be
		// parsed now verifies no caller.
		cert = &x509.Certificate{}
	}
	g.mu.Lock()
	*g.cas.at(ca.CaId) = cert
	g.mu.Unlock()
	return cert
}
