package drivertest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/driver"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Equal compares values of package driver, and lists of them, ignoring the
// order of lists where it has no meaning.
func Equal() gocmp.Options {
	return gocmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}),
		anyOrder(func(n driver.Net) string { return named(n.Key()) }),
		anyOrder(func(g driver.PublicGroup) string { return named(g.Key()) }),
		anyOrder(func(t driver.Tunnel) string { return named(t.Key()) }),
		anyOrder(func(t driver.TunnelStatus) string { return named(t.Key()) }),
		anyOrder(func(i driver.Interface) string { return named(i.Key()) }),
		anyOrder(func(m driver.Machine) string { return named(m.Key()) }),
		anyOrder(func(a driver.Affinity) string { return fmt.Sprint(a) }),
		anyOrder(func(g driver.Gpu) string { return g.ID }),
		anyOrder(func(d driver.Disk) string { return named(d.Key()) }),
		anyOrder(func(s driver.Snapshot) string { return named(s.Key()) }),
		anyOrder(func(p driver.SnapshotPart) string { return p.ID }),
		anyOrder(func(e driver.Export) string { return named(e.Key()) }),
		anyOrder(func(b driver.Balancer) string { return named(b.Key()) }),
		anyOrder(func(b driver.BalancerStatus) string { return named(b.Key()) }),
		anyOrder(func(l driver.Listener) string { return fmt.Sprint(l.Port, l.Protocol) }),
		anyOrder(func(r driver.ListenerRule) string { return r.ID }),
		anyOrder(func(c driver.Certificate) string { return c.ID }),
		anyOrder(func(b driver.Backend) string { return b.ID }),
		anyOrder(func(h driver.BackendHealth) string { return h.ID }),
		anyOrder(func(s driver.Subnet) string { return s.ID }),
		anyOrder(func(t driver.RouteTable) string { return t.ID }),
		anyOrder(func(r driver.Route) string { return r.Destination.String() + r.Service }),
		anyOrder(func(g driver.SecurityGroup) string { return g.ID }),
		anyOrder(wording),
		anyOrder(func(g driver.GroupName) string { return g.Account + g.ID + g.Name }),
		anyOrder(func(n driver.Nic) string { return n.ID }),
		anyOrder(func(n driver.Nat) string { return n.ID }),
		anyOrder(func(p driver.Peering) string { return p.ID }),
		anyOrder(func(p driver.AccessPoint) string { return p.ID }),
		anyOrder(func(s driver.Service) string { return s.ID }),
		anyOrder(netip.Prefix.String),
		anyOrder(netip.Addr.String),
		// Lists of strings are in order of preference, except these.
		gocmp.FilterPath(func(p gocmp.Path) bool {
			return slices.Contains([]string{".SecurityGroups", ".Services", ".Groups", ".Subnets", ".Subregions", ".Backends"}, p.Last().String())
		}, cmpopts.SortSlices(strings.Compare)),
	}
}

// anyOrder compares lists sorted by a key that is unique among their elements.
func anyOrder[E any](key func(E) string) gocmp.Option {
	return cmpopts.SortSlices(func(a, b E) int { return cmp.Compare(key(a), key(b)) })
}

func named(key driver.Key) string { return key.Account + key.ID }

// wording returns the content of a rule, whatever the order of its lists.
func wording(r driver.Rule) string {
	r.Ranges = slices.SortedFunc(slices.Values(r.Ranges), func(a, b netip.Prefix) int { return cmp.Compare(a.String(), b.String()) })
	r.Groups = slices.SortedFunc(slices.Values(r.Groups),
		func(a, b driver.GroupName) int { return cmp.Compare(a.Account+a.ID+a.Name, b.Account+b.ID+b.Name) })
	r.Services = slices.Sorted(slices.Values(r.Services))
	return fmt.Sprint(r)
}
