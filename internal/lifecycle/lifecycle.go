// Package lifecycle describes the states of resources as tables. Transactions,
// the diagrams in the documentation and the tests read the same table.
package lifecycle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Event is what happens to a resource with states of the type S. Its text is a
// past participle, so that a refusal can say that a volume "is in-use, so it
// cannot be deleted". Events are typed constants, so a misspelt one does not
// compile.
type Event[S ~string] string

// Table maps each state and event to the next state. The empty state is the one
// before creation and after the end.
type Table[S ~string] map[S]map[Event[S]]S

// Life is a table of any type of state.
type Life interface {
	// State is the type of the states.
	State() reflect.Type
	// Edges lists all transitions, sorted.
	Edges() []Edge
	// Check returns an error for a table that is incomplete or has unreachable
	// states.
	Check() error
}

// Edge is one transition.
type Edge struct{ From, Event, To string }

// Next returns the state that the event leads to, and whether the event is
// allowed in this state.
func (t Table[S]) Next(from S, event Event[S]) (S, bool) {
	to, ok := t[from][event]
	return to, ok
}

// State implements [Life].
func (Table[S]) State() reflect.Type { return reflect.TypeFor[S]() }

// Edges implements [Life].
func (t Table[S]) Edges() (edges []Edge) {
	for _, from := range slices.Sorted(maps.Keys(t)) {
		for _, event := range slices.Sorted(maps.Keys(t[from])) {
			edges = append(edges, Edge{string(from), string(event), string(t[from][event])})
		}
	}
	return edges
}

// Check implements [Life]. It finds states that no path from the empty state
// reaches, and states without a row in the table, although an end needs an
// empty one.
func (t Table[S]) Check() error {
	reached := map[S]bool{"": true}
	todo := []S{""}
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		for _, to := range t[s] {
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(t)) {
		if !reached[s] {
			return fmt.Errorf("nothing leads to the state %q", s)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(reached)) {
		if _, ok := t[s]; !ok {
			return fmt.Errorf("the table does not say what follows the state %q", s)
		}
	}
	return nil
}

// Mermaid returns a life as a state diagram.
func Mermaid(l Life) string {
	name := func(s string) string {
		if s == "" {
			return "[*]"
		}
		return strings.NewReplacer("-", "_", " ", "_").Replace(s)
	}
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, e := range l.Edges() {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", name(e.From), name(e.To), e.Event)
	}
	return b.String()
}
