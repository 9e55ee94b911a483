package network_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/google/go-cmp/cmp"
)

const alice, bob, carol = "000000000001", "000000000002", "000000000003"

var (
	start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	here  = network.Region{
		Name: "test-1", Domain: "example.com", Subregions: []string{"test-1a", "test-1b"}, Locations: []string{"LOC1", "LOC2"},
		PublicIps: []api.CIDR{"198.51.100.0/24"},
	}
)

// tester is what tests and properties have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// region is a store with the actions of this package over it, in which alice,
// bob and carol were welcomed.
type region struct {
	tester
	api     *api.API
	db      *resource.DB
	clock   *clock.Virtual
	version api.Version
	changed atomic.Pointer[func([]store.Change)] // who hears of changes
}

// Guest lives in a Subnet, as NICs and others do.
type Guest struct {
	GuestId  guestID
	SubnetId id.Subnet
}

type guestID string

func (guestID) Form() resource.Form {
	return resource.Form{Prefix: "guest-", Length: 8, Alphabet: resource.Hexadecimal}
}

var guests = &resource.Kind[Guest, guestID]{Name: "Guest"}

// open makes a region over a journal; nil: over none.
func open(t tester, journal store.Journal, limits map[string]int) *region {
	return openAt(t, here, journal, limits)
}

// openAt makes a region somewhere else.
func openAt(t tester, here network.Region, journal store.Journal, limits map[string]int) *region {
	r := &region{tester: t, clock: clock.NewVirtual(start), version: api.Latest}
	r.api = api.New(network.Actions(here), api.NewPager([]byte("key")))
	random := rand.NewChaCha8([32]byte{})
	key, err := seal.New(make([]byte, 32), random)
	if err != nil {
		t.Fatal(err)
	}
	r.db = resource.Open(resource.Options{
		Kinds: append(network.Kinds(), guests), Journal: journal, Seal: key, Limits: limits, Rand: random,
		Now: func() time.Time { return r.clock.Now() }, // that of the clock that it has by then
		Changed: func(changes []store.Change) {
			if heard := r.changed.Load(); heard != nil {
				(*heard)(changes)
			}
		},
	})
	return r
}

func setup(t *testing.T, limits ...map[string]int) *region {
	t.Helper()
	limits = append(limits, nil)
	r := open(t, nil, limits[0])
	t.Cleanup(func() { r.db.Close() })
	r.welcome()
	return r
}

func (r *region) welcome() {
	r.Helper()
	for _, account := range []string{alice, bob, carol} {
		r.update(account, func(tx *resource.Tx) error { return network.Welcome(tx, here) })
	}
}

// update runs a transaction that must succeed.
func (r *region) update(account string, fn func(*resource.Tx) error) {
	r.Helper()
	if err := r.db.Update(context.Background(), resource.Caller{Account: account}, fn); err != nil {
		r.Fatal(err)
	}
}

// object is a JSON object of an answer.
type object map[string]any

func (o object) id(name string) string { return o[name].(string) }

// try calls an action and answers what the wire would carry.
func (r *region) try(account, action, body string) (object, error) {
	r.Helper()
	a, err := r.api.Find(action, r.version)
	if err != nil {
		return nil, err
	}
	call, err := r.api.Bind(a, r.version, []byte(body))
	if err != nil {
		return nil, err
	}
	v, err := call.Run(context.Background(), r.db, resource.Caller{Account: account})
	if err != nil {
		return nil, err
	}
	var answer object
	if err := json.Unmarshal(api.Append(nil, v, r.version), &answer); err != nil {
		r.Fatalf("%s answers no JSON: %v", action, err)
	}
	return answer, nil
}

// call calls an action that must succeed.
func (r *region) call(account, action, body string) object {
	r.Helper()
	answer, err := r.try(account, action, body)
	if err != nil {
		r.Fatalf("%s %s: %v", action, body, err)
	}
	return answer
}

// one calls an action that answers one object under a name.
func (r *region) one(name, account, action, body string) object {
	r.Helper()
	return object(r.call(account, action, body)[name].(map[string]any))
}

// list calls an action that lists objects under a name.
func (r *region) list(name, account, action, body string) []object {
	r.Helper()
	var list []object
	for _, o := range r.call(account, action, body)[name].([]any) {
		list = append(list, o.(map[string]any))
	}
	return list
}

// refuse calls an action that must be refused with a code, and must change
// nothing.
func (r *region) refuse(want apierror.Code, account, action, body string) {
	r.Helper()
	before := r.generation(account)
	answer, err := r.try(account, action, body)
	if err == nil {
		r.Errorf("%s %s answers %v, want it refused with %s", action, body, answer, want)
		return
	}
	refusal, ok := errors.AsType[*apierror.Error](err)
	if !ok || refusal.Code != want {
		r.Errorf("%s %s is refused with %v, want %s", action, body, err, want)
	} else if !strings.HasSuffix(refusal.Details, ".") {
		r.Errorf("%s %s is refused without a sentence: %q", action, body, refusal.Details)
	}
	if after := r.generation(account); after != before {
		r.Errorf("%s %s was refused and has changed the account", action, body)
	}
}

func (r *region) generation(account string) uint64 {
	r.Helper()
	snap, err := r.db.Store.View(context.Background(), account)
	if err != nil {
		r.Fatal(err)
	}
	return snap.Version()
}

// net makes a Net and answers its ID.
func (r *region) net(account, ipRange string) string {
	r.Helper()
	return r.one("Net", account, "CreateNet", fmt.Sprintf(`{"IpRange": %q}`, ipRange)).id("NetId")
}

// subnet makes a Subnet and answers its ID.
func (r *region) subnet(account, net, ipRange string) string {
	r.Helper()
	return r.one("Subnet", account, "CreateSubnet", fmt.Sprintf(`{"NetId": %q, "IpRange": %q}`, net, ipRange)).id("SubnetId")
}

// selects checks which objects a list has, each given by the value of a field.
func (r *region) selects(list []object, field string, want ...string) {
	r.Helper()
	var got []string
	for _, o := range list {
		got = append(got, o.id(field))
	}
	if !slices.Equal(got, want) {
		r.Errorf("listed are %q, want %q", got, want)
	}
}

// shows compares an object with what it should be.
func (r *region) shows(got object, want string) {
	r.Helper()
	var o object
	if err := json.Unmarshal([]byte(want), &o); err != nil {
		r.Fatal(err)
	}
	if diff := cmp.Diff(o, got); diff != "" {
		r.Errorf("(-want +got)\n%s", diff)
	}
}

// tag gives the resource tags, by key and value.
func (r *region) tag(account, id, key, value string) {
	r.Helper()
	r.update(account, func(tx *resource.Tx) error {
		t, ok := tx.Tagged(id)
		if !ok {
			return fmt.Errorf("%s has no tags", id)
		}
		tx.SetTags(t, []api.Tag{{Key: key, Value: value}})
		return nil
	})
}
