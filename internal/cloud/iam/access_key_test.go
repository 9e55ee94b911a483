package iam

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestCreateAccessKey(t *testing.T) {
	t.Parallel()
	r := setup(t)
	plain := r.call("CreateAccessKey", `{}`)
	plain.is("AccessKey.State", `"ACTIVE"`, "AccessKey.Tag", "", "AccessKey.ExpirationDate", "", "AccessKey.UserId", "", "AccessKey.Secret",
		"",
		"AccessKey.CreationDate", `"2026-11-20T10:04:05.000+0000"`, "AccessKey.LastModificationDate", `"2026-11-20T10:04:05.000+0000"`)
	for field, length := range map[string]int{"AccessKeyId": 20, "SecretKey": 40} {
		text := plain.get("AccessKey." + field)
		if len(text) != length || strings.Trim(text, resource.Alphanumeric) != "" {
			t.Errorf("%s is %q", field, text)
		}
	}
	keyID := plain.get("AccessKey.AccessKeyId")
	r.call("ReadAccessKeys", `{}`).is("AccessKeys.0.AccessKeyId", quote(keyID), "AccessKeys.0.State", `"ACTIVE"`,
		"AccessKeys.0.SecretKey", "", "AccessKeys.0.Secret", "", "AccessKeys.1", "")

	r.call("CreateAccessKey", `{"ExpirationDate": "2028-02-20T10:04:05.000Z", "Tag": "Group1"}`).is(
		"AccessKey.ExpirationDate", `"2028-02-20T10:04:05.000+0000"`, "AccessKey.Tag", `"Group1"`)
	r.call("CreateAccessKey", `{"ExpirationDate": "2028-02-18", "Tag": "", "UserName": ""}`).is(
		"AccessKey.ExpirationDate", `"2028-02-18T00:00:00.000+0000"`, "AccessKey.Tag", `""`)
	r.call("CreateAccessKey", `{"Tag": "`+strings.Repeat("é", 255)+`"}`)

	r.refused("CreateAccessKey", `{"Tag": "`+strings.Repeat("é", 256)+`"}`, apierror.InvalidLength, "Tag")
	r.refused("CreateAccessKey", `{"ExpirationDate": "2026-11-20"}`, apierror.InvalidValue, "ExpirationDate", "future")
	r.refused("CreateAccessKey", `{"ExpirationDate": "2026-11-20T10:04:05Z"}`, apierror.InvalidValue, "ExpirationDate") // this very moment
	r.refused("CreateAccessKey", `{"ExpirationDate": "1970-01-01"}`, apierror.InvalidValue, "ExpirationDate")
	r.refused("CreateAccessKey", `{"ExpirationDate": "tomorrow"}`, apierror.InvalidValue, "ExpirationDate", "tomorrow")
	r.refused("CreateAccessKey", `{"ExpirationDate": ""}`, apierror.InvalidValue, "ExpirationDate")
	r.refused("CreateAccessKey", `{"UserName": "nobody"}`, apierror.UserNotFound, "nobody")
}

func TestNewAccessKey(t *testing.T) {
	t.Parallel()
	r := setup(t)
	other := r.newAccount(NewAccount{Email: "other@example.com"})
	make := func(account id.Account, keyID, secret string) (key *AccessKey, err error) {
		err = r.DB.Update(t.Context(), resource.Caller{}, func(tx *resource.Tx) error {
			key, err = NewAccessKey(tx, account, keyID, secret)
			return err
		})
		return key, err
	}
	key, err := make(r.account.AccountId, "ABCDEFGHIJ0123456789", "the secret")
	if err != nil || key.AccessKeyId != "ABCDEFGHIJ0123456789" || key.Secret != "the secret" || key.State != AccessKeyActive {
		t.Errorf("got %+v and %v", key, err)
	}
	r.call("ReadAccessKeys", `{}`).is("AccessKeys.0.AccessKeyId", `"ABCDEFGHIJ0123456789"`)
	if key, err := make(r.account.AccountId, "", ""); err != nil || len(key.AccessKeyId) != 20 || len(key.Secret) != 40 {
		t.Errorf("got %+v and %v", key, err)
	}
	for name, c := range map[string]struct {
		account id.Account
		keyID   string
		code    apierror.Code
	}{
		"taken":             {r.account.AccountId, "ABCDEFGHIJ0123456789", apierror.AlreadyExists},
		"taken by another":  {other.AccountId, "ABCDEFGHIJ0123456789", apierror.AlreadyExists},
		"malformed":         {other.AccountId, "short", apierror.MalformedID},
		"an absent account": {"000000000000", "", apierror.ObjectNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			before := r.journal.commits()
			if key, err := make(c.account, c.keyID, "x"); !c.code.Is(err) {
				t.Errorf("got %+v and %v, want code %s", key, err, c.code)
			}
			if r.journal.commits() != before {
				t.Error("something was written")
			}
		})
	}
}

func TestAccessKeyLimit(t *testing.T) {
	t.Parallel()
	r := setup(t)
	var last string
	for _, user := range []string{"", "anna", "bob"} {
		if user != "" {
			r.call("CreateUser", `{"UserName": "`+user+`"}`)
		}
		body := `{"UserName": "` + user + `"}`
		for range maxAccessKeys {
			last = r.call("CreateAccessKey", body).get("AccessKey.AccessKeyId")
		}
		r.refused("CreateAccessKey", body, apierror.TooManyAccessKeys, "10")
	}
	r.call("UpdateAccessKey", `{"UserName": "bob", "AccessKeyId": "`+last+`", "State": "INACTIVE"}`)
	r.refused("CreateAccessKey", `{"UserName": "bob"}`, apierror.TooManyAccessKeys) // inactive keys count
	r.call("DeleteAccessKey", `{"UserName": "bob", "AccessKeyId": "`+last+`"}`)
	r.call("CreateAccessKey", `{"UserName": "bob"}`)
}

func TestReadAccessKeys(t *testing.T) {
	t.Parallel()
	r := setup(t)
	key := func(fields string) string {
		return r.call("CreateAccessKey", `{`+fields+`}`).get("AccessKey.AccessKeyId")
	}
	r.call("CreateUser", `{"UserName": "anna"}`)
	a, b, c := key(`"Tag": "x"`), key(`"Tag": "y"`), key(``)
	u := key(`"UserName": "anna", "Tag": "x"`)
	r.call("UpdateAccessKey", `{"AccessKeyId": "`+b+`", "State": "inactive"}`)
	list := func(keys ...string) string {
		if len(keys) == 0 {
			return `[]`
		}
		return `["` + strings.Join(keys, `","`) + `"]`
	}

	for body, want := range map[string]string{
		`{}`:                                  list(a, b, c),
		`{"Tag": "x"}`:                        list(a),
		`{"Tag": ""}`:                         list(a, b, c),
		`{"Tag": "X"}`:                        list(),
		`{"UserName": "anna"}`:                list(u),
		`{"UserName": "anna", "Tag": "y"}`:    list(),
		`{"Filters": {}}`:                     list(a, b, c),
		`{"Filters": {"AccessKeyIds": []}}`:   list(a, b, c),
		`{"Filters": {"States": ["ACTIVE"]}}`: list(a, c),
		`{"Filters": {"States": ["active", "INACTIVE"]}}`:                                 list(a, b, c),
		`{"Filters": {"States": ["inactive"]}}`:                                           list(b),
		`{"Filters": {"States": ["asleep"]}}`:                                             list(),
		`{"Filters": {"States": ["ACTIVE"], "AccessKeyIds": ["` + a + `", "` + b + `"]}}`: list(a),
		`{"Filters": {"AccessKeyIds": ["` + u + `", "nonsense"]}}`:                        list(), // a user's
	} {
		if got := ids(r.call("ReadAccessKeys", body), "AccessKeys", "AccessKeyId"); got != want {
			t.Errorf("ReadAccessKeys %s: %s, want %s", body, got, want)
		}
	}
	r.refused("ReadAccessKeys", `{"UserName": "nobody"}`, apierror.UserNotFound, "nobody")

	other := r.as(r.newAccount(NewAccount{Email: "other@example.com"}), "")
	other.call("ReadAccessKeys", `{"Filters": {"AccessKeyIds": ["`+a+`"]}}`).is("AccessKeys", `[]`)
	other.refused("ReadAccessKeys", `{"UserName": "anna"}`, apierror.UserNotFound, "anna")
}

func TestUpdateAccessKey(t *testing.T) {
	t.Parallel()
	r := setup(t)
	keyID := r.call("CreateAccessKey", `{"ExpirationDate": "2028-01-01", "Tag": "old"}`).get("AccessKey.AccessKeyId")
	r.Clock.Advance(time.Minute)
	update := func(fields string) string { return `{"AccessKeyId": "` + keyID + `", ` + fields + `}` }

	// What is not given stays, the expiration date too.
	r.call("UpdateAccessKey", update(`"State": "INACTIVE"`)).is("AccessKey.State", `"INACTIVE"`, "AccessKey.Tag", `"old"`,
		"AccessKey.ExpirationDate", `"2028-01-01T00:00:00.000+0000"`, "AccessKey.SecretKey", "",
		"AccessKey.CreationDate", `"2026-11-20T10:04:05.000+0000"`, "AccessKey.LastModificationDate", `"2026-11-20T10:05:05.000+0000"`)
	r.call("UpdateAccessKey", update(`"State": "active"`)).is("AccessKey.State", `"ACTIVE"`)
	r.call("UpdateAccessKey", update(`"Tag": ""`)).is("AccessKey.Tag", `""`, "AccessKey.State", `"ACTIVE"`)
	r.call("UpdateAccessKey", update(`"ClearTag": true`)).is("AccessKey.Tag", "")
	r.call("UpdateAccessKey", update(`"Tag": "new", "ClearTag": false`)).is("AccessKey.Tag", `"new"`)
	r.call("UpdateAccessKey", update(`"ExpirationDate": "2029-01-01", "ClearExpirationDate": false`)).is("AccessKey.ExpirationDate",
		`"2029-01-01T00:00:00.000+0000"`)
	r.call("UpdateAccessKey", update(`"ClearExpirationDate": true`)).is("AccessKey.ExpirationDate", "", "AccessKey.Tag", `"new"`)

	for name, c := range map[string]struct {
		body  string
		code  apierror.Code
		words []string
	}{
		"nothing":          {`{"AccessKeyId": "` + keyID + `"}`, apierror.MissingParameter, []string{"State"}},
		"nothing but no":   {update(`"ClearTag": false, "ClearExpirationDate": false`), apierror.MissingParameter, []string{"State"}},
		"no id":            {`{"State": "ACTIVE"}`, apierror.MissingParameter, []string{"AccessKeyId"}},
		"an unknown state": {update(`"State": "asleep"`), apierror.InvalidValue, []string{"State", "ACTIVE, INACTIVE"}},
		"an empty state":   {update(`"State": ""`), apierror.InvalidValue, []string{"State"}},
		"date and no date": {update(`"ExpirationDate": "2029-01-01", "ClearExpirationDate": true`), apierror.InvalidParameter,
			[]string{"ClearExpirationDate"}},
		"tag and no tag": {update(`"Tag": "x", "ClearTag": true`), apierror.InvalidParameter, []string{"ClearTag"}},
		"a past date":    {update(`"ExpirationDate": "2026-11-20"`), apierror.InvalidValue, []string{"ExpirationDate"}},
		"a long tag":     {update(`"Tag": "` + strings.Repeat("x", 256) + `"`), apierror.InvalidLength, []string{"Tag"}},
		"an absent key": {`{"AccessKeyId": "ABCDEFGHIJ0123456789", "State": "ACTIVE"}`, apierror.AccessKeyNotFound,
			[]string{"ABCDEFGHIJ0123456789"}},
		"an absent user":      {update(`"State": "ACTIVE", "UserName": "nobody"`), apierror.UserNotFound, []string{"nobody"}},
		"a malformed key":     {`{"AccessKeyId": "x", "State": "ACTIVE"}`, apierror.MalformedID, []string{"AccessKeyId"}},
		"an unknown argument": {update(`"Status": "ACTIVE"`), apierror.UnknownParameter, []string{"Status"}},
	} {
		t.Run(name, func(t *testing.T) { r.refused("UpdateAccessKey", c.body, c.code, c.words...) })
	}
	r.call("ReadAccessKeys", `{}`).is("AccessKeys.0.State", `"ACTIVE"`, "AccessKeys.0.Tag", `"new"`)
}

func TestDeleteAccessKey(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.call("CreateUser", `{"UserName": "anna"}`)
	root := r.call("CreateAccessKey", `{}`).get("AccessKey.AccessKeyId")
	user := r.call("CreateAccessKey", `{"UserName": "anna"}`).get("AccessKey.AccessKeyId")
	r.caller.AccessKey = root

	r.refused("DeleteAccessKey", `{"UserName": "anna", "AccessKeyId": "`+user+`"}`, apierror.InvalidState, user, "INACTIVE")
	r.call("UpdateAccessKey", `{"UserName": "anna", "AccessKeyId": "`+user+`", "State": "INACTIVE"}`)
	r.refused("DeleteAccessKey", `{"AccessKeyId": "`+user+`"}`, apierror.AccessKeyNotFound, user) // not the root account's
	r.refused("DeleteAccessKey", `{"UserName": "anna", "AccessKeyId": "`+root+`"}`, apierror.AccessKeyNotFound, root)
	r.call("DeleteAccessKey", `{"UserName": "anna", "AccessKeyId": "`+user+`"}`)
	r.refused("DeleteAccessKey", `{"UserName": "anna", "AccessKeyId": "`+user+`"}`, apierror.AccessKeyNotFound, user)
	r.refused("DeleteAccessKey", `{}`, apierror.MissingParameter, "AccessKeyId")
	other := r.as(r.newAccount(NewAccount{Email: "other@example.com"}), "")
	other.refused("DeleteAccessKey", `{"AccessKeyId": "`+root+`"}`, apierror.AccessKeyNotFound, root)

	// Active, the last one, and the one that signs the call: all may go.
	r.call("DeleteAccessKey", `{"AccessKeyId": "`+root+`"}`)
	r.call("ReadAccessKeys", `{}`).is("AccessKeys", `[]`)
}

// An EIM user who calls without UserName means their own keys.
func TestAccessKeysOfTheCaller(t *testing.T) {
	t.Parallel()
	r := setup(t)
	root := r.call("CreateAccessKey", `{}`).get("AccessKey.AccessKeyId")
	anna := r.as(r.account, r.call("CreateUser", `{"UserName": "anna"}`).get("User.UserId"))
	bob := r.as(r.account, r.call("CreateUser", `{"UserName": "bob"}`).get("User.UserId"))

	own := anna.call("CreateAccessKey", `{}`).get("AccessKey.AccessKeyId")
	anna.call("ReadAccessKeys", `{}`).is("AccessKeys.0.AccessKeyId", quote(own), "AccessKeys.1", "")
	r.call("ReadAccessKeys", `{"UserName": "anna"}`).is("AccessKeys.0.AccessKeyId", quote(own), "AccessKeys.1", "")
	bob.call("ReadAccessKeys", `{}`).is("AccessKeys", `[]`)
	for _, stranger := range []string{root, own} {
		bob.refused("UpdateAccessKey", `{"AccessKeyId": "`+stranger+`", "State": "INACTIVE"}`, apierror.AccessKeyNotFound, stranger)
		bob.refused("DeleteAccessKey", `{"AccessKeyId": "`+stranger+`"}`, apierror.AccessKeyNotFound, stranger)
	}
	anna.refused("DeleteAccessKey", `{"AccessKeyId": "`+own+`"}`, apierror.InvalidState)
	anna.call("UpdateAccessKey", `{"AccessKeyId": "`+own+`", "State": "INACTIVE"}`)
	anna.call("DeleteAccessKey", `{"AccessKeyId": "`+own+`"}`)

	nobody := r.as(r.account, strings.Repeat("X", 32))
	nobody.refused("CreateAccessKey", `{}`, apierror.UserNotFound)
}

func TestReadSecretAccessKey(t *testing.T) {
	t.Parallel()
	r := setup(t)
	root := r.call("CreateAccessKey", `{}`)
	keyID, secret := root.get("AccessKey.AccessKeyId"), root.get("AccessKey.SecretKey")
	anna := r.as(r.account, r.call("CreateUser", `{"UserName": "anna"}`).get("User.UserId"))
	own := anna.call("CreateAccessKey", `{}`).get("AccessKey.AccessKeyId")

	body := `{"AccessKeyId": "` + keyID + `"}`
	for _, version := range []string{"1.1", "1.28.5", "1.42.0"} {
		r.at(version).call("ReadSecretAccessKey", body).is("AccessKey.SecretKey", quote(secret), "AccessKey.AccessKeyId", quote(keyID))
	}
	r.refused("ReadSecretAccessKey", `{"AccessKeyId": "`+own+`"}`, apierror.AccessKeyNotFound, own)
	r.refused("ReadSecretAccessKey", `{}`, apierror.MissingParameter, "AccessKeyId")
	other := r.as(r.newAccount(NewAccount{Email: "other@example.com"}), "")
	other.refused("ReadSecretAccessKey", body, apierror.AccessKeyNotFound, keyID)
}

func TestAccessKeyOfVersion1(t *testing.T) {
	t.Parallel()
	r := setup(t).at("1.1")
	key := r.call("CreateAccessKey", `{}`)
	key.is("AccessKey.State", `"active"`, "AccessKey.ExpirationDate", "", "AccessKey.Tag", "")
	keyID := key.get("AccessKey.AccessKeyId")
	r.call("UpdateAccessKey", `{"AccessKeyId": "`+keyID+`", "State": "inactive"}`).is("AccessKey.State", `"inactive"`)
	r.at("1.28.5").call("ReadAccessKeys", `{"Filters": {"States": ["inactive"]}}`).is("AccessKeys.0.State", `"INACTIVE"`)
	r.call("ReadAccessKeys", `{"Filters": {"States": ["inactive"]}}`).is("AccessKeys.0.State", `"inactive"`)
	r.refused("UpdateAccessKey", `{"AccessKeyId": "`+keyID+`"}`, apierror.MissingParameter, "State")
	for _, field := range []string{`"UserName": "x"`, `"ExpirationDate": "2029-01-01"`, `"Tag": "x"`, `"ClearTag": true`} {
		r.refused("UpdateAccessKey", fmt.Sprintf(`{"AccessKeyId": %q, "State": "active", %s}`, keyID, field), apierror.UnknownParameter)
	}
	r.refused("CreateAccessKey", `{"ExpirationDate": "2029-01-01"}`, apierror.UnknownParameter, "ExpirationDate")
}
