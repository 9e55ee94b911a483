package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go/aws/credentials"
	v4 "github.com/aws/aws-sdk-go/aws/signer/v4"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
	"github.com/bastide-cloud/bastide/internal/store"
)

const (
	testLogin    = "alice@example.com"
	testPassword = "s3cret"
	home, abroad = "192.0.2.1", "198.51.100.1"
)

var (
	signed   = &api.Action{Name: "ReadNets"}
	byEither = &api.Action{Name: "ReadAccessKeys", Auth: api.SignedOrPassword, Sensitive: true}
	anyone   = &api.Action{Name: "ReadProductTypes", Auth: api.OpenOrKnown}
)

// lab is a gate over a store with one account, which has a login and an access
// key.
type lab struct {
	*Gate
	t       *testing.T
	now     atomic.Pointer[time.Time]
	journal *journal
	account string
	hashes  atomic.Int32 // how many passwords were checked
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, journal: &journal{rows: map[store.Place]store.Row{}, versions: map[string]uint64{}}}
	l.at(testTime)
	l.open()
	err := l.DB.Update(t.Context(), resource.Caller{Account: "a"}, func(tx *resource.Tx) error {
		account, err := iam.NewAccount{Email: testLogin, PasswordHash: testPassword}.Create(tx)
		if err != nil {
			return err
		}
		l.account = string(account.AccountId)
		_, err = iam.NewAccessKey(tx.In(l.account), account.AccountId, testKey, testSecret)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// open starts a node on what the journal has.
func (l *lab) open() { l.Gate = l.gateOver(l.database()) }

// database is the store of a node that has nothing in memory.
func (l *lab) database() *resource.DB {
	random := rand.NewChaCha8([32]byte{7})
	key, err := seal.New(make([]byte, 32), random)
	if err != nil {
		l.t.Fatal(err)
	}
	now := func() time.Time { return *l.now.Load() }
	db := resource.Open(resource.Options{Kinds: append(iam.Kinds(), Attempts), Journal: l.journal, Seal: key, Rand: random, Now: now})
	l.t.Cleanup(func() { db.Close() })
	return db
}

// gateOver is another gate, such as that of another node.
func (l *lab) gateOver(db *resource.DB) *Gate {
	g := New(Options{DB: db, Now: func() time.Time { return *l.now.Load() }})
	g.fits = func(_ context.Context, stored, password string) (bool, error) {
		l.hashes.Add(1)
		return stored != "" && stored == password, nil
	}
	return g
}

func (l *lab) at(now time.Time)        { l.now.Store(&now) }
func (l *lab) advance(d time.Duration) { l.at(l.now.Load().Add(d)) }

// admit changes what the one API access rule admits.
func (l *lab) admit(ranges ...api.IPRange) {
	l.t.Helper()
	err := l.DB.Update(l.t.Context(), resource.Caller{Account: l.account}, func(tx *resource.Tx) error {
		for rule := range iam.ApiAccessRules.All(tx) {
			rule.IpRanges = ranges
			if err := iam.ApiAccessRules.Put(tx, rule); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// request is a call from an address that proves nothing.
func request(from string) *http.Request {
	r := httptest.NewRequest("POST", "/api/v1/ReadNets", nil)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(from), 49152).String()
	return r
}

func withPassword(from, login, password string) *http.Request {
	r := request(from)
	r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(login+":"+password)))
	return r
}

func (l *lab) withSignature(from, key, secret string) *http.Request {
	l.t.Helper()
	r := request(from)
	signer := v4.NewSigner(credentials.NewStaticCredentials(key, secret, ""))
	if _, err := signer.Sign(r, strings.NewReader(""), "osc", "eu-west-2", *l.now.Load()); err != nil {
		l.t.Error(err)
	}
	return r
}

// code is the code that a call is refused with, or 0.
func (l *lab) code(r *http.Request, action *api.Action) apierror.Code {
	l.t.Helper()
	_, err := l.Identify(r, nil, action)
	return l.codeOf(err)
}

func (l *lab) codeOf(err error) apierror.Code {
	l.t.Helper()
	if err == nil {
		return 0
	}
	f, ok := errors.AsType[*apierror.Error](err)
	if !ok {
		l.t.Errorf("a call ended with %v, which is no fault", err)
		return apierror.Internal
	}
	return f.Code
}

func (l *lab) password(from, login, password string) apierror.Code {
	l.t.Helper()
	return l.code(withPassword(from, login, password), byEither)
}

func (l *lab) signature(from, key, secret string) apierror.Code {
	l.t.Helper()
	return l.code(l.withSignature(from, key, secret), signed)
}

// fail has four attempts fail, each with the code.
func (l *lab) fail(attempt func() apierror.Code, want apierror.Code) {
	l.t.Helper()
	for i := range failuresPerLock {
		if got := attempt(); got != want {
			l.t.Fatalf("wrong attempt %d: code %d, want %d", i+1, got, want)
		}
	}
}

func (l *lab) expect(what string, got, want apierror.Code) {
	l.t.Helper()
	if got != want {
		l.t.Errorf("%s: code %d, want %d", what, got, want)
	}
}

// calls run at once, and count the codes that they are refused with.
type calls struct {
	l     *lab
	all   sync.WaitGroup
	mu    sync.Mutex
	codes map[apierror.Code]int
}

func (l *lab) calls() *calls { return &calls{l: l, codes: map[apierror.Code]int{}} }

func (t *calls) start(g *Gate, r *http.Request, action *api.Action) {
	t.all.Go(func() {
		_, err := g.Identify(r, nil, action)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.codes[t.l.codeOf(err)]++
	})
}

func (t *calls) are(want map[apierror.Code]int) {
	t.l.t.Helper()
	t.all.Wait()
	if !maps.Equal(t.codes, want) {
		t.l.t.Errorf("codes %v, want %v", t.codes, want)
	}
}

// Of hundreds of guesses that come at once four are checked, and the right
// password behind them is refused. Only four passwords are hashed.
func TestVolleyOfPasswords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		leave, err := l.checks.enter(t.Context(), "login "+testLogin)
		if err != nil {
			t.Fatal(err)
		}
		volley := l.calls()
		wrong := func(n int) {
			for i := range n {
				volley.start(l.Gate, withPassword(abroad, testLogin, fmt.Sprint(i)), byEither)
			}
			synctest.Wait()
		}
		wrong(10)
		owner := l.calls()
		owner.start(l.Gate, withPassword(abroad, testLogin, testPassword), byEither)
		synctest.Wait()
		wrong(490)
		leave()
		owner.are(map[apierror.Code]int{apierror.Locked: 1})
		// One has its place before the test lets the others go on.
		volley.are(map[apierror.Code]int{apierror.UnknownCredentials: 4, apierror.Locked: maxChecks - 6,
			apierror.CallThrottled: 500 - (maxChecks - 2)})
		if got := l.hashes.Load(); got != 4 {
			t.Errorf("%d passwords were hashed, want 4", got)
		}
		l.expect("the right password after the volley", l.password(abroad, testLogin, testPassword), apierror.Locked)
	})
}

// A right password is refused if failures were counted while it was checked that
// lock its address or, from many addresses, the login.
func TestARightPasswordIsHeldAgainstTheLockAgain(t *testing.T) {
	t.Parallel()
	same := func(int) string { return home }
	many := func(i int) string { return fmt.Sprint("203.0.113.", i) }
	for _, test := range []struct {
		name     string
		failures int
		from     func(i int) string
		want     apierror.Code
	}{
		{"three", 3, same, 0},
		{"four", 4, same, apierror.Locked},
		{"from many addresses", maxAddresses + 3, many, 0},
		{"from too many addresses", maxAddresses + 4, many, apierror.Locked},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				other, checked := l.gateOver(l.DB), make(chan struct{})
				fits := other.fits
				other.fits = func(ctx context.Context, stored, password string) (bool, error) {
					<-checked
					return fits(ctx, stored, password)
				}
				right := l.calls()
				right.start(other, withPassword(home, testLogin, testPassword), byEither)
				synctest.Wait()
				for i := range test.failures {
					l.expect("a wrong password", l.password(test.from(i), testLogin, "guess"), apierror.UnknownCredentials)
				}
				close(checked)
				right.are(map[apierror.Code]int{test.want: 1})
			})
		})
	}
}

// A right signature waits for the failures that are being counted, and is
// refused if they lock the access key.
func TestVolleyOfSignatures(t *testing.T) {
	t.Parallel()
	for _, from := range []string{abroad, home} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				disk := make(chan struct{})
				l.journal.hold(disk)
				volley, right := l.calls(), l.calls()
				for i := range 300 {
					volley.start(l.Gate, l.withSignature(abroad, testKey, fmt.Sprint(i)), signed)
				}
				synctest.Wait()
				right.start(l.Gate, l.withSignature(from, testKey, testSecret), signed)
				synctest.Wait()
				if len(right.codes) > 0 {
					t.Errorf("a right signature gets %v before the failures are counted", right.codes)
				}
				close(disk)
				volley.are(map[apierror.Code]int{apierror.AuthenticationFailed: 4, apierror.Locked: 296})
				want := apierror.Locked
				if from == home {
					want = 0
				}
				right.are(map[apierror.Code]int{want: 1})
			})
		})
	}
}

// A client that hangs up after its guess has been looked at has guessed, even if
// what is to be counted must be read anew.
func TestHangingUpIsAFailure(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	fits := l.fits
	for range failuresPerLock {
		ctx, hangUp := context.WithCancel(t.Context())
		l.fits = func(ctx context.Context, stored, password string) (bool, error) {
			hangUp()
			l.DB = l.database()
			return fits(ctx, stored, password)
		}
		l.expect("a wrong password", l.code(withPassword(home, testLogin, "guess").WithContext(ctx), byEither), apierror.UnknownCredentials)
	}
	l.expect("the right password", l.password(home, testLogin, testPassword), apierror.Locked)
}

// A client that hangs up while it waits leaves the queue to others.
func TestHangingUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.fits = func(ctx context.Context, _, _ string) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}
		ctx, hangUp := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range maxChecks {
			all.Go(func() {
				// Half of them wait for one login, half for a place of their own.
				login := fmt.Sprint(i/2*(i%2), "@example.com")
				if _, err := l.Identify(withPassword(home, login, "guess").WithContext(ctx), nil, byEither); !errors.Is(err, context.Canceled) {
					t.Errorf("a client that has hung up gets %v", err)
				}
			})
		}
		synctest.Wait()
		_, err := l.Identify(withPassword(abroad, testLogin, testPassword), nil, byEither)
		throttled, ok := errors.AsType[*Throttled](err)
		if !ok || throttled.RetryAfter <= 0 || apierror.From(err).Code.Type() != "RequestLimitExceeded" {
			t.Errorf("with a full queue a login gets %v", err)
		}
		hangUp()
		all.Wait()
		l.fits = l.gateOver(l.DB).fits
		l.expect("a login after all have hung up", l.password(abroad, testLogin, testPassword), 0)
		if l.checks.in != 0 || len(l.checks.next) != 0 {
			t.Errorf("%d are still in the queues %v", l.checks.in, l.checks.next)
		}
	})
}

// Passwords from one address are checked at a person's pace, whatever the
// action and whoever they are for.
func TestPasswordsArePaced(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.throttle = NewThrottle(DefaultLimits(), buckets)
	check := func(from, login string) apierror.Code {
		return l.codeOf(l.CheckLogin(t.Context(), resource.Caller{Account: "asks", Address: netip.MustParseAddr(from)}, login, testPassword))
	}
	for i := range 10 {
		l.expect("a login", l.password(home, testLogin, testPassword), 0)
		l.expect("a check of one that does not exist", check(home, fmt.Sprint(i, "@example.com")), apierror.UnknownCredentials)
	}
	l.expect("the 21st at once", l.password(home, testLogin, testPassword), apierror.CallThrottled)
	l.expect("a check", check(home, testLogin), apierror.CallThrottled)
	if got := l.hashes.Load(); got != 20 {
		t.Errorf("%d passwords were hashed, want 20", got)
	}
	l.expect("from elsewhere", check(abroad, testLogin), 0)
	l.advance(time.Second)
	l.expect("a second later", check(home, testLogin), 0)
	l.expect("a second later", check(home, testLogin), 0)
	l.expect("a second later", check(home, testLogin), apierror.CallThrottled)
	l.expect("a signature", l.signature(home, testKey, testSecret), 0)

	for i := range 20 {
		l.expect("from a whole /64", check(fmt.Sprintf("2001:db8::%d", i+1), testLogin), 0)
	}
	l.expect("from a whole /64", check("2001:db8::ffff", testLogin), apierror.CallThrottled)
	l.expect("from the next /64", check("2001:db8:0:1::1", testLogin), 0)
}

// Failures from one address lock no other, and the lock outlives the node.
func TestAddressesAreLockedApart(t *testing.T) {
	t.Parallel()
	for name, attempt := range map[string]func(l *lab, from string, right bool) apierror.Code{
		"key": func(l *lab, from string, right bool) apierror.Code {
			return l.signature(from, testKey, map[bool]string{true: testSecret, false: "guess"}[right])
		},
		"login": func(l *lab, from string, right bool) apierror.Code {
			return l.password(from, testLogin, map[bool]string{true: testPassword, false: "guess"}[right])
		},
	} {
		wrong := map[string]apierror.Code{"key": apierror.AuthenticationFailed, "login": apierror.UnknownCredentials}[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.fail(func() apierror.Code { return attempt(l, abroad, false) }, wrong)
			l.expect("from the address that failed", attempt(l, abroad, true), apierror.Locked)
			l.expect("from another", attempt(l, home, true), 0)
			if err := l.DB.Close(); err != nil {
				t.Fatal(err)
			}
			l.open()
			l.expect("after a restart", attempt(l, abroad, true), apierror.Locked)
			l.advance(time.Minute)
			// The owner's success is not the guesser's.
			l.expect("from another", attempt(l, home, true), 0)
			l.fail(func() apierror.Code { return attempt(l, abroad, false) }, wrong)
			l.advance(time.Minute)
			l.expect("in the second minute", attempt(l, abroad, true), apierror.Locked)
			l.advance(time.Minute)
			l.expect("after the second lock", attempt(l, abroad, true), 0)
			if err := l.DB.View(t.Context(), resource.Caller{Account: l.account}, func(tx *resource.Tx) error {
				if n := Attempts.Count(tx); n != 0 {
					t.Errorf("%d attempts are counted after a success", n)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}

			// So many addresses that the name is refused to all others.
			for i := range maxAddresses {
				l.expect("one failure each", attempt(l, fmt.Sprint("203.0.113.", i), false), wrong)
			}
			l.fail(func() apierror.Code { return attempt(l, abroad, false) }, wrong)
			l.expect("from an address that has not failed", attempt(l, home, true), apierror.Locked)
			l.expect("from one with failures of its own", attempt(l, "203.0.113.0", true), 0)
			l.advance(time.Minute)
			l.expect("after a minute", attempt(l, home, true), 0)
		})
	}
}

// Attempts from addresses that no API access rule admits lock only addresses
// that none admits, and get the codes of all others.
func TestAddressesThatNoRuleAdmitsLockNoOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.admit("192.0.2.0/24")
	for name, attempt := range map[string]func(from string, right bool) apierror.Code{
		"key": func(from string, right bool) apierror.Code {
			return l.signature(from, testKey, map[bool]string{true: testSecret, false: "guess"}[right])
		},
		"login": func(from string, right bool) apierror.Code {
			return l.password(from, testLogin, map[bool]string{true: testPassword, false: "guess"}[right])
		},
	} {
		wrong := map[string]apierror.Code{"key": apierror.AuthenticationFailed, "login": apierror.UnknownCredentials}[name]
		l.expect(name+", right and from abroad", attempt(abroad, true), apierror.NoAccessRule)
		for i := range 2 * maxAddresses {
			from := fmt.Sprint("198.51.100.", i)
			for range failuresPerLock {
				if got := attempt(from, false); got != wrong && got != apierror.Locked {
					t.Fatalf("%s, wrong and from abroad: code %d", name, got)
				}
			}
			l.expect(name+", right, after failures from there", attempt(from, true), apierror.Locked)
		}
		l.expect(name+", right and from home", attempt(home, true), 0)
		l.expect(name+", wrong and from home", attempt(home, false), wrong)
		if err := l.DB.View(t.Context(), resource.Caller{Account: l.account}, func(tx *resource.Tx) error {
			for a := range Attempts.All(tx) {
				if strings.HasPrefix(string(a.AttemptId), name) && (len(a.Addresses) != 1 || a.Addresses[0].Address != home) {
					t.Errorf("%s: the account counts %+v", name, a)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	// What was counted apart does not count once the address is admitted.
	l.admit("0.0.0.0/0")
	l.expect("right and admitted now", l.signature(abroad, testKey, testSecret), 0)
}

// A login that does not exist has the same codes, hashes and commits as one that
// does.
func TestAbsentLoginsAreLikeOthers(t *testing.T) {
	t.Parallel()
	type step struct {
		code            apierror.Code
		hashes, commits int
	}
	var walks [][]step
	for _, login := range []string{testLogin, "nobody@example.com", strings.Repeat("long", 10_000), "\xff:"} {
		l := newLab(t)
		var walk []step
		for range 6 {
			hashes, commits := int(l.hashes.Load()), l.journal.commits()
			code := l.password(home, login, "guess")
			walk = append(walk, step{code, int(l.hashes.Load()) - hashes, l.journal.commits() - commits})
		}
		l.open()
		walk = append(walk, step{code: l.password(home, login, "guess")})
		walks = append(walks, walk)
	}
	failed, refused := step{apierror.UnknownCredentials, 1, 1}, step{code: apierror.Locked}
	want := fmt.Sprint([]step{failed, failed, failed, failed, refused, refused, refused})
	for i, walk := range walks {
		if got := fmt.Sprint(walk); got != want {
			t.Errorf("login %d: got %s, want %s", i, got, want)
		}
	}
}

// However many logins strangers make up, the store keeps a bounded number.
func TestStrangersInTheStoreAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := tally{strangers, "0"}
	err := l.DB.Update(t.Context(), resource.Caller{Account: strangers}, func(tx *resource.Tx) error {
		for i := range strangerNames + 10 {
			if err := (tally{strangers, resource.Name(fmt.Sprint(i))}).put(tx, Locks{}.Fail(home, tx.Now())); err != nil {
				return err
			}
		}
		if got := Attempts.Count(tx); got != strangerNames {
			t.Errorf("%d names are kept, want %d", got, strangerNames)
		}
		if !first.locks(tx).isZero() {
			t.Error("the name counted first is still kept")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// An action that needs no authentication takes a caller with wrong credentials
// for a stranger. They are counted, so that it helps no guesser.
func TestWrongCredentialsWhereNoneAreNeeded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	malformed := request(home)
	malformed.Header.Set("Authorization", "AWS4-HMAC-SHA256 nonsense")
	bearer := request(home)
	bearer.Header.Set("Authorization", "Bearer x")
	old := l.withSignature(home, testKey, testSecret)
	l.advance(time.Hour)
	for what, r := range map[string]*http.Request{
		"nothing": request(home), "malformed": malformed, "another scheme": bearer, "expired": old,
		"unknown key": l.withSignature(home, "AKIA0000000000000000", "guess"), "unknown login": withPassword(home, "nobody@example.com", "guess"),
		"wrong signature": l.withSignature(home, testKey, "guess"), "wrong password": withPassword(home, testLogin, "guess"),
	} {
		caller, err := l.Identify(r, nil, anyone)
		if want := (resource.Caller{Address: netip.MustParseAddr(home)}); err != nil || caller != want {
			t.Errorf("%s: %+v, %v; want a stranger", what, caller, err)
		}
	}
	for what, r := range map[string]*http.Request{
		"signature": l.withSignature(home, testKey, testSecret), "password": withPassword(home, testLogin, testPassword),
	} {
		if caller, err := l.Identify(r, nil, anyone); err != nil || caller.Account != l.account {
			t.Errorf("right %s: %+v, %v; want the account", what, caller, err)
		}
	}
	l.fail(func() apierror.Code { return l.code(l.withSignature(home, testKey, "guess"), anyone) }, 0)
	l.expect("the key, elsewhere", l.signature(home, testKey, testSecret), apierror.Locked)
	if caller, err := l.Identify(l.withSignature(home, testKey, testSecret), nil, anyone); err != nil || caller.Account != "" {
		t.Errorf("locked: %+v, %v; want a stranger", caller, err)
	}
	l.admit("203.0.113.0/24")
	if caller, err := l.Identify(withPassword(home, testLogin, testPassword), nil, anyone); err != nil || caller.Account != "" {
		t.Errorf("right, and admitted by no rule: %+v, %v; want a stranger", caller, err)
	}
}

// A trusted session of an access key replaces the client certificate, but on
// actions that are sensitive, and never that of a login.
func TestTrustedSession(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	err := l.DB.Update(t.Context(), resource.Caller{Account: l.account}, func(tx *resource.Tx) error {
		account, err := iam.Accounts.Get(tx, id.Account(l.account))
		if err != nil {
			return err
		}
		account.Policy.RequireTrustedEnv = true
		ca := &iam.Ca{Pem: pemText("CERTIFICATE", issueCert(t, nil, "ca", authority).cert.Raw)}
		if err := iam.Cas.Insert(tx, ca); err != nil {
			return err
		}
		for rule := range iam.ApiAccessRules.All(tx) {
			rule.IpRanges, rule.CaIds = nil, []id.Ca{ca.CaId}
			if err := iam.ApiAccessRules.Put(tx, rule); err != nil {
				return err
			}
		}
		return iam.Accounts.Put(tx, account)
	})
	if err != nil {
		t.Fatal(err)
	}
	sensitive := &api.Action{Name: "UpdateAccount", Sensitive: true}
	l.expect("an action", l.code(l.withSignature(home, testKey, testSecret), signed), 0)
	l.expect("a sensitive action", l.code(l.withSignature(home, testKey, testSecret), sensitive), apierror.NoAccessRule)
	l.expect("a login", l.code(withPassword(home, testLogin, testPassword), byEither), apierror.NoAccessRule)
	for name, r := range map[string]*http.Request{
		l.account: l.withSignature(home, testKey, testSecret), "": withPassword(home, testLogin, testPassword),
	} {
		if caller, err := l.Identify(r, nil, anyone); err != nil || caller.Account != name {
			t.Errorf("an open action: %+v, %v; want %q", caller, err, name)
		}
	}
}

// journal keeps rows in memory.
type journal struct {
	mu       sync.Mutex
	rows     map[store.Place]store.Row
	versions map[string]uint64
	n        int
	disk     <-chan struct{} // nothing is written before it is closed
}

func (j *journal) hold(until <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.disk = until
}

func (j *journal) Load(ctx context.Context, account string, each func(store.Row) error) (uint64, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for place, row := range j.rows {
		if place.Account == account {
			if err := each(row); err != nil {
				return 0, err
			}
		}
	}
	return j.versions[account], nil
}

func (j *journal) Commit(_ context.Context, batches []store.Batch) error {
	j.mu.Lock()
	disk := j.disk
	j.mu.Unlock()
	if disk != nil {
		<-disk
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.n++
	for _, b := range batches {
		j.versions[b.Account] = b.Version
		for _, row := range b.Rows {
			place := store.Place{Account: b.Account, Kind: row.Kind, ID: row.ID}
			if row.Doc == nil {
				delete(j.rows, place)
			} else {
				j.rows[place] = row
			}
		}
	}
	return nil
}

func (j *journal) commits() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.n
}

func (*journal) Pending(context.Context) ([]string, error) { return nil, nil }
func (*journal) Close() error                              { return nil }
