package sim_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

// What is reached is what is there, and not what was asked for.
func TestReach(t *testing.T) {
	t.Parallel()
	c := clock.NewVirtual(start)
	drv := sim.New(c.Now, 3*time.Second)
	all := []driver.Rule{{Protocol: "-1", Ranges: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}}
	open := driver.Net{
		Account: "000000000001", ID: "vpc-00000001", Generation: 1, IpRange: netip.MustParsePrefix("10.0.0.0/16"),
		Subnets:        []driver.Subnet{{ID: "subnet-00000001", IpRange: netip.MustParsePrefix("10.0.0.0/24")}},
		SecurityGroups: []driver.SecurityGroup{{ID: "sg-00000001", Inbound: all, Outbound: all}},
	}
	flow := driver.Flow{Protocol: "tcp", Port: 22}
	for i, at := range []*driver.Place{&flow.From, &flow.To} {
		*at = driver.Place{Account: open.Account, Net: open.ID, Nic: fmt.Sprint("eni-", i),
			Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(4 + i)})}
		open.Nics = append(open.Nics, driver.Nic{
			ID: at.Nic, Subnet: "subnet-00000001", Machine: "i-00000001",
			Addresses: []driver.Address{{Private: at.Address}}, SecurityGroups: []string{"sg-00000001"},
		})
	}
	shut := open
	shut.Generation, shut.SecurityGroups = 2, nil

	changes := []struct {
		name   string
		change func() error
		before bool // whether the flow gets through until the change is done
		after  bool
	}{
		{"a Net is made", func() error { return drv.EnsureNet(t.Context(), open) }, false, true},
		{"it loses its rules", func() error { return drv.EnsureNet(t.Context(), shut) }, true, false},
		{"it is removed", func() error { return drv.RemoveNet(t.Context(), open.Account, open.ID) }, false, false},
	}
	for _, change := range changes {
		if _, under := errors.AsType[driver.Later](change.change()); !under {
			t.Fatalf("%s: at once", change.name)
		}
		for _, through := range []bool{change.before, change.after} {
			if err := drv.Reach(flow); (err == nil) != through {
				t.Errorf("%s: got %v, want it through: %t", change.name, err, through)
			}
			c.Advance(3 * time.Second)
		}
	}
}
