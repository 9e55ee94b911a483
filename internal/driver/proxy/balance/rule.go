package balance

import (
	"net/http"
	"strings"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// rule is a rule of a listener, and its healthy backends.
type rule struct {
	driver.ListenerRule
	pool *pool
}

// poolFor returns the backends that a request may go to: the backends of the first
// rule that matches it, or all.
func (l *listener) poolFor(r *http.Request) *pool {
	for _, rule := range l.rules {
		if rule.matches(r) {
			return rule.pool
		}
	}
	return l.all
}

func (r *rule) matches(q *http.Request) bool {
	if r.Host != "" && !match(strings.ToLower(r.Host), hostName(q.Host)) {
		return false
	}
	return r.Path == "" || match(r.Path, q.URL.Path)
}

// hostName is the name in a Host header, in lower case and without the port.
func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// match reports whether a text matches a pattern, in which * stands for any text
// and ? for one character. Its time grows with the product of both lengths at
// most, since after a * only the last one is tried again.
func match(pattern, text string) bool {
	p, t := 0, 0
	star, after := -1, 0 // the last * of the pattern, and where the text after it began
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, after = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			after++
			p, t = star+1, after
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
