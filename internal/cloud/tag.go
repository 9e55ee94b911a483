package cloud

import (
	"cmp"
	"iter"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func tagActions() []api.Action {
	return []api.Action{
		api.Command("Tag", createTags),
		api.Command("Tag", deleteTags),
		api.Read[ReadTagsRequest](api.Values("Tag", "Tags", allTags)),
	}
}

// CreateTagsRequest adds tags to resources: every tag to every resource, or, if
// one of them cannot have one, none to any. A tag replaces the one of the same
// key.
type CreateTagsRequest struct {
	ResourceIds []string `api:"required"` // One or more IDs of resources.
	// One or more tags to add. Keys that begin with `osc.` have a meaning for the region.
	Tags []api.Tag `api:"required"`
}

func createTags(tx *resource.Tx, req *CreateTagsRequest) error {
	added := resource.UniqueTags(req.Tags)
	return retag(tx, req.ResourceIds, len(added), func(tags []api.Tag) []api.Tag { return resource.WithTags(tags, added) })
}

// DeleteTagsRequest removes tags from resources. A tag that a resource does not
// have is no error.
type DeleteTagsRequest struct {
	ResourceIds []string `api:"required"` // One or more IDs of resources.
	// One or more tags to remove. A tag is removed only if its value is the given one; an empty
	// value stands for any.
	Tags []api.Tag `api:"required"`
}

func deleteTags(tx *resource.Tx, req *DeleteTagsRequest) error {
	removed := map[api.Tag]bool{}
	for _, t := range req.Tags {
		removed[t] = true
	}
	return retag(tx, req.ResourceIds, len(removed), func(tags []api.Tag) []api.Tag {
		return slices.DeleteFunc(slices.Clone(tags), func(t api.Tag) bool { return removed[t] || removed[api.Tag{Key: t.Key}] })
	})
}

// retag changes the tags of resources, each once, by a number of different tags.
func retag(tx *resource.Tx, ids []string, tags int, change func([]api.Tag) []api.Tag) error {
	switch {
	case len(ids) == 0:
		return apierror.MissingParameter.Errorf("ResourceIds is empty: name the resources.")
	case tags == 0:
		return apierror.MissingParameter.Errorf("Tags is empty: give at least one tag.")
	case tags > resource.MaxTags:
		return apierror.TooManyTags.Errorf("Tags has %d different tags: a resource can have %d.", tags, resource.MaxTags)
	}
	done := map[string]bool{}
	for _, id := range ids {
		if done[id] {
			continue
		}
		done[id] = true
		tagged, ok := tx.Tagged(id)
		if !ok {
			return tx.NotTagged(id)
		}
		changed := change(tagged.Tags())
		if len(changed) > resource.MaxTags {
			return apierror.TooManyTags.Errorf("The resource %s would have %d tags: it can have %d.", id, len(changed), resource.MaxTags)
		}
		tx.SetTags(tagged, changed)
	}
	return nil
}

// ReadTagsRequest lists the tags of the account's resources.
type ReadTagsRequest struct {
	Filters *FiltersTag // One or more filters.
	api.Page
}

// FiltersTag selects tags.
type FiltersTag struct {
	Keys        []string // The keys of the tags.
	ResourceIds []string // The IDs of the resources that have the tags.
	// The types of the resources that have the tags, such as `vm`, `volume` or `vpc`.
	ResourceTypes []resourceType
	Values        []string // The values of the tags.
}

// resourceType is a type in a filter.
type resourceType string

// ParseWire takes the older name of VMs, too.
func (t *resourceType) ParseWire(s string) error {
	if s == "instance" {
		s = "vm"
	}
	*t = resourceType(s)
	return nil
}

// allTags lists all tags: resource by resource in order of creation, whatever
// their kinds, so that what comes or goes leaves the others in place.
func allTags(tx *resource.Tx) iter.Seq2[api.Position, resource.Tag] {
	resources := slices.SortedFunc(tx.AllTagged, func(a, b resource.Tagged) int { return cmp.Compare(a.Seq, b.Seq) })
	return func(yield func(api.Position, resource.Tag) bool) {
		for _, r := range resources {
			for _, t := range r.Tags() {
				if !yield(api.Position{Seq: r.Seq, Name: t.Key}, resource.Tag{Key: t.Key, Value: t.Value, ResourceId: r.ID, ResourceType: r.Type}) {
					return
				}
			}
		}
	}
}
