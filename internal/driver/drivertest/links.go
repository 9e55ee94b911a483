package drivertest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// Links tests a driver of tunnels and interfaces whose clients' ends do not
// respond. open returns an empty driver, and a function that returns once the
// driver's clock shows at least the given time.
func Links(t *testing.T, open func(t *testing.T) (drivers driver.Links, until func(time.Time))) {
	t.Run("tunnels", func(t *testing.T) {
		run(t, func(t *testing.T) methods[driver.Tunnel] {
			drivers, until := open(t)
			return methods[driver.Tunnel]{drivers.EnsureTunnel, drivers.RemoveTunnel, tunnelsOf(drivers), until}
		}, tunnel, changedTunnel, func(v driver.Tunnel) driver.Tunnel {
			v.Secret = ""
			return v
		})
		t.Run("a tunnel without a remote peer is down", func(t *testing.T) {
			t.Parallel()
			drivers, until := open(t)
			testDown(t, drivers, until)
		})
	})
	t.Run("interfaces", func(t *testing.T) {
		run(t, func(t *testing.T) methods[driver.Interface] {
			drivers, until := open(t)
			return methods[driver.Interface]{drivers.EnsureInterface, drivers.RemoveInterface, drivers.ObserveInterfaces, until}
		}, link, changedLink, func(v driver.Interface) driver.Interface {
			v.Secret = ""
			return v
		})
	})
}

// tunnelsOf returns a function that observes the tunnels of a driver without
// their status.
func tunnelsOf(drivers driver.Links) func(context.Context) ([]driver.Tunnel, error) {
	return func(ctx context.Context) (tunnels []driver.Tunnel, err error) {
		seen, err := drivers.ObserveTunnels(ctx)
		for _, s := range seen {
			tunnels = append(tunnels, s.Tunnel)
		}
		return tunnels, err
	}
}

func testDown(t *testing.T, drivers driver.Links, until func(time.Time)) {
	down := func(when string) {
		t.Helper()
		seen, err := drivers.ObserveTunnels(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(seen) != 1 || seen[0].Up || seen[0].Routes != 0 || seen[0].Since.IsZero() {
			t.Errorf("%s: got %+v, want one tunnel that is down since some time and has no routes", when, seen)
		}
	}
	s := subject[driver.Tunnel]{T: t, methods: methods[driver.Tunnel]{ensure: drivers.EnsureTunnel, until: until}}
	s.ask(drivers.EnsureTunnel(t.Context(), tunnel(one)))
	down("just asked for")
	s.make(tunnel(one))
	down("made")
	s.make(changedTunnel(tunnel(one)))
	down("changed")
}

// tunnel returns a tunnel with every field set, to an address that does not
// respond.
func tunnel(key driver.Key) driver.Tunnel {
	return driver.Tunnel{
		Account: key.Account, ID: key.ID, Generation: key.Generation,
		Gateway: "vgw-00000001", Net: "vpc-00000001",
		Local: addr("198.51.100.1"), Remote: addr("192.0.2.1"), Inside: prefix("169.254.254.4/30"),
		LocalAsn: 64512, RemoteAsn: 65000,
		StaticOnly: true, StaticRoutes: []netip.Prefix{prefix("192.168.0.0/24"), prefix("192.168.4.0/24")},
		Secret: "sample",
		Phase1: driver.Phase{DhGroups: []int{14, 2}, Encryptions: []string{"aes256", "aes128"}, Integrities: []string{"sha256", "sha1"},
			Lifetime: 8 * time.Hour},
		Phase2:    driver.Phase{DhGroups: []int{5, 2}, Encryptions: []string{"aes128"}, Integrities: []string{"sha1"}, Lifetime: time.Hour},
		DpdAction: "restart", DpdTimeout: 30 * time.Second,
		StartUp: "start", IkeVersions: []string{"ikev2", "ikev1"}, ReplayWindow: 1024,
	}
}

// changedTunnel returns the next generation of a tunnel, with every other field
// changed.
func changedTunnel(t driver.Tunnel) driver.Tunnel {
	return driver.Tunnel{
		Account: t.Account, ID: t.ID, Generation: t.Generation + 1,
		Gateway: "vgw-00000002",
		Local:   addr("198.51.100.2"), Remote: addr("192.0.2.2"), Inside: prefix("169.254.254.8/30"),
		LocalAsn: 64513, RemoteAsn: 65001,
		Secret:    "changed",
		Phase1:    driver.Phase{DhGroups: []int{2, 14}, Encryptions: []string{"aes128"}, Integrities: []string{"sha1"}, Lifetime: time.Hour},
		Phase2:    driver.Phase{DhGroups: []int{2}, Encryptions: []string{"aes256"}, Integrities: []string{"sha256"}, Lifetime: time.Minute},
		DpdAction: "clear", DpdTimeout: 40 * time.Second,
		StartUp: "add", IkeVersions: []string{"ikev1", "ikev2"}, ReplayWindow: 64,
	}
}

// link returns an interface with every field set.
func link(key driver.Key) driver.Interface {
	return driver.Interface{
		Account: key.Account, ID: key.ID, Generation: key.Generation,
		Link: "dxcon-00000001", Location: "LOC1", Vlan: 101, Mtu: 1500,
		Gateway: "vgw-00000001", Net: "vpc-00000001",
		Local: prefix("169.254.1.1/30"), Remote: prefix("169.254.1.2/30"),
		LocalAsn: 64512, RemoteAsn: 65000, Secret: "sample",
	}
}

// changedLink returns the next generation of an interface, with every other
// field changed.
func changedLink(i driver.Interface) driver.Interface {
	return driver.Interface{
		Account: i.Account, ID: i.ID, Generation: i.Generation + 1,
		Link: "dxcon-00000002", Location: "LOC2", Vlan: 102, Mtu: 9000,
		Gateway: "vgw-00000002",
		Local:   prefix("169.254.2.1/30"), Remote: prefix("169.254.2.2/30"),
		LocalAsn: 64513, RemoteAsn: 65001, Secret: "changed",
	}
}
