package acceptance

// everything is a policy that allows all actions.
const everything = `{"Statement": [{"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}]}`

// equipIdentity makes a user group with a user, policies that are linked to both and
// that are their own, and a group and a policy that nothing has.
func (w *testRegion) equipIdentity(name string, made func(path, action, format string, args ...any) string, has belongings) {
	w.t.Helper()
	user, other, group, empty := has[".UserName"], name+"-dave", name+"-devs", name+"-ops"
	create := func(policy string) string {
		return made("Policy.Orn", "CreatePolicy", `{"PolicyName": %q, "Description": "full access", "Document": %q}`, policy, everything)
	}
	linked, spare := create(name+"-linked"), create(name+"-spare")
	made("", "CreatePolicyVersion", `{"PolicyOrn": %q, "Document": %q}`, linked, everything)
	has["id.UserGroup"] = made("UserGroup.UserGroupId", "CreateUserGroup", `{"UserGroupName": %q}`, group)
	made("", "CreateUserGroup", `{"UserGroupName": %q}`, empty)
	made("", "AddUserToUserGroup", `{"UserGroupName": %q, "UserName": %q}`, group, user)
	made("", "LinkPolicy", `{"PolicyOrn": %q, "UserName": %q}`, linked, user)
	made("", "LinkManagedPolicyToUserGroup", `{"PolicyOrn": %q, "UserGroupName": %q}`, linked, group)
	made("", "PutUserPolicy", `{"PolicyName": %q, "PolicyDocument": %q, "UserName": %q}`, name+"-own", everything, user)
	made("", "PutUserGroupPolicy", `{"PolicyName": %q, "PolicyDocument": %q, "UserGroupName": %q}`, name+"-own", everything, group)
	made("", "DisableOutscaleLoginPerUsers", `{"UserNames": [%q]}`, user)

	has[".UserGroupName"], has["DeleteUserGroupRequest.UserGroupName"] = group, empty
	has["LinkManagedPolicyToUserGroupRequest.UserGroupName"] = empty
	has["AddUserToUserGroupRequest.UserName"], has["LinkPolicyRequest.UserName"] = other, other
	has["iam.PolicyOrn"], has["DeletePolicyRequest.PolicyOrn"] = linked, spare
	has[".PolicyName"] = name + "-own"
	has["EnableOutscaleLoginPerUsersRequest.UserNames"] = user
	has["DisableOutscaleLoginPerUsersRequest.UserNames"] = other
}

// identityPool is what requests on random days may say of users, groups and policies.
func identityPool(name string, has map[string][]string) map[string][]string {
	own := "orn:ows:idauth::" + has["id.Account"][0] + ":policy/"
	return map[string][]string{
		".UserGroupName":     {name + "-devs", "ops", "web"},
		"iam.UserGroupName":  {"ops", "web"},
		".UserNames":         {name + "-carol", "dave"},
		".PolicyName":        {name + "-own", "readers", "writers"},
		"iam.PolicyName":     {"readers", "writers", "a b"},
		"iam.PolicyDocument": {everything, `{"Statement": []}`},
		"iam.PolicyOrn": {
			has["iam.PolicyOrn"][0], own + "readers", own + "writers", "orn:ows:idauth::000000000000:policy/ReadOnlyAccess", "readers",
		},
		".VersionId": {"v1", "V2", "v3"},
	}
}
