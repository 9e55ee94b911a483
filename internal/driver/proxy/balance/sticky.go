package balance

import (
	"net/http"
	"time"
)

// stickyCookie is the name of the cookie that says which backend a client sticks
// to.
const stickyCookie = "LBU"

// stickyBackend is the healthy backend that the client sticks to; nil: none, or one
// that the request may not go to.
func (x *exchange) stickyBackend() *backend {
	s := x.listener.Stickiness
	if s == nil {
		return nil
	}
	if s.Cookie != "" {
		if _, err := x.request.Cookie(s.Cookie); err != nil {
			return nil // the application has ended the session
		}
	}
	for _, c := range x.request.CookiesNamed(stickyCookie) {
		be := x.listener.sticky[c.Value]
		if be != nil && x.pool.has(be) {
			return be
		}
	}
	return nil
}

func (p *pool) has(be *backend) bool {
	for _, other := range p.healthy {
		if other == be {
			return true
		}
	}
	return false
}

// stick adds the stickiness cookie to a response, if it begins a session or goes on
// with one elsewhere. The cookie of a session of the application lives as long as
// the application's own, which takes it away with an age of nothing.
func (x *exchange) stick(header http.Header) {
	s := x.listener.Stickiness
	if s == nil {
		return
	}
	cookie := &http.Cookie{Name: stickyCookie, Value: x.backend.cookie, Path: "/", HttpOnly: true, Secure: x.listener.secured}
	switch {
	case s.Cookie == "":
		if x.session == x.backend {
			return
		}
		cookie.MaxAge = int(s.Period / time.Second)
	default:
		own := setCookie(header, s.Cookie)
		if own == nil {
			return
		}
		cookie.MaxAge, cookie.Expires = own.MaxAge, own.Expires
		if own.Path != "" {
			cookie.Path = own.Path
		}
	}
	header.Add("Set-Cookie", cookie.String())
}

// setCookie is the last cookie of a name that a response sets; nil: none.
func setCookie(header http.Header, name string) (found *http.Cookie) {
	for _, line := range header["Set-Cookie"] {
		if c, err := http.ParseSetCookie(line); err == nil && c.Name == name {
			found = c
		}
	}
	return found
}
