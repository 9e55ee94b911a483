package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// remarks comments all types and fields that the actions are made of.
func remarks(actions ...Action) Comments {
	c := Comments{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice:
			visit(t.Elem())
		case reflect.Struct:
			named := t.Name() != "" // no source says anything of others
			if named {
				c[t.String()] = t.Name() + " is a [" + t.Name() + "]."
			}
			for i := range t.NumField() {
				if named {
					c[t.String()+"."+t.Field(i).Name] = "About " + t.Field(i).Name + "."
				}
				visit(t.Field(i).Type)
			}
		}
	}
	visit(reflect.TypeFor[ErrorResponse]())
	for _, a := range actions {
		visit(a.Request)
		visit(a.Response)
	}
	return c
}

// describe makes a document of actions and finds a part of it.
func describe(t *testing.T, actions []Action, path ...string) any {
	t.Helper()
	b, err := OpenAPI(actions, remarks(actions...))
	if err != nil {
		t.Fatal(err)
	}
	var part any
	if err := json.Unmarshal(b, &part); err != nil {
		t.Fatal(err)
	}
	for _, name := range path {
		part = part.(map[string]any)[name]
	}
	return part
}

func plantTrees() Action {
	return Action{
		Name: "PlantTrees", Family: "Tree", Request: reflect.TypeFor[PlantTreesRequest](),
		Response: reflect.TypeFor[struct {
			Plots []*plot
			Crate *crate
			NextPage
		}](),
	}
}

func TestOpenAPISchemas(t *testing.T) {
	t.Parallel()
	ref := func(name string) map[string]any { return map[string]any{"$ref": "#/components/schemas/" + name} }
	for path, want := range map[string]any{
		"PlantTreesRequest.required":               []any{"Count"},
		"PlantTreesRequest.additionalProperties":   false,
		"PlantTreesRequest.description":            "PlantTreesRequest is a PlantTreesRequest.",
		"PlantTreesRequest.properties.DryRun.type": "boolean",
		"PlantTreesRequest.properties.Count":       map[string]any{"type": "integer", "description": "About Count."},
		"PlantTreesRequest.properties.Height": map[string]any{"type": "number", "format": "double",
			"description": "About Height."},
		"PlantTreesRequest.properties.Deciduous": map[string]any{"type": "boolean", "nullable": true,
			"description": "About Deciduous."},
		"PlantTreesRequest.properties.Species": map[string]any{"type": "string", "enum": []any{"oak", "beech"},
			"default": "oak", "description": "About Species."},
		"PlantTreesRequest.properties.Rows": map[string]any{"type": "integer", "minimum": -2.0, "maximum": 20.0,
			"description": "About Rows."},
		"PlantTreesRequest.properties.When": map[string]any{"type": "string", "format": "date-time",
			"description": "About When."},
		"PlantTreesRequest.properties.Labels": map[string]any{"type": "array", "items": map[string]any{"type": "string"},
			"description": "About Labels."},
		"PlantTreesRequest.properties.Soil":       map[string]any{"allOf": []any{ref("Soil")}, "description": "About Soil."},
		"PlantTreesRequest.properties.Tags.items": ref("ResourceTag"),
		"PlantTreesRequest.properties.NextPageToken": map[string]any{"type": "string", "format": "byte",
			"description": "About NextPageToken."},
		"PlantTreesRequest.properties.ResultsPerPage": map[string]any{"type": "integer", "minimum": 1.0, "maximum": 1000.0,
			"default": 100.0, "description": "About ResultsPerPage."},
		"FiltersTrees.properties.Species.items":                   map[string]any{"type": "string", "enum": []any{"oak", "beech"}},
		"Soil.required":                                           []any{"Acid"},
		"PlantTreesResponse.properties.Plots":                     map[string]any{"type": "array", "items": ref("plot")},
		"PlantTreesResponse.properties.Crate":                     ref("crate"),
		"PlantTreesResponse.properties.ResponseContext":           ref("ResponseContext"),
		"PlantTreesResponse.properties.NextPageToken.description": "About NextPageToken.",
		"plot.properties.Generation":                              nil, // never shown
		"crate.properties.Maybe.nullable":                         true,
		"crate.properties.Computed.type":                          "integer",
		"ErrorResponse.properties.Errors.items":                   ref("Errors"),
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			got := describe(t, []Action{plantTrees()}, append([]string{"components", "schemas"}, strings.Split(path, ".")...)...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func TestOpenAPIOperations(t *testing.T) {
	t.Parallel()
	plant, dates := plantTrees(), Action{
		Name: "CreateAccessKey", Family: "AccessKey", Request: reflect.TypeFor[CreateAccessKeyRequest](), Response: reflect.TypeFor[struct{}](),
	}
	old := Action{Name: "ReadSecretAccessKey", Request: reflect.TypeFor[CheckGardensRequest](), Response: reflect.TypeFor[struct{}]()}
	for name, tt := range map[string]struct {
		action Action
		path   string
		want   any
	}{
		"its name":       {plant, "operationId", "PlantTrees"},
		"its family":     {plant, "tags", []any{"Tree"}},
		"what it is for": {plant, "description", "Is a PlantTreesRequest."},
		"who may call":   {plant, "security", nil}, // as everywhere: who signs
		"or log in": {plant.WithAuth(SignedOrPassword), "security",
			[]any{map[string]any{"ApiKeyAuth": []any{}}, map[string]any{"BasicAuth": []any{}}}},
		"or anybody":       {plant.WithAuth(Open), "security", []any{}},
		"what it is asked": {plant, "requestBody.content.application/json.schema.$ref", "#/components/schemas/PlantTreesRequest"},
		"what it answers":  {plant, "responses.200.content.application/json.schema.$ref", "#/components/schemas/PlantTreesResponse"},
		"what it refuses":  {plant, "responses.401.$ref", "#/components/responses/Refusal"},
		"since always":     {dates, "x-bastide-since", nil},
		"until when":       {old, "x-bastide-until", "1.29.3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := append([]string{"paths", "/" + tt.action.Name, "post"}, strings.Split(tt.path, ".")...)
			if diff := cmp.Diff(tt.want, describe(t, []Action{tt.action}, path...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.path, diff)
			}
		})
	}
	since := describe(t, []Action{dates}, "components", "schemas", "CreateAccessKeyRequest", "properties", "Tag", "x-bastide-since")
	if since != "1.40.1" {
		t.Errorf("the tag of an access key is there since %v, want 1.40.1", since)
	}
}

func TestOpenAPIIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	actions := append(newTown(t).api.Actions(), plantTrees())
	first, err := OpenAPI(actions, remarks(actions...))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(first, []byte("{\n  \"components\": {\n")) || !bytes.HasSuffix(first, []byte("}\n")) {
		t.Errorf("the document is not indented by two spaces and ended: %.40s", first)
	}
	slices.Reverse(actions)
	for range 10 {
		if again, err := OpenAPI(actions, remarks(actions...)); err != nil || !bytes.Equal(again, first) {
			t.Fatalf("the document changes from time to time (%v):\n%s", err, cmp.Diff(string(first), string(again)))
		}
	}
}

func TestOpenAPIFindsWhatIsNotDescribed(t *testing.T) {
	t.Parallel()
	comments := remarks(plantTrees())
	delete(comments, "api.Soil")
	delete(comments, "api.PlantTreesRequest.Rows")
	delete(comments, "api.PlantTreesRequest.Soil") // which its type describes
	_, err := OpenAPI([]Action{plantTrees()}, comments)
	if want := "api.PlantTreesRequest.Rows has no comment to describe it\napi.Soil has no comment to describe it"; err == nil ||
		err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestOpenAPIRefusesTwoMeanings(t *testing.T) {
	t.Parallel()
	type Soil struct{ Wet bool }
	twice := Action{Name: "CheckGardens", Request: reflect.TypeFor[CheckGardensRequest](), Response: reflect.TypeFor[struct{ Soil Soil }]()}
	_, err := OpenAPI([]Action{plantTrees(), twice}, remarks(plantTrees(), twice))
	if err == nil || !strings.Contains(err.Error(), "the schema Soil is both") {
		t.Errorf("two types called Soil: %v", err)
	}
	odd := Action{Name: "CheckGardens", Request: reflect.TypeFor[CheckGardensRequest](),
		Response: reflect.TypeFor[struct{ A map[string]int }]()}
	if _, err := OpenAPI([]Action{odd}, remarks(odd)); err == nil || !strings.Contains(err.Error(), "has no schema") {
		t.Errorf("a map: %v", err)
	}
}
