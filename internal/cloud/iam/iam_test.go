package iam

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
	"github.com/bastide-cloud/bastide/internal/store"
)

// tester is a test, a benchmark or a property.
type tester = cloudtest.TB

// region is a region with one account, and a caller of it.
type region struct {
	*cloudtest.Region
	t       tester
	journal *journal
	account *Account

	caller  resource.Caller
	checked []string // what CheckAuthentication was asked
}

var start = time.Date(2026, 11, 20, 10, 4, 5, 0, time.UTC)

func setup(t *testing.T) *region {
	t.Helper()
	r := found(t)
	t.Cleanup(func() { r.DB.Close() })
	return r
}

// found opens a region with an account.
func found(t tester) *region {
	t.Helper()
	r := &region{t: t, journal: &journal{rows: map[store.Place]store.Row{}}}
	r.open(clock.NewVirtual(start))
	r.account = r.newAccount(NewAccount{Email: "jean@example.com", City: "Saint-Cloud", CompanyName: "Example"})
	r.caller = resource.Caller{Account: string(r.account.AccountId)}
	return r
}

// open opens the region on what the journal has.
func (r *region) open(at *clock.Virtual) {
	random := rand.NewChaCha8([32]byte{7})
	key, err := seal.New(make([]byte, 32), random)
	if err != nil {
		r.t.Fatalf("making a key: %v", err)
	}
	check := func(_ context.Context, _ resource.Caller, login, password string) error {
		r.checked = append(r.checked, login+" "+password)
		if password != "right" {
			return apierror.UnknownCredentials.Bare()
		}
		return nil
	}
	r.Region = cloudtest.OpenAt(r.t, at, Actions(check), resource.Options{Kinds: Kinds(), Journal: r.journal, Seal: key, Rand: random})
}

func (r *region) update(rule func(*resource.Tx) error) {
	r.t.Helper()
	if err := r.DB.Update(context.Background(), r.caller, rule); err != nil {
		r.t.Fatalf("update: %v", err)
	}
}

func (r *region) view(rule func(*resource.Tx)) {
	r.t.Helper()
	r.View(r.caller.Account, func(tx *resource.Tx) error { rule(tx); return nil })
}

func (r *region) newAccount(n NewAccount) (account *Account) {
	r.t.Helper()
	r.update(func(tx *resource.Tx) (err error) {
		account, err = n.Create(tx)
		return err
	})
	return account
}

// as is the same region seen by another caller.
func (r *region) as(account *Account, user string) *region {
	other := *r
	other.caller = resource.Caller{Account: string(account.AccountId), User: user}
	return &other
}

// at is the same region seen through another version of the API.
func (r *region) at(version string) *region {
	other := *r
	other.Region = r.With(r.t)
	v, err := api.ParseVersion(version)
	if err != nil {
		r.t.Fatalf("%v", err)
	}
	other.Version = v
	return &other
}

// answer is what an action answered.
type answer struct {
	t    tester
	text string
}

func (r *region) try(action, body string) (string, error) {
	text, err := r.Send(r.caller, action, body)
	return string(text), err
}

// call calls an action that must succeed.
func (r *region) call(action, body string) answer {
	r.t.Helper()
	text, err := r.try(action, body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", action, body, err)
	}
	return answer{r.t, text}
}

// refused calls an action that must answer a fault of the code, with the words
// in its sentence, and change nothing.
func (r *region) refused(action, body string, code apierror.Code, words ...string) {
	r.t.Helper()
	before := r.journal.commits()
	text, err := r.try(action, body)
	f, ok := errors.AsType[*apierror.Error](err)
	if !ok || f.Code != code {
		r.t.Fatalf("%s %s: got %q and %v, want code %s", action, body, text, err, code)
	}
	for _, w := range words {
		if !strings.Contains(f.Details, w) {
			r.t.Errorf("%s %s: %q does not say %q", action, body, f.Details, w)
		}
	}
	if after := r.journal.commits(); after != before {
		r.t.Errorf("%s %s was refused and yet wrote something", action, body)
	}
}

// find follows a dotted path; nil: there is nothing.
func (a answer) find(path string) any {
	a.t.Helper()
	var v any
	if err := json.Unmarshal([]byte(a.text), &v); err != nil {
		a.t.Fatalf("%s: %v", a.text, err)
	}
	for step := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

// get is the text at a path.
func (a answer) get(path string) string {
	a.t.Helper()
	s, ok := a.find(path).(string)
	if !ok {
		a.t.Fatalf("no text at %s in %s", path, a.text)
	}
	return s
}

// is checks pairs of a path and the JSON expected there; absent is "".
func (a answer) is(pairs ...string) answer {
	a.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		got := ""
		if v := a.find(pairs[i]); v != nil {
			b, err := json.Marshal(v)
			if err != nil {
				a.t.Fatalf("%v", err)
			}
			got = string(b)
		}
		if got != pairs[i+1] {
			a.t.Errorf("%s is %s, want %s, in %s", pairs[i], got, pairs[i+1], a.text)
		}
	}
	return a
}

// count is the length of the list at a path.
func (a answer) count(path string) int {
	a.t.Helper()
	list, ok := a.find(path).([]any)
	if !ok {
		a.t.Fatalf("no list at %s in %s", path, a.text)
	}
	return len(list)
}

// journal keeps rows in memory, so that a test can look at them and restart.
type journal struct {
	mu       sync.Mutex
	rows     map[store.Place]store.Row
	versions sync.Map
	n        int
}

func (j *journal) Load(_ context.Context, account string, each func(store.Row) error) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for place, row := range j.rows {
		if place.Account == account {
			if err := each(row); err != nil {
				return 0, err
			}
		}
	}
	v, _ := j.versions.LoadOrStore(account, uint64(0))
	return v.(uint64), nil
}

func (j *journal) Commit(_ context.Context, batches []store.Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.n++
	for _, b := range batches {
		j.versions.Store(b.Account, b.Version)
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

func TestActions(t *testing.T) {
	t.Parallel()
	want := map[string]api.Auth{
		"CheckAuthentication": api.Signed, "ReadAccounts": api.Signed, "UpdateAccount": api.Signed,
		"ReadUsers":     api.Signed,
		"ReadUserGroup": api.Signed, "ReadUserGroups": api.Signed, "ReadUserGroupsPerUser": api.Signed,
		"ReadPolicy": api.Signed, "ReadPolicies": api.Signed, "ReadPolicyVersion": api.Signed, "ReadPolicyVersions": api.Signed,
		"ReadEntitiesLinkedToPolicy": api.Signed, "ReadLinkedPolicies": api.Signed, "ReadManagedPoliciesLinkedToUserGroup": api.Signed,
		"ReadUserPolicy": api.Signed, "ReadUserPolicies": api.Signed, "ReadUserGroupPolicy": api.Signed, "ReadUserGroupPolicies": api.Signed,
		"CreateServerCertificate": api.Signed, "ReadServerCertificates": api.Signed,
		"UpdateServerCertificate": api.Signed, "DeleteServerCertificate": api.Signed,
	}
	for name := range strings.FieldsSeq(`CreateAccessKey DeleteAccessKey ReadAccessKeys ReadSecretAccessKey UpdateAccessKey
		CreateApiAccessRule DeleteApiAccessRule ReadApiAccessRules UpdateApiAccessRule
		CreateCa DeleteCa ReadCas UpdateCa ReadApiAccessPolicy UpdateApiAccessPolicy`) {
		want[name] = api.SignedOrPassword
	}
	sensitive := map[string]bool{"UpdateAccount": true}
	for name := range strings.FieldsSeq(`CreateUser UpdateUser DeleteUser
		CreateUserGroup UpdateUserGroup DeleteUserGroup AddUserToUserGroup RemoveUserFromUserGroup
		CreatePolicy DeletePolicy CreatePolicyVersion SetDefaultPolicyVersion DeletePolicyVersion
		LinkPolicy UnlinkPolicy LinkManagedPolicyToUserGroup UnlinkManagedPolicyFromUserGroup
		PutUserPolicy DeleteUserPolicy PutUserGroupPolicy DeleteUserGroupPolicy
		EnableOutscaleLogin DisableOutscaleLogin EnableOutscaleLoginForUsers DisableOutscaleLoginForUsers
		EnableOutscaleLoginPerUsers DisableOutscaleLoginPerUsers`) {
		want[name], sensitive[name] = api.Signed, true
	}
	for _, a := range Actions(nil) {
		auth, ok := want[a.Name]
		if wanted := sensitive[a.Name] || auth == api.SignedOrPassword; a.Sensitive != wanted {
			t.Errorf("%s is sensitive: %v, want %v", a.Name, a.Sensitive, wanted)
		}
		if !ok {
			t.Errorf("%s is not expected here, or twice", a.Name)
		}
		if a.Auth != auth {
			t.Errorf("%s authenticates by %v, want %v", a.Name, a.Auth, auth)
		}
		delete(want, a.Name)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	r := setup(t)
	secret := r.call("CreateAccessKey", `{"Tag": "", "ExpirationDate": "2028-02-20"}`).get("AccessKey.SecretKey")
	r.call("CreateCa", `{"CaPem": `+quote(newCa(t))+`}`)
	r.call("CreateUser", `{"UserName": "anna"}`)
	r.call("CreateAccessKey", `{"UserName": "anna", "Tag": "t"}`)
	reads := []string{"ReadAccounts", "ReadUsers", "ReadAccessKeys", "ReadApiAccessRules", "ReadCas", "ReadApiAccessPolicy"}
	var before []string
	for _, action := range reads {
		before = append(before, r.call(action, `{}`).text)
	}
	for place, row := range r.journal.rows {
		if strings.Contains(string(row.Doc), secret) {
			t.Errorf("%v holds a secret in the clear: %s", place, row.Doc)
		}
	}

	if err := r.DB.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(r.Clock)
	for i, action := range reads {
		if after := r.call(action, `{}`).text; after != before[i] {
			t.Errorf("%s after a restart:\n%s\nbefore:\n%s", action, after, before[i])
		}
	}
	keyID := r.call("ReadAccessKeys", `{}`).is("AccessKeys.0.Tag", `""`).get("AccessKeys.0.AccessKeyId")
	if got := r.call("ReadSecretAccessKey", `{"AccessKeyId": "`+keyID+`"}`).get("AccessKey.SecretKey"); got != secret {
		t.Errorf("the secret is %s after a restart, was %s", got, secret)
	}
	r.view(func(tx *resource.Tx) {
		if owner, ok := KeyOwner(tx, keyID); !ok || id.Account(owner) != r.account.AccountId {
			t.Errorf("after a restart the key belongs to %q (%v)", owner, ok)
		}
	})
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
