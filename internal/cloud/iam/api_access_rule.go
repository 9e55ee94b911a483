package iam

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ApiAccessRule admits calls to the API. A call must satisfy each of the lists
// that the rule has, by one of its values; a call that no rule of the account
// admits is refused.
type ApiAccessRule struct {
	ApiAccessRuleId id.ApiAccessRule // The ID of the rule.
	CaIds           []id.Ca          // The CAs of which one has signed the client's certificate.
	// The common names of which one is in the client's certificate.
	Cns         []string
	Description *string       // A description, if one was given.
	IpRanges    []api.IPRange // The addresses and ranges a call may come from, IPv4 or IPv6.
}

// ApiAccessRules are the API access rules of an account. There is always one.
var ApiAccessRules = &resource.Kind[ApiAccessRule, id.ApiAccessRule]{Name: "ApiAccessRule"}

// maxAccessRules bounds the API access rules of an account: each of its calls
// is held against all of them.
const maxAccessRules = 100

func apiAccessRuleActions() []api.Action {
	r := api.NewResource(ApiAccessRules, api.Plain)
	return []api.Action{
		api.Create(r, createApiAccessRule),
		api.Read[ReadApiAccessRulesRequest](r),
		api.Update(r, updateApiAccessRule),
		api.Delete[DeleteApiAccessRuleRequest](r, keepLastRule),
	}
}

// defaultRule is the rule of a new account. Clients look it up by its
// description, to delete it and so close the account; therefore IPv6, which
// the real service does not have and a loopback may be, is a second range of
// this one rule and not a rule that would stay open.
func defaultRule() *ApiAccessRule {
	return &ApiAccessRule{
		Description: new("Allows all IPv4 domain"),
		IpRanges:    []api.IPRange{"0.0.0.0/0", "::/0"},
	}
}

func (r *ApiAccessRule) check() error {
	switch {
	case len(r.IpRanges) == 0 && len(r.CaIds) == 0:
		return apierror.MissingParameter.Errorf("IpRanges or CaIds is required: a rule without either would admit nobody.")
	case len(r.Cns) > 0 && len(r.CaIds) == 0:
		return apierror.MissingParameter.Errorf("CaIds is required with Cns: a name proves nothing unless a CA has signed it.")
	case slices.Contains(r.CaIds, ""):
		return apierror.InvalidID.Errorf("CaIds has an empty ID in it.")
	case slices.Contains(r.Cns, ""):
		return apierror.InvalidValue.Errorf("Cns has an empty name in it.")
	}
	return nil
}

// CreateApiAccessRuleRequest asks for a rule that admits calls. It needs
// IpRanges or CaIds.
type CreateApiAccessRuleRequest struct {
	CaIds []id.Ca // The CAs of which one has signed the client's certificate.
	// The common names of which one is in the client's certificate. They need CaIds.
	Cns         []string
	Description *string       // A description.
	IpRanges    []api.IPRange // The addresses and ranges a call may come from.
}

func createApiAccessRule(tx *resource.Tx, req *CreateApiAccessRuleRequest) (*ApiAccessRule, error) {
	if ApiAccessRules.Count(tx) >= maxAccessRules {
		return nil, apierror.TooManyRules.Errorf("An account has at most %d API access rules.", maxAccessRules)
	}
	r := &ApiAccessRule{CaIds: req.CaIds, Cns: req.Cns, Description: req.Description, IpRanges: req.IpRanges}
	return r, r.check()
}

// ReadApiAccessRulesRequest asks for the API access rules of the account.
type ReadApiAccessRulesRequest struct {
	Filters *FiltersApiAccessRule // What to select by; all rules by default.
}

// FiltersApiAccessRule selects API access rules.
type FiltersApiAccessRule struct {
	ApiAccessRuleIds []id.ApiAccessRule // The IDs of the rules.
	CaIds            []id.Ca            // The CAs that the rules name.
	Cns              []string           // The common names that the rules name.
	Descriptions     []string           // The descriptions of the rules.
	// The addresses and ranges of the rules, as they were given.
	IpRanges []string
}

// UpdateApiAccessRuleRequest asks to replace a rule by another under the same
// ID: what is not given is gone.
type UpdateApiAccessRuleRequest struct {
	ApiAccessRuleId id.ApiAccessRule `api:"required"` // The ID of the rule.
	CaIds           []id.Ca          // The CAs of which one has signed the client's certificate.
	// The common names of which one is in the client's certificate. They need CaIds.
	Cns         []string
	Description *string       // A description.
	IpRanges    []api.IPRange // The addresses and ranges a call may come from.
}

func updateApiAccessRule(_ *resource.Tx, r *ApiAccessRule, req *UpdateApiAccessRuleRequest) error {
	r.CaIds, r.Cns, r.Description, r.IpRanges = req.CaIds, req.Cns, req.Description, req.IpRanges
	return r.check()
}

// DeleteApiAccessRuleRequest asks to delete a rule that is not the last one of
// the account.
type DeleteApiAccessRuleRequest struct {
	ApiAccessRuleId id.ApiAccessRule `api:"required"` // The ID of the rule.
}

func keepLastRule(tx *resource.Tx, r *ApiAccessRule) error {
	if ApiAccessRules.Count(tx) == 1 {
		return apierror.InUse.Errorf("The ApiAccessRule %s is the last one of the account, which could not be called without it.",
			r.ApiAccessRuleId)
	}
	return nil
}
