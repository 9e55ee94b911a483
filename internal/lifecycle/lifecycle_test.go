package lifecycle_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/lifecycle"
)

type lamp string

const (
	created lifecycle.Event[lamp] = "created"
	lit     lifecycle.Event[lamp] = "lit"
	broken  lifecycle.Event[lamp] = "broken"
)

var life = lifecycle.Table[lamp]{
	"":       {created: "off"},
	"off":    {lit: "on-now", broken: ""},
	"on-now": {broken: ""},
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from  lamp
		event lifecycle.Event[lamp]
		to    lamp
		ok    bool
	}{
		{"", created, "off", true},
		{"off", lit, "on-now", true},
		{"on-now", broken, "", true},
		{"on-now", lit, "", false},
		{"nowhere", lit, "", false},
	} {
		if to, ok := life.Next(c.from, c.event); to != c.to || ok != c.ok {
			t.Errorf("%q %s leads to %q (%v), want %q (%v)", c.from, c.event, to, ok, c.to, c.ok)
		}
	}
}

func TestEdges(t *testing.T) {
	t.Parallel()
	want := []lifecycle.Edge{{"", "created", "off"}, {"off", "broken", ""}, {"off", "lit", "on-now"}, {"on-now", "broken", ""}}
	if got := life.Edges(); !slices.Equal(got, want) {
		t.Errorf("the edges are %v, want %v", got, want)
	}
	if got := life.State(); got != reflect.TypeFor[lamp]() {
		t.Errorf("the states are of the type %s", got)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		table lifecycle.Table[lamp]
		want  string
	}{
		{life, ""},
		{lifecycle.Table[lamp]{"": {created: "off"}, "off": {broken: ""}, "on": {broken: ""}}, `nothing leads to the state "on"`},
		{lifecycle.Table[lamp]{"": {created: "off"}}, `what follows the state "off"`},
	} {
		err := c.table.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("the check of %v says %v, want %q", c.table, err, c.want)
		}
	}
}

func TestMermaid(t *testing.T) {
	t.Parallel()
	const want = "stateDiagram-v2\n    [*] --> off: created\n    off --> [*]: broken\n    off --> on_now: lit\n    on_now --> [*]: broken\n"
	if got := lifecycle.Mermaid(life); got != want {
		t.Errorf("the diagram is\n%swant\n%s", got, want)
	}
}
