package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// Comments are what the source code says about types and their fields, under
// names such as `iam.User` and `iam.User.Path`.
type Comments map[string]string

// ErrorResponse is the body of the answer to a call that is refused.
type ErrorResponse struct {
	Errors          []Errors        // Why the call is refused.
	ResponseContext ResponseContext // Information about the context of the response.
}

// Errors is a reason why a call is refused.
type Errors struct {
	Code    string // The number of the error in the catalogue.
	Details string // A sentence about this case. It may be empty.
	Type    string // The family of the error.
}

// ResponseContext is what every response says about its call.
type ResponseContext struct {
	RequestId string // The ID of the request, as the API log shows it.
}

// OpenAPI describes actions, as the newest version has them, by an OpenAPI 3.0
// document. The same actions and comments make the same bytes. It reports
// types and fields that no comment describes, and types of the same name that
// are not the same.
func OpenAPI(actions []Action, comments Comments) ([]byte, error) {
	d := &document{comments: comments, schemas: object{}, types: map[string]reflect.Type{}}
	paths := object{}
	for _, a := range actions {
		paths["/"+a.Name] = object{"post": d.operation(a)}
	}
	d.schema(reflect.TypeFor[ErrorResponse]())
	content := object{
		"openapi": "3.0.3",
		"info": object{
			"title":       "Bastide",
			"version":     Latest.String(),
			"description": "The actions of a cloud region. Each is called with POST and a JSON object. This document is derived from the program.",
		},
		"servers":  []object{{"url": "/api/v1"}},
		"security": security(Signed),
		"paths":    paths,
		"components": object{
			"schemas": d.schemas,
			"responses": object{"Refusal": object{
				"description": "The call is refused.",
				"content":     jsonOf("ErrorResponse"),
			}},
			"securitySchemes": object{
				"ApiKeyAuth": object{
					"type": "apiKey", "in": "header", "name": "Authorization",
					"description": "A signature made with an access key, by version 4 of the AWS signing process or its OSC variant.",
				},
				"BasicAuth": object{
					"type": "http", "scheme": "basic",
					"description": "The email address and the password of the account.",
				},
			},
		},
	}
	if len(d.faults) > 0 {
		return nil, errors.Join(d.faults...)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(content)
	return b.Bytes(), err
}

// object is a JSON object, which is written with its names in order.
type object = map[string]any

// document is an OpenAPI document in the making.
type document struct {
	comments Comments
	schemas  object
	types    map[string]reflect.Type // of the schemas
	faults   []error
}

func (d *document) operation(a Action) object {
	request, response := SchemaName(a.Request), a.Name+"Response"
	d.define(request, a.Request, object{"DryRun": object{
		"type":        "boolean",
		"description": "If true, only checks whether the caller may perform the action.",
	}})
	d.define(response, a.Response, object{"ResponseContext": d.schema(reflect.TypeFor[ResponseContext]())})
	refusal := object{"$ref": "#/components/responses/Refusal"}
	op := object{
		"operationId": a.Name,
		"tags":        []string{a.Family},
		"description": d.purpose(a.Request),
		"requestBody": object{"content": jsonOf(request)},
		"responses": object{
			"200": object{"description": "The call has succeeded.", "content": jsonOf(response)},
			"400": refusal, "401": refusal, "500": refusal, "default": refusal,
		},
	}
	if a.Auth != Signed {
		op["security"] = security(a.Auth)
	}
	dates(op, a.Name, "")
	return op
}

func jsonOf(schema string) object {
	return object{"application/json": object{"schema": ref(schema)}}
}

func ref(schema string) object { return object{"$ref": "#/components/schemas/" + schema} }

func security(auth Auth) []object {
	switch auth {
	case Open, OpenOrKnown:
		return []object{}
	case SignedOrPassword:
		return []object{{"ApiKeyAuth": []string{}}, {"BasicAuth": []string{}}}
	}
	return []object{{"ApiKeyAuth": []string{}}}
}

// dates adds since and until when the contract has an action or a field.
func dates(o object, name, field string) {
	l := lifetimes[member{name, field}]
	if l.since != (Version{}) {
		o["x-bastide-since"] = l.since.String()
	}
	if l.until != (Version{}) {
		o["x-bastide-until"], o["deprecated"] = l.until.String(), true
	}
}

// define adds the schema of a struct, with properties that no field of it
// stands for.
func (d *document) define(name string, t reflect.Type, properties object) {
	if known, ok := d.types[name]; ok {
		if known != t {
			d.faults = append(d.faults, fmt.Errorf("the schema %s is both %s and %s", name, known, t))
		}
		return
	}
	d.types[name] = t
	schema := object{"type": "object", "additionalProperties": false, "properties": properties}
	d.schemas[name] = schema
	if t.Name() != "" {
		schema["description"] = name + strings.TrimPrefix(d.comment(t.String()), t.Name())
	}
	var required []string
	for _, f := range shown(t, name, Latest) {
		properties[f.Name] = d.property(name, t, f)
		if f.Tag.Get("api") == "required" {
			required = append(required, f.Name)
		}
	}
	if required != nil {
		schema["required"] = required
	}
}

func (d *document) property(schema string, t reflect.Type, f reflect.StructField) object {
	p := d.schema(f.Type)
	facts := object{}
	owner := t // the struct that declares the field: t, or one embedded in it
	for _, i := range f.Index[:len(f.Index)-1] {
		owner = owner.Field(i).Type
	}
	// What holds other structs can leave the words to them. Answers that were
	// put together here have no source that could say anything.
	name := owner.String() + "." + f.Name
	if _, ok := d.comments[name]; ok || owner.Name() != "" && !leads(p) {
		facts["description"] = d.comment(name)
	}
	if format := f.Tag.Get("format"); format != "" {
		facts["format"] = format
	}
	if preset := parametersOf(t).byName[f.Name].preset; preset.IsValid() {
		facts["default"] = preset.Interface()
	}
	dates(facts, schema, f.Name)
	if _, ok := p["$ref"]; ok && len(facts) > 0 {
		p = object{"allOf": []object{p}} // nothing may stand beside a reference
	}
	for name, fact := range facts {
		p[name] = fact
	}
	return p
}

// leads reports whether a schema refers to another one, or lists such.
func leads(schema object) bool {
	if items, ok := schema["items"].(object); ok {
		return leads(items)
	}
	return schema["$ref"] != nil
}

// schema describes a type; one with a name of its own by reference.
func (d *document) schema(t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		s := d.schema(t.Elem())
		if _, ok := s["$ref"]; !ok {
			s["nullable"] = true
		}
		return s
	}
	s := object{}
	zero := reflect.Zero(t).Interface()
	if enum, ok := zero.(Enum); ok && t.Kind() == reflect.String {
		s["enum"] = enum.Literals()
	}
	if bounded, ok := zero.(Bounded); ok {
		s["minimum"], s["maximum"] = bounded.Bounds()
	}
	if _, ok := zero.(textual); ok {
		s["type"], s["format"] = "string", "date-time"
		return s
	}
	switch t.Kind() {
	case reflect.Slice:
		item := t.Elem()
		if item.Kind() == reflect.Pointer {
			item = item.Elem() // lists hold pointers to spare copies
		}
		s["type"], s["items"] = "array", d.schema(item)
	case reflect.Struct:
		d.define(SchemaName(t), t, object{})
		return ref(SchemaName(t))
	case reflect.String:
		s["type"] = "string"
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int, reflect.Int64:
		s["type"] = "integer"
	case reflect.Float64:
		s["type"], s["format"] = "number", "double"
	default:
		d.faults = append(d.faults, fmt.Errorf("a %s has no schema", t))
	}
	return s
}

// comment is the comment of a type or field.
func (d *document) comment(name string) string {
	text, ok := d.comments[name]
	if !ok {
		d.faults = append(d.faults, fmt.Errorf("%s has no comment to describe it", name))
	}
	return links.ReplaceAllString(text, "$1")
}

// links are references to other names in the source code.
var links = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// purpose is what an action does, as the comment of its request says it:
// "ReadNetsRequest lists Nets." makes "Lists Nets."
func (d *document) purpose(request reflect.Type) string {
	text := strings.TrimPrefix(d.comment(request.String()), SchemaName(request)+" ")
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}
