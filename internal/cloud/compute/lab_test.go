package compute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/directory"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// Two accounts of a lab.
const anna, ben = "000000000001", "000000000002"

// lab is a store with the actions of this package over it, a simulated driver and
// the loops between them.
type lab struct {
	*testing.T
	api     *api.API
	db      *resource.DB
	clock   *clock.Virtual
	drivers *sim.Driver
	loops   *reconcile.Reconciler

	journal *ledger // what a lab with VMs has written

	objects string // the directory of the object store
	bucket  error  // what the object store says of every bucket
	fetched []byte // what every URL on the web leads to
}

// shelf is the object store of a lab: a directory, with a web of its own.
type shelf struct {
	*directory.Store
	lab *lab
}

func (s shelf) CheckBucket(ctx context.Context, b objectstore.Bucket) error {
	if s.lab.bucket != nil {
		return s.lab.bucket
	}
	return s.Store.CheckBucket(ctx, b)
}

func (s shelf) Fetch(ctx context.Context, url string, most int64) ([]byte, error) {
	if strings.HasPrefix(url, "https://") {
		return s.lab.fetched, nil
	}
	return s.Store.Fetch(ctx, url, most)
}

// envelope is a seal that anybody can open.
type envelope struct{}

func (envelope) Seal(text, _ string) (string, error) { return "sealed " + text, nil }
func (envelope) Open(sealed, _ string) (string, error) {
	return strings.TrimPrefix(sealed, "sealed "), nil
}

// delay is how long the driver of a lab takes to change.
const delay = 8 * time.Second

func newLab(t *testing.T, limits ...map[string]int) *lab {
	t.Helper()
	l := &lab{T: t, clock: clock.NewVirtual(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))}
	l.drivers = sim.New(l.clock.Now, delay)
	l.loops = reconcile.New(reconcile.Options{Clock: l.clock})
	l.objects = t.TempDir()
	dir, err := directory.Open(l.objects, []byte("key"), l.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	objects := shelf{dir, l}
	l.drivers.Write = (&objectstore.Exporter{Store: objects, Log: slog.New(slog.DiscardHandler)}).Write
	l.api = api.New(Actions(Region{Name: "test-1", Subregions: []string{"test-1a", "test-1b"}, Objects: objects}), api.NewPager([]byte("key")))
	l.db = resource.Open(resource.Options{
		Kinds: append(network.Kinds(), Kinds()...), Limits: append(limits, nil)[0], Now: l.clock.Now, Rand: rand.NewChaCha8([32]byte{}), Seal: envelope{},
		Changed: func(changes []store.Change) { l.loops.Changed(changes) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.loops.Run(ctx, l.db, NewVolumeLoop(l.db, l.drivers), NewSnapshotLoop(l.db, l.drivers), NewExportLoop(l.db, l.drivers), NewManifestLoop(l.db, objects))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		l.db.Close()
		dir.Close()
	})
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

// advance moves the clock. What becomes due is done.
func (l *lab) advance(d time.Duration) {
	l.Helper()
	l.rest()
	l.clock.Advance(d)
	l.rest()
}

// update runs a transaction that must succeed.
func (l *lab) update(account string, fn func(*resource.Tx) error) {
	l.Helper()
	if err := l.db.Update(l.Context(), resource.Caller{Account: account}, fn); err != nil {
		l.Fatal(err)
	}
}

// view looks at an account.
func (l *lab) view(account string, fn func(*resource.Tx) error) {
	l.Helper()
	if err := l.db.View(l.Context(), resource.Caller{Account: account}, fn); err != nil {
		l.Fatal(err)
	}
}

// reply is an object of an answer.
type reply map[string]any

func (r reply) text(name string) string { return fmt.Sprint(r[name]) }

// try calls an action and answers what the wire would carry.
func (l *lab) try(account, action, format string, args ...any) (reply, error) {
	l.Helper()
	a, err := l.api.Find(action, api.Latest)
	if err != nil {
		return nil, err
	}
	call, err := l.api.Bind(a, api.Latest, fmt.Appendf(nil, format, args...))
	if err != nil {
		return nil, err
	}
	v, err := call.Run(l.Context(), l.db, resource.Caller{Account: account})
	if err != nil {
		return nil, err
	}
	var answer reply
	if err := json.Unmarshal(api.Append(nil, v, api.Latest), &answer); err != nil {
		l.Fatalf("%s answers no JSON: %v", action, err)
	}
	return answer, nil
}

// call calls an action that must succeed.
func (l *lab) call(account, action, format string, args ...any) reply {
	l.Helper()
	answer, err := l.try(account, action, format, args...)
	if err != nil {
		l.Fatalf("%s "+format+": %v", append(append([]any{action}, args...), err)...)
	}
	return answer
}

// one calls an action that answers one object, whatever its name.
func (l *lab) one(account, action, format string, args ...any) reply {
	l.Helper()
	for _, member := range l.call(account, action, format, args...) {
		return reply(member.(map[string]any))
	}
	l.Fatalf("%s answers nothing", action)
	return nil
}

// list calls an action that lists objects.
func (l *lab) list(account, action, filters string, args ...any) (all []reply) {
	l.Helper()
	for name, member := range l.call(account, action, `{"Filters": `+filters+`}`, args...) {
		if name == "NextPageToken" {
			continue
		}
		for _, o := range member.([]any) {
			all = append(all, o.(map[string]any))
		}
	}
	return all
}

// refuse calls an action that must be refused with a code and a sentence, and
// must change nothing.
func (l *lab) refuse(want apierror.Code, account, action, format string, args ...any) {
	l.Helper()
	l.rest() // the loops write too
	before := l.version(account)
	answer, err := l.try(account, action, format, args...)
	body := fmt.Sprintf(format, args...)
	if err == nil {
		l.Errorf("%s %s answers %v, want it refused with %s", action, body, answer, want)
		return
	}
	refusal, ok := errors.AsType[*apierror.Error](err)
	if !ok || refusal.Code != want {
		l.Errorf("%s %s is refused with %v, want %s", action, body, err, want)
	} else if !strings.HasSuffix(refusal.Details, ".") {
		l.Errorf("%s %s is refused without a sentence: %q", action, body, refusal.Details)
	}
	if after := l.version(account); after != before {
		l.Errorf("%s %s was refused and has changed the account", action, body)
	}
}

func (l *lab) version(account string) (version uint64) {
	l.Helper()
	l.view(account, func(tx *resource.Tx) error { version = tx.Version(); return nil })
	return version
}

// selects checks which objects a list has, each given by the value of a field.
func (l *lab) selects(list []reply, field string, want ...string) {
	l.Helper()
	var got []string
	for _, o := range list {
		got = append(got, o.text(field))
	}
	if !slices.Equal(got, want) {
		l.Errorf("listed are %q, want %q", got, want)
	}
}

// shows compares an object with what it should be.
func (l *lab) shows(got reply, format string, args ...any) {
	l.Helper()
	var want reply
	if err := json.Unmarshal(fmt.Appendf(nil, format, args...), &want); err != nil {
		l.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("(-want +got)\n%s", diff)
	}
}

// volume makes a volume that is ready, in test-1a unless the request says
// otherwise, and answers its ID.
func (l *lab) volume(account, more string) string {
	l.Helper()
	v := l.one(account, "CreateVolume", `{"SubregionName": "test-1a", %s}`, more).text("VolumeId")
	l.settle()
	return v
}

// snapshot makes a snapshot of a volume that is ready, and answers its ID.
func (l *lab) snapshot(account, volume string) string {
	l.Helper()
	s := l.one(account, "CreateSnapshot", `{"VolumeId": %q}`, volume).text("SnapshotId")
	l.settle()
	return s
}

// read finds the one object of an ID.
func (l *lab) read(account, action, filter, of string) reply {
	l.Helper()
	found := l.list(account, action, `{%q: [%q]}`, filter, of)
	if len(found) != 1 {
		l.Fatalf("%s finds %d of %s", action, len(found), of)
	}
	return found[0]
}

// vm makes a VM in a Subregion and a state, and answers its ID.
func (l *lab) vm(account, subregion string, state VmStateName) string {
	l.Helper()
	vm := &Vm{Placement: Placement{SubregionName: subregion}, RootDeviceName: string(RootDevice)}
	l.update(account, func(tx *resource.Tx) error {
		return bring(tx, Vms, vm, &vm.State, state)
	})
	return string(vm.VmId)
}

// setVm gives a VM another state.
func (l *lab) setVm(account, vmID string, state VmStateName) {
	l.Helper()
	l.update(account, func(tx *resource.Tx) error {
		vm, err := Vms.Get(tx, id.Vm(vmID))
		if err != nil {
			return err
		}
		return bring(tx, Vms, vm, &vm.State, state)
	})
}

// machine does what the loop of VMs does for the disks of a machine: the driver
// has those that the store wants.
func (l *lab) machine(account, vmID string) (devices []string) {
	l.Helper()
	l.update(account, func(tx *resource.Tx) error {
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
