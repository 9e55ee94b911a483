package compute

import (
	"fmt"
	"slices"

	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// bring takes a resource through the table of its kind to a state, as the rules and
// loops of its family would in some way.
func bring[T any, I resource.ID, S ~string](tx *resource.Tx, k *resource.Kind[T, I], v *T, state *S, to S) error {
	life := k.Life.(lifecycle.Table[S])
	came := map[S]lifecycle.Edge{*state: {}}
	for todo := []S{*state}; len(todo) > 0; todo = todo[1:] {
		for event, next := range life[todo[0]] {
			if _, seen := came[next]; !seen && next != "" {
				came[next] = lifecycle.Edge{From: string(todo[0]), Event: string(event)}
				todo = append(todo, next)
			}
		}
	}
	var events []lifecycle.Event[S]
	for at := to; at != *state; {
		e, ok := came[at]
		if !ok {
			return fmt.Errorf("no event leads from %q to %q", *state, to)
		}
		events, at = append(events, lifecycle.Event[S](e.Event)), S(e.From)
	}
	for _, event := range slices.Backward(events) {
		if err := resource.Transition(tx, k, v, event); err != nil {
			return err
		}
	}
	return nil
}
