// Package storetest says what a [store.Journal] must do, in tests that every
// journal passes, and what a [store.Store] promises over any of them.
package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Opener opens the journal under test. Once that journal is closed it may be
// called again, and opens what the one before has left. It returns nil to test
// a store without a journal.
type Opener func() (store.Journal, error)

// Except names a test that cannot pass, or a group of tests, and says why.
type Except struct{ Test, Reason string }

// Run runs all tests, each on fresh data made by setup.
func Run(t *testing.T, setup func(t *testing.T) Opener, except ...Except) {
	run(t, setup, except, group{"Journal", journalTests}, group{"Store", storeTests})
}

// RunShared runs the tests of journals that are a [store.Shared]. Each is on
// fresh data made by setup, and opens it several times at once.
func RunShared(t *testing.T, setup func(t *testing.T) Opener, except ...Except) {
	run(t, setup, except, group{"Shared", sharedTests})
}

type group struct {
	name  string
	tests []test
}

func run(t *testing.T, setup func(t *testing.T) Opener, except []Except, groups ...group) {
	unused := slices.Clone(except)
	for _, group := range groups {
		for _, test := range group.tests {
			t.Run(group.name+"/"+test.name, func(t *testing.T) {
				for _, e := range except {
					if e.Test == group.name || e.Test == group.name+"/"+test.name {
						unused = slices.DeleteFunc(unused, func(u Except) bool { return u == e })
						// Not a skip: it does not depend on the machine.
						t.Logf("excepted: %s", e.Reason)
						return
					}
				}
				t.Parallel()
				test.run(t, setup)
			})
		}
	}
	for _, e := range unused {
		t.Errorf("there is no test %q to except", e.Test)
	}
}

type test struct {
	name string
	run  func(t *testing.T, setup func(t *testing.T) Opener)
}

// on adapts a test that needs one set of data.
func on(run func(t *testing.T, open Opener)) func(*testing.T, func(*testing.T) Opener) {
	return func(t *testing.T, setup func(*testing.T) Opener) { run(t, setup(t)) }
}

// Thing is what the tests keep in a store.
type Thing struct {
	Name  string   `json:",omitempty"` // the index "name" leads from it to the thing
	Parts []string `json:",omitempty"` // and the index "part" from each of these
	Busy  bool     `json:",omitempty"` // a loop must look at it
	Text  string   `json:",omitempty"`
}

// Kind is the codec of the Things of one kind. It refuses a document that
// comes back from another place than it was made for.
type Kind string

type document struct {
	At store.Place
	Thing
}

func (k Kind) Name() string { return string(k) }

func (k Kind) Encode(at store.Place, value any) ([]byte, error) {
	thing, ok := value.(Thing)
	if !ok {
		return nil, fmt.Errorf("a %T is no thing", value)
	}
	return json.Marshal(document{at, thing})
}

func (k Kind) Decode(at store.Place, doc []byte) (any, error) {
	var d document
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, err
	}
	if d.At != at {
		return nil, fmt.Errorf("the document of %v was found at %v", d.At, at)
	}
	return d.Thing, nil
}

func (k Kind) Keys(value any) []store.Key {
	thing, _ := value.(Thing)
	var keys []store.Key
	if thing.Name != "" {
		keys = append(keys, store.Key{Index: "name", Value: thing.Name})
	}
	for _, p := range thing.Parts {
		keys = append(keys, store.Key{Index: "part", Value: p})
	}
	return keys
}

// Amounts adds up how long texts are, which no index leads to, and how many parts
// there are.
func (k Kind) Amounts(value any) store.Amounts {
	thing, _ := value.(Thing)
	return store.Amounts{int64(len(thing.Text)), int64(len(thing.Parts)), 0, 1}
}

func (k Kind) Pending(value any) bool {
	thing, _ := value.(Thing)
	return thing.Busy
}

// The kinds that [Open] knows.
const (
	Box Kind = "box"
	Lid Kind = "lid"
)

// Now is the time in a store made by [Open].
var Now = time.UnixMilli(1_700_000_000_000)

// Open starts a store of boxes and lids over the journal.
func Open(j store.Journal, set ...func(*store.Options)) *store.Store {
	o := store.Options{
		Codecs:  []store.Codec{Box, Lid},
		Journal: j,
		Now:     func() time.Time { return Now },
		Rand:    rand.NewChaCha8([32]byte{}),
	}
	for _, set := range set {
		set(&o)
	}
	return store.Open(o)
}

// Render writes down all that a snapshot says, for comparison.
func Render(s *store.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at version %d\n", s.Account(), s.Version())
	for _, kind := range []Kind{Box, Lid} {
		fmt.Fprintf(&b, "%s: %d living\n", kind, s.Count(string(kind)))
		for o := range s.Scan(string(kind), 0) {
			fmt.Fprintf(&b, "  %q seq %d gone %d %+v\n", o.ID, o.Seq, o.DeletedAt, o.Value)
			for _, k := range kind.Keys(o.Value) {
				for found := range s.Find(string(kind), k) {
					fmt.Fprintf(&b, "    %s %q leads to %q\n", k.Index, k.Value, found.ID)
				}
			}
		}
	}
	return b.String()
}
