package iam

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Policies are not built yet: there are none, and none can be made. They can be
// read, because tools ask for the policies of a user before they delete it.
func policyActions() []api.Action {
	return []api.Action{api.Do("Policy", readPolicies), api.Do("Policy", readLinkedPolicies)}
}

// Policy is a set of permissions.
type Policy struct {
	CreationDate           api.DateTime // When the policy was created (UTC).
	Description            string       // What the policy is for.
	IsLinkable             bool         // Whether the policy can be linked to a user or a group.
	LastModificationDate   api.DateTime // When the policy last changed (UTC).
	Orn                    string       // The resource name of the policy.
	Path                   Path         // Where in the organization the policy is.
	PolicyDefaultVersionId string       // The ID of the version that applies.
	PolicyId               string       // The ID of the policy.
	PolicyName             string       // The name of the policy.
	ResourcesCount         int          // How many users and groups the policy is linked to.
}

// ReadPoliciesRequest asks for policies, of which there are none yet.
type ReadPoliciesRequest struct {
	Filters *ReadPoliciesFilters // One or more filters.
	api.IndexPage
}

// ReadPoliciesFilters selects policies.
type ReadPoliciesFilters struct {
	OnlyLinked bool   // If true, only policies that are linked to a user or a group.
	PathPrefix string // What the paths of the policies begin with, `/` by default.
	// Only policies of the account (`LOCAL`), or only those of OUTSCALE (`OWS`).
	Scope PolicyScope
}

// PolicyScope says whose a policy is.
type PolicyScope string

// Literals implements [api.Enum].
func (PolicyScope) Literals() []string { return []string{"LOCAL", "OWS"} }

// ReadPoliciesResponse shows a page of policies.
type ReadPoliciesResponse struct {
	Policies []Policy // The policies.
	api.IndexedPage
}

func readPolicies(_ *resource.Tx, req *ReadPoliciesRequest) (*ReadPoliciesResponse, error) {
	return &ReadPoliciesResponse{IndexedPage: api.IndexedPage{MaxResultsLimit: req.ResultsPerPage}}, nil
}

// LinkedPolicy is a policy that is linked to a user.
type LinkedPolicy struct {
	CreationDate         api.DateTime // When the policy was created (UTC).
	LastModificationDate api.DateTime // When the policy last changed (UTC).
	Orn                  string       // The resource name of the policy.
	PolicyId             string       // The ID of the policy.
	PolicyName           string       // The name of the policy.
}

// ReadLinkedPoliciesRequest asks for the policies that are linked to a user, of
// which there are none yet.
type ReadLinkedPoliciesRequest struct {
	Filters  *ReadLinkedPoliciesFilters // One or more filters.
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
	if _, err := userNamed(tx, req.UserName); err != nil {
		return nil, err
	}
	return &ReadLinkedPoliciesResponse{IndexedPage: api.IndexedPage{MaxResultsLimit: req.ResultsPerPage}}, nil
}
