package network

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// PublicIp is an address on the Internet that an account has to itself until
// it gives it back.
type PublicIp struct {
	LinkPublicIpId    id.LinkPublicIp     `ref:"-"` // The ID of the link between the public IP and a NIC; absent if there is none.
	NatServiceId      id.NatService       // The ID of the NAT service that the public IP is of; absent if there is none.
	NetAccessPointIds []id.NetAccessPoint `json:"-" ref:"-"` // The IDs of the Net access points that use the public IP: always none here.
	NicAccountId      id.Account          `json:"-" ref:"-"` // The account ID of the owner of the NIC.
	NicId             id.Nic              `ref:"weak"`       // The ID of the NIC that the public IP is linked to.
	PrivateIp         api.IPv4            // The private IP of the NIC that the public IP stands for.
	PublicIp          api.IPv4            // The public IP.
	PublicIpId        id.PublicIp         // The ID of the public IP.
	Tags              []api.Tag           // The tags of the public IP.
	VmId              id.Vm               `json:"-" ref:"-"` // The ID of the VM that the NIC is linked to.

	// Lent says that the region chose the address for the NIC, which takes it
	// along when it goes, and that nobody is shown it here.
	Lent bool `wire:"-"`
}

// PublicIps are the public IPs of the region.
var PublicIps = &kind.Kind[PublicIp, id.PublicIp]{
	Name:    "PublicIp",
	Tag:     "public-ip",
	Missing: fault.PublicIpNotFound,
	Held:    fault.InUse,
	Unique:  []string{"PublicIp", "LinkPublicIpId"},
	Taken:   fault.AlreadyExists,
}
