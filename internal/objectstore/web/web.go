// Package web reads what the URLs of strangers lead to, without letting them
// reach what only the region can: it connects to addresses of the Internet only,
// and to the object store of the operator.
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

// Client reads URLs.
type Client struct {
	trusted string // the host and port that may be anywhere
	http    *http.Client
}

// patience bounds how long a URL may take to be read.
const patience = 10 * time.Second

// New makes a client. What the operator has chosen, trusted, is given as a host
// and port; empty: there is no such thing.
func New(trusted string) *Client {
	c := &Client{trusted: trusted}
	c.http = &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// A proxy would be asked for what we must not reach ourselves.
		Transport: &http.Transport{DialContext: c.dial, Proxy: nil, DisableKeepAlives: true},
	}
	return c
}

// Fetch reads what a URL leads to, if it is at most so many bytes.
func (c *Client) Fetch(ctx context.Context, location string, most int64) ([]byte, error) {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, apierror.InvalidURL.Errorf("It is not a URL such as https://example.com/bucket/object.")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, apierror.InvalidURL.Errorf("It is not a URL that can be asked for.")
	}
	resp, err := c.http.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errInside):
		return nil, apierror.InvalidURL.Errorf("%s is not on the Internet.", u.Hostname())
	case err != nil:
		return nil, apierror.StoreUnreachable.Errorf("%s does not answer.", u.Host)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500:
		return nil, apierror.StoreUnreachable.Errorf("%s answers with the status %d.", u.Host, resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, apierror.ManifestNotFound.Errorf("%s answers with the status %d: the URL has expired, or nothing is there.", u.Host, resp.StatusCode)
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return nil, apierror.StoreUnreachable.Errorf("%s has not answered to the end.", u.Host)
	}
	if int64(len(content)) > most {
		return nil, apierror.InvalidManifest.Errorf("It has more than %d bytes.", most)
	}
	return content, nil
}

var errInside = errors.New("the address is not one of the Internet")

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	if address != c.trusted {
		// The address is looked at when it is used: a name can lead to another
		// one each time it is asked for.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(address); err != nil || !IsOutside(at.Addr()) {
				return errInside
			}
			return nil
		}
	}
	return dialer.DialContext(ctx, network, address)
}

// inside are the ranges that are not the Internet, besides those that netip
// knows.
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), // which hides an IPv4 address
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
