package balancer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud/balancer"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
	"github.com/bastide-cloud/bastide/internal/store"
)

// alice is the account of most tests.
const alice = "000000000001"

// delay is how long the driver takes to change.
const delay = 8 * time.Second

// listening is a listener as requests have it.
const listening = `{"BackendPort": 80, "LoadBalancerPort": 80, "LoadBalancerProtocol": "HTTP"}`

// lab is a store with the actions of load balancers and what they need, over a
// simulated driver and with the loops between them.
type lab struct {
	*testing.T
	api     *api.API
	db      *resource.DB
	clock   *clock.Virtual
	drivers *sim.Driver
	loops   *reconcile.Reconciler
}

func setup(t *testing.T, limits ...map[string]int) *lab {
	t.Helper()
	l := &lab{T: t, clock: clock.NewVirtual(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))}
	l.drivers = sim.New(l.clock.Now, delay)
	l.loops = reconcile.New(reconcile.Options{Clock: l.clock})
	net := network.Region{
		Name: "test-1", Domain: "cloud.test", Subregions: []string{"test-1a", "test-1b"}, PublicIps: []api.CIDR{"192.0.2.0/24"},
	}
	machines := compute.Region{
		Name: net.Name, Subregions: net.Subregions, VmTypes: map[string]compute.Size{"t2.small": {Vcores: 1, Memory: 2}}, Network: net,
		VmEnded: balancer.VmEnded,
	}
	balancers := balancer.Region{
		Name: net.Name, Domain: net.Domain, Subregions: net.Subregions, Network: net, Look: balancer.NewLook(l.drivers),
	}
	actions := append(iam.Actions(nil), network.Actions(net)...)
	l.api = api.New(append(append(actions, compute.Actions(machines)...), balancer.Actions(balancers)...), api.NewPager([]byte("key")))
	random := rand.NewChaCha8([32]byte{})
	key, err := seal.New(make([]byte, 32), random)
	if err != nil {
		t.Fatal(err)
	}
	kinds := append(append(append(iam.Kinds(), network.Kinds()...), compute.Kinds()...), balancer.Kinds()...)
	l.db = resource.Open(resource.Options{
		Kinds: kinds, Limits: append(limits, nil)[0], Now: l.clock.Now, Rand: random, Seal: key,
		Changed: func(changes []store.Change) { l.loops.Changed(changes) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.loops.Run(ctx, l.db, compute.NewVolumeLoop(l.db, l.drivers), compute.NewSnapshotLoop(l.db, l.drivers),
			network.NewNetLoop(l.db, l.drivers, net), network.NewGroupLoop(l.db, l.drivers), compute.NewVmLoop(l.db, l.drivers, machines),
			balancer.NewLoop(l.db, l.drivers), balancer.NewBackendLoop(l.db))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		l.db.Close()
	})
	l.update(func(tx *resource.Tx) error { return network.Welcome(tx, net) })
	return l
}

// rest waits until the loops have nothing to do before the clock moves.
func (l *lab) rest() time.Time {
	l.Helper()
	next, err := l.loops.WaitIdle(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	return next
}

// settle moves the clock until the loops have nothing to do at any time.
func (l *lab) settle() {
	l.Helper()
	for range 1000 {
		next := l.rest()
		if next.IsZero() {
			return
		}
		l.clock.AdvanceTo(next)
	}
	l.Fatal("the loops never come to an end")
}

// update runs a transaction that must succeed.
func (l *lab) update(fn func(*resource.Tx) error) {
	l.Helper()
	if err := l.db.Update(l.Context(), resource.Caller{Account: alice}, fn); err != nil {
		l.Fatal(err)
	}
}

// reply is an object of a response.
type reply map[string]any

// try calls an action and returns what the wire would carry.
func (l *lab) try(action, format string, args ...any) (reply, error) {
	l.Helper()
	a, err := l.api.Find(action, api.Latest)
	if err != nil {
		return nil, err
	}
	call, err := l.api.Bind(a, api.Latest, fmt.Appendf(nil, format, args...))
	if err != nil {
		return nil, err
	}
	v, err := call.Run(l.Context(), l.db, resource.Caller{Account: alice})
	if err != nil {
		return nil, err
	}
	var got reply
	if err := json.Unmarshal(api.Append(nil, v, api.Latest), &got); err != nil {
		l.Fatalf("%s returns no JSON: %v", action, err)
	}
	return got, nil
}

// call calls an action that must succeed.
func (l *lab) call(action, format string, args ...any) reply {
	l.Helper()
	got, err := l.try(action, format, args...)
	if err != nil {
		l.Fatalf("%s "+format+": %v", append(append([]any{action}, args...), err)...)
	}
	return got
}

// refuse calls an action that must be refused with a code and words.
func (l *lab) refuse(want apierror.Code, words, action, format string, args ...any) {
	l.Helper()
	got, err := l.try(action, format, args...)
	refusal, ok := errors.AsType[*apierror.Error](err)
	if !ok || refusal.Code != want || !strings.Contains(refusal.Details, words) {
		l.Errorf("%s is refused with %v (%v), want %s: %s", action, err, got, want, words)
	}
}

// create makes a load balancer in the public Cloud.
func (l *lab) create(name string) {
	l.Helper()
	l.call("CreateLoadBalancer", `{"LoadBalancerName": %q, "SubregionNames": ["test-1a"], "Listeners": [%s]}`, name, listening)
}

// shown is a load balancer as it is listed.
func (l *lab) shown(name string) reply {
	l.Helper()
	list := l.call("ReadLoadBalancers", `{"Filters": {"LoadBalancerNames": [%q]}}`, name)["LoadBalancers"].([]any)
	if len(list) != 1 {
		l.Fatalf("%d load balancers are called %s", len(list), name)
	}
	return list[0].(map[string]any)
}

// is checks the state of a load balancer.
func (l *lab) is(name, want string) {
	l.Helper()
	if got := l.shown(name)["State"]; got != want {
		l.Errorf("the load balancer %s is %s, want %s", name, got, want)
	}
}

// applied is a load balancer as the driver has it.
func (l *lab) applied(name string) driver.BalancerStatus {
	l.Helper()
	status, ok, err := l.drivers.Balancer(l.Context(), alice, name)
	if err != nil || !ok {
		l.Fatalf("the driver has no load balancer %s: %v", name, err)
	}
	return status
}

// vms makes VMs in the public Cloud, and returns their IDs.
func (l *lab) vms(n int) (ids []string) {
	l.Helper()
	image := compute.Image{
		Architecture: compute.X86, RootDeviceName: "/dev/sda1", BootModes: []compute.BootMode{compute.BootUefi}, ProductCodes: []string{"0001"},
		BlockDeviceMappings: []compute.BlockDeviceMappingImage{
			{DeviceName: "/dev/sda1", Bsu: compute.BsuToCreate{VolumeSize: 10, DeleteOnVmDeletion: true}},
		},
	}
	l.update(func(tx *resource.Tx) error {
		image.ImageId = compute.Images.NewID(tx)
		image.ImageName = string(image.ImageId)
		return resource.Transition(tx, compute.Images, &image, compute.ImageRegistered)
	})
	made := l.call("CreateVms", `{"ImageId": %q, "VmType": "t2.small", "MinVmsCount": %d, "MaxVmsCount": %[2]d}`, image.ImageId, n)
	for _, vm := range made["Vms"].([]any) {
		ids = append(ids, vm.(map[string]any)["VmId"].(string))
	}
	l.settle()
	return ids
}
