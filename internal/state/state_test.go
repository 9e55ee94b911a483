package state_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/state"
)

type door string

const (
	closed      door = "closed"
	open        door = "open"
	fallingShut door = "falling-shut"
)

var doorLife = state.Machine[door]{
	"":          {"hang": closed},
	closed:      {"push": open, "unhang": ""},
	open:        {"let go": fallingShut, "push": open},
	fallingShut: {"shut": closed},
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		from  door
		event string
		to    door
		ok    bool
	}{
		{"the beginning", "", "hang", closed, true},
		{"a step", closed, "push", open, true},
		{"to itself", open, "push", open, true},
		{"the end", closed, "unhang", "", true},
		{"an event of another state", closed, "shut", "", false},
		{"an unknown event", open, "paint", "", false},
		{"no event", open, "", "", false},
		{"an unknown state", "ajar", "push", "", false},
		{"before the beginning", "", "push", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if to, ok := doorLife.Next(test.from, test.event); to != test.to || ok != test.ok {
				t.Errorf("Next(%q, %q) = %q, %t, want %q, %t", test.from, test.event, to, ok, test.to, test.ok)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		table state.Machine[door]
		want  string // empty: nothing is wrong
	}{
		{"a whole life", doorLife, ""},
		{"a life without an end", state.Machine[door]{"": {"hang": closed}, closed: {"push": open}, open: {"shut": closed}}, ""},
		{"an end that is a state", state.Machine[door]{"": {"hang": closed}, closed: {}}, ""},
		{"nothing", state.Machine[door]{}, `the table does not say what follows the state ""`},
		{"no beginning", state.Machine[door]{"": {}, closed: {"push": open}, open: {"shut": closed}}, `nothing leads to the state "closed"`},
		{"a state on its own", state.Machine[door]{"": {"hang": closed}, closed: {"unhang": ""}, open: {"push": open}}, `nothing leads to the state "open"`},
		{"a state that leads into the others only", state.Machine[door]{"": {"hang": closed}, closed: {}, open: {"shut": closed}}, `nothing leads to the state "open"`},
		{"a state that nothing is said of", state.Machine[door]{"": {"hang": closed}, closed: {"push": open}}, `the table does not say what follows the state "open"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.table.Check()
			if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
				t.Errorf("Check answers %v, want %q", err, test.want)
			}
		})
	}
}

// Any walk through a table that Check accepts stays in it.
func TestWalksStayInTheTable(t *testing.T) {
	t.Parallel()
	states := rapid.SampledFrom([]door{"", "a", "b"})
	events := rapid.SampledFrom([]string{"x", "y"})
	rapid.Check(t, func(t *rapid.T) {
		table := state.Machine[door]{}
		for _, s := range []door{"", "a", "b"} {
			if rapid.IntRange(0, 3).Draw(t, "said") > 0 {
				table[s] = rapid.MapOf(events, states).Draw(t, "what follows")
			}
		}
		if table.Check() != nil {
			return
		}
		at := door("")
		for range 10 {
			to, ok := table.Next(at, events.Draw(t, "event"))
			if !ok {
				continue
			}
			if _, said := table[to]; !said {
				t.Fatalf("the table does not say what follows %q, which follows %q", to, at)
			}
			at = to
		}
	})
}

func TestMermaid(t *testing.T) {
	t.Parallel()
	want := strings.TrimPrefix(`
stateDiagram-v2
    [*] --> closed: hang
    closed --> open: push
    closed --> [*]: unhang
    falling_shut --> closed: shut
    open --> falling_shut: let go
    open --> open: push
`, "\n")
	for range 3 { // the order of a map is chance
		if got := doorLife.Mermaid(); got != want {
			t.Errorf("the diagram is\n%s, want\n%s", got, want)
		}
	}
}
