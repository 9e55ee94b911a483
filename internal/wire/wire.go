// Package wire is what protocols have in common: each recognises its requests,
// makes a named call of the bytes, and bytes of the result. No protocol names
// a family's type.
package wire

import (
	"net/http"
	"reflect"

	"github.com/bastide-cloud/bastide/internal/api"
)

// Call is a request as its protocol understands it.
type Call struct {
	API     string // the protocol, as ReadApiLogs shows it
	Action  string
	Version api.Version
	Body    []byte // the parameters, as a JSON object
}

// Protocol speaks with one sort of clients.
type Protocol interface {
	// Recognise reports whether a request is for this protocol.
	Recognise(r *http.Request) bool
	// Decode makes a call of a request. When it fails, the call it answers
	// says as much as is known.
	Decode(r *http.Request, body []byte) (Call, error)
	// Encode appends the answer to a call. The status is that of success.
	Encode(b []byte, call Call, requestID string, response reflect.Value) []byte
	// Refuse appends the answer to a call that failed, and says its status.
	Refuse(b []byte, call Call, requestID string, err error) ([]byte, int)
	// ContentType is the type of all answers.
	ContentType() string
}
