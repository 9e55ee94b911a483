package iam

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func inlinePolicyActions() []api.Action {
	return []api.Action{
		api.Command("Policy", putUserPolicy).AsSensitive(),
		api.Do("Policy", readUserPolicy),
		api.Do("Policy", readUserPolicies),
		api.Command("Policy", deleteUserPolicy).AsSensitive(),
		api.Command("Policy", putUserGroupPolicy).AsSensitive(),
		api.Do("Policy", readUserGroupPolicy),
		api.Do("Policy", readUserGroupPolicies),
		api.Command("Policy", deleteUserGroupPolicy).AsSensitive(),
	}
}

// PutUserPolicyRequest asks to create an inline policy of a user, or to replace the
// one of that name. It applies from the next call on.
type PutUserPolicyRequest struct {
	// The policy document: a JSON text of up to 5,120 characters, not counting white space.
	PolicyDocument PolicyDocument `api:"required"`
	PolicyName     PolicyName     `api:"required"` // The name of the policy.
	UserName       string         `api:"required"` // The name of the user.
}

func putUserPolicy(tx *resource.Tx, req *PutUserPolicyRequest) error {
	u, err := userNamed(tx, req.UserName)
	if err != nil {
		return err
	}
	if err := u.Permissions.put(InlinePolicy{req.PolicyDocument, req.PolicyName}); err != nil {
		return err
	}
	return Users.Put(tx, u)
}

// ReadUserPolicyRequest asks for an inline policy of a user.
type ReadUserPolicyRequest struct {
	PolicyName string `api:"required"` // The name of the policy.
	UserName   string `api:"required"` // The name of the user.
}

// ReadUserPolicyResponse shows an inline policy of a user.
type ReadUserPolicyResponse struct {
	PolicyDocument PolicyDocument // The policy document.
	PolicyName     PolicyName     // The name of the policy.
	UserName       UserName       // The name of the user.
}

func readUserPolicy(tx *resource.Tx, req *ReadUserPolicyRequest) (*ReadUserPolicyResponse, error) {
	u, err := userNamed(tx, req.UserName)
	if err != nil {
		return nil, err
	}
	p, err := u.Permissions.inline(req.PolicyName)
	if err != nil {
		return nil, err
	}
	return &ReadUserPolicyResponse{p.Body, p.Name, u.UserName}, nil
}

// ReadUserPoliciesRequest asks for the names of the inline policies of a user.
type ReadUserPoliciesRequest struct {
	UserName string `api:"required"` // The name of the user.
}

// ReadUserPoliciesResponse shows the names of the inline policies of a user.
type ReadUserPoliciesResponse struct {
	PolicyNames []PolicyName // The names of the policies.
}

func readUserPolicies(tx *resource.Tx, req *ReadUserPoliciesRequest) (*ReadUserPoliciesResponse, error) {
	u, err := userNamed(tx, req.UserName)
	if err != nil {
		return nil, err
	}
	var resp ReadUserPoliciesResponse
	for _, p := range u.Permissions.InlinePolicies {
		resp.PolicyNames = append(resp.PolicyNames, p.Name)
	}
	return &resp, nil
}

// DeleteUserPolicyRequest asks to delete an inline policy of a user.
type DeleteUserPolicyRequest struct {
	PolicyName string `api:"required"` // The name of the policy.
	UserName   string `api:"required"` // The name of the user.
}

func deleteUserPolicy(tx *resource.Tx, req *DeleteUserPolicyRequest) error {
	u, err := userNamed(tx, req.UserName)
	if err != nil {
		return err
	}
	if err := u.Permissions.remove(req.PolicyName); err != nil {
		return err
	}
	return Users.Put(tx, u)
}

// PutUserGroupPolicyRequest asks to create an inline policy of a user group, or to
// replace the one of that name. It applies to all users of the group from the next call
// on.
type PutUserGroupPolicyRequest struct {
	// The policy document: a JSON text of up to 5,120 characters, not counting white space.
	PolicyDocument PolicyDocument `api:"required"`
	PolicyName     PolicyName     `api:"required"` // The name of the policy.
	UserGroupName  string         `api:"required"` // The name of the group.
	UserGroupPath  Path           // The path of the group, `/` by default.
}

func putUserGroupPolicy(tx *resource.Tx, req *PutUserGroupPolicyRequest) error {
	g, err := groupAt(tx, req.UserGroupName, req.UserGroupPath)
	if err != nil {
		return err
	}
	if err := g.Permissions.put(InlinePolicy{req.PolicyDocument, req.PolicyName}); err != nil {
		return err
	}
	return UserGroups.Put(tx, g)
}

// ReadUserGroupPolicyRequest asks for an inline policy of a user group.
type ReadUserGroupPolicyRequest struct {
	PolicyName    string `api:"required"` // The name of the policy.
	UserGroupName string `api:"required"` // The name of the group.
	UserGroupPath Path   // The path of the group, `/` by default.
}

// ReadUserGroupPolicyResponse shows an inline policy of a user group.
type ReadUserGroupPolicyResponse struct {
	Policy *InlinePolicy // The policy.
}

func readUserGroupPolicy(tx *resource.Tx, req *ReadUserGroupPolicyRequest) (*ReadUserGroupPolicyResponse, error) {
	g, err := groupAt(tx, req.UserGroupName, req.UserGroupPath)
	if err != nil {
		return nil, err
	}
	p, err := g.Permissions.inline(req.PolicyName)
	return &ReadUserGroupPolicyResponse{p}, err
}

// ReadUserGroupPoliciesRequest asks for the inline policies of a user group.
type ReadUserGroupPoliciesRequest struct {
	UserGroupName string `api:"required"` // The name of the group.
	UserGroupPath Path   // The path of the group, `/` by default.
	api.IndexPage
}

// ReadUserGroupPoliciesResponse shows a page of the inline policies of a user group.
type ReadUserGroupPoliciesResponse struct {
	Policies []InlinePolicy // The policies.
	api.IndexedPage
}

func readUserGroupPolicies(tx *resource.Tx, req *ReadUserGroupPoliciesRequest) (*ReadUserGroupPoliciesResponse, error) {
	g, err := groupAt(tx, req.UserGroupName, req.UserGroupPath)
	if err != nil {
		return nil, err
	}
	var resp ReadUserGroupPoliciesResponse
	resp.Policies, resp.IndexedPage = pageOf(g.Permissions.InlinePolicies, req.IndexPage)
	return &resp, nil
}

// DeleteUserGroupPolicyRequest asks to delete an inline policy of a user group.
type DeleteUserGroupPolicyRequest struct {
	PolicyName    string `api:"required"` // The name of the policy.
	UserGroupName string `api:"required"` // The name of the group.
	UserGroupPath Path   // The path of the group, `/` by default.
}

func deleteUserGroupPolicy(tx *resource.Tx, req *DeleteUserGroupPolicyRequest) error {
	g, err := groupAt(tx, req.UserGroupName, req.UserGroupPath)
	if err != nil {
		return err
	}
	if err := g.Permissions.remove(req.PolicyName); err != nil {
		return err
	}
	return UserGroups.Put(tx, g)
}
