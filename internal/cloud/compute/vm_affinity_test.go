package compute

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/drivertest"
)

// Tags place a machine, given in the user data or later.
func TestPlacingTags(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	vm := l.vmIn(anna, `"UserData": %q`, ordering(
		"tags.osc.fcu.repulse_server=front", "tags.osc.fcu.attract_cluster_strict=site",
		"tags.osc.fcu.repulse=front", "tags.osc.fcu.repulse_room=front", "tags.osc.fcu.love_server=front", "tags.repulse_server=front",
		"tags.osc.fcu.repulse_server_=front",
	))
	want := []driver.Affinity{{Strategy: "repulse", Scope: "server", Group: "front"},
		{Strategy: "attract", Scope: "cluster", Group: "site", Strict: true}}
	if diff := cmp.Diff(want, l.inWorld(anna, vm).Affinities, drivertest.Equal()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	l.Tag(anna, vm)
	l.settle()
	if got := l.inWorld(anna, vm).Affinities; len(got) != 0 {
		t.Errorf("without tags it has %v", got)
	}
}
