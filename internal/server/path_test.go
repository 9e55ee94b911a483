package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/auth"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/server"
)

// ReadThingRequest is a request of an action that only these tests have.
type ReadThingRequest struct {
	Size int // What the action does: see things.
}

// ReadThingResponse is its answer.
type ReadThingResponse struct {
	Thing string // What was found.
}

// things serves that action beside one that is open to all.
func things(t *testing.T, change ...func(*region.Options)) (h http.Handler, r *region.Region, log *bytes.Buffer) {
	t.Helper()
	r, log = openRegion(t, change...), &bytes.Buffer{}
	o := r.Handler.(*server.Server).Options
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	read := api.Do("Thing", func(_ *resource.Tx, req *ReadThingRequest) (*ReadThingResponse, error) {
		switch req.Size {
		case 1:
			return nil, apierror.InUse.Errorf("The thing is in the way.")
		case 2:
			return nil, errors.New("the cause that nobody outside learns")
		case 3:
			panic("a mistake of ours")
		}
		return &ReadThingResponse{Thing: strings.Repeat("x", req.Size)}, nil
	})
	o.API = api.New([]api.Action{read}, api.NewPager(nil))
	return server.New(o), r, log
}

// code is the error code of an answer; empty: it is none.
func code(t *testing.T, answer *httptest.ResponseRecorder) string {
	t.Helper()
	var body struct {
		Errors          []struct{ Code string }
		ResponseContext struct{ RequestId string }
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil {
		t.Fatalf("%d, %q: %v", answer.Code, answer.Body, err)
	}
	if len(body.ResponseContext.RequestId) != 36 {
		t.Errorf("the request id is %q", body.ResponseContext.RequestId)
	}
	if len(body.Errors) == 0 {
		return ""
	}
	return body.Errors[0].Code
}

// A request is looked at in an order: each row has everything wrong that comes
// later, and learns of the first thing only.
func TestTheOrderOfThePath(t *testing.T) {
	t.Parallel()
	h, r, _ := things(t)
	long := strings.Repeat(" ", 1<<20+1)
	method := func(r *http.Request) *http.Request {
		r.Method = http.MethodPut
		return r
	}
	for _, test := range []struct {
		name    string
		request *http.Request
		status  int
		code    string
	}{
		{"the method", method(call("DeleteThing", long)), 405, "2"},
		{"the action", call("DeleteThing", long), 404, "4042"},
		{"the length of the body", call("ReadThing", long), 400, "4106"},
		{"the caller", call("ReadThing", `{"Colour": 1}`), 401, "1"},
		{"the proof", signed(t, call("ReadThing", `{"Colour": 1}`), r.Founded, "a guess"), 401, "1"},
		{"the parameters", signed(t, call("ReadThing", `{"Colour": 1, "Size": 1}`), r.Founded), 400, "3001"},
		{"their types", signed(t, call("ReadThing", `{"Size": "1"}`), r.Founded), 400, "4108"},
		{"a body that is no document", signed(t, call("ReadThing", `{`), r.Founded), 400, "4108"},
		{"the rule", signed(t, call("ReadThing", `{"Size": 1}`), r.Founded), 400, "9029"},
		{"nothing, and the rule is not asked", signed(t, call("ReadThing", `{"Size": 1, "DryRun": true}`), r.Founded), 200, ""},
		{"nothing", signed(t, call("ReadThing", `{"Size": 4}`), r.Founded), 200, ""},
	} {
		answer := serve(h, test.request)
		if got := code(t, answer); answer.Code != test.status || got != test.code {
			t.Errorf("%s: got %d, code %q; want %d, %q: %s", test.name, answer.Code, got, test.status, test.code, answer.Body)
		}
		if got := answer.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: the type of the answer is %q", test.name, got)
		}
	}
}

// What goes wrong inside is the operator's to see; the caller is told a request
// id, by which it is found.
func TestOurOwnFailures(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{`{"Size": 2}`: "the cause that nobody outside learns", `{"Size": 3}`: "a mistake of ours"} {
		h, r, log := things(t)
		answer := serve(h, signed(t, call("ReadThing", body), r.Founded))
		if got := code(t, answer); answer.Code != 500 || got != "2000" || strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: got %d, %s", body, answer.Code, answer.Body)
		}
		var context struct{ ResponseContext struct{ RequestId string } }
		if err := json.Unmarshal(answer.Body.Bytes(), &context); err != nil {
			t.Fatal(err)
		}
		if id := context.ResponseContext.RequestId; !strings.Contains(log.String(), want) || !strings.Contains(log.String(), id) {
			t.Errorf("%s: the log has not both %q and %s: %s", body, want, id, log)
		}
		if found := records(t, r, r.Founded.AccountID); len(found) != 1 || found[0].Status != 500 {
			t.Errorf("%s: the API log has %v", body, found)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	h, r, _ := things(t)
	padded := func(size int) string {
		return `{"Size": 4}` + strings.Repeat(" ", size-len(`{"Size": 4}`))
	}
	chunked := func(r *http.Request) *http.Request {
		r.ContentLength = -1
		return r
	}
	short := signed(t, call("ReadThing", `{"Size": 4}`), r.Founded)
	short.ContentLength++
	broken := signed(t, call("ReadThing", `{"Size": 4}`), r.Founded)
	broken.ContentLength, broken.Body = -1, io.NopCloser(iotest.ErrReader(errors.New("the line is cut")))
	for _, test := range []struct {
		name    string
		request *http.Request
		code    string
	}{
		{"none", signed(t, call("ReadThing", ""), r.Founded), ""},
		{"as long as can be", signed(t, call("ReadThing", padded(1<<20)), r.Founded), ""},
		{"a byte longer", signed(t, call("ReadThing", padded(1<<20+1)), r.Founded), "4106"},
		{"in chunks", signed(t, chunked(call("ReadThing", `{"Size": 4}`)), r.Founded), ""},
		{"in chunks, as long as can be", signed(t, chunked(call("ReadThing", padded(1<<20))), r.Founded), ""},
		{"in chunks, a byte longer", signed(t, chunked(call("ReadThing", padded(1<<20+1))), r.Founded), "4106"},
		{"shorter than it says", short, "4108"},
		{"cut off", broken, "4108"},
	} {
		if got := code(t, serve(h, test.request)); got != test.code {
			t.Errorf("a body, %s: got the code %q, want %q", test.name, got, test.code)
		}
	}
}

// Clients sign the path they sent, so no path leads to another.
func TestRoutes(t *testing.T) {
	t.Parallel()
	h, r, _ := things(t)
	for path, status := range map[string]int{
		"/api/v1/ReadThing": 200, "/api/latest/ReadThing": 200, "/ReadThing": 200, "/my/prefix/api/v1/ReadThing/": 200,
		"//api//v1//ReadThing": 200,
		"/":                    404, "/api/v1/": 404, "/api/v1/ReadThing/more": 404, "/api/v7.1/ReadThing": 404, "/openapi.json": 404,
	} {
		request := httptest.NewRequest(http.MethodPost, "http://api.example.com"+path, nil)
		request.RemoteAddr = "192.0.2.1:49152"
		answer := serve(h, signed(t, request, r.Founded))
		if answer.Code != status || answer.Header().Get("Location") != "" {
			t.Errorf("POST %s: got %d, %v, want %d: %s", path, answer.Code, answer.Header(), status, answer.Body)
		}
	}
	preflight := httptest.NewRequest(http.MethodOptions, "/anywhere", nil)
	preflight.Header.Set("Access-Control-Request-Headers", "authorization, x-osc-date")
	answer := serve(h, preflight)
	if got := answer.Header(); answer.Code != 204 || got.Get("Access-Control-Allow-Headers") != "authorization, x-osc-date" ||
		got.Get("Access-Control-Allow-Methods") != "POST, OPTIONS" {
		t.Errorf("a preflight: got %d, %v", answer.Code, got)
	}
}

// A caller that comes too fast learns when to come again, and its record is
// whole: it has proven its identity.
func TestThrottledCalls(t *testing.T) {
	t.Parallel()
	h, r, _ := things(t, func(o *region.Options) {
		o.Limits = &auth.Limits{PerAccount: auth.Rate{PerSecond: 0.4, Burst: 1}}
	})
	if first := serve(h, signed(t, call("ReadThing", "{}"), r.Founded)); first.Code != 200 {
		t.Fatalf("the first call: %d, %s", first.Code, first.Body)
	}
	second := serve(h, signed(t, call("ReadThing", "{}"), r.Founded))
	if got := code(t, second); second.Code != 429 || got != "24" || second.Header().Get("Retry-After") != "3" {
		t.Errorf("the second call: %d, %v, %s; want 429, code 24, Retry-After 3", second.Code, second.Header(), second.Body)
	}
	found := records(t, r, r.Founded.AccountID)
	if len(found) != 2 || found[1].PayloadRaw != "{}" {
		t.Errorf("the API log has %+v", found)
	}
}
