package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

func TestIsOutside(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"80.247.5.1": true, "2001:41d0::1": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false,
		"100.64.0.1": false, "0.0.0.0": false, "0.1.2.3": false, "255.255.255.255": false, "224.0.0.1": false, "198.18.0.1": false,
		"::1": false, "::": false, "fd00::1": false, "fe80::1": false, "ff02::1": false,
		"::ffff:10.0.0.1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false,
	} {
		if got := IsOutside(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is outside: %t", address, got)
		}
	}
}

// serve serves something on this machine.
func serve(t *testing.T) (url, host string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/there":
			fmt.Fprint(w, "content")
		case "/moved":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		case "/half":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half")
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, strings.TrimPrefix(s.URL, "http://")
}

func TestFetch(t *testing.T) {
	t.Parallel()
	url, host := serve(t)
	c := New(host)
	if got, err := c.Fetch(t.Context(), url+"/there", 7); string(got) != "content" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, test := range []struct {
		name, url string
		code      apierror.Code
	}{
		{"too large", url + "/there?6", apierror.InvalidManifest},
		{"forbidden", url + "/else", apierror.ManifestNotFound},
		{"moved", url + "/moved", apierror.ManifestNotFound},
		{"broken", url + "/broken", apierror.StoreUnreachable},
		{"half", url + "/half", apierror.StoreUnreachable},
		{"nobody there", "http://nobody.invalid/", apierror.StoreUnreachable},
		{"no URL", "bucket/key", apierror.InvalidURL},
		{"no web", "ftp://example.com/", apierror.InvalidURL},
		{"the same machine, elsewhere", "http://localhost:9/", apierror.InvalidURL},
		{"the machine's own data", "http://169.254.169.254/latest/meta-data", apierror.InvalidURL},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got, err := c.Fetch(context.Background(), test.url, 6); !test.code.Is(err) {
				t.Errorf("got %q, %v, want %s", got, err, test.code)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Fetch(ctx, url+"/there", 7); err != context.Canceled {
		t.Errorf("an ended call: %v", err)
	}
}

// Nothing on this machine or in its network is reached unless it is trusted.
func TestInside(t *testing.T) {
	t.Parallel()
	url, _ := serve(t)
	for _, c := range []*Client{New(""), New("elsewhere:80")} {
		if got, err := c.Fetch(t.Context(), url+"/there", 7); !apierror.InvalidURL.Is(err) {
			t.Errorf("got %q, %v", got, err)
		}
	}
}
