package compute

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

const alice, bob = "000000000001", "000000000002"

// desk is a region with the families that machines are made of, in which alice
// and bob were welcomed.
type desk struct {
	*testing.T
	api *api.API
	db  *resource.DB
}

var (
	labNetwork = network.Region{Name: "test-1", Subregions: []string{"test-1a", "test-1b"}}
	labRegion  = Region{Subregions: labNetwork.Subregions}
)

func newDesk(t *testing.T, region Region, limits map[string]int) *desk {
	t.Helper()
	l := &desk{T: t}
	l.api = api.New(append(Actions(region), network.Actions(labNetwork)...), api.NewPager([]byte("key")))
	l.db = resource.Open(resource.Options{
		Kinds: append(Kinds(), network.Kinds()...), Limits: limits, Rand: rand.NewChaCha8([32]byte{}),
		Now: func() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) },
	})
	t.Cleanup(func() { l.db.Close() })
	for _, account := range []string{alice, bob} {
		l.update(account, func(tx *resource.Tx) error { return network.Welcome(tx, labNetwork) })
	}
	return l
}

// update runs a transaction that must succeed.
func (l *desk) update(account string, fn func(*resource.Tx) error) {
	l.Helper()
	if err := l.db.Update(context.Background(), resource.Caller{Account: account}, fn); err != nil {
		l.Fatal(err)
	}
}

// view looks at an account.
func (l *desk) view(account string, fn func(*resource.Tx)) {
	l.Helper()
	err := l.db.View(context.Background(), resource.Caller{Account: account}, func(tx *resource.Tx) error { fn(tx); return nil })
	if err != nil {
		l.Fatal(err)
	}
}

// object is a JSON object, asked or answered.
type object = map[string]any

// try calls an action and answers what the wire would carry.
func (l *desk) try(account, action string, request object) (answer object, err error) {
	l.Helper()
	a, err := l.api.Find(action, api.Latest)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(request)
	if err != nil {
		l.Fatal(err)
	}
	call, err := l.api.Bind(a, api.Latest, body)
	if err != nil {
		return nil, err
	}
	v, err := call.Run(context.Background(), l.db, resource.Caller{Account: account})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(api.Append(nil, v, api.Latest), &answer); err != nil {
		l.Fatalf("%s answers no JSON: %v", action, err)
	}
	return answer, nil
}

// call calls an action that must succeed.
func (l *desk) call(account, action string, request object) object {
	l.Helper()
	answer, err := l.try(account, action, request)
	if err != nil {
		l.Fatalf("%s %v: %v", action, request, err)
	}
	return answer
}

// one calls an action that answers one object under a name.
func (l *desk) one(name, account, action string, request object) object {
	l.Helper()
	return l.call(account, action, request)[name].(object)
}

// refused calls an action that must answer a code.
func (l *desk) refused(code apierror.Code, account, action string, request object) error {
	l.Helper()
	_, err := l.try(account, action, request)
	if !code.Is(err) {
		l.Errorf("%s %v: %v, want %s", action, request, err, code)
	}
	return err
}

// texts are the values of a field of the objects that an action lists.
func (l *desk) texts(field, list, account, action string, filters object) []string {
	l.Helper()
	all := []string{}
	for _, item := range l.call(account, action, object{"Filters": filters})[list].([]any) {
		text, _ := item.(object)[field].(string)
		all = append(all, text)
	}
	return all
}

// vm makes a running VM, as if it had been created, that fits a flexible GPU of
// the generation v5 unless it is changed.
func (l *desk) vm(account string, change ...func(*Vm)) id.Vm {
	l.Helper()
	vm := &Vm{
		VmType: "tinav5.c2r4p1", Vcores: 2, Memory: 4, Performance: PerformanceHighest, State: VmRunning, Running: true,
		Placement: Placement{SubregionName: "test-1a", Tenancy: network.TenancyDefault},
	}
	for _, c := range change {
		c(vm)
	}
	state := vm.State
	vm.State = ""
	l.update(account, func(tx *resource.Tx) error { return bring(tx, Vms, vm, &vm.State, state) })
	return vm.VmId
}

// change changes a VM as its own rules and loops would.
func (l *desk) change(account string, vmID id.Vm, change func(*resource.Tx, *Vm) error) {
	l.Helper()
	l.update(account, func(tx *resource.Tx) error {
		vm, err := Vms.Get(tx, vmID)
		if err != nil {
			return err
		}
		if err := change(tx, vm); err != nil {
			return err
		}
		return Vms.Put(tx, vm)
	})
}

// image makes an image, as if it had been created.
func (l *desk) image(account string, codes ...string) id.Image {
	l.Helper()
	image := &Image{ProductCodes: codes}
	l.update(account, func(tx *resource.Tx) error {
		image.ImageId = Images.NewID(tx)
		image.ImageName = string(image.ImageId)
		return resource.Transition(tx, Images, image, ImageRegistered)
	})
	return image.ImageId
}
