package iam

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func accessPolicy(seconds int64, trusted bool) string {
	return fmt.Sprintf(`{"MaxAccessKeyExpirationSeconds": %d, "RequireTrustedEnv": %v}`, seconds, trusted)
}

func TestApiAccessPolicy(t *testing.T) {
	t.Parallel()
	r := setup(t)
	read := func(seconds, trusted string) {
		t.Helper()
		r.call("ReadApiAccessPolicy", `{}`).is("ApiAccessPolicy.MaxAccessKeyExpirationSeconds", seconds, "ApiAccessPolicy.RequireTrustedEnv",
			trusted)
	}
	read("0", "false")
	r.call("UpdateApiAccessPolicy", accessPolicy(maxKeySeconds, true)).is(
		"ApiAccessPolicy.MaxAccessKeyExpirationSeconds", "3153600000", "ApiAccessPolicy.RequireTrustedEnv", "true")
	read("3153600000", "true")

	for name, c := range map[string]struct {
		body string
		code apierror.Code
		word string
	}{
		"negative":         {accessPolicy(-1, false), apierror.InvalidValue, "MaxAccessKeyExpirationSeconds"},
		"too long":         {accessPolicy(maxKeySeconds+1, false), apierror.InvalidValue, "3153600000"},
		"no end, trusted":  {accessPolicy(0, true), apierror.InvalidParameter, "RequireTrustedEnv"},
		"no seconds":       {`{"RequireTrustedEnv": false}`, apierror.MissingParameter, "MaxAccessKeyExpirationSeconds"},
		"no word of trust": {`{"MaxAccessKeyExpirationSeconds": 1}`, apierror.MissingParameter, "RequireTrustedEnv"},
		"seconds as a text": {`{"MaxAccessKeyExpirationSeconds": "1", "RequireTrustedEnv": false}`, apierror.InvalidType,
			"MaxAccessKeyExpirationSeconds"},
		"half a second more": {`{"MaxAccessKeyExpirationSeconds": 1.5, "RequireTrustedEnv": false}`, apierror.InvalidType,
			"MaxAccessKeyExpirationSeconds"},
	} {
		t.Run(name, func(t *testing.T) { r.refused("UpdateApiAccessPolicy", c.body, c.code, c.word) })
	}
	read("3153600000", "true")
	r.call("UpdateApiAccessPolicy", accessPolicy(0, false))
	read("0", "false")

	other := r.as(r.newAccount(NewAccount{Email: "other@example.com"}), "")
	other.call("CreateAccessKey", `{}`)
	r.call("UpdateApiAccessPolicy", accessPolicy(60, false)) // another account's keys do not matter
	other.call("ReadApiAccessPolicy", `{}`).is("ApiAccessPolicy.MaxAccessKeyExpirationSeconds", "0")
}

// A policy must suit all keys of the account: its users' and inactive ones too.
func TestApiAccessPolicyAndPresentKeys(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.call("CreateUser", `{"UserName": "anna"}`)
	r.call("CreateAccessKey", `{"ExpirationDate": "2026-11-20T10:05:05Z"}`) // 60 s
	user := r.call("CreateAccessKey", `{"UserName": "anna"}`).get("AccessKey.AccessKeyId")
	update := func(fields string) {
		r.call("UpdateAccessKey", `{"UserName": "anna", "AccessKeyId": "`+user+`", `+fields+`}`)
	}

	r.refused("UpdateApiAccessPolicy", accessPolicy(maxKeySeconds, false), apierror.InvalidParameter, "MaxAccessKeyExpirationSeconds", user,
		"no ExpirationDate")
	update(`"State": "INACTIVE"`)
	r.refused("UpdateApiAccessPolicy", accessPolicy(maxKeySeconds, false), apierror.InvalidParameter, user)
	update(`"ExpirationDate": "2026-11-20T10:06:05Z"`) // 120 s
	r.refused("UpdateApiAccessPolicy", accessPolicy(119, false), apierror.InvalidParameter, "MaxAccessKeyExpirationSeconds", user,
		"2026-11-20T10:06:05.000+0000")
	r.refused("UpdateApiAccessPolicy", accessPolicy(120, false), apierror.InvalidParameter, user) // it must exceed
	r.call("UpdateApiAccessPolicy", accessPolicy(121, false))

	// What counts is what they have left, and expired ones have nothing.
	r.Clock.Advance(119 * time.Second)
	r.refused("UpdateApiAccessPolicy", accessPolicy(1, false), apierror.InvalidParameter, user)
	r.Clock.Advance(2 * time.Second)
	r.call("UpdateApiAccessPolicy", accessPolicy(1, false))
}

func TestKeysUnderApiAccessPolicy(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.call("UpdateApiAccessPolicy", accessPolicy(3600, false))
	r.refused("CreateAccessKey", `{}`, apierror.MissingParameter, "ExpirationDate", "3600")
	r.refused("CreateAccessKey", `{"ExpirationDate": "2026-11-20T11:04:05.001Z"}`, apierror.InvalidValue, "ExpirationDate", "3600")
	keyID := r.call("CreateAccessKey", `{"ExpirationDate": "2026-11-20T11:04:05Z"}`).get("AccessKey.AccessKeyId")
	update := func(fields string) string { return `{"AccessKeyId": "` + keyID + `", ` + fields + `}` }

	r.refused("UpdateAccessKey", update(`"ClearExpirationDate": true`), apierror.MissingParameter, "ExpirationDate", "cleared")
	r.refused("UpdateAccessKey", update(`"State": "INACTIVE", "ExpirationDate": "2026-11-20T11:04:06Z"`), apierror.InvalidValue,
		"ExpirationDate")
	r.call("UpdateAccessKey", update(`"State": "INACTIVE"`)).is("AccessKey.ExpirationDate", `"2026-11-20T11:04:05.000+0000"`)
	r.call("UpdateAccessKey", update(`"ExpirationDate": "2026-11-20T11:00:00Z"`))

	err := r.DB.Update(t.Context(), resource.Caller{}, func(tx *resource.Tx) error {
		_, err := NewAccessKey(tx, r.account.AccountId, "", "")
		return err
	})
	if !apierror.MissingParameter.Is(err) {
		t.Errorf("the first key of a strict account: %v", err)
	}
}

// Whatever is called in whatever order: no key outlives what the policy
// allows, nobody has too many keys, and the directory knows just the keys
// there are.
func TestKeysNeverOutliveThePolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := found(t)
		defer r.DB.Close()
		r.call("CreateUser", `{"UserName": "anna"}`)
		gone := map[string]bool{}

		user := func() string { return rapid.SampledFrom([]string{"", "anna"}).Draw(t, "user") }
		expiry := func() string {
			at := r.Clock.Now().Add(time.Duration(rapid.IntRange(-1, 50).Draw(t, "seconds")) * time.Second)
			return fmt.Sprintf(`"ExpirationDate": "%s"`, at.Format(time.RFC3339))
		}
		some := func() string {
			keyIDs := []string{"ABCDEFGHIJ0123456789"}
			r.view(func(tx *resource.Tx) {
				for key := range AccessKeys.All(tx) {
					keyIDs = append(keyIDs, string(key.AccessKeyId))
				}
			})
			return rapid.SampledFrom(keyIDs).Draw(t, "key")
		}
		attempt := func(action, body string) bool {
			_, err := r.try(action, body)
			if err != nil && apierror.From(err).Code == apierror.Internal {
				t.Fatalf("%s %s: %v", action, body, err)
			}
			return err == nil
		}

		t.Repeat(map[string]func(*rapid.T){
			"create":             func(t *rapid.T) { attempt("CreateAccessKey", fmt.Sprintf(`{"UserName": %q, %s}`, user(), expiry())) },
			"create without end": func(t *rapid.T) { attempt("CreateAccessKey", fmt.Sprintf(`{"UserName": %q}`, user())) },
			"update": func(t *rapid.T) {
				change := rapid.SampledFrom([]string{expiry(), `"ClearExpirationDate": true`, `"State": "INACTIVE"`, `"State": "ACTIVE"`,
					`"Tag": "x"`}).Draw(t, "change")
				attempt("UpdateAccessKey", fmt.Sprintf(`{"UserName": %q, "AccessKeyId": %q, %s}`, user(), some(), change))
			},
			"delete": func(t *rapid.T) {
				key := some()
				if attempt("DeleteAccessKey", fmt.Sprintf(`{"UserName": %q, "AccessKeyId": %q}`, user(), key)) {
					gone[key] = true
				}
			},
			"policy": func(t *rapid.T) {
				attempt("UpdateApiAccessPolicy", accessPolicy(int64(rapid.IntRange(0, 60).Draw(t, "max")), rapid.Bool().Draw(t, "trusted")))
			},
			"wait": func(t *rapid.T) {
				r.Clock.Advance(time.Duration(rapid.IntRange(1, 10).Draw(t, "wait")) * time.Second)
			},
			"": func(t *rapid.T) {
				r.view(func(tx *resource.Tx) {
					account, err := accountOf(tx)
					if err != nil {
						t.Fatal(err)
					}
					limit := account.Policy.MaxAccessKeyExpirationSeconds
					if account.Policy.RequireTrustedEnv && limit == 0 {
						t.Fatal("a trusted session with keys without end")
					}
					have := map[id.User]int{}
					for key := range AccessKeys.All(tx) {
						have[key.UserId]++
						if left := key.ExpirationDate.Time().Sub(r.Clock.Now()); limit > 0 && (key.ExpirationDate == 0 || left > limit.duration()) {
							t.Fatalf("%s may live %s more under a policy of %d s", key.AccessKeyId, left, limit)
						}
						if owner, _ := KeyOwner(tx, string(key.AccessKeyId)); owner != r.caller.Account {
							t.Fatalf("the directory gives %s to %q", key.AccessKeyId, owner)
						}
					}
					for user, n := range have {
						if n > maxAccessKeys {
							t.Fatalf("%q has %d keys", user, n)
						}
					}
					for key := range gone {
						if owner, ok := KeyOwner(tx, key); ok {
							t.Fatalf("the directory still gives %s to %s", key, owner)
						}
					}
				})
			},
		})
	})
}
