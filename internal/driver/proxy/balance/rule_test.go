package balance

import (
	"net/http"
	"strings"
	"testing"
	"testing/quick"

	"github.com/bastide-cloud/bastide/internal/driver"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"/a", "/a", true}, {"/a", "/ab", false}, {"/a", "", false}, {"", "", true},
		{"*", "", true}, {"*", "anything", true}, {"/a*", "/a", true}, {"/a*", "/abc", true}, {"/a*", "/b", false},
		{"*.example.com", "www.example.com", true}, {"*.example.com", "example.com", false}, {"*.example.com", "www.example.com.evil", false},
		{"/?", "/a", true}, {"/?", "/", false}, {"/?", "/ab", false},
		{"*a*b*", "xaxbx", true}, {"*a*b*", "xbxax", false}, {"*ab", "aab", true}, {"a*b?c", "axxbyc", true}, {"**", "x", true},
	} {
		if got := match(c.pattern, c.text); got != c.want {
			t.Errorf("%q matches %q: %t", c.pattern, c.text, got)
		}
	}
	// A text matches itself, whatever is put in place of its parts.
	if err := quick.Check(func(before, middle, after string) bool {
		text := strings.NewReplacer("*", "", "?", "").Replace(before + "|" + middle + "|" + after)
		parts := strings.Split(text, "|")
		return match(text, text) && match(parts[0]+"*"+parts[len(parts)-1], text) && match("*", text)
	}, nil); err != nil {
		t.Error(err)
	}
}

// The time of a match does not explode with the number of wildcards: otherwise this
// would not end.
func TestMatchEnds(t *testing.T) {
	t.Parallel()
	if match(strings.Repeat("*a", 64)+"b", strings.Repeat("a", 64<<10)) {
		t.Error("a text without a b matches a pattern that ends with one")
	}
}

// The rule with the greatest priority that matches counts, and without one all
// backends do.
func TestRules(t *testing.T) {
	t.Parallel()
	f := raise(t, nil, "a", "b", "c", "d")
	s := balance(t, f.port)
	listener := web(f)
	listener.Rules = []driver.ListenerRule{
		{ID: "1", Priority: 10, Path: "/shop/*", Backends: []string{"a"}},
		{ID: "2", Priority: 20, Host: "*.Example.com", Backends: []string{"b"}},
		{ID: "3", Priority: 30, Host: "www.example.com", Path: "/img/?", Backends: []string{"c", "d"}},
		{ID: "4", Priority: 40, Path: "/nowhere", Backends: []string{"absent"}},
	}
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{listener}, f.all })
	s.healthy("a", "b", "c", "d")
	client := newClient(t)
	for _, c := range []struct{ host, path, want string }{
		{"other.org", "/shop/1", "aa"}, {"WWW.EXAMPLE.COM:8080", "/shop/1", "bb"}, {"www.example.com", "/img/1", "cd"},
		{"www.example.com", "/img/12", "bb"}, {"other.org", "/", "abcd"},
	} {
		got := ""
		for range len(c.want) {
			got += get(t, client, "http://"+s.at(8080)+c.path, func(r *http.Request) { r.Host = c.host })
		}
		for _, name := range c.want {
			if strings.Count(got, string(name)) != strings.Count(c.want, string(name)) {
				t.Errorf("%s%s goes to %q, want %q", c.host, c.path, got, c.want)
				break
			}
		}
	}
	if response, _ := ask(t, client, "http://"+s.at(8080)+"/nowhere"); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a rule without backends returns %d, want 503", response.StatusCode)
	}
	// Without its rules, the listener goes by what is left.
	listener.Rules = listener.Rules[1:2]
	s.apply(func(b *driver.Balancer) { b.Listeners = []driver.Listener{listener} })
	if got := get(t, client, "http://"+s.at(8080)+"/img/1", func(r *http.Request) { r.Host = "www.example.com" }); got != "b" {
		t.Errorf("after a rule is gone, %s", got)
	}
}
