package iam

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// MinimalPolicy is a user or a user group that a managed policy is linked to.
type MinimalPolicy struct {
	Id   string // The ID of the user or group.
	Name string // The name of the user or group.
	Orn  string // The OUTSCALE Resource Name (ORN) of the user or group.

	of EntityType
}

// EntityType says what a policy is linked to.
type EntityType string

// The types of entities. No account has a policy linked to it.
const (
	EntityAccount EntityType = "ACCOUNT"
	EntityUser    EntityType = "USER"
	EntityGroup   EntityType = "GROUP"
)

// Literals implements [api.Enum].
func (EntityType) Literals() []string {
	return []string{string(EntityAccount), string(EntityUser), string(EntityGroup)}
}

// holders are the users and, after them, the user groups of the account that the
// policy is linked to.
func (p *Policy) holders(tx *resource.Tx) []MinimalPolicy {
	users, groups := Users.Of(tx, p.PolicyId), UserGroups.Of(tx, p.PolicyId)
	if p.isRegions {
		users, groups = Users.Of(tx, regionPolicyID(p.PolicyId)), UserGroups.Of(tx, regionPolicyID(p.PolicyId))
	}
	var list []MinimalPolicy
	for u := range users {
		list = append(list, MinimalPolicy{string(u.UserId), string(u.UserName), orn(tx.Account(), "user", u.Path, string(u.UserName)), EntityUser})
	}
	for g := range groups {
		list = append(list, MinimalPolicy{string(g.UserGroupId), string(g.Name), viewUserGroup(tx, g).Orn, EntityGroup})
	}
	return list
}

// PolicyEntities are a page of what a managed policy is linked to.
type PolicyEntities struct {
	Accounts            []MinimalPolicy // The accounts that the policy is linked to: none.
	Groups              []MinimalPolicy // The user groups that the policy is linked to.
	HasMoreItems        bool            // Whether there are items after those in the response.
	ItemsCount          int             // How many users and groups of the types asked for the policy is linked to.
	MaxResultsLimit     api.PageSize    // The maximum number of items that the response could have.
	MaxResultsTruncated bool            // Whether that number left out items.
	Users               []MinimalPolicy // The users that the policy is linked to.
}

// ReadEntitiesLinkedToPolicyRequest asks for the users and user groups that a managed
// policy is linked to.
type ReadEntitiesLinkedToPolicyRequest struct {
	EntitiesType []EntityType // The types of entities to list; all of them if absent.
	PolicyOrn    PolicyOrn    `api:"required"` // The ORN of the policy.
	api.IndexPage
}

// ReadEntitiesLinkedToPolicyResponse shows what a managed policy is linked to.
type ReadEntitiesLinkedToPolicyResponse struct {
	PolicyEntities *PolicyEntities // What the policy is linked to.
}

func readEntitiesLinkedToPolicy(tx *resource.Tx, req *ReadEntitiesLinkedToPolicyRequest) (*ReadEntitiesLinkedToPolicyResponse, error) {
	p, err := policyOf(tx, req.PolicyOrn)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(p.holders(tx), func(e MinimalPolicy) bool {
		return len(req.EntitiesType) > 0 && !slices.Contains(req.EntitiesType, e.of)
	})
	shown, page := pageOf(all, req.IndexPage)
	entities := &PolicyEntities{
		HasMoreItems: page.HasMoreItems, ItemsCount: len(all),
		MaxResultsLimit: page.MaxResultsLimit, MaxResultsTruncated: page.MaxResultsTruncated,
	}
	for _, e := range shown {
		if e.of == EntityUser {
			entities.Users = append(entities.Users, e)
		} else {
			entities.Groups = append(entities.Groups, e)
		}
	}
	return &ReadEntitiesLinkedToPolicyResponse{entities}, nil
}
