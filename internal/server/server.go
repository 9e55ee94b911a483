// Package server is the path of a request, in order, in one function, and the
// listeners around it.
package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/apilog"
	"github.com/bastide-cloud/bastide/internal/auth"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/wire"
)

// Options configures a [Server].
type Options struct {
	API       *api.API
	DB        *resource.DB
	Gate      *auth.Gate
	Log       *apilog.Archive // nil: calls are not recorded
	Logger    *slog.Logger
	Protocols []wire.Protocol // the first that recognises a request takes it
	OpenAPI   []byte          // served at /openapi.json
	Now       func() time.Time
	Rand      io.Reader
	Metrics   *Metrics

	// Strangers limits the records of calls without an authenticated caller;
	// nil: each call is recorded.
	Strangers *auth.Limits
}

// Server serves the public APIs.
type Server struct {
	Options
	strangers *auth.Throttle
	openAPI   func() *document // compressed at its first request
}

// New returns a Server.
func New(o Options) *Server {
	return &Server{
		Options:   o,
		strangers: auth.NewThrottle(o.Strangers, strangerAddresses),
		openAPI:   sync.OnceValue(func() *document { return newDocument(o.OpenAPI) }),
	}
}

// strangerAddresses is the number of strangers' addresses that are remembered.
// A forgotten one may make its first records again, as far as the limit for all
// strangers allows.
const strangerAddresses = 1 << 14

// StrangerLimits are the records that calls without a proven caller may make: of
// an address 100 at once and one a second, and of all addresses together 2,000
// at once and 20 a second. At 2 kB each that is 3.5 GB a day at most.
func StrangerLimits() *auth.Limits {
	return &auth.Limits{PerAccount: auth.Rate{PerSecond: 20, Burst: 2000}, PerCall: auth.Rate{PerSecond: 1, Burst: 100}}
}

// maxBody is the maximum size of a request's body in bytes.
const maxBody = 1 << 20

// exchange is a request being served. It always becomes a record of the API
// log.
type exchange struct {
	id       string
	start    time.Time
	protocol wire.Protocol
	call     wire.Call
	body     []byte
	caller   resource.Caller
	proven   bool // the caller is authenticated
	decision auth.Decision
	response []byte
	status   int
	code     string // error code; empty: success
}

// always are the headers of every response. All but the first are the real
// service's headers, with their usual values: a browser that opens a response
// must neither guess its type nor show it in a frame. The lists are shared by
// all responses and must not be changed.
var always = http.Header{
	"Access-Control-Allow-Origin": {"*"},
	"Referrer-Policy":             {"no-referrer"},
	"Strict-Transport-Security":   {"max-age=31536000"},
	"X-Content-Type-Options":      {"nosniff"},
	"X-Frame-Options":             {"DENY"},
	"X-Xss-Protection":            {"1; mode=block"},
}

// buffers hold responses while they are encoded.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// ServeHTTP implements [http.Handler]. It never redirects, because clients sign
// the path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	maps.Copy(header, always)
	switch {
	case r.Method == http.MethodOptions:
		s.preflight(w, r)
		return
	case r.URL.Path == "/openapi.json" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		s.openAPI().serve(w, r)
		return
	}
	buffer := buffers.Get().(*[]byte)
	x := &exchange{id: s.requestID(), start: s.Now(), response: (*buffer)[:0]}
	err := s.answer(x, r)
	if err != nil {
		s.refuse(x, header, err)
	}
	header.Set("Content-Type", x.protocol.ContentType())
	header.Set("Content-Length", strconv.Itoa(len(x.response)))
	w.WriteHeader(x.status)
	// The client may have disconnected; its call was made.
	_, _ = w.Write(x.response)
	s.record(x, r)
	if cap(x.response) <= maxBody {
		*buffer = x.response
		buffers.Put(buffer)
	}
}

// answer is the path of a request: decoding, authentication, binding,
// permission, the rule, and encoding.
func (s *Server) answer(x *exchange, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	for _, p := range s.Protocols {
		if p.Recognise(r) {
			x.protocol = p
			break
		}
	}
	if ctx := s.DB.Barrier(r.Context()); ctx != r.Context() {
		r = r.WithContext(ctx)
	}
	body, bodyErr := readBody(r)
	x.body = body
	if x.call, err = x.protocol.Decode(r, body); err != nil {
		return err
	}
	action, err := s.API.Find(x.call.Action, x.call.Version)
	if err != nil {
		return err
	}
	if bodyErr != nil {
		return bodyErr
	}
	x.caller, err = s.Gate.Identify(r, body, action)
	x.proven = proven(x.caller, err)
	if err != nil {
		return err
	}
	call, err := s.API.Bind(action, x.call.Version, x.call.Body)
	if err != nil {
		return err
	}
	if x.decision, err = s.Gate.Allow(r.Context(), x.caller, x.call.API, x.call.Action); err != nil {
		s.Logger.Info("a call was not allowed", "request", x.id, "action", x.call.Action,
			"account", x.caller.Account, "user", x.caller.User, "decision", x.decision)
		return err
	}
	var response reflect.Value // empty after a dry run
	if !call.DryRun {
		if response, err = call.Run(r.Context(), s.DB, x.caller); err != nil {
			return err
		}
	}
	x.status = http.StatusOK
	x.response = x.protocol.Encode(x.response, x.call, x.id, response)
	return nil
}

// proven reports whether Identify returned an authenticated caller. It also
// returns what is known about a caller that it refuses, such as the account of
// an access key with a wrong signature. Two refusals come after authentication:
// the access rules do not admit the caller, or an access key calls too fast. A
// password is throttled before it is checked.
func proven(caller resource.Caller, err error) bool {
	if caller.Account == "" {
		return false
	}
	_, throttled := errors.AsType[*auth.Throttled](err)
	return err == nil || apierror.NoAccessRule.Is(err) || throttled && caller.AccessKey != ""
}

// refuse encodes the response to a failed call. The cause of an internal error
// goes to the log, under the request ID in the response.
func (s *Server) refuse(x *exchange, header http.Header, err error) {
	f := apierror.From(err)
	// If the client has hung up, nothing is wrong.
	if f.Code == apierror.Internal && !errors.Is(err, context.Canceled) {
		s.Logger.Error("a call failed", "request", x.id, "action", x.call.Action, "account", x.caller.Account, "error", err)
	}
	if t, ok := errors.AsType[*auth.Throttled](err); ok {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(t.RetryAfter.Seconds()))))
	}
	x.code = f.Code.String()
	x.response, x.status = x.protocol.Refuse(x.response[:0], x.call, x.id, err)
}

// preflight responds to the preflight request of a browser that calls from a
// page of another origin. The signature protects the account.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Access-Control-Allow-Methods", "POST, OPTIONS")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	header.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}

// readBody reads the body, up to maxBody.
func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	var body []byte
	var err error
	if r.ContentLength > 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	}
	switch {
	case len(body) > maxBody:
		return nil, tooLarge()
	case err != nil:
		return nil, apierror.InvalidType.Errorf("The body of the request ended too early.")
	}
	return body, nil
}

func tooLarge() error {
	return apierror.InvalidLength.Errorf("The body of a request has at most %d bytes.", maxBody)
}

// requestID is a random UUID.
func (s *Server) requestID() string {
	var u [16]byte
	if _, err := io.ReadFull(s.Rand, u[:]); err != nil {
		panic(fmt.Errorf("reading the source of randomness: %w", err))
	}
	u[6] = u[6]&0x0f | 0x40 // version 4
	u[8] = u[8]&0x3f | 0x80 // of RFC 9562
	var text [36]byte
	hex.Encode(text[:8], u[:4])
	hex.Encode(text[9:13], u[4:6])
	hex.Encode(text[14:18], u[6:8])
	hex.Encode(text[19:23], u[8:10])
	hex.Encode(text[24:], u[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// record closes the record of a call.
func (s *Server) record(x *exchange, r *http.Request) {
	took := s.Now().Sub(x.start)
	s.Metrics.call(x, s.API, took)
	if s.Log == nil {
		return
	}
	address := s.Gate.Address(r)
	if !x.proven && !s.admitsRecord(address, x.start) {
		s.Metrics.unrecorded.Inc()
		return
	}
	size := len(r.Method) + len(r.RequestURI) + len("  HTTP/1.1\r\n")
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	record := apilog.Record{
		AccountID: x.caller.Account, AccessKey: x.caller.AccessKey,
		Action: x.call.Action, API: x.call.API, Version: x.call.Version.String(),
		IP: address.String(), UserAgent: r.UserAgent(), RequestID: x.id,
		Date: x.start, Duration: took,
		HeaderRaw: apilog.MaskHeader(r.Header, r.Host), HeaderSize: size,
		PayloadSize:  max(len(x.body), int(r.ContentLength)),
		ResponseSize: len(x.response), Status: x.status,
		Decision: string(x.decision),
	}
	if x.proven {
		record.PayloadRaw = apilog.MaskPayload(x.body, r.Header.Get("Content-Type"))
	} else {
		record.Unproven()
	}
	s.Log.Append(&record)
}

// admitsRecord reports whether a call without an authenticated caller is
// recorded. To the throttle, all strangers are one account and each source is a
// call of it.
func (s *Server) admitsRecord(address netip.Addr, now time.Time) bool {
	verdict, _ := s.strangers.Allow("strangers", auth.Source(address), now)
	return verdict == auth.OK
}
