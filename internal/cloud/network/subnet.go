package network

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Subnet is a part of the range of a [Net], in one Subregion.
type Subnet struct {
	SubnetId      id.Subnet // The ID of the Subnet.
	NetId         id.Net    // The ID of the Net that the Subnet is in.
	SubregionName string    // The name of the Subregion that the Subnet is in.
	// The range of addresses of the Subnet, inside the range of its Net.
	IpRange api.CIDR
	// The state of the Subnet. A Subnet is `available` as soon as it is created.
	State SubnetState
	// The number of addresses that nobody uses yet. The first four and the last address of a
	// Subnet can never be used.
	AvailableIpsCount   int       `json:"-"`
	MapPublicIpOnLaunch bool      // Whether a NIC created in the Subnet gets a public IP.
	Tags                []api.Tag // The tags of the Subnet.
}

// Subnets are the Subnets of the region.
var Subnets = &resource.Kind[Subnet, id.Subnet]{
	Name:     "Subnet",
	Tag:      "subnet",
	NotFound: apierror.SubnetNotFound,
	InUse:    apierror.SubnetInUse,
	// The catalogue has no code for too many Subnets: that of Nets is nearest.
	Quota: &resource.Quota{Name: "subnet_limit", Code: apierror.TooManyNets, Per: "NetId"},
	Life:  subnetLife,
}

// SubnetState is the state of a Subnet.
type SubnetState string

// SubnetAvailable is the state of a Subnet that can be used: of every Subnet here.
// The driver may still be behind, which its machines wait for.
const SubnetAvailable SubnetState = "available"

// What happens to a Subnet.
const (
	subnetCreated lifecycle.Event[SubnetState] = "created"
	subnetDeleted lifecycle.Event[SubnetState] = "deleted"
)

// subnetLife is the life of a Subnet.
var subnetLife = lifecycle.Table[SubnetState]{
	"":              {subnetCreated: SubnetAvailable},
	SubnetAvailable: {subnetDeleted: ""},
}

// Literals implements [api.Enum].
func (SubnetState) Literals() []string { return []string{"pending", "available", "deleted"} }

func subnetActions(region Region) []api.Action {
	r := api.NewResource(Subnets, viewSubnet)
	return []api.Action{
		api.Create(r, region.createSubnet),
		api.Read[ReadSubnetsRequest](r),
		api.Update(r, updateSubnet),
		api.Delete[DeleteSubnetRequest](r, keepInhabited, unlinkSubnet, leaveNet),
	}
}

func viewSubnet(tx *resource.Tx, s *Subnet) *Subnet {
	s.AvailableIpsCount = s.free(tx)
	return s
}

// CreateSubnetRequest asks for a Subnet in a Net.
type CreateSubnetRequest struct {
	// The range of the Subnet, from the size of its Net to /29. It is inside the range of the
	// Net, may be all of it, and overlaps no other Subnet of the Net.
	IpRange api.CIDR `api:"required"`
	NetId   id.Net   `api:"required"` // The ID of the Net to divide.
	// The name of the Subregion to create the Subnet in. By default, the first of the region.
	SubregionName string
}

// The sizes of a Subnet, in bits of its prefix.
const widestSubnet, narrowestSubnet = 16, 29

func (region Region) createSubnet(tx *resource.Tx, req *CreateSubnetRequest) (*Subnet, error) {
	net, err := Nets.Get(tx, req.NetId)
	if err != nil {
		return nil, err
	}
	ipRange := req.IpRange.Prefix()
	if bits := ipRange.Bits(); bits < widestSubnet || bits > narrowestSubnet {
		return nil, apierror.InvalidRangeSize.Errorf("The IpRange %s is not between /%d and /%d.", req.IpRange, widestSubnet, narrowestSubnet)
	}
	if !within(ipRange, net.IpRange.Prefix()) {
		return nil, apierror.OutsideNet.Errorf("The IpRange %s is not inside %s, the range of %s.", req.IpRange, net.IpRange, net.NetId)
	}
	for sibling := range Subnets.Of(tx, net.NetId) {
		if sibling.IpRange.Prefix().Overlaps(ipRange) {
			return nil, apierror.SubnetOverlaps.Errorf(
				"The IpRange %s overlaps %s, the range of %s.", req.IpRange, sibling.IpRange, sibling.SubnetId)
		}
	}
	subregion := req.SubregionName
	if subregion == "" {
		subregion = region.Subregions[0]
	}
	if !slices.Contains(region.Subregions, subregion) {
		return nil, apierror.SubregionNotFound.Errorf(
			"The SubregionName '%s' is not one of %s.", subregion, strings.Join(region.Subregions, ", "))
	}
	if err := touch(tx, net.NetId); err != nil {
		return nil, err
	}
	return &Subnet{NetId: net.NetId, SubregionName: subregion, IpRange: req.IpRange}, nil
}

// ReadSubnetsRequest asks for Subnets.
type ReadSubnetsRequest struct {
	Filters *FiltersSubnet // Which Subnets to list; all of them if absent.
	api.Page
}

// FiltersSubnet selects Subnets.
type FiltersSubnet struct {
	AvailableIpsCounts []int         // The numbers of addresses that nobody uses yet.
	IpRanges           []api.CIDR    // The ranges of the Subnets, in CIDR notation.
	NetIds             []id.Net      // The IDs of the Nets that the Subnets are in.
	States             []SubnetState // The states of the Subnets.
	SubnetIds          []id.Subnet   // The IDs of the Subnets.
	SubregionNames     []string      // The names of the Subregions that the Subnets are in.
	api.TagFilters
}

// UpdateSubnetRequest changes what a Subnet does for the NICs created in it.
type UpdateSubnetRequest struct {
	// Whether a NIC created in the Subnet from now on gets a public IP.
	MapPublicIpOnLaunch bool      `api:"required"`
	SubnetId            id.Subnet `api:"required"` // The ID of the Subnet.
}

func updateSubnet(_ *resource.Tx, s *Subnet, req *UpdateSubnetRequest) error {
	s.MapPublicIpOnLaunch = req.MapPublicIpOnLaunch
	return nil
}

// DeleteSubnetRequest deletes a Subnet that nothing lives in any more.
type DeleteSubnetRequest struct {
	SubnetId id.Subnet `api:"required"` // The ID of the Subnet to delete.
}

// keepInhabited refuses to delete a Subnet that NICs are in, and names them, or
// the services that they were made for.
func keepInhabited(tx *resource.Tx, s *Subnet) error {
	const most = 5 // that a refusal names
	var holders []string
	for n := range Nics.Of(tx, s.SubnetId) {
		if holders = append(holders, n.shownAs()); len(holders) == most {
			break
		}
	}
	if len(holders) > 0 {
		return apierror.SubnetInUse.Errorf("The Subnet %s is in use by %s.", s.SubnetId, strings.Join(holders, ", "))
	}
	return nil
}

// leaveNet makes the driver hear that a Net has lost a Subnet.
func leaveNet(tx *resource.Tx, s *Subnet) error { return touch(tx, s.NetId) }

// wantSubnets adds the Subnets of a Net to what the driver must have.
func wantSubnets(tx *resource.Tx, n *Net, want *driver.Net) error {
	main, linked := "", map[id.Subnet]string{}
	for t := range RouteTables.Of(tx, n.NetId) {
		for _, link := range t.LinkRouteTables {
			if link.Main {
				main = string(t.RouteTableId)
			} else {
				linked[link.SubnetId] = string(t.RouteTableId)
			}
		}
	}
	for s := range Subnets.Of(tx, n.NetId) {
		want.Subnets = append(want.Subnets, driver.Subnet{
			ID: string(s.SubnetId), IpRange: s.IpRange.Prefix(), Subregion: s.SubregionName, RouteTable: cmp.Or(linked[s.SubnetId], main),
		})
	}
	return nil
}
