package catalog

import (
	"slices"
	"testing"
)

func TestReadRegionsLeadsToThisProgram(t *testing.T) {
	for _, tt := range []struct {
		own  string
		want []string
	}{
		{"eu-west-2", []string{"api.eu-west-2.cloud.test", "api.us-east-2.outscale.com", "api.us-west-1.outscale.com"}},
		{"us-west-1", []string{"api.eu-west-2.outscale.com", "api.us-east-2.outscale.com", "api.us-west-1.cloud.test"}},
		{"cloudgouv-eu-west-1", []string{"api.cloudgouv-eu-west-1.cloud.test"}},
		{"home", []string{"api.home.cloud.test", "api.eu-west-2.outscale.com", "api.us-east-2.outscale.com", "api.us-west-1.outscale.com"}},
	} {
		t.Run(tt.own, func(t *testing.T) {
			w := newTestRegion(t, NewRegion(tt.own, "cloud.test"), nil, nil)
			answer := ask[struct{ Regions []map[string]string }](t, w, nobody, "ReadRegions", "")
			var got []string
			for _, r := range answer.Regions {
				got = append(got, r["Endpoint"])
				if len(r) != 2 || r["RegionName"] == "" {
					t.Errorf("a region is shown as %v, want its name and endpoint only", r)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("endpoints %v, want %v", got, tt.want)
			}
		})
	}
}
