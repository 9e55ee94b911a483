package network_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/drivertest"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// run starts the loops over a driver. They hear of changes until the answered
// function ends it.
func (r *region) run(drivers driver.Networks, others ...reconcile.Loop) (loops *reconcile.Reconciler, end func()) {
	loops = reconcile.New(reconcile.Options{Clock: r.Clock})
	public, ok := drivers.(driver.PublicCloud)
	if !ok {
		public = sim.New(r.Clock.Now, 0)
	}
	others = append(others, network.NewNetLoop(r.DB, drivers, here), network.NewGroupLoop(r.DB, public), network.NewPeeringLoop(r.DB))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loops.Run(ctx, r.DB, others...)
	}()
	r.changed.Store(new(loops.Changed))
	return loops, func() {
		cancel()
		<-ended
	}
}

// tellGroups brings the groups for the public Cloud to a driver, for tests that
// make the steps of another loop by hand.
func (r *region) tellGroups(drivers driver.PublicCloud) {
	r.Helper()
	loop := network.NewGroupLoop(r.DB, drivers)
	for _, account := range []string{alice, bob, carol} {
		for _, g := range r.groups(account, "") {
			if _, err := loop.Reconcile(context.Background(), account, g.Text("SecurityGroupId")); err != nil {
				r.Fatal(err)
			}
		}
	}
}

// settle answers how long after now something will be left to do.
func (r *region) settle(loops *reconcile.Reconciler) time.Duration {
	r.Helper()
	next, err := loops.WaitIdle(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(r.Clock.Now())
}

// finish moves the clock until nothing is left to do at any time.
func (r *region) finish(loops *reconcile.Reconciler) {
	r.Helper()
	for range 1000 {
		next := r.settle(loops)
		if next == 0 {
			return
		}
		r.Clock.Advance(next)
	}
	r.Fatal("something is left to do after 1000 moves of the clock")
}

// wanted is what the driver should have, as the store says.
func (r *region) wanted() (nets []driver.Net) {
	r.Helper()
	var services []driver.Service
	for _, s := range r.List(alice, "ReadNetAccessPointServices", `{}`) {
		ipRange := netip.MustParsePrefix(s["IpRanges"].([]any)[0].(string))
		services = append(services, driver.Service{ID: s.Text("ServiceId"), Ranges: []netip.Prefix{ipRange}})
	}
	for _, account := range []string{alice, bob} {
		err := r.DB.View(context.Background(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
			for n := range network.Nets.All(tx) {
				set, err := network.DhcpOptionsSets.Get(tx, n.DhcpOptionsSetId)
				if err != nil {
					return err
				}
				want := driver.Net{Account: account, ID: string(n.NetId), Generation: n.Generation, IpRange: n.IpRange.Prefix()}
				want.Dhcp.DomainName = string(set.DomainName)
				want.Services = services
				for _, server := range set.DomainNameServers {
					want.Dhcp.DomainNameServers = append(want.Dhcp.DomainNameServers, string(server))
				}
				for g := range network.SecurityGroups.Of(tx, n.NetId) { // the default one
					all := driver.Rule{Protocol: "-1", From: -1, To: -1}
					inbound, outbound := all, all
					inbound.Groups = []driver.GroupName{{Account: account, ID: string(g.SecurityGroupId)}}
					outbound.Ranges = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
					want.SecurityGroups = append(want.SecurityGroups, driver.SecurityGroup{
						ID: string(g.SecurityGroupId), Inbound: []driver.Rule{inbound}, Outbound: []driver.Rule{outbound},
					})
				}
				for t := range network.RouteTables.Of(tx, n.NetId) {
					want.RouteTables = append(want.RouteTables, driver.RouteTable{
						ID: string(t.RouteTableId), Routes: []driver.Route{{Destination: n.IpRange.Prefix(), Target: driver.Local}},
					})
				}
				for s := range network.Subnets.Of(tx, n.NetId) {
					want.Subnets = append(want.Subnets, driver.Subnet{
						ID: string(s.SubnetId), IpRange: s.IpRange.Prefix(), Subregion: s.SubregionName, RouteTable: want.RouteTables[0].ID,
					})
				}
				nets = append(nets, want)
			}
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
	}
	return nets
}

// agrees checks that the driver has what the store says, and that the store
// knows.
func (r *region) agrees(drivers driver.Networks) {
	r.Helper()
	got, err := drivers.ObserveNets(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	if diff := cmp.Diff(r.wanted(), got, drivertest.Equal()); diff != "" {
		r.Errorf("what the driver has (-store +driver):\n%s", diff)
	}
	for _, n := range got {
		for i, s := range n.Subnets {
			for _, other := range n.Subnets[:i] {
				if s.IpRange.Overlaps(other.IpRange) {
					r.Errorf("the Subnets %s and %s of %s overlap", other, s, n.ID)
				}
			}
		}
	}
	for _, account := range []string{alice, bob} {
		if pending := r.List(account, "ReadSubnets", `{"Filters": {"States": ["pending"]}}`); len(pending) > 0 {
			r.Errorf("%d Subnets are still pending", len(pending))
		}
	}
	if pending, err := r.DB.Pending(context.Background()); err != nil || len(pending) > 0 {
		r.Errorf("unsettled are the accounts %q, %v", pending, err)
	}
}

func TestLoop(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 0)
	loops, end := r.run(drivers)
	defer end()

	own := r.One(alice, "CreateDhcpOptions", `{"DomainName": "example.com", "LogServers": ["192.0.2.1"], "NtpServers": ["192.0.2.3",
		"192.0.2.2"]}`).Text("DhcpOptionsSetId")
	net := r.net(alice, "10.0.0.0/16")
	r.Call(alice, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": %q}`, net, own)
	first := r.subnet(alice, net, "10.0.0.0/24")
	if next := r.settle(loops); next != 0 {
		t.Errorf("a driver that is at once what it is asked to be leaves something to do in %s", next)
	}
	r.Selects(r.List(alice, "ReadSubnets", `{"Filters": {"States": ["available"]}}`), "SubnetId", first)
	has, err := drivers.ObserveNets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wanted := r.wanted()
	wanted[0].Dhcp.LogServers, wanted[0].Dhcp.NtpServers = []string{"192.0.2.1"}, []string{"192.0.2.3", "192.0.2.2"}
	if diff := cmp.Diff(wanted, has, drivertest.Equal()); diff != "" {
		t.Errorf("what the driver has (-store +driver):\n%s", diff)
	}

	// Every change that the driver must hear of reaches it.
	r.Call(alice, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": "default"}`, net)
	r.settle(loops)
	r.agrees(drivers)
	r.subnet(alice, net, "10.0.1.0/24")
	r.settle(loops)
	r.agrees(drivers)
	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, first)
	r.settle(loops)
	r.agrees(drivers)

	empty := r.net(alice, "10.0.0.0/16")
	r.settle(loops)
	r.agrees(drivers)
	r.Call(alice, "DeleteNet", `{"NetId": %q}`, empty)
	r.finish(loops)
	r.agrees(drivers)
}

// behind checks that the driver does not have a Net yet as it is.
func (r *region) behind(account, net string) {
	r.Helper()
	r.Update(account, func(tx *resource.Tx) error {
		n, err := network.Nets.Get(tx, id.Net(net))
		if err == nil && !n.Pending() {
			r.Errorf("the driver has the Net %s as it is", net)
		}
		return err
	})
}

func TestLoopWaitsForTheWorld(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 4*time.Second)
	loops, end := r.run(drivers)
	defer end()
	net := r.net(alice, "10.0.0.0/16")
	subnet := r.subnet(alice, net, "10.0.0.0/24")
	if next := r.settle(loops); next != 4*time.Second {
		t.Fatalf("the next step is in %s, want 4s", next)
	}
	r.Clock.Advance(3 * time.Second)
	r.settle(loops)
	r.behind(alice, net)
	r.Selects(r.List(alice, "ReadSubnets", `{"Filters": {"States": ["available"]}}`), "SubnetId", subnet) // all the same
	r.finish(loops)
	r.agrees(drivers)

	// A Subnet may go before it was ever there.
	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, r.subnet(alice, net, "10.0.1.0/24"))
	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, subnet)
	r.Call(alice, "DeleteNet", `{"NetId": %q}`, net)
	r.settle(loops)
	if has, err := drivers.ObserveNets(t.Context()); err != nil || len(has) != 1 {
		t.Errorf("a removal that takes 4 s leaves %v, %v at once", has, err)
	}
	r.finish(loops)
	r.agrees(drivers)
}

func TestLoopOutlastsFailures(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 0)
	drivers.Fail(func(string) error { return errors.New("the cable is cut") })
	loops, end := r.run(drivers)
	defer end()
	net := r.net(alice, "10.0.0.0/16")
	r.subnet(alice, net, "10.0.0.0/24")
	for range 5 {
		r.Clock.Advance(r.settle(loops))
	}
	r.settle(loops)
	r.behind(alice, net)
	drivers.Fail(nil)
	r.finish(loops)
	r.agrees(drivers)
}

// A step may be made any number of times, also from its middle.
func TestStepTwice(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 0)
	r.tellGroups(drivers)
	net := r.net(alice, "10.0.0.0/16")
	r.subnet(alice, net, "10.0.0.0/24")
	loop := network.NewNetLoop(r.DB, drivers, here)
	step := func() {
		t.Helper()
		if again, err := loop.Reconcile(t.Context(), alice, net); err != nil || !again.IsZero() {
			t.Fatalf("got %v, %v", again, err)
		}
	}

	// The driver hears of the Net, and the process ends before it is noted.
	if err := drivers.EnsureNet(t.Context(), r.wanted()[0]); err != nil {
		t.Fatal(err)
	}
	step()
	r.agrees(drivers)
	before := r.Revision(alice)
	drivers.Fail(func(op string) error { return fmt.Errorf("%s was called for nothing", op) })
	step()
	drivers.Fail(nil)
	r.agrees(drivers)
	if after := r.Revision(alice); after != before {
		t.Error("a step with nothing to do has changed the account")
	}

	r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, r.List(alice, "ReadSubnets", `{}`)[0].Text("SubnetId"))
	r.Call(alice, "DeleteNet", `{"NetId": %q}`, net)
	step()
	step()
	r.Clock.Advance(network.Nets.Retention)
	r.Update(alice, func(tx *resource.Tx) error { network.Nets.Purge(tx); return nil })
	r.agrees(drivers)
}

// A driver that was asked for something newer is not taken back.
func TestLoopDoesNotGoBack(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 0)
	net := r.net(alice, "10.0.0.0/16")
	newer := r.wanted()[0]
	newer.Generation += 10
	if err := drivers.EnsureNet(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	if _, err := network.NewNetLoop(r.DB, drivers, here).Reconcile(t.Context(), alice, net); !errors.Is(err, driver.ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
}

// changing is a driver that calls a function after each EnsureNet.
type changing struct {
	driver.Networks
	after func()
}

func (c changing) EnsureNet(ctx context.Context, n driver.Net) error {
	err := c.Networks.EnsureNet(ctx, n)
	c.after()
	return err
}

// What changes while the driver is asked is not taken for done.
func TestChangeDuringAStep(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 0)
	r.tellGroups(drivers)
	net := r.net(alice, "10.0.0.0/16")
	first, second := r.accessPoint(alice, net, apiService), r.accessPoint(alice, net, "com.outscale.test-1.eim")
	var third string
	loop := network.NewNetLoop(r.DB, changing{drivers, func() {
		r.Call(alice, "DeleteNetAccessPoint", `{"NetAccessPointId": %q}`, first)
		third = r.accessPoint(alice, net, "com.outscale.test-1.oos")
	}}, here)
	if _, err := loop.Reconcile(t.Context(), alice, net); err != nil {
		t.Fatal(err)
	}
	r.Selects(r.List(alice, "ReadNetAccessPoints", `{"Filters": {"States": ["available"]}}`), "NetAccessPointId", second)
	r.Selects(r.List(alice, "ReadNetAccessPoints", `{"Filters": {"States": ["pending"]}}`), "NetAccessPointId", third)
	r.behind(alice, net)

	loop = network.NewNetLoop(r.DB, changing{drivers, func() {
		for _, point := range []string{second, third} {
			r.Call(alice, "DeleteNetAccessPoint", `{"NetAccessPointId": %q}`, point)
		}
		r.Call(alice, "DeleteNet", `{"NetId": %q}`, net)
	}}, here)
	if _, err := loop.Reconcile(t.Context(), alice, net); err != nil {
		t.Errorf("a Net that was deleted while the driver was asked: %v", err)
	}
}

func TestLoopRestarts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		before func(*region) // with the loop
		after  func(*region) // when it has ended
	}{
		{
			name:   "before the driver has heard of a Net",
			before: func(*region) {},
			after:  func(r *region) { r.subnet(alice, r.net(alice, "10.0.0.0/16"), "10.0.0.0/24") },
		}, {
			name:   "while a change is under way",
			before: func(r *region) { r.subnet(alice, r.net(alice, "10.0.0.0/16"), "10.0.0.0/24") },
			after:  func(*region) {},
		}, {
			name: "before a change is under way",
			before: func(r *region) {
				net := r.net(alice, "10.0.0.0/16")
				r.subnet(alice, net, "10.0.0.0/24")
			},
			after: func(r *region) {
				r.Call(alice, "DeleteSubnet", `{"SubnetId": %q}`, r.List(alice, "ReadSubnets", `{}`)[0].Text("SubnetId"))
			},
		}, {
			name:   "between a deletion and the removal",
			before: func(r *region) { r.net(alice, "10.0.0.0/16") },
			after: func(r *region) {
				r.Call(alice, "DeleteNet", `{"NetId": %q}`, r.List(alice, "ReadNets", `{}`)[0].Text("NetId"))
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			journal := &memory{accounts: map[string]*account{}}
			first := open(t, journal, nil)
			first.welcome()
			drivers := sim.New(first.Clock.Now, time.Second)
			loops, end := first.run(drivers)
			test.before(first)
			first.settle(loops)
			end()
			test.after(first)
			if err := first.DB.Close(); err != nil {
				t.Fatal(err)
			}

			second := open(t, journal, nil)
			second.Clock = first.Clock
			defer second.DB.Close()
			loops, end = second.run(drivers)
			defer end()
			second.finish(loops)
			second.agrees(drivers)
		})
	}
}

// memory is a journal that survives its store.
type memory struct {
	mu       sync.Mutex
	accounts map[string]*account
}

type account struct {
	version uint64
	pending int
	rows    map[string]store.Row
}

func (m *memory) Load(_ context.Context, id string, each func(store.Row) error) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.accounts[id]
	if a == nil {
		return 0, nil
	}
	for _, row := range a.rows {
		if err := each(row); err != nil {
			return 0, err
		}
	}
	return a.version, nil
}

func (m *memory) Commit(_ context.Context, batches []store.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range batches {
		if m.accounts[b.Account] == nil {
			m.accounts[b.Account] = &account{rows: map[string]store.Row{}}
		}
		a := m.accounts[b.Account]
		a.version, a.pending = b.Version, b.Pending
		for _, row := range b.Rows {
			if row.Doc == nil {
				delete(a.rows, row.Kind+" "+row.ID)
			} else {
				a.rows[row.Kind+" "+row.ID] = row
			}
		}
	}
	return nil
}

func (m *memory) Pending(context.Context) (ids []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.accounts)) {
		if m.accounts[id].pending > 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (m *memory) Close() error { return nil }

// flaky is a driver that fails some calls: before it does anything, or after.
type flaky struct {
	driver.Networks
	before, after atomic.Int64 // how many more calls fail so
}

func (f *flaky) call(fn func() error) error {
	if f.before.Add(-1) >= 0 {
		return errors.New("the call got lost")
	}
	err := fn()
	if err == nil && f.after.Add(-1) >= 0 {
		return errors.New("the answer got lost")
	}
	return err
}

func (f *flaky) EnsureNet(ctx context.Context, n driver.Net) error {
	return f.call(func() error { return f.Networks.EnsureNet(ctx, n) })
}

func (f *flaky) RemoveNet(ctx context.Context, account, id string) error {
	return f.call(func() error { return f.Networks.RemoveNet(ctx, account, id) })
}

func (f *flaky) ObserveNets(ctx context.Context) (nets []driver.Net, err error) {
	err = f.call(func() (err error) {
		nets, err = f.Networks.ObserveNets(ctx)
		return err
	})
	return nets, err
}

// Whatever accounts do while the driver fails and the loop restarts, in the end
// the driver is what the store says.
func TestLoopOnARandomDay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := open(t, nil, nil)
		defer r.DB.Close()
		r.welcome()
		drivers := sim.New(r.Clock.Now, rapid.SampledFrom([]time.Duration{0, 0, 3 * time.Second}).Draw(t, "delay"))
		calls := &flaky{Networks: drivers}
		loops, end := r.run(calls)
		defer func() { end() }()

		// attempt makes a call that rules may refuse.
		attempt := func(account, action, body string, refusals ...apierror.Code) {
			_, err := r.Try(account, action, body)
			if err != nil && !slices.ContainsFunc(refusals, func(c apierror.Code) bool { return c.Is(err) }) {
				t.Fatalf("%s %s: %v", action, body, err)
			}
		}
		who := rapid.SampledFrom([]string{alice, bob})
		some := func(account, name, action, field string) string {
			list := r.List(account, action, `{"Filters": {"States": ["available"]}}`)
			if len(list) == 0 {
				t.Skip("there is none")
			}
			return rapid.SampledFrom(list).Draw(t, name).Text(field)
		}
		t.Repeat(map[string]func(*rapid.T){
			"create a Net": func(t *rapid.T) { r.net(who.Draw(t, "who"), "10.0.0.0/16") },
			"update a Net": func(t *rapid.T) {
				account := who.Draw(t, "who")
				net := some(account, "Nets", "ReadNets", "NetId")
				set := r.One(account, "CreateDhcpOptions", `{"DomainName": "example.com"}`)
				r.Call(account, "UpdateNet", `{"NetId": %q, "DhcpOptionsSetId": %q}`, net, set["DhcpOptionsSetId"])
			},
			"delete a Net": func(t *rapid.T) {
				account := who.Draw(t, "who")
				attempt(account, "DeleteNet", fmt.Sprintf(`{"NetId": %q}`, some(account, "Nets", "ReadNets", "NetId")), apierror.NetInUse)
			},
			"create a Subnet": func(t *rapid.T) {
				account := who.Draw(t, "who")
				bits := rapid.IntRange(16, 20).Draw(t, "bits")
				at := rapid.IntRange(0, 1<<(bits-16)-1).Draw(t, "at") << (24 - bits)
				attempt(account, "CreateSubnet", fmt.Sprintf(`{"NetId": %q, "IpRange": "10.0.%d.0/%d"}`,
					some(account, "Nets", "ReadNets", "NetId"), at, bits), apierror.SubnetOverlaps)
			},
			"delete a Subnet": func(t *rapid.T) {
				account := who.Draw(t, "who")
				attempt(account, "DeleteSubnet", fmt.Sprintf(`{"SubnetId": %q}`, some(account, "Subnets", "ReadSubnets", "SubnetId")))
			},
			"lose calls":   func(t *rapid.T) { calls.before.Store(rapid.Int64Range(0, 3).Draw(t, "calls")) },
			"lose answers": func(t *rapid.T) { calls.after.Store(rapid.Int64Range(0, 3).Draw(t, "answers")) },
			"wait": func(t *rapid.T) {
				r.Clock.Advance(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
			},
			"settle": func(*rapid.T) { r.settle(loops) },
			"restart": func(*rapid.T) {
				end()
				loops, end = r.run(calls)
			},
		})
		r.finish(loops)
		r.agrees(drivers)
	})
}
