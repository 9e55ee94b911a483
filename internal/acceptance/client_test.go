package acceptance

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// client calls the region in one way. Its methods answer another client, so
// that w.as("alice").at("v1.1") is a sentence.
type client struct {
	w *testRegion
	// how it proves who it is; nil: it does not
	sign func(r *nethttp.Request, body []byte, now time.Time)

	base   string        // of the path
	from   string        // the address
	off    time.Duration // how wrong its clock is
	header nethttp.Header
	chain  []*x509.Certificate // what it presents, its own certificate first
	gone   bool                // it hangs up at once
}

// unsigned is a client that proves nothing.
func (w *testRegion) unsigned() client {
	return client{w: w, base: "/api/v1", from: "192.0.2.1", header: nethttp.Header{}}
}

// as is a client that signs with the access key of a person.
func (w *testRegion) as(name string) client {
	w.t.Helper()
	p := w.person(name)
	return w.unsigned().signing(p.key, p.secret)
}

// signing is the client with an access key.
func (c client) signing(key, secret string) client {
	c.sign = func(r *nethttp.Request, body []byte, now time.Time) { signature(r, body, key, secret, now) }
	return c
}

// login is the client with a login and password.
func (c client) login(login, password string) client {
	c.sign = func(r *nethttp.Request, _ []byte, _ time.Time) {
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(login+":"+password)))
	}
	return c
}

// at is the client of a version, such as v1.28.5, or of any other path.
func (c client) at(version string) client {
	c.base = version
	if !strings.HasPrefix(version, "/") {
		c.base = "/api/" + version
	}
	return c
}

// with is the client with a header; one without a value is left out.
func (c client) with(name, value string) client {
	c.header = c.header.Clone()
	c.header.Del(name)
	if value != "" {
		c.header.Set(name, value)
	}
	return c
}

// hangingUp is the client that does not wait for answers.
func (c client) hangingUp() client {
	c.gone = true
	return c
}

// signature signs a request by version 4 of the AWS process, as most clients
// do. It is written for these tests, so that the gate does not judge itself.
func signature(r *nethttp.Request, body []byte, key, secret string, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	scope := []string{stamp[:8], "eu-west-2", "osc", "aws4_request"}
	r.Header.Set("X-Amz-Date", stamp)
	request := strings.Join([]string{
		r.Method, r.URL.EscapedPath(), r.URL.RawQuery, "host:" + r.Host, "x-amz-date:" + stamp, "", "host;x-amz-date", hash(body),
	}, "\n")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", stamp, strings.Join(scope, "/"), hash([]byte(request))}, "\n")
	sum := []byte("AWS4" + secret)
	for _, part := range append(scope, text) {
		mac := hmac.New(sha256.New, sum)
		mac.Write([]byte(part))
		sum = mac.Sum(nil)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=host;x-amz-date, Signature=%x",
		key, strings.Join(scope, "/"), sum))
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// do sends a request and answers what comes, whatever it is.
func (c client) do(method, path string, body []byte) *httptest.ResponseRecorder {
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	r := httptest.NewRequest(method, path, content)
	r.Host, r.RemoteAddr = "api.eu-west-2.bastide.localhost", c.from+":49152"
	if strings.Contains(c.from, ":") {
		r.RemoteAddr = "[" + c.from + "]:49152"
	}
	r.Header = c.header.Clone()
	if c.sign != nil && r.Header.Get("Authorization") == "" {
		c.sign(r, body, c.w.clock.Now().Add(c.off))
	}
	if c.chain != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: c.chain}
	}
	if c.gone {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		r = r.WithContext(ctx)
	}
	answered := httptest.NewRecorder()
	c.w.Handler.ServeHTTP(answered, r)
	return answered
}

// answer is what a call was answered.
type answer struct {
	status int
	header nethttp.Header
	text   string
	body   map[string]any // with json.Number in place of numbers
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// send makes a call and checks what is true of every answer: that it is JSON,
// has a request id, and has the form that the contract says.
func (c client) send(method, path string, body []byte) *answer {
	w := c.w
	w.t.Helper()
	got := c.do(method, path, body)
	a := &answer{status: got.Code, header: got.Header(), text: got.Body.String()}
	wrong := func(format string, args ...any) {
		w.t.Helper()
		w.t.Errorf("%s %s %.300s\nanswered with %d: %.1000s\n%s", method, path, body, a.status, a.text, fmt.Sprintf(format, args...))
	}
	if t := a.header.Get("Content-Type"); t != "application/json" {
		wrong("Its Content-Type is %q.", t)
	}
	if err := unmarshal(a.text, &a.body); err != nil {
		wrong("It is not a JSON object: %v.", err)
	}
	requestID := a.at("ResponseContext.RequestId")
	if !uuid.MatchString(requestID) {
		wrong("It has no request id.")
	}
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	action := path[strings.LastIndex(path, "/")+1:]
	switch {
	case a.status >= 500 && !c.gone:
		wrong("That is our fault: %s", w.log)
	case a.status != nethttp.StatusOK:
		if a.code() == "" || a.at("Errors.0.Type") == "" || len(a.body) != 2 {
			wrong("A refusal has the code and the type of one error, and nothing else.")
		}
	case isDryRun(body):
		if len(a.body) != 1 {
			wrong("A dry run answers nothing.")
		}
	default:
		if faults := published.answers(action, versionOf(path), a.body); len(faults) > 0 {
			wrong("The contract of %s says otherwise:\n  %s", versionOf(path), strings.Join(faults, "\n  "))
		}
	}
	if secret := a.at("AccessKey.SecretKey"); secret != "" {
		w.secret(secret)
	}
	if !w.note(requestID, call{action, a.status}) {
		wrong("Another call had this request id.")
	}
	return a
}

// isDryRun reports whether a body asks for a dry run.
func isDryRun(body []byte) bool {
	var request struct{ DryRun bool }
	return json.Unmarshal(body, &request) == nil && request.DryRun
}

func unmarshal(text string, v any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

// call calls an action.
func (c client) call(action, body string) *answer {
	c.w.t.Helper()
	return c.send("POST", c.base+"/"+action, []byte(body))
}

// must calls an action that must succeed.
func (c client) must(action, body string) *answer {
	c.w.t.Helper()
	a := c.call(action, body)
	if a.status != nethttp.StatusOK {
		c.w.t.Fatalf("%s %s: %s", action, body, a.text)
	}
	return a
}

// code is the code of a refusal; empty: the call succeeded.
func (a *answer) code() string { return a.at("Errors.0.Code") }

// details is the sentence of a refusal.
func (a *answer) details() string { return a.at("Errors.0.Details") }

// at is the value at a path as a text: a text as it is, anything else as JSON,
// and nothing if it is absent.
func (a *answer) at(path string) string {
	v, ok := a.find(path)
	if !ok {
		return ""
	}
	return textOf(v)
}

func textOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // it was JSON
	}
	return strings.TrimSpace(b.String())
}

// find finds the value at a path: names and numbers between dots, and a star
// for what every item of a list has there.
func (a *answer) find(path string) (any, bool) { return find(a.body, strings.Split(path, ".")) }

func find(v any, path []string) (any, bool) {
	if len(path) == 0 {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		member, ok := v[path[0]]
		if !ok {
			return nil, false
		}
		return find(member, path[1:])
	case []any:
		if path[0] == "*" {
			found := []any{}
			for _, item := range v {
				if member, ok := find(item, path[1:]); ok {
					found = append(found, member)
				}
			}
			return found, true
		}
		if i, err := strconv.Atoi(path[0]); err == nil && i < len(v) {
			return find(v[i], path[1:])
		}
	}
	return nil, false
}
