package compute

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// UserData is what a VM is told at its creation, in Base64, which may be broken
// into lines.
type UserData string

// maxUserData is how long user data are at most, in Base64.
const maxUserData = 500 << 10

// Check reports a text that is too long or not Base64.
func (u UserData) Check() error {
	if len(u) > maxUserData {
		return apierror.InvalidLength.Errorf("UserData has %[2]d characters in Base64. The maximum is %[1]d.", maxUserData, len(u))
	}
	if _, err := base64.StdEncoding.DecodeString(withoutSpace(string(u))); err != nil {
		return apierror.InvalidValue.Errorf("User data are given in Base64.")
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

// orders are the ones in user data.
func (u UserData) orders() orders {
	o, _ := u.read()
	return o
}

// userText is user data that are too long to be in the document of each VM that
// has them: that is written whenever the state of the VM changes. An account
// keeps a text once, for as long as a living VM has it, and then for as long as a
// terminated VM can be read.
type userText struct {
	UserTextId userTextID
	Text       UserData
}

var userTexts = &resource.Kind[userText, userTextID]{Name: "UserText", Retention: Vms.Retention}

// userTextID is the digest of a text.
type userTextID string

// Form says how a digest looks.
func (userTextID) Form() resource.Form {
	return resource.Form{Length: 32, Alphabet: resource.Hexadecimal}
}

// maxInline is how long user data are at most that are in the document of a VM.
// That of a VM without any has about as many bytes.
const maxInline = 1 << 10

// setUserData gives a VM user data, and the tags that they order. The caller
// writes the VM, and then lets go of what it had before.
func (v *Vm) setUserData(tx *resource.Tx, u UserData) (err error) {
	v.UserData, v.UserTextId = u, ""
	if len(u) > maxInline {
		sum := sha256.Sum256([]byte(u))
		v.UserData, v.UserTextId = "", userTextID(hex.EncodeToString(sum[:16]))
		if !userTexts.Has(tx, v.UserTextId) {
			if err := userTexts.Put(tx, &userText{v.UserTextId, u}); err != nil {
				return err
			}
		}
	}
	v.Tags, err = withTags(v.Tags, u.orders().tags)
	return err
}

// userData are those of a VM, or of a terminated one.
func (v *Vm) userData(tx *resource.Tx) UserData {
	if v.UserTextId == "" {
		return v.UserData
	}
	if t := userTexts.Lookup(tx, v.UserTextId); t != nil {
		return t.Text
	}
	return ""
}

// releaseUserText removes a text that no living VM has any more. An empty ID is none.
func releaseUserText(tx *resource.Tx, textID userTextID) error {
	for range Vms.Of(tx, textID) {
		return nil
	}
	if t := userTexts.Find(tx, textID); t != nil {
		return userTexts.Delete(tx, t)
	}
	return nil
}

// withTags are tags as resources keep them, with more: one of each key, in order.
func withTags(tags, more []api.Tag) ([]api.Tag, error) {
	tags = resource.WithTags(tags, resource.UniqueTags(more))
	if len(tags) > resource.MaxTags {
		return nil, apierror.TooManyTags.Errorf("The resource would have %d tags: it can have %d.", len(tags), resource.MaxTags)
	}
	return tags, nil
}
