package oapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/wire"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	old, err := api.ParseVersion("1.28.5")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, path string
		action       string
		version      api.Version
		refused      apierror.Code // 0: it is not
	}{
		{"POST", "/api/v1/ReadVms", "ReadVms", api.Latest, 0},
		{"POST", "/api/latest/ReadVms", "ReadVms", api.Latest, 0},
		{"POST", "/api/v0/ReadVms", "ReadVms", api.Latest, 0},
		{"POST", "/api/v1.28.5/ReadVms", "ReadVms", old, 0},
		{"POST", "/v1.28.5/ReadVms", "ReadVms", old, 0},
		{"POST", "/ReadVms", "ReadVms", api.Latest, 0},
		{"POST", "//api///v1//ReadVms//", "ReadVms", api.Latest, 0},
		{"POST", "/behind/a/proxy/api/v1/ReadVms", "ReadVms", api.Latest, 0},
		{"POST", "/vendor/ReadVms", "ReadVms", api.Latest, 0},
		{"POST", "/api/v1/readvms", "readvms", api.Latest, 0},
		{"GET", "/api/v1/ReadVms", "ReadVms", api.Latest, apierror.MethodNotAllowed},
		{"DELETE", "/api/v1.28.5/ReadVms", "ReadVms", old, apierror.MethodNotAllowed},
		{"POST", "/api/v2.1/ReadVms", "ReadVms", api.Latest, apierror.UnknownAction},
		{"POST", "/api/v1.2.3.4/ReadVms", "ReadVms", api.Latest, apierror.UnknownAction},
		{"POST", "/", "", api.Latest, apierror.UnknownAction},
		{"GET", "/", "", api.Latest, apierror.UnknownAction},
	} {
		body := []byte(`{"a":1}`)
		got, err := Protocol{}.Decode(&http.Request{Method: test.method, URL: httptest.NewRequest(test.method, "http://x"+test.path, nil).URL},
			body)
		want := wire.Call{API: "oapi", Action: test.action, Version: test.version, Body: body}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s: got %+v, want %+v", test.method, test.path, got, want)
		}
		if test.refused == 0 && err != nil || test.refused != 0 && !test.refused.Is(err) {
			t.Errorf("%s %s: got the error %v, want code %d", test.method, test.path, err, test.refused)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	type answer struct{ Size int }
	call := wire.Call{Action: "ReadVms", Version: api.Latest}
	for _, test := range []struct {
		name     string
		response reflect.Value
		want     string
	}{
		{"an answer", reflect.ValueOf(answer{3}), `before{"Size":3,"ResponseContext":{"RequestId":"id"}}`},
		{"an empty one", reflect.ValueOf(struct{}{}), `before{"ResponseContext":{"RequestId":"id"}}`},
		{"a dry run", reflect.Value{}, `before{"ResponseContext":{"RequestId":"id"}}`},
	} {
		if got := (Protocol{}).Encode([]byte("before"), call, "id", test.response); string(got) != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// Clients decode few statuses of errors, and on few actions.
func TestRefuse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		action string
		err    error
		status int
		want   string
	}{
		{"ReadVms", apierror.AuthenticationFailed.Bare(), 401, `{"Type":"AccessDenied","Details":"","Code":"1"}`},
		{"CreateNet", apierror.SubnetOverlaps.Errorf("It overlaps."), 409, `{"Type":"ResourceConflict","Details":"It overlaps.","Code":"9058"}`},
		{"CreateVolume", apierror.SubnetOverlaps.Errorf("It overlaps."), 400,
			`{"Type":"ResourceConflict","Details":"It overlaps.","Code":"9058"}`},
		{"ReadVms", errors.New("our cause"), 500, `{"Type":"InternalError","Details":"` + apierror.From(errors.New("")).Details +
			`","Code":"2000"}`},
		{"Nothing", apierror.UnknownAction.Errorf("No."), 404, `{"Type":"InvalidParameterValue","Details":"No.","Code":"4042"}`},
		{"ReadVms", apierror.MethodNotAllowed.Errorf("No."), 405, `{"Type":"AccessDenied","Details":"No.","Code":"2"}`},
	} {
		b, status := Protocol{}.Refuse(nil, wire.Call{Action: test.action, Version: api.Latest}, "id", test.err)
		if want := `{"Errors":[` + test.want + `],"ResponseContext":{"RequestId":"id"}}`; string(b) != want || status != test.status {
			t.Errorf("%s, %v: got %d, %s; want %d, %s", test.action, test.err, status, b, test.status, want)
		}
	}
}
