// Package iam keeps what the region knows of its callers: accounts, their EIM
// users, user groups, policies and access keys, and what an account demands of its
// calls: API access rules, client certificate authorities and the API access policy.
//
// It promises that the credentials of the region are told apart (an access key
// or a login leads to one account), that no access key outlives what its
// account's policy allows, and that an account always has an API access rule.
// Deciding about a call by all this is left to the gate.
package iam

import (
	"context"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// LoginCheck reports, as a fault, that a login and a password that a caller asks
// about do not belong together. The gate gives it: it counts the failures, in
// transactions of its own.
type LoginCheck func(ctx context.Context, caller resource.Caller, login, password string) error

// Kinds are the kinds of this package.
func Kinds() []resource.Any {
	return []resource.Any{
		Accounts, AccessKeys, ApiAccessRules, Cas, ServerCertificates, Users, UserGroups, Policies, directory,
	}
}

// Actions are the actions of this package.
func Actions(check LoginCheck) []api.Action {
	return slices.Concat(
		accountActions(check),
		userActions(),
		userGroupActions(),
		policyActions(),
		policyVersionActions(),
		policyLinkActions(),
		inlinePolicyActions(),
		outscaleLoginActions(),
		serverCertificateActions(),
		credentials(accessKeyActions()),
		credentials(apiAccessPolicyActions()),
		credentials(apiAccessRuleActions()),
		credentials(caActions()),
	)
}

// credentials are actions by which an account without a working access key gets
// one: a login and a password can replace a signature, but a trusted session
// does not replace the client certificate.
func credentials(actions []api.Action) []api.Action {
	for i, a := range actions {
		actions[i] = a.WithAuth(api.SignedOrPassword).AsSensitive()
	}
	return actions
}
