package compute

import (
	"encoding/base64"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// UserData is what a VM is told at its creation, in Base64, which may be broken
// into lines.
type UserData string

// maxUserData is how long user data are at most, in Base64.
const maxUserData = 500 << 10

// Check reports a text that is too long or not Base64.
func (u UserData) Check() error {
	if len(u) > maxUserData {
		return fault.InvalidLength.Errorf("User data have at most %d characters in Base64, and these have %d.", maxUserData, len(u))
	}
	if _, err := base64.StdEncoding.DecodeString(withoutSpace(string(u))); err != nil {
		return fault.InvalidValue.Errorf("User data are given in Base64.")
	}
	return nil
}

// The lines around what user data tell the region, be it instead of the VM.
const sectionBegins, sectionEnds = "-----BEGIN OUTSCALE SECTION-----", "-----END OUTSCALE SECTION-----"

// orders are what user data tell the region.
type orders struct {
	privateOnly bool      // a VM of the public Cloud has no public IP
	secret      bool      // the VM does not get to see the orders
	tags        []api.Tag // that the VM gets
}

// read tells the orders in user data from what is for the VM. What is no order
// that the region knows says nothing.
func (u UserData) read() (o orders, forVm []byte) {
	all, _ := base64.StdEncoding.DecodeString(withoutSpace(string(u))) // it was checked
	inside := false
	for line := range strings.Lines(string(all)) {
		text := strings.TrimSpace(line)
		if inside = inside || text == sectionBegins; !inside {
			forVm = append(forVm, line...)
			continue
		}
		inside = text != sectionEnds
		key, value, _ := strings.Cut(text, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch tag, isTag := strings.CutPrefix(key, "tags."); {
		case isTag:
			if t := (api.Tag{Key: tag, Value: value}); t.Check() == nil {
				o.tags = append(o.tags, t)
			}
		case key == "private_only":
			o.privateOnly = value == "true"
		case key == "filter_private_section":
			o.secret = value == "true"
		}
	}
	if !o.secret {
		forVm = all
	}
	return o, forVm
}

// orders are those in user data.
func (u UserData) orders() orders {
	o, _ := u.read()
	return o
}

// setUserData gives a VM user data, and the tags that they order.
func (v *Vm) setUserData(u UserData) (err error) {
	v.UserData = u
	v.Tags, err = withTags(v.Tags, u.orders().tags)
	return err
}

// withTags are tags as resources keep them, with more: one of each key, in order.
func withTags(tags, more []api.Tag) ([]api.Tag, error) {
	tags = kind.WithTags(tags, kind.UniqueTags(more))
	if len(tags) > kind.MaxTags {
		return nil, fault.TooManyTags.Errorf("The resource would have %d tags: it can have %d.", len(tags), kind.MaxTags)
	}
	return tags, nil
}
