package acceptance

import (
	"fmt"
	"sync"
	"testing"

	"github.com/bastide-cloud/bastide/internal/cloud"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
)

// walk has the transitions that stories have made. It is safe for concurrent use.
type walk struct {
	mu   sync.Mutex
	made map[string]bool
}

func step(of string, e lifecycle.Edge) string {
	return fmt.Sprintf("%s: %q %s %q", of, e.From, e.Event, e.To)
}

func (w *walk) note(of string, e lifecycle.Edge) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made == nil {
		w.made = map[string]bool{}
	}
	w.made[step(of, e)] = true
}

// hosted are the transitions of DirectLink interfaces for other accounts, which no
// action of this API makes. Their own tests do.
func hosted(of string, e lifecycle.Edge) bool {
	return of == network.Interfaces.Name && (e.From == "confirming" || e.To == "confirming" || e.From == "rejected" || e.From == "expired")
}

// check reports the transitions of the tables that no story has made.
func (w *walk) check(t *testing.T) {
	lives := map[string]lifecycle.Life{}
	for _, parts := range []map[string]lifecycle.Life{network.Lives(), compute.Lives()} {
		for _, l := range parts {
			lives[l.State().Name()] = l
		}
	}
	for _, k := range cloud.Kinds() {
		if facts := k.Facts(); facts.Life != nil {
			lives[facts.Name] = facts.Life
		}
	}
	for of, l := range lives {
		for _, e := range l.Edges() {
			if !w.made[step(of, e)] && !hosted(of, e) {
				t.Errorf("no story walks %s", step(of, e))
			}
		}
	}
}
