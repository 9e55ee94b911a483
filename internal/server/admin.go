package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminOptions configures the admin listener.
type AdminOptions struct {
	Metrics prometheus.Gatherer
	Ready   func() error // returns why the region cannot serve now, or nil
	// the host name of requests, besides localhost and addresses; empty: no other
	Host string

	// Backup copies the region, if it is the one in the directory data, to
	// another directory, and returns a text for the operator. The token comes
	// from the request; [ErrToken] means that it is wrong. A nil Backup
	// disables backups.
	Backup func(ctx context.Context, token, data, dir string) (fmt.Stringer, error)
}

// ErrToken is the error of a request without the token that it needs.
var ErrToken = errors.New("the token is missing or wrong")

// Admin returns the handler of the admin listener: health, metrics, profiles
// and backups. The command line is not shown, because it may contain a
// password.
func Admin(o AdminOptions) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if o.Backup != nil {
		// A web page that is open on this machine can post here, too.
		mux.Handle("POST /backup", http.NewCrossOriginProtection().Handler(http.HandlerFunc(o.backup)))
	}
	return o.onlyOwnHosts(mux)
}

func (o AdminOptions) backup(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	made, err := o.Backup(r.Context(), token, r.URL.Query().Get("data"), r.URL.Query().Get("dir"))
	switch {
	case errors.Is(err, ErrToken):
		http.Error(w, err.Error(), http.StatusUnauthorized)
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		fmt.Fprint(w, made)
	}
}

// onlyOwnHosts refuses requests for other host names. A web page whose name
// resolves to this machine has the same origin as the admin listener, so the
// browser lets it read everything; only the name reveals it.
func (o AdminOptions) onlyOwnHosts(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !o.isOwn(hostOf(r.Host)) {
			text := fmt.Sprintf("The admin listener does not serve the host %q: use an IP address, localhost, or the name given in --admin.", r.Host)
			http.Error(w, text, http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isOwn reports whether requests may be for a host. HTTP/1.0, which no browser
// uses, names none.
func (o AdminOptions) isOwn(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "" || strings.EqualFold(host, "localhost") || strings.EqualFold(host, o.Host)
}

// hostOf returns a host without its port and brackets.
func hostOf(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
}
