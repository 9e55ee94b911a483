// Package cloudtest is what the tests of the domains have in common: a store with
// the actions of some families over it, without drivers, loops or a protocol. A test
// calls actions by their names and compares the JSON that a client would get.
//
// Only tests import it.
package cloudtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Alice, Bob and Carol are the accounts of tests.
const Alice, Bob, Carol = "000000000001", "000000000002", "000000000003"

// Start is the time at which the clock of a [Region] begins.
var Start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// TB is what is needed of testing.T, testing.B and rapid.T.
type TB interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// Region is a store with actions over it.
type Region struct {
	API     *api.API
	DB      *resource.DB
	Clock   *clock.Virtual
	Version api.Version // of the API that calls are made with

	t TB
}

// Open opens a region with some actions. Options that have no clock, no randomness
// or no seal get a virtual clock, a fixed seed and [Envelope]. The caller closes the
// store.
func Open(t TB, actions []api.Action, options resource.Options) *Region {
	t.Helper()
	return OpenAt(t, clock.NewVirtual(Start), actions, options)
}

// OpenAt is [Open] with a clock that the caller has made, for loops that need it
// before the region is open.
func OpenAt(t TB, at *clock.Virtual, actions []api.Action, options resource.Options) *Region {
	t.Helper()
	r := &Region{t: t, Clock: at, Version: api.Latest}
	r.API = api.New(actions, api.NewPager([]byte("key")))
	if options.Now == nil {
		options.Now = func() time.Time { return r.Clock.Now() } // of the clock that it has by then
	}
	if options.Rand == nil {
		options.Rand = rand.NewChaCha8([32]byte{})
	}
	if options.Seal == nil {
		options.Seal = Envelope{}
	}
	r.DB = resource.Open(options)
	return r
}

// With returns the region for another test, such as a part of the one that opened it.
func (r *Region) With(t TB) *Region {
	with := *r
	with.t = t
	return &with
}

// Envelope is a seal that can be read.
type Envelope struct{}

// Seal implements [resource.Seal].
func (Envelope) Seal(text, _ string) (string, error) { return "sealed " + text, nil }

// Open implements [resource.Seal].
func (Envelope) Open(sealed, _ string) (string, error) {
	return strings.TrimPrefix(sealed, "sealed "), nil
}

// Update runs a transaction that must succeed.
func (r *Region) Update(account string, rule func(*resource.Tx) error) {
	r.t.Helper()
	if err := r.DB.Update(context.Background(), resource.Caller{Account: account}, rule); err != nil {
		r.t.Fatal(err)
	}
}

// View runs a rule that only reads and must succeed.
func (r *Region) View(account string, rule func(*resource.Tx) error) {
	r.t.Helper()
	if err := r.DB.View(context.Background(), resource.Caller{Account: account}, rule); err != nil {
		r.t.Fatal(err)
	}
}

// Revision returns the version of an account in the store, which every write raises.
func (r *Region) Revision(account string) (version uint64) {
	r.t.Helper()
	r.View(account, func(tx *resource.Tx) error { version = tx.Version(); return nil })
	return version
}

// Tag sets the tags of a resource.
func (r *Region) Tag(account, id string, tags ...api.Tag) {
	r.t.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		tagged, ok := tx.Tagged(id)
		if !ok {
			return fmt.Errorf("%s has no tags", id)
		}
		tx.SetTags(tagged, tags)
		return nil
	})
}

// Send calls an action as a caller, and returns the JSON of the answer.
func (r *Region) Send(caller resource.Caller, action, body string) ([]byte, error) {
	a, err := r.API.Find(action, r.Version)
	if err != nil {
		return nil, err
	}
	call, err := r.API.Bind(a, r.Version, []byte(body))
	if err != nil {
		return nil, err
	}
	v, err := call.Run(context.Background(), r.DB, caller)
	if err != nil {
		return nil, err
	}
	return api.Append(nil, v, r.Version), nil
}

// Object is an object of JSON.
type Object map[string]any

// Text returns a member as text.
func (o Object) Text(name string) string { return fmt.Sprint(o[name]) }

// Object returns a member that is an object; nil: there is none.
func (o Object) Object(name string) Object {
	member, _ := o[name].(map[string]any)
	return member
}

// Objects returns the objects of a member that is a list.
func (o Object) Objects(name string) (all []Object) {
	list, _ := o[name].([]any)
	for _, member := range list {
		all = append(all, member.(map[string]any))
	}
	return all
}

// At returns what is at a path of names and indexes.
func (o Object) At(path ...any) any {
	var v any = map[string]any(o)
	for _, step := range path {
		if i, ok := step.(int); ok {
			v = v.([]any)[i]
		} else {
			v = v.(map[string]any)[step.(string)]
		}
	}
	return v
}

// format fills a body with values; one without values is taken as it is.
func format(body string, args []any) string {
	if len(args) == 0 {
		return body
	}
	return fmt.Sprintf(body, args...)
}

// Try calls an action.
func (r *Region) Try(account, action, body string, args ...any) (Object, error) {
	r.t.Helper()
	text, err := r.Send(resource.Caller{Account: account}, action, format(body, args))
	if err != nil {
		return nil, err
	}
	var answer Object
	if err := json.Unmarshal(text, &answer); err != nil {
		r.t.Fatalf("%s answers no JSON: %v", action, err)
	}
	return answer, nil
}

// Call calls an action that must succeed.
func (r *Region) Call(account, action, body string, args ...any) Object {
	r.t.Helper()
	answer, err := r.Try(account, action, body, args...)
	if err != nil {
		r.t.Fatalf("%s %s: %v", action, format(body, args), err)
	}
	return answer
}

// One calls an action whose answer has one member, and returns it.
func (r *Region) One(account, action, body string, args ...any) Object {
	r.t.Helper()
	for _, member := range r.Call(account, action, body, args...) {
		return member.(map[string]any)
	}
	r.t.Fatalf("%s answers nothing", action)
	return nil
}

// List calls an action that lists objects, and returns them.
func (r *Region) List(account, action, body string, args ...any) []Object {
	r.t.Helper()
	answer := r.Call(account, action, body, args...)
	for name := range answer {
		if name != "NextPageToken" {
			return answer.Objects(name)
		}
	}
	r.t.Fatalf("%s lists nothing", action)
	return nil
}

// Refuse calls an action that must be refused with a code and a sentence, and must
// change nothing.
func (r *Region) Refuse(want apierror.Code, account, action, body string, args ...any) {
	r.t.Helper()
	body = format(body, args)
	before := r.Revision(account)
	answer, err := r.Try(account, action, body)
	if err == nil {
		r.t.Errorf("%s %s answers %v, want it refused with %s", action, body, answer, want)
		return
	}
	refusal, ok := errors.AsType[*apierror.Error](err)
	if !ok || refusal.Code != want {
		r.t.Errorf("%s %s is refused with %v, want %s", action, body, err, want)
	} else if !strings.HasSuffix(refusal.Details, ".") {
		r.t.Errorf("%s %s is refused without a sentence: %q", action, body, refusal.Details)
	}
	if after := r.Revision(account); after != before {
		r.t.Errorf("%s %s was refused and has changed the account", action, body)
	}
}

// Selects checks which objects a list has, each given by the value of a field.
func (r *Region) Selects(list []Object, field string, want ...string) {
	r.t.Helper()
	if got := Texts(list, field); !slices.Equal(got, want) {
		r.t.Errorf("listed are %q, want %q", got, want)
	}
}

// Shows compares an object with what it should be.
func (r *Region) Shows(got Object, body string, args ...any) {
	r.t.Helper()
	var want Object
	if err := json.Unmarshal([]byte(format(body, args)), &want); err != nil {
		r.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("(-want +got)\n%s", diff)
	}
}

// Texts returns a field of the objects of a list.
func Texts(list []Object, field string) (all []string) {
	for _, o := range list {
		all = append(all, o.Text(field))
	}
	return all
}
