package iam

import (
	"regexp"
	"strings"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
)

// orn is the OUTSCALE Resource Name of an EIM resource of a type, such as
// orn:ows:idauth::123456789012:policy/sales/readers.
func orn(account, resourceType string, path Path, name string) string {
	return "orn:ows:idauth::" + account + ":" + resourceType + string(path) + name
}

// PolicyOrn is the OUTSCALE Resource Name of a managed policy.
type PolicyOrn string

// The service of a policy has two names. Policies are of no Region, so what is
// between the next colons is empty, although the contract's pattern admits a text.
var policyOrns = regexp.MustCompile(`^orn:ows:(?:iam|idauth):(\S*):(\d{12}):policy(/\S+)$`)

// Check reports a text that is no resource name of a policy.
func (o PolicyOrn) Check() error {
	if !policyOrns.MatchString(string(o)) {
		return apierror.InvalidValue.Errorf(
			"'%.200s' is not the ORN of a policy, such as orn:ows:idauth::123456789012:policy/path/name.", string(o))
	}
	return nil
}

// parts are the account, the path and the name of the policy. They are empty if
// Check fails or if no policy can have the name.
func (o PolicyOrn) parts() (account id.Account, path Path, name string) {
	m := policyOrns.FindStringSubmatch(string(o))
	if m == nil || m[1] != "" {
		return "", "", ""
	}
	end := strings.LastIndex(m[3], "/") + 1
	return id.Account(m[2]), Path(m[3][:end]), m[3][end:]
}
