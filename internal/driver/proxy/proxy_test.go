package proxy

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/drivertest"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/s3"
)

// The test program is also the child process of a driver, and a region that is
// killed, when its environment says so.
const role = "BASTIDE_TEST_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "process":
		err = process(os.Args[len(os.Args)-1])
	case "region":
		err = region()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func process(dir string) error {
	listener, err := Inherited()
	if err != nil {
		return err
	}
	p := &Process{
		Dir: dir, Listen: listener, Rand: rand.Reader, Now: time.Now, After: soon, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if os.Args[1] == "tied" {
		p.Tied = os.Stdin
	}
	return p.Run(context.Background())
}

// region keeps a load balancer that it reads from its input, until it is killed.
func region() error {
	d, err := open(options(os.Getenv("DIR"), netip.MustParsePrefix(os.Getenv("ADDRESSES")), slog.Default()), nil)
	if err != nil {
		return err
	}
	var b driver.Balancer
	if err := json.NewDecoder(os.Stdin).Decode(&b); err != nil {
		return err
	}
	if err := d.EnsureBalancer(context.Background(), b); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// soon is time.After for what is done every few seconds, which no test waits for.
func soon(d time.Duration) <-chan time.Time { return time.After(min(d, 50*time.Millisecond)) }

func options(dir string, addresses netip.Prefix, log *slog.Logger) Options {
	return Options{
		Dir: dir, Addresses: addresses, Command: []string{os.Args[0], "free"}, Env: []string{role + "=process"},
		Rand: rand.Reader, Now: time.Now, After: soon, Log: log,
	}
}

func open(o Options, put driver.ObjectWriter) (*Driver, error) {
	if put == nil {
		put = func(context.Context, string, string, string, io.ReaderAt, int64) error {
			return errors.New("there is no object store")
		}
	}
	return Open(context.Background(), o, driver.Host{Now: time.Now, After: time.After, Region: "eu-west-2", Put: put})
}

// ranges counts the ranges of addresses that tests have, each another one.
var ranges atomic.Uint32

func newRange() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 70, byte(ranges.Add(1)), 0}), 24)
}

// start opens a driver whose load balancers end with the test.
func start(t *testing.T, change ...func(*Options)) *Driver {
	t.Helper()
	o := options(t.TempDir(), newRange(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	for _, c := range change {
		c(&o)
	}
	return reopen(t, o, nil)
}

func reopen(t *testing.T, o Options, put driver.ObjectWriter) *Driver {
	t.Helper()
	d, err := open(o, put)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.mu.Lock()
		all := d.children
		d.mu.Unlock()
		for at := range all {
			if err := d.RemoveBalancer(context.Background(), at.account, at.id); err != nil {
				t.Errorf("removing %s: %v", at.id, err)
			}
		}
		d.Close()
	})
	return d
}

// waitUntil returns once the machine's clock shows a time.
func waitUntil(at time.Time) { <-time.After(time.Until(at)) }

func TestDriver(t *testing.T) {
	t.Parallel()
	drivertest.Balancers(t, func(t *testing.T) (driver.Balancers, func(time.Time)) { return start(t), waitUntil })
}

// web is a load balancer of HTTP at port 8080, before a server at an address of its
// own.
func web(t *testing.T, id string, handler http.Handler) driver.Balancer {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	return driver.Balancer{
		Account: "000000000001", ID: id, Generation: 1, Name: id, DnsName: id + ".lbu.example.com",
		Listeners: []driver.Listener{{Port: 8080, Protocol: "HTTP", BackendPort: port, BackendProtocol: "HTTP"}},
		Backends:  []driver.Backend{{ID: "i-1", Address: netip.MustParseAddr("127.0.0.1")}},
		HealthCheck: driver.HealthCheck{
			Protocol: "TCP", Port: port, Interval: 20 * time.Millisecond, Timeout: 5 * time.Second, Healthy: 2, Unhealthy: 5,
		},
	}
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

// healthy waits until all backends are, and returns the URL of the load balancer.
func healthy(t *testing.T, d *Driver, b driver.Balancer) string {
	t.Helper()
	var status driver.BalancerStatus
	eventually(t, "the backends are healthy", func() bool {
		var err error
		var ok bool
		if status, ok, err = d.Balancer(t.Context(), b.Account, b.ID); err != nil {
			t.Fatal(err)
		}
		for _, h := range status.Health {
			ok = ok && h.State == driver.Healthy
		}
		return ok && status.Generation == b.Generation
	})
	return "http://" + net.JoinHostPort(status.Address.String(), strconv.Itoa(b.Listeners[0].Port))
}

func eventually(t *testing.T, what string, come func() bool) {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !come() {
		select {
		case <-late.C:
			t.Fatalf("it does not come: %s", what)
		case <-again.C:
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v", url, response.Status, err)
	}
	return string(body)
}

// pid is the process of a load balancer; 0: there is none.
func pid(t *testing.T, d *Driver, b driver.Balancer) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path) // it may have ended
		if dir := filepath.Join(d.Dir, childrenDir, dirOf(b.Account, b.ID)); strings.Contains(string(line), dir+"\x00") {
			id, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return id
		}
	}
	return 0
}

// A driver that is opened again finds its load balancers, which are what they were,
// and go on counting.
func TestAdopt(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir(), newRange(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	first, err := open(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := web(t, "web", hello)
	if err := first.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	url := healthy(t, first, b)
	get(t, url)
	was := pid(t, first, b)
	first.Close()
	get(t, url)
	second := reopen(t, o, nil)
	if got := healthy(t, second, b); got != url || pid(t, second, b) != was {
		t.Errorf("after a restart the load balancer is at %s, want %s", got, url)
	}
	get(t, url)
	status, _, err := second.Balancer(t.Context(), b.Account, b.ID)
	if err != nil || status.Counters.Requests != 3 {
		t.Errorf("%v, and the counters are %+v", err, status.Counters)
	}
	if address, ok, err := second.ResolveBalancer(t.Context(), "WEB.lbu.example.com"); !ok || err != nil || address != status.Address {
		t.Errorf("its name resolves to %s, %t, %v", address, ok, err)
	}
	old := b
	old.Generation = 0
	if err := second.EnsureBalancer(t.Context(), old); !errors.Is(err, driver.ErrStale) {
		t.Errorf("an older generation is not refused: %v", err)
	}
}

// A load balancer whose process is killed is started again, where it was, and as it
// was.
func TestKilledBalancer(t *testing.T) {
	t.Parallel()
	d := start(t)
	b := web(t, "web", hello)
	if err := d.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	url := healthy(t, d, b)
	was := pid(t, d, b)
	if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process", func() bool {
		status, ok, err := d.Balancer(t.Context(), b.Account, b.ID)
		return err == nil && ok && status.Generation == b.Generation && len(status.Health) == 1 && pid(t, d, b) > 0 && pid(t, d, b) != was
	})
	if got := healthy(t, d, b); got != url {
		t.Errorf("it is started again at %s, want %s", got, url)
	}
	get(t, url)
}

// One that was killed while no region ran is seen by its name, so that it is asked
// for again, and gets its address.
func TestKilledMeanwhile(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir(), newRange(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	first, err := open(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := web(t, "web", hello)
	if err := first.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	url := healthy(t, first, b)
	id := pid(t, first, b)
	first.Close()
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process has ended", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	second := reopen(t, o, nil)
	seen, err := second.ObserveBalancers(t.Context())
	if err != nil || len(seen) != 1 || seen[0].Key() != (driver.Key{Account: b.Account, ID: b.ID}) || seen[0].Reason == "" {
		t.Errorf("a load balancer without a process is seen as %+v, %v", seen, err)
	}
	if err := second.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := healthy(t, second, b); got != url {
		t.Errorf("it comes back at %s, want %s", got, url)
	}
}

// The region is killed under load, and another one takes over and changes what it
// finds: of 10,000 requests none fails.
func TestKilledRegion(t *testing.T) {
	t.Parallel()
	dir, addresses := t.TempDir(), newRange()
	b := web(t, "web", hello)
	killed := exec.Command(os.Args[0])
	killed.Env = []string{role + "=region", "DIR=" + dir, "ADDRESSES=" + addresses.String()}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	killed.Stdin, killed.Stderr = strings.NewReader(string(text)), os.Stderr
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "ready\n" {
		t.Fatalf("the region says %q, %v", said, err)
	}
	// The test looks at the load balancer as another region would, and no further.
	looking := &Driver{Options: options(dir, addresses, slog.Default())}
	if looking.root, err = os.Open(filepath.Join(dir, childrenDir)); err != nil {
		t.Fatal(err)
	}
	defer looking.root.Close()
	look := newChild(looking, name{Account: b.Account, ID: b.ID})
	var status driver.BalancerStatus
	eventually(t, "the backend is healthy", func() bool {
		status, _, err = look.status(t.Context())
		return err == nil && len(status.Health) == 1 && status.Health[0].State == driver.Healthy
	})
	url := "http://" + net.JoinHostPort(status.Address.String(), "8080")

	const requests, clients = 10_000, 4
	var sent, failed atomic.Int64
	var load sync.WaitGroup
	quarter, half := make(chan struct{}), make(chan struct{})
	for range clients {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		load.Go(func() {
			for n := sent.Add(1); n <= requests; n = sent.Add(1) {
				switch n {
				case requests / 4:
					close(quarter)
				case requests / 2:
					close(half)
				}
				response, err := client.Get(url)
				if err != nil {
					failed.Add(1)
					t.Errorf("request %d: %v", n, err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					failed.Add(1)
				}
			}
		})
	}
	<-quarter
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed
	<-half
	d := reopen(t, options(dir, addresses, slog.New(slog.NewTextHandler(t.Output(), nil))), nil)
	b.Generation++
	b.Listeners[0].Stickiness = &driver.Stickiness{}
	if err := d.EnsureBalancer(t.Context(), b); err != nil {
		t.Error(err)
	}
	load.Wait()
	if n := failed.Load(); n != 0 {
		t.Errorf("of %d requests %d failed", requests, n)
	}
	status, _, err = d.Balancer(t.Context(), b.Account, b.ID)
	if err != nil || status.Counters.Requests != requests || status.Generation != 2 {
		t.Errorf("after %d requests the counters of generation %d are %+v, %v", requests, status.Generation, status.Counters, err)
	}
}

// bucket is an S3 server that keeps what is put, unless it is out of order.
type bucket struct {
	mu      sync.Mutex // guards what follows
	broken  bool
	objects map[string]string
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, err := io.ReadAll(r.Body)
	if b.broken || err != nil || r.Method != http.MethodPut || !strings.Contains(r.Header.Get("Authorization"), "Credential=OPERATOR/") {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	b.objects[r.URL.Path] = string(text)
}

func (b *bucket) repair() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = false
}

func (b *bucket) all() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]string{}
	for key, text := range b.objects {
		all[key] = text
	}
	return all
}

// Access logs arrive in an object store, also those that were finished while it did
// not work and no region ran.
func TestAccessLogs(t *testing.T) {
	t.Parallel()
	objects := &bucket{objects: map[string]string{}, broken: true}
	server := httptest.NewServer(objects)
	t.Cleanup(server.Close)
	store, err := s3.Open(s3.Options{Endpoint: server.URL, Region: "eu-west-2", AccessKey: "OPERATOR", SecretKey: "secret", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	put := func(ctx context.Context, account, bucket, key string, content io.ReaderAt, size int64) error {
		return store.Put(ctx, objectstore.Bucket{Name: bucket, Account: account}, key, content, size)
	}
	o := options(t.TempDir(), newRange(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	first, err := open(o, put)
	if err != nil {
		t.Fatal(err)
	}
	b := web(t, "web", hello)
	b.AccessLog = &driver.AccessLog{Bucket: "logs", Prefix: "here", Interval: time.Hour}
	if err := first.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	url := healthy(t, first, b)
	get(t, url+"/one")
	// The region ends; the load balancer goes on logging.
	first.Close()
	get(t, url+"/two")
	second := reopen(t, o, put)
	b.Generation++
	b.AccessLog = &driver.AccessLog{Bucket: "logs", Prefix: "there", Interval: 5 * time.Minute}
	if err := second.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	get(t, url+"/three")
	// What it has logged is published though it is removed.
	if err := second.RemoveBalancer(t.Context(), b.Account, b.ID); err != nil {
		t.Fatal(err)
	}
	if got := objects.all(); len(got) != 0 {
		t.Errorf("an object store that does not work has %v", got)
	}
	objects.repair()
	eventually(t, "two access logs", func() bool { return len(objects.all()) == 2 })
	for key, text := range objects.all() {
		prefix, _, _ := strings.Cut(strings.TrimPrefix(key, "/logs/"), "/OWSLogs/000000000001/lbu/eu-west-2/")
		want := map[string][]string{"here": {"/one", "/two"}, "there": {"/three"}}[prefix]
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if len(lines) != len(want) {
			t.Errorf("%s has %q, want %q", key, lines, want)
			continue
		}
		for i, path := range want {
			if !strings.Contains(lines[i], path+` HTTP/1.1"`) {
				t.Errorf("line %d of %s is %q, want %s", i, key, lines[i], path)
			}
		}
	}
	left, err := os.ReadDir(filepath.Join(o.Dir, logsDir))
	if err != nil || len(left) != 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// Access logs that cannot be published do not fill the disk.
func TestAccessLogsAreBounded(t *testing.T) {
	t.Parallel()
	d := start(t)
	dir := t.TempDir()
	var left []os.FileInfo
	for i, age := range []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour, maxWait + time.Hour} {
		path := filepath.Join(dir, fmt.Sprint(i))
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if i < 3 {
			err = file.Truncate(maxRoom / 2)
		}
		if err = errors.Join(err, file.Close(), os.Chtimes(path, time.Time{}, time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, info)
	}
	d.drop(dir, left)
	for i := range left {
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprint(i))); (err == nil) != (i < 2) {
			t.Errorf("access log %d: %v", i, err)
		}
	}
}

// A load balancer that no other region would find ends with its own, and one whose
// directory is removed ends by itself.
func TestOrphans(t *testing.T) {
	t.Parallel()
	tied := start(t, func(o *Options) { o.Tied, o.Command = true, []string{os.Args[0], "tied"} })
	b := web(t, "web", hello)
	if err := tied.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	url := healthy(t, tied, b)
	tied.Close()
	if _, err := http.Get(url); err == nil {
		t.Error("a load balancer that is tied to its region goes on without it")
	}

	o := options(t.TempDir(), newRange(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	free, err := open(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := free.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	url = healthy(t, free, b)
	free.Close()
	get(t, url)
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process ends", func() bool { return pid(t, free, b) == 0 })
}

// Every load balancer has an address of its own, and when there is none left it is
// refused.
func TestAddresses(t *testing.T) {
	t.Parallel()
	small := newRange()
	d := start(t, func(o *Options) { o.Addresses = netip.PrefixFrom(small.Addr(), 30) })
	seen := map[netip.Addr]bool{}
	for _, id := range []string{"one", "two"} {
		b := web(t, id, hello)
		if err := d.EnsureBalancer(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		get(t, healthy(t, d, b))
		status, _, err := d.Balancer(t.Context(), b.Account, id)
		if err != nil || !small.Contains(status.Address) || seen[status.Address] {
			t.Errorf("%s is at %s, %v", id, status.Address, err)
		}
		seen[status.Address] = true
	}
	third := web(t, "three", hello)
	if err := d.EnsureBalancer(t.Context(), third); !errors.As(err, new(driver.NoCapacity)) {
		t.Errorf("without an address left: %v", err)
	}
	if err := d.RemoveBalancer(t.Context(), third.Account, "one"); err != nil {
		t.Fatal(err)
	}
	if err := d.EnsureBalancer(t.Context(), third); err != nil {
		t.Errorf("with an address: %v", err)
	}
}

// A port that cannot be opened is explained, the others work, and it is opened as
// soon as it can be.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	d := start(t)
	b := web(t, "web", hello)
	if err := d.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	url := healthy(t, d, b)
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), ":8080")
	other, err := net.Listen("tcp", host+":9090")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	b.Generation++
	second := b.Listeners[0]
	second.Port = 9090
	b.Listeners = append(b.Listeners, second)
	if err := d.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	reason := func() string {
		status, _, err := d.Balancer(t.Context(), b.Account, b.ID)
		if err != nil {
			t.Fatal(err)
		}
		return status.Reason
	}
	if got, want := reason(), "Port 9090 of "+host+" cannot be opened: bind: address already in use."; got != want {
		t.Errorf("the reason is %q, want %q", got, want)
	}
	get(t, url)
	other.Close()
	eventually(t, "the port is opened", func() bool { return reason() == "" })
	get(t, "http://"+host+":9090")
}

// A data directory may have a longer name than a socket.
func TestLongDirectory(t *testing.T) {
	t.Parallel()
	d := start(t, func(o *Options) { o.Dir = filepath.Join(o.Dir, strings.Repeat("long/", 30)) })
	b := web(t, "web", hello)
	if err := d.EnsureBalancer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	get(t, healthy(t, d, b))
}
