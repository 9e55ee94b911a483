package compute

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// group makes a dedicated group.
func (l *ruleRegion) group(account string, with object) string {
	l.Helper()
	request := object{"CpuGeneration": 5, "Name": "group", "SubregionName": "test-1a"}
	for name, value := range with {
		request[name] = value
	}
	return l.one("DedicatedGroup", account, "CreateDedicatedGroup", request)["DedicatedGroupId"].(string)
}

// in places a VM in a dedicated group.
func in(group string) func(*Vm) {
	return func(vm *Vm) {
		vm.Placement.Tenancy, vm.DedicatedGroupId = network.Tenancy(group), id.DedicatedGroup(group)
	}
}

func TestCreateDedicatedGroup(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	g := l.one("DedicatedGroup", alice, "CreateDedicatedGroup", object{"CpuGeneration": 4, "Name": "a group", "SubregionName": "test-1b"})
	if got := fmt.Sprintln(g["AccountId"], g["CpuGeneration"], g["Name"], g["SubregionName"], g["NetIds"],
		g["VmIds"]); got != alice+" 4 a group test-1b [] []\n" {
		t.Errorf("made is %s", got)
	}
	for name, test := range map[string]struct {
		with object
		code apierror.Code
	}{
		"no such Subregion":      {object{"SubregionName": "test-1c"}, apierror.SubregionNotFound},
		"no generation":          {object{"CpuGeneration": 0}, apierror.InvalidValue},
		"a generation not known": {object{"CpuGeneration": 8}, apierror.InvalidValue},
		"no name":                {object{"Name": ""}, apierror.InvalidLength},
		"a long name":            {object{"Name": strings.Repeat("é", 256)}, apierror.InvalidLength},
	} {
		request := object{"CpuGeneration": 4, "Name": strings.Repeat("é", 255), "SubregionName": "test-1b"}
		for k, v := range test.with {
			request[k] = v
		}
		if _, err := l.try(alice, "CreateDedicatedGroup", request); !test.code.Is(err) {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
	l.group(alice, object{"Name": strings.Repeat("é", 255)})
}

func TestDedicatedServersAreLimited(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, map[string]int{"dedicated_server_limit": 1})
	l.group(alice, nil)
	l.refused(apierror.TooManyVms, alice, "CreateDedicatedGroup", object{"CpuGeneration": 4, "Name": "two", "SubregionName": "test-1b"})
	l.group(bob, nil)
}

func TestDedicatedGroupFilters(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	a, b := l.group(alice, object{"Name": "a"}), l.group(alice, object{"Name": "b", "CpuGeneration": 6, "SubregionName": "test-1b"})
	l.group(bob, nil)
	for name, test := range map[string]struct {
		filters object
		want    []string
	}{
		"nothing":     {nil, []string{a, b}},
		"generations": {object{"CpuGenerations": []any{6, 7}}, []string{b}},
		"ids":         {object{"DedicatedGroupIds": []any{a}}, []string{a}},
		"names":       {object{"Names": []any{"b", "c"}}, []string{b}},
		"Subregions":  {object{"SubregionNames": []any{"test-1a"}}, []string{a}},
	} {
		if got := l.texts("DedicatedGroupId", "DedicatedGroups", alice, "ReadDedicatedGroups", test.filters); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestWhatIsInADedicatedGroup(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	a, b := l.group(alice, object{"Name": "a"}), l.group(alice, object{"Name": "b"})
	vm, _ := l.vm(alice, in(a)), l.vm(alice)
	net := l.one("Net", alice, "CreateNet", object{"IpRange": "10.0.0.0/16", "Tenancy": a})
	if net["Tenancy"] != a {
		t.Errorf("the tenancy of the Net is %v", net["Tenancy"])
	}
	l.call(alice, "CreateNet", object{"IpRange": "10.0.0.0/16", "Tenancy": "dedicated"})
	l.refused(apierror.ObjectNotFound, alice, "CreateNet", object{"IpRange": "10.0.0.0/16", "Tenancy": "ded-00000000"})
	l.refused(apierror.ObjectNotFound, bob, "CreateNet", object{"IpRange": "10.0.0.0/16", "Tenancy": a})
	l.refused(apierror.InvalidTenancy, alice, "CreateNet", object{"IpRange": "10.0.0.0/16", "Tenancy": "ded-1"})
	l.refused(apierror.InvalidTenancy, alice, "CreateNet", object{"IpRange": "10.0.0.0/16", "Tenancy": "mine"})
	renamed := l.one("DedicatedGroup", alice, "UpdateDedicatedGroup", object{"DedicatedGroupId": a, "Name": "c"})
	if got, want := fmt.Sprintln(renamed["Name"], renamed["VmIds"], renamed["NetIds"]), fmt.Sprintln("c", []any{vm},
		[]any{net["NetId"]}); got != want {
		t.Errorf("in it is %s, want %s", got, want)
	}
	other := l.one("DedicatedGroup", alice, "UpdateDedicatedGroup", object{"DedicatedGroupId": b, "Name": "b"})
	if got := fmt.Sprint(other["VmIds"], other["NetIds"]); got != "[] []" {
		t.Errorf("in the other is %s", got)
	}
}

func TestDeleteDedicatedGroup(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	a := l.group(alice, nil)
	vms := []id.Vm{l.vm(alice, in(a)), l.vm(alice, in(a), func(vm *Vm) { vm.State = VmStopped }), l.vm(alice)}
	net := l.one("Net", alice, "CreateNet", object{"IpRange": "10.0.0.0/16", "Tenancy": a})["NetId"].(string)
	subnet := l.one("Subnet", alice, "CreateSubnet", object{"NetId": net, "IpRange": "10.0.0.0/24"})["SubnetId"].(string)
	for _, group := range []string{a, "ded-00000000"} {
		l.refused(apierror.ObjectNotFound, bob, "DeleteDedicatedGroup", object{"DedicatedGroupId": group, "Force": true})
	}
	err := l.refused(apierror.InUse, alice, "DeleteDedicatedGroup", object{"DedicatedGroupId": a})
	for _, want := range []string{string(vms[0]), string(vms[1]), net} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say that %s is in it: %v", want, err)
		}
	}
	protect := func(on bool) {
		l.change(alice, vms[0], func(_ *resource.Tx, vm *Vm) error { vm.DeletionProtection = on; return nil })
	}
	force := object{"DedicatedGroupId": a, "Force": true}
	protect(true)
	l.refused(apierror.DeletionProtected, alice, "DeleteDedicatedGroup", force)
	protect(false)
	l.refused(apierror.NetInUse, alice, "DeleteDedicatedGroup", force)
	if states := l.vmStates(alice, vms); states != "running stopped running" {
		t.Errorf("a refusal left the VMs %s", states)
	}
	l.call(alice, "DeleteSubnet", object{"SubnetId": subnet})
	l.call(alice, "DeleteDedicatedGroup", force)
	if states := l.vmStates(alice, vms); states != "shutting-down shutting-down running" {
		t.Errorf("the VMs are %s", states)
	}
	if left := l.texts("NetId", "Nets", alice, "ReadNets", object{"States": []string{"available"}}); len(left) > 0 {
		t.Errorf("the Nets %v are left", left)
	}
	if left := l.texts("Name", "DedicatedGroups", alice, "ReadDedicatedGroups", nil); len(left) > 0 {
		t.Errorf("the groups %v are left", left)
	}
}

// vmStates are the states of VMs.
func (l *ruleRegion) vmStates(account string, vms []id.Vm) string {
	l.Helper()
	var states []string
	l.view(account, func(tx *resource.Tx) {
		states = nil
		for _, vmID := range vms {
			vm, err := Vms.Get(tx, vmID)
			if err != nil {
				l.Fatal(err)
			}
			states = append(states, string(vm.State))
		}
	})
	return strings.Join(states, " ")
}

// VMs that are on their way out do not keep a group.
func TestAGroupOfTerminatedVms(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	a := l.group(alice, nil)
	vm := l.vm(alice, in(a), func(vm *Vm) { vm.State = VmShuttingDown })
	l.vm(alice, in(a))
	l.end(alice, vm)
	l.refused(apierror.InUse, alice, "DeleteDedicatedGroup", object{"DedicatedGroupId": a})
	l.call(alice, "DeleteDedicatedGroup", object{"DedicatedGroupId": a, "Force": true})
}

func TestManyInADedicatedGroup(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	a := l.group(alice, nil)
	for range 7 {
		l.vm(alice, in(a))
	}
	err := l.refused(apierror.InUse, alice, "DeleteDedicatedGroup", object{"DedicatedGroupId": a})
	if n := strings.Count(err.Error(), "i-"); n != 5 || !strings.Contains(err.Error(), "2 more") {
		t.Errorf("%v", err)
	}
}

func TestWhoMayBeInADedicatedGroup(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	a := l.group(alice, nil)
	for name, test := range map[string]struct {
		account, vmType, subregion string
		tenancy                    string
		code                       apierror.Code
	}{
		"a VM that fits":               {alice, "tinav5.c1r1p1", "test-1a", a, 0},
		"one of no generation":         {alice, "t2.small", "test-1a", a, 0},
		"one of another generation":    {alice, "tinav6.c1r1p1", "test-1a", a, apierror.InvalidParameter},
		"one in another Subregion":     {alice, "tinav5.c1r1p1", "test-1b", a, apierror.SubregionMismatch},
		"one of another account":       {bob, "tinav5.c1r1p1", "test-1a", a, apierror.ObjectNotFound},
		"a group that is not there":    {alice, "tinav5.c1r1p1", "test-1a", "ded-00000000", apierror.ObjectNotFound},
		"one that shares":              {alice, "tinav6.c1r1p1", "test-1b", "default", 0},
		"one that is alone":            {alice, "tinav6.c1r1p1", "test-1b", "dedicated", 0},
		"one whose tenancy is unknown": {alice, "tinav6.c1r1p1", "test-1b", "", 0},
	} {
		vm := &Vm{VmType: test.vmType, Placement: Placement{test.subregion, network.Tenancy(test.tenancy)}}
		l.view(test.account, func(tx *resource.Tx) {
			if err := vm.joinDedicatedGroup(tx); test.code == 0 && err != nil || test.code != 0 && !test.code.Is(err) {
				t.Errorf("%s: %v, want %s", name, err, test.code)
			}
		})
	}
}
