package catalog

import (
	"slices"
	"testing"
)

func TestReadPublicIpRangesAreTheOperators(t *testing.T) {
	region := NewRegion("home", "cloud.test")
	region.PublicIps = append(region.PublicIps, "203.0.113.0/24")
	w := newTestRegion(t, region, nil, nil)
	answer := ask[struct{ PublicIps []string }](t, w, nobody, "ReadPublicIpRanges", "")
	if want := []string{"198.18.0.0/15", "203.0.113.0/24"}; !slices.Equal(answer.PublicIps, want) {
		t.Errorf("ranges %v, want %v", answer.PublicIps, want)
	}
	if again := NewRegion("home", "cloud.test").PublicIps; len(again) != 1 {
		t.Errorf("changing one region changed the next: %v", again)
	}
}
