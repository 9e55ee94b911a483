package balancer

import (
	"slices"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func tagActions() []api.Action {
	return []api.Action{
		api.Command("LoadBalancer", createLoadBalancerTags),
		api.Command("LoadBalancer", deleteLoadBalancerTags),
		api.Do("LoadBalancer", readLoadBalancerTags),
	}
}

// CreateLoadBalancerTagsRequest adds tags to load balancers: every tag to every load
// balancer. A tag replaces the one of the same key.
type CreateLoadBalancerTagsRequest struct {
	LoadBalancerNames []id.LoadBalancer `api:"required"` // One or more names of load balancers.
	Tags              []api.Tag         `api:"required"` // One or more tags to add.
}

func createLoadBalancerTags(tx *resource.Tx, req *CreateLoadBalancerTagsRequest) error {
	return retag(tx, req.LoadBalancerNames, len(req.Tags), func(lb *LoadBalancer) error { return lb.tag(req.Tags) })
}

// tag adds tags to a load balancer, which the caller writes.
func (lb *LoadBalancer) tag(tags []api.Tag) error {
	tags = resource.WithTags(lb.Tags, resource.UniqueTags(tags))
	if len(tags) > resource.MaxTags {
		return apierror.TooManyTags.Errorf(
			"The load balancer %s would have %d tags: it can have %d.", lb.LoadBalancerName, len(tags), resource.MaxTags)
	}
	lb.Tags = tags
	return nil
}

// ResourceLoadBalancerTag is a tag to delete.
type ResourceLoadBalancerTag struct {
	Key TagKey `api:"required"` // The key of the tag, between 1 and 255 characters.
}

// TagKey is the key of a tag.
type TagKey string

const maxTagKey = 255

// Check reports a text that is the key of no tag.
func (k TagKey) Check() error {
	if n := utf8.RuneCountInString(string(k)); n == 0 || n > maxTagKey {
		return apierror.InvalidTagKey.Errorf("The key of a tag has from 1 to %d characters, and not %d.", maxTagKey, n)
	}
	return nil
}

// DeleteLoadBalancerTagsRequest removes tags from load balancers, by their keys. A
// tag that a load balancer does not have is no error.
type DeleteLoadBalancerTagsRequest struct {
	LoadBalancerNames []id.LoadBalancer         `api:"required"` // One or more names of load balancers.
	Tags              []ResourceLoadBalancerTag `api:"required"` // One or more tags to remove.
}

func deleteLoadBalancerTags(tx *resource.Tx, req *DeleteLoadBalancerTagsRequest) error {
	removed := map[string]bool{}
	for _, t := range req.Tags {
		removed[string(t.Key)] = true
	}
	return retag(tx, req.LoadBalancerNames, len(req.Tags), func(lb *LoadBalancer) error {
		lb.Tags = slices.DeleteFunc(slices.Clone(lb.Tags), func(t api.Tag) bool { return removed[t.Key] })
		return nil
	})
}

// retag changes the tags of load balancers, which no driver is notified of.
func retag(tx *resource.Tx, names []id.LoadBalancer, tags int, change func(*LoadBalancer) error) error {
	switch {
	case len(names) == 0:
		return apierror.MissingParameter.Errorf("LoadBalancerNames is empty: name the load balancers.")
	case tags == 0:
		return apierror.MissingParameter.Errorf("Tags is empty: give at least one tag.")
	}
	for _, name := range once(names) {
		lb, err := balancerNamed(tx, name)
		if err != nil {
			return err
		}
		if err := change(lb); err != nil {
			return err
		}
		if err := LoadBalancers.Put(tx, lb); err != nil {
			return err
		}
	}
	return nil
}

// ReadLoadBalancerTagsRequest lists the tags of load balancers.
type ReadLoadBalancerTagsRequest struct {
	LoadBalancerNames []id.LoadBalancer `api:"required"` // One or more names of load balancers.
}

// ReadLoadBalancerTagsResponse has the tags, load balancer by load balancer.
type ReadLoadBalancerTagsResponse struct {
	Tags []LoadBalancerTag // The tags.
}

// LoadBalancerTag is a tag and the load balancer that has it.
type LoadBalancerTag struct {
	Key              string          // The key of the tag.
	LoadBalancerName id.LoadBalancer // The name of the load balancer.
	Value            string          // The value of the tag.
}

func readLoadBalancerTags(tx *resource.Tx, req *ReadLoadBalancerTagsRequest) (*ReadLoadBalancerTagsResponse, error) {
	tags := []LoadBalancerTag{}
	for _, name := range once(req.LoadBalancerNames) {
		lb, err := balancerNamed(tx, name)
		if err != nil {
			return nil, err
		}
		for _, t := range lb.Tags {
			tags = append(tags, LoadBalancerTag{t.Key, name, t.Value})
		}
	}
	return &ReadLoadBalancerTagsResponse{tags}, nil
}
