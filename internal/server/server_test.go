package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/bastide-cloud/bastide/internal/apilog"
	"github.com/bastide-cloud/bastide/internal/auth"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/region"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// openRegion opens a region in memory whose clock stands at start.
func openRegion(t *testing.T, change ...func(*region.Options)) *region.Region {
	t.Helper()
	o := region.Options{
		Region: "eu-west-2", Domain: "bastide.localhost", Driver: sim.Start(0), OpenAPI: []byte(`{"openapi":"3.0.0"}`),
		Clock: clock.NewVirtual(start), Rand: rand.NewChaCha8([32]byte{1}), Logger: slog.New(slog.DiscardHandler),
		Root: region.Root{Email: "root@example.com", Password: "hunter2", PasswordHash: "none"},
	}
	for _, c := range change {
		c(&o)
	}
	r, err := region.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("closing the region: %v", err)
		}
	})
	return r
}

// call is an unsigned call of an action, from an address of its own.
func call(action, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://api.example.com/api/v1/"+action, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.1:49152"
	return r
}

// signed signs a request as the root account, or with another secret if one is
// given.
func signed(t *testing.T, r *http.Request, root *region.Root, secret ...string) *http.Request {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	sum := sha256.Sum256(body)
	credentials := aws.Credentials{AccessKeyID: root.AccessKey, SecretAccessKey: append(secret, root.SecretKey)[0]}
	if err := v4.NewSigner().SignHTTP(t.Context(), credentials, r, hex.EncodeToString(sum[:]), "oapi", "eu-west-2", start); err != nil {
		t.Fatal(err)
	}
	return r
}

// serve returns the answer of a handler.
func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer
}

// records are the calls in the API log of an account.
func records(t *testing.T, r *region.Region, account string) []apilog.Record {
	t.Helper()
	found, _, err := r.Calls.Query(t.Context(), apilog.Query{
		AccountID: account, After: start.Add(-time.Hour), Before: start.Add(time.Hour), Limit: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Every answer has the headers that keep browsers from harm.
func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	r := openRegion(t)
	for name, test := range map[string]struct {
		request *http.Request
		status  int
	}{
		"a success":    {call("ReadRegions", ""), 200},
		"a refusal":    {call("ReadNets", ""), 401},
		"no action":    {httptest.NewRequest(http.MethodGet, "/", nil), 404},
		"a preflight":  {httptest.NewRequest(http.MethodOptions, "/api/v1/ReadNets", nil), 204},
		"the document": {httptest.NewRequest(http.MethodGet, "/openapi.json", nil), 200},
	} {
		answer := serve(r.Handler, test.request)
		if answer.Code != test.status {
			t.Errorf("%s: got %d, want %d", name, answer.Code, test.status)
		}
		for header, want := range map[string]string{
			"Access-Control-Allow-Origin": "*", "Referrer-Policy": "no-referrer", "Strict-Transport-Security": "max-age=31536000",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "X-Xss-Protection": "1; mode=block",
		} {
			if got := answer.Header().Values(header); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
	}
}

// What strangers send does not fill the log: a call whose caller has proven
// nothing leaves little, whatever its size, and the record says why.
func TestRecordsOfCallersWithoutProofAreShort(t *testing.T) {
	t.Parallel()
	r := openRegion(t)
	long := strings.Repeat("é", 25<<10)
	big := func(r *http.Request) *http.Request {
		r.Header.Set("User-Agent", long)
		r.Header.Set("X-More", "chosen by the stranger "+long)
		return r
	}
	body := `{"Filters": {"NetIds": ["chosen by the stranger ` + long + `"]}}`
	root := r.Founded
	signedBySomeoneElse := func() *http.Request { return signed(t, big(call("ReadNets", body)), root, "not the secret") }
	for _, test := range []struct {
		name, account string
		request       *http.Request
		status        int
	}{
		{"unsigned", "", big(call("ReadNets", body)), 401},
		{"a known key, a wrong signature", root.AccountID, signedBySomeoneElse(), 401},
		{"no action", "", big(call(long, body)), 404},
		{"an action that is open to all", "", big(call("ReadRegions", body)), 400},
		{"a body that is too long", "", big(call("ReadRegions", strings.Repeat(" ", 1<<20+1))), 400},
	} {
		size := test.request.ContentLength
		known := len(records(t, r, test.account))
		if got := serve(r.Handler, test.request); got.Code != test.status {
			t.Errorf("%s: got %d, %s; want %d", test.name, got.Code, got.Body, test.status)
		}
		found := records(t, r, test.account)
		if len(found) != known+1 {
			t.Fatalf("%s: the log has %d records, want %d", test.name, len(found), known+1)
		}
		record := found[known]
		kept := len(record.HeaderRaw) + len(record.PayloadRaw) + len(record.UserAgent) + len(record.Action) + len(record.AccessKey)
		if kept > 2<<10 {
			t.Errorf("%s: %d bytes of the call are kept, want at most 2 KiB", test.name, kept)
		}
		if want := "(not kept: the caller has not proven its identity)"; record.PayloadRaw != want {
			t.Errorf("%s: the body is %.80q, want %q", test.name, record.PayloadRaw, want)
		}
		if record.PayloadSize != int(size) || record.HeaderSize < 2*len(long) {
			t.Errorf("%s: the log says that the header has %d bytes and the body %d, want more than %d and %d",
				test.name, record.HeaderSize, record.PayloadSize, 2*len(long), size)
		}
	}
}

// Strangers have a number of records a second, each address and all together.
// What proven callers do is recorded beside that.
func TestRecordsOfCallersWithoutProofArePaced(t *testing.T) {
	t.Parallel()
	moving := clock.NewVirtual(start)
	r := openRegion(t, func(o *region.Options) {
		o.Clock = moving
		o.Strangers = &auth.Limits{PerAccount: auth.Rate{PerSecond: 2, Burst: 10}, PerCall: auth.Rate{PerSecond: 1, Burst: 4}}
	})
	known := 0
	recorded := func(calls int, from string) int {
		t.Helper()
		for range calls {
			stranger := call("ReadNets", "")
			stranger.RemoteAddr = from
			if got := serve(r.Handler, stranger); got.Code != 401 {
				t.Errorf("a stranger from %s is answered %d", from, got.Code)
			}
		}
		before := known
		known = len(records(t, r, ""))
		return known - before
	}
	for _, test := range []struct {
		name, from  string
		calls, want int
	}{
		{"an address", "192.0.2.1:1", 6, 4},
		{"the same again", "192.0.2.1:2", 6, 0},
		{"another", "192.0.2.2:1", 3, 3},
		{"a network of IPv6", "[2001:db8::1]:1", 2, 2},
		{"all together", "192.0.2.3:1", 4, 1},
	} {
		if got := recorded(test.calls, test.from); got != test.want {
			t.Errorf("%s: %d of %d calls are recorded, want %d", test.name, got, test.calls, test.want)
		}
	}
	moving.Advance(3 * time.Second)
	for _, test := range []struct {
		name, from  string
		calls, want int
	}{
		{"an address, three seconds later", "192.0.2.1:1", 6, 3},
		{"the network of IPv6, from another address in it", "[2001:db8::2]:1", 6, 3},
	} {
		if got := recorded(test.calls, test.from); got != test.want {
			t.Errorf("%s: %d of %d calls are recorded, want %d", test.name, got, test.calls, test.want)
		}
	}
	for range 20 {
		serve(r.Handler, signed(t, call("ReadNets", ""), r.Founded))
	}
	if got := len(records(t, r, r.Founded.AccountID)); got != 20 {
		t.Errorf("the log has %d calls of the account, want 20", got)
	}
	metrics := serve(r.Admin, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil)).Body.String()
	if want := "bastide_calls_unrecorded_total 17"; !strings.Contains(metrics, want) {
		t.Errorf("the metrics have no %q", want)
	}
}

// A caller that has proven who it is finds its call whole, refused or not.
func TestRecordsOfProvenCallersAreWhole(t *testing.T) {
	t.Parallel()
	r := openRegion(t)
	body := `{"NetId": "vpc-` + strings.Repeat("0", 5<<10) + `"}`
	for _, action := range []string{"DeleteNet", "ReadNets"} {
		serve(r.Handler, signed(t, call(action, body), r.Founded))
	}
	for _, record := range records(t, r, r.Founded.AccountID) {
		if record.PayloadRaw != body {
			t.Errorf("the body of %s, answered with %d, is %.80q, want %.80q", record.Action, record.Status, record.PayloadRaw, body)
		}
	}
}
