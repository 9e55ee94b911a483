package catalog

import (
	"slices"
	"testing"
)

func TestReadSubregions(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want []string
	}{
		"all":               {`{}`, []string{"eu-west-2a", "eu-west-2b", "eu-west-2c"}},
		"by name":           {`{"Filters":{"SubregionNames":["eu-west-2c","eu-west-2a"]}}`, []string{"eu-west-2a", "eu-west-2c"}},
		"of another region": {`{"Filters":{"RegionNames":["us-east-2"]}}`, nil},
		"by state": {`{"Filters":{"States":["available"],"RegionNames":["eu-west-2"]}}`,
			[]string{"eu-west-2a", "eu-west-2b", "eu-west-2c"}},
		"one a page": {`{"ResultsPerPage":1}`, []string{"eu-west-2a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestRegion(t, NewRegion("eu-west-2", "cloud.test"), nil, nil)
			answer := ask[struct{ Subregions []Subregion }](t, w, alice, "ReadSubregions", tt.body)
			var got []string
			for _, s := range answer.Subregions {
				got = append(got, s.SubregionName)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("ReadSubregions %s answered %v, want %v", tt.body, got, tt.want)
			}
		})
	}
}
