package acceptance

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bastide-cloud/bastide"
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
)

// document is what these tests read of openapi.json. That it is what the Go
// types say is tested where it is derived.
type document struct {
	Paths map[string]struct {
		Post struct {
			Tags        []string
			Security    *[]map[string][]string
			RequestBody struct{ Content content }
			Responses   map[string]struct{ Content content }
		}
	}
	Components struct {
		Schemas map[string]struct {
			Properties map[string]property
			Required   []string
		}
	}
}

type content struct {
	JSON struct{ Schema property } `json:"application/json"`
}

type property struct {
	Ref     string `json:"$ref"`
	AllOf   []property
	Type    string
	Items   *property
	Format  string
	Default any
}

// name is the type as the contract calls it.
func (p property) name() string {
	switch {
	case p.Ref != "":
		return p.Ref[strings.LastIndex(p.Ref, "/")+1:]
	case len(p.AllOf) == 1:
		return p.AllOf[0].name()
	case p.Type == "array":
		return "[]" + p.Items.name()
	}
	return p.Type
}

// format is that of the items, if it is a list.
func (p property) format() string {
	if p.Type == "array" {
		return p.Items.Format
	}
	return p.Format
}

func readDocument(t *testing.T) (d document) {
	t.Helper()
	if err := json.Unmarshal(bastide.OpenAPI, &d); err != nil {
		t.Fatalf("openapi.json: %v", err)
	}
	return d
}

// securities are what the contract calls the ways to authenticate, by those
// that openapi.json lists.
var securities = map[string]string{"": "key", "ApiKeyAuth BasicAuth": "key+password", "none": "none"}

// ownSchemas are the actions whose request and response have schemas of their own,
// and in the contract those of another action, each with the reason.
var ownSchemas = map[string]string{
	"DisableOutscaleLoginForUsers": "those of DisableOutscaleLogin, which are as empty: every request is named for its action",
}

// The actions are called, belong and authenticate as in the contract.
func TestActionsAreTheContracts(t *testing.T) {
	t.Parallel()
	doc := readDocument(t)
	for _, a := range newTestRegion(t).API.Actions() {
		t.Run(a.Name, func(t *testing.T) {
			want := published.Actions[a.Name]
			if ownSchemas[a.Name] != "" {
				want.Request, want.Response = a.Name+"Request", a.Name+"Response"
			}
			op := doc.Paths["/"+a.Name].Post
			auth := ""
			if op.Security != nil {
				var ways []string
				for _, way := range *op.Security {
					ways = slices.AppendSeq(ways, maps.Keys(way))
				}
				if auth = strings.Join(ways, " "); auth == "" {
					auth = "none"
				}
			}
			got := []string{
				strings.Join(op.Tags, " "), securities[auth],
				op.RequestBody.Content.JSON.Schema.name(), op.Responses["200"].Content.JSON.Schema.name(),
			}
			if diff := cmp.Diff([]string{want.Family, want.Auth, want.Request, want.Response}, got); diff != "" {
				t.Errorf("family, authentication, request and response (-contract +ours):\n%s", diff)
			}
		})
	}
	for path := range doc.Paths {
		if _, ok := published.Actions[path[1:]]; !ok {
			t.Errorf("the contract has no action %s", path)
		}
	}
}

// What is built and what is said to be missing are the contract, and nothing else
// is: each version says of each action whether it is there, is not there yet, or
// was never there.
func TestMissingActionsAreTheContracts(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	built := map[string]bool{}
	for _, a := range w.API.Actions() {
		built[a.Name] = true
	}
	said := func(name string, v api.Version) string {
		_, err := w.API.Find(name, v)
		switch {
		case err == nil:
			return "is there"
		case !apierror.UnknownAction.Is(err):
			return err.Error()
		}
		for _, way := range []string{"does not have yet", "in any version", "does not exist in version " + v.String() + " "} {
			if strings.Contains(err.Error(), way) {
				return way
			}
		}
		return err.Error()
	}
	for name, a := range published.Actions {
		for _, v := range api.Versions {
			want := "does not have yet"
			switch {
			case !span{Since: a.Since}.in(v): // what was dropped since is served on
				want = "does not exist in version " + v.String() + " "
			case built[name]:
				want = "is there"
			}
			if got := said(name, v); got != want {
				t.Errorf("%s in %s: %s, want %s", name, v, got, want)
			}
		}
		if _, err := w.API.Find(strings.ToLower(name), api.Latest); err == nil || !strings.Contains(err.Error(), "called "+name+",") {
			t.Errorf("%s in lower case: %v", name, err)
		}
		delete(built, name)
		if got := said(name+"s", api.Latest); published.Actions[name+"s"].Request == "" && got != "in any version" {
			t.Errorf("%ss: %s", name, got)
		}
	}
	if len(built) > 0 {
		t.Errorf("the contract has no actions %v", built)
	}
}

// like is what a field is like, in the words of the contract.
type like struct {
	Type, Format string
	Required     bool
	Default      any
}

// formats are those that matter, by what the contract calls them.
var formats = map[string]string{"date": "date-time", "datetime": "date-time", "date-time": "date-time", "byte": "byte"}

// departures are the fields that are not as in the contract, each with the
// reason.
var departures = map[string]string{
	"ReadApiLogsRequest.NextPageToken":  "all our tokens are base64, and the contract says so of all lists but this",
	"ReadApiLogsResponse.NextPageToken": "likewise",
	"ReadVmsStopHistoryRequest.DryRun":  "all our actions have dry runs, and in the contract all but a few",

	"CreatePolicyVersionRequest.DryRun":        "likewise",
	"DeletePolicyVersionRequest.DryRun":        "likewise",
	"ReadEntitiesLinkedToPolicyRequest.DryRun": "likewise",
	"ReadPolicyRequest.DryRun":                 "likewise",
	"ReadPolicyVersionRequest.DryRun":          "likewise",
	"ReadPolicyVersionsRequest.DryRun":         "likewise",
	"SetDefaultPolicyVersionRequest.DryRun":    "likewise",
}

// unshown are fields that a version had because requests and answers shared a
// schema, and that no answer has, each with the reason.
var unshown = map[string]string{
	"OsuExportImageExportTask.OsuApiKey":         "a key is never shown",
	"OsuExportSnapshotExportTask.OsuApiKey":      "a key is never shown",
	"OsuExportSnapshotExportTask.OsuManifestUrl": "a snapshot has no manifest",
}

// The schemas of the newest version have the contract's fields, of its types,
// and require what it requires. A default that the contract only mentions in
// its text may be stated.
func TestSchemasAreTheContracts(t *testing.T) {
	t.Parallel()
	doc := readDocument(t)
	for name, ours := range doc.Components.Schemas {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs, ok := published.Schemas[name]
			if !ok {
				t.Fatalf("the contract has no such schema")
			}
			want, got := map[string]like{}, map[string]like{}
			for field, f := range theirs.Fields {
				if f.in(api.Latest) {
					want[field] = like{published.plain(f.Type), formats[f.Format], slices.Contains(theirs.Required, field), f.Default}
				}
			}
			for field, p := range ours.Properties {
				if want[field].Default == nil {
					p.Default = nil
				}
				got[field] = like{p.name(), formats[p.format()], slices.Contains(ours.Required, field), p.Default}
			}
			for field := range got {
				if departures[name+"."+field] != "" {
					delete(want, field)
					delete(got, field)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-contract +ours):\n%s", diff)
			}
		})
	}
}

// Each version has the actions and the fields that the contract says.
func TestVersionsAreTheContracts(t *testing.T) {
	t.Parallel()
	actions := newTestRegion(t).API.Actions()
	for _, v := range api.Versions {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			for _, a := range actions {
				has := v.Has(a.Name, "")
				if want := published.Actions[a.Name].in(v) || stillServed[a.Name] != ""; has != want {
					t.Errorf("that it has %s is %t, and %t in the contract", a.Name, has, want)
				}
				if has {
					compareFields(t, v, a.Name+"Request", a.Request)
					compareFields(t, v, a.Name+"Response", a.Response)
				}
			}
		})
	}
}

// everywhere are the fields of all requests and of all responses, which no Go
// type has. DryRun is taken in all versions; in 1.1 some actions lacked it.
var everywhere = []string{"DryRun", "ResponseContext"}

// compareFields compares the fields that a Go type, and the structs in it, show
// in a version with the contract's.
func compareFields(t *testing.T, v api.Version, name string, typ reflect.Type) {
	t.Helper()
	var want, got []string
	for field, f := range published.schema(v, name).Fields {
		if f.in(v) && !slices.Contains(everywhere, field) && unshown[name+"."+field] == "" {
			want = append(want, field)
		}
	}
	for _, f := range reflect.VisibleFields(typ) {
		if f.Anonymous || !f.IsExported() || f.Tag.Get("wire") == "-" || !v.Has(name, f.Name) {
			continue
		}
		got = append(got, f.Name)
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			compareFields(t, v, api.SchemaName(inner), inner)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-contract +ours):\n%s", name, diff)
	}
}
