package compute

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// gpu allocates a flexible GPU that fits the VMs of the lab unless it is asked
// for otherwise.
func (l *ruleRegion) gpu(account string, with object) string {
	l.Helper()
	request := object{"ModelName": "nvidia-p6", "SubregionName": "test-1a"}
	for name, value := range with {
		request[name] = value
	}
	return l.one("FlexibleGpu", account, "CreateFlexibleGpu", request)["FlexibleGpuId"].(string)
}

// state is the state of a flexible GPU and the VM that it is linked to.
func (l *ruleRegion) state(account, gpu string) string {
	l.Helper()
	all := l.call(account, "ReadFlexibleGpus", object{"Filters": object{"FlexibleGpuIds": []any{gpu}}})["FlexibleGpus"].([]any)
	if len(all) == 0 {
		return "gone"
	}
	g := all[0].(object)
	if g["VmId"] != nil {
		return g["State"].(string) + " " + g["VmId"].(string)
	}
	return g["State"].(string)
}

func (l *ruleRegion) start(account string, vmID id.Vm) {
	l.Helper()
	l.change(account, vmID, func(tx *resource.Tx, vm *Vm) error {
		if err := bring(tx, Vms, vm, &vm.State, VmRunning); err != nil {
			return err
		}
		return startGpus(tx, vmID)
	})
}

func (l *ruleRegion) stop(account string, vmID id.Vm) {
	l.Helper()
	l.change(account, vmID, func(tx *resource.Tx, vm *Vm) error {
		if err := bring(tx, Vms, vm, &vm.State, VmStopped); err != nil {
			return err
		}
		return stopGpus(tx, vmID)
	})
}

// end deletes a VM.
func (l *ruleRegion) end(account string, vmID id.Vm) {
	l.Helper()
	l.Update(account, func(tx *resource.Tx) error {
		if err := releaseGpus(tx, vmID); err != nil {
			return err
		}
		vm, err := Vms.Get(tx, vmID)
		if err != nil {
			return err
		}
		return bring(tx, Vms, vm, &vm.State, VmTerminated)
	})
}

func TestGpuCatalog(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	models := l.call("", "ReadFlexibleGpuCatalog", nil)["FlexibleGpuCatalog"].([]any)
	if len(models) != 11 {
		t.Errorf("%d models", len(models))
	}
	for _, m := range models {
		model := m.(object)
		if model["ModelName"] == "nvidia-a100-80" &&
			fmt.Sprint(model) != "map[Generations:[v6 v7] MaxCpu:35 MaxRam:256 ModelName:nvidia-a100-80 VRam:80000]" {
			t.Errorf("%v", model)
		}
	}
}

func TestCreateFlexibleGpu(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	for name, test := range map[string]struct {
		request    object
		generation string // of what is made; empty: it is refused
		code       apierror.Code
	}{
		"the only generation":  {object{"ModelName": "nvidia-p6"}, "v5", 0},
		"the oldest":           {object{"ModelName": "nvidia-h200"}, "v7", 0},
		"another":              {object{"ModelName": "nvidia-h200", "Generation": "v104"}, "v104", 0},
		"one that it lacks":    {object{"ModelName": "nvidia-p6", "Generation": "v6"}, "", apierror.InvalidValue},
		"no such model":        {object{"ModelName": "nvidia-k3"}, "", apierror.InvalidValue},
		"no such Subregion":    {object{"ModelName": "nvidia-p6", "SubregionName": "test-1c"}, "", apierror.SubregionNotFound},
		"an empty Subregion":   {object{"ModelName": "nvidia-p6", "SubregionName": ""}, "", apierror.SubregionNotFound},
		"a generation of none": {object{"ModelName": "nvidia-p6", "Generation": "5"}, "", apierror.InvalidValue},
	} {
		if test.request["SubregionName"] == nil {
			test.request["SubregionName"] = "test-1b"
		}
		answer, err := l.try(alice, "CreateFlexibleGpu", test.request)
		if test.code != 0 {
			if !test.code.Is(err) {
				t.Errorf("%s: %v, want %s", name, err, test.code)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		g := answer["FlexibleGpu"].(object)
		if g["Generation"] != test.generation || g["State"] != "allocated" || g["SubregionName"] != "test-1b" ||
			g["DeleteOnVmDeletion"] != false || g["VmId"] != nil {
			t.Errorf("%s: %v", name, g)
		}
	}
}

func TestGpusOfAllAccountsComeOutOfOneStock(t *testing.T) {
	t.Parallel()
	region := twoSubregions
	region.GpuCapacity = GpuCapacity{"test-1a": {"nvidia-p6": 3, "nvidia-k2": 1}}
	l := newRuleRegion(t, region, nil)
	var made [2][]string
	var wg sync.WaitGroup
	for i, account := range []string{alice, bob} {
		wg.Go(func() {
			for range 5 {
				answer, err := l.try(account, "CreateFlexibleGpu", object{"ModelName": "nvidia-p6", "SubregionName": "test-1a"})
				switch {
				case err == nil:
					made[i] = append(made[i], answer["FlexibleGpu"].(object)["FlexibleGpuId"].(string))
				case !apierror.InsufficientCapacity.Is(err):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(made[0]) + len(made[1]); n != 3 {
		t.Fatalf("%d of 3 were allocated: %v", n, made)
	}
	if got := len(l.texts("State", "FlexibleGpus", alice, "ReadFlexibleGpus", nil)) + len(l.texts("State", "FlexibleGpus", bob,
		"ReadFlexibleGpus", nil)); got != 3 {
		t.Errorf("%d are kept", got)
	}
	for _, other := range []object{{"SubregionName": "test-1b"}, {"ModelName": "nvidia-p100"}} {
		request := object{"ModelName": "nvidia-p6", "SubregionName": "test-1a"}
		for name, value := range other {
			request[name] = value
		}
		l.refused(apierror.InsufficientCapacity, alice, "CreateFlexibleGpu", request)
	}
	l.gpu(bob, object{"ModelName": "nvidia-k2"})

	// What one gives back, another can take.
	giver, taker, gpus := alice, bob, made[0]
	if len(gpus) == 0 {
		giver, taker, gpus = bob, alice, made[1]
	}
	l.call(giver, "DeleteFlexibleGpu", object{"FlexibleGpuId": gpus[0]})
	l.gpu(taker, nil)
	l.refused(apierror.InsufficientCapacity, giver, "CreateFlexibleGpu", object{"ModelName": "nvidia-p6", "SubregionName": "test-1a"})
}

func TestGpuQuota(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, map[string]int{"gpu_limit": 2})
	l.gpu(alice, nil)
	first := l.gpu(alice, object{"ModelName": "nvidia-k2"})
	l.refused(apierror.TooManyFlexibleGpus, alice, "CreateFlexibleGpu", object{"ModelName": "nvidia-p6", "SubregionName": "test-1a"})
	l.gpu(bob, nil)
	l.call(alice, "DeleteFlexibleGpu", object{"FlexibleGpuId": first})
	l.gpu(alice, nil)
}

func TestWhichVmsAGpuFits(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	typed := func(vmType string, cores, memory int) func(*Vm) {
		return func(vm *Vm) { vm.VmType, vm.Vcores, vm.Memory = vmType, cores, memory }
	}
	for name, test := range map[string]struct {
		gpu  object
		vm   func(*Vm)
		code apierror.Code
	}{
		"as it is":                    {nil, func(*Vm) {}, 0},
		"stopped":                     {nil, func(vm *Vm) { vm.State = VmStopped }, 0},
		"pending":                     {nil, func(vm *Vm) { vm.State = VmPending }, apierror.InvalidVmState},
		"stopping":                    {nil, func(vm *Vm) { vm.State = VmStopping }, apierror.InvalidVmState},
		"on its way out":              {nil, func(vm *Vm) { vm.State = VmShuttingDown }, apierror.InvalidVmState},
		"without its performance":     {nil, typed("tinav5.c2r4", 2, 4), 0},
		"of another generation":       {nil, typed("tinav6.c2r4p1", 2, 4), apierror.GpuMismatch},
		"of the asked-for generation": {object{"ModelName": "nvidia-a10", "Generation": "v6"}, typed("tinav6.c2r4p1", 2, 4), 0},
		"of an older generation": {object{"ModelName": "nvidia-a10", "Generation": "v6"}, typed("tinav5.c2r4p1", 2, 4),
			apierror.GpuMismatch},
		"of a three-digit generation": {object{"ModelName": "nvidia-h200", "Generation": "v104"}, typed("tinav104.c130r2300p1", 130, 2300), 0},
		"one of the vendor's aliases": {nil, typed("m4.large", 2, 8), apierror.GpuMismatch},
		"of a type with no form":      {nil, typed("tinav5", 2, 8), apierror.GpuMismatch},
		"with as many vCores":         {nil, typed("tinav5.c80r4p1", 80, 4), 0},
		"with too many vCores":        {nil, typed("tinav5.c81r4p1", 81, 4), apierror.GpuMismatch},
		"with as much memory":         {object{"ModelName": "nvidia-v100"}, typed("tinav5.c35r250p1", 35, 250), 0},
		"with too much memory":        {object{"ModelName": "nvidia-v100"}, typed("tinav5.c35r251p1", 35, 251), apierror.GpuMismatch},
		"of high performance":         {nil, func(vm *Vm) { vm.Performance = PerformanceHigh }, apierror.GpuMismatch},
		"in another Subregion":        {nil, func(vm *Vm) { vm.Placement.SubregionName = "test-1b" }, apierror.SubregionMismatch},
		"dedicated":                   {nil, func(vm *Vm) { vm.Placement.Tenancy = network.TenancyDedicated }, apierror.GpuMismatch},
		"in a dedicated group":        {nil, func(vm *Vm) { vm.Placement.Tenancy = "ded-12345678" }, apierror.GpuMismatch},
	} {
		vm, gpu := l.vm(alice, test.vm), l.gpu(alice, test.gpu)
		_, err := l.try(alice, "LinkFlexibleGpu", object{"FlexibleGpuId": gpu, "VmId": vm})
		want := "attaching " + string(vm)
		if test.code != 0 {
			want = "allocated"
		}
		if test.code == 0 && err != nil || test.code != 0 && !test.code.Is(err) || l.state(alice, gpu) != want {
			t.Errorf("a VM %s: %v, and it is %s; want %s and %s", name, err, l.state(alice, gpu), test.code, want)
		}
		l.end(alice, vm)
		l.call(alice, "DeleteFlexibleGpu", object{"FlexibleGpuId": gpu})
	}
}

func TestLinkAndUnlinkFlexibleGpu(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	vm, other, gpu := l.vm(alice), l.vm(alice), l.gpu(alice, nil)
	linked := func(vm id.Vm) object { return object{"FlexibleGpuId": gpu, "VmId": vm} }
	only := object{"FlexibleGpuId": gpu}
	expect := func(want string) {
		t.Helper()
		if got := l.state(alice, gpu); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
	has := func(want int) {
		t.Helper()
		l.view(alice, func(tx *resource.Tx) {
			if got := len(gpusIn(tx, vm)); got != want {
				t.Errorf("the VM has %d, want %d", got, want)
			}
		})
	}
	l.refused(apierror.InvalidState, alice, "UnlinkFlexibleGpu", only)
	l.call(alice, "LinkFlexibleGpu", linked(vm))
	expect("attaching " + string(vm))
	has(0)
	l.refused(apierror.InUse, alice, "LinkFlexibleGpu", linked(vm))
	l.refused(apierror.InUse, alice, "LinkFlexibleGpu", linked(other))
	if err := l.refused(apierror.InUse, alice, "DeleteFlexibleGpu", only); !strings.Contains(err.Error(), string(vm)) {
		t.Errorf("it does not say what it is linked to: %v", err)
	}

	// Before the VM has had it, it is free at once.
	l.call(alice, "UnlinkFlexibleGpu", only)
	expect("allocated")

	l.call(alice, "LinkFlexibleGpu", linked(vm))
	l.stop(alice, vm)
	expect("attaching " + string(vm))
	l.start(alice, vm)
	expect("attached " + string(vm))
	has(1)
	l.stop(alice, vm)
	expect("attached " + string(vm))
	l.start(alice, vm)
	expect("attached " + string(vm))

	l.call(alice, "UnlinkFlexibleGpu", only)
	expect("detaching " + string(vm))
	has(1)
	l.refused(apierror.InvalidState, alice, "UnlinkFlexibleGpu", only)
	l.refused(apierror.InUse, alice, "LinkFlexibleGpu", linked(other))
	l.refused(apierror.InUse, alice, "DeleteFlexibleGpu", only)
	l.stop(alice, vm)
	expect("allocated")
	has(0)

	// A VM that does not run gives it back at once.
	l.call(alice, "LinkFlexibleGpu", linked(vm))
	l.start(alice, vm)
	l.stop(alice, vm)
	expect("attached " + string(vm))
	l.call(alice, "UnlinkFlexibleGpu", only)
	expect("allocated")

	l.refused(apierror.VmNotFound, alice, "LinkFlexibleGpu", linked(l.vm(bob)))
	l.refused(apierror.FlexibleGpuNotFound, bob, "LinkFlexibleGpu", linked(l.vm(bob)))
	l.refused(apierror.FlexibleGpuNotFound, bob, "UnlinkFlexibleGpu", only)
	l.call(alice, "DeleteFlexibleGpu", only)
	expect("gone")
}

func TestGpusOfOneVmAreOfOneModel(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	vm := l.vm(alice)
	for _, gpu := range []string{l.gpu(alice, nil), l.gpu(alice, nil), l.gpu(alice, nil)} {
		l.call(alice, "LinkFlexibleGpu", object{"FlexibleGpuId": gpu, "VmId": vm})
	}
	l.refused(apierror.GpuMismatch, alice, "LinkFlexibleGpu",
		object{"FlexibleGpuId": l.gpu(alice, object{"ModelName": "nvidia-p100"}), "VmId": vm})
	l.start(alice, vm)
	if got := l.texts("State", "FlexibleGpus", alice, "ReadFlexibleGpus", object{"VmIds": []any{vm}}); !slices.Equal(got,
		[]string{"attached", "attached", "attached"}) {
		t.Errorf("they are %v", got)
	}
}

func TestWhatDeletingAVmDoesToItsGpus(t *testing.T) {
	t.Parallel()
	region := twoSubregions
	region.GpuCapacity = GpuCapacity{"test-1a": {"nvidia-p6": 1}}
	for name, test := range map[string]struct {
		goes, started, unlinked bool
		want                    string
	}{
		"stays":                   {false, true, false, "allocated"},
		"goes":                    {true, true, false, "gone"},
		"goes before it was in":   {true, false, false, "gone"},
		"stays before it was in":  {false, false, false, "allocated"},
		"does not go if unlinked": {true, true, true, "allocated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newRuleRegion(t, region, nil)
			vm, gpu := l.vm(alice), l.gpu(alice, nil)
			l.call(alice, "UpdateFlexibleGpu", object{"FlexibleGpuId": gpu, "DeleteOnVmDeletion": test.goes})
			l.call(alice, "LinkFlexibleGpu", object{"FlexibleGpuId": gpu, "VmId": vm})
			if test.started {
				l.start(alice, vm)
			}
			if test.unlinked {
				l.call(alice, "UnlinkFlexibleGpu", object{"FlexibleGpuId": gpu})
			}
			l.end(alice, vm)
			if got := l.state(alice, gpu); got != test.want {
				t.Errorf("it is %s, want %s", got, test.want)
			}
			if test.want == "gone" {
				l.gpu(bob, nil) // which others can have
			}
		})
	}
}

func TestUpdateFlexibleGpu(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	gpu := l.gpu(alice, object{"DeleteOnVmDeletion": true})
	if g := l.one("FlexibleGpu", alice, "UpdateFlexibleGpu", object{"FlexibleGpuId": gpu}); g["DeleteOnVmDeletion"] != true {
		t.Errorf("an update that asks for nothing: %v", g)
	}
	if g := l.one("FlexibleGpu", alice, "UpdateFlexibleGpu",
		object{"FlexibleGpuId": gpu, "DeleteOnVmDeletion": false}); g["DeleteOnVmDeletion"] != false {
		t.Errorf("%v", g)
	}
	l.refused(apierror.FlexibleGpuNotFound, bob, "UpdateFlexibleGpu", object{"FlexibleGpuId": gpu, "DeleteOnVmDeletion": true})
}

func TestFlexibleGpuFilters(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	vm := l.vm(alice)
	a := l.gpu(alice, object{"DeleteOnVmDeletion": true})
	b := l.gpu(alice, object{"ModelName": "nvidia-a10", "Generation": "v6"})
	c := l.gpu(alice, object{"SubregionName": "test-1b"})
	l.call(alice, "LinkFlexibleGpu", object{"FlexibleGpuId": a, "VmId": vm})
	l.Update(alice, func(tx *resource.Tx) error {
		tagged, _ := tx.Tagged(c)
		tx.SetTags(tagged, []resource.ResourceTag{{Key: "env", Value: "test"}})
		return nil
	})
	for name, test := range map[string]struct {
		filters object
		want    []string
	}{
		"nothing":         {nil, []string{a, b, c}},
		"goes":            {object{"DeleteOnVmDeletion": true}, []string{a}},
		"stays":           {object{"DeleteOnVmDeletion": false}, []string{b, c}},
		"ids":             {object{"FlexibleGpuIds": []any{b, c}}, []string{b, c}},
		"generations":     {object{"Generations": []any{"v6", "v7"}}, []string{b}},
		"models":          {object{"ModelNames": []any{"nvidia-p6"}}, []string{a, c}},
		"states":          {object{"States": []any{"attaching"}}, []string{a}},
		"Subregions":      {object{"SubregionNames": []any{"test-1b"}}, []string{c}},
		"VMs":             {object{"VmIds": []any{vm}}, []string{a}},
		"a tag":           {object{"Tags": []any{object{"Key": "env", "Value": "test"}}}, []string{c}},
		"a key":           {object{"Tags": []any{object{"Key": "env"}}}, []string{c}},
		"another value":   {object{"Tags": []any{object{"Key": "env", "Value": "live"}}}, []string{}},
		"one of two tags": {object{"Tags": []any{object{"Key": "owner"}, object{"Value": "test"}}}, []string{c}},
	} {
		if got := l.texts("FlexibleGpuId", "FlexibleGpus", alice, "ReadFlexibleGpus", test.filters); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	shown := l.call(alice, "ReadFlexibleGpus", object{"Filters": object{"FlexibleGpuIds": []any{c}}})["FlexibleGpus"].([]any)[0].(object)
	if got, want := fmt.Sprint(shown["Tags"]), "[map[Key:env ResourceId:"+c+" ResourceType:flexible-gpu Value:test]]"; got != want {
		t.Errorf("its tags are %s, want %s", got, want)
	}
}

// Whatever happens in whatever order, a flexible GPU has a VM exactly when its
// state says so, and the region counts as many as there are.
func TestAnyLifeOfGpus(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, Region{Subregions: twoSubregions.Subregions, GpuCapacity: GpuCapacity{"test-1a": {"nvidia-p6": 3}}}, nil)
	rapid.Check(t, func(t *rapid.T) {
		vms := []id.Vm{l.vm(alice), l.vm(alice)}
		var gpus []string
		gone := map[id.Vm]bool{}
		vm := func() id.Vm { return rapid.SampledFrom(vms).Draw(t, "VM") }
		gpu := func() string { return rapid.SampledFrom(append(gpus, "fgpu-00000000")).Draw(t, "GPU") }
		do := func(action string, request object) object {
			answer, err := l.try(alice, action, request)
			if apierror.From(err).Code == apierror.Internal && err != nil {
				t.Fatalf("%s %v: %v", action, request, err)
			}
			return answer
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				answer := do("CreateFlexibleGpu", object{"ModelName": "nvidia-p6", "SubregionName": "test-1a",
					"DeleteOnVmDeletion": rapid.Bool().Draw(t, "goes")})
				if answer != nil {
					gpus = append(gpus, answer["FlexibleGpu"].(object)["FlexibleGpuId"].(string))
				}
			case 1:
				do("LinkFlexibleGpu", object{"FlexibleGpuId": gpu(), "VmId": vm()})
			case 2:
				do("UnlinkFlexibleGpu", object{"FlexibleGpuId": gpu()})
			case 3:
				do("DeleteFlexibleGpu", object{"FlexibleGpuId": gpu()})
			case 4:
				if v := vm(); !gone[v] {
					l.start(alice, v)
				}
			case 5:
				if v := vm(); !gone[v] {
					l.stop(alice, v)
				}
			case 6:
				if v := vm(); !gone[v] {
					l.end(alice, v)
					gone[v] = true
				}
			}
			l.view(alice, func(tx *resource.Tx) {
				count := 0
				for g := range FlexibleGpus.All(tx) {
					count++
					if (g.VmId == "") != (g.State == GpuAllocated) || g.VmId != "" && !Vms.Has(tx, g.VmId) {
						t.Errorf("%s is %s and has the VM %q", g.FlexibleGpuId, g.State, g.VmId)
					}
				}
				if used := allocatedGpus.Count(tx.In((&Gpu{SubregionName: "test-1a", ModelName: "nvidia-p6"}).shelf())); used != count {
					t.Errorf("%d are counted, and there are %d", used, count)
				}
			})
		}
		for _, v := range vms {
			if !gone[v] {
				l.end(alice, v)
			}
		}
		for _, g := range gpus {
			do("DeleteFlexibleGpu", object{"FlexibleGpuId": g})
		}
	})
}
