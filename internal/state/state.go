// Package state describes life cycles as tables. The loops, the diagrams in
// the documentation and the tests read the same table.
package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Machine says for each state which event leads to which next state. The empty
// state is the one before creation and after the end.
type Machine[S ~string] map[S]map[string]S

// Next is the state that the event leads to, if it may happen in this state.
func (m Machine[S]) Next(from S, event string) (S, bool) {
	to, ok := m[from][event]
	return to, ok
}

// Check reports states that no path from the empty state reaches, and states
// that lead nowhere although the table names no end for them.
func (m Machine[S]) Check() error {
	reached := map[S]bool{"": true}
	todo := []S{""}
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		for _, to := range m[s] {
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(m)) {
		if !reached[s] {
			return fmt.Errorf("nothing leads to the state %q", s)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(reached)) {
		if _, ok := m[s]; !ok {
			return fmt.Errorf("the table does not say what follows the state %q", s)
		}
	}
	return nil
}

// Mermaid draws the table as a state diagram.
func (m Machine[S]) Mermaid() string {
	name := func(s S) string {
		if s == "" {
			return "[*]"
		}
		return strings.NewReplacer("-", "_", " ", "_").Replace(string(s))
	}
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, from := range slices.Sorted(maps.Keys(m)) {
		for _, event := range slices.Sorted(maps.Keys(m[from])) {
			fmt.Fprintf(&b, "    %s --> %s: %s\n", name(from), name(m[from][event]), event)
		}
	}
	return b.String()
}
