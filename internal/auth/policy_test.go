package auth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/policy"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// document is a policy with one statement.
func document(effect string, actions ...string) iam.PolicyDocument {
	return iam.PolicyDocument(fmt.Sprintf(`{"Statement": [{"Sid": "only", "Effect": %q, "Action": ["%s"], "Resource": ["*"]}]}`,
		effect, strings.Join(actions, `", "`)))
}

// user makes a user with inline policies.
func (l *lab) user(name string, documents ...iam.PolicyDocument) resource.Caller {
	l.t.Helper()
	u := &iam.User{UserName: iam.UserName(name), Path: "/"}
	for i, d := range documents {
		u.Permissions.InlinePolicies = append(u.Permissions.InlinePolicies, iam.InlinePolicy{Body: d, Name: iam.PolicyName(fmt.Sprint("p", i))})
	}
	l.update(func(tx *resource.Tx) error {
		u.UserId = ""
		return iam.Users.Insert(tx, u)
	})
	return resource.Caller{Account: l.account, User: string(u.UserId)}
}

func (l *lab) update(fn func(*resource.Tx) error) {
	l.t.Helper()
	if err := l.DB.Update(l.t.Context(), resource.Caller{Account: l.account}, fn); err != nil {
		l.t.Fatal(err)
	}
}

// allows reports whether the gate allows a call, and why.
func (l *lab) allows(g *Gate, caller resource.Caller, api, action string) (Decision, apierror.Code) {
	l.t.Helper()
	decision, err := g.Allow(l.t.Context(), caller, api, action)
	if err == nil {
		return decision, 0
	}
	return decision, apierror.From(err).Code
}

func TestAllow(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	root := resource.Caller{Account: l.account}
	carol := l.user("carol", document("Allow", "api:Read*", "iam:ListUsers"), document("Deny", "api:ReadVms"))
	dave, all := l.user("dave"), l.user("erin", document("Allow", "*"))
	gone := resource.Caller{Account: l.account, User: "NOBODY"}
	for _, test := range []struct {
		caller      resource.Caller
		api, action string
		code        apierror.Code
		decision    Decision
	}{
		{root, "oapi", "ReadNets", 0, ""},
		{root, "icu", "GetAccessKey", 0, ""},
		{root, "oapi", "ReadSecretAccessKey", 0, ""},
		{resource.Caller{}, "oapi", "ReadRegions", 0, ""},
		{carol, "oapi", "ReadNets", 0, `allowed by Statement[0] (Sid "only") of the inline policy p0 of the user carol`},
		{carol, "oapi", "ReadVms", apierror.NotPermitted, `denied by Statement[0] (Sid "only") of the inline policy p1 of the user carol`},
		{carol, "oapi", "CreateNet", apierror.NotPermitted, "no statement allows it"},
		{carol, "eim", "ListUsers", 0, `allowed by Statement[0] (Sid "only") of the inline policy p0 of the user carol`},
		{carol, "fcu", "ReadPublicIpRanges", apierror.NotPermitted, "no statement allows it"},
		{carol, "oapi", "ReadSecretAccessKey", apierror.NotAuthorized, "denied to all users"},
		{dave, "oapi", "ReadNets", apierror.NotPermitted, "no statement allows it"},
		{all, "oapi", "CreateNet", 0, `allowed by Statement[0] (Sid "only") of the inline policy p0 of the user erin`},
		{all, "fcu", "RunInstances", 0, `allowed by Statement[0] (Sid "only") of the inline policy p0 of the user erin`},
		{all, "lbu", "AddTags", 0, `allowed by Statement[0] (Sid "only") of the inline policy p0 of the user erin`},
		{all, "directlink", "DescribeLocations", 0, `allowed by Statement[0] (Sid "only") of the inline policy p0 of the user erin`},
		{all, "icu", "ListAccessKeys", apierror.NotPermitted, "no statement allows it"},
		{all, "oapi", "ReadSecretAccessKey", apierror.NotAuthorized, "denied to all users"},
		{gone, "oapi", "ReadNets", apierror.NotPermitted, "no statement allows it"},
	} {
		if decision, code := l.allows(l.Gate, test.caller, test.api, test.action); code != test.code || decision != test.decision {
			t.Errorf("%s of %s to %q: %s, code %s, want %s, code %s",
				test.action, test.api, test.caller.User, decision, code, test.decision, test.code)
		}
	}
}

// What changes holds for the next call, on a node that has not seen the change, too.
func TestPoliciesChangeAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	carol := l.user("carol")
	other := l.gateOver(l.DB)
	check := func(what string, want apierror.Code) {
		t.Helper()
		for _, g := range []*Gate{l.Gate, other} {
			if decision, code := l.allows(g, carol, "oapi", "ReadNets"); code != want {
				t.Errorf("%s: %s, code %s", what, decision, code)
			}
		}
	}
	var group iam.UserGroup
	var linked iam.Policy
	change := func(fn func(tx *resource.Tx, u *iam.User) error) {
		t.Helper()
		l.update(func(tx *resource.Tx) error {
			u, err := iam.Users.Get(tx, id.User(carol.User))
			if err != nil {
				return err
			}
			if err := fn(tx, u); err != nil {
				return err
			}
			return iam.Users.Put(tx, u)
		})
	}
	check("at first", apierror.NotPermitted)
	change(func(tx *resource.Tx, u *iam.User) error {
		group = iam.UserGroup{Name: "devs", Path: "/", Permissions: iam.Permissions{
			InlinePolicies: []iam.InlinePolicy{{Body: document("Allow", "api:*"), Name: "p"}},
		}}
		err := iam.UserGroups.Insert(tx, &group)
		u.UserGroupIds = []id.UserGroup{group.UserGroupId}
		return err
	})
	check("in a group that may", 0)
	change(func(tx *resource.Tx, u *iam.User) error {
		linked = iam.Policy{PolicyName: "p", Path: "/", PolicyDefaultVersionId: "v1", Versions: []iam.PolicyVersion{
			{Body: document("Deny", "api:ReadNets"), VersionId: "v1"}, {Body: document("Deny", "api:ReadVms"), VersionId: "v2"},
		}}
		err := iam.Policies.Insert(tx, &linked)
		u.Permissions.PolicyIds = []id.Policy{linked.PolicyId}
		return err
	})
	check("with a policy that denies", apierror.NotPermitted)
	change(func(tx *resource.Tx, _ *iam.User) error {
		p, err := iam.Policies.Get(tx, linked.PolicyId)
		if err != nil {
			return err
		}
		p.PolicyDefaultVersionId = "v2"
		return iam.Policies.Put(tx, p)
	})
	check("with a version that denies something else", 0)
	change(func(_ *resource.Tx, u *iam.User) error { u.UserGroupIds = nil; return nil })
	check("out of the group", apierror.NotPermitted)
}

// A document is read once, whatever else changes in the account.
func TestDocumentsAreReadOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	carol := l.user("carol", document("Allow", "api:Read*"))
	read := func() *policy.Document {
		t.Helper()
		policies, err := l.policiesOf(t.Context(), carol)
		if err != nil || len(policies) != 1 {
			t.Fatalf("%v, %v", policies, err)
		}
		return policies[0].Document
	}
	first := read()
	l.user("dave")
	if read() != first {
		t.Error("the document was read again")
	}
	l.update(func(tx *resource.Tx) error {
		u, err := iam.Users.Get(tx, id.User(carol.User))
		if err != nil {
			return err
		}
		u.Permissions.InlinePolicies = []iam.InlinePolicy{{Body: document("Allow", "api:*"), Name: "p0"}}
		return iam.Users.Put(tx, u)
	})
	if read() == first {
		t.Error("the new document was not read")
	}
}
