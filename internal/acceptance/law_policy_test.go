package acceptance

import (
	nethttp "net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
)

// user is a client that signs as a new EIM user of somebody, with an inline policy
// unless the document is empty.
func (w *testRegion) user(owner, name, document string) client {
	w.t.Helper()
	c := w.as(owner)
	c.must("CreateUser", jsonOf(object{"UserName": name}))
	if document != "" {
		c.must("PutUserPolicy", jsonOf(object{"UserName": name, "PolicyName": "p", "PolicyDocument": document}))
	}
	key := c.must("CreateAccessKey", jsonOf(object{"UserName": name}))
	return w.unsigned().signing(key.at("AccessKey.AccessKeyId"), key.at("AccessKey.SecretKey"))
}

// Policies are held against every action: a user that may read may do every read and
// no write, a user with full access may do all, and one without policies nothing. What
// is open to strangers is open to them, too. A dry run answers as the call does.
func TestPoliciesHoldForEveryAction(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	reader := w.user("alice", "reader", `{"Statement": [{"Effect": "Allow", "Action": ["api:Read*"], "Resource": ["*"]}]}`)
	others := w.user("alice", "others", `{"Statement": [{"Effect": "Allow", "NotAction": ["api:*"], "Resource": ["*"]}]}`)
	none, admin := w.user("alice", "none", ""), w.user("alice", "admin", everything)
	w.settle()
	for _, a := range w.API.Actions() {
		w.run(t, a.Name, func(t *testing.T) {
			request := w.minimal(a, has)
			request["DryRun"] = true
			dry := jsonOf(request)
			delete(request, "DryRun")
			before := w.stored("alice")
			for who, test := range map[string]struct {
				client
				may bool
			}{
				"a reader": {reader, strings.HasPrefix(a.Name, "Read")}, "a user of other APIs": {others, false},
				"a user without policies": {none, false}, "an administrator": {admin, true},
			} {
				want := "4"
				switch {
				case a.Name == "ReadSecretAccessKey":
					want = "5"
				case test.may || a.Auth == api.Open || a.Auth == api.OpenOrKnown:
					want = ""
				}
				got := test.call(a.Name, dry)
				if got.code() != want {
					t.Errorf("a dry run for %s: %d %s, want code %q", who, got.status, got.text, want)
				}
				if want == "" {
					continue
				}
				if got := test.call(a.Name, jsonOf(request)); got.code() != want || got.status != nethttp.StatusUnauthorized {
					t.Errorf("for %s: %d %s, want code %q", who, got.status, got.text, want)
				}
			}
			if after := w.stored("alice"); after != before {
				t.Errorf("the account went from version %d to %d", before, after)
			}
		})
	}
}

// The operator finds in both logs which statement decided about a user's call. The
// caller, and whoever reads the calls of the account, is not told.
func TestDecisionsAreTheOperators(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	carol := w.user("alice", "carol", `{"Statement": [
		{"Effect": "Allow", "Action": ["api:*"], "Resource": ["*"]},
		{"Sid": "NoNets", "Effect": "Deny", "Action": ["api:*Net"], "Resource": ["*"]}]}`)
	const why = `denied by Statement[1] (Sid "NoNets") of the inline policy p of the user carol`
	refused := carol.call("CreateNet", `{"IpRange": "10.0.0.0/16"}`)
	if refused.code() != "4" || strings.Contains(refused.text, "Statement") {
		t.Errorf("the caller is told %s", refused.text)
	}
	if got := carol.must("ReadApiLogs", "").text; strings.Contains(got, "denied by") {
		t.Errorf("the account is told %s", got)
	}
	decisions := map[string]string{}
	for _, r := range w.records() {
		decisions[r.Action] = r.Decision
	}
	allowed := strings.HasPrefix(decisions["ReadApiLogs"], "allowed by Statement[0] of ")
	if decisions["CreateNet"] != why || !allowed || decisions["CreateUser"] != "" {
		t.Errorf("the API log has the decisions %q", decisions)
	}
	line := `msg="a call was not allowed"`
	if log := w.log.String(); !strings.Contains(log, line) || !strings.Contains(log, strconv.Quote(why)) {
		t.Errorf("the region says %s", log)
	}
}
