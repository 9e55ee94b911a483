package iam

import (
	"unicode"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/policy"
)

// PolicyDocument is the JSON text of a policy, as it was given: up to 5,120
// characters, white space apart.
type PolicyDocument string

// The characters of a document, without white space and with it. A document is
// shown as it was given, so that white space has a bound of its own.
const (
	maxDocument = 5120
	maxWhole    = 4 * maxDocument
)

// Check reports a text that is no policy, with the place in it and the reason.
func (d PolicyDocument) Check() error {
	whole := utf8.RuneCountInString(string(d))
	if whole > maxWhole {
		return apierror.InvalidLength.Errorf("The policy has %d characters, white space included: the maximum is %d.", whole, maxWhole)
	}
	if n := whole - whiteSpace(string(d)); n > maxDocument {
		return apierror.InvalidLength.Errorf("The policy has %d characters, not counting white space: the maximum is %d.", n, maxDocument)
	}
	if _, err := policy.Parse(string(d)); err != nil {
		return apierror.InvalidValue.Errorf("The policy cannot be read: %v.", err)
	}
	return nil
}

// whiteSpace counts the characters of a text that are white space.
func whiteSpace(text string) int {
	n := 0
	for _, c := range text {
		if unicode.IsSpace(c) {
			n++
		}
	}
	return n
}
