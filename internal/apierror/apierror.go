// Package apierror is the catalogue of errors that callers get. An Error is a
// code of the published catalogue and a sentence that helps the caller. Every
// other error is for the operator, and its caller only sees an internal error.
package apierror

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Code is a number of the published catalogue. Its range determines its type.
// Source of the numbers: the error page of the real service's documentation and
// what its clients act on.
type Code int

// The codes that rules and the request path use.
const (
	AuthenticationFailed        Code = 1    // a signature or a password is wrong or missing
	MethodNotAllowed            Code = 2    // a method other than POST
	NotPermitted                Code = 4    // no policy allows the caller this action
	NotAuthorized               Code = 5    // the caller may not do this on this object
	LoginNotAllowed             Code = 7    // a login whose password is right and not accepted
	PasswordRefused             Code = 9    // a login and password on a call that must be signed
	UnknownAuthorization        Code = 12   // the scheme of the Authorization header is unknown
	Locked                      Code = 13   // too many failed attempts, for a while
	NoAccessRule                Code = 14   // no API access rule admits the caller's address or certificate
	AccountThrottled            Code = 24   // too many calls of the account
	CallThrottled               Code = 25   // too many calls of this action
	ClientGatewayInUse          Code = 1001 // a VPN connection uses the client gateway
	NetHasPublicIps             Code = 1004 // the Net still has mapped public IPs
	NetHasLoadBalancer          Code = 1005 // the Net still has a load balancer
	InternetServiceNotLinked    Code = 1007
	NetHasNatService            Code = 1018
	Internal                    Code = 2000 // the cause is in the region's log
	UnknownParameter            Code = 3001 // a parameter or filter that the action does not have
	IncompatibleParameters      Code = 3002 // parameters that cannot be given together
	RequestExpired              Code = 4000 // the signature is too old, or the client's clock is off
	BucketNotFound              Code = 4002
	DeviceNameNotLinked         Code = 4003 // a device that the VM does not have
	InvalidTenancy              Code = 4007
	InvalidAsn                  Code = 4010 // a BGP ASN out of bounds
	InvalidMappings             Code = 4011
	InvalidBlock                Code = 4013 // an IP range that is not one
	InvalidNetSize              Code = 4014 // the range of a Net is not between /16 and /28
	InvalidRangeSize            Code = 4015 // the length of a prefix is out of bounds
	InvalidConfiguration        Code = 4017 // an option that is not offered, such as BSU optimisation
	InvalidCount                Code = 4018
	InvalidDeviceName           Code = 4019
	InvalidEmail                Code = 4020 // an email address that is not one
	InvalidHostPattern          Code = 4024
	InvalidImageName            Code = 4026
	InvalidIops                 Code = 4029
	InvalidIPAddress            Code = 4030 // an address that cannot be used there, such as a private one
	InvalidKey                  Code = 4032
	InvalidKeySize              Code = 4033
	InvalidKeypairName          Code = 4035
	InvalidBalancerName         Code = 4036
	InvalidBalancerPort         Code = 4037
	InvalidManifest             Code = 4040
	InvalidManifestFormat       Code = 4041
	UnknownAction               Code = 4042 // no such action
	InvalidName                 Code = 4043
	InvalidParameter            Code = 4045 // a value that is not compatible with the others or with the resource
	InvalidParameterSet         Code = 4046 // parameters that exclude each other
	InvalidValue                Code = 4047 // a value outside those allowed
	InvalidPathPattern          Code = 4049
	InvalidPorts                Code = 4051 // ports that are no range, or that the protocol does not have
	InvalidProtocol             Code = 4053
	InvalidRootMapping          Code = 4057
	InvalidRuleAction           Code = 4058
	InvalidRuleName             Code = 4059
	InvalidBalancerType         Code = 4060
	InvalidCookieName           Code = 4065
	InvalidCookiePeriod         Code = 4066
	InvalidPolicyName           Code = 4067
	InvalidTagKey               Code = 4069 // a tag key that is empty or reserved
	TagValueTooLong             Code = 4071
	InvalidURL                  Code = 4074
	InvalidVirtualName          Code = 4076 // of an ephemeral device
	VolumeDeviceMismatch        Code = 4077 // a volume that is another device of the VM, or none
	InvalidVolumeSize           Code = 4078
	InvalidPropagation          Code = 4079 // of routes by a gateway that is linked elsewhere
	InvalidVpnType              Code = 4080
	NetworkMismatch             Code = 4086 // a backend that is not in the network of its load balancer
	StoreUnreachable            Code = 4088 // the object store
	TokenMismatch               Code = 4091 // a client token that came with another request before
	UnknownManifestVersion      Code = 4094
	InvalidListener             Code = 4095 // or another part of a load balancer: protocols, backend ports, health checks
	InvalidCertificateOrn       Code = 4097
	InvalidID                   Code = 4104 // an id without the prefix of its kind
	MalformedID                 Code = 4105 // an id of the right prefix and the wrong form
	InvalidLength               Code = 4106 // a text that is too long or too short
	InvalidType                 Code = 4108 // a value of the wrong JSON type
	InvalidPageToken            Code = 4117 // a page token of another call or region
	UnknownCredentials          Code = 4120 // an access key or login that does not exist
	VolumeTooSmall              Code = 4125
	InvalidIP                   Code = 4133 // an IP address that is not one
	InvalidCertificate          Code = 4177 // a certificate that cannot be used
	InvalidBalancerIp           Code = 4196 // a public IP for a load balancer that is not an address
	SameNet                     Code = 4199 // a peering of a Net with itself
	InvalidIopsRatio            Code = 4202
	InvalidSnapshotSize         Code = 4203
	InternetServiceNotFound     Code = 5001
	NicLinkNotFound             Code = 5007
	RuleNotFound                Code = 5008 // a rule, or a part of one, that a security group does not have
	SubregionNotFound           Code = 5009
	ServerCertificateNotFound   Code = 5012
	ClientGatewayNotFound       Code = 5015
	DhcpOptionsNotFound         Code = 5018
	GatewayNotFound             Code = 5019 // the target of a route
	SecurityGroupNotFound       Code = 5020
	NotInPublicCloud            Code = 5021 // a security group that is not for the public Cloud
	NotInNet                    Code = 5022 // a security group that is not of the Net
	ImageNotFound               Code = 5023
	VmTypeNotFound              Code = 5024
	PublicIpLinkNotFound        Code = 5026
	AccessKeyNotFound           Code = 5027
	ListenerNotFound            Code = 5028
	ListenerRuleNotFound        Code = 5029
	LoadBalancerNotFound        Code = 5030
	ManifestNotFound            Code = 5031
	NatServiceNotFound          Code = 5032
	NetAccessPointNotFound      Code = 5034
	NetPeeringNotFound          Code = 5035
	NicNotFound                 Code = 5036
	ObjectNotFound              Code = 5037
	ServiceNotFound             Code = 5040 // of the region, by name or ID
	ResourceNotFound            Code = 5044 // the target of a tag call
	RouteNotFound               Code = 5045
	RouteTableNotFound          Code = 5046
	RouteTableLinkNotFound      Code = 5047
	LocationNotFound            Code = 5052
	SnapshotNotFound            Code = 5054
	VpnRouteNotFound            Code = 5055
	BalancerPolicyNotFound      Code = 5056
	SubnetNotFound              Code = 5057
	TaskNotFound                Code = 5058
	MemberNotFound              Code = 5060 // a security group named as a member of a rule
	VmNotFound                  Code = 5063
	VolumeNotFound              Code = 5064
	NetNotFound                 Code = 5065
	VirtualGatewayLinkNotFound  Code = 5066
	VpnConnectionNotFound       Code = 5067
	VirtualGatewayNotFound      Code = 5068
	InvalidListenerCertificate  Code = 5070 // a server certificate of a listener that is not there
	KeypairNotFound             Code = 5071
	DirectLinkNotFound          Code = 5072
	DirectLinkInterfaceNotFound Code = 5073
	FlexibleGpuNotFound         Code = 5074
	UserNotFound                Code = 5075
	PublicIpNotFound            Code = 5080
	UserGroupMemberNotFound     Code = 5098 // a user that is absent, or not in the group
	PolicyLinkNotFound          Code = 5102
	InvalidImageState           Code = 6001
	InvalidState                Code = 6003 // the resource's state does not allow the call
	InvalidTransition           Code = 6004 // the state of a Net peering does not allow the call
	InvalidVmState              Code = 6006
	InvalidVolumeState          Code = 6007
	InvalidBalancerState        Code = 6031
	MissingParameter            Code = 7000
	DeletionProtected           Code = 8018
	AlreadyExists               Code = 9000
	DeviceNameTaken             Code = 9003
	DeviceTaken                 Code = 9004
	DuplicateRule               Code = 9005
	EmailTaken                  Code = 9007
	SecurityGroupNameTaken      Code = 9008
	KeypairNameTaken            Code = 9011
	ListenerExists              Code = 9012
	BalancerNameTaken           Code = 9013
	ImageNameTaken              Code = 9015
	BalancerPolicyExists        Code = 9021
	UserNameTaken               Code = 9022
	VlanTaken                   Code = 9023
	GatewayLinked               Code = 9024
	GatewayNotLinked            Code = 9026
	UserGroupNameTaken          Code = 9028
	InUse                       Code = 9029 // linked elsewhere, or the default that cannot go
	PublicIpLocked              Code = 9031 // by a service that uses it
	SeveralCookiePolicies       Code = 9034 // of applications, for one listener
	SeveralDurationPolicies     Code = 9035 // for one listener
	MixedPolicies               Code = 9036 // of both kinds, for one listener
	NatServiceExists            Code = 9037
	NetAccessPointExists        Code = 9038
	VmNeverStarted              Code = 9039
	OutsideNet                  Code = 9044 // a range not inside the range of its Net
	NoInternetRoute             Code = 9045 // a NAT service in a Subnet without a route to the Internet
	PriorityTaken               Code = 9047
	ReservedBlock               Code = 9050 // a range that no Net may have
	DefaultSecurityGroup        Code = 9051 // which cannot be deleted
	RouteExists                 Code = 9052
	RuleNameTaken               Code = 9054
	BalancerPolicyInUse         Code = 9055
	PolicyWithoutHttp           Code = 9056 // for a listener of another protocol
	SubnetOverlaps              Code = 9058 // a range that overlaps another Subnet's
	SubnetLinked                Code = 9059 // to a route table
	VmNotInNet                  Code = 9062
	VolumeNotLinked             Code = 9063
	NetLinked                   Code = 9065 // to a gateway
	PeeringExists               Code = 9067
	VpnNotStatic                Code = 9068
	VpnConnectionExists         Code = 9069
	SubregionMismatch           Code = 9071
	GpuMismatch                 Code = 9072
	SecurityGroupInUse          Code = 9085
	SubnetInUse                 Code = 9095
	NetInUse                    Code = 9097
	PrivateIpsNotLinked         Code = 9108
	InsufficientCapacity        Code = 10001
	TooManyAccessKeys           Code = 10005
	TooManyCertificates         Code = 10007
	TooManyActiveSnapshots      Code = 10008
	TooManyVms                  Code = 10010
	TooManyPublicIps            Code = 10011
	TooManyListenerRules        Code = 10012
	TooManyListeners            Code = 10013
	TooManyLoadBalancers        Code = 10014
	TooManyRules                Code = 10017 // of a security group; API access rules have no code of their own
	TooManyVolumes              Code = 10018
	TooManyVirtualGatewayLinks  Code = 10020
	TooManyPrivateIps           Code = 10021
	TooManyNets                 Code = 10022
	TooManyInternetServices     Code = 10023
	TooMuchVolumeSize           Code = 10024
	TooManyIops                 Code = 10025
	TooManySnapshots            Code = 10026
	TooManyClientGateways       Code = 10027
	TooManyDirectLinks          Code = 10028
	TooManyCores                Code = 10029
	TooManyFlexibleGpus         Code = 10030
	TooManyDirectLinkInterfaces Code = 10031
	TooManyNatServices          Code = 10032
	TooManyNetAccessPoints      Code = 10033
	TooManyPeeringRequests      Code = 10034
	TooManyPeerings             Code = 10035
	TooManyNicSecurityGroups    Code = 10036
	TooManyRouteTables          Code = 10037
	TooManySecurityGroups       Code = 10038
	TooManyVpnRoutes            Code = 10040
	TooManyTags                 Code = 10041
	TooMuchMemory               Code = 10042
)

// Type returns the name of the code's family, as responses show it.
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

// Status returns the HTTP status of the code. Clients of the main API decode
// 409 and 424 on some actions only; its protocol responds with 400 on the
// others.
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

// Error is a refusal for the caller.
type Error struct {
	Code     Code
	Details  string // a sentence for the caller; may be empty
	NotFound string // the ID or the name that does not exist, if that is the reason
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s): %s", e.Code.Type(), e.Code, e.Details) }

// Errorf returns an error with a sentence for the caller.
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

// NotFound returns the error for a parameter whose value names nothing that the
// caller may see. All of them have this wording, which is the real service's,
// so that an absent ID and another account's look alike.
func (c Code) NotFound(parameter, value string) error {
	return &Error{Code: c, Details: fmt.Sprintf("The %s '%.255s' doesn't exist.", parameter, value), NotFound: value}
}

// Bare returns an error without a sentence. The real service gives none where
// it would help an attacker to guess.
func (c Code) Bare() error { return &Error{Code: c} }

// Is reports whether err is an Error of this code.
func (c Code) Is(err error) bool {
	f, ok := errors.AsType[*Error](err)
	return ok && f.Code == c
}

// From returns the Error in err. Any other error becomes an internal error,
// because the caller must not see its cause.
func From(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	return &Error{Code: Internal, Details: "An internal error occurred. Its cause is in the region's log under this request id."}
}

// In prefixes the sentence of an error with the name of a parameter.
func In(parameter string, err error) error {
	f, ok := errors.AsType[*Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", parameter, err)
	}
	return &Error{Code: f.Code, Details: parameter + ": " + f.Details}
}
