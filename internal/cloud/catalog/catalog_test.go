package catalog

import (
	"encoding/json"
	"log/slog"
	"slices"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/resource"
)

var alice = resource.Caller{Account: "123456789012"}

// newTestRegion opens a region with the actions of this package and no more kinds
// than a test brings.
func newTestRegion(t *testing.T, region Region, limits map[string]int, kinds []resource.Any, meters ...resource.Meter) *cloudtest.Region {
	t.Parallel()
	r := cloudtest.Open(t, Actions(region, meters...), resource.Options{Kinds: kinds, Limits: limits, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { r.DB.Close() })
	return r
}

// ask calls an action as a caller and decodes the answer.
func ask[T any](t *testing.T, r *cloudtest.Region, caller resource.Caller, action, body string) (answer T) {
	t.Helper()
	text, err := r.Send(caller, action, body)
	if err != nil {
		t.Fatalf("%s %s: %v", action, body, err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// nobody calls without credentials.
var nobody resource.Caller

func TestNewRegionKnowsTheRealSubregions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		region     string
		subregions []string
		locations  int
	}{
		{"eu-west-2", []string{"eu-west-2a PAR1", "eu-west-2b PAR4", "eu-west-2c PAR7"}, 2},
		{"us-east-2", []string{"us-east-2a LOC1", "us-east-2b LOC2"}, 2},
		{"home", []string{"homea LOC1", "homeb LOC2", "homec LOC3"}, 3},
	} {
		t.Run(tt.region, func(t *testing.T) {
			t.Parallel()
			r := NewRegion(tt.region, "cloud.test")
			var got []string
			for _, s := range r.Subregions {
				got = append(got, s.SubregionName+" "+s.LocationCode)
				if s.RegionName != tt.region || s.State != "available" {
					t.Errorf("subregion %+v is not an available one of %s", s, tt.region)
				}
			}
			if !slices.Equal(got, tt.subregions) {
				t.Errorf("subregions %v, want %v", got, tt.subregions)
			}
			if len(r.Locations) != tt.locations {
				t.Errorf("locations %v, want %d", r.Locations, tt.locations)
			}
			for _, p := range r.PublicIps {
				if err := p.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	open := map[string]bool{
		"ReadLocations": true, "ReadPublicIpRanges": true, "ReadRegions": true, "ReadVmTypes": true,
		"ReadQuotas": false, "ReadSubregions": false,
	}
	actions := Actions(NewRegion("eu-west-2", "cloud.test"))
	if len(actions) != len(open) {
		t.Errorf("%d actions, want %d", len(actions), len(open))
	}
	for _, a := range actions {
		if want, ok := open[a.Name]; !ok || (a.Auth == api.Open) != want {
			t.Errorf("%s: open to everybody: %v, want %v", a.Name, a.Auth == api.Open, want)
		}
		if !a.Reads {
			t.Errorf("%s is said to change something", a.Name)
		}
	}
}
