// Package oapi is the protocol of the main API: POST …/api/v1/<Action>, with
// JSON objects as request and response.
package oapi

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/wire"
)

// Protocol implements [wire.Protocol].
type Protocol struct{}

// ContentType implements [wire.Protocol]. Clients decode no other type.
func (Protocol) ContentType() string { return "application/json" }

// Recognise implements [wire.Protocol]. Requests that no other protocol
// recognises belong to this one.
func (Protocol) Recognise(*http.Request) bool { return true }

// Decode implements [wire.Protocol].
func (Protocol) Decode(r *http.Request, body []byte) (wire.Call, error) {
	action, version, err := route(r.URL.Path)
	call := wire.Call{API: "oapi", Action: action, Version: version, Body: body}
	if err == nil && r.Method != http.MethodPost {
		err = apierror.MethodNotAllowed.Errorf("Actions are called with POST, not %s.", r.Method)
	}
	return call, err
}

// route returns the action and the version in a path. Clients use any prefix,
// repeat slashes, and give a version, latest or neither.
func route(path string) (string, api.Version, error) {
	parts := slices.DeleteFunc(strings.Split(path, "/"), func(part string) bool { return part == "" })
	action := ""
	if len(parts) > 0 {
		action = parts[len(parts)-1]
	}
	if action == "" || isLabel(action) {
		return action, api.Latest, apierror.UnknownAction.Errorf("The path names no action: call POST /api/v1/<Action>.")
	}
	if len(parts) < 2 {
		return action, api.Latest, nil
	}
	label := strings.TrimPrefix(parts[len(parts)-2], "v")
	if !isLabel(parts[len(parts)-2]) || !strings.Contains(label, ".") {
		// v0, v1 and latest are the newest version; anything else is part of
		// the client's prefix.
		return action, api.Latest, nil
	}
	version, err := api.ParseVersion(label)
	if err != nil || version.Major != api.Latest.Major {
		return action, api.Latest, apierror.UnknownAction.Errorf("There is no version %s of the API.", label)
	}
	return action, version, nil
}

// isLabel reports whether a part of a path is a version.
func isLabel(part string) bool {
	digits, ok := strings.CutPrefix(part, "v")
	return part == "latest" || ok && digits != "" && strings.Trim(digits, "0123456789.") == ""
}

// Encode implements [wire.Protocol].
func (Protocol) Encode(b []byte, call wire.Call, requestID string, response reflect.Value) []byte {
	if response.IsValid() {
		b = api.AppendAs(b, response, call.Action+"Response", call.Version)
		b = b[:len(b)-1]
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
	} else {
		b = append(b, '{')
	}
	return append(appendContext(b, requestID), '}')
}

func appendContext(b []byte, requestID string) []byte {
	b = append(b, `"ResponseContext":{"RequestId":"`...)
	b = append(b, requestID...)
	return append(b, `"}`...)
}

// refusal is an error in the form of the main API.
type refusal struct{ Errors []problem }

type problem struct {
	Type    string
	Details string
	Code    string
}

// Refuse implements [wire.Protocol].
func (Protocol) Refuse(b []byte, call wire.Call, requestID string, err error) ([]byte, int) {
	f := apierror.From(err)
	b = api.Append(b, reflect.ValueOf(refusal{[]problem{{f.Code.Type(), f.Details, f.Code.String()}}}), call.Version)
	b = append(b[:len(b)-1], ',')
	return append(appendContext(b, requestID), '}'), status(call.Action, f.Code)
}

// decoded lists the actions for which the clients of the main API decode a
// status other than 400, 401 and 500. For any other action they would show raw
// text instead of the error. Source: facts/observed-behaviour.md, section 1.
var decoded = map[string]int{
	"AcceptNetPeering": 409, "RejectNetPeering": 409, "DeleteNetPeering": 409, "CreateKeypair": 409,
	"CreateLoadBalancer": 409, "UpdateLoadBalancer": 409, "DeleteLoadBalancerPolicy": 409, "CreateNatService": 409,
	"CreateNet": 409, "CreateSubnet": 409, "DeleteSubnet": 409, "DeleteSecurityGroup": 409, "UnlinkPrivateIps": 409,
	"UnlinkInternetService": 424,
	"AddUserToUserGroup":    404,
}

// status returns the HTTP status of an error of an action.
func status(action string, code apierror.Code) int {
	s := code.Status()
	if (s == 409 || s == 424) && decoded[action] != s {
		return 400
	}
	if code.Type() == "InvalidResource" && decoded[action] == 404 {
		return 404
	}
	return s
}
