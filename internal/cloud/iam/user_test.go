package iam

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
)

func TestUser(t *testing.T) {
	t.Parallel()
	r := setup(t)
	anna := r.call("CreateUser", `{"UserName": "anna"}`)
	anna.is("User.UserName", `"anna"`, "User.Path", `"/"`, "User.UserEmail", `"jean@example.com"`, "User.OutscaleLoginAllowed", `true`,
		"User.CreationDate", `"2026-11-20T10:04:05.000+0000"`, "User.LastModificationDate", `"2026-11-20T10:04:05.000+0000"`)
	userID := anna.get("User.UserId")
	if err := id.User("").Form().Check(userID); err != nil || len(userID) != 32 {
		t.Errorf("the UserId is %s: %v", userID, err)
	}
	r.call("CreateUser", `{"UserName": "Anna", "Path": "/sales/europe_1/", "UserEmail": "anna@example.com"}`).is(
		"User.Path", `"/sales/europe_1/"`, "User.UserEmail", `"anna@example.com"`)

	r.Clock.Advance(time.Hour)
	changed := []string{
		"User.UserId", quote(userID), "User.UserName", `"bob"`, "User.Path", `"/it/"`, "User.UserEmail", `"bob@example.com"`,
		"User.CreationDate", `"2026-11-20T10:04:05.000+0000"`, "User.LastModificationDate", `"2026-11-20T11:04:05.000+0000"`,
	}
	r.call("UpdateUser", `{"UserName": "anna", "NewUserName": "bob", "NewPath": "/it/", "NewUserEmail": "bob@example.com"}`).is(changed...)
	r.call("UpdateUser", `{"UserName": "bob", "NewUserName": "bob"}`).is(changed...)
	r.refused("UpdateUser", `{"UserName": "anna", "NewPath": "/"}`, apierror.UserNotFound, "anna")
	r.refused("UpdateUser", `{"UserName": "bob", "NewUserName": "Anna"}`, apierror.UserNameTaken, "Anna")
	r.refused("UpdateUser", `{"NewUserName": "x"}`, apierror.MissingParameter, "UserName")

	r.call("DeleteUser", `{"UserName": "bob"}`)
	r.refused("DeleteUser", `{"UserName": "bob"}`, apierror.UserNotFound, "bob")
	r.refused("DeleteUser", `{}`, apierror.MissingParameter, "UserName")
	r.call("ReadUsers", `{}`).is("Users.0.UserName", `"Anna"`, "Users.1", "")
}

func TestUserFields(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.call("CreateUser", `{"UserName": "taken"}`)
	longest := strings.Repeat("n", 64)
	r.call("CreateUser", `{"UserName": "`+longest+`", "Path": "/`+strings.Repeat("p", 510)+`/"}`)
	r.call("CreateUser", `{"UserName": "aZ09+=,.@-_", "Path": "/"}`)
	r.call("CreateUser", `{"UserName": "slashes", "Path": "//"}`)
	r.call("CreateUser", `{"UserName": "rooted", "Path": ""}`).is("User.Path", `"/"`)
	for name, c := range map[string]struct {
		field, value string
		code         apierror.Code
	}{
		"a taken name":       {"UserName", "taken", apierror.UserNameTaken},
		"an empty name":      {"UserName", "", apierror.InvalidValue},
		"a long name":        {"UserName", longest + "n", apierror.InvalidValue},
		"a space in a name":  {"UserName", "a b", apierror.InvalidValue},
		"a slash in a name":  {"UserName", "a/b", apierror.InvalidValue},
		"a newline":          {"UserName", "a\n", apierror.InvalidValue},
		"no first slash":     {"Path", "a/", apierror.InvalidValue},
		"no last slash":      {"Path", "/a", apierror.InvalidValue},
		"a hyphen in a path": {"Path", "/a-b/", apierror.InvalidValue},
		"a long path":        {"Path", "/" + strings.Repeat("p", 511) + "/", apierror.InvalidLength},
		"no email":           {"UserEmail", "anna", apierror.InvalidEmail},
		"an empty email":     {"UserEmail", "", apierror.InvalidEmail},
		"a long email":       {"UserEmail", strings.Repeat("e", 250) + "@a.fr", apierror.InvalidEmail},
	} {
		t.Run(name, func(t *testing.T) {
			create := fmt.Sprintf(`{"UserName": "new", %q: %s}`, c.field, quote(c.value))
			if c.field == "UserName" {
				create = `{"UserName": ` + quote(c.value) + `}`
			}
			r.refused("CreateUser", create, c.code, c.field)
			r.refused("UpdateUser", fmt.Sprintf(`{"UserName": "slashes", "New%s": %s}`, c.field, quote(c.value)), c.code, c.field)
		})
	}
	r.refused("CreateUser", `{}`, apierror.MissingParameter, "UserName")
}

func TestReadUsers(t *testing.T) {
	t.Parallel()
	r := setup(t)
	var userIDs []string
	for i := range 5 {
		userIDs = append(userIDs, r.call("CreateUser", fmt.Sprintf(`{"UserName": "u%d"}`, i)).get("User.UserId"))
	}
	r.call("ReadUsers", `{"FirstItem": 1, "ResultsPerPage": 2}`).is(
		"Users.0.UserName", `"u1"`, "Users.1.UserName", `"u2"`, "Users.2", "", "HasMoreItems", `true`, "MaxResultsLimit", `2`,
		"MaxResultsTruncated", `true`)
	r.call("ReadUsers", `{"FirstItem": 3}`).is("Users.1.UserName", `"u4"`, "HasMoreItems", `false`, "MaxResultsLimit", `100`,
		"MaxResultsTruncated", `false`)
	r.call("ReadUsers", `{"Filters": {"UserIds": ["`+userIDs[2]+`", "nonsense"]}}`).is("Users.0.UserName", `"u2"`, "Users.1", "")
	r.refused("ReadUsers", `{"ResultsPerPage": 0}`, apierror.InvalidValue, "ResultsPerPage")
	r.at("1.29.3").call("ReadUsers", `{}`).is("Users.4.UserName", `"u4"`, "Users.0.UserEmail", "")
	r.at("1.29.3").refused("ReadUsers", `{"Filters": {}}`, apierror.UnknownParameter, "Filters")
	r.at("1.1").refused("ReadUsers", `{}`, apierror.UnknownAction)

	other := r.newAccount(NewAccount{Email: "other@example.com"})
	r.as(other, "").call("ReadUsers", `{"Filters": {"UserIds": ["`+userIDs[2]+`"]}}`).is("Users", `[]`)
	r.as(other, "").call("CreateUser", `{"UserName": "u0"}`) // names are the account's own
}

func TestUserWithKeysStays(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.call("CreateUser", `{"UserName": "anna"}`)
	key := r.call("CreateAccessKey", `{"UserName": "anna"}`).get("AccessKey.AccessKeyId")
	r.refused("DeleteUser", `{"UserName": "anna"}`, apierror.InUse, key)
	r.call("UpdateAccessKey", `{"UserName": "anna", "AccessKeyId": "`+key+`", "State": "INACTIVE"}`)
	r.refused("DeleteUser", `{"UserName": "anna"}`, apierror.InUse, key)
	r.call("DeleteAccessKey", `{"UserName": "anna", "AccessKeyId": "`+key+`"}`)
	r.call("DeleteUser", `{"UserName": "anna"}`)
}
