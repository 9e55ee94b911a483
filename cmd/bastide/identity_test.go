package main

import (
	"path/filepath"
	"strings"
	"testing"

	oscv3 "github.com/outscale/osc-sdk-go/v3/pkg/osc"
)

// TestSDKv3Identity lets the Go SDK give a user rights in all the ways there are, and
// the user make use of them.
func TestSDKv3Identity(t *testing.T) {
	t.Parallel()
	const (
		look = `{"Statement": [{"Effect": "Allow", "Action": ["api:Read*"], "Resource": ["*"]}]}`
		edit = `{"Statement": [{"Effect": "Allow", "Action": ["api:CreateNet"], "Resource": ["*"]}]}`
		deny = `{"Statement": [{"Effect": "Deny", "Action": ["api:ReadVms"], "Resource": ["*"]}]}`
	)
	p := start(t, filepath.Join(t.TempDir(), "data"))
	ctx := t.Context()
	root := sdk(t, p, p.root.AccessKey, p.root.SecretKey)
	name, group, path := "carol", "devs", "/sales/"
	user, err := root.CreateUser(ctx, oscv3.CreateUserRequest{UserName: name, Path: &path})
	must(t, err)
	key, err := root.CreateAccessKey(ctx, oscv3.CreateAccessKeyRequest{UserName: &name})
	must(t, err)
	carol := sdk(t, p, *key.AccessKey.AccessKeyId, *key.AccessKey.SecretKey)

	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "You are not authorized to perform this action.") {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	_, err = carol.ReadNets(ctx, oscv3.ReadNetsRequest{})
	refused("without a policy", err)

	_, err = root.CreateUserGroup(ctx, oscv3.CreateUserGroupRequest{UserGroupName: group, Path: &path})
	must(t, err)
	_, err = root.AddUserToUserGroup(ctx, oscv3.AddUserToUserGroupRequest{
		UserGroupName: group, UserGroupPath: &path, UserName: name, UserPath: &path,
	})
	must(t, err)
	_, err = root.AddUserToUserGroup(ctx, oscv3.AddUserToUserGroupRequest{UserGroupName: group, UserName: name})
	if !oscv3.IsNotFound(err) {
		t.Errorf("a group under another path: %v, want what the SDK takes for not found", err)
	}
	members, err := root.ReadUserGroup(ctx, oscv3.ReadUserGroupRequest{UserGroupName: group, Path: &path})
	must(t, err)
	if len(*members.Users) != 1 || *(*members.Users)[0].UserId != *user.User.UserId || members.UserGroup.CreationDate == nil {
		t.Errorf("the group is %+v", members)
	}

	made, err := root.CreatePolicy(ctx, oscv3.CreatePolicyRequest{PolicyName: "p", Document: look})
	must(t, err)
	orn, yes := *made.Policy.Orn, true
	_, err = root.LinkManagedPolicyToUserGroup(ctx, oscv3.LinkManagedPolicyToUserGroupRequest{PolicyOrn: orn, UserGroupName: group})
	must(t, err)
	_, err = carol.ReadNets(ctx, oscv3.ReadNetsRequest{})
	must(t, err)
	_, err = carol.CreateNet(ctx, oscv3.CreateNetRequest{IpRange: "10.0.0.0/16"})
	refused("to create with a policy for reading", err)

	version, err := root.CreatePolicyVersion(ctx, oscv3.CreatePolicyVersionRequest{PolicyOrn: orn, Document: edit, SetAsDefault: &yes})
	must(t, err)
	if *version.PolicyVersion.VersionId != "v2" || !*version.PolicyVersion.DefaultVersion || *version.PolicyVersion.Body != edit {
		t.Errorf("the new version is %+v", version.PolicyVersion)
	}
	_, err = carol.CreateNet(ctx, oscv3.CreateNetRequest{IpRange: "10.0.0.0/16"})
	must(t, err)
	_, err = carol.ReadNets(ctx, oscv3.ReadNetsRequest{})
	refused("to read with the new version", err)
	_, err = root.SetDefaultPolicyVersion(ctx, oscv3.SetDefaultPolicyVersionRequest{PolicyOrn: orn, VersionId: "V1"})
	must(t, err)
	_, err = carol.ReadVms(ctx, oscv3.ReadVmsRequest{})
	must(t, err)
	_, err = root.PutUserPolicy(ctx, oscv3.PutUserPolicyRequest{UserName: name, PolicyName: "own", PolicyDocument: deny})
	must(t, err)
	_, err = carol.ReadVms(ctx, oscv3.ReadVmsRequest{})
	refused("to read what is denied", err)

	entities, err := root.ReadEntitiesLinkedToPolicy(ctx, oscv3.ReadEntitiesLinkedToPolicyRequest{PolicyOrn: orn})
	must(t, err)
	if e := entities.PolicyEntities; len(*e.Groups) != 1 || len(*e.Users) != 0 || *e.ItemsCount != 1 {
		t.Errorf("the policy is linked to %+v", e)
	}
	regions := oscv3.ReadPoliciesFiltersScopeOWS
	listed, err := carol.ReadPolicies(ctx, oscv3.ReadPoliciesRequest{Filters: &oscv3.ReadPoliciesFilters{Scope: &regions}})
	must(t, err)
	if len(*listed.Policies) != 3 {
		t.Errorf("the region's policies are %+v", *listed.Policies)
	}
	_, err = root.DeletePolicy(ctx, oscv3.DeletePolicyRequest{PolicyOrn: orn})
	if !oscv3.IsConflict(err) {
		t.Errorf("deleting a policy that is linked: %v, want what the SDK takes for a conflict", err)
	}
	_, err = root.DeleteUserGroup(ctx, oscv3.DeleteUserGroupRequest{UserGroupName: group, Path: &path, Force: &yes})
	must(t, err)
	_, err = carol.ReadNets(ctx, oscv3.ReadNetsRequest{})
	refused("after the group is gone", err)
	p.stop(t)
}
