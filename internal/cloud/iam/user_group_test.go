package iam

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

func TestUserGroupNamesAndPaths(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.call("CreateUserGroup", `{"UserGroupName": "`+strings.Repeat("a", 128)+`"}`)
	r.call("CreateUserGroup", `{"UserGroupName": "a+=,.@_-Z9", "Path": "/dev_1/2/"}`)
	for name, c := range map[string]struct {
		field, value string
		code         apierror.Code
	}{
		"empty name":     {"UserGroupName", "", apierror.InvalidValue},
		"long name":      {"UserGroupName", strings.Repeat("a", 129), apierror.InvalidValue},
		"space":          {"UserGroupName", "a b", apierror.InvalidValue},
		"slash":          {"UserGroupName", "a/b", apierror.InvalidValue},
		"no slash":       {"Path", "dev", apierror.InvalidValue},
		"no slash after": {"Path", "/dev", apierror.InvalidValue},
		"long path":      {"Path", "/" + strings.Repeat("a", 511) + "/", apierror.InvalidLength},
	} {
		t.Run(name, func(t *testing.T) {
			create := fmt.Sprintf(`{"UserGroupName": "new", %q: %s}`, c.field, quote(c.value))
			if c.field == "UserGroupName" {
				create = `{"UserGroupName": ` + quote(c.value) + `}`
			}
			r.refused("CreateUserGroup", create, c.code, c.field)
			r.refused("UpdateUserGroup", fmt.Sprintf(`{"UserGroupName": "new", "New%s": %s}`, c.field, quote(c.value)), c.code, c.field)
		})
	}
	r.refused("CreateUserGroup", `{"UserGroupName": "a+=,.@_-Z9"}`, apierror.UserGroupNameTaken, "Name", "a+=,.@_-Z9")
}

func TestUserGroupBounds(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.call("CreateUser", `{"UserName": "carol"}`)
	for i := range maxUserGroups {
		r.call("CreateUserGroup", fmt.Sprintf(`{"UserGroupName": "g%d"}`, i))
	}
	r.refused("CreateUserGroup", `{"UserGroupName": "one-more"}`, apierror.TooManyVms, "300")
	for i := range maxGroupsOfUser {
		r.call("AddUserToUserGroup", fmt.Sprintf(`{"UserGroupName": "g%d", "UserName": "carol"}`, i))
	}
	r.refused("AddUserToUserGroup", `{"UserGroupName": "g6", "UserName": "carol"}`, apierror.TooManyVms, "carol", "6")
	r.call("AddUserToUserGroup", `{"UserGroupName": "g0", "UserName": "carol"}`)
	if got := r.call("ReadUserGroupsPerUser", `{"UserName": "carol"}`).count("UserGroups"); got != maxGroupsOfUser {
		t.Errorf("carol is in %d groups", got)
	}
}

// A rule that changes the list of a user's groups leaves the lists that others look
// at as they are: the store audits that when the test ends.
func TestMembershipsInOrder(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.call("CreateUser", `{"UserName": "carol"}`)
	for _, name := range []string{"a", "b", "c"} {
		r.call("CreateUserGroup", `{"UserGroupName": "`+name+`"}`)
		r.call("AddUserToUserGroup", `{"UserGroupName": "`+name+`", "UserName": "carol"}`)
	}
	r.call("RemoveUserFromUserGroup", `{"UserGroupName": "a", "UserName": "carol"}`)
	r.call("AddUserToUserGroup", `{"UserGroupName": "a", "UserName": "carol"}`)
	r.call("ReadUserGroupsPerUser", `{"UserName": "carol"}`).is("UserGroups.0.Name", `"b"`, "UserGroups.1.Name", `"c"`, "UserGroups.2.Name", `"a"`)
	r.call("DeleteUserGroup", `{"UserGroupName": "c", "Force": true}`)
	r.call("ReadUserGroupsPerUser", `{"UserName": "carol"}`).is("UserGroups.0.Name", `"b"`, "UserGroups.1.Name", `"a"`, "UserGroups.2", "")
}
