package catalog

import (
	"slices"
	"testing"
)

func TestReadLocationsInPages(t *testing.T) {
	w := newTestRegion(t, NewRegion("eu-west-2", "cloud.test"), nil, nil)
	type page struct {
		Locations     []Location
		NextPageToken string
	}
	first := ask[page](t, w, nobody, "ReadLocations", `{"ResultsPerPage":1}`)
	second := ask[page](t, w, nobody, "ReadLocations", `{"ResultsPerPage":1,"NextPageToken":"`+first.NextPageToken+`"}`)
	got := slices.Concat(first.Locations, second.Locations)
	want := []Location{{"PAR1", "Telehouse 3, France"}, {"PAR4", "Equinix Pantin, France"}}
	if !slices.Equal(got, want) || second.NextPageToken != "" {
		t.Errorf("two pages answered %v and then the token %q, want %v and none", got, second.NextPageToken, want)
	}
}
