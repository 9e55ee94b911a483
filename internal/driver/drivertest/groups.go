package drivertest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// PublicCloud tests a driver of the public Cloud. open returns a driver without
// security groups, and a function that returns once the driver's clock shows at
// least the given time.
func PublicCloud(t *testing.T, open func(t *testing.T) (drivers driver.PublicCloud, until func(time.Time))) {
	run(t, func(t *testing.T) methods[driver.PublicGroup] {
		drivers, until := open(t)
		return methods[driver.PublicGroup]{drivers.EnsureGroup, drivers.RemoveGroup, drivers.ObserveGroups, until}
	}, group, changedGroup, func(g driver.PublicGroup) driver.PublicGroup { return g })
}

// group returns a group with every field set.
func group(key driver.Key) driver.PublicGroup {
	return driver.PublicGroup{
		Account: key.Account, ID: key.ID, Generation: key.Generation, Name: "web",
		Inbound: []driver.Rule{
			{Protocol: "tcp", From: 80, To: 443, Ranges: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("192.0.2.0/24")}},
			{Protocol: "-1", From: -1, To: -1, Groups: []driver.GroupName{{Account: key.Account, ID: key.ID}, {Account: bob, Name: "default"}}},
		},
	}
}

// changedGroup returns the next generation of a group, with every other field
// changed.
func changedGroup(g driver.PublicGroup) driver.PublicGroup {
	return driver.PublicGroup{
		Account: g.Account, ID: g.ID, Generation: g.Generation + 1, Name: "db",
		Inbound: []driver.Rule{{Protocol: "udp", From: 53, To: 53, Groups: []driver.GroupName{{Account: bob, ID: "sg-00000001"}}}},
	}
}
