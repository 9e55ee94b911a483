package iam

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Policy is a managed policy: permissions that can be linked to users and user
// groups. Its versions are what it permitted one after the other; the default
// version is the one that applies.
type Policy struct {
	CreationDate           api.OffsetDateTime // When the policy was created (UTC).
	Description            PolicyDescription  // What the policy is for.
	IsLinkable             bool               `json:"-"` // Whether the policy can be linked to a user or a group, as all can.
	LastModificationDate   api.OffsetDateTime // When the policy last changed (UTC).
	Orn                    string             `json:"-"` // The OUTSCALE Resource Name (ORN) of the policy.
	Path                   Path               // Where in the organization the policy is.
	PolicyDefaultVersionId string             // The ID of the version that applies.
	PolicyId               id.Policy          // The ID of the policy.
	PolicyName             PolicyName         // The name of the policy, unique in the account.
	ResourcesCount         int                `json:"-"` // How many users and user groups the policy is linked to.

	Versions    []PolicyVersion `wire:"-"` // In order of creation.
	LastVersion int             `wire:"-"` // The number of the version that was created last.

	isRegions bool // It is the region's own: see [regionPolicies].
}

// Policies are the managed policies of an account. One that is linked stays.
var Policies = &resource.Kind[Policy, id.Policy]{
	Name: "Policy", Plural: "Policies", Unique: []string{"PolicyName"}, Conflict: apierror.AlreadyExists,
}

// maxPolicies bounds the managed policies of an account.
const maxPolicies = 1000

func policyActions() []api.Action {
	r := api.NewResource(Policies, viewPolicy)
	return []api.Action{
		api.Create(r, createPolicy).AsSensitive(),
		api.Do("Policy", readPolicies),
		api.Do("Policy", readPolicy),
		api.Do("Policy", readEntitiesLinkedToPolicy),
		api.Command("Policy", deletePolicy).AsSensitive(),
	}
}

func viewPolicy(tx *resource.Tx, p *Policy) *Policy {
	shown := *p
	shown.IsLinkable, shown.Orn, shown.ResourcesCount = true, p.orn(tx), len(p.holders(tx))
	return &shown
}

func (p *Policy) orn(tx *resource.Tx) string {
	account := tx.Account()
	if p.isRegions {
		account = string(id.Outscale)
	}
	return orn(account, "policy", p.Path, string(p.PolicyName))
}

// PolicyName is the name of a policy: 1 to 128 alphanumeric characters and
// + = , . @ - _.
type PolicyName string

var policyNames = regexp.MustCompile(`^[A-Za-z0-9+=,.@_-]{1,128}$`)

// Check reports a name that no policy can have.
func (n PolicyName) Check() error {
	if !policyNames.MatchString(string(n)) {
		return apierror.InvalidValue.Errorf("'%.200s' is not a name of 1 to 128 alphanumeric characters and + = , . @ - _.", string(n))
	}
	return nil
}

// PolicyDescription says what a policy is for, in up to 1,000 characters.
type PolicyDescription string

const maxPolicyDescription = 1000

// Check reports a description that is too long.
func (d PolicyDescription) Check() error {
	if n := utf8.RuneCountInString(string(d)); n > maxPolicyDescription {
		return apierror.InvalidLength.Errorf("The description has %d characters: the maximum is %d.", n, maxPolicyDescription)
	}
	return nil
}

// policyOf finds the policy of a resource name: one of the account, or of the region.
func policyOf(tx *resource.Tx, name PolicyOrn) (*Policy, error) {
	account, path, last := name.parts()
	switch account {
	case id.Outscale:
		for _, p := range regionPolicies {
			if p.Path == path && string(p.PolicyName) == last {
				return p, nil
			}
		}
	case id.Account(tx.Account()):
		for p := range Policies.Where(tx, "PolicyName", last) {
			if p.Path == path {
				return p, nil
			}
		}
	}
	return nil, apierror.ObjectNotFound.NotFound("PolicyOrn", string(name))
}

// ownPolicy finds a policy of the account, to change it.
func ownPolicy(tx *resource.Tx, name PolicyOrn) (*Policy, error) {
	p, err := policyOf(tx, name)
	if err == nil && p.isRegions {
		return nil, apierror.NotAuthorized.Errorf("The policy %s is the region's own, and cannot be changed.", name)
	}
	return p, err
}

// CreatePolicyRequest asks for a managed policy. Its document becomes the version v1,
// which applies.
type CreatePolicyRequest struct {
	Description PolicyDescription // What the policy is for, in up to 1,000 characters.
	// The policy document: a JSON text of up to 5,120 characters, not counting white space.
	Document   PolicyDocument `api:"required"`
	Path       Path           // Where in the organization the policy is, `/` by default.
	PolicyName PolicyName     `api:"required"` // A name that no other policy of the account has.
}

func createPolicy(tx *resource.Tx, req *CreatePolicyRequest) (*Policy, error) {
	if Policies.Count(tx) >= maxPolicies {
		return nil, apierror.TooManyVms.Errorf("An account has at most %d policies.", maxPolicies)
	}
	now := api.OffsetAt(tx.Now())
	p := &Policy{
		CreationDate: now, LastModificationDate: now, Description: req.Description,
		Path: req.Path.orRoot(), PolicyName: req.PolicyName,
	}
	p.addVersion(req.Document, now, true)
	return p, nil
}

// ReadPolicyRequest asks for a managed policy.
type ReadPolicyRequest struct {
	PolicyOrn PolicyOrn `api:"required"` // The ORN of the policy.
}

// ReadPolicyResponse shows a managed policy.
type ReadPolicyResponse struct {
	Policy *Policy // The policy.
}

func readPolicy(tx *resource.Tx, req *ReadPolicyRequest) (*ReadPolicyResponse, error) {
	p, err := policyOf(tx, req.PolicyOrn)
	if err != nil {
		return nil, err
	}
	return &ReadPolicyResponse{viewPolicy(tx, p)}, nil
}

// ReadPoliciesRequest asks for the managed policies that the account can use: its own
// and, after them, those of the region.
type ReadPoliciesRequest struct {
	Filters *ReadPoliciesFilters // Which policies to list; all of them if absent.
	api.IndexPage
}

// ReadPoliciesFilters selects policies.
type ReadPoliciesFilters struct {
	OnlyLinked bool        // If true, only policies that are linked to a user or a group of the account.
	PathPrefix string      // What the paths of the policies begin with, `/` by default.
	Scope      PolicyScope // Only the policies of the account (`LOCAL`), or only those of the region (`OWS`).
}

func (f *ReadPoliciesFilters) selects(p *Policy) bool {
	if f == nil {
		return true
	}
	scope := ScopeLocal
	if p.isRegions {
		scope = ScopeRegion
	}
	return (f.Scope == "" || f.Scope == scope) && strings.HasPrefix(string(p.Path), f.PathPrefix) &&
		(!f.OnlyLinked || p.ResourcesCount > 0)
}

// PolicyScope says whose a policy is.
type PolicyScope string

// The scopes of policies.
const (
	ScopeLocal  PolicyScope = "LOCAL"
	ScopeRegion PolicyScope = "OWS"
)

// Literals implements [api.Enum].
func (PolicyScope) Literals() []string { return []string{string(ScopeLocal), string(ScopeRegion)} }

// ReadPoliciesResponse shows a page of policies.
type ReadPoliciesResponse struct {
	Policies []*Policy // The policies.
	api.IndexedPage
}

func readPolicies(tx *resource.Tx, req *ReadPoliciesRequest) (*ReadPoliciesResponse, error) {
	var resp ReadPoliciesResponse
	add := func(p *Policy) {
		if shown := viewPolicy(tx, p); req.Filters.selects(shown) {
			resp.Policies = append(resp.Policies, shown)
		}
	}
	for p := range Policies.All(tx) {
		add(p)
	}
	for _, p := range regionPolicies {
		add(p)
	}
	resp.Policies, resp.IndexedPage = pageOf(resp.Policies, req.IndexPage)
	return &resp, nil
}

// DeletePolicyRequest asks to delete a managed policy that is linked to no user and
// no group, and has no version but the default one.
type DeletePolicyRequest struct {
	PolicyOrn PolicyOrn `api:"required"` // The ORN of the policy.
}

func deletePolicy(tx *resource.Tx, req *DeletePolicyRequest) error {
	p, err := ownPolicy(tx, req.PolicyOrn)
	if err != nil {
		return err
	}
	if n := len(p.Versions); n > 1 {
		return apierror.InUse.Errorf("The policy %s has %d versions: delete all but the default one first.", p.PolicyName, n)
	}
	if holders := p.holders(tx); len(holders) > 0 {
		return apierror.InUse.Errorf("The policy %s is linked to %d users and user groups, such as %s: unlink it first.",
			p.PolicyName, len(holders), holders[0].Name)
	}
	return Policies.Delete(tx, p)
}
