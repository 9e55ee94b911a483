package iam

import (
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func policyLinkActions() []api.Action {
	return []api.Action{
		api.Command("Policy", linkPolicy).AsSensitive(),
		api.Command("Policy", unlinkPolicy).AsSensitive(),
		api.Do("Policy", readLinkedPolicies),
		api.Command("Policy", linkManagedPolicyToUserGroup).AsSensitive(),
		api.Command("Policy", unlinkManagedPolicyFromUserGroup).AsSensitive(),
		api.Do("Policy", readManagedPoliciesLinkedToUserGroup),
	}
}

// LinkedPolicy is a managed policy that is linked to a user or a user group.
type LinkedPolicy struct {
	CreationDate         api.OffsetDateTime // When the policy was created (UTC).
	LastModificationDate api.OffsetDateTime // When the policy last changed (UTC).
	Orn                  string             // The OUTSCALE Resource Name (ORN) of the policy.
	PolicyId             id.Policy          // The ID of the policy.
	PolicyName           PolicyName         // The name of the policy.
}

// linkedPolicies shows the linked policies whose paths begin with a text.
func (p *Permissions) linkedPolicies(tx *resource.Tx, pathPrefix string) []LinkedPolicy {
	var list []LinkedPolicy
	for _, linked := range p.linked(tx) {
		if strings.HasPrefix(string(linked.Path), pathPrefix) {
			list = append(list, LinkedPolicy{linked.CreationDate, linked.LastModificationDate, linked.orn(tx), linked.PolicyId, linked.PolicyName})
		}
	}
	return list
}

// LinkPolicyRequest asks to link a managed policy to a user. It applies from the next
// call on. One that is linked stays so.
type LinkPolicyRequest struct {
	PolicyOrn PolicyOrn `api:"required"` // The ORN of the policy.
	UserName  string    `api:"required"` // The name of the user.
}

func linkPolicy(tx *resource.Tx, req *LinkPolicyRequest) error {
	u, p, err := userAndPolicy(tx, req.UserName, req.PolicyOrn)
	if err != nil {
		return err
	}
	if err := u.Permissions.link(p); err != nil {
		return err
	}
	return Users.Put(tx, u)
}

// userAndPolicy finds the two ends of a link.
func userAndPolicy(tx *resource.Tx, userName string, policy PolicyOrn) (*User, *Policy, error) {
	u, err := userNamed(tx, userName)
	if err != nil {
		return nil, nil, err
	}
	p, err := policyOf(tx, policy)
	return u, p, err
}

// UnlinkPolicyRequest asks to unlink a managed policy from a user.
type UnlinkPolicyRequest struct {
	PolicyOrn PolicyOrn `api:"required"` // The ORN of the policy.
	UserName  string    `api:"required"` // The name of the user.
}

func unlinkPolicy(tx *resource.Tx, req *UnlinkPolicyRequest) error {
	u, p, err := userAndPolicy(tx, req.UserName, req.PolicyOrn)
	if err != nil {
		return err
	}
	if !u.Permissions.unlink(p) {
		return apierror.PolicyLinkNotFound.Errorf("The policy %s is not linked to the user %s.", req.PolicyOrn, req.UserName)
	}
	return Users.Put(tx, u)
}

// ReadLinkedPoliciesRequest asks for the managed policies that are linked to a user.
type ReadLinkedPoliciesRequest struct {
	Filters  *ReadLinkedPoliciesFilters // Which policies to list; all of them if absent.
	UserName string                     `api:"required"` // The name of the user.
	api.IndexPage
}

// ReadLinkedPoliciesFilters selects linked policies.
type ReadLinkedPoliciesFilters struct {
	PathPrefix string // What the paths of the policies begin with, `/` by default.
}

// ReadLinkedPoliciesResponse shows a page of linked policies.
type ReadLinkedPoliciesResponse struct {
	Policies []LinkedPolicy // The policies.
	api.IndexedPage
}

func readLinkedPolicies(tx *resource.Tx, req *ReadLinkedPoliciesRequest) (*ReadLinkedPoliciesResponse, error) {
	u, err := userNamed(tx, req.UserName)
	if err != nil {
		return nil, err
	}
	prefix := ""
	if req.Filters != nil {
		prefix = req.Filters.PathPrefix
	}
	var resp ReadLinkedPoliciesResponse
	resp.Policies, resp.IndexedPage = pageOf(u.Permissions.linkedPolicies(tx, prefix), req.IndexPage)
	return &resp, nil
}

// LinkManagedPolicyToUserGroupRequest asks to link a managed policy to a user group. It
// applies to all users of the group from the next call on. One that is linked stays so.
type LinkManagedPolicyToUserGroupRequest struct {
	PolicyOrn     PolicyOrn `api:"required"` // The ORN of the policy.
	UserGroupName string    `api:"required"` // The name of the group.
}

func linkManagedPolicyToUserGroup(tx *resource.Tx, req *LinkManagedPolicyToUserGroupRequest) error {
	g, p, err := groupAndPolicy(tx, req.UserGroupName, req.PolicyOrn)
	if err != nil {
		return err
	}
	if err := g.Permissions.link(p); err != nil {
		return err
	}
	return UserGroups.Put(tx, g)
}

// groupAndPolicy finds the two ends of a link.
func groupAndPolicy(tx *resource.Tx, groupName string, policy PolicyOrn) (*UserGroup, *Policy, error) {
	g, err := groupNamed(tx, groupName)
	if err != nil {
		return nil, nil, err
	}
	p, err := policyOf(tx, policy)
	return g, p, err
}

// UnlinkManagedPolicyFromUserGroupRequest asks to unlink a managed policy from a user
// group.
type UnlinkManagedPolicyFromUserGroupRequest struct {
	PolicyOrn     PolicyOrn `api:"required"` // The ORN of the policy.
	UserGroupName string    `api:"required"` // The name of the group.
}

func unlinkManagedPolicyFromUserGroup(tx *resource.Tx, req *UnlinkManagedPolicyFromUserGroupRequest) error {
	g, p, err := groupAndPolicy(tx, req.UserGroupName, req.PolicyOrn)
	if err != nil {
		return err
	}
	if !g.Permissions.unlink(p) {
		return apierror.PolicyLinkNotFound.Errorf("The policy %s is not linked to the user group %s.", req.PolicyOrn, req.UserGroupName)
	}
	return UserGroups.Put(tx, g)
}

// ReadManagedPoliciesLinkedToUserGroupRequest asks for the managed policies that are
// linked to a user group.
type ReadManagedPoliciesLinkedToUserGroupRequest struct {
	Filters       *FiltersUserGroup // If the group is not among those selected, no policy is listed.
	UserGroupName string            `api:"required"` // The name of the group.
	api.IndexPage
}

// ReadManagedPoliciesLinkedToUserGroupResponse shows a page of linked policies.
type ReadManagedPoliciesLinkedToUserGroupResponse struct {
	Policies []LinkedPolicy // The policies.
	api.IndexedPage
}

func readManagedPoliciesLinkedToUserGroup(
	tx *resource.Tx, req *ReadManagedPoliciesLinkedToUserGroupRequest,
) (*ReadManagedPoliciesLinkedToUserGroupResponse, error) {
	g, err := groupNamed(tx, req.UserGroupName)
	if err != nil {
		return nil, err
	}
	var linked []LinkedPolicy
	if req.Filters.selects(g) {
		linked = g.Permissions.linkedPolicies(tx, "")
	}
	var resp ReadManagedPoliciesLinkedToUserGroupResponse
	resp.Policies, resp.IndexedPage = pageOf(linked, req.IndexPage)
	return &resp, nil
}
