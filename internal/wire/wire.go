// Package wire is the common interface of protocols: each recognises its
// requests, decodes them to named calls, and encodes the results. No protocol
// names a family's type.
package wire

import (
	"net/http"
	"reflect"

	"github.com/bastide-cloud/bastide/internal/api"
)

// Call is a decoded request.
type Call struct {
	API     string // the protocol, as ReadApiLogs shows it
	Action  string
	Version api.Version
	Body    []byte // the parameters, as a JSON object
}

// Protocol decodes the requests and encodes the responses of one sort of
// clients.
type Protocol interface {
	// Recognise reports whether a request is for this protocol.
	Recognise(r *http.Request) bool
	// Decode decodes a request. If it fails, the call has as much as is known.
	Decode(r *http.Request, body []byte) (Call, error)
	// Encode appends the response to a call that succeeded.
	Encode(b []byte, call Call, requestID string, response reflect.Value) []byte
	// Refuse appends the response to a call that failed, and returns its
	// status.
	Refuse(b []byte, call Call, requestID string, err error) ([]byte, int)
	// ContentType returns the media type of all responses.
	ContentType() string
}
