package iam

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// fullAccess is a document that allows everything.
const fullAccess = `{"Statement": [{"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}]}`

// createPolicy makes a policy and returns its ORN.
func (r *region) createPolicy(name string) string {
	r.t.Helper()
	return r.call("CreatePolicy", `{"PolicyName": "`+name+`", "Document": `+quote(fullAccess)+`}`).get("Policy.Orn")
}

func TestPolicyDocuments(t *testing.T) {
	t.Parallel()
	r := setup(t)
	// pad is a document of so many characters, white space apart, in a Sid.
	pad := func(characters int) string {
		const empty = `{"Statement":[{"Sid":"","Effect":"Allow","Action":["*"],"Resource":["*"]}]}`
		return strings.Replace(empty, `"Sid":"`, `"Sid":"`+strings.Repeat("é", characters-len(empty)), 1)
	}
	create := func(document string) string { return `{"PolicyName": "p", "Document": ` + quote(document) + `}` }
	for name, c := range map[string]struct {
		document string
		code     apierror.Code
		words    []string
	}{
		"empty":           {"", apierror.InvalidValue, []string{"ends too early"}},
		"no JSON":         {"hello", apierror.InvalidValue, []string{"Document: "}},
		"unknown element": {`{"Statement": [{"Why": 1}]}`, apierror.InvalidValue, []string{"Statement[0].Why"}},
		"too long":        {pad(5121), apierror.InvalidLength, []string{"Document: ", "5121", "5120"}},
		"too spacious":    {fullAccess + strings.Repeat(" ", 4*5120), apierror.InvalidLength, []string{"Document: ", "20480"}},
	} {
		t.Run(name, func(t *testing.T) { r.refused("CreatePolicy", create(c.document), c.code, c.words...) })
	}
	longest := pad(5120) + strings.Repeat(" \n", (4*5120-5120)/2)
	orn := r.call("CreatePolicy", create(longest)).get("Policy.Orn")
	r.call("ReadPolicyVersion", `{"PolicyOrn": "`+orn+`", "VersionId": "v1"}`).is("PolicyVersion.Body", quote(longest))
	r.refused("CreatePolicyVersion", `{"PolicyOrn": "`+orn+`", "Document": "{}"}`, apierror.InvalidValue, "Document", "Statement is required")
	r.refused("PutUserPolicy", `{"UserName": "u", "PolicyName": "p", "PolicyDocument": "{}"}`, apierror.InvalidValue, "PolicyDocument")
	r.refused("PutUserGroupPolicy", `{"UserGroupName": "g", "PolicyName": "p", "PolicyDocument": "{}"}`, apierror.InvalidValue, "PolicyDocument")
}

func TestPolicyForms(t *testing.T) {
	t.Parallel()
	r := setup(t)
	create := func(members string) string { return `{"Document": ` + quote(fullAccess) + `, ` + members + `}` }
	r.refused("CreatePolicy", create(`"PolicyName": ""`), apierror.InvalidValue, "PolicyName")
	r.refused("CreatePolicy", create(`"PolicyName": "a b"`), apierror.InvalidValue, "PolicyName")
	r.refused("CreatePolicy", create(`"PolicyName": "`+strings.Repeat("a", 129)+`"`), apierror.InvalidValue, "PolicyName")
	r.refused("CreatePolicy", create(`"PolicyName": "p", "Path": "x"`), apierror.InvalidValue, "Path")
	r.refused("CreatePolicy", create(`"PolicyName": "p", "Description": "`+strings.Repeat("é", 1001)+`"`), apierror.InvalidLength, "Description", "1001")
	r.call("CreatePolicy", create(`"PolicyName": "`+strings.Repeat("a", 128)+`", "Description": "`+strings.Repeat("é", 1000)+`"`)).is(
		"Policy.IsLinkable", "true", "Policy.ResourcesCount", "0", "Policy.Path", `"/"`, "Policy.PolicyDefaultVersionId", `"v1"`)
	for _, orn := range []string{
		"", "p", "orn:ows:idauth::123:policy/p", "orn:ows:ec2::123456789012:policy/p", "arn:ows:iam::123456789012:policy/p", "orn:ows:iam::123456789012:policy/",
	} {
		r.refused("ReadPolicy", `{"PolicyOrn": `+quote(orn)+`}`, apierror.InvalidValue, "PolicyOrn")
	}
}

// A policy is found by its ORN, by either name of the service, and by nothing else.
func TestPolicyOrns(t *testing.T) {
	t.Parallel()
	r := setup(t)
	account := string(r.account.AccountId)
	r.call("CreatePolicy", `{"PolicyName": "p", "Path": "/a/b/", "Document": `+quote(fullAccess)+`}`).is("Policy.Orn", `"orn:ows:idauth::`+account+`:policy/a/b/p"`)
	r.call("ReadPolicy", `{"PolicyOrn": "orn:ows:iam::`+account+`:policy/a/b/p"}`).is("Policy.PolicyName", `"p"`)
	other := r.newAccount(NewAccount{Email: "other@example.com"})
	for _, rest := range []string{
		":" + account + ":policy/p", ":" + account + ":policy/a/p", ":" + account + ":policy/a/b/q", ":" + account + ":policy/a/b/",
		"eu-west-2:" + account + ":policy/a/b/p", ":" + string(other.AccountId) + ":policy/a/b/p", ":000000000000:policy/a/b/p",
	} {
		r.refused("ReadPolicy", `{"PolicyOrn": "orn:ows:idauth:`+rest+`"}`, apierror.ObjectNotFound, "PolicyOrn", "doesn't exist")
	}
	r.as(other, "").refused("ReadPolicy", `{"PolicyOrn": "orn:ows:idauth::`+account+`:policy/a/b/p"}`, apierror.ObjectNotFound)
}

func TestPolicyBounds(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.call("CreateUser", `{"UserName": "carol"}`)
	r.call("CreateUserGroup", `{"UserGroupName": "devs"}`)
	r.update(func(tx *resource.Tx) error {
		for i := range maxPolicies {
			p := &Policy{PolicyName: PolicyName(fmt.Sprint("p", i)), Path: "/"}
			p.addVersion(fullAccess, 0, true)
			if err := Policies.Insert(tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	r.refused("CreatePolicy", `{"PolicyName": "one-more", "Document": `+quote(fullAccess)+`}`, apierror.TooManyVms, "1000")
	orn := func(i int) string { return fmt.Sprintf("orn:ows:idauth::%s:policy/p%d", r.account.AccountId, i) }
	regions := "orn:ows:idauth::000000000000:policy/ReadOnlyAccess"
	for _, link := range []string{`LinkPolicy {"UserName": "carol", "PolicyOrn": `, `LinkManagedPolicyToUserGroup {"UserGroupName": "devs", "PolicyOrn": `} {
		action, body, _ := strings.Cut(link, " ")
		for i := range maxLinkedPolicies - 1 {
			r.call(action, body+quote(orn(i))+"}")
		}
		r.call(action, body+quote(regions)+"}")
		r.call(action, body+quote(regions)+"}")
		r.refused(action, body+quote(orn(20))+"}", apierror.TooManyVms, "10")
	}
	for _, put := range []string{`PutUserPolicy {"UserName": "carol"`, `PutUserGroupPolicy {"UserGroupName": "devs"`} {
		action, body, _ := strings.Cut(put, " ")
		for i := range maxInlinePolicies {
			r.call(action, fmt.Sprintf(`%s, "PolicyName": "i%d", "PolicyDocument": %s}`, body, i, quote(fullAccess)))
		}
		r.call(action, fmt.Sprintf(`%s, "PolicyName": "i3", "PolicyDocument": %s}`, body, quote(fullAccess+" ")))
		r.refused(action, fmt.Sprintf(`%s, "PolicyName": "i10", "PolicyDocument": %s}`, body, quote(fullAccess)), apierror.TooManyVms, "10")
	}
	r.call("AddUserToUserGroup", `{"UserName": "carol", "UserGroupName": "devs"}`)
	carol := id.User(r.call("ReadUsers", `{}`).get("Users.0.UserId"))
	r.view(func(tx *resource.Tx) {
		if got := len(Grants(tx, carol)); got != 2*(maxLinkedPolicies+maxInlinePolicies) {
			t.Errorf("%d policies apply to carol", got)
		}
	})
}

func TestUserBound(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.update(func(tx *resource.Tx) error {
		for i := range maxUsers {
			if err := Users.Insert(tx, &User{UserName: UserName(fmt.Sprint("u", i)), Path: "/"}); err != nil {
				return err
			}
		}
		return nil
	})
	r.refused("CreateUser", `{"UserName": "one-more"}`, apierror.TooManyVms, "5000")
}

// Version numbers are not used again.
func TestPolicyVersionNumbers(t *testing.T) {
	t.Parallel()
	r := setup(t)
	orn := r.createPolicy("p")
	create := `{"PolicyOrn": "` + orn + `", "Document": ` + quote(fullAccess) + `}`
	for _, want := range []string{`"v2"`, `"v3"`, `"v4"`, `"v5"`} {
		r.call("CreatePolicyVersion", create).is("PolicyVersion.VersionId", want, "PolicyVersion.DefaultVersion", "false")
	}
	r.refused("CreatePolicyVersion", create, apierror.TooManyVms, "5")
	r.call("DeletePolicyVersion", `{"PolicyOrn": "`+orn+`", "VersionId": "V5"}`)
	r.call("CreatePolicyVersion", create).is("PolicyVersion.VersionId", `"v6"`)
	for _, absent := range []string{"v5", "v7", "6", "", "v06"} {
		r.refused("ReadPolicyVersion", `{"PolicyOrn": "`+orn+`", "VersionId": "`+absent+`"}`, apierror.ObjectNotFound, "VersionId")
		r.refused("SetDefaultPolicyVersion", `{"PolicyOrn": "`+orn+`", "VersionId": "`+absent+`"}`, apierror.ObjectNotFound, "VersionId")
		r.refused("DeletePolicyVersion", `{"PolicyOrn": "`+orn+`", "VersionId": "`+absent+`"}`, apierror.ObjectNotFound, "VersionId")
	}
	r.call("ReadPolicyVersions", `{"PolicyOrn": "`+orn+`", "FirstItem": 3}`).is(
		"PolicyVersions.0.VersionId", `"v4"`, "PolicyVersions.1.VersionId", `"v6"`, "PolicyVersions.2", "", "HasMoreItems", "false")
}

// The region's policies are under account 000000000000, and stay as they are.
func TestRegionPolicies(t *testing.T) {
	t.Parallel()
	r := setup(t)
	const orn = "orn:ows:idauth::000000000000:policy/ReadOnlyAccess"
	listed := r.call("ReadPolicies", `{"Filters": {"Scope": "OWS"}}`)
	for i, name := range []string{"AdministratorAccess", "ReadOnlyAccess", "NetworkAdministrator"} {
		listed.is(fmt.Sprintf("Policies.%d.PolicyName", i), quote(name), fmt.Sprintf("Policies.%d.Orn", i), quote("orn:ows:idauth::000000000000:policy/"+name))
	}
	r.call("ReadPolicyVersion", `{"PolicyOrn": "`+orn+`", "VersionId": "v1"}`).is("PolicyVersion.DefaultVersion", "true")
	for action, more := range map[string]string{
		"DeletePolicy": "", "CreatePolicyVersion": `, "Document": ` + quote(fullAccess),
		"SetDefaultPolicyVersion": `, "VersionId": "v1"`, "DeletePolicyVersion": `, "VersionId": "v1"`,
	} {
		r.refused(action, `{"PolicyOrn": "`+orn+`"`+more+`}`, apierror.NotAuthorized, "region's own")
	}
	r.call("CreateUser", `{"UserName": "carol"}`)
	r.call("LinkPolicy", `{"UserName": "carol", "PolicyOrn": "`+orn+`"}`)
	r.call("ReadPolicy", `{"PolicyOrn": "`+orn+`"}`).is("Policy.ResourcesCount", "1")
	other := r.newAccount(NewAccount{Email: "other@example.com"})
	r.as(other, "").call("ReadPolicy", `{"PolicyOrn": "`+orn+`"}`).is("Policy.ResourcesCount", "0")
}

func FuzzPolicyDocument(f *testing.F) {
	f.Add(fullAccess)
	f.Add(`{"Statement": [{"Effect": "Deny", "NotAction": ["api:Read*"], "Resource": ["*"]}]} `)
	f.Fuzz(func(t *testing.T, text string) {
		if err := PolicyDocument(text).Check(); err != nil && apierror.From(err).Code == apierror.Internal {
			t.Errorf("%q: %v", text, err)
		}
	})
}
