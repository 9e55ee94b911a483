// Package acceptance tests the region as a whole: stories of its families in the
// words of the API, laws that hold for every action, the contract, and random
// days.
//
// A test calls the handler that the program serves, with real signatures, over
// a region in memory whose clock stands still until the test moves it. What is
// true of every answer is checked at each call ([client.send]), and what is
// true of every day at the end of each test ([testRegion.close]).
package acceptance

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/apilog"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud"
	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// start is the beginning of every test region: a Friday.
var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// transition is how long the simulated driver takes to change.
const transition = 200 * time.Millisecond

// tester is what a driver needs of testing.T, testing.F, rapid.T and the T of
// testscript.
type tester interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// testRegion is a region with some people in it.
type testRegion struct {
	*region.Region
	t       tester
	clock   *clock.Virtual
	options region.Options
	log     *transcript // what the region tells its operator
	sim     *sim.Driver // what the region runs on

	mu      sync.Mutex // guards what follows: some tests call from many goroutines
	people  map[string]*person
	calls   map[string]call // by the request id of the answer
	secrets []string        // that nobody may be told
	words   int             // how many words were made up

	unchanged unchanged // who was equipped last
}

// person is somebody who may call, and all that proves it.
type person struct {
	account, key, secret string
	email, password      string
}

// call is a call that was made, as its record must show it.
type call struct {
	action string
	status int
}

// newWorld founds a region. The root account is a person called root; anybody
// else appears when first named.
func newTestRegion(t tester, change ...func(*region.Options)) *testRegion {
	t.Helper()
	w := &testRegion{
		t: t, clock: clock.NewVirtual(start), log: &transcript{},
		people: map[string]*person{}, calls: map[string]call{},
	}
	w.options = region.Options{
		Region: "eu-west-2", Domain: "bastide.localhost", Transitions: transition,
		Driver: w.simulate, Clock: w.clock, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		// Enough of the model that everybody is equipped with.
		Gpus: map[string]map[string]int{"eu-west-2a": {"nvidia-p6": 1 << 20}},
		Root: region.Root{Password: everybodys, PasswordHash: hashed()},
	}
	for _, c := range change {
		c(&w.options)
	}
	if w.options.Rand == nil {
		seeded(chosenSeed(t))(&w.options)
	}
	w.open()
	t.Cleanup(w.close)
	root := w.Founded
	w.people["root"] = &person{root.AccountID, root.AccessKey, root.SecretKey, root.Email, root.Password}
	w.secret(root.SecretKey, root.Password)
	return w
}

// simulate starts a simulation, which the tests reach as w.sim. Its exports are
// short: the zeroes that all disks have, and there are a billion of them on the
// smallest, take long to write.
func (w *testRegion) simulate(h driver.Host) driver.Drivers {
	write := h.Write
	h.Write = func(ctx context.Context, e driver.Export, size int64, content io.Reader, done func(percent int)) error {
		return write(ctx, e, min(size, 1<<10), content, done)
	}
	w.sim = sim.Start(transition)(h).(*sim.Driver)
	return w.sim
}

// open opens the region.
func (w *testRegion) open() {
	w.t.Helper()
	r, err := region.Open(context.Background(), w.options)
	if err != nil {
		w.t.Fatalf("opening a region: %v", err)
	}
	w.Region = r
}

// restart ends the region and opens it again on what it kept.
func (w *testRegion) restart() {
	w.t.Helper()
	if err := w.Close(); err != nil {
		w.t.Fatalf("closing the region: %v", err)
	}
	w.open()
}

// lend gives the driver to a part of a test, whose failure it is if something
// goes wrong until the driver is given back.
func (w *testRegion) lend(t tester) (back func()) {
	whole := w.t
	w.t = t
	return func() { w.t = whole }
}

// chosenSeed is the seed in the environment, or any. A test that fails shows it.
func chosenSeed(t tester) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("BASTIDE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("BASTIDE_SEED: %v", err)
		}
	}
	t.Logf("to see this again: BASTIDE_SEED=%d", seed)
	return seed
}

// seeded makes a region whose choices follow from a seed.
func seeded(seed uint64) func(*region.Options) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return func(o *region.Options) { o.Rand = rand.NewChaCha8(key) }
}

// person finds somebody, or makes an account and an access key for them.
func (w *testRegion) person(name string) *person {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.people[name]; p != nil {
		return p
	}
	p := &person{email: name + "@example.com", password: everybodys}
	facts := catalog.NewRegion(w.options.Region, w.options.Domain)
	w.update("root", func(tx *resource.Tx) error {
		account, err := cloud.NewAccount(tx, facts, iam.NewAccount{
			Email: p.email, FirstName: name, LastName: "Example", CompanyName: "Example",
			City: "Saint-Cloud", Country: "France", ZipCode: "92210",
		})
		if err != nil {
			return err
		}
		p.account = string(account.AccountId)
		account.PasswordHash = hashed()
		if err := iam.Accounts.Put(tx.In(p.account), account); err != nil {
			return err
		}
		key, err := iam.NewAccessKey(tx, account.AccountId, "", "")
		if err != nil {
			return err
		}
		p.key, p.secret = string(key.AccessKeyId), string(key.Secret)
		return nil
	})
	w.people[name] = p
	w.secrets = append(w.secrets, p.secret, p.password)
	return p
}

// everybodys is the password of everybody. Its hash, which is slow to make on
// purpose, is made once.
const everybodys = "correct horse battery staple"

var hashed = sync.OnceValue(func() string {
	return iam.HashPassword(bytes.NewReader(make([]byte, 64)), everybodys)
})

// update does to the account of a person what no action does.
func (w *testRegion) update(name string, fn func(*resource.Tx) error) {
	w.t.Helper()
	if err := w.DB.Update(context.Background(), resource.Caller{Account: w.people[name].account}, fn); err != nil {
		w.t.Fatalf("changing the account of %s: %v", name, err)
	}
}

// view looks at the account of a person.
func (w *testRegion) view(name string, fn func(*resource.Tx) error) {
	w.t.Helper()
	if err := w.DB.View(context.Background(), resource.Caller{Account: w.person(name).account}, fn); err != nil {
		w.t.Fatalf("looking at the account of %s: %v", name, err)
	}
}

// patience bounds how long a test waits for loops, which take microseconds.
const patience = time.Minute

// rest waits until the loops have nothing to do before the clock moves, and
// answers when they want to go on; zero: never.
func (w *testRegion) rest() time.Time {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	next, err := w.Loops.WaitIdle(ctx)
	if err != nil {
		w.t.Fatalf("waiting for the loops: %v", err)
	}
	return next
}

// while is how long the loops may want to wait for something that is under way.
// What is later is the end of something that rests till then, such as of what is
// kept to be read.
const while = 24 * time.Hour

// settle lets the loops come to rest, moving the clock as far as they ask.
func (w *testRegion) settle() {
	w.t.Helper()
	w.settleWithin(while)
}

// settleWithin lets the loops come to rest, moving the clock as far as they ask
// unless that is further than a duration.
func (w *testRegion) settleWithin(d time.Duration) {
	w.t.Helper()
	for range 1000 {
		next := w.rest()
		if next.IsZero() || next.Sub(w.clock.Now()) > d {
			return
		}
		w.clock.AdvanceTo(next)
	}
	w.t.Fatalf("the loops never come to an end")
}

// advance moves the clock. What becomes due is done.
func (w *testRegion) advance(d time.Duration) {
	w.t.Helper()
	w.rest()
	w.clock.Advance(d)
	w.rest()
}

// secret notes texts that must stay between the region and who was given them.
func (w *testRegion) secret(texts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = append(w.secrets, texts...)
}

// note notes a call that was made. It reports whether the request id is new.
func (w *testRegion) note(requestID string, c call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.calls[requestID]
	w.calls[requestID] = c
	return !known
}

// close ends the region and holds the day against what is true of every day.
func (w *testRegion) close() {
	if !w.t.Failed() {
		w.checkRecords()
		w.checkSecrets()
		w.checkOperation()
	}
	if err := w.Close(); err != nil {
		w.t.Errorf("closing the region: %v", err)
	}
}

// kept is how long the API log is.
const kept = 32 * 24 * time.Hour

// records are the calls of all accounts, and of nobody's, that the API log has.
func (w *testRegion) records() []apilog.Record {
	accounts := []string{""}
	for _, p := range w.people {
		accounts = append(accounts, p.account)
	}
	var all []apilog.Record
	for _, account := range accounts {
		records, next, err := w.Calls.Query(context.Background(), apilog.Query{
			AccountID: account, After: start.Add(-time.Hour), Before: w.clock.Now().Add(time.Hour), Limit: 1 << 20,
		})
		if err != nil || next != nil {
			w.t.Fatalf("reading the API log: %v, more: %v", err, next)
		}
		all = append(all, records...)
	}
	return all
}

// checkRecords makes sure that each call made one record of itself.
func (w *testRegion) checkRecords() {
	if w.clock.Now().Sub(start) > kept {
		return // some are gone by now
	}
	missing := map[string]call{}
	for id, c := range w.calls {
		missing[id] = c
	}
	for _, r := range w.records() {
		c, ok := missing[r.RequestID]
		if !ok {
			w.t.Errorf("the API log has a record of %s, %s, too many", r.Action, r.RequestID)
		} else if c.action != r.Action || c.status != r.Status {
			w.t.Errorf("the API log has %s answered with %d, and it was %s answered with %d", r.Action, r.Status, c.action, c.status)
		}
		delete(missing, r.RequestID)
	}
	for id, c := range missing {
		w.t.Errorf("the API log has no record of %s, %s, answered with %d", c.action, id, c.status)
	}
}

// checkSecrets makes sure that no secret is in the API log, in the region's
// own log or in its metrics.
func (w *testRegion) checkSecrets() {
	var records strings.Builder
	for _, r := range w.records() {
		fmt.Fprintf(&records, "%+v\n", r)
	}
	metrics := httptest.NewRecorder()
	w.Admin.ServeHTTP(metrics, httptest.NewRequest("GET", "http://localhost/metrics", nil))
	for place, text := range map[string]string{
		"API log": records.String(), "region's log": w.log.String(), "metrics": metrics.Body.String(),
	} {
		for _, secret := range w.secrets {
			if i := strings.Index(text, secret); i >= 0 {
				w.t.Errorf("the %s tells the secret %s: …%s…", place, secret, text[max(0, i-100):min(len(text), i+100)])
			}
		}
	}
}

// checkOperation makes sure that nothing went wrong inside.
func (w *testRegion) checkOperation() {
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "level=ERROR") {
			w.t.Errorf("the region says: %s", line)
		}
	}
}

// transcript is a text that many may write to.
type transcript struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
