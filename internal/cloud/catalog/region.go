package catalog

import (
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
)

// ReadRegionsRequest lists the Regions of the cloud.
type ReadRegionsRequest struct{}

func readRegions(own Region) api.Action {
	return api.Read[ReadRegionsRequest](api.Fixed("Region", "Regions", regions(own))).WithAuth(api.Open)
}

// published are the regions that the real service lists.
var published = []string{"eu-west-2", "us-east-2", "us-west-1"}

// government is what the names of regions for public bodies begin with. Each of
// them lists itself only.
const government = "cloudgouv-"

// regions lists the own region at the endpoint that leads to this program, and
// the others where the real service has them: clients look up regions they copy
// from, and this program answers for none but its own.
func regions(own Region) []Region {
	if strings.HasPrefix(own.RegionName, government) {
		return []Region{own}
	}
	var all []Region
	if !slices.Contains(published, own.RegionName) {
		all = append(all, own)
	}
	for _, name := range published {
		if name == own.RegionName {
			all = append(all, own)
		} else {
			all = append(all, Region{RegionName: name, Endpoint: "api." + name + ".outscale.com"})
		}
	}
	return all
}
