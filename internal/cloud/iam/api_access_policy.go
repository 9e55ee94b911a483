package iam

import (
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ApiAccessPolicy is what an account demands of its credentials. Each account
// has one.
type ApiAccessPolicy struct {
	// How long an access key may live, in seconds; 0 is without end.
	MaxAccessKeyExpirationSeconds KeySeconds
	// Whether a trusted session replaces client certificates, where an action allows that.
	RequireTrustedEnv bool
}

func apiAccessPolicyActions() []api.Action {
	return []api.Action{
		api.Do("ApiAccessPolicy", readApiAccessPolicy),
		api.Do("ApiAccessPolicy", updateApiAccessPolicy),
	}
}

// KeySeconds is how long an access key may live, from 0 (without end) to
// 3153600000 seconds, which are 100 years.
type KeySeconds int64

const maxKeySeconds = 100 * 365 * 24 * 3600

// Check reports a number out of bounds.
func (s KeySeconds) Check() error {
	if s < 0 || s > maxKeySeconds {
		return apierror.InvalidValue.Errorf("%d is not between 0 and %d.", s, maxKeySeconds)
	}
	return nil
}

func (s KeySeconds) duration() time.Duration { return time.Duration(s) * time.Second }

// admits reports why a key may not be as it is about to become.
func (p ApiAccessPolicy) admits(key *AccessKey, now time.Time) error {
	limit := p.MaxAccessKeyExpirationSeconds
	if limit == 0 {
		return nil
	}
	if key.ExpirationDate == 0 {
		return apierror.MissingParameter.Errorf("ExpirationDate is required, and cannot be cleared: the API access policy lets an access key live %d seconds at most.", limit)
	}
	if key.ExpirationDate.Time().Sub(now) > limit.duration() {
		return apierror.InvalidValue.Errorf("ExpirationDate: the API access policy lets an access key live %d seconds at most.", limit)
	}
	return nil
}

// ReadApiAccessPolicyRequest asks for the API access policy of the account.
type ReadApiAccessPolicyRequest struct{}

// ReadApiAccessPolicyResponse shows the policy.
type ReadApiAccessPolicyResponse struct{ ApiAccessPolicy *ApiAccessPolicy }

func readApiAccessPolicy(tx *resource.Tx, _ *ReadApiAccessPolicyRequest) (*ReadApiAccessPolicyResponse, error) {
	account, err := accountOf(tx)
	if err != nil {
		return nil, err
	}
	return &ReadApiAccessPolicyResponse{&account.Policy}, nil
}

// UpdateApiAccessPolicyRequest asks for another API access policy, which all
// access keys of the account, its users' included, already satisfy.
type UpdateApiAccessPolicyRequest struct {
	// How long an access key may live, in seconds, from 0 to 3153600000. It must exceed what
	// each access key has left; 0 is without end.
	MaxAccessKeyExpirationSeconds KeySeconds `api:"required"`
	// Whether a trusted session replaces client certificates. It needs access keys that end.
	RequireTrustedEnv bool `api:"required"`
}

// UpdateApiAccessPolicyResponse shows the policy as it has become.
type UpdateApiAccessPolicyResponse struct{ ApiAccessPolicy *ApiAccessPolicy }

func updateApiAccessPolicy(tx *resource.Tx, req *UpdateApiAccessPolicyRequest) (*UpdateApiAccessPolicyResponse, error) {
	limit := req.MaxAccessKeyExpirationSeconds
	if req.RequireTrustedEnv && limit == 0 {
		return nil, apierror.InvalidParameter.Errorf("RequireTrustedEnv needs a MaxAccessKeyExpirationSeconds above 0.")
	}
	if limit > 0 {
		for key := range AccessKeys.All(tx) {
			if key.ExpirationDate == 0 {
				return nil, apierror.InvalidParameter.Errorf("MaxAccessKeyExpirationSeconds needs access keys that end, and %s has no ExpirationDate.",
					key.AccessKeyId)
			}
			if key.ExpirationDate.Time().Sub(tx.Now()) >= limit.duration() {
				return nil, apierror.InvalidParameter.Errorf("MaxAccessKeyExpirationSeconds must exceed what each access key has left, and %s lives until %s.",
					key.AccessKeyId, key.ExpirationDate.AppendWire(nil))
			}
		}
	}
	account, err := accountOf(tx)
	if err != nil {
		return nil, err
	}
	account.Policy = ApiAccessPolicy{limit, req.RequireTrustedEnv}
	return &UpdateApiAccessPolicyResponse{&account.Policy}, Accounts.Put(tx, account)
}
