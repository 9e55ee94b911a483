package resource_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// A disk has a life, and so has the plug that is a part of it. A deleted disk
// stays readable for an hour.
type Disk string

func (Disk) Form() resource.Form { return hex("disk-") }

type disk struct {
	DiskId Disk
	State  diskState
	Plug   struct{ State plugState }
	Name   string
}

type (
	diskState string
	plugState string
)

const (
	diskCreated   lifecycle.Event[diskState] = "created"
	diskRefused   lifecycle.Event[diskState] = "refused"
	diskFormatted lifecycle.Event[diskState] = "formatted"
	diskDeleted   lifecycle.Event[diskState] = "deleted"
	diskBurnt     lifecycle.Event[diskState] = "burnt"
	diskPurged    lifecycle.Event[diskState] = "purged"

	plugged lifecycle.Event[plugState] = "plugged"
)

var (
	disks = &resource.Kind[disk, Disk]{
		Name: "Disk", Retention: time.Hour, Forbidden: apierror.NetInUse,
		Life: lifecycle.Table[diskState]{
			"":      {diskCreated: "new"},
			"new":   {diskFormatted: "ready"},
			"ready": {diskDeleted: "gone"},
			"gone":  {diskPurged: ""},
		},
	}
	plugLife = lifecycle.Table[plugState]{"": {plugged: "in"}, "in": {}}
)

// withDisks opens a country that has disks, and notes what happens to them.
func withDisks(seen *[]string, now *clock) func(*resource.Options) {
	return func(o *resource.Options) {
		o.Kinds, o.Now = append(o.Kinds, disks), now.Now
		o.Transitioned = func(of string, e lifecycle.Edge) {
			*seen = append(*seen, fmt.Sprint(of, ": ", e.From, " ", e.Event, " ", e.To))
		}
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	var seen []string
	now := &clock{}
	db := open(t, withDisks(&seen, now))
	d := insert(t, db, alice, disks, disk{})
	if d.State != "new" {
		t.Fatalf("a disk is made %q", d.State)
	}
	refused(t, db, alice, apierror.NetInUse, "is new, so it cannot be deleted", func(tx *resource.Tx) error {
		return resource.Transition(tx, disks, d, diskDeleted)
	})
	refused(t, db, alice, apierror.NetInUse, "is new, so it cannot be deleted", func(tx *resource.Tx) error { return disks.Delete(tx, d) })
	update(t, db, alice, func(tx *resource.Tx) error {
		if ok, err := resource.Try(tx, disks, d, diskDeleted); ok || err != nil || d.State != "new" {
			t.Errorf("an event that is not allowed happened (%v, %v) and led to %q", ok, err, d.State)
		}
		if !resource.Allows(disks, d, diskFormatted) || resource.Allows(disks, d, diskDeleted) {
			t.Error("what is allowed is not what the table says")
		}
		d.Name = "written with it"
		must(resource.Transition(tx, disks, d, diskFormatted))
		if !resource.Advance(tx, plugLife, &d.Plug.State, plugged) || d.Plug.State != "in" ||
			resource.Advance(tx, plugLife, &d.Plug.State, plugged) {
			t.Errorf("the plug has become %q", d.Plug.State)
		}
		return disks.Put(tx, d)
	})
	view(t, db, alice, func(tx *resource.Tx) {
		if got, err := disks.Get(tx, d.DiskId); err != nil || *got != *d || got.State != "ready" || got.Name == "" {
			t.Errorf("it is kept as %+v (%v), want %+v", got, err, d)
		}
	})
	update(t, db, alice, func(tx *resource.Tx) error { return disks.Delete(tx, d) })
	view(t, db, alice, func(tx *resource.Tx) {
		if disks.Has(tx, d.DiskId) || d.State != "gone" {
			t.Errorf("the deleted disk is %q, and there: %v", d.State, disks.Has(tx, d.DiskId))
		}
	})
	now.advance(2 * time.Hour)
	update(t, db, alice, func(tx *resource.Tx) error { disks.Purge(tx); return nil })
	want := []string{"Disk:  created new", "Disk: new formatted ready", "plugState:  plugged in", "Disk: ready deleted gone",
		"Disk: gone purged "}
	if !slices.Equal(seen, want) {
		t.Errorf("it went through %q, want %q", seen, want)
	}
}

// A rule cannot set a state past the table, and a creation that can begin in
// several ways says in which.
func TestStatesAreNotAssigned(t *testing.T) {
	t.Parallel()
	var seen []string
	db := open(t, withDisks(&seen, &clock{}))
	d := insert(t, db, alice, disks, disk{})
	for name, rule := range map[string]func(tx *resource.Tx) error{
		"put in another state":       func(tx *resource.Tx) error { d.State = "ready"; return disks.Put(tx, d) },
		"inserted with a state":      func(tx *resource.Tx) error { return disks.Insert(tx, &disk{State: "ready"}) },
		"put without being inserted": func(tx *resource.Tx) error { return disks.Put(tx, &disk{DiskId: "disk-00000000", State: "new"}) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := db.Update(t.Context(), resource.Caller{Account: alice}, rule); err == nil {
				t.Error("a rule has set a state past the table")
			}
			d.State = "new"
		})
	}
}

// A life that begins or ends in several ways does so by a Transition.
func TestLivesWithSeveralEnds(t *testing.T) {
	t.Parallel()
	several := &resource.Kind[disk, Disk]{Name: "Several", Life: lifecycle.Table[diskState]{
		"":    {diskCreated: "new", diskRefused: "bad"},
		"new": {diskDeleted: "", diskBurnt: ""},
		"bad": {diskBurnt: ""},
	}}
	db := resource.Open(resource.Options{Kinds: []resource.Any{several}, Now: (&clock{}).Now, Rand: rand.NewChaCha8([32]byte{})})
	defer closed(t, db)
	try := func(rule func(tx *resource.Tx) error) error {
		return db.Update(t.Context(), resource.Caller{Account: alice}, rule)
	}
	d := disk{DiskId: "disk-00000001"}
	if err := try(func(tx *resource.Tx) error { return several.Insert(tx, &d) }); err == nil {
		t.Error("it began, and nothing said how")
	}
	if err := try(func(tx *resource.Tx) error { return resource.Transition(tx, several, &d, diskCreated) }); err != nil || d.State != "new" {
		t.Errorf("it began as %q: %v", d.State, err)
	}
	if err := try(func(tx *resource.Tx) error { return several.Delete(tx, &d) }); err == nil {
		t.Error("it ended, and nothing said how")
	}
	d.State = "new"
	if err := try(func(tx *resource.Tx) error { return resource.Transition(tx, several, &d, diskBurnt) }); err != nil {
		t.Errorf("it did not end: %v", err)
	}
	bad := disk{DiskId: "disk-00000002"}
	if err := try(func(tx *resource.Tx) error { return resource.Transition(tx, several, &bad, diskRefused) }); err != nil ||
		bad.State != "bad" {
		t.Errorf("it began as %q: %v", bad.State, err)
	}
	if err := try(func(tx *resource.Tx) error { return several.Delete(tx, &bad) }); err != nil {
		t.Errorf("with one end it did not end: %v", err)
	}
}

// A life whose states are in no field, or in two, is a mistake of ours.
func TestLifeWithoutAField(t *testing.T) {
	t.Parallel()
	for _, k := range []resource.Any{
		&resource.Kind[house, House]{Name: "Lifeless", Life: plugLife},
		&resource.Kind[struct {
			DiskId Disk
			A, B   diskState
		}, Disk]{Name: "Torn", Life: disks.Life},
		&resource.Kind[disk, Disk]{Name: "Endless", Life: lifecycle.Table[diskState]{"": {diskCreated: "new"}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the kind %s was opened", k.Facts().Name)
				}
			}()
			resource.Open(resource.Options{Kinds: []resource.Any{k}})
		}()
	}
}
