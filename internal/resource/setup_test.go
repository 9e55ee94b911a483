package resource_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
	"github.com/bastide-cloud/bastide/internal/store"
)

// The tests keep a small country. Houses stand in towns, letters travel from
// house to house and stay readable once deleted, keys have a secret.
type (
	Town   string
	House  string
	Letter string
	Key    string
)

func hex(prefix string) resource.Form {
	return resource.Form{Prefix: prefix, Length: 8, Alphabet: resource.Hexadecimal}
}

func (Town) Form() resource.Form   { return hex("town-") }
func (House) Form() resource.Form  { return hex("house-") }
func (Letter) Form() resource.Form { return hex("letter-") }
func (Key) Form() resource.Form    { return hex("key-") }

type town struct {
	TownId Town
	Name   string
	Tags   []resource.ResourceTag
}

type house struct {
	HouseId House
	TownId  Town
	Name    string
	Guests  int `json:"-"` // a view counts them
	Tags    []resource.ResourceTag
}

// hideout is the name of a house that nobody is shown.
const hideout = "hideout"

func (h *house) Hidden() bool { return h.Name == hideout }

type letter struct {
	LetterId Letter
	From     House `ref:"weak"`
	Answers  Letter
	Stops    []stop
	Reader   House `ref:"-"` // of another account
	Text     string
	Sent     bool
	Tags     []resource.ResourceTag
}

type stop struct {
	HouseId House
	Past    *route
}

type route struct{ Towns []Town }

// Pending makes a letter that is on its way work for a loop.
func (l *letter) Pending() bool { return l.Sent }

type key struct {
	KeyId  Key
	Opens  House
	Teeth  resource.Secret
	Copies []resource.Secret
	Spare  *resource.Secret
}

var (
	towns = &resource.Kind[town, Town]{
		Name: "Town", Tag: "town", NotFound: apierror.NetNotFound, InUse: apierror.NetInUse,
		Quota: &resource.Quota{Name: "towns", Code: apierror.TooManyNets},
	}
	houses = &resource.Kind[house, House]{
		Name: "House", Tag: "house", NotFound: apierror.SubnetNotFound, InUse: apierror.SubnetInUse,
		Quota:  &resource.Quota{Name: "houses", Code: apierror.TooManyCertificates, Per: "TownId"},
		Unique: []string{"Name"}, Conflict: apierror.UserNameTaken,
	}
	letters = &resource.Kind[letter, Letter]{Name: "Letter", Tag: "letter", Retention: time.Hour}
	keys    = &resource.Kind[key, Key]{Name: "Key", Plural: "Keyes"}
)

// The accounts of the tests.
const (
	alice = "100000000001"
	bob   = "100000000002"
)

var midnight = time.UnixMilli(1_700_000_000_000)

// clock is the country's time. It only moves when told to.
type clock struct{ passed atomic.Int64 }

func (c *clock) Now() time.Time          { return midnight.Add(time.Duration(c.passed.Load())) }
func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

func masterKey(seed byte) *seal.Key {
	k, err := seal.New(slices.Repeat([]byte{seed}, 32), rand.NewChaCha8([32]byte{seed}))
	if err != nil {
		panic(err)
	}
	return k
}

// open opens a country of the four kinds, without a journal unless told so.
func open(t testing.TB, set ...func(*resource.Options)) *resource.DB {
	o := resource.Options{
		Kinds: []resource.Any{towns, houses, letters, keys},
		Seal:  masterKey(1),
		Now:   (&clock{}).Now,
		Rand:  rand.NewChaCha8([32]byte{}),
	}
	for _, set := range set {
		set(&o)
	}
	db := resource.Open(o)
	t.Cleanup(func() { closed(t, db) })
	return db
}

func closed(t testing.TB, db *resource.DB) {
	if err := db.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func over(j store.Journal) func(*resource.Options) {
	return func(o *resource.Options) { o.Journal = j }
}
func at(c *clock) func(*resource.Options) { return func(o *resource.Options) { o.Now = c.Now } }
func limits(l map[string]int) func(*resource.Options) {
	return func(o *resource.Options) { o.Limits = l }
}

// tb is what a test and a rapid check have in common.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// update runs a rule that must succeed.
func update(t tb, db *resource.DB, account string, rule func(*resource.Tx) error) {
	t.Helper()
	if err := db.Update(context.Background(), resource.Caller{Account: account}, rule); err != nil {
		t.Fatalf("the transaction answered %v", err)
	}
}

// refused runs a rule that must fail with this code and these words.
func refused(t tb, db *resource.DB, account string, code apierror.Code, words string, rule func(*resource.Tx) error) {
	t.Helper()
	err := db.Update(context.Background(), resource.Caller{Account: account}, rule)
	if !code.Is(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("the transaction answered %v, want the code %s and the words %q", err, code, words)
	}
}

// view runs a rule that only reads.
func view(t tb, db *resource.DB, account string, rule func(*resource.Tx)) {
	t.Helper()
	err := db.View(context.Background(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
		rule(tx)
		return nil
	})
	if err != nil {
		t.Fatalf("the view answered %v", err)
	}
}

// insert makes a resource in a transaction of its own and answers it with its id.
func insert[T any, I resource.ID](t tb, db *resource.DB, account string, k *resource.Kind[T, I], v T) *T {
	t.Helper()
	update(t, db, account, func(tx *resource.Tx) error { return k.Insert(tx, &v) })
	return &v
}

// must ends a rule whose step should not fail. A rule runs on a goroutine of
// the store's, where a test cannot be ended: the transaction answers the panic.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// each collects a property of the resources that a sequence yields.
func each[T, P any](all iter.Seq[*T], of func(*T) P) []P {
	list := []P{}
	for v := range all {
		list = append(list, of(v))
	}
	return list
}

func houseName(h *house) string { return h.Name }

// panics answers what a call panics with.
func panics(t tb, call func()) (said string) {
	t.Helper()
	defer func() {
		p := recover()
		if p == nil {
			t.Errorf("there was no panic")
		}
		said = fmt.Sprint(p)
	}()
	call()
	return ""
}

// rows is a journal in memory. It outlives its store, so that another can be
// opened over it.
type rows struct {
	mu       sync.Mutex // guards accounts
	accounts map[string]*kept
}

type kept struct {
	version uint64
	rows    map[[2]string]store.Row
}

func newRows() *rows { return &rows{accounts: map[string]*kept{}} }

func (j *rows) Load(_ context.Context, account string, each func(store.Row) error) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	k := j.accounts[account]
	if k == nil {
		return 0, nil
	}
	for _, r := range k.rows {
		if err := each(r); err != nil {
			return 0, err
		}
	}
	return k.version, nil
}

func (j *rows) Commit(_ context.Context, batches []store.Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range batches {
		k := j.accounts[b.Account]
		if k == nil {
			k = &kept{rows: map[[2]string]store.Row{}}
			j.accounts[b.Account] = k
		}
		k.version = b.Version
		for _, r := range b.Rows {
			if r.Doc == nil {
				delete(k.rows, [2]string{r.Kind, r.ID})
			} else {
				k.rows[[2]string{r.Kind, r.ID}] = r
			}
		}
	}
	return nil
}

func (j *rows) Pending(context.Context) ([]string, error) { return nil, nil }

func (j *rows) Close() error { return nil }

// doc is the document of a row, which must be there.
func (j *rows) doc(t testing.TB, account, kind, id string) string {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.accounts[account].rows[[2]string{kind, id}]
	if !ok {
		t.Fatalf("the journal has no %s %s", kind, id)
	}
	return string(r.Doc)
}
