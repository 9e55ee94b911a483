package acceptance

import (
	nethttp "net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/api"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	const largest = 1 << 20
	deep := strings.Repeat("[", largest/4) + strings.Repeat("]", largest/4)
	for name, tt := range map[string]struct {
		body    []byte // nil: none at all
		code    string // of the refusal; empty: it succeeds
		details string
	}{
		"none":                   {},
		"empty":                  {body: []byte("")},
		"null":                   {body: []byte("null")},
		"null and a line's end":  {body: []byte("null\n")},
		"an empty object":        {body: []byte("{}")},
		"with a line's end":      {body: []byte("{}\n")},
		"with spaces":            {body: []byte(" \t\r\n{ \"Filters\" : { } } ")},
		"the largest":            {body: []byte("{}" + strings.Repeat(" ", largest-2))},
		"larger":                 {[]byte("{}" + strings.Repeat(" ", largest-1)), "4106", "at most 1048576 bytes"},
		"far larger":             {[]byte(strings.Repeat("x", 5<<20)), "4106", "at most 1048576 bytes"},
		"a list":                 {[]byte("[]"), "4108", "must be a JSON object"},
		"a text":                 {[]byte(`"{}"`), "4108", "must be a JSON object"},
		"a number":               {[]byte("1"), "4108", "must be a JSON object"},
		"two objects":            {[]byte("{}{}"), "4108", "something follows"},
		"half an object":         {[]byte(`{"Filters": {`), "4108", "ends too early"},
		"no JSON":                {[]byte("Action=ReadNets"), "4108", "must be a JSON object"},
		"no UTF-8":               {[]byte("{\"Filters\": \"\xff\"}"), "4108", ""},
		"a name twice":           {[]byte(`{"DryRun": true, "DryRun": true}`), "3001", "DryRun is given twice."},
		"another name's case":    {[]byte(`{"dryRun": true}`), "3001", "dryRun"},
		"an object as a text":    {[]byte(`{"Filters": "{}"}`), "4108", "Filters must be an object."},
		"a deep one":             {[]byte(deep), "4108", ""},
		"a deep one in a filter": {[]byte(`{"Filters": {"NetIds": [` + deep + `]}}`), "4108", "Filters.NetIds.0 must be a string."},
		"an integer in a text":   {[]byte(`{"ResultsPerPage": "10"}`), "4108", "ResultsPerPage must be an integer."},
		"no integer":             {[]byte(`{"ResultsPerPage": 10.5}`), "4108", "ResultsPerPage must be an integer."},
		"an integer too large":   {[]byte(`{"ResultsPerPage": 100000000000000000000}`), "4108", "ResultsPerPage must be an integer."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newTestRegion(t).as("alice").send("POST", "/api/v1/ReadNets", tt.body)
			if (got.status == nethttp.StatusOK) != (tt.code == "") || got.code() != tt.code || !strings.Contains(got.details(), tt.details) {
				t.Errorf("%.200s: %d %s, want %s %s", tt.body, got.status, got.text, tt.code, tt.details)
			}
		})
	}
}

// Whatever the body, and whatever the action, the answer is one: [client.send]
// checks it.
func TestRandomBodies(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	rapid.Check(t, func(t *rapid.T) {
		defer w.lend(t)()
		for range 10 {
			a := rapid.SampledFrom(w.API.Actions()).Draw(t, "action")
			request := w.minimal(a, has)
			for _, p := range parameters(a.Request) {
				if rapid.IntRange(0, 4).Draw(t, p.String()) == 0 {
					request[p.path[0]] = anything(t, 3)
				}
			}
			w.as("bob").at(rapid.SampledFrom([]string{"v1", "v1.1", "v1.28.5"}).Draw(t, "version")).call(a.Name, jsonOf(request))
		}
	})
}

// anything is a JSON value of that depth at most.
func anything(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 7).Draw(t, "kind"); {
	case kind == 0:
		return nil
	case kind == 1:
		return rapid.Bool().Draw(t, "boolean")
	case kind == 2:
		return rapid.Int64().Draw(t, "integer")
	case kind == 3:
		return rapid.Float64Range(-1e300, 1e300).Draw(t, "number")
	case kind == 4 && depth > 0:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, anything(t, depth-1))
		}
		return list
	case kind == 5 && depth > 0:
		o := object{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			o[rapid.String().Draw(t, "name")] = anything(t, depth-1)
		}
		return o
	}
	return rapid.String().Draw(t, "text")
}

// FuzzCalls calls actions with bodies from strangers who have an access key.
func FuzzCalls(f *testing.F) {
	w := newTestRegion(f)
	has := w.equip("alice")
	for _, a := range w.API.Actions() {
		f.Add(a.Name, "v1", jsonOf(w.minimal(a, has)))
		f.Add(a.Name, "v1.1", `{"DryRun": true, "Filters": {"NetIds": ["vpc-00000000"]}}`)
		for _, p := range parameters(a.Request) {
			f.Add(a.Name, "v1.28.5", jsonOf(w.with(a, p, w.example(p, has), has)))
		}
	}
	f.Fuzz(func(t *testing.T, action, version, body string) {
		if _, err := w.API.Find(action, api.Latest); err != nil || strings.Trim(version, "v.0123456789") != "" {
			return
		}
		defer w.lend(t)()
		w.as("bob").at(version).call(action, body)
	})
}
