package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide"
	"github.com/bastide-cloud/bastide/internal/auth"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/server"
)

// settings are the flags of serve.
type settings struct {
	listen, admin, data, store string
	region, domain             string
	passwordFile               string
	throttle, masterKey, tls   string
	trustedProxies, gpus       string
	transitions                time.Duration
	apiLogSize                 byteSize
	connections                int
	objectStore, images        string
	foundAnew                  bool
	balancing                  balancing
}

func serve(ctx context.Context, args []string, out, messages io.Writer) error {
	s := settings{apiLogSize: 20 << 30} // 32 days of 10 calls a second
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:4280", "`ADDR` of the public APIs")
	flags.StringVar(&s.admin, "admin", "127.0.0.1:4281", "`ADDR` of the admin listener (health, metrics and backups), or off")
	flags.StringVar(&s.data, "data", "./bastide-data", "`DIR` of the embedded store")
	flags.StringVar(&s.store, "store", "", "`URL` of the store: sqlite:DIR (the default, with DIR of --data), "+
		"postgres://USER@HOST/DATABASE (which many nodes share) or memory")
	flags.StringVar(&s.passwordFile, "store-password-file", "", "`FILE` with the password of a PostgreSQL database")
	flags.IntVar(&s.connections, "connections", 16, "maximum `NUMBER` of connections to a PostgreSQL database")
	flags.StringVar(&s.region, "region", "eu-west-2", "`NAME` of the region")
	flags.StringVar(&s.domain, "domain", "bastide.localhost", "`NAME` of the domain of endpoints and DNS names")
	flags.StringVar(&s.throttle, "throttle", "on", "`LIMITS` of calls: on, off, or per account and per call, such as 200/s,50/s")
	flags.StringVar(&s.masterKey, "master-key", "",
		"`FILE` of the key that seals secrets at rest (default DIR/master.key, generated at the first start)")
	flags.StringVar(&s.tls, "tls", "off", "off, auto (a certificate by the region's own authority) or `CERT:KEY` files")
	flags.DurationVar(&s.transitions, "transitions", 200*time.Millisecond, "`DURATION` of simulated changes of state; 0: immediate")
	flags.Var(&s.apiLogSize, "api-log-size", "maximum size of the API log in `BYTES`, such as 512MiB; its oldest days are "+
		"dropped when it is reached")
	flags.StringVar(&s.objectStore, "object-store", "",
		"`URL` of the object store that exports are written to: an endpoint that speaks S3, or file:///DIR (default: objects in "+
			"the data directory)")
	flags.StringVar(&s.images, "images", "", "`FILE` of the region's own images, instead of the default ones")
	flags.StringVar(&s.trustedProxies, "trusted-proxies", "", "`CIDRS`, separated by commas, of proxies whose X-Forwarded-For counts")
	flags.StringVar(&s.gpus, "gpus", "", "JSON `FILE` with the number of flexible GPUs by Subregion and model (default: some of each)")
	s.balancing.flags(flags)
	flags.BoolVar(&s.foundAnew, "found-anew", false,
		"found a new region in a data directory that has only the API log or credentials of a lost one")
	if err := parse(flags, args, messages); err != nil {
		return err
	}
	return s.serve(ctx, out, slog.New(slog.NewTextHandler(messages, nil)))
}

func (s *settings) serve(ctx context.Context, out io.Writer, log *slog.Logger) error {
	region.TuneCollector()
	o, err := s.options(log)
	if err != nil {
		return err
	}
	// Certificates and addresses come first, so that errors in them are found
	// before anything is created or locked.
	cert, err := s.certificate()
	if err != nil {
		return fmt.Errorf("--tls: %w", err)
	}
	public, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listening for the public APIs: %w", err)
	}
	defer public.Close()
	public = server.CutStalled(public, time.Now)
	listening := []net.Addr{public.Addr()}
	var admin net.Listener
	if s.admin != "off" {
		if admin, err = net.Listen("tcp", s.admin); err != nil {
			return fmt.Errorf("listening for the admin listener: %w", err)
		}
		defer admin.Close()
		listening = append(listening, admin.Addr())
		admin = server.CutStalled(admin, time.Now)
	}
	if err := s.balancing.options(&o, listening...); err != nil {
		return err
	}
	r, err := region.Open(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted before the region was served")
		}
		return err
	}
	if root := r.Unshown; root != nil {
		fmt.Fprintf(out, "%s. Its root account, shown this once%s:\n%s\n", whenFounded(r), keptIn(root.File), root)
		if err := root.Shown(); err != nil {
			return errors.Join(err, r.Close())
		}
	}
	if s.tls == "auto" {
		if cert, err = s.ownCertificate(o); err != nil {
			return errors.Join(fmt.Errorf("--tls auto: %w", err), r.Close())
		}
	}
	scheme := "http"
	if cert != nil {
		scheme, public = "https", tls.NewListener(public, server.TLS(*cert))
	}
	if o.Data != "" {
		if err := s.endpoint(public.Addr()).keep(o.Data); err != nil {
			log.Warn("bastide env will not find the region's endpoint", "error", err)
		}
	}
	names, err := s.balancing.serveNames(s, r, listening[0], log)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	if names != nil {
		defer names.Close()
		fmt.Fprintf(out, "The region's names are served at %s\n", names.Address())
	}
	if admin != nil {
		fmt.Fprintf(out, "Health and metrics are at http://%s\n", admin.Addr())
	}
	fmt.Fprintf(out, "Bastide serves the region %s at %s://%s\n", s.region, scheme, public.Addr())
	return run(ctx, r, public, admin, log)
}

// whenFounded introduces the credentials of the root account.
func whenFounded(r *region.Region) string {
	if r.Founded == nil {
		return "The region was founded by an earlier start that did not show its credentials"
	}
	return "A new region was founded"
}

func keptIn(file string) string {
	if file == "" {
		return ""
	}
	return " and kept in " + file
}

// After SIGTERM running calls may take drain to end. Then their contexts are
// canceled, and they have lastCall to return.
const (
	drain    = 10 * time.Second
	lastCall = time.Second
)

// run serves until the context ends or something breaks, then drains.
func run(ctx context.Context, r *region.Region, public, admin net.Listener, log *slog.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var servers []*http.Server
	serve := func(h http.Handler, l net.Listener, calls context.Context) {
		listening := server.HTTP(h, time.Now)
		listening.BaseContext = func(net.Listener) context.Context { return calls }
		servers = append(servers, listening)
		go func() { cancel(serving(listening.Serve(l))) }()
	}
	// Running calls are completed. A running backup is canceled.
	calls, endCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer endCalls()
	serve(r.Handler, public, calls)
	if admin != nil {
		serve(r.Admin, admin, ctx)
	}
	go func() {
		select {
		case err := <-r.Failed():
			cancel(fmt.Errorf("the store failed, and its state is only known after a restart: %w", err))
		case <-ctx.Done():
		}
	}()
	<-ctx.Done()
	r.Drain()
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		cause = nil // a regular end
	}
	if !shutDown(servers, endCalls) {
		log.Warn("calls that had not ended, or whose responses were not read, were cut off", "after", drain)
	}
	return errors.Join(cause, within(closeLimit, r.Close))
}

// closeLimit bounds how long closing the region may take after that: it writes
// the rest of the API log and checkpoints the store.
const closeLimit = 15 * time.Second

// within calls end, but does not wait for it longer than limit: a transaction
// that does not return would block it. Giving up is safe, like killing the
// process.
func within(limit time.Duration, end func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		return fmt.Errorf("the region did not close within %s, most likely because a transaction does not end: "+
			"the process ends now, and uncommitted changes are lost", limit)
	}
}

// shutDown stops servers when their calls have ended. It returns false if calls
// were cut off.
func shutDown(servers []*http.Server, endCalls func()) bool {
	idle := func(limit time.Duration) bool {
		waiting, done := context.WithTimeout(context.Background(), limit)
		defer done()
		all := true
		for _, s := range servers {
			if errors.Is(s.Shutdown(waiting), context.DeadlineExceeded) {
				all = false
			}
		}
		return all
	}
	if idle(drain) {
		return true
	}
	endCalls()
	if !idle(lastCall) {
		for _, s := range servers {
			_ = s.Close() // errors of connections that are cut add nothing
		}
	}
	return false
}

// serving wraps the error of a listener that failed; nil if it was shut down.
func serving(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving: %w", err)
}

// options checks the flags and returns the region's options.
func (s *settings) options(log *slog.Logger) (region.Options, error) {
	o := region.Options{
		Region: s.region, Domain: s.domain, Transitions: s.transitions, Driver: sim.Start(s.transitions), MasterKey: s.masterKey,
		ApiLogSize: int64(s.apiLogSize), Strangers: server.StrangerLimits(),
		Root: region.Root{
			AccountID: os.Getenv("BASTIDE_ROOT_ACCOUNT_ID"), Email: os.Getenv("BASTIDE_ROOT_EMAIL"), Password: os.Getenv("BASTIDE_ROOT_PASSWORD"),
			AccessKey: os.Getenv("BASTIDE_ROOT_ACCESS_KEY"), SecretKey: os.Getenv("BASTIDE_ROOT_SECRET_KEY"),
		},
		ObjectStore: region.ObjectStore{
			URL: s.objectStore, AccessKey: os.Getenv("BASTIDE_OBJECT_STORE_ACCESS_KEY"), SecretKey: os.Getenv("BASTIDE_OBJECT_STORE_SECRET_KEY"),
		},
		FoundAnew: s.foundAnew,
		Clock:     clock.System(), Rand: rand.Reader, Logger: log, OpenAPI: bastide.OpenAPI,
	}
	if !label.MatchString(s.region) {
		return o, fmt.Errorf("--region: %q cannot be part of a host name: "+
			"the name of a region has 1 to 63 letters, digits and hyphens, and no hyphen at either end", s.region)
	}
	if host, _, err := net.SplitHostPort(s.admin); err == nil {
		o.AdminHost = host
	}
	var err error
	if o.Limits, err = auth.ParseLimits(s.throttle); err != nil {
		return o, fmt.Errorf("--throttle: %w", err)
	}
	if o.Images, err = readImages(s.images); err != nil {
		return o, fmt.Errorf("--images: %w", err)
	}
	if s.transitions < 0 {
		return o, fmt.Errorf("--transitions: %s is negative", s.transitions)
	}
	if s.gpus != "" {
		if o.Gpus, err = readGpus(s.gpus); err != nil {
			return o, fmt.Errorf("--gpus: %w", err)
		}
	}
	for cidr := range strings.SplitSeq(s.trustedProxies, ",") {
		if cidr = strings.TrimSpace(cidr); cidr == "" {
			continue
		}
		p, err := netip.ParsePrefix(cidr)
		if err != nil {
			return o, fmt.Errorf("--trusted-proxies: %q is not a range such as 10.0.0.0/8", cidr)
		}
		o.TrustedProxies = append(o.TrustedProxies, p)
	}
	if isPostgres(s.store) {
		o.Postgres, o.Data, o.Connections = s.store, s.data, s.connections
		o.Password, err = readPassword(s.passwordFile)
		return o, err
	}
	o.Data, err = s.dataDir()
	return o, err
}

// label is a label of a host name, by RFC 1123.
var label = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// readGpus reads the number of flexible GPUs, such as {"eu-west-2a":
// {"nvidia-p6": 4}}. Omitted ones are zero.
func readGpus(file string) (gpus map[string]map[string]int, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &gpus); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if gpus == nil {
		return nil, fmt.Errorf("%s names no Subregions", file)
	}
	return gpus, nil
}

// readImages reads the region's own images; nil: no file was given.
func readImages(file string) ([]compute.PublicImage, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	images, err := compute.ReadPublicImages(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return images, nil
}

func isPostgres(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

// readPassword reads the password of a database, which is the only line of the
// file; empty if no file was given.
func readPassword(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--store-password-file: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" || strings.ContainsAny(password, "\r\n") {
		return "", fmt.Errorf("--store-password-file: %s must contain one line, the password", file)
	}
	return password, nil
}

// dataDir returns the directory of the embedded store; empty if the store is in
// memory.
func (s *settings) dataDir() (string, error) {
	scheme, rest, _ := strings.Cut(s.store, ":")
	switch {
	case s.store == "":
		return s.data, nil
	case s.store == "memory":
		return "", nil
	case scheme == "sqlite" && rest != "":
		return rest, nil
	}
	// The URL may contain a password, so only its scheme is quoted.
	return "", fmt.Errorf("--store: %q is not a kind of store: give sqlite:DIR, postgres://USER@HOST/DATABASE or memory", scheme)
}

// certificate reads the listener's certificate from the files in --tls; nil:
// there are none.
func (s *settings) certificate() (*tls.Certificate, error) {
	if s.tls == "off" || s.tls == "auto" {
		return nil, nil
	}
	certFile, keyFile, ok := strings.Cut(s.tls, ":")
	if !ok {
		return nil, fmt.Errorf("%q is neither off, auto, nor CERT:KEY", s.tls)
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	return &cert, err
}

// ownCertificate issues the listener's certificate from the region's own
// authority.
func (s *settings) ownCertificate(o region.Options) (*tls.Certificate, error) {
	cert, ca, err := server.AutoCertificate(filepath.Join(cmp.Or(o.Data, s.data), "tls"), s.names(), o.Clock.Now(), o.Rand)
	if err == nil {
		o.Logger.Info("clients must trust the region's own authority", "file", ca)
	}
	return &cert, err
}

// endpoint returns how the region is served at the address that it listens at.
func (s *settings) endpoint(at net.Addr) *endpoint {
	_, port, _ := net.SplitHostPort(at.String())
	e := &endpoint{Host: clientHost(s.listen, port), Region: s.region, TLS: s.tls}
	if e.TLS != "off" && e.TLS != "auto" {
		e.TLS = "files"
	}
	return e
}

// names returns the hosts and addresses by which clients may call the region.
func (s *settings) names() []string {
	names := []string{"localhost", "127.0.0.1", "::1", s.domain, "*." + s.domain, "*." + s.region + "." + s.domain}
	if host, _, err := net.SplitHostPort(s.listen); err == nil && host != "" && host != "localhost" && host != "127.0.0.1" && host != "::1" {
		names = append(names, host)
	}
	return names
}
