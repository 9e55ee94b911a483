// Package drivertest has the tests that every driver passes: what package
// driver promises to the loops.
package drivertest

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Networks tests a driver of Nets. open gives an empty world, and a function
// that returns once its clock shows at least the given time.
func Networks(t *testing.T, open func(t *testing.T) (world driver.Networks, until func(time.Time))) {
	tests := []struct {
		name string
		run  func(subject)
	}{
		{"an empty world has nothing", testEmpty},
		{"a Net is as it was asked for", testEnsure},
		{"asked twice is the same as once", testTwice},
		{"a Net becomes what it is changed to", testChange},
		{"changes asked for at once end in the last", testChangeWithoutWaiting},
		{"an older generation is refused", testStale},
		{"a Net being made is seen", testBeingMade},
		{"a removed Net is gone", testRemove},
		{"removing nothing succeeds", testRemoveNothing},
		{"removed while it is made", testRemoveWithoutWaiting},
		{"accounts do not share Nets", testAccounts},
		{"Nets may have the same range", testSameRange},
		{"the world keeps its own copy", testCopy},
		{"an ended call changes nothing", testEnded},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			world, until := open(t)
			test.run(subject{t, world, until})
		})
	}
}

// subject is a world under test.
type subject struct {
	*testing.T
	driver.Networks
	until func(time.Time)
}

// patience bounds how often a world may put a change off.
const patience = 100

// done repeats a call until its change is no longer under way.
func (s subject) done(what string, call func() error) {
	s.Helper()
	for range patience {
		err := call()
		later, ok := errors.AsType[driver.Later](err)
		if !ok {
			if err != nil {
				s.Fatalf("%s: %v", what, err)
			}
			return
		}
		s.until(later.At)
	}
	s.Fatalf("%s: still under way after %d answers", what, patience)
}

func (s subject) ensure(n driver.Net) {
	s.Helper()
	s.done("ensuring "+n.ID, func() error { return s.EnsureNet(s.Context(), n) })
}

func (s subject) remove(account, id string) {
	s.Helper()
	s.done("removing "+id, func() error { return s.RemoveNet(s.Context(), account, id) })
}

// ask makes a call whose answer may be that it is under way.
func (s subject) ask(err error) {
	s.Helper()
	if _, under := errors.AsType[driver.Later](err); err != nil && !under {
		s.Fatal(err)
	}
}

// has compares what the world has with what it should have.
func (s subject) has(want ...driver.Net) {
	s.Helper()
	got, err := s.ObserveNets(s.Context())
	if err != nil {
		s.Fatalf("observing: %v", err)
	}
	if diff := gocmp.Diff(want, got, Equal()); diff != "" {
		s.Errorf("what the world has (-want +got):\n%s", diff)
	}
}

// Equal compares lists of Nets where their order says nothing.
func Equal() gocmp.Options {
	return gocmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.EquateComparable(netip.Prefix{}),
		cmpopts.SortSlices(func(a, b driver.Net) int {
			return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.ID, b.ID))
		}),
		cmpopts.SortSlices(func(a, b driver.Subnet) int { return cmp.Compare(a.ID, b.ID) }),
	}
}

// net is a Net with two Subnets and every option.
func net(account, id string, generation uint64) driver.Net {
	return driver.Net{
		Account: account, ID: id, Generation: generation,
		IpRange: netip.MustParsePrefix("10.0.0.0/16"),
		Subnets: []driver.Subnet{
			{ID: "subnet-00000001", IpRange: netip.MustParsePrefix("10.0.1.0/24"), Subregion: "region-a"},
			{ID: "subnet-00000002", IpRange: netip.MustParsePrefix("10.0.2.0/24"), Subregion: "region-b"},
		},
		Dhcp: driver.DhcpOptions{
			DomainName:        "example.com",
			DomainNameServers: []string{"10.0.0.9", "OutscaleProvidedDNS"},
			LogServers:        []string{"10.0.0.10"},
			NtpServers:        []string{"10.0.0.12", "10.0.0.11"},
		},
	}
}

const alice, bob = "000000000001", "000000000002"

func testEmpty(s subject) { s.has() }

func testEnsure(s subject) {
	s.ensure(net(alice, "vpc-00000001", 1))
	s.has(net(alice, "vpc-00000001", 1))
}

func testTwice(s subject) {
	s.ensure(net(alice, "vpc-00000001", 1))
	s.ensure(net(alice, "vpc-00000001", 1))
	s.has(net(alice, "vpc-00000001", 1))
}

// changed is the Net at a later generation: a Subnet more, one less, and other
// options.
func changed(n driver.Net) driver.Net {
	n.Generation++
	n.Subnets = append(slices.Clone(n.Subnets[1:]),
		driver.Subnet{ID: "subnet-00000003", IpRange: netip.MustParsePrefix("10.0.3.0/24"), Subregion: "region-a"})
	n.Dhcp = driver.DhcpOptions{DomainName: "example.net", DomainNameServers: []string{"OutscaleProvidedDNS"}}
	return n
}

func testChange(s subject) {
	n := net(alice, "vpc-00000001", 4)
	s.ensure(n)
	s.ensure(changed(n))
	s.has(changed(n))
}

func testChangeWithoutWaiting(s subject) {
	n := net(alice, "vpc-00000001", 1)
	s.ask(s.EnsureNet(s.Context(), n))
	s.ask(s.EnsureNet(s.Context(), changed(n)))
	s.ensure(changed(n))
	s.has(changed(n))
}

func testStale(s subject) {
	n := net(alice, "vpc-00000001", 1)
	s.ask(s.EnsureNet(s.Context(), changed(n)))
	if err := s.EnsureNet(s.Context(), n); !errors.Is(err, driver.ErrStale) {
		s.Errorf("generation 1 after 2, perhaps under way: got %v, want ErrStale", err)
	}
	s.ensure(changed(n))
	if err := s.EnsureNet(s.Context(), n); !errors.Is(err, driver.ErrStale) {
		s.Errorf("generation 1 after 2: got %v, want ErrStale", err)
	}
	s.has(changed(n))
}

func testBeingMade(s subject) {
	s.ask(s.EnsureNet(s.Context(), net(alice, "vpc-00000001", 1)))
	got, err := s.ObserveNets(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	if len(got) != 1 || got[0].Account != alice || got[0].ID != "vpc-00000001" {
		s.Errorf("once a Net was asked for, the world shows %v", got)
	}
}

func testRemove(s subject) {
	s.ensure(net(alice, "vpc-00000001", 1))
	s.ensure(net(alice, "vpc-00000002", 1))
	s.remove(alice, "vpc-00000001")
	s.has(net(alice, "vpc-00000002", 1))
}

func testRemoveNothing(s subject) {
	s.remove(alice, "vpc-00000001")
	s.ensure(net(alice, "vpc-00000001", 1))
	s.remove(alice, "vpc-00000001")
	s.remove(alice, "vpc-00000001")
	s.has()
}

func testRemoveWithoutWaiting(s subject) {
	s.ask(s.EnsureNet(s.Context(), net(alice, "vpc-00000001", 1)))
	s.remove(alice, "vpc-00000001")
	s.has()
}

func testAccounts(s subject) {
	s.ensure(net(alice, "vpc-00000001", 7))
	s.ensure(net(bob, "vpc-00000001", 2))
	s.has(net(alice, "vpc-00000001", 7), net(bob, "vpc-00000001", 2))
	s.remove(alice, "vpc-00000001")
	s.has(net(bob, "vpc-00000001", 2))
}

func testSameRange(s subject) {
	s.ensure(net(alice, "vpc-00000001", 1))
	s.ensure(net(alice, "vpc-00000002", 1))
	s.has(net(alice, "vpc-00000001", 1), net(alice, "vpc-00000002", 1))
}

func testCopy(s subject) {
	n := net(alice, "vpc-00000001", 1)
	s.ensure(n)
	n.Subnets[0].ID, n.Dhcp.NtpServers[0] = "subnet-ffffffff", "203.0.113.1"
	s.has(net(alice, "vpc-00000001", 1))

	got, err := s.ObserveNets(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	got[0].Subnets[0].ID, got[0].Dhcp.NtpServers[0] = "subnet-ffffffff", "203.0.113.1"
	s.has(net(alice, "vpc-00000001", 1))
}

func testEnded(s subject) {
	ended, end := context.WithCancel(s.Context())
	end()
	if err := s.EnsureNet(ended, net(alice, "vpc-00000001", 1)); !errors.Is(err, context.Canceled) {
		s.Errorf("ensuring when the call has ended: got %v, want its context's error", err)
	}
	s.has()
	s.ensure(net(alice, "vpc-00000001", 1))
	if err := s.RemoveNet(ended, alice, "vpc-00000001"); !errors.Is(err, context.Canceled) {
		s.Errorf("removing when the call has ended: got %v, want its context's error", err)
	}
	if _, err := s.ObserveNets(ended); !errors.Is(err, context.Canceled) {
		s.Errorf("observing when the call has ended: got %v, want its context's error", err)
	}
	s.has(net(alice, "vpc-00000001", 1))
}
