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

	// unreadable stands for a body that might hold one where we cannot see.
	unreadable = `(not kept: the body could not be read, and it may hold a secret)`

	// unproven stands for the body of a call whose caller has not proven its
	// identity: an account does not have its log filled with what strangers send.
	unproven = `(not kept: the caller has not proven its identity)`

	// maxRaw bounds a header or a body in the log, in bytes.
	maxRaw = 64 << 10

	// maxUnproven bounds the header of a call whose caller has not proven its
	// identity, in bytes; maxUnprovenAgent bounds its User-Agent.
	maxUnproven      = 1 << 10
	maxUnprovenAgent = 256
)

// secretWords are what the names of secrets have in common: SecretKey,
// secretAccessKey, AdminPassword, BgpKey, authKey and so on. The signature of a
// URL gives the right to read what it leads to. A certificate is public, so CaPem
// and CertificateBody are not here. A public key is too, but who imports one may
// paste the private half, in a form that looks like nothing. User data is what a
// VM does first, and passwords are put there.
var secretWords = []string{
	"authkey", "bgpkey", "passphrase", "passwd", "password", "presharedkey", "privatekey", "publickey",
	"secret", "signature", "token", "userdata",
}

// harmless are names that have a secret word and are of no secret: the tokens
// that make a page or a creation repeatable.
var harmless = []string{"ClientToken", "ClientTokens", "NextPageToken", "NextToken"}

// secretHeaders are the headers whose value proves who calls, besides those
// whose name has a secret word, as X-Amz-Security-Token has, and Referer: the
// page that it names may be opened by its URL alone.
var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization", "Referer", "X-Api-Key"}

// knownHeaders are what nearly all requests have, and whether it is masked: to
// find out takes much longer than to look it up.
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

// MaskHeader writes a header as the log shows it: the lines are joined by a
// backslash and an n, Host comes first and the rest sorted by name, and what
// proves who calls is masked. It is cut after 64 KiB.
func MaskHeader(h http.Header, host string) string {
	var room [16]string // as many as most requests have
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

// MaskPayload is the body of a request as the log shows it: as it was sent,
// byte for byte, except that the values of secrets are masked, at any depth of
// a JSON document or a form, and in documents within their texts. It is cut
// after 64 KiB.
//
// A body that is neither, and has the name of a secret anywhere, is not shown
// at all, nor is a binary one: a client that sends half a document must not
// find its password in the log.
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

// maskJSON masks the secrets of a valid document. It gives up where the name of
// a secret is so odd that it may hold one itself.
func maskJSON(doc string) (string, bool) {
	var out strings.Builder
	kept := 0 // where the part of doc begins that is not in out
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

// maskForm masks the secrets of a form. It gives up on what no client would
// have written as one.
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

// maskText masks a text that is no secret by its name, and yet may hold one: a
// document within the document, or something like Password=hunter2. Talk of
// secrets is left alone, such as the name of the action ReadSecretAccessKey.
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

// isBinary says whether s has control characters, other than those of lines.
func isBinary(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return true
		}
	}
	return false
}

// isSecret says whether what has this name is a secret.
func isSecret(name string) bool {
	return hasSecretWord(name) && !slices.ContainsFunc(harmless, func(word string) bool { return strings.EqualFold(name, word) })
}

// isPlain says whether a name is made of what names are made of.
func isPlain(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(" -._[]", r))
	})
}

// hasSecretWord says whether one of the secretWords is in s: in any case, with
// or without dashes, underscores, spaces and backslashes between the letters,
// and escaped for a form or for JSON or not.
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

// wordsFrom are the secretWords by their first letter, small or capital.
var wordsFrom = func() (from [256][]string) {
	for _, word := range secretWords {
		from[word[0]] = append(from[word[0]], word)
		from[word[0]-'a'+'A'] = append(from[word[0]-'a'+'A'], word)
	}
	return from
}()

// startsWith says whether s goes on with the letters of word. What is between
// them is skipped only after a first letter was found, or a long row of
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

// unescape is the byte that a form spells %53 and a JSON text \u0053, and the
// length of that; anything else is itself.
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

// isJSON says whether s is one JSON value. What our decoders refuse, such as a
// name said twice, is JSON all the same.
func isJSON(s string) bool {
	return jsontext.Value(s).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// stringEnd, skipSpace and valueEnd find their way in valid JSON: the end of
// the string that starts at i, the first byte from i on that is no space, and
// the end of the value that starts at i.
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
	text, _ := jsontext.AppendUnquote(nil, s) // an error tells of bytes that were no UTF-8 and were replaced
	return string(text)
}

func quote(s string) string {
	text, _ := jsontext.AppendQuote(nil, s) // likewise
	return string(text)
}

// Unproven reduces r to what is kept of a call whose caller has not proven its
// identity: about 2 kB in all, whatever was sent, and in place of the body a
// text that says why. The sizes stay those of what was sent.
func (r *Record) Unproven() {
	r.HeaderRaw = cut(r.HeaderRaw, maxUnproven)
	r.UserAgent = cut(r.UserAgent, maxUnprovenAgent)
	r.PayloadRaw = unproven
}

// cut bounds what goes into the log, in bytes, between two characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
