package iam

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// PolicyVersion is a version of a managed policy. It does not change.
type PolicyVersion struct {
	Body           PolicyDocument     // The policy document.
	CreationDate   api.OffsetDateTime // When the version was created (UTC).
	DefaultVersion bool               `json:"-"` // Whether the version is the one that applies.
	VersionId      string             // The ID of the version, such as `v1`.
}

// maxVersions bounds the versions of a policy.
const maxVersions = 5

func policyVersionActions() []api.Action {
	return []api.Action{
		api.Do("Policy", createPolicyVersion).AsSensitive(),
		api.Do("Policy", readPolicyVersions),
		api.Do("Policy", readPolicyVersion),
		api.Command("Policy", setDefaultPolicyVersion).AsSensitive(),
		api.Command("Policy", deletePolicyVersion).AsSensitive(),
	}
}

// addVersion adds a version and returns it as it is shown.
func (p *Policy) addVersion(body PolicyDocument, now api.OffsetDateTime, asDefault bool) *PolicyVersion {
	p.LastVersion++
	v := PolicyVersion{Body: body, CreationDate: now, VersionId: "v" + strconv.Itoa(p.LastVersion)}
	p.Versions = append(slices.Clone(p.Versions), v)
	if asDefault {
		p.PolicyDefaultVersionId = v.VersionId
	}
	return p.shownVersion(v)
}

func (p *Policy) shownVersion(v PolicyVersion) *PolicyVersion {
	v.DefaultVersion = v.VersionId == p.PolicyDefaultVersionId
	return &v
}

// version finds a version by its ID, in upper or lower case.
func (p *Policy) version(versionID string) (*PolicyVersion, error) {
	for _, v := range p.Versions {
		if strings.EqualFold(v.VersionId, versionID) {
			return p.shownVersion(v), nil
		}
	}
	return nil, apierror.ObjectNotFound.NotFound("VersionId", versionID)
}

// current is the version that applies.
func (p *Policy) current() *PolicyVersion {
	i := slices.IndexFunc(p.Versions, func(v PolicyVersion) bool { return v.VersionId == p.PolicyDefaultVersionId })
	return &p.Versions[i]
}

// CreatePolicyVersionRequest asks for a version of a managed policy, which can have
// five.
type CreatePolicyVersionRequest struct {
	// The policy document: a JSON text of up to 5,120 characters, not counting white space.
	Document     PolicyDocument `api:"required"`
	PolicyOrn    PolicyOrn      `api:"required"` // The ORN of the policy.
	SetAsDefault bool           // Whether the version applies from now on; not by default.
}

// CreatePolicyVersionResponse shows the version.
type CreatePolicyVersionResponse struct {
	PolicyVersion *PolicyVersion // The version.
}

func createPolicyVersion(tx *resource.Tx, req *CreatePolicyVersionRequest) (*CreatePolicyVersionResponse, error) {
	p, err := ownPolicy(tx, req.PolicyOrn)
	if err != nil {
		return nil, err
	}
	if len(p.Versions) >= maxVersions {
		return nil, apierror.TooManyVms.Errorf("The policy %s has %d versions, the maximum: delete one first.", p.PolicyName, maxVersions)
	}
	p.LastModificationDate = api.OffsetAt(tx.Now())
	v := p.addVersion(req.Document, p.LastModificationDate, req.SetAsDefault)
	return &CreatePolicyVersionResponse{v}, Policies.Put(tx, p)
}

// ReadPolicyVersionRequest asks for a version of a managed policy.
type ReadPolicyVersionRequest struct {
	PolicyOrn PolicyOrn `api:"required"` // The ORN of the policy.
	VersionId string    `api:"required"` // The ID of the version, in upper or lower case.
}

// ReadPolicyVersionResponse shows a version of a managed policy.
type ReadPolicyVersionResponse struct {
	PolicyVersion *PolicyVersion // The version.
}

func readPolicyVersion(tx *resource.Tx, req *ReadPolicyVersionRequest) (*ReadPolicyVersionResponse, error) {
	p, err := policyOf(tx, req.PolicyOrn)
	if err != nil {
		return nil, err
	}
	v, err := p.version(req.VersionId)
	return &ReadPolicyVersionResponse{v}, err
}

// ReadPolicyVersionsRequest asks for the versions of a managed policy.
type ReadPolicyVersionsRequest struct {
	PolicyOrn PolicyOrn `api:"required"` // The ORN of the policy.
	api.IndexPage
}

// ReadPolicyVersionsResponse shows a page of the versions of a managed policy.
type ReadPolicyVersionsResponse struct {
	PolicyVersions  []*PolicyVersion // The versions, in order of creation.
	HasMoreItems    bool             // Whether there are items after those in the response.
	MaxResultsLimit api.PageSize     // The maximum number of items that the response could have.
}

func readPolicyVersions(tx *resource.Tx, req *ReadPolicyVersionsRequest) (*ReadPolicyVersionsResponse, error) {
	p, err := policyOf(tx, req.PolicyOrn)
	if err != nil {
		return nil, err
	}
	versions, page := pageOf(p.Versions, req.IndexPage)
	resp := &ReadPolicyVersionsResponse{HasMoreItems: page.HasMoreItems, MaxResultsLimit: page.MaxResultsLimit}
	for _, v := range versions {
		resp.PolicyVersions = append(resp.PolicyVersions, p.shownVersion(v))
	}
	return resp, nil
}

// SetDefaultPolicyVersionRequest asks to let another version of a managed policy
// apply. It does so at once, through all users and groups that have the policy.
type SetDefaultPolicyVersionRequest struct {
	PolicyOrn PolicyOrn `api:"required"` // The ORN of the policy.
	VersionId string    `api:"required"` // The ID of the version, in upper or lower case.
}

func setDefaultPolicyVersion(tx *resource.Tx, req *SetDefaultPolicyVersionRequest) error {
	p, err := ownPolicy(tx, req.PolicyOrn)
	if err != nil {
		return err
	}
	v, err := p.version(req.VersionId)
	if err != nil {
		return err
	}
	p.PolicyDefaultVersionId, p.LastModificationDate = v.VersionId, api.OffsetAt(tx.Now())
	return Policies.Put(tx, p)
}

// DeletePolicyVersionRequest asks to delete a version of a managed policy that is
// not the default one.
type DeletePolicyVersionRequest struct {
	PolicyOrn PolicyOrn `api:"required"` // The ORN of the policy.
	VersionId string    `api:"required"` // The ID of the version, in upper or lower case.
}

func deletePolicyVersion(tx *resource.Tx, req *DeletePolicyVersionRequest) error {
	p, err := ownPolicy(tx, req.PolicyOrn)
	if err != nil {
		return err
	}
	v, err := p.version(req.VersionId)
	if err != nil {
		return err
	}
	if v.DefaultVersion {
		return apierror.InUse.Errorf("%s is the default version of the policy %s: set another one first.", v.VersionId, p.PolicyName)
	}
	p.Versions = slices.DeleteFunc(slices.Clone(p.Versions), func(have PolicyVersion) bool { return have.VersionId == v.VersionId })
	p.LastModificationDate = api.OffsetAt(tx.Now())
	return Policies.Put(tx, p)
}
