// Package balancer has the families of load balancers: what they listen to, by
// which rules they forward requests and to which backends, and the policies that
// keep a client with one of them.
//
// Rules say what a load balancer must be and return at once. [NewLoop] hands it to
// a driver afterwards, with all that it goes by as one value.
package balancer

import (
	"context"
	"iter"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Region is what the rules must know of the region they are in.
type Region struct {
	Name       string
	Domain     string   // that public DNS names end in
	Subregions []string // their names
	Network    network.Region
	Look       Look // how to look at load balancers; nil: there is nothing to be seen
}

// Look returns the health of the backends of a load balancer, by their IDs, as far as
// the driver has them.
type Look func(ctx context.Context, account string, balancer id.LoadBalancer) (map[string]Health, error)

// Kinds are the kinds of the package.
func Kinds() []resource.Any { return []resource.Any{LoadBalancers, ListenerRules} }

// Actions are the actions of the package in a region.
func Actions(region Region) []api.Action {
	return slices.Concat(
		loadBalancerActions(region), tagActions(), updateActions(region),
		listenerActions(), listenerRuleActions(),
		backendActions(region), policyActions(),
	)
}

// Meters read the use of the quotas that do not count the resources of a kind.
func Meters() []resource.Meter {
	return []resource.Meter{{Quota: listenerQuota, Read: func(tx *resource.Tx) iter.Seq2[string, int] {
		return func(yield func(string, int) bool) {
			for lb := range LoadBalancers.All(tx) {
				if !yield(string(lb.LoadBalancerName), len(lb.Listeners)) {
					return
				}
			}
		}
	}}}
}
