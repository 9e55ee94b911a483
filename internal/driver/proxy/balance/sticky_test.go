package balance

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// browser is a client with cookies.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t)
	client.Jar = jar
	return client
}

// stays asks often, and returns the one backend that it gets to; empty: there are
// several.
func stays(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	first := get(t, client, url)
	for range 6 {
		if get(t, client, url) != first {
			return ""
		}
	}
	return first
}

// A cookie of the load balancer keeps a browser at its backend, as long as that is
// healthy.
func TestLoadBalancerCookie(t *testing.T) {
	t.Parallel()
	f := raise(t, nil, "a", "b", "c")
	s := balance(t, f.port)
	listener := web(f)
	listener.Stickiness = &driver.Stickiness{}
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{listener}, f.all })
	s.healthy("a", "b", "c")
	at := "http://" + s.at(8080)
	one, seen := browser(t), map[string]bool{}
	own := stays(t, one, at)
	if own == "" {
		t.Fatal("a browser does not stay at its backend")
	}
	for range 3 {
		seen[stays(t, browser(t), at)] = true
	}
	if len(seen) != 3 || seen[""] {
		t.Errorf("three browsers are at %v", seen)
	}
	response, _ := ask(t, newClient(t), at)
	cookie := response.Cookies()[0]
	if cookie.Name != stickyCookie || !cookie.HttpOnly || cookie.Secure || cookie.MaxAge != 0 || cookie.Path != "/" {
		t.Errorf("the cookie of a browser's session is %s", cookie)
	}
	// It says nothing of the backend, and one that was not given out means nothing.
	response, _ = ask(t, newClient(t), at, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: stickyCookie, Value: "a"}) })
	if len(response.Cookies()) != 1 {
		t.Error("a cookie that was not given out is taken")
	}

	listener.Stickiness = &driver.Stickiness{Period: time.Hour}
	s.apply(func(b *driver.Balancer) { b.Listeners, b.SecuredCookies = []driver.Listener{listener}, true })
	if got := stays(t, one, at); got != own {
		t.Errorf("after a change the browser is at %q, want %q", got, own)
	}
	response, _ = ask(t, newClient(t), at)
	if cookie = response.Cookies()[0]; cookie.MaxAge != 3600 || !cookie.Secure {
		t.Errorf("the cookie of an hour is %s", cookie)
	}
	s.apply(func(b *driver.Balancer) { b.SecuredCookies = false })
	f.servers[own].Listener.Close()
	f.servers[own].CloseClientConnections()
	if got := stays(t, one, at); got == own || got == "" {
		t.Errorf("once its backend is gone the browser is at %q", got)
	}
}

// A cookie of the application begins and ends a session.
func TestApplicationCookie(t *testing.T) {
	t.Parallel()
	f := raise(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/login":
			http.SetCookie(w, &http.Cookie{Name: "SESSION", Value: "x", Path: "/", MaxAge: 60})
		case "/logout":
			http.SetCookie(w, &http.Cookie{Name: "SESSION", Path: "/", MaxAge: -1})
		}
		_, _ = io.WriteString(w, w.Header().Get("Backend"))
	}), "a", "b", "c")
	s := balance(t, f.port)
	listener := web(f)
	listener.Stickiness = &driver.Stickiness{Cookie: "SESSION"}
	s.apply(func(b *driver.Balancer) { b.Listeners, b.Backends = []driver.Listener{listener}, f.all })
	s.healthy("a", "b", "c")
	at := "http://" + s.at(8080)
	client := browser(t)
	if got := stays(t, client, at); got != "" {
		t.Errorf("without a session the browser stays at %s", got)
	}
	own := get(t, client, at+"/login")
	if got := stays(t, client, at); got != own {
		t.Errorf("with a session the browser is at %q, want %s", got, own)
	}
	where, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if cookies := client.Jar.Cookies(where); len(cookies) != 2 {
		t.Errorf("the browser has the cookies %v", cookies)
	}
	// The cookie of the load balancer alone is no session.
	alone := func(r *http.Request) {
		for _, c := range client.Jar.Cookies(where) {
			if c.Name == stickyCookie {
				r.AddCookie(c)
			}
		}
	}
	got := map[string]bool{}
	for range 6 {
		got[get(t, newClient(t), at, alone)] = true
	}
	if len(got) != 3 {
		t.Errorf("without the application's cookie a client is at %v", got)
	}
	get(t, client, at+"/logout")
	if got := stays(t, client, at); got != "" || len(client.Jar.Cookies(where)) != 0 {
		t.Errorf("after the session the browser stays at %s, with the cookies %v", got, client.Jar.Cookies(where))
	}
}
