package network_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

// link makes a DirectLink and answers its ID.
func (r *region) link(account string) string {
	r.Helper()
	return r.One(account, "CreateDirectLink", `{"Bandwidth": "1Gbps", "DirectLinkName": "To Paris", "Location": "LOC1"}`).Text("DirectLinkId")
}

// isLink checks the state of a DirectLink.
func (r *region) isLink(account, link string, want network.DirectLinkState) {
	r.Helper()
	list := r.List(account, "ReadDirectLinks", `{"Filters": {"DirectLinkIds": [%q]}}`, link)
	if len(list) != 1 || list[0]["State"] != string(want) {
		r.Errorf("the DirectLink is %v, want %s", list, want)
	}
}

func TestDirectLink(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.One(alice, "CreateDirectLink", `{"Bandwidth": "10Gbps", "DirectLinkName": "To Paris", "Location": "LOC2"}`)
	want := fmt.Sprintf(`{"DirectLinkId": %q, "AccountId": %q, "Bandwidth": "10Gbps", "DirectLinkName": "To Paris",
		"Location": "LOC2", "RegionName": "test-1", "State": "requested"}`, made["DirectLinkId"], alice)
	r.Shows(made, want)
	r.Shows(r.List(alice, "ReadDirectLinks", `{}`)[0], want)
	r.Selects(r.List(bob, "ReadDirectLinks", `{}`), "DirectLinkId")
	other := r.link(alice)
	r.Selects(r.List(alice, "ReadDirectLinks", `{"Filters": {"DirectLinkIds": [%q]}}`, other), "DirectLinkId", other)

	r.Call(alice, "DeleteDirectLink", naming("DirectLinkId", other))
	r.isLink(alice, other, network.DirectLinkDeleted)
	r.Refuse(apierror.DirectLinkNotFound, alice, "DeleteDirectLink", naming("DirectLinkId", other))
	r.Refuse(apierror.DirectLinkNotFound, bob, "DeleteDirectLink", naming("DirectLinkId", made.Text("DirectLinkId")))
}

func TestDirectLinkRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"dl_connection_limit": 1})
	const format = `{"Bandwidth": %q, "DirectLinkName": %q, "Location": %q}`
	tests := []struct {
		name, body string
		want       apierror.Code
	}{
		{"no bandwidth", `{"DirectLinkName": "To Paris", "Location": "LOC1"}`, apierror.MissingParameter},
		{"no name", `{"Bandwidth": "1Gbps", "Location": "LOC1"}`, apierror.MissingParameter},
		{"no location", `{"Bandwidth": "1Gbps", "DirectLinkName": "To Paris"}`, apierror.MissingParameter},
		{"another bandwidth", fmt.Sprintf(format, "2Gbps", "To Paris", "LOC1"), apierror.InvalidValue},
		{"an empty name", fmt.Sprintf(format, "1Gbps", "", "LOC1"), apierror.InvalidLength},
		{"a long name", fmt.Sprintf(format, "1Gbps", strings.Repeat("é", 256), "LOC1"), apierror.InvalidLength},
		{"another location", fmt.Sprintf(format, "1Gbps", "To Paris", "LOC9"), apierror.LocationNotFound},
		{"an empty location", fmt.Sprintf(format, "1Gbps", "To Paris", ""), apierror.LocationNotFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, alice, "CreateDirectLink", test.body) })
	}
	r.Call(alice, "CreateDirectLink", format, "1Gbps", strings.Repeat("é", 255), "LOC1")
	r.Refuse(apierror.TooManyDirectLinks, alice, "CreateDirectLink", format, "1Gbps", "To Paris", "LOC1")
	r.link(bob)
}

// People lay the cable: first there is a port for it, then it is plugged in.
func TestDirectLinkIsLaid(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 4*time.Second)
	loops, end := r.run(drivers, network.NewDirectLinkLoop(r.DB, drivers))
	defer end()
	has := func(want ...driver.Cable) {
		t.Helper()
		got, err := drivers.ObserveCables(t.Context())
		if err != nil || len(got) != len(want) || len(want) == 1 && got[0] != want[0] {
			t.Errorf("the driver has %v, %v, want %v", got, err, want)
		}
	}
	link := r.link(alice)
	cable := driver.Cable{Account: alice, ID: link, Location: "LOC1", Gigabits: 1}
	for _, step := range []struct {
		state network.DirectLinkState
		next  time.Duration
	}{
		{network.DirectLinkRequested, 4 * time.Second}, {network.DirectLinkPending, 4 * time.Second}, {network.DirectLinkAvailable, 0},
	} {
		if next := r.settle(loops); next != step.next {
			t.Errorf("while it should be %s, the next step is in %s", step.state, next)
		}
		r.isLink(alice, link, step.state)
		has(cable)
		r.Clock.Advance(step.next)
	}
	r.Call(alice, "DeleteDirectLink", naming("DirectLinkId", link))
	r.settle(loops)
	has()

	// One that is deleted on its way is not laid.
	link = r.link(alice)
	r.settle(loops)
	r.Call(alice, "DeleteDirectLink", naming("DirectLinkId", link))
	r.settle(loops)
	has()
	r.isLink(alice, link, network.DirectLinkDeleted)
	r.Clock.Advance(time.Hour)
	r.settle(loops)
	r.Selects(r.List(alice, "ReadDirectLinks", `{}`), "DirectLinkId")
}

func TestDirectLinkOutlastsFailures(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, time.Second)
	drivers.Fail(func(string) error { return errors.New("nobody is there") })
	loops, end := r.run(drivers, network.NewDirectLinkLoop(r.DB, drivers))
	defer end()
	link, gone := r.link(alice), r.link(alice)
	r.settle(loops)
	r.isLink(alice, link, network.DirectLinkRequested)
	r.Call(alice, "DeleteDirectLink", naming("DirectLinkId", gone))
	drivers.Fail(nil)
	r.finish(loops)
	r.isLink(alice, link, network.DirectLinkAvailable)
	if cables, err := drivers.ObserveCables(t.Context()); err != nil || len(cables) != 1 || cables[0].ID != link {
		t.Errorf("the driver has %v, %v", cables, err)
	}
}
