package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// What a driver has is found by its key, and as drifted if it may be.
func TestList(t *testing.T) {
	t.Parallel()
	fails := errors.New("the list is cut short")
	list := func(context.Context) ([]driver.Disk, error) {
		return []driver.Disk{{Account: "alice", ID: "small", Size: 1}, {Account: "bob", ID: "large", Size: 2}}, fails
	}
	type disk struct {
		account, id string
		drift       bool
	}
	isLarge := func(d driver.Disk) bool { return d.Size == 2 }
	for name, c := range map[string]struct {
		drift func(driver.Disk) bool
		want  []disk
	}{
		"never drifts": {nil, []disk{{"alice", "small", false}, {"bob", "large", false}}},
		"may drift":    {isLarge, []disk{{"alice", "small", false}, {"bob", "large", true}}},
	} {
		var got []disk
		err := reconcile.List(list, c.drift)(t.Context(), func(account, id string, drift bool) { got = append(got, disk{account, id, drift}) })
		if !errors.Is(err, fails) || !slices.Equal(got, c.want) {
			t.Errorf("%s: found %v and %v, want %v", name, got, err, c.want)
		}
	}
}

// A driver is asked how far it has come, unless it has failed.
func TestApplyAndReport(t *testing.T) {
	t.Parallel()
	later, away := driver.Later{At: start.Add(time.Second)}, errors.New("the driver is away")
	for name, c := range map[string]struct {
		ensure, report error
		has            bool
		want           string // the report
		err            error  // nil for an absent value: any
	}{
		"applied":      {has: true, want: "alice small"},
		"under way":    {ensure: later, has: true, want: "alice small", err: later},
		"failed":       {ensure: away, has: true, err: away},
		"no report":    {report: away, has: true, want: "alice small", err: away},
		"gone already": {ensure: later, want: "alice small"},
	} {
		ensure := reconcile.ApplyAndReport(
			func(context.Context, driver.Disk) error { return c.ensure },
			func(_ context.Context, account, id string) (string, bool, error) {
				return account + " " + id, c.has, c.report
			},
		)
		got, err := ensure(t.Context(), driver.Disk{Account: "alice", ID: "small"})
		if got != c.want || c.err != nil && !errors.Is(err, c.err) || (err == nil) != (c.has && c.err == nil) {
			t.Errorf("%s: reports %q and %v, want %q and %v", name, got, err, c.want, c.err)
		}
	}
}
