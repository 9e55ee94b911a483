package catalog

import "github.com/bastide-cloud/bastide/internal/api"

// Location is a datacenter where a DirectLink can be set up.
type Location struct {
	Code string // The code of the location, as CreateDirectLink takes it.
	Name string // The name and description of the location.
}

// ReadLocationsRequest lists the locations where a DirectLink can be set up.
type ReadLocationsRequest struct{ api.Page }

func readLocations(region Region) api.Action {
	return api.Read[ReadLocationsRequest](api.Fixed("Location", "Locations", region.Locations)).WithAuth(api.Open)
}
