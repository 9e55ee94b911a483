package network

import (
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// NatService lets VMs without a public IP reach the Internet, under its own.
type NatService struct {
	ClientToken  string          // The token that the creation was asked for with.
	NatServiceId id.NatService   // The ID of the NAT service.
	NetId        id.Net          // The ID of the Net that it is in.
	PublicIps    []PublicIpLight `json:"-"` // The public IP under which VMs reach the Internet.
	State        NatServiceState // The state of the NAT service.
	SubnetId     id.Subnet       // The ID of the public Subnet that it is in.
	Tags         []api.Tag       // The tags of the NAT service.
}

// PublicIpLight is a public IP as a NAT service shows it.
type PublicIpLight struct {
	PublicIp   api.IPv4    // The public IP.
	PublicIpId id.PublicIp `ref:"-"` // The ID of the public IP.
}

// NatServices are the NAT services of the region.
var NatServices = &kind.Kind[NatService, id.NatService]{
	Name:    "NatService",
	Tag:     "natgateway",
	Missing: fault.ObjectNotFound, // the catalogue has no code for NAT services
	Held:    fault.InUse,
	Quota:   &kind.Quota{Name: "nat_gateway_limit", Code: fault.TooManyNatServices},
	Keep:    time.Hour, // as long as AWS shows deleted ones
}

// NatServiceState is the state of a NAT service.
type NatServiceState string

// The states of a NAT service.
const (
	NatServicePending   NatServiceState = "pending"
	NatServiceAvailable NatServiceState = "available"
	NatServiceDeleted   NatServiceState = "deleted"
)

// Literals implements [api.Enum].
func (NatServiceState) Literals() []string {
	return []string{"pending", "available", "deleting", "deleted"}
}
