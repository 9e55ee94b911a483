package network_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
)

// Addresses that are chosen come from the upper half of a Subnet as long as there
// are any, and then from the lower one, until all are taken.
func TestChosenAddressesAreHighOnes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ipRange, middle string // the first address of the upper half
		// how many are chosen there, and in the whole Subnet; all: 0 if it is not filled
		upper, all int
	}{
		"smallest": {"10.0.0.0/29", "10.0.0.5", 2, 3},
		"small":    {"10.0.0.16/28", "10.0.0.25", 6, 11},
		"usual":    {"10.0.1.0/24", "10.0.1.129", 126, 251},
		"large":    {"10.0.0.0/16", "10.0.128.1", 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			subnet := r.subnet(alice, r.net(alice, "10.0.0.0/16"), test.ipRange)
			create := fmt.Sprintf(`{"SubnetId": %q}`, subnet)
			middle := netip.MustParseAddr(test.middle)
			for i := range max(test.upper, test.all) {
				nic := r.One(alice, "CreateNic", create)
				chosen := netip.MustParseAddr(nic["PrivateIps"].([]any)[0].(map[string]any)["PrivateIp"].(string))
				if isUpper := chosen.Compare(middle) >= 0; isUpper != (i < test.upper) {
					t.Fatalf("the address %d that was chosen in %s is %s", i, test.ipRange, chosen)
				}
			}
			if test.all > 0 {
				r.Refuse(apierror.InsufficientCapacity, alice, "CreateNic", create)
			}
		})
	}
}

// A large Subnet is used up to its last address, wherever that is.
func TestChosenAddressOfALargeSubnet(t *testing.T) {
	t.Parallel()
	r := setup(t)
	subnet := r.subnet(alice, r.net(alice, "10.0.0.0/16"), "10.0.0.0/21")
	const free = 5
	for range 1<<11 - 5 - free {
		r.One(alice, "CreateNic", `{"SubnetId": %q}`, subnet)
	}
	nic := r.One(alice, "CreateNic", `{"SubnetId": %q}`, subnet).Text("NicId")
	r.Call(alice, "LinkPrivateIps", `{"NicId": %q, "SecondaryPrivateIpCount": %d}`, nic, free-1)
	r.Refuse(network.Subnets.InUse, alice, "DeleteSubnet", naming("SubnetId", subnet))
	r.Refuse(apierror.InsufficientCapacity, alice, "LinkPrivateIps", naming("NicId", nic))
}
