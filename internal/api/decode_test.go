package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// PlantTreesRequest has a parameter of every sort.
type PlantTreesRequest struct {
	Count     int `api:"required"`
	Height    float64
	Deciduous *bool
	Species   species `default:"oak"`
	Rows      rows
	Range     CIDR
	PlotId    plotID
	When      DateTime
	Labels    []string
	Soil      *Soil
	Tags      []Tag
	Filters   *FiltersTrees
	Page
}

// Soil is a struct within a request.
type Soil struct {
	Acid   bool `api:"required"`
	Layers []Layer
}

// Layer is a struct within a list.
type Layer struct{ Depth int }

// FiltersTrees is where ids need not be well formed.
type FiltersTrees struct {
	PlotIds []plotID
	Species []species
}

type species string

func (species) Literals() []string { return []string{"oak", "beech"} }

type rows int

func (rows) Bounds() (low, high int64) { return -2, 20 }

func decodeTrees(body string) (req PlantTreesRequest, dryRun bool, err error) {
	dryRun, err = decode([]byte(body), Latest, reflect.ValueOf(&req).Elem())
	return req, dryRun, err
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	// planted is a request with what is there without being given.
	planted := func(change func(*PlantTreesRequest)) PlantTreesRequest {
		req := PlantTreesRequest{Count: 3, Species: "oak", Page: Page{ResultsPerPage: 100}}
		change(&req)
		return req
	}
	for name, tt := range map[string]struct {
		body string
		want PlantTreesRequest
	}{
		"what is required": {`{"Count":3}`, planted(func(*PlantTreesRequest) {})},
		"everything": {
			`{"Count":3,"Height":1.5,"Deciduous":false,"Species":"beech","Rows":-2,"Range":"10.0.0.0/8","PlotId":"plot-0123abcd",` +
				`"When":"2026-11-20T10:04:05.678Z","Labels":["a",""],"Soil":{"Acid":false,"Layers":[{"Depth":1},{}]},` +
				`"Tags":[{"Key":"k","Value":""}],"Filters":{"PlotIds":["plot-00000000"]},"NextPageToken":"x","ResultsPerPage":1}`,
			PlantTreesRequest{
				Count: 3, Height: 1.5, Deciduous: new(bool), Species: "beech", Rows: -2, Range: "10.0.0.0/8", PlotId: "plot-0123abcd",
				When: 1795169045678, Labels: []string{"a", ""}, Soil: &Soil{Layers: []Layer{{1}, {}}},
				Tags: []Tag{{Key: "k"}}, Filters: &FiltersTrees{PlotIds: []plotID{"plot-00000000"}},
				Page: Page{NextPageToken: "x", ResultsPerPage: 1},
			},
		},
		"space around": {" \r\n\t{ \"Count\" : 3 }\n", planted(func(*PlantTreesRequest) {})},
		"null for what is not given": {
			`{"Count":3,"Deciduous":null,"Species":null,"Labels":null,"Soil":null,"PlotId":null,"When":null,"DryRun":null}`,
			planted(func(*PlantTreesRequest) {}),
		},
		"the longest list": {`{"Count":3,"Labels":["a"` + strings.Repeat(`,"a"`, 999) + `]}`,
			planted(func(r *PlantTreesRequest) { r.Labels = slices.Repeat([]string{"a"}, 1000) })},
		"an empty list is a list": {`{"Count":3,"Labels":[]}`, planted(func(r *PlantTreesRequest) { r.Labels = []string{} })},
		"an empty id is none":     {`{"Count":3,"PlotId":""}`, planted(func(*PlantTreesRequest) {})},
		"escapes": {`{"\u0043ount":3,"Labels":["\u00e9\n\ud83c\udf33"]}`,
			planted(func(r *PlantTreesRequest) { r.Labels = []string{"é\n🌳"} })},
		"a filter by a strange id": {`{"Count":3,"Filters":{"PlotIds":["vpc-1","x"],"Species":["elm"]}}`, planted(func(r *PlantTreesRequest) {
			r.Filters = &FiltersTrees{PlotIds: []plotID{"vpc-1", "x"}, Species: []species{"elm"}}
		})},
		"a number without its dot": {`{"Count":3,"Height":2}`, planted(func(r *PlantTreesRequest) { r.Height = 2 })},
		"a date":                   {`{"Count":3,"When":"1970-01-02"}`, planted(func(r *PlantTreesRequest) { r.When = 86_400_000 })},
		"the largest integer":      {`{"Count":9223372036854775807}`, planted(func(r *PlantTreesRequest) { r.Count = 1<<63 - 1 })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, dryRun, err := decodeTrees(tt.body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s is read otherwise (-want +got):\n%s", tt.body, diff)
			}
			if dryRun {
				t.Error("it is taken for a dry run")
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body    string
		code    apierror.Code
		details string // part of the sentence
	}{
		"no body":                    {"", apierror.MissingParameter, "Count is required"},
		"null":                       {"null", apierror.MissingParameter, "Count is required"},
		"null for a required one":    {`{"Count":null}`, apierror.MissingParameter, "Count is required"},
		"an unknown one":             {`{"Count":3,"Colour":"red"}`, apierror.UnknownParameter, "Colour is not a parameter of PlantTrees"},
		"another case":               {`{"count":3}`, apierror.UnknownParameter, "count is not"},
		"an embedded struct by name": {`{"Count":3,"Page":{}}`, apierror.UnknownParameter, "Page is not"},
		"an unknown one within": {`{"Count":3,"Soil":{"Acid":true,"Layers":[{"Depth":1},{"Width":1}]}}`, apierror.UnknownParameter,
			"Soil.Layers.1.Width is not a parameter of Layer"},
		"a missing one within": {`{"Count":3,"Soil":{}}`, apierror.MissingParameter, "Soil.Acid is required"},
		"a missing one in a list": {`{"Count":3,"Tags":[{"Key":"a","Value":"b"},{"Key":"c"}]}`, apierror.MissingParameter,
			"Tags.1.Value is required"},
		"a dry run within":           {`{"Count":3,"Soil":{"Acid":true,"DryRun":true}}`, apierror.UnknownParameter, "Soil.DryRun is not"},
		"one given twice":            {`{"Count":3,"Count":3}`, apierror.UnknownParameter, "Count is given twice"},
		"one given twice, escaped":   {`{"Count":3,"\u0043ount":3}`, apierror.UnknownParameter, "Count is given twice"},
		"one given twice within":     {`{"Count":3,"Soil":{"Acid":true,"Acid":true}}`, apierror.UnknownParameter, "Soil.Acid is given twice"},
		"a text for an integer":      {`{"Count":"3"}`, apierror.InvalidType, "Count must be an integer"},
		"a fraction for an integer":  {`{"Count":3.5}`, apierror.InvalidType, "Count must be an integer"},
		"an integer too large":       {`{"Count":9223372036854775808}`, apierror.InvalidType, "Count must be an integer"},
		"an exponent for an integer": {`{"Count":1e99999}`, apierror.InvalidType, "Count must be an integer"},
		"a number too large":         {`{"Count":3,"Height":1e999}`, apierror.InvalidType, "Height must be a number"},
		"a text for a number":        {`{"Count":3,"Height":"1"}`, apierror.InvalidType, "Height must be a number"},
		"a number for a boolean":     {`{"Count":3,"Deciduous":1}`, apierror.InvalidType, "Deciduous must be true or false"},
		"a text for a dry run":       {`{"Count":3,"DryRun":"true"}`, apierror.InvalidType, "DryRun must be true or false"},
		"a number for a text":        {`{"Count":3,"Labels":["a",1]}`, apierror.InvalidType, "Labels.1 must be a string"},
		"null in a list":             {`{"Count":3,"Labels":[null]}`, apierror.InvalidType, "Labels.0 must be a string"},
		"a text for a list":          {`{"Count":3,"Labels":"a"}`, apierror.InvalidType, "Labels must be a list"},
		"a list too long": {`{"Count":3,"Labels":["a"` + strings.Repeat(`,"a"`, 1000) + `]}`, apierror.InvalidCount,
			"Labels has 1001 elements: a list has at most 1000."},
		"a list too long within": {`{"Count":3,"Soil":{"Acid":true,"Layers":[{}` + strings.Repeat(`,{}`, 1999) + `]}}`,
			apierror.InvalidCount, "Soil.Layers has 2000 elements"},
		"a filter too long": {`{"Count":3,"Filters":{"PlotIds":["x"` + strings.Repeat(`,"x"`, 1000) + `]}}`, apierror.InvalidCount,
			"Filters.PlotIds has 1001 elements"},
		"a list too long, cut off":     {`{"Count":3,"Labels":["a"` + strings.Repeat(`,"a"`, 1000), apierror.InvalidType, "ends too early"},
		"a text for an object":         {`{"Count":3,"Soil":"{\"Acid\":true}"}`, apierror.InvalidType, "Soil must be an object"},
		"a text for filters":           {`{"Count":3,"Filters":"{}"}`, apierror.InvalidType, "Filters must be an object"},
		"a list for an object":         {`{"Count":3,"Soil":[]}`, apierror.InvalidType, "Soil must be an object"},
		"an object for a text":         {`{"Count":3,"Range":{}}`, apierror.InvalidType, "Range must be a string"},
		"a number for a date":          {`{"Count":3,"When":1}`, apierror.InvalidType, "When must be a string"},
		"a list":                       {`[{"Count":3}]`, apierror.InvalidType, "must be a JSON object"},
		"a text":                       {`"Count"`, apierror.InvalidType, "must be a JSON object"},
		"something after it":           {`{"Count":3} {}`, apierror.InvalidType, "something follows"},
		"rubbish after it":             {`{"Count":3}x`, apierror.InvalidType, "something follows"},
		"half of it":                   {`{"Count":3`, apierror.InvalidType, "ends too early"},
		"half of a text":               {`{"Count":3,"Labels":["a`, apierror.InvalidType, "ends too early"},
		"half of a list":               {`{"Count":3,"Labels":[`, apierror.InvalidType, "ends too early"},
		"only a brace":                 {`{`, apierror.InvalidType, "ends too early"},
		"no comma":                     {`{"Count":3 "Height":1}`, apierror.InvalidType, "not a JSON object"},
		"a comma too many":             {`{"Count":3,}`, apierror.InvalidType, "not a JSON object"},
		"a name that is a number":      {`{1:2}`, apierror.InvalidType, "not a JSON object"},
		"not JSON":                     {`Count=3`, apierror.InvalidType, "a JSON object"},
		"bytes that are no text":       {"{\"Count\":3,\"Labels\":[\"\xff\"]}", apierror.InvalidType, "not a JSON object"},
		"half a surrogate":             {`{"Count":3,"Labels":["\ud83c"]}`, apierror.InvalidType, "not a JSON object"},
		"a deep nest":                  {strings.Repeat("[", 1<<20), apierror.InvalidType, "must be a JSON object"},
		"a deep nest within":           {`{"Count":3,"Labels":` + strings.Repeat("[", 1<<20), apierror.InvalidType, "Labels.0 must be a string"},
		"a deep nest of unknown names": {strings.Repeat(`{"a":`, 1<<18), apierror.UnknownParameter, "a is not"},
		"none of those allowed":        {`{"Count":3,"Species":"elm"}`, apierror.InvalidValue, "Species: 'elm' is none of oak, beech"},
		"too small":                    {`{"Count":3,"Rows":-3}`, apierror.InvalidValue, "Rows: -3 is not between -2 and 20"},
		"too large":                    {`{"Count":3,"Rows":21}`, apierror.InvalidValue, "Rows: 21 is not between -2 and 20"},
		"an empty page":                {`{"Count":3,"ResultsPerPage":0}`, apierror.InvalidValue, "ResultsPerPage: 0"},
		"a page too large":             {`{"Count":3,"ResultsPerPage":1001}`, apierror.InvalidValue, "ResultsPerPage: 1001"},
		"what checks itself":           {`{"Count":3,"Range":"10.0.0.1/8"}`, apierror.InvalidBlock, "Range: '10.0.0.1/8' has bits"},
		"what checks itself, a struct": {`{"Count":3,"Tags":[{"Key":"","Value":"x"}]}`, apierror.InvalidTagKey, "Tags.0: "},
		"no date":                      {`{"Count":3,"When":"tomorrow"}`, apierror.InvalidValue, "When: 'tomorrow' is not a date"},
		"an id of another kind":        {`{"Count":3,"PlotId":"vpc-12345678"}`, apierror.InvalidID, "PlotId: 'vpc-12345678'"},
		"an id of the wrong form":      {`{"Count":3,"PlotId":"plot-1234567G"}`, apierror.MalformedID, "PlotId: 'plot-1234567G'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := decodeTrees(tt.body)
			f, ok := errors.AsType[*apierror.Error](err)
			if !ok {
				t.Fatalf("%.100s: the error is %v, which is no fault", tt.body, err)
			}
			if f.Code != tt.code || !strings.Contains(f.Details, tt.details) {
				t.Errorf("%.100s: refused with %s %q, want %s %q", tt.body, f.Code, f.Details, tt.code, tt.details)
			}
		})
	}
}

func TestDecodeDryRun(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"Count":3,"DryRun":true}`: true, `{"DryRun":false,"Count":3}`: false, `{"Count":3}`: false,
	} {
		if _, got, err := decodeTrees(body); err != nil || got != want {
			t.Errorf("%s is a dry run: %v (%v), want %v", body, got, err, want)
		}
	}
}

// CreateAccessKeyRequest bears the name of a schema whose Tag came with 1.40.1,
// and its UserName with 1.28.5.
type CreateAccessKeyRequest struct{ Tag, UserName string }

// FiltersNic bears the name of a schema that lost LinkNicSortNumbers after 1.1.
type FiltersNic struct{ LinkNicSortNumbers []int }

func TestDecodeByVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		version string
		request any
		body    string
		ok      bool
	}{
		{"1.42.0", &CreateAccessKeyRequest{}, `{"Tag":"a"}`, true},
		{"1.40.1", &CreateAccessKeyRequest{}, `{"Tag":"a"}`, true},
		{"1.39.9", &CreateAccessKeyRequest{}, `{"Tag":"a"}`, false},
		{"1.29.3", &CreateAccessKeyRequest{}, `{"Tag":null}`, false},
		{"1.1", &FiltersNic{}, `{"LinkNicSortNumbers":[1]}`, true},
		{"1.42.0", &FiltersNic{}, `{"LinkNicSortNumbers":[1]}`, false},
	} {
		version, err := ParseVersion(tt.version)
		if err != nil {
			t.Fatal(err)
		}
		_, err = decode([]byte(tt.body), version, reflect.ValueOf(tt.request).Elem())
		if tt.ok && err != nil || !tt.ok && !apierror.UnknownParameter.Is(err) {
			t.Errorf("%s %T %s: the error is %v, want one: %v", tt.version, tt.request, tt.body, err, !tt.ok)
		}
	}
}

func TestDefaultsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]any{
		"a pointer": struct {
			A *int `default:"1"`
		}{},
		"another type": struct {
			A int `default:"x"`
		}{},
		"not allowed": struct {
			A species `default:"elm"`
		}{},
		"out of bounds": struct {
			A rows `default:"21"`
		}{},
		"a wrong format": struct {
			A CIDR `default:"here"`
		}{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Errorf("%T is accepted", request)
				}
			}()
			parametersOf(reflect.TypeOf(request))
		})
	}
}

// TestDecodeReadsWhatEncodingJSONWrites takes another program's idea of JSON.
func TestDecodeReadsWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := PlantTreesRequest{
			Count:   rapid.Int().Draw(t, "count"),
			Height:  rapid.Float64().Draw(t, "height"),
			Species: rapid.SampledFrom([]species{"oak", "beech"}).Draw(t, "species"),
			Rows:    rows(rapid.IntRange(-2, 20).Draw(t, "rows")),
			Range:   "10.0.0.0/8",
			Labels:  rapid.SliceOf(rapid.String()).Draw(t, "labels"),
			Soil:    &Soil{Acid: rapid.Bool().Draw(t, "acid"), Layers: []Layer{{rapid.Int().Draw(t, "depth")}}},
			Tags:    []Tag{{Key: "k", Value: rapid.StringMatching(`[^"]{0,20}`).Draw(t, "value")}},
			Page:    Page{ResultsPerPage: 7},
		}
		// What encoding/json writes of the same struct is a request.
		members := map[string]any{}
		for _, f := range reflect.VisibleFields(reflect.TypeFor[PlantTreesRequest]()) {
			if v := reflect.ValueOf(want).FieldByIndex(f.Index); !f.Anonymous && f.Name != "When" {
				members[f.Name] = v.Interface()
			}
		}
		body, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := decodeTrees(string(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if want.Labels == nil {
			got.Labels = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s is read otherwise (-want +got):\n%s", body, diff)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		``, `null`, `{}`, `{"Count":3}`, `{"Count":3,"DryRun":true}`, `{"Count":1e9}`, `{"Count":3,"Tags":[{"Key":"a","Value":"b"}]}`,
		`{"Count":3,"Soil":{"Acid":true,"Layers":[{"Depth":1}]}}`, `{"Count":3,"When":"2026-11-20T10:04:05.678+0100"}`,
		`{"Count":3,"Filters":{"PlotIds":["x"]},"ResultsPerPage":5}`, `{"Count":3,"Count":4}`, `{"Range":"10.0.0.0/8","Count":3}`,
		"{\"Count\":3,\"Labels\":[\"\xff\"]}", `[[[[`, "{\"Count\":0}\v",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, dryRun, err := decodeTrees(string(body))
		if err != nil {
			if _, ok := errors.AsType[*apierror.Error](err); !ok {
				t.Fatalf("%q is refused with %v, which is no fault", body, err)
			}
			return
		}
		// What is accepted is JSON, and has what it must.
		if len(strings.TrimSpace(string(body))) == 0 || !json.Valid(body) {
			t.Fatalf("%q is accepted", body)
		}
		if n := req.ResultsPerPage; n < 1 || n > 1000 || req.Rows < -2 || req.Rows > 20 {
			t.Fatalf("%q: %d results per page and %d rows are accepted", body, n, req.Rows)
		}
		again, dryAgain, err := decodeTrees(string(body))
		if err != nil || dryAgain != dryRun || fmt.Sprintf("%+v", again.Labels) != fmt.Sprintf("%+v", req.Labels) {
			t.Fatalf("%q is read otherwise the second time: %v", body, err)
		}
	})
}
