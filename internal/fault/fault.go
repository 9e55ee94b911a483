// Package fault is the catalogue of errors that callers see. A fault is a code
// of the published catalogue and a sentence that helps the caller; every other
// error is for the operator, and callers only see that something went wrong
// inside.
package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Code is a number of the published catalogue. Its range gives its type.
// Source of the numbers: the error page of the real service's documentation
// and what its clients act on.
type Code int

// The codes that rules and the request path use. A comment says when.
const (
	AuthenticationFailed Code = 1    // a signature or a password is wrong or missing
	MethodNotAllowed     Code = 2    // a method other than POST
	NotPermitted         Code = 4    // no policy allows the caller this action
	NotAuthorized        Code = 5    // the caller may not do this on this object
	PasswordRefused      Code = 9    // a login and password on a call that must be signed
	UnknownAuthorization Code = 12   // the scheme of the Authorization header is unknown
	Locked               Code = 13   // too many failed attempts, for a while
	NoAccessRule         Code = 14   // no API access rule admits the caller's address or certificate
	AccountThrottled     Code = 24   // too many calls of the account
	CallThrottled        Code = 25   // too many calls of this action
	Internal             Code = 2000 // our fault
	UnknownParameter     Code = 3001 // a parameter or filter that the action does not have
	RequestExpired       Code = 4000 // the signature is too old, or the client's clock is off
	InvalidBlock         Code = 4013 // an IP range that is not one
	InvalidNetSize       Code = 4014 // the range of a Net is not between /16 and /28
	InvalidRangeSize     Code = 4015 // the length of a prefix is out of bounds
	InvalidEmail         Code = 4020 // an email address that is not one
	UnknownAction        Code = 4042 // no such action
	InvalidParameter     Code = 4045 // a value that does not go with the others or with the resource
	InvalidValue         Code = 4047 // a value outside those allowed
	InvalidTagKey        Code = 4069 // a tag key that is empty or reserved
	TagValueTooLong      Code = 4071
	InvalidID            Code = 4104 // an id without the prefix of its kind
	MalformedID          Code = 4105 // an id of the right prefix and the wrong form
	InvalidLength        Code = 4106 // a text that is too long or too short
	InvalidType          Code = 4108 // a value of the wrong JSON type
	InvalidPageToken     Code = 4117 // a page token we did not give out for this call
	UnknownCredentials   Code = 4120 // an access key or login that is not known here
	InvalidIP            Code = 4133 // an IP address that is not one
	InvalidCertificate   Code = 4177 // a certificate that cannot be used
	SubregionNotFound    Code = 5009
	DhcpOptionsNotFound  Code = 5018
	AccessKeyNotFound    Code = 5027
	ObjectNotFound       Code = 5037
	ResourceNotFound     Code = 5044 // the target of a tag call
	SubnetNotFound       Code = 5057
	NetNotFound          Code = 5065
	UserNotFound         Code = 5075
	InvalidState         Code = 6003 // the resource's state does not allow the call
	MissingParameter     Code = 7000
	AlreadyExists        Code = 9000
	EmailTaken           Code = 9007
	UserNameTaken        Code = 9022
	InUse                Code = 9029 // linked elsewhere, or the default that cannot go
	OutsideNet           Code = 9044 // a range not inside the range of its Net
	ReservedBlock        Code = 9050 // a range that no Net may have
	SubnetOverlaps       Code = 9058 // a range that overlaps another Subnet's
	SubnetInUse          Code = 9095
	NetInUse             Code = 9097
	TooManyAccessKeys    Code = 10005
	TooManyCertificates  Code = 10007
	TooManyAccessRules   Code = 10017 // the quota of security group rules; API access rules have none of their own
	TooManyNets          Code = 10022
	TooManyTags          Code = 10041
)

// Type is the name of the code's family, as the wire shows it.
func (c Code) Type() string {
	switch {
	case c == 0:
		return "DefaultError"
	case c == PasswordRefused:
		return "AuthFailure"
	case c == AccountThrottled || c == CallThrottled:
		return "RequestLimitExceeded"
	case c < 1000:
		return "AccessDenied"
	case c < 2000:
		return "DependencyProblem"
	case c < 3000:
		return "InternalError"
	case c < 4000:
		return "InvalidParameter"
	case c < 5000:
		return "InvalidParameterValue"
	case c < 6000:
		return "InvalidResource"
	case c < 7000:
		return "InvalidState"
	case c < 8000:
		return "MissingParameter"
	case c < 9000:
		return "OperationNotSupported"
	case c < 10000:
		return "ResourceConflict"
	case c == 10001:
		return "InsufficientCapacity"
	}
	return "TooManyResources (QuotaExceded)" // the real service spells it so
}

// Status is the HTTP status of the code. Clients of the main API decode 409
// and 424 on some actions only; that protocol answers 400 on the others.
func (c Code) Status() int {
	switch {
	case c == MethodNotAllowed:
		return 405
	case c == AccountThrottled || c == CallThrottled:
		return 429
	case c == UnknownAction:
		return 404
	case c == 0:
		return 400
	case c < 1000:
		return 401
	case c < 2000:
		return 424
	case c < 3000:
		return 500
	case c >= 6000 && c < 7000 || c >= 9000 && c < 10000:
		return 409
	}
	return 400
}

func (c Code) String() string { return strconv.Itoa(int(c)) }

// Error is a fault on its way to the caller.
type Error struct {
	Code    Code
	Details string // a sentence for the caller; may be empty
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s): %s", e.Code.Type(), e.Code, e.Details) }

// Errorf makes a fault with a sentence for the caller.
func (c Code) Errorf(format string, args ...any) error {
	// In bytes: a sentence may quote what the caller sent, and that may be the
	// whole body of a request.
	const maxDetails = 500
	details := fmt.Sprintf(format, args...)
	if len(details) > maxDetails {
		details = strings.ToValidUTF8(details[:maxDetails], "") + "…"
	}
	return &Error{Code: c, Details: details}
}

// Bare makes a fault without a sentence: where the real service gives none
// because it would help a guesser.
func (c Code) Bare() error { return &Error{Code: c} }

// Is reports whether err is a fault of this code.
func (c Code) Is(err error) bool {
	f, ok := errors.AsType[*Error](err)
	return ok && f.Code == c
}

// From is the fault in err. An error that is none is our own failure, whose
// cause the caller must not see.
func From(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	return &Error{Code: Internal, Details: "An internal error occurred. Its cause is in the region's log under this request id."}
}

// In puts the name of a parameter before the sentence of a fault.
func In(parameter string, err error) error {
	f, ok := errors.AsType[*Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", parameter, err)
	}
	return &Error{Code: f.Code, Details: parameter + ": " + f.Details}
}
