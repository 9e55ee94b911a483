package compute

import (
	"encoding/base64"
	"strings"

	"github.com/bastide-cloud/bastide/internal/fault"
)

// UserData is what a VM is told at its creation, in Base64.
type UserData string

// maxUserData is how many bytes user data have at most.
const maxUserData = 500 << 10

// Check reports a text that is not Base64, or too much of it.
func (u UserData) Check() error {
	data, err := base64.StdEncoding.DecodeString(string(u))
	if err != nil {
		return fault.InvalidValue.Errorf("User data are given in Base64.")
	}
	if len(data) > maxUserData {
		return fault.InvalidLength.Errorf("User data have at most %d bytes, and these have %d.", maxUserData, len(data))
	}
	return nil
}

// bytes are the user data as the VM gets them.
func (u UserData) bytes() []byte {
	data, _ := base64.StdEncoding.DecodeString(string(u)) // it was checked
	return data
}

// The lines around what user data tell the region instead of the VM.
const sectionBegins, sectionEnds = "-----BEGIN OUTSCALE SECTION-----", "-----END OUTSCALE SECTION-----"

// privateOnly reports whether user data ask for a VM of the public Cloud that has
// no public IP.
func (u UserData) privateOnly() bool {
	inside := false
	for line := range strings.Lines(string(u.bytes())) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, "=")
		switch {
		case line == sectionBegins:
			inside = true
		case line == sectionEnds:
			inside = false
		case inside && strings.TrimSpace(key) == "private_only":
			return strings.TrimSpace(value) == "true"
		}
	}
	return false
}
