// Package bastide is a cloud region in one program that answers the OUTSCALE
// API. The program is cmd/bastide; this package holds the contract it keeps.
package bastide

import _ "embed"

// OpenAPI is the description of all actions, an OpenAPI 3.0 document. It is
// derived from the Go types of requests and responses: `make derived`.
//
//go:embed openapi.json
var OpenAPI []byte
