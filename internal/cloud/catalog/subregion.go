package catalog

import "github.com/bastide-cloud/bastide/internal/api"

// Subregion is a part of a Region that does not fail together with the others.
type Subregion struct {
	SubregionName string         // The name of the Subregion.
	RegionName    string         // The name of the Region that contains the Subregion.
	LocationCode  string         // The code of the datacenter that the Subregion is in.
	State         SubregionState // The state of the Subregion.
}

// SubregionState says whether resources can be made in a Subregion.
type SubregionState string

// SubregionAvailable is the only state that was ever seen.
const SubregionAvailable SubregionState = "available"

// ReadSubregionsRequest lists the Subregions of the Region that is asked.
type ReadSubregionsRequest struct {
	Filters *FiltersSubregion // One or more filters.
	api.Page
}

// FiltersSubregion selects Subregions.
type FiltersSubregion struct {
	RegionNames    []string         // The names of the Regions that contain the Subregions.
	States         []SubregionState // The states of the Subregions.
	SubregionNames []string         // The names of the Subregions.
}

func readSubregions(region Region) api.Action {
	return api.Read[ReadSubregionsRequest](api.Fixed("Subregion", "Subregions", region.Subregions))
}
