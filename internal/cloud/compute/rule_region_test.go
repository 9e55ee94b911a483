package compute

import (
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

const alice, bob = cloudtest.Alice, cloudtest.Bob

// ruleRegion is a region without loops or drivers, for rules that need none.
// Requests are Go values.
type ruleRegion struct {
	*testing.T
	*cloudtest.Region
}

// object is a JSON object of a request or of an answer.
type object = map[string]any

var twoSubregions = Region{Subregions: []string{"test-1a", "test-1b"}}

func newRuleRegion(t *testing.T, region Region, limits map[string]int) *ruleRegion {
	t.Helper()
	l := &ruleRegion{T: t, Region: openRegion(t, clock.NewVirtual(cloudtest.Start), region, resource.Options{Limits: limits})}
	t.Cleanup(func() { l.DB.Close() })
	return l
}

// view runs a rule that only reads.
func (l *ruleRegion) view(account string, rule func(*resource.Tx)) {
	l.Helper()
	l.View(account, func(tx *resource.Tx) error { rule(tx); return nil })
}

// try calls an action.
func (l *ruleRegion) try(account, action string, request object) (object, error) {
	l.Helper()
	return l.Try(account, action, "%s", jsonOf(request))
}

// call calls an action that must succeed.
func (l *ruleRegion) call(account, action string, request object) object {
	l.Helper()
	return l.Call(account, action, "%s", jsonOf(request))
}

// one calls an action that must succeed, and returns a member of the answer.
func (l *ruleRegion) one(name, account, action string, request object) object {
	l.Helper()
	return l.call(account, action, request)[name].(object)
}

// refused calls an action that must be refused with a code.
func (l *ruleRegion) refused(code apierror.Code, account, action string, request object) error {
	l.Helper()
	_, err := l.try(account, action, request)
	if !code.Is(err) {
		l.Errorf("%s %v: %v, want %s", action, request, err, code)
	}
	return err
}

// texts returns a field of the objects that an action lists under a name.
func (l *ruleRegion) texts(field, list, account, action string, filters object) []string {
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
func (l *ruleRegion) vm(account string, change ...func(*Vm)) id.Vm {
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
	l.Update(account, func(tx *resource.Tx) error { return bring(tx, Vms, vm, &vm.State, state) })
	return vm.VmId
}

// change changes a VM as its own rules and loops would.
func (l *ruleRegion) change(account string, vmID id.Vm, change func(*resource.Tx, *Vm) error) {
	l.Helper()
	l.Update(account, func(tx *resource.Tx) error {
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
func (l *ruleRegion) image(account string, codes ...string) id.Image {
	l.Helper()
	image := &Image{ProductCodes: codes}
	l.Update(account, func(tx *resource.Tx) error {
		image.ImageId = Images.NewID(tx)
		image.ImageName = string(image.ImageId)
		return resource.Transition(tx, Images, image, ImageRegistered)
	})
	return image.ImageId
}
