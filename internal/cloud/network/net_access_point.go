package network

import (
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// NetAccessPoint leads from a [Net] to a service of the region without the
// Internet.
type NetAccessPoint struct {
	NetAccessPointId id.NetAccessPoint   // The ID of the Net access point.
	NetId            id.Net              // The ID of the Net that it is in.
	RouteTableIds    []id.RouteTable     `ref:"weak"` // The IDs of the route tables that lead to it.
	ServiceName      string              // The name of the service that it leads to.
	State            NetAccessPointState // The state of the Net access point.
	Tags             []api.Tag           // The tags of the Net access point.
}

// NetAccessPoints are the Net access points of the region.
var NetAccessPoints = &kind.Kind[NetAccessPoint, id.NetAccessPoint]{
	Name:    "NetAccessPoint",
	Tag:     "vpc-endpoint",
	Missing: fault.ObjectNotFound, // the catalogue has no code for Net access points
	Held:    fault.InUse,
	Quota:   &kind.Quota{Name: "network_endpoint_limit", Code: fault.TooManyNetAccessPoints},
	Keep:    time.Hour,
}

// NetAccessPointState is the state of a Net access point.
type NetAccessPointState string

// The states of a Net access point.
const (
	NetAccessPointPending   NetAccessPointState = "pending"
	NetAccessPointAvailable NetAccessPointState = "available"
	NetAccessPointDeleted   NetAccessPointState = "deleted"
)

// Literals implements [api.Enum].
func (NetAccessPointState) Literals() []string {
	return []string{"pending", "available", "deleting", "deleted"}
}
