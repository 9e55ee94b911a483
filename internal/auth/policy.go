package auth

import (
	"context"
	"fmt"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/policy"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// services are the services of policies, by the names of the APIs in the API log. The
// actions of an API that is not among them, such as icu, are the root account's.
var services = map[string]string{
	"oapi": "api", "fcu": "ec2", "lbu": "elasticloadbalancing", "eim": "iam", "directlink": "directconnect",
}

// rootOnly are the actions that no policy gives to a user, each with the reason. All
// others are a user's if a policy allows them, and none is a user's without one.
var rootOnly = map[policy.Action]string{
	{Service: "api", Name: "ReadSecretAccessKey"}: "Only the root account can read the secrets of its access keys.",
}

// Decision says why a caller may call an action, or may not, in the words of the
// operator. It is empty for the root account and for strangers, about whom no policy
// decides.
type Decision string

// Allow decides whether a caller may call an action of an API, under the name that it
// has there. The root account may call all. A user may call what its policies allow,
// as they are since the call began. Strangers come so far with actions that are open
// to all.
func (g *Gate) Allow(ctx context.Context, caller resource.Caller, api, action string) (Decision, error) {
	if caller.User == "" {
		return "", nil
	}
	asked := policy.Action{Service: services[api], Name: action}
	if reason := rootOnly[asked]; reason != "" {
		return "denied to all users", apierror.NotAuthorized.Errorf("%s", reason)
	}
	policies, err := g.policiesOf(ctx, caller)
	if err != nil {
		return "", fmt.Errorf("reading the policies of the user %s: %w", caller.User, err)
	}
	decision := policy.Decide(policies, asked)
	if decision.Effect != policy.Allowed {
		err = apierror.NotPermitted.Errorf("You are not authorized to perform this action.")
	}
	return Decision(decision.String()), err
}

// powers are the policies that apply to a user, at a version of the account.
type powers struct {
	version  uint64
	policies []policy.Policy
}

// userKey names a user.
type userKey struct{ account, user string }

// policiesOf are the policies that apply to a user. What was gathered is good until the
// account changes.
func (g *Gate) policiesOf(ctx context.Context, caller resource.Caller) (policies []policy.Policy, err error) {
	key := userKey{caller.Account, caller.User}
	err = g.DB.View(ctx, caller, func(tx *resource.Tx) error {
		g.mu.Lock()
		known, ok := g.powers.get(key)
		g.mu.Unlock()
		if ok && known.version == tx.Version() {
			policies = known.policies
			return nil
		}
		policies = nil
		for _, grant := range iam.Grants(tx, id.User(caller.User)) {
			document, err := g.document(grant.Document)
			if err != nil {
				return fmt.Errorf("reading %s: %w", grant.Name, err)
			}
			policies = append(policies, policy.Policy{Name: grant.Name, Document: document})
		}
		g.mu.Lock()
		*g.powers.at(key) = powers{tx.Version(), policies}
		g.mu.Unlock()
		return nil
	})
	return policies, err
}

// document reads a policy document. A text that was read before, in whatever version
// of an account, is not read again.
func (g *Gate) document(text iam.PolicyDocument) (*policy.Document, error) {
	g.mu.Lock()
	known, ok := g.documents.get(text)
	g.mu.Unlock()
	if ok {
		return known, nil
	}
	document, err := policy.Parse(string(text))
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	*g.documents.at(text) = document
	g.mu.Unlock()
	return document, nil
}
