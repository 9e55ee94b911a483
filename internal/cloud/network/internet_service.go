package network

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// InternetService is the way of a [Net] to the Internet, once it is linked.
type InternetService struct {
	InternetServiceId id.InternetService   // The ID of the internet service.
	NetId             id.Net               // The ID of the Net that it is linked to; absent if it is not.
	State             InternetServiceState `json:"-"` // `available` if it is linked to a Net; absent if it is not.
	Tags              []api.Tag            // The tags of the internet service.
}

// InternetServices are the internet services of the region.
var InternetServices = &kind.Kind[InternetService, id.InternetService]{
	Name:    "InternetService",
	Tag:     "internet-gateway",
	Missing: fault.InternetServiceNotFound,
	Held:    fault.InUse,
	Quota:   &kind.Quota{Name: "igw_limit", Code: fault.TooManyInternetServices},
}

// InternetServiceState is the state of the link of an internet service.
type InternetServiceState string

// InternetServiceAvailable is the state of one that is linked.
const InternetServiceAvailable InternetServiceState = "available"

// Literals implements [api.Enum].
func (InternetServiceState) Literals() []string { return []string{"available"} }
