package apilog

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// mask stands for a secret.
	mask = `*****`

	// unreadable replaces a body that may hold a secret but cannot be parsed.
	unreadable = `(not kept: the body could not be read, and it may hold a secret)`

	// unproven replaces the body of a call whose caller was not authenticated,
	// so that strangers cannot fill an account's log.
	unproven = `(not kept: the caller has not proven its identity)`

	// maxRaw is the maximum size of a header or a body in the log, in bytes.
	maxRaw = 64 << 10

	// maxUnproven is the maximum size in bytes of the header of a call whose
	// caller was not authenticated; maxUnprovenAgent is the maximum size of its
	// User-Agent.
	maxUnproven      = 1 << 10
	maxUnprovenAgent = 256
)

// secretWords are the words in names of secrets: SecretKey, secretAccessKey,
// AdminPassword, BgpKey, authKey and so on. The signature of a URL grants
// access to its target. A certificate is public, so CaPem and CertificateBody
// are not here. A public key is public too, but a caller may paste the private
// half by mistake. User data runs at a VM's first boot and often contains
// passwords.
var secretWords = []string{
	"authkey", "bgpkey", "passphrase", "passwd", "password", "presharedkey", "privatekey", "publickey",
	"secret", "signature", "token", "userdata",
}

// harmless are names that contain a secret word without being secret: tokens
// that make a page or a creation repeatable.
var harmless = []string{"ClientToken", "ClientTokens", "NextPageToken", "NextToken"}

// secretHeaders are the headers that authenticate the caller, besides those
// whose name contains a secret word, such as X-Amz-Security-Token. Referer is
// one, because the page that it names may be accessible by its URL alone.
var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization", "Referer", "X-Api-Key"}

// knownHeaders caches, for the headers of nearly all requests, whether they are
// masked, because isSecretHeader is much slower than a lookup.
var knownHeaders = func() map[string]bool {
	known := map[string]bool{}
	for _, name := range []string{
		"Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length", "Content-Type", "Origin", "User-Agent",
		"X-Amz-Content-Sha256", "X-Amz-Date", "X-Forwarded-For", "X-Osc-Date",
	} {
		known[name] = isSecretHeader(name)
	}
	return known
}()

func isSecretHeader(name string) bool {
	return slices.ContainsFunc(secretHeaders, func(secret string) bool { return strings.EqualFold(secret, name) }) || isSecret(name)
}

// MaskHeader returns a header as the log shows it: its lines are joined by a
// backslash and an n, Host comes first and the rest is sorted by name, and
// credentials are masked. It is cut after 64 KiB.
func MaskHeader(h http.Header, host string) string {
	var room [16]string // enough for most requests
	names, length := room[:0], len("Host: ")+len(host)
	for name, values := range h {
		names = append(names, name)
		for _, value := range values {
			length += len(`\n: `) + len(name) + max(len(value), len(mask))
		}
	}
	slices.Sort(names)
	var b strings.Builder
	b.Grow(length)
	b.WriteString("Host: ")
	b.WriteString(host)
	for _, name := range names {
		secret, known := knownHeaders[name]
		if !known {
			secret = isSecretHeader(name)
		}
		for _, value := range h[name] {
			if secret {
				value = mask
			}
			b.WriteString(`\n`)
			b.WriteString(name)
			b.WriteString(": ")
			b.WriteString(value)
		}
	}
	return cut(b.String(), maxRaw)
}

// MaskPayload returns the body of a request as the log shows it: byte for byte,
// except that the values of secrets are masked, at any depth of a JSON document
// or a form, and in documents within their strings. It is cut after 64 KiB.
//
// A body that is neither and contains the name of a secret is not shown at all,
// nor is a binary one: a client that sends half a document must not find its
// password in the log.
func MaskPayload(body []byte, contentType string) string {
	text := string(body)
	if !isBinary(text) && !hasSecretWord(text) {
		return cut(text, maxRaw)
	}
	ok := false
	switch media, _, _ := mime.ParseMediaType(contentType); {
	case isJSON(text):
		text, ok = maskJSON(text)
	case media == "application/x-www-form-urlencoded" || contentType == "":
		text, ok = maskForm(text)
	}
	if !ok {
		return unreadable
	}
	return cut(text, maxRaw)
}

// maskJSON masks the secrets of a valid document. It returns false if the name
// of a secret is so odd that it may contain one itself.
func maskJSON(doc string) (string, bool) {
	var out strings.Builder
	kept := 0 // doc[kept:] is not in out yet
	replace := func(start, end int, by string) {
		out.WriteString(doc[kept:start])
		out.WriteString(by)
		kept = end
	}
	for i := 0; i < len(doc); {
		if doc[i] != '"' {
			i++
			continue
		}
		end := stringEnd(doc, i)
		text := unquote(doc[i:end])
		if colon := skipSpace(doc, end); colon < len(doc) && doc[colon] == ':' { // text is a name
			i = colon + 1
			if isSecret(text) {
				if !isPlain(text) {
					return "", false
				}
				start := skipSpace(doc, i)
				i = valueEnd(doc, start)
				replace(start, i, quote(mask))
			}
			continue
		}
		if masked := maskText(text); masked != text {
			replace(i, end, quote(masked))
		}
		i = end
	}
	return out.String() + doc[kept:], true
}

// maskForm masks the secrets of a form. It returns false for text that no
// client would have encoded as a form.
func maskForm(form string) (string, bool) {
	if strings.ContainsFunc(form, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"<>\{}`, r) }) {
		return "", false
	}
	pairs := strings.Split(form, "&")
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		plainName, err1 := url.QueryUnescape(name)
		text, err2 := url.QueryUnescape(value)
		if pair == "" {
			continue
		}
		if !ok || err1 != nil || err2 != nil || !isPlain(plainName) {
			return "", false
		}
		switch masked := maskText(text); {
		case slices.ContainsFunc(strings.Split(plainName, "."), isSecret):
			pairs[i] = name + "=" + mask
		case masked != text:
			pairs[i] = name + "=" + url.QueryEscape(masked)
		}
	}
	return strings.Join(pairs, "&"), true
}

// maskText masks a text that is not a secret by its name, but may contain one:
// a document within the document, or something like Password=hunter2. Plain
// mentions of secrets stay, such as the name of the action ReadSecretAccessKey.
func maskText(text string) string {
	if !hasSecretWord(text) {
		return text
	}
	if isJSON(text) {
		if masked, ok := maskJSON(text); ok {
			return masked
		}
		return mask
	}
	if strings.ContainsAny(text, "=\"{}<>&;\n") {
		return mask
	}
	return text
}

// isBinary reports whether s has control characters other than tabs and line
// ends.
func isBinary(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return true
		}
	}
	return false
}

// isSecret reports whether the value with this name is a secret.
func isSecret(name string) bool {
	return hasSecretWord(name) && !slices.ContainsFunc(harmless, func(word string) bool { return strings.EqualFold(name, word) })
}

// isPlain reports whether a name has only the characters of ordinary names.
func isPlain(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(" -._[]", r))
	})
}

// hasSecretWord reports whether s contains one of the secretWords: in any case,
// with or without dashes, underscores, spaces and backslashes between the
// letters, and escaped for a form or for JSON or not.
func hasSecretWord(s string) bool {
	for i := 0; i < len(s); i++ {
		c, size := s[i], 1
		if c == '%' || c == '\\' {
			c, size = unescape(s[i:])
		}
		for _, word := range wordsFrom[c] {
			if startsWith(s[i+size:], word[1:]) {
				return true
			}
		}
	}
	return false
}

// wordsFrom maps a first letter, in either case, to its secretWords.
var wordsFrom = func() (from [256][]string) {
	for _, word := range secretWords {
		from[word[0]] = append(from[word[0]], word)
		from[word[0]-'a'+'A'] = append(from[word[0]-'a'+'A'], word)
	}
	return from
}()

// startsWith reports whether s starts with the letters of word. Separators are
// skipped only here, after a first letter was found: otherwise a long row of
// backslashes would be read again from each of them.
func startsWith(s, word string) bool {
	for s != "" {
		c, size := s[0], 1
		if c == '%' || c == '\\' {
			c, size = unescape(s)
		}
		switch c {
		case word[0], word[0] - 'a' + 'A':
			if word = word[1:]; word == "" {
				return true
			}
		case '-', '_', ' ', '\\':
		default:
			return false
		}
		s = s[size:]
	}
	return false
}

// unescape returns the byte that a form writes as %53 and a JSON string as
// \u0053, and the length of that escape; any other byte is returned as it is.
func unescape(s string) (c byte, size int) {
	prefix := "%"
	if s[0] == '\\' {
		prefix = `\u00`
	}
	size = len(prefix) + 2
	if len(s) >= size && strings.HasPrefix(s, prefix) {
		if code, err := strconv.ParseUint(s[size-2:size], 16, 8); err == nil {
			return byte(code), size
		}
	}
	return s[0], 1
}

// isJSON reports whether s is one JSON value. Documents that our decoders
// refuse, for example because of a duplicate name, are JSON too.
func isJSON(s string) bool {
	return jsontext.Value(s).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// stringEnd, skipSpace and valueEnd navigate valid JSON: they return the end of
// the string that starts at i, the first byte from i on that is not white
// space, and the end of the value that starts at i.
func stringEnd(doc string, i int) int {
	for i++; doc[i] != '"'; i++ {
		if doc[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func skipSpace(doc string, i int) int {
	for i < len(doc) && strings.IndexByte(" \t\r\n", doc[i]) >= 0 {
		i++
	}
	return i
}

func valueEnd(doc string, i int) int {
	for depth := 0; ; {
		switch doc[i] {
		case '"':
			i = stringEnd(doc, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
		}
		if depth == 0 && strings.IndexByte(",]} \t\r\n", doc[i]) >= 0 {
			return i
		}
	}
}

func unquote(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s[1 : len(s)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, s) // an error only means that invalid UTF-8 was replaced
	return string(text)
}

func quote(s string) string {
	text, _ := jsontext.AppendQuote(nil, s) // likewise
	return string(text)
}

// Unproven reduces r to what is kept of a call whose caller was not
// authenticated: about 2 kB, whatever was sent, and a note in place of the
// body. The sizes stay the request's.
func (r *Record) Unproven() {
	r.HeaderRaw = cut(r.HeaderRaw, maxUnproven)
	r.UserAgent = cut(r.UserAgent, maxUnprovenAgent)
	r.PayloadRaw = unproven
}

// cut shortens s to at most a number of bytes, between two characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > limit-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
