package compute

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// ledger is a journal that keeps nothing but the number of bytes that it was
// given, and how many objects of each account are pending.
type ledger struct {
	mu      sync.Mutex // guards what follows
	bytes   int
	pending map[string]int
}

func (*ledger) Load(context.Context, string, func(store.Row) error) (uint64, error) { return 0, nil }

func (j *ledger) Commit(_ context.Context, batches []store.Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range batches {
		j.pending[b.Account] = b.Pending
		for _, r := range b.Rows {
			j.bytes += len(r.Doc)
		}
	}
	return nil
}

func (j *ledger) Pending(context.Context) (accounts []string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for account, n := range j.pending {
		if n > 0 {
			accounts = append(accounts, account)
		}
	}
	slices.Sort(accounts)
	return accounts, nil
}

func (*ledger) Close() error { return nil }

// since is how many bytes were written since the last time that it was asked.
func (j *ledger) since() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.bytes
	j.bytes = 0
	return n
}

// newVmLab is a lab with networks and VMs as well, and all loops between the store
// and the driver.
func newVmLab(t *testing.T, limits ...map[string]int) *lab {
	t.Helper()
	l := &lab{T: t, clock: clock.NewVirtual(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)), journal: &ledger{pending: map[string]int{}}}
	l.drivers = sim.New(l.clock.Now, delay)
	l.loops = reconcile.New(reconcile.Options{Clock: l.clock})
	region := Region{
		Name: "test-1", Subregions: []string{"test-1a", "test-1b"},
		VmTypes: map[string]Size{"t2.small": {1, 2}, "m4.2xlarge": {8, 33}, "c4.large": {2, 4}},
		Network: network.Region{
			Name: "test-1", Domain: "cloud.test", Subregions: []string{"test-1a", "test-1b"}, PublicIps: []api.CIDR{"192.0.2.0/24"},
		},
		Look: func(ctx context.Context, account string, vm id.Vm) (console, password []byte, err error) {
			status, _, err := l.drivers.Machine(ctx, account, string(vm))
			return status.Console, status.Password, err
		},
	}
	l.api = api.New(append(Actions(region), network.Actions(region.Network)...), api.NewPager([]byte("key")))
	l.db = resource.Open(resource.Options{
		Kinds: append(network.Kinds(), Kinds()...), Limits: append(limits, nil)[0], Now: l.clock.Now, Rand: rand.NewChaCha8([32]byte{}), Seal: envelope{}, Journal: l.journal,
		Changed: func(changes []store.Change) { l.loops.Changed(changes) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.loops.Run(ctx, l.db, NewVolumeLoop(l.db, l.drivers), NewSnapshotLoop(l.db, l.drivers),
			network.NewNetLoop(l.db, l.drivers, region.Network), network.NewGroupLoop(l.db, l.drivers), NewVmLoop(l.db, l.drivers, region))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		l.db.Close()
	})
	for _, account := range []string{anna, ben} {
		l.update(account, func(tx *resource.Tx) error { return network.Welcome(tx, region.Network) })
	}
	return l
}

// image makes an image that is available, changed as a test wants.
func (l *lab) omi(account string, change ...func(*Image)) string {
	l.Helper()
	image := Image{
		Architecture: X86, RootDeviceName: "/dev/sda1", BootModes: []BootMode{BootUefi}, ProductCodes: []string{"0001"},
		BlockDeviceMappings: []BlockDeviceMappingImage{{DeviceName: RootDevice, Bsu: BsuToCreate{VolumeSize: 10, DeleteOnVmDeletion: true}}},
	}
	for _, c := range change {
		c(&image)
	}
	l.update(account, func(tx *resource.Tx) error {
		image.ImageId = Images.NewID(tx)
		image.ImageName = string(image.ImageId)
		if image.State == ImagePending {
			image.State = ""
			return resource.Transition(tx, Images, &image, imageCreated)
		}
		return resource.Transition(tx, Images, &image, ImageRegistered)
	})
	return string(image.ImageId)
}

// vms makes VMs, from a new image unless the request names one, and answers them.
func (l *lab) vms(account, request string, args ...any) (all []reply) {
	l.Helper()
	request = fmt.Sprintf(request, args...)
	image := fmt.Sprintf(`{"ImageId": %q`, l.omi(account))
	if request != "" {
		image += ", "
	}
	for _, v := range l.call(account, "CreateVms", "%s", image+request+"}")["Vms"].([]any) {
		all = append(all, v.(map[string]any))
	}
	return all
}

// vmIn makes a VM and waits until the driver has it.
func (l *lab) vmIn(account, request string, args ...any) string {
	l.Helper()
	v := l.vms(account, request, args...)[0].text("VmId")
	l.settle()
	return v
}

// subnet makes a Subnet of 10.0.<n>.0/24 in a new Net, and answers both.
func (l *lab) subnet(account string) (subnet, net string) {
	l.Helper()
	net = l.one(account, "CreateNet", `{"IpRange": "10.0.0.0/16"}`).text("NetId")
	subnet = l.one(account, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.1.0/24", "SubregionName": "test-1b"}`, net).text("SubnetId")
	return subnet, net
}

// tag gives a VM other tags.
func (l *lab) tag(account, vm string, tags ...api.Tag) {
	l.Helper()
	l.update(account, func(tx *resource.Tx) error {
		tagged, ok := tx.Tagged(vm)
		if !ok {
			l.Fatalf("there is no %s to tag", vm)
		}
		tx.SetTags(tagged, tags)
		return nil
	})
}

// state is that of a VM.
func (l *lab) state(account, vm string) string {
	l.Helper()
	return l.read(account, "ReadVms", "VmIds", vm).text("State")
}

// inWorld is a machine as the driver has it; nil: it has none.
func (l *lab) inWorld(account, vm string) *driver.MachineStatus {
	l.Helper()
	status, ok, err := l.drivers.Machine(l.Context(), account, vm)
	if err != nil {
		l.Fatal(err)
	}
	if !ok {
		return nil
	}
	return &status
}

// objects are the members of a list in a reply.
func (r reply) objects(name string) (all []reply) {
	list, _ := r[name].([]any)
	for _, o := range list {
		all = append(all, o.(map[string]any))
	}
	return all
}

func (r reply) object(name string) reply {
	o, _ := r[name].(map[string]any)
	return o
}

// texts are a field of the members of a list.
func texts(list []reply, name string) (all []string) {
	for _, o := range list {
		all = append(all, o.text(name))
	}
	return all
}

// sorted is a list in order.
func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// act moves the clock as far as the driver needs for what was asked, but not to
// the end of what can still be read.
func (l *lab) act() {
	l.Helper()
	for range 4 {
		l.advance(delay)
	}
}

// jsonOf is a value as a request has it.
func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// fields are the names of the fields of a struct.
func fields[T any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if !f.Anonymous {
			names = append(names, f.Name)
		}
	}
	return names
}
