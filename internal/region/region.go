// Package region assembles a region from its parts: the store and its journal,
// the families, authentication, the protocols, the loops and the API log. It
// founds the root account on an empty store.
package region

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apilog"
	"github.com/bastide-cloud/bastide/internal/auth"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud"
	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
	"github.com/bastide-cloud/bastide/internal/server"
	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal"
	"github.com/bastide-cloud/bastide/internal/wire"
	"github.com/bastide-cloud/bastide/internal/wire/oapi"
)

// Options configures a [Region].
type Options struct {
	// the directory of the embedded store and of the master key; empty:
	// everything is in memory
	Data string
	// the URL of a database shared by several nodes, instead of the embedded
	// store
	Postgres       string
	Password       string // for the database, if the URL has none
	Connections    int    // maximum number of connections to the database; 0: 16
	Region, Domain string
	OpenAPI        []byte        // the document served at /openapi.json
	AdminHost      string        // the host of the admin listener; empty: any
	MasterKey      string        // the file of the master key; empty: master.key in Data
	Transitions    time.Duration // approximate duration of a change of state
	// maximum size of the API log in bytes; 0: unlimited
	ApiLogSize     int64
	Limits         *auth.Limits // nil: no throttling
	Strangers      *auth.Limits // see [server.Options]
	TrustedProxies []netip.Prefix
	Quotas         map[string]int // nil: the catalogue's
	// number of flexible GPUs, by Subregion and model; nil: some of each
	Gpus map[string]map[string]int
	// maximum size of the documents in memory, in bytes; 0: unlimited
	Memory      int64
	ObjectStore ObjectStore
	// the region's own images; nil: the default ones
	Images []compute.PublicImage
	// empty fields are generated when the region is founded
	Root Root
	// found a region even where another one has left its files
	FoundAnew bool
	Driver    func(driver.Host) driver.Drivers // starts the drivers
	// Balancers starts what load balancers run on; nil: Driver does.
	Balancers func(driver.Host) (driver.BalancersOnly, error)
	Clock     clock.Clock
	Rand      io.Reader
	Logger    *slog.Logger

	Transitioned func(of string, e lifecycle.Edge) // see [resource.Options]; for tests
}

// Region is a running region.
type Region struct {
	Handler http.Handler // the public APIs
	Admin   http.Handler // health, metrics, profiles and backups
	Founded *Root        // the root account, if Open founded the region
	// the root account, if its credentials were not shown yet: see [Root.Shown]
	Unshown *Root

	API   *api.API
	DB    *resource.DB
	Calls *apilog.Archive
	Loops *reconcile.Reconciler

	journal       store.Journal
	objects       io.Closer
	drivers       driver.Drivers
	data, keyFile string // the data directory and the file of the master key; empty: none
	token         string // authorizes backups

	stop   func() // ends background work and waits for it
	closed atomic.Bool
}

// Open opens the region in o.Data, or founds one there.
func Open(ctx context.Context, o Options) (*Region, error) {
	o.Rand = &lockedReader{r: o.Rand}
	r := &Region{data: o.Data, keyFile: o.keyFile()}
	// If a step fails, everything opened before is closed, last first.
	var opened []io.Closer
	fail := func(err error) (*Region, error) {
		for i := len(opened); i > 0; i-- {
			err = errors.Join(err, opened[i-1].Close())
		}
		return nil, err
	}
	openObjects, err := o.objects()
	if err != nil {
		return nil, err
	}
	// The traces are read first, because another node may found the region
	// meanwhile.
	traces, err := o.traces()
	if err != nil {
		return nil, err
	}
	if o.Postgres == "" && o.hasNoState() {
		if err := o.checkLost(traces); err != nil {
			return nil, err
		}
	}
	// The embedded journal locks its directory, so it is opened before anything
	// else there is written.
	journal, err := o.openJournal(ctx)
	if err != nil {
		return nil, err
	}
	if journal != nil {
		opened = append(opened, journal)
	}
	r.journal = journal
	isNew, err := isEmpty(ctx, journal)
	if err != nil {
		return fail(err)
	}
	if isNew {
		if err := o.checkLost(traces); err != nil {
			return fail(err)
		}
	}
	key, err := masterKey(o, isNew)
	if err != nil {
		return fail(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	facts := catalog.NewRegion(o.Region, o.Domain)
	facts.Gpus, facts.Transition = o.Gpus, o.Transitions
	if err := cloud.Check(facts); err != nil {
		return fail(fmt.Errorf("the flexible GPUs of the region: %w", err))
	}
	if o.Quotas == nil {
		o.Quotas = catalog.Limits()
	}
	loops := newLoopMetrics(registry)
	looping := reconcile.Options{Clock: o.Clock, Log: o.Logger, Count: loops.count, ResyncEvery: o.resyncEvery()}
	leases := o.leases(journal, func() { r.Loops.LookAgain() })
	if leases != nil {
		looping.Mine = leases.Mine
	}
	r.Loops = reconcile.New(looping)
	r.DB = resource.Open(resource.Options{
		Kinds:   Kinds(),
		Journal: journal, Seal: key, Limits: o.Quotas, Now: o.Clock.Now, Rand: o.Rand, Log: o.Logger, Memory: o.Memory,
		Changed: r.Loops.Changed, After: time.After, Transitioned: o.Transitioned,
	})
	opened = []io.Closer{r.DB} // which closes its journal
	if r.Founded, err = found(ctx, r.DB, facts, o); err != nil {
		return fail(err)
	}
	if r.Unshown = r.Founded; o.Data != "" {
		if r.Unshown, err = unshown(ctx, r.DB, o); err != nil {
			return fail(fmt.Errorf("reading the root account's credentials: %w", err))
		}
	}
	if err := publish(ctx, r.DB, o); err != nil {
		return fail(fmt.Errorf("creating the images of the region: %w", err))
	}
	objects, closeObjects, err := openObjects(key)
	if err != nil {
		return fail(err)
	}
	r.objects = closeObjects
	opened = append(opened, closeObjects)
	calls := apilog.Options{Now: o.Clock.Now, After: time.After, Log: o.Logger, Size: o.ApiLogSize}
	if shared, ok := journal.(*sqljournal.Postgres); ok {
		calls.Postgres = shared.Pool()
	} else if o.Data != "" {
		calls.Dir = filepath.Join(o.Data, logDir)
	} else if calls.Size == 0 || calls.Size > memoryLog {
		calls.Size = memoryLog
	}
	r.Calls, err = apilog.Open(calls)
	if err != nil {
		return fail(fmt.Errorf("opening the API log: %w", err))
	}
	opened = append(opened, r.Calls)

	g := auth.New(auth.Options{DB: r.DB, Now: o.Clock.Now, Limits: o.Limits, TrustedProxies: o.TrustedProxies})
	pager := api.NewPager(key.Derive("page tokens"))
	exporting, err := o.exportingDir()
	if err != nil {
		return fail(err)
	}
	host := driver.Host{
		Now: o.Clock.Now, After: o.after, Write: (&objectstore.Exporter{Store: objects, Dir: exporting, Log: o.Logger}).Write,
		Region: o.Region, Put: func(ctx context.Context, account, bucket, key string, content io.ReaderAt, size int64) error {
			return objects.Put(ctx, objectstore.Bucket{Name: bucket, Account: account}, key, content, size)
		},
	}
	r.drivers = o.Driver(host)
	if o.Balancers != nil {
		balancers, err := o.Balancers(host)
		if err != nil {
			r.drivers.Close()
			return fail(err)
		}
		r.drivers = driver.WithBalancers(r.drivers, balancers)
	}
	registry.MustRegister(&balancerMetrics{drivers: r.drivers, log: o.Logger})
	actions := cloud.Actions(facts, g.CheckLogin, objects, r.drivers)
	r.API = api.New(append(actions, apilog.Actions(r.Calls, pager)...), pager)
	r.Handler = server.New(server.Options{
		API: r.API, DB: r.DB, Gate: g, Log: r.Calls, Logger: o.Logger, Protocols: []wire.Protocol{oapi.Protocol{}},
		OpenAPI: o.OpenAPI, Now: o.Clock.Now, Rand: o.Rand, Metrics: server.NewMetrics(registry),
		Strangers: o.Strangers,
	})
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bastide_store_held_bytes", Help: "Documents in memory, in bytes of their encoding."},
			func() float64 { return float64(r.DB.Held()) }),
	)
	if r.token, err = o.makeToken(journal); err != nil {
		return fail(fmt.Errorf("writing the token of the administration: %w", err))
	}
	r.Admin = server.Admin(server.AdminOptions{Metrics: registry, Ready: r.ready, Host: o.AdminHost, Backup: r.backupWith})
	if leases != nil {
		if err := leases.Renew(ctx); err != nil {
			return fail(fmt.Errorf("sharing the loops with the other nodes: %w", err))
		}
	}
	background := context.WithoutCancel(ctx)
	endLoops := start(background, func(ctx context.Context) { r.Loops.Run(ctx, r.DB, cloud.Loops(r.DB, r.drivers, facts, objects)...) })
	r.stop = endLoops
	if leases != nil {
		// The loops end before other nodes can take them over.
		endLeases := start(background, leases.Run)
		r.stop = func() { endLoops(); endLeases() }
	}
	if embedded, ok := journal.(*sqljournal.SQLite); ok {
		// In the background, because reading a large region takes long.
		endCheck := start(background, func(ctx context.Context) { check(ctx, embedded, o.Logger) })
		r.stop = func() { endCheck(); endLoops() }
	}
	return r, nil
}

// start runs a function in the background; end cancels its context and waits
// for it.
func start(ctx context.Context, run func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// leases returns this node's leases of loops; nil: it runs all of them, because
// its journal is not shared. They use the machine's clock even if the region
// has another one, because the database's clock does.
func (o *Options) leases(journal store.Journal, arrived func()) *reconcile.Leases {
	shared, ok := journal.(*sqljournal.Postgres)
	if !ok {
		return nil
	}
	return reconcile.NewLeases(reconcile.LeaseOptions{
		Lessor: shared, Node: resource.Random(o.Rand, 16, resource.Hexadecimal),
		Clock: clock.System(), Log: o.Logger, Arrived: arrived,
	})
}

// openJournal opens the journal; nil: the region is in memory only.
func (o *Options) openJournal(ctx context.Context) (store.Journal, error) {
	switch {
	case o.Postgres != "":
		return sqljournal.OpenPostgres(ctx, o.Postgres,
			sqljournal.After(time.After), sqljournal.Rand(o.Rand), sqljournal.PoolSize(o.Connections),
			sqljournal.Password(o.Password), sqljournal.PostgresLog(o.Logger))
	case o.Data != "":
		return sqljournal.Open(ctx, o.Data, sqljournal.Log(o.Logger))
	}
	return nil, nil
}

// resyncEvery is the interval of resyncs; 0: the default. In a shared journal
// only resyncs find what other nodes have written.
func (o *Options) resyncEvery() time.Duration {
	if o.Postgres != "" {
		return time.Second
	}
	return 0
}

// after is [time.After] by the clock of the region.
func (o *Options) after(d time.Duration) <-chan time.Time {
	come := make(chan time.Time, 1)
	at := o.Clock.Now().Add(d)
	o.Clock.At(at, func() { come <- at })
	return come
}

// loopMetrics counts the outcomes of loops.
type loopMetrics struct{ steps *prometheus.CounterVec }

func newLoopMetrics(r prometheus.Registerer) loopMetrics {
	m := loopMetrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bastide_loop_steps_total", Help: "Steps of loops, by loop and outcome.",
	}, []string{"loop", "outcome"})}
	r.MustRegister(m.steps)
	return m
}

func (m loopMetrics) count(loop string, outcome reconcile.Outcome) {
	m.steps.WithLabelValues(loop, string(outcome)).Inc()
}

// memoryLog is the maximum size of an API log in memory, in bytes.
const memoryLog = 512 << 20

var errClosed = errors.New("the region is closing")

func (r *Region) ready() error {
	if r.closed.Load() {
		return errClosed
	}
	if embedded, ok := r.journal.(*sqljournal.SQLite); ok {
		return embedded.Damage()
	}
	return nil
}

// check reads the whole state, so that a damaged page is found before a caller
// needs it.
func check(ctx context.Context, journal *sqljournal.SQLite, log *slog.Logger) {
	if err := journal.Check(ctx); err != nil && ctx.Err() == nil {
		log.Error("the region's state is damaged: it is not ready from now on", "error", err)
	}
}

// Drain makes the region report that it is not ready, so that load balancers
// stop sending calls. It still serves calls.
func (r *Region) Drain() { r.closed.Store(true) }

// Failed delivers the error that makes the region end: see [store.Store.Failed].
func (r *Region) Failed() <-chan error { return r.DB.Failed() }

// ResolveBalancer returns the address of the load balancer that has a DNS name: see
// [driver.Balancers].
func (r *Region) ResolveBalancer(ctx context.Context, dnsName string) (netip.Addr, bool, error) {
	return r.drivers.ResolveBalancer(ctx, dnsName)
}

// Close ends the loops and releases them to the other nodes, writes the rest of
// the API log, and closes the store. The region must not be called after it.
func (r *Region) Close() error {
	r.closed.Store(true)
	r.stop()
	r.drivers.Close()
	return errors.Join(r.Calls.Close(), r.objects.Close(), r.DB.Close())
}

// keyFile returns the file of the master key; empty: none.
func (o *Options) keyFile() string {
	if o.MasterKey == "" && o.Data != "" {
		return filepath.Join(o.Data, keyFile)
	}
	return o.MasterKey
}

// masterKey reads the master key. It generates one for a new region; in an
// existing region a new key could open nothing. Without a data directory and a
// file, it generates one for the lifetime of the process.
func masterKey(o Options, isNew bool) (*seal.Key, error) {
	file := o.keyFile()
	if file == "" {
		master := make([]byte, 32)
		if _, err := io.ReadFull(o.Rand, master); err != nil {
			return nil, fmt.Errorf("choosing a master key: %w", err)
		}
		return seal.New(master, o.Rand)
	}
	return seal.Load(file, isNew, o.Rand)
}

// lockedReader makes a source of randomness safe for concurrent use.
type lockedReader struct {
	mu sync.Mutex // guards r
	r  io.Reader
}

func (l *lockedReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}
