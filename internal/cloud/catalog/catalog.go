// Package catalog answers what a region offers before anything is made in it:
// regions, subregions, locations, public IP ranges, VM types and quotas.
//
// All of it but the use of quotas is data: facts of the region, given when the
// program starts, and tables that are the same everywhere.
package catalog

import (
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Region is a Region of the cloud: what ReadRegions shows of it, and the facts
// that actions need of the one this program is.
type Region struct {
	RegionName string // The administrative name of the Region.
	Endpoint   string // The hostname of the API in the Region, without scheme and path.

	Domain     string      `wire:"-"` // the DNS domain that the Region's own names end with
	Subregions []Subregion `wire:"-"`
	Locations  []Location  `wire:"-"`
	PublicIps  []api.CIDR  `wire:"-"` // where its public IPs come from

	// Gpus is how many flexible GPUs the Region has, by Subregion and model;
	// nil: some of each.
	Gpus map[string]map[string]int `wire:"-"`

	// Transition is about how long a change of state takes.
	Transition time.Duration `wire:"-"`
}

// publicIps is where every region takes its public IPs from unless its operator
// has some: the 131,072 addresses reserved for tests of networks (RFC 2544),
// which lead nowhere on the Internet.
var publicIps = []api.CIDR{"198.18.0.0/15"}

// site is a datacenter that a known region has a subregion in.
type site struct {
	code string
	name string // empty: no DirectLink can be set up there
}

// sites are the datacenters of the regions whose subregions were seen, in the
// order of the subregions.
var sites = map[string][]site{
	"eu-west-2": {{"PAR1", "Telehouse 3, France"}, {"PAR4", "Equinix Pantin, France"}, {"PAR7", ""}},
	"us-east-2": {{"LOC1", "Location 1"}, {"LOC2", "Location 2"}}, // two are known, their codes are not
}

// ownSites are the sites of a region whose name is not one of the real service.
var ownSites = []site{{"LOC1", "Location 1"}, {"LOC2", "Location 2"}, {"LOC3", "Location 3"}}

// NewRegion is the region of this name, as its operator may then change it. A
// name of the real service gets the subregions that were seen there, any other
// name gets three.
func NewRegion(name, domain string) Region {
	r := Region{RegionName: name, Endpoint: "api." + name + "." + domain, Domain: domain, PublicIps: slices.Clone(publicIps)}
	at, ok := sites[name]
	if !ok {
		at = ownSites
	}
	for i, s := range at {
		r.Subregions = append(r.Subregions, Subregion{
			SubregionName: name + string(rune('a'+i)), RegionName: name, LocationCode: s.code, State: SubregionAvailable,
		})
		if s.name != "" {
			r.Locations = append(r.Locations, Location{Code: s.code, Name: s.name})
		}
	}
	return r
}

// Actions are the actions of this package, in the given region. The meters read
// what counting resources does not tell of the use of quotas.
func Actions(region Region, meters ...resource.Meter) []api.Action {
	return []api.Action{
		readLocations(region),
		readPublicIpRanges(region),
		readQuotas(meters),
		readRegions(region),
		readSubregions(region),
		readVmTypes(),
	}
}
