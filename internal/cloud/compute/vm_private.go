package compute

import (
	"fmt"
	"hash/fnv"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
)

// A VM of the public Cloud that has no public IP is shown in a Net and a Subnet
// of the region's, with one NIC. No other call knows them: they follow from the
// account and the Subregion, and are the same for all its VMs.

// hiddenNet is the Net of an account's private VMs.
func hiddenNet(account id.Account) id.Net {
	return id.Net(id.Net("").Form().Prefix + hashed(string(account)))
}

// hiddenSubnet is their Subnet in a Subregion.
func hiddenSubnet(account id.Account, subregion string) id.Subnet {
	return id.Subnet(id.Subnet("").Form().Prefix + hashed(string(account)+subregion))
}

func hashed(text string) string {
	sum := fnv.New32a()
	sum.Write([]byte("private " + text))
	return fmt.Sprintf("%08x", sum.Sum32())
}
