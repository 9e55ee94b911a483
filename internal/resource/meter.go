package resource

import (
	"iter"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// Meter reads how much of a quota is used, where that is not the number of the
// resources of a kind: the sum of the sizes of all volumes, or the listeners of
// each load balancer.
type Meter struct {
	Quota string // its name
	// Read yields the use by the quota's type: [Global], or the name or id of
	// each resource for a quota that every resource has of its own.
	Read func(*Tx) iter.Seq2[string, int]
}

// Global is the type of the quotas that are for a whole account.
const Global = "global"

// GlobalMeter reads one number for the whole account: how many public IPs it has,
// or how many security groups the NIC that is in most of them.
func GlobalMeter(quota string, used func(*Tx) int) Meter {
	return Meter{Quota: quota, Read: func(tx *Tx) iter.Seq2[string, int] {
		return func(yield func(string, int) bool) { yield(Global, used(tx)) }
	}}
}

// CheckLimit refuses a use of a quota above its limit.
func (tx *Tx) CheckLimit(quota string, code apierror.Code, use int) error {
	if limit, ok := tx.Limit(quota); ok && use > limit {
		return code.Errorf("The quota %s is %d, and %d would be used.", quota, limit, use)
	}
	return nil
}
