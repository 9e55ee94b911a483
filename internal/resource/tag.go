package resource

import (
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// ResourceTag is a key and a value that an account attaches to its resources.
type ResourceTag struct {
	Key   string `api:"required"` // The key of the tag, between 1 and 255 characters.
	Value string `api:"required"` // The value of the tag, between 0 and 255 characters.
}

// Tag is a tag and the resource that has it.
type Tag struct {
	Key          string // The key of the tag, between 1 and 255 characters.
	Value        string // The value of the tag, between 0 and 255 characters.
	ResourceId   string // The ID of the resource.
	ResourceType string // The type of the resource.
}

// maxTagLength bounds keys and values, in characters: a key of 256 is refused
// by the real service.
const maxTagLength = 255

// MaxTags is how many tags a resource can have. The real service refuses more
// than some number that it does not publish; AWS's is 50.
const MaxTags = 50

// Check reports a tag that no resource may have.
func (t ResourceTag) Check() error {
	switch {
	case t.Key == "":
		return apierror.InvalidTagKey.Errorf("The key of a tag has at least one character.")
	case utf8.RuneCountInString(t.Key) > maxTagLength:
		return apierror.InvalidLength.Errorf("The key of a tag has at most %d characters.", maxTagLength)
	case utf8.RuneCountInString(t.Value) > maxTagLength:
		return apierror.TagValueTooLong.Errorf("The value of a tag has at most %d characters.", maxTagLength)
	}
	return nil
}

// compareTags orders tags by key: the order in which they are shown.
func compareTags(a, b ResourceTag) int { return strings.Compare(a.Key, b.Key) }

// UniqueTags is the list in order of keys. Of several tags of a key it has the
// last one.
func UniqueTags(tags []ResourceTag) []ResourceTag {
	tags = slices.Clone(tags)
	slices.Reverse(tags)
	slices.SortStableFunc(tags, compareTags)
	return slices.CompactFunc(tags, func(a, b ResourceTag) bool { return a.Key == b.Key })
}

// WithTags returns the list with more tags, which replace tags of the same
// keys. Both lists are in the form of [UniqueTags], and so is the result.
func WithTags(tags, more []ResourceTag) []ResourceTag {
	merged := make([]ResourceTag, 0, len(tags)+len(more))
	for len(tags) > 0 && len(more) > 0 {
		order := compareTags(tags[0], more[0])
		switch {
		case order < 0:
			merged, tags = append(merged, tags[0]), tags[1:]
		case order > 0:
			merged, more = append(merged, more[0]), more[1:]
		default:
			tags = tags[1:]
		}
	}
	return append(append(merged, tags...), more...)
}

// Tagged is a resource whose tags can be read and set, whatever its kind.
type Tagged struct {
	Kind  string
	Type  string // the resource type in ReadTags
	ID    string
	Seq   uint64 // the order of creation within the account
	value reflect.Value
	tags  int
	kind  Any
}

// Tags are the tags of the resource, ordered by key.
func (t Tagged) Tags() []ResourceTag { return t.value.Elem().Field(t.tags).Interface().([]ResourceTag) }

// Tagged finds the living resource with the id among the kinds that have tags,
// unless it is hidden.
func (tx *Tx) Tagged(id string) (Tagged, bool) {
	for _, k := range tx.db.kinds {
		facts := k.Facts()
		if facts.Tag == "" {
			continue
		}
		if o, ok := tx.snapshot().Get(facts.Name, id); ok && o.DeletedAt == 0 && !IsHidden(o.Value) {
			return Tagged{facts.Name, facts.Tag, id, o.Seq, reflect.ValueOf(o.Value), k.layout().tags, k}, true
		}
	}
	return Tagged{}, false
}

// NotTagged is the refusal of an id that Tagged does not find: the one of the kind
// whose ids look so.
func (tx *Tx) NotTagged(id string) error {
	for _, k := range tx.db.kinds {
		form, _ := FormOf(k.Facts().ID)
		if k.Facts().Tag != "" && form.Check(id) == nil {
			return k.missing(id)
		}
	}
	return apierror.ResourceNotFound.Errorf("The resource '%.100s' doesn't exist, or it cannot have tags.", id)
}

// AllTagged yields every living resource that has at least one tag, kind by
// kind in order of creation.
func (tx *Tx) AllTagged(yield func(Tagged) bool) {
	for _, k := range tx.db.kinds {
		facts := k.Facts()
		if facts.Tag == "" {
			continue
		}
		for o := range tx.scan(facts.Name, 0) {
			t := Tagged{facts.Name, facts.Tag, o.ID, o.Seq, reflect.ValueOf(o.Value), k.layout().tags, k}
			if o.DeletedAt == 0 && len(t.Tags()) > 0 && !yield(t) {
				return
			}
		}
	}
}

// SetTags replaces the tags of the resource, and raises its Generation if
// drivers see them.
func (tx *Tx) SetTags(t Tagged, tags []ResourceTag) {
	t.kind.change(tx, t.ID, func(resource reflect.Value) {
		if resource.Field(t.tags).Set(reflect.ValueOf(tags)); t.kind.Facts().ToldTags {
			touch(resource)
		}
	})
}
