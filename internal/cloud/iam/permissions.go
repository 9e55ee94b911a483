package iam

import (
	"fmt"
	"slices"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Permissions are the policies of a user or of a group.
type Permissions struct {
	PolicyIds       []id.Policy      // The managed policies of the account that are linked, in that order.
	RegionPolicyIds []regionPolicyID `ref:"weak"` // The managed policies of the region that are linked.
	InlinePolicies  []InlinePolicy   // The policies that are its own.
}

// InlinePolicy is a policy that belongs to one user or group.
type InlinePolicy struct {
	Body PolicyDocument // The policy document.
	Name PolicyName     // The name of the policy, unique in the user or group.
}

// What a user or a group has at most. The policies that a decision looks at are
// those of a user and of its groups.
const (
	maxLinkedPolicies = 10
	maxInlinePolicies = 10
)

// linked are the managed policies, those of the account first.
func (p *Permissions) linked(tx *resource.Tx) []*Policy {
	var list []*Policy
	for _, policyID := range p.PolicyIds {
		if linked := Policies.Find(tx, policyID); linked != nil {
			list = append(list, linked)
		}
	}
	for _, policyID := range p.RegionPolicyIds {
		if linked := regionPolicy(policyID); linked != nil {
			list = append(list, linked)
		}
	}
	return list
}

// names are the names of all policies.
func (p *Permissions) names(tx *resource.Tx) []string {
	var names []string
	for _, linked := range p.linked(tx) {
		names = append(names, string(linked.PolicyName))
	}
	for _, inline := range p.InlinePolicies {
		names = append(names, string(inline.Name))
	}
	return names
}

// link links a managed policy, which may be linked already.
func (p *Permissions) link(policy *Policy) error {
	if slices.Contains(p.PolicyIds, policy.PolicyId) || slices.Contains(p.RegionPolicyIds, regionPolicyID(policy.PolicyId)) {
		return nil
	}
	if len(p.PolicyIds)+len(p.RegionPolicyIds) >= maxLinkedPolicies {
		return apierror.TooManyVms.Errorf("A user or a user group has at most %d linked policies.", maxLinkedPolicies)
	}
	if policy.isRegions {
		p.RegionPolicyIds = append(slices.Clone(p.RegionPolicyIds), regionPolicyID(policy.PolicyId))
	} else {
		p.PolicyIds = append(slices.Clone(p.PolicyIds), policy.PolicyId)
	}
	return nil
}

// unlink unlinks a managed policy. It reports whether it was linked.
func (p *Permissions) unlink(policy *Policy) bool {
	before := len(p.PolicyIds) + len(p.RegionPolicyIds)
	p.PolicyIds = without(p.PolicyIds, policy.PolicyId)
	p.RegionPolicyIds = without(p.RegionPolicyIds, regionPolicyID(policy.PolicyId))
	return len(p.PolicyIds)+len(p.RegionPolicyIds) < before
}

// inline finds an inline policy.
func (p *Permissions) inline(name string) (*InlinePolicy, error) {
	i := p.indexOf(name)
	if i < 0 {
		return nil, apierror.ObjectNotFound.NotFound("PolicyName", name)
	}
	found := p.InlinePolicies[i]
	return &found, nil
}

func (p *Permissions) indexOf(name string) int {
	return slices.IndexFunc(p.InlinePolicies, func(have InlinePolicy) bool { return string(have.Name) == name })
}

// put makes an inline policy, or replaces the one of that name.
func (p *Permissions) put(policy InlinePolicy) error {
	list := slices.Clone(p.InlinePolicies)
	switch i := p.indexOf(string(policy.Name)); {
	case i >= 0:
		list[i] = policy
	case len(list) >= maxInlinePolicies:
		return apierror.TooManyVms.Errorf("A user or a user group has at most %d inline policies.", maxInlinePolicies)
	default:
		list = append(list, policy)
	}
	p.InlinePolicies = list
	return nil
}

// remove removes an inline policy.
func (p *Permissions) remove(name string) error {
	found, err := p.inline(name)
	if err == nil {
		p.InlinePolicies = without(p.InlinePolicies, *found)
	}
	return err
}

// Grant is a policy that applies to a user.
type Grant struct {
	Name     string // what it is, for the operator
	Document PolicyDocument
}

// Grants lists the policies that apply to a user: its own and those of its groups,
// managed and inline. A user that is absent has none.
func Grants(tx *resource.Tx, userID id.User) []Grant {
	u := Users.Find(tx, userID)
	if u == nil {
		return nil
	}
	grants := u.Permissions.grants(tx, fmt.Sprintf("the user %s", u.UserName))
	for _, groupID := range u.UserGroupIds {
		if g := UserGroups.Find(tx, groupID); g != nil {
			grants = append(grants, g.Permissions.grants(tx, fmt.Sprintf("the user group %s", g.Name))...)
		}
	}
	return grants
}

// grants lists the policies of a user or of a group.
func (p *Permissions) grants(tx *resource.Tx, holder string) []Grant {
	var grants []Grant
	for _, linked := range p.linked(tx) {
		version := linked.current()
		name := fmt.Sprintf("version %s of %s, linked to %s", version.VersionId, linked.orn(tx), holder)
		grants = append(grants, Grant{name, version.Body})
	}
	for _, inline := range p.InlinePolicies {
		grants = append(grants, Grant{fmt.Sprintf("the inline policy %s of %s", inline.Name, holder), inline.Body})
	}
	return grants
}
