package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	// ErrNoAuthorization means that a request has no Authorization header.
	ErrNoAuthorization = errors.New("the request has no Authorization header")
	// ErrUnknownScheme means that the Authorization header is not a signature
	// of a known scheme.
	ErrUnknownScheme = errors.New("the Authorization header is of an unknown type")
	// ErrMalformed means that a signature lacks a part, or that its parts
	// contradict each other.
	ErrMalformed = errors.New("the signature is malformed")
)

// scheme is what differs between the two ways to sign.
type scheme struct {
	name       string
	prefix     string    // before the secret, as the first key
	terminator string    // the last part of the scope
	dates      [3]string // headers that may carry the date, the usual one first
}

var schemes = map[string]*scheme{
	"AWS4-HMAC-SHA256": {"AWS4-HMAC-SHA256", "AWS4", "aws4_request", [3]string{"x-amz-date", "x-osc-date", "date"}},
	"OSC4-HMAC-SHA256": {"OSC4-HMAC-SHA256", "OSC4", "osc4_request", [3]string{"x-osc-date", "x-amz-date", "date"}},
}

// Signature is the signature of a request, well formed but not yet verified.
type Signature struct {
	AccessKey string    // the id of the key it claims to be made with
	Region    string    // free text: clients sign with what they like
	Service   string    // free text too, and may be empty
	Time      time.Time // when it was made

	scheme *scheme
	stamp  string // Time, as signed
	scope  string // day/region/service/terminator
	signed string // names of the signed headers, joined by semicolons
	sum    [sha256.Size]byte
}

// ParseSignature reads the signature of a request. The error is
// [ErrNoAuthorization], [ErrUnknownScheme] or wraps [ErrMalformed].
func ParseSignature(r *http.Request) (*Signature, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return nil, ErrNoAuthorization
	}
	name, fields, _ := strings.Cut(header, " ")
	s := &Signature{scheme: schemes[name]}
	if s.scheme == nil {
		return nil, ErrUnknownScheme
	}
	if len(r.Header["Authorization"]) > 1 {
		return nil, malformed("there are several Authorization headers")
	}
	if err := s.readFields(fields); err != nil {
		return nil, err
	}
	if err := s.checkSigned(); err != nil {
		return nil, err
	}
	if err := s.readTime(r.Header); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(s.scope, s.stamp[:len("20060102")]+"/") {
		return nil, malformed("the day of its scope is not the day of its date")
	}
	return s, nil
}

func malformed(why string) error { return fmt.Errorf("%w: %s", ErrMalformed, why) }

// readFields reads Credential, SignedHeaders and Signature.
func (s *Signature) readFields(fields string) error {
	var credential, sum string
	for field := range strings.SplitSeq(fields, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch {
		case name == "Credential" && credential == "":
			credential = value
		case name == "SignedHeaders" && s.signed == "":
			s.signed = value
		case name == "Signature" && sum == "":
			sum = value
		default:
			return malformed("it does not consist of Credential, SignedHeaders and Signature")
		}
	}

	s.AccessKey, s.scope, _ = strings.Cut(credential, "/")
	_, rest, _ := strings.Cut(s.scope, "/")
	s.Region, rest, _ = strings.Cut(rest, "/")
	var terminator string
	s.Service, terminator, _ = strings.Cut(rest, "/")
	if s.AccessKey == "" || terminator != s.scheme.terminator {
		return malformed("its credential is not KEY/YYYYMMDD/region/service/" + s.scheme.terminator)
	}

	if len(sum) != hex.EncodedLen(len(s.sum)) {
		return malformed("it is not 64 hexadecimal digits")
	}
	if _, err := hex.Decode(s.sum[:], []byte(sum)); err != nil {
		return malformed("it is not 64 hexadecimal digits")
	}
	return nil
}

// checkSigned checks the names of the signed headers. As they ascend, none
// comes twice, and what is signed is no longer than what was sent.
func (s *Signature) checkSigned() error {
	var previous string
	for name := range strings.SplitSeq(s.signed, ";") {
		if name <= previous || !isLowerToken(name) {
			return malformed("its signed headers are not lower-case names in ascending order")
		}
		previous = name
	}
	if !s.signs("host") {
		return malformed("the host is not signed")
	}
	return nil
}

func isLowerToken(name string) bool {
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || c == ':' || ('A' <= c && c <= 'Z') {
			return false
		}
	}
	return true
}

// signs reports whether a header is among the signed ones.
func (s *Signature) signs(header string) bool {
	for name := range strings.SplitSeq(s.signed, ";") {
		if name == header {
			return true
		}
	}
	return false
}

const stampLayout = "20060102T150405Z"

// readTime finds the date among the signed headers. Either scheme accepts the
// date header of the other, because curl can mix them.
func (s *Signature) readTime(h http.Header) error {
	for _, name := range s.scheme.dates {
		values := headerValues(h, name)
		if len(values) == 0 || !s.signs(name) {
			continue
		}
		if len(values) > 1 {
			return malformed("there are several dates")
		}
		var err error
		s.stamp = values[0]
		s.Time, err = time.Parse(stampLayout, s.stamp)
		if err != nil && name == "date" {
			s.Time, err = http.ParseTime(s.stamp)
			s.stamp = s.Time.UTC().Format(stampLayout)
		}
		// Go reads fractions of a second that the layout does not have.
		if err != nil || len(s.stamp) != len(stampLayout) {
			return malformed("its date is not in the form YYYYMMDDThhmmssZ")
		}
		return nil
	}
	return malformed("no date is signed")
}

// Fresh reports whether the signature was made within five minutes of now, on
// either side. Within that time it may come again: some SDKs sign once and
// send the same bytes when they retry.
func (s *Signature) Fresh(now time.Time) bool {
	const window = 5 * time.Minute
	return now.Sub(s.Time).Abs() <= window
}

// Verifier verifies signatures. It remembers the keys derived from secrets,
// which are good for a day, a region and a service, and cost more than the
// rest of the work. It is safe for concurrent use.
type Verifier struct {
	mu   sync.Mutex // guards keys
	keys *lru[keyName, *signingKey]
}

// A keyName holds the secret, so a rotated secret never finds an old key. The
// scope ends with the terminator of its scheme.
type keyName struct{ secret, scope string }

// NewVerifier returns a Verifier that caches a number of derived keys: one for
// each access key and scope in use.
func NewVerifier(entries int) *Verifier {
	return &Verifier{keys: newLRU[keyName, *signingKey](entries)}
}

// Verify reports whether the signature was made over this request and this
// body with this secret. The signature must come from the same request; its
// age is for [Signature.Fresh] to judge.
//
// Clients differ in what they sign, so a request is read in each way that a
// known client does, the usual way first. Repeated slashes apart, all readings
// of the path end with the part from the last "/api/" on: the router must look
// no further for its action.
func (v *Verifier) Verify(s *Signature, secret string, r *http.Request, body []byte) bool {
	path := r.URL.EscapedPath()
	paths := distinct(path, collapseSlashes(path), fromLastAPI(path))
	queries := distinct(sortQuery(r.URL.RawQuery), r.URL.RawQuery)
	hosts := distinct(r.Host, withoutPort(r.Host))
	hash := hexSum(body)
	payloads := distinct(hash, s.declaredPayload(r.Header, hash))

	key, known := v.find(secret, s.scope)
	if !known {
		key = deriveKey(s.scheme.prefix+secret, s.scope)
	}
	var room [1024]byte
	for _, host := range hosts {
		for _, payload := range payloads {
			for _, query := range queries {
				for _, path := range paths {
					if s.matches(key, s.canonical(room[:0], r, path, query, host, payload)) {
						if !known {
							v.remember(secret, s.scope, key)
						}
						return true
					}
				}
			}
		}
	}
	return false
}

func (v *Verifier) find(secret, scope string) (*signingKey, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.keys.get(keyName{secret, scope})
}

// remember caches a key that has verified a signature, so that guesses cannot
// fill the cache.
func (v *Verifier) remember(secret, scope string, key *signingKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	// The scope is part of a whole header, which must not live on with it.
	*v.keys.at(keyName{secret, strings.Clone(scope)}) = key
}

// distinct drops readings that equal an earlier one.
func distinct(readings ...string) []string {
	kept := readings[:0]
	for _, reading := range readings {
		if !slices.Contains(kept, reading) {
			kept = append(kept, reading)
		}
	}
	return kept
}

// collapseSlashes is for clients that send more slashes than they sign.
func collapseSlashes(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// fromLastAPI is for clients that do not sign the prefix of their endpoint.
func fromLastAPI(path string) string {
	return path[max(strings.LastIndex(path, "/api/"), 0):]
}

// withoutPort is for clients that name a port and do not sign it.
func withoutPort(host string) string {
	// In an IPv6 address without a port, the last colon is inside brackets.
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// sortQuery returns the parameters of a query in the order and the encoding
// that the signing procedure asks for, or the query itself if it is none.
func sortQuery(raw string) string {
	if raw == "" {
		return ""
	}
	type parameter struct{ name, value string }
	var parameters []parameter
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return raw
		}
		value, err = url.QueryUnescape(value)
		if err != nil {
			return raw
		}
		parameters = append(parameters, parameter{escapeQuery(name), escapeQuery(value)})
	}
	slices.SortFunc(parameters, func(a, b parameter) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	var sorted strings.Builder
	for i, p := range parameters {
		if i > 0 {
			sorted.WriteByte('&')
		}
		sorted.WriteString(p.name + "=" + p.value)
	}
	return sorted.String()
}

func escapeQuery(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

func hexSum(body []byte) string {
	sum := sha256.Sum256(body)
	var room [2 * sha256.Size]byte
	return string(hex.AppendEncode(room[:0], sum[:]))
}

// declaredPayload returns what stands for the body in the signature: its hash,
// unless the client signed that it left the body out. A declared hash is
// ignored: the hash of the received body counts.
func (s *Signature) declaredPayload(h http.Header, hash string) string {
	const header, leftOut = "x-amz-content-sha256", "UNSIGNED-PAYLOAD"
	values := headerValues(h, header)
	if len(values) == 1 && values[0] == leftOut && s.signs(header) {
		return leftOut
	}
	return hash
}

// canonical appends the request as the signing procedure writes it.
func (s *Signature) canonical(b []byte, r *http.Request, path, query, host, payload string) []byte {
	b = append(append(b, r.Method...), '\n')
	b = append(append(b, path...), '\n')
	b = append(append(b, query...), '\n')
	for name := range strings.SplitSeq(s.signed, ";") {
		b = append(append(b, name...), ':')
		switch name {
		// net/http takes these two out of the header.
		case "host":
			b = append(b, host...)
		case "content-length":
			b = strconv.AppendInt(b, r.ContentLength, 10)
		default:
			b = appendValues(b, headerValues(r.Header, name))
		}
		b = append(b, '\n')
	}
	b = append(b, '\n')
	b = append(append(b, s.signed...), '\n')
	return append(b, payload...)
}

// headerValues looks a header up by its lower-case name. It does as
// [http.Header.Values] does, but spares the new string for each name.
func headerValues(h http.Header, name string) []string {
	var room [64]byte
	key := append(room[:0], name...)
	start := true
	for i, c := range key {
		if start && 'a' <= c && c <= 'z' {
			key[i] = c - 'a' + 'A'
		}
		start = c == '-'
	}
	return h[string(key)]
}

// appendValues appends the values of a header, joined by commas, without
// spaces around them and with single spaces inside.
func appendValues(b []byte, values []string) []byte {
	for i, value := range values {
		if i > 0 {
			b = append(b, ',')
		}
		value = strings.Trim(value, " ")
		for j := range len(value) {
			if value[j] != ' ' || value[j-1] != ' ' {
				b = append(b, value[j])
			}
		}
	}
	return b
}

// matches compares the signature with the one that the key makes of a
// canonical request.
func (s *Signature) matches(key *signingKey, canonical []byte) bool {
	digest := sha256.Sum256(canonical)
	var room [256]byte
	b := append(append(room[:0], s.scheme.name...), '\n')
	b = append(append(b, s.stamp...), '\n')
	b = append(append(b, s.scope...), '\n')
	b = hex.AppendEncode(b, digest[:])
	sum := key.sign(b)
	return subtle.ConstantTimeCompare(sum[:], s.sum[:]) == 1
}

// signingKey is a key of HMAC-SHA-256 as the two blocks that HMAC hashes
// first. It is written out here because crypto/hmac allocates its state anew
// for each message, which costs more than the hashing.
type signingKey struct{ inner, outer [sha256.BlockSize]byte }

// deriveKey derives the key of a scope, one part after the other.
func deriveKey(secret, scope string) *signingKey {
	derived := []byte(secret)
	for part := range strings.SplitSeq(scope, "/") {
		mac := hmac.New(sha256.New, derived)
		mac.Write([]byte(part))
		derived = mac.Sum(nil)
	}
	key := &signingKey{}
	for i := range key.inner {
		var c byte
		if i < len(derived) {
			c = derived[i]
		}
		key.inner[i], key.outer[i] = c^0x36, c^0x5c
	}
	return key
}

func (k *signingKey) sign(message []byte) [sha256.Size]byte {
	var room [512]byte
	inner := sha256.Sum256(append(append(room[:0], k.inner[:]...), message...))
	return sha256.Sum256(append(append(room[:0], k.outer[:]...), inner[:]...))
}
