package network

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// DirectLink is a dedicated line between a network of the client and a
// datacenter of the region.
type DirectLink struct {
	// The account ID of the owner of the DirectLink.
	AccountId      id.Account    `json:"-" ref:"-"`
	Bandwidth      Bandwidth     // The bandwidth of the DirectLink.
	DirectLinkId   id.DirectLink // The ID of the DirectLink.
	DirectLinkName LinkName      // The name of the DirectLink.
	Location       string        // The code of the datacenter where the DirectLink ends.
	RegionName     string        `json:"-"` // The name of the Region of the DirectLink.
	// The state of the DirectLink. It is `requested` until there is a port for it, `pending`
	// until somebody has plugged the cable in, and then `available`.
	State DirectLinkState
}

// DirectLinks are the DirectLinks of the region.
var DirectLinks = &resource.Kind[DirectLink, id.DirectLink]{
	Name:      "DirectLink",
	NotFound:  apierror.DirectLinkNotFound,
	InUse:     apierror.InUse,
	Quota:     &resource.Quota{Name: "dl_connection_limit", Code: apierror.TooManyDirectLinks},
	Life:      directLinkLife,
	Retention: time.Hour,
}

// Bandwidth is how much a DirectLink carries.
type Bandwidth string

// The bandwidths.
const (
	OneGigabit  Bandwidth = "1Gbps"
	TenGigabits Bandwidth = "10Gbps"
)

// Literals implements [api.Enum].
func (Bandwidth) Literals() []string { return []string{"1Gbps", "10Gbps"} }

// LinkName is what a client calls a DirectLink or an interface of it.
type LinkName string

// longestLinkName bounds names, in characters. The real service publishes no
// bound.
const longestLinkName = 255

// Check reports a text that is no name: it is empty or too long.
func (n LinkName) Check() error {
	if n == "" || utf8.RuneCountInString(string(n)) > longestLinkName {
		return apierror.InvalidLength.Errorf("A name has between 1 and %d characters.", longestLinkName)
	}
	return nil
}

// DirectLinkState is the state of a DirectLink.
type DirectLinkState string

// The states of a DirectLink.
const (
	DirectLinkRequested DirectLinkState = "requested"
	DirectLinkPending   DirectLinkState = "pending"
	DirectLinkAvailable DirectLinkState = "available"
	DirectLinkDeleted   DirectLinkState = "deleted"
)

// Literals implements [api.Enum].
func (DirectLinkState) Literals() []string {
	return []string{"requested", "pending", "available", "disabled", "deleted"}
}

// What happens to a DirectLink.
const (
	directLinkCreated   lifecycle.Event[DirectLinkState] = "created"
	directLinkPorted    lifecycle.Event[DirectLinkState] = "given a port"
	directLinkPlugged   lifecycle.Event[DirectLinkState] = "plugged in"
	directLinkDeleted   lifecycle.Event[DirectLinkState] = "deleted"
	directLinkForgotten lifecycle.Event[DirectLinkState] = "forgotten"
)

// directLinkLife is the life of a DirectLink. The driver has its port, and then its
// cable, after some time.
var directLinkLife = lifecycle.Table[DirectLinkState]{
	"":                  {directLinkCreated: DirectLinkRequested},
	DirectLinkRequested: {directLinkPorted: DirectLinkPending, directLinkDeleted: DirectLinkDeleted},
	DirectLinkPending:   {directLinkPlugged: DirectLinkAvailable, directLinkDeleted: DirectLinkDeleted},
	DirectLinkAvailable: {directLinkDeleted: DirectLinkDeleted},
	DirectLinkDeleted:   {directLinkForgotten: ""},
}

// Pending reports whether the driver does not have the link yet.
func (l *DirectLink) Pending() bool {
	return l.State == DirectLinkRequested || l.State == DirectLinkPending
}

func directLinkActions(region Region) []api.Action {
	r := api.NewResource(DirectLinks, region.viewDirectLink)
	return []api.Action{
		api.Create(r, region.createDirectLink),
		api.Read[ReadDirectLinksRequest](r),
		api.Delete[DeleteDirectLinkRequest](r),
	}
}

func (region Region) viewDirectLink(tx *resource.Tx, l *DirectLink) *DirectLink {
	l.AccountId, l.RegionName = id.Account(tx.Account()), region.Name
	return l
}

// CreateDirectLinkRequest asks for a DirectLink.
type CreateDirectLinkRequest struct {
	Bandwidth Bandwidth `api:"required"` // The bandwidth of the DirectLink.
	// The name of the DirectLink, between 1 and 255 characters.
	DirectLinkName LinkName `api:"required"`
	// The code of the datacenter where the DirectLink is to end, as ReadLocations lists them.
	Location string `api:"required"`
}

func (region Region) createDirectLink(_ *resource.Tx, req *CreateDirectLinkRequest) (*DirectLink, error) {
	if !slices.Contains(region.Locations, req.Location) {
		return nil, apierror.LocationNotFound.Errorf(
			"The Location '%.100s' is not one of %s.", req.Location, strings.Join(region.Locations, ", "))
	}
	return &DirectLink{Bandwidth: req.Bandwidth, DirectLinkName: req.DirectLinkName, Location: req.Location}, nil
}

// ReadDirectLinksRequest asks for DirectLinks.
type ReadDirectLinksRequest struct {
	// Which DirectLinks to list; all of them if absent. A deleted one is listed for an hour.
	Filters *FiltersDirectLink
	api.Page
}

// FiltersDirectLink selects DirectLinks.
type FiltersDirectLink struct {
	DirectLinkIds []id.DirectLink // The IDs of the DirectLinks.
}

// DeleteDirectLinkRequest deletes a DirectLink that has no interfaces any more.
type DeleteDirectLinkRequest struct {
	DirectLinkId id.DirectLink `api:"required"` // The ID of the DirectLink to delete.
}
