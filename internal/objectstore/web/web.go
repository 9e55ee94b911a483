// Package web fetches URLs given by callers, without giving them access to what
// only the region can reach: it connects to addresses on the Internet and to
// the operator's object store only.
package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// Client fetches URLs.
type Client struct {
	trusted string // a host and port that may have any address
	http    *http.Client
}

// patience is the timeout of a fetch.
const patience = 10 * time.Second

// New returns a client. trusted is the host and port of the operator's object
// store; empty: none.
func New(trusted string) *Client {
	c := &Client{trusted: trusted}
	c.http = &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// A proxy could connect to addresses that are forbidden here.
		Transport: &http.Transport{DialContext: c.dial, Proxy: nil, DisableKeepAlives: true},
	}
	return c
}

// Fetch reads the object at a URL, if it has at most limit bytes.
func (c *Client) Fetch(ctx context.Context, location string, limit int64) ([]byte, error) {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, apierror.InvalidURL.Errorf("The value is not a URL such as https://example.com/bucket/object.")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, apierror.InvalidURL.Errorf("The value is not a URL that can be fetched.")
	}
	resp, err := c.http.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errInside):
		return nil, apierror.InvalidURL.Errorf("%s is not on the Internet.", u.Hostname())
	case err != nil:
		return nil, apierror.StoreUnreachable.Errorf("%s does not respond.", u.Host)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500:
		return nil, apierror.StoreUnreachable.Errorf("%s responds with the status %d.", u.Host, resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, apierror.ManifestNotFound.Errorf("%s responds with the status %d: the URL has expired, or the object does not exist.",
			u.Host, resp.StatusCode)
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, apierror.StoreUnreachable.Errorf("%s stopped in the middle of its response.", u.Host)
	}
	if int64(len(content)) > limit {
		return nil, apierror.InvalidManifest.Errorf("The object has more than %d bytes.", limit)
	}
	return content, nil
}

var errInside = errors.New("the address is not one of the Internet")

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	if address != c.trusted {
		// The address is checked on use, because a name can resolve to another
		// one each time.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(address); err != nil || !IsOutside(at.Addr()) {
				return errInside
			}
			return nil
		}
	}
	return dialer.DialContext(ctx, network, address)
}

// inside are the ranges that are not on the Internet, besides those that netip
// knows.
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), // embeds an IPv4 address
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"), // likewise
}

// IsOutside reports whether an address is on the Internet.
func IsOutside(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, r := range inside {
		if r.Contains(a) {
			return false
		}
	}
	return true
}
