package catalog

import (
	"iter"
	"maps"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Quota is a limit on what an account can have, and how much of it is used.
type Quota struct {
	AccountId        id.Account // The ID of the account that the quota is for.
	Name             string     // The unique name of the quota.
	ShortDescription string     // What the quota limits, in a few words.
	Description      string     // What the quota limits.
	QuotaCollection  string     // The name of the group that the quota belongs to.
	MaxValue         int        // The maximum value; 0 if there is no limit.
	// The value that is used now. For a quota that applies to each resource of a kind, the value
	// of the resource that uses most.
	UsedValue int
}

// QuotaTypes is the quotas of one type.
type QuotaTypes struct {
	// The name or ID of the resource that the quotas are for, or `global` if they are for the
	// account.
	QuotaType string
	Quotas    []*Quota // One or more quotas.
}

// ReadQuotasRequest lists the quotas of the account and what is used of them. A
// page has so many quotas, of whatever types.
type ReadQuotasRequest struct {
	Filters *FiltersQuota // One or more filters.
	api.Page
}

// FiltersQuota selects quotas.
type FiltersQuota struct {
	// The names of the groups of the quotas.
	Collections []string `path:"Quota.QuotaCollection"`
	QuotaNames  []string // The names of the quotas.
	// The names or IDs of the resources that the quotas are for, or `global`.
	QuotaTypes []string
	// The short descriptions of the quotas.
	ShortDescriptions []string `path:"Quota.ShortDescription"`
}

func readQuotas(meters []resource.Meter) api.Action {
	source := api.Values("Quota", "QuotaTypes", func(tx *resource.Tx) iter.Seq2[api.Position, typedQuota] {
		return func(yield func(api.Position, typedQuota) bool) {
			for i, q := range quotas {
				uses := usesOf(tx, q, meters)
				for _, quotaType := range slices.Sorted(maps.Keys(uses)) {
					at := api.Position{Seq: uint64(i) + 1, Name: quotaType}
					if !yield(at, typedQuota{quotaType, q.show(tx, uses[quotaType])}) {
						return
					}
				}
			}
		}
	})
	return api.ReadGrouped[ReadQuotasRequest](source, byType)
}

// typedQuota is a quota with its type: what filters select and pages count.
type typedQuota struct {
	QuotaType string
	Quota     Quota
}

// byType groups quotas by type, the types in the order in which they appear.
func byType(shown []*typedQuota) []*QuotaTypes {
	var groups []*QuotaTypes
	for _, q := range shown {
		i := slices.IndexFunc(groups, func(g *QuotaTypes) bool { return g.QuotaType == q.QuotaType })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &QuotaTypes{QuotaType: q.QuotaType})
		}
		groups[i].Quotas = append(groups[i].Quotas, &q.Quota)
	}
	return groups
}

// usesOf reads the use of a quota by type: from its meter if it has one, else
// by counting the resources that it limits.
func usesOf(tx *resource.Tx, q quota, meters []resource.Meter) map[string]int {
	if i := slices.IndexFunc(meters, func(m resource.Meter) bool { return m.Quota == q.name }); i >= 0 {
		return maps.Collect(meters[i].Read(tx))
	}
	if q.each {
		return nil
	}
	used := 0
	for _, k := range tx.Kinds() {
		if limit := k.Facts().Quota; limit != nil && limit.Name == q.name {
			used = max(used, resource.MostUsed(tx, k))
		}
	}
	return map[string]int{resource.Global: used}
}

func (q quota) show(tx *resource.Tx, used int) Quota {
	limit, _ := tx.Limit(q.name)
	return Quota{
		AccountId: id.Account(tx.Account()), Name: q.name, ShortDescription: q.short, Description: q.description,
		QuotaCollection: q.collection, MaxValue: limit, UsedValue: used,
	}
}
