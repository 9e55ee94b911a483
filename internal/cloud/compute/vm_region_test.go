package compute

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/bastide-cloud/bastide/internal/driver"
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

// image makes an image that is available, changed as a test wants.
func (l *testRegion) omi(account string, change ...func(*Image)) string {
	l.Helper()
	image := Image{
		Architecture: X86, RootDeviceName: "/dev/sda1", BootModes: []BootMode{BootUefi}, ProductCodes: []string{"0001"},
		BlockDeviceMappings: []BlockDeviceMappingImage{{DeviceName: RootDevice, Bsu: BsuToCreate{VolumeSize: 10, DeleteOnVmDeletion: true}}},
	}
	for _, c := range change {
		c(&image)
	}
	l.Update(account, func(tx *resource.Tx) error {
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
func (l *testRegion) vms(account, request string, args ...any) (all []reply) {
	l.Helper()
	request = fmt.Sprintf(request, args...)
	image := fmt.Sprintf(`{"ImageId": %q`, l.omi(account))
	if request != "" {
		image += ", "
	}
	for _, v := range l.Call(account, "CreateVms", "%s", image+request+"}")["Vms"].([]any) {
		all = append(all, v.(map[string]any))
	}
	return all
}

// vmIn makes a VM and waits until the driver has it.
func (l *testRegion) vmIn(account, request string, args ...any) string {
	l.Helper()
	v := l.vms(account, request, args...)[0].Text("VmId")
	l.settle()
	return v
}

// subnet makes a Subnet of 10.0.<n>.0/24 in a new Net, and answers both.
func (l *testRegion) subnet(account string) (subnet, net string) {
	l.Helper()
	net = l.One(account, "CreateNet", `{"IpRange": "10.0.0.0/16"}`).Text("NetId")
	subnet = l.One(account, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.1.0/24", "SubregionName": "test-1b"}`, net).Text("SubnetId")
	return subnet, net
}

// state is that of a VM.
func (l *testRegion) state(account, vm string) string {
	l.Helper()
	return l.read(account, "ReadVms", "VmIds", vm).Text("State")
}

// inWorld is a machine as the driver has it; nil: it has none.
func (l *testRegion) inWorld(account, vm string) *driver.MachineStatus {
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

// sorted is a list in order.
func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// act moves the clock as far as the driver needs for what was asked, but not to
// the end of what can still be read.
func (l *testRegion) act() {
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
