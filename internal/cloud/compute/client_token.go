package compute

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// ClientToken makes a creation repeatable: as long as what it made is there, the
// same token and request make nothing more and answer it again.
type ClientToken string

// maxClientToken is how many characters clients send at most: AWS's number.
const maxClientToken = 64

// Check reports a token that is too long.
func (t ClientToken) Check() error {
	if len(t) > maxClientToken {
		return apierror.InvalidLength.Errorf("ClientToken is longer than %d characters.", maxClientToken)
	}
	return nil
}

// digest tells requests apart. It is kept with what a request made if that has a
// client token.
func digest(req any) string {
	b, err := json.Marshal(req)
	if err != nil {
		panic(fmt.Sprintf("compute: %T is no request: %v", req, err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// checkRepeated refuses a client token that comes again with another request.
func (t ClientToken) checkRepeated(req any, first string) error {
	if digest(req) != first {
		return apierror.TokenMismatch.Errorf("The ClientToken '%s' came with another request before.", t)
	}
	return nil
}
