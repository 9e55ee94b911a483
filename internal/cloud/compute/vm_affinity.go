package compute

import (
	"strings"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// The keys of the tags that place a VM with respect to those with the same value:
// osc.fcu.repulse_server, osc.fcu.attract_cluster_strict and so on.
const placingTags, strictly = "osc.fcu.", "_strict"

// affinities are what a VM's group and its tags say of where it is to be.
func (v *Vm) affinities(tx *resource.Tx) (all []driver.Affinity) {
	if g, err := VmGroups.Get(tx, v.VmGroupId); err == nil && g.PositioningStrategy != NoStrategy {
		all = append(all, driver.Affinity{Strategy: string(g.PositioningStrategy), Scope: "server", Group: string(g.VmGroupId), Strict: true})
	}
	for _, t := range v.Tags {
		rule, places := strings.CutPrefix(t.Key, placingTags)
		rule, strict := strings.CutSuffix(rule, strictly)
		strategy, scope, _ := strings.Cut(rule, "_")
		if places && (strategy == string(Attract) || strategy == string(Repulse)) && (scope == "server" || scope == "cluster") {
			all = append(all, driver.Affinity{Strategy: strategy, Scope: scope, Group: t.Value, Strict: strict})
		}
	}
	return all
}
