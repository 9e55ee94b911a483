package compute

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/directory"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// The accounts of a [testRegion].
const anna, ben = cloudtest.Alice, cloudtest.Bob

// reply is an object of an answer.
type reply = cloudtest.Object

// testNetwork is the network of the regions of tests.
var testNetwork = network.Region{
	Name: "test-1", Domain: "cloud.test", Subregions: []string{"test-1a", "test-1b"}, PublicIps: []api.CIDR{"192.0.2.0/24"},
}

// openRegion opens a region with the actions of this package and of networks, in
// which anna and ben have accounts.
func openRegion(t *testing.T, at *clock.Virtual, region Region, options resource.Options) *cloudtest.Region {
	t.Helper()
	options.Kinds = append(network.Kinds(), Kinds()...)
	r := cloudtest.OpenAt(t, at, append(Actions(region), network.Actions(testNetwork)...), options)
	for _, account := range []string{anna, ben} {
		r.Update(account, func(tx *resource.Tx) error { return network.Welcome(tx, testNetwork) })
	}
	return r
}

// testRegion is a region with a simulated driver and the loops between them.
type testRegion struct {
	*testing.T
	*cloudtest.Region
	drivers *sim.Driver
	loops   *reconcile.Reconciler

	journal *ledger // what a region with VMs has written

	objects string // the directory of the object store
	bucket  error  // what the object store says of every bucket
	fetched []byte // what every URL on the web leads to
}

// delay is how long the driver of a [testRegion] takes to change.
const delay = 8 * time.Second

// newTestRegion opens a region with an object store, whose loops leave VMs and
// networks alone.
func newTestRegion(t *testing.T, limits ...map[string]int) *testRegion {
	t.Helper()
	l := &testRegion{T: t, objects: t.TempDir()}
	at := clock.NewVirtual(cloudtest.Start)
	dir, err := directory.Open(l.objects, []byte("key"), at.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	objects := shelf{dir, l}
	l.start(at, Region{Name: "test-1", Subregions: testNetwork.Subregions, Objects: objects}, resource.Options{Limits: append(limits, nil)[0]})
	l.drivers.Write = (&objectstore.Exporter{Store: objects, Log: slog.New(slog.DiscardHandler)}).Write
	l.run(NewVolumeLoop(l.DB, l.drivers), NewSnapshotLoop(l.DB, l.drivers), NewExportLoop(l.DB, l.drivers), NewManifestLoop(l.DB, objects))
	return l
}

// newVmRegion opens a region without an object store, whose loops bring networks
// and VMs to the driver as well.
func newVmRegion(t *testing.T, limits ...map[string]int) *testRegion {
	t.Helper()
	l := &testRegion{T: t, journal: &ledger{pending: map[string]int{}}}
	region := Region{
		Name: "test-1", Subregions: testNetwork.Subregions, Network: testNetwork,
		VmTypes: map[string]Size{"t2.small": {1, 2}, "m4.2xlarge": {8, 33}, "c4.large": {2, 4}},
		Look: func(ctx context.Context, account string, vm id.Vm) (console, password []byte, err error) {
			status, _, err := l.drivers.Machine(ctx, account, string(vm))
			return status.Console, status.Password, err
		},
	}
	l.start(clock.NewVirtual(cloudtest.Start), region, resource.Options{Limits: append(limits, nil)[0], Journal: l.journal})
	l.run(NewVolumeLoop(l.DB, l.drivers), NewSnapshotLoop(l.DB, l.drivers),
		network.NewNetLoop(l.DB, l.drivers, testNetwork), network.NewGroupLoop(l.DB, l.drivers), NewVmLoop(l.DB, l.drivers, region))
	return l
}

// start opens the store and makes the driver.
func (l *testRegion) start(at *clock.Virtual, region Region, options resource.Options) {
	l.Helper()
	l.drivers = sim.New(at.Now, delay)
	l.loops = reconcile.New(reconcile.Options{Clock: at})
	options.Changed = func(changes []store.Change) { l.loops.Changed(changes) }
	l.Region = openRegion(l.T, at, region, options)
	l.Cleanup(func() { l.DB.Close() })
}

// run runs loops until the test ends.
func (l *testRegion) run(loops ...reconcile.Loop) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.loops.Run(ctx, l.DB, loops...)
	}()
	l.Cleanup(func() {
		cancel()
		<-ended
	})
}

// list calls an action that lists what filters select.
func (l *testRegion) list(account, action, filters string, args ...any) []reply {
	l.Helper()
	return l.List(account, action, `{"Filters": `+filters+`}`, args...)
}

// refuse calls an action that must be refused, and must change nothing.
func (l *testRegion) refuse(want apierror.Code, account, action, body string, args ...any) {
	l.Helper()
	l.rest() // the loops write too
	l.With(l).Refuse(want, account, action, body, args...)
}

// shelf is the object store of a lab: a directory, with a web of its own.
type shelf struct {
	*directory.Store
	region *testRegion
}

func (s shelf) CheckBucket(ctx context.Context, b objectstore.Bucket) error {
	if s.region.bucket != nil {
		return s.region.bucket
	}
	return s.Store.CheckBucket(ctx, b)
}

func (s shelf) Fetch(ctx context.Context, url string, most int64) ([]byte, error) {
	if strings.HasPrefix(url, "https://") {
		return s.region.fetched, nil
	}
	return s.Store.Fetch(ctx, url, most)
}

// rest waits until the loops have nothing to do before the clock moves.
func (l *testRegion) rest() time.Time {
	l.Helper()
	next, err := l.loops.WaitIdle(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	return next
}

// settle moves the clock until the loops have nothing to do at any time.
func (l *testRegion) settle() {
	l.Helper()
	for range 1000 {
		next := l.rest()
		if next.IsZero() {
			return
		}
		l.Clock.AdvanceTo(next)
	}
	l.Fatal("the loops never come to an end")
}

// advance moves the clock. What becomes due is done.
func (l *testRegion) advance(d time.Duration) {
	l.Helper()
	l.rest()
	l.Clock.Advance(d)
	l.rest()
}

// volume makes a volume that is ready, in test-1a unless the request says
// otherwise, and answers its ID.
func (l *testRegion) volume(account, more string) string {
	l.Helper()
	v := l.One(account, "CreateVolume", `{"SubregionName": "test-1a", %s}`, more).Text("VolumeId")
	l.settle()
	return v
}

// snapshot makes a snapshot of a volume that is ready, and answers its ID.
func (l *testRegion) snapshot(account, volume string) string {
	l.Helper()
	s := l.One(account, "CreateSnapshot", `{"VolumeId": %q}`, volume).Text("SnapshotId")
	l.settle()
	return s
}

// read finds the one object of an ID.
func (l *testRegion) read(account, action, filter, of string) reply {
	l.Helper()
	found := l.list(account, action, `{%q: [%q]}`, filter, of)
	if len(found) != 1 {
		l.Fatalf("%s finds %d of %s", action, len(found), of)
	}
	return found[0]
}

// vm makes a VM in a Subregion and a state, and answers its ID.
func (l *testRegion) vm(account, subregion string, state VmStateName) string {
	l.Helper()
	vm := &Vm{Placement: Placement{SubregionName: subregion}, RootDeviceName: string(RootDevice)}
	l.Update(account, func(tx *resource.Tx) error {
		return bring(tx, Vms, vm, &vm.State, state)
	})
	return string(vm.VmId)
}

// setVm gives a VM another state.
func (l *testRegion) setVm(account, vmID string, state VmStateName) {
	l.Helper()
	l.Update(account, func(tx *resource.Tx) error {
		vm, err := Vms.Get(tx, id.Vm(vmID))
		if err != nil {
			return err
		}
		return bring(tx, Vms, vm, &vm.State, state)
	})
}

// machine does what the loop of VMs does for the disks of a machine: the driver
// has those that the store wants.
func (l *testRegion) machine(account, vmID string) (devices []string) {
	l.Helper()
	l.Update(account, func(tx *resource.Tx) error {
		vm, err := Vms.Get(tx, id.Vm(vmID))
		if err != nil {
			return err
		}
		devices = nil
		disks, ready := wantedDisks(tx, vm)
		if !ready {
			return nil
		}
		for _, d := range disks {
			devices = append(devices, d.Device+" "+d.Disk)
		}
		return disksLinked(tx, vm.VmId, disks)
	})
	return devices
}
