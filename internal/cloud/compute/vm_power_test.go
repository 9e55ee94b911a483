package compute

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestVmStateCodes(t *testing.T) {
	t.Parallel()
	for state := range vmLife {
		if _, ok := vmStateCodes[state]; !ok && state != "" {
			t.Errorf("the state %s has no number", state)
		}
	}
}

// in makes a VM in a state, by calls alone.
func (l *testRegion) in(account string, state VmStateName) string {
	l.Helper()
	vm := l.vms(account, "")[0].Text("VmId")
	l.advance(delay) // its disk is made: the driver hears of the VM, and one that it does not know would end at once
	ids := fmt.Sprintf(`{"VmIds": [%q]}`, vm)
	if state != VmPending {
		l.act()
	}
	for _, s := range map[VmStateName][]string{
		VmStopping: {"StopVms"}, VmStopped: {"StopVms", ""}, VmShuttingDown: {"DeleteVms"}, VmTerminated: {"DeleteVms", ""},
	}[state] {
		if s == "" {
			l.act()
		} else {
			l.Call(account, s, "%s", ids)
		}
	}
	if got := l.state(account, vm); got != string(state) {
		l.Fatalf("the VM is %s, want %s", got, state)
	}
	return vm
}

func TestPowerInEachState(t *testing.T) {
	t.Parallel()
	wrong := apierror.InvalidState
	tests := map[VmStateName]map[string]any{ // the state that follows, or the refusal
		VmPending:      {"StartVms": VmPending, "StopVms": apierror.VmNeverStarted, "RebootVms": wrong, "DeleteVms": VmShuttingDown},
		VmRunning:      {"StartVms": VmRunning, "StopVms": VmStopping, "RebootVms": VmRunning, "DeleteVms": VmShuttingDown},
		VmStopping:     {"StartVms": wrong, "StopVms": VmStopping, "RebootVms": wrong, "DeleteVms": VmShuttingDown},
		VmStopped:      {"StartVms": VmPending, "StopVms": VmStopped, "RebootVms": wrong, "DeleteVms": VmShuttingDown},
		VmShuttingDown: {"StartVms": wrong, "StopVms": wrong, "RebootVms": wrong, "DeleteVms": VmShuttingDown},
		VmTerminated:   {"StartVms": wrong, "StopVms": wrong, "RebootVms": wrong, "DeleteVms": VmTerminated},
	}
	for state, calls := range tests {
		for action, want := range calls {
			t.Run(fmt.Sprint(action, " ", state), func(t *testing.T) {
				t.Parallel()
				l := newVmRegion(t)
				vm := l.in(anna, state)
				if code, ok := want.(apierror.Code); ok {
					l.refuse(code, anna, action, `{"VmIds": [%q]}`, vm)
					return
				}
				answer := l.Call(anna, action, `{"VmIds": [%q, %[1]q]}`, vm)
				if action != "RebootVms" {
					if got := answer.Objects("Vms"); len(got) != 1 || got[0].Text("PreviousState") != string(state) ||
						got[0].Text("CurrentState") != fmt.Sprint(want) {
						t.Errorf("the answer is %v", answer)
					}
				}
				if got := l.state(anna, vm); got != fmt.Sprint(want) {
					t.Errorf("it is %s then, want %s", got, want)
				}
			})
		}
	}
}

func TestPowerIsAllOrNothing(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	running, stopped, theirs := l.in(anna, VmRunning), l.in(anna, VmStopped), l.in(ben, VmRunning)
	protected := l.vms(anna, `"DeletionProtection": true`)[0].Text("VmId")
	l.act()
	l.refuse(apierror.InvalidState, anna, "RebootVms", `{"VmIds": [%q, %q]}`, running, stopped)
	l.refuse(apierror.DeletionProtected, anna, "DeleteVms", `{"VmIds": [%q, %q]}`, running, protected)
	l.refuse(apierror.VmNotFound, anna, "StopVms", `{"VmIds": [%q, %q]}`, running, theirs)
	l.refuse(apierror.VmNotFound, anna, "DeleteVms", `{"VmIds": [%q, "i-00000000"]}`, running)
	for _, action := range []string{"StartVms", "StopVms", "RebootVms", "DeleteVms"} {
		l.refuse(apierror.MissingParameter, anna, action, `{"VmIds": []}`)
		l.refuse(apierror.MissingParameter, anna, action, `{}`)
	}
	l.Call(anna, "UpdateVm", `{"VmId": %q, "DeletionProtection": false}`, protected)
	l.Call(anna, "DeleteVms", `{"VmIds": [%q, %q]}`, protected, running)
}

func TestRebootStartsAnew(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	vm := l.in(anna, VmRunning)
	before := l.inWorld(anna, vm).Boots
	l.Call(anna, "RebootVms", `{"VmIds": [%q]}`, vm)
	l.act()
	if m := l.inWorld(anna, vm); !m.On || m.Boots != before+1 {
		t.Errorf("after a reboot it is %+v", m)
	}
	if len(l.Call(anna, "ReadVmsStopHistory", `{}`).Objects("VmsStopHistory")) != 0 {
		t.Error("a reboot is a stop")
	}
}

// A guest that does not listen is turned off by force.
func TestForcedStop(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	vm := l.in(anna, VmRunning)
	l.drivers.DeafenGuest(anna, vm)
	l.Call(anna, "StopVms", `{"VmIds": [%q]}`, vm)
	l.act()
	if got := l.state(anna, vm); got != "stopping" {
		t.Errorf("with a guest that does not listen, it is %s", got)
	}
	l.Call(anna, "StopVms", `{"VmIds": [%q], "ForceStop": true}`, vm)
	l.Call(anna, "StopVms", `{"VmIds": [%q]}`, vm) // which does not take back the force
	l.act()
	if got := l.read(anna, "ReadVms", "VmIds", vm); got.Text("State") != "stopped" || got.Text("StateReason") != "Client.ApiForcedShutdown" {
		t.Errorf("it is %s for %s", got["State"], got["StateReason"])
	}
}

func TestStopAndPublicIps(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, net := l.subnet(anna)
	internet := l.One(anna, "CreateInternetService", `{}`).Text("InternetServiceId")
	l.Call(anna, "LinkInternetService", `{"InternetServiceId": %q, "NetId": %q}`, internet, net)
	address := func() string { return l.One(anna, "CreatePublicIp", `{}`).Text("PublicIp") }
	cloud, fixed, inNet := l.in(anna, VmRunning), l.in(anna, VmRunning), l.vmIn(anna, `"SubnetId": %q`, subnet)
	stays := address()
	for vm, ip := range map[string]string{fixed: stays, inNet: address()} {
		l.Call(anna, "LinkPublicIp", `{"VmId": %q, "PublicIp": %q}`, vm, ip)
	}
	l.Update(anna, func(tx *resource.Tx) error {
		tagged, _ := tx.Tagged(fixed)
		tx.SetTags(tagged, []api.Tag{{Key: fixedIPTag, Value: stays}})
		return nil
	})
	first := l.read(anna, "ReadVms", "VmIds", cloud).Text("PublicIp")
	l.act()
	ids := fmt.Sprintf(`{"VmIds": [%q, %q, %q]}`, cloud, fixed, inNet)
	l.Call(anna, "StopVms", "%s", ids)
	l.act()
	l.Selects(l.list(anna, "ReadVms", `{"VmIds": [%q, %q, %q]}`, cloud, fixed, inNet), "PublicIp", "<nil>", stays, "<nil>")
	l.Selects(l.list(anna, "ReadPublicIps", `{"VmIds": [%q, %q]}`, fixed, inNet), "PublicIp", stays)
	l.Call(anna, "StartVms", "%s", ids)
	l.act()
	now := cloudtest.Texts(l.list(anna, "ReadVms", `{"VmIds": [%q, %q, %q]}`, cloud, fixed, inNet), "PublicIp")
	if now[0] == "<nil>" || now[0] == first || now[1] != stays || now[2] != "<nil>" {
		t.Errorf("the public IP %s became %s; the others are %q", first, now[0], now[1:])
	}
	if m := l.inWorld(anna, cloud); m.Nics[0].Public.String() != now[0] {
		t.Errorf("the driver has %s", m.Nics[0].Public)
	}
	// One that was taken away meanwhile comes back if it is free.
	l.Call(anna, "UnlinkPublicIp", `{"PublicIp": %q}`, stays)
	l.Call(anna, "StopVms", "%s", ids)
	l.act()
	l.Call(anna, "StartVms", "%s", ids)
	l.act()
	if got := l.read(anna, "ReadVms", "VmIds", fixed).Text("PublicIp"); got != stays {
		t.Errorf("the VM that shall have %s has %s", stays, got)
	}
}

func TestTerminationTakesAlong(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	vm := l.vms(anna, `"VmType": "tinav5.c2r2p1", "BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Bsu": {"VolumeSize": 1,
		"DeleteOnVmDeletion": false}}]`)[0]
	l.act()
	later := l.One(anna, "CreateVolume", `{"SubregionName": "test-1a", "Size": 3}`).Text("VolumeId")
	gpu := func(goes bool) string {
		return l.One(anna, "CreateFlexibleGpu", `{"ModelName": "nvidia-p6", "SubregionName": "test-1a", "DeleteOnVmDeletion": %t}`,
			goes).Text("FlexibleGpuId")
	}
	goes, stays := gpu(true), gpu(false)
	l.act()
	id := vm.Text("VmId")
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/sdc"}`, later, id)
	for _, g := range []string{goes, stays} {
		l.Call(anna, "LinkFlexibleGpu", `{"FlexibleGpuId": %q, "VmId": %q}`, g, id)
	}
	l.Call(anna, "StopVms", `{"VmIds": [%q], "ForceStop": true}`, id)
	l.act()
	l.Call(anna, "StartVms", `{"VmIds": [%q]}`, id)
	l.act()
	l.Selects(l.list(anna, "ReadFlexibleGpus", `{"VmIds": [%q]}`, id), "State", "attached", "attached")
	if m := l.inWorld(anna, id); len(m.Gpus) != 2 || len(m.Disks) != 3 {
		t.Errorf("the driver has %+v", m)
	}
	ip := l.One(anna, "CreatePublicIp", `{}`).Text("PublicIp")
	l.Call(anna, "LinkPublicIp", `{"VmId": %q, "PublicIp": %q}`, id, ip)
	l.Call(anna, "StopVms", `{"VmIds": [%q], "ForceStop": true}`, id)
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, id) // as clients do, without waiting
	l.act()
	if got := l.read(anna, "ReadVms", "VmIds", id); got.Text("State") != "terminated" || len(got.Objects("BlockDeviceMappings")) != 0 {
		t.Errorf("it ends as %v", got)
	} else {
		l.Shows(without(got, "BootMode", "CreationDate", "ImageId", "ReservationId", "VmId"),
			`{"ActionsOnNextBoot": {}, "Architecture": "x86_64", "BlockDeviceMappings": [],
			"BsuOptimized": false, "DeletionProtection": false, "Hypervisor": "xen", "IsSourceDestChecked": false, "KeypairName": "",
				"LaunchNumber": 0,
			"NestedVirtualization": false, "Performance": "highest", "Placement": {"SubregionName": "test-1a", "Tenancy": "default"},
				"ProductCodes": ["0001"],
			"RootDeviceName": "/dev/sda1", "RootDeviceType": "ebs", "ShutdownBehaviorConfiguration": {"GuestAction": "stop", "HostAction": "stop"},
			"State": "terminated", "StateReason": "Client.ApiForcedShutdown", "Tags": [], "TpmEnabled": false, "UserData": "",
			"VmInitiatedShutdownBehavior": "stop", "VmType": "tinav5.c2r2p1"}`)
	}
	l.Selects(l.list(anna, "ReadVolumes", `{}`), "Size", "1", "3")
	l.Selects(l.list(anna, "ReadVolumes", `{}`), "State", "available", "available")
	l.Selects(l.list(anna, "ReadFlexibleGpus", `{}`), "FlexibleGpuId", stays)
	l.Selects(l.list(anna, "ReadFlexibleGpus", `{}`), "State", "allocated")
	l.Selects(l.list(anna, "ReadPublicIps", `{}`), "NicId", "<nil>")
	if l.inWorld(anna, id) != nil {
		t.Error("the driver still has it")
	}
	l.settle()
	l.Selects(l.list(anna, "ReadVms", `{}`), "VmId")
	l.refuse(apierror.VmNotFound, anna, "DeleteVms", `{"VmIds": [%q]}`, id)
	l.View(anna, func(tx *resource.Tx) error {
		for n := range network.Nics.All(tx) {
			t.Errorf("the NIC %s is left", n.NicId)
		}
		return nil
	})
}

func TestShutdownBehavior(t *testing.T) {
	t.Parallel()
	guest := func(l *testRegion, vm string) { l.drivers.ShutDownGuest(anna, vm) }
	host := func(l *testRegion, vm string) { l.drivers.FailHost(anna, vm) }
	stop := func(l *testRegion, vm string) { l.Call(anna, "StopVms", `{"VmIds": [%q]}`, vm) }
	tests := []struct {
		name, setting string
		happens       func(*testRegion, string)
		state, reason string
		views         string
	}{
		{"guest, by default", ``, guest, "stopped", "Client.InstanceInitiatedShutdown", "stop stop stop"},
		{"guest, restart", `"VmInitiatedShutdownBehavior": "restart"`, guest, "running", "", "restart stop restart"},
		{"guest, terminate", `"VmInitiatedShutdownBehavior": "terminate"`, guest, "terminated", "Client.InstanceInitiatedShutdown",
			"terminate terminate stop"},
		{"guest, terminate and restart", `"ShutdownBehaviorConfiguration": {"GuestAction": "terminate", "HostAction": "restart"}`, guest,
			"terminated", "Client.InstanceInitiatedShutdown", "terminate terminate restart"},
		{"guest, stop and restart", `"ShutdownBehaviorConfiguration": {"HostAction": "restart"}`, guest, "stopped",
			"Client.InstanceInitiatedShutdown", "stop stop restart"},
		{"guest, terminate although protected", `"VmInitiatedShutdownBehavior": "terminate", "DeletionProtection": true`, guest, "terminated",
			"Client.InstanceInitiatedShutdown", "terminate terminate stop"},
		{"host, by default", ``, host, "stopped", "Server.InternalError", "stop stop stop"},
		{"host, restart", `"ShutdownBehaviorConfiguration": {"HostAction": "restart"}`, host, "running", "", "stop stop restart"},
		{"host, terminate is for guests", `"VmInitiatedShutdownBehavior": "terminate"`, host, "stopped", "Server.InternalError",
			"terminate terminate stop"},
		{"call, by default", ``, stop, "stopped", "Client.ApiGracefulShutdown", "stop stop stop"},
		{"call, restart", `"VmInitiatedShutdownBehavior": "restart"`, stop, "running", "", "restart stop restart"},
		{"call, host restart", `"ShutdownBehaviorConfiguration": {"HostAction": "restart"}`, stop, "stopped", "Client.ApiGracefulShutdown",
			"stop stop restart"},
		{"call, terminate although protected", `"VmInitiatedShutdownBehavior": "terminate", "DeletionProtection": true`, stop, "stopped",
			"Client.ApiGracefulShutdown", "terminate terminate stop"},
		{"call, terminate", `"VmInitiatedShutdownBehavior": "terminate"`, stop, "terminated", "Client.ApiGracefulShutdown",
			"terminate terminate stop"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newVmRegion(t)
			vm := l.vms(anna, "%s", test.setting)[0].Text("VmId")
			l.act()
			test.happens(l, vm)
			l.loops.LookAgain()
			l.act()
			v := l.read(anna, "ReadVms", "VmIds", vm)
			if v.Text("State") != test.state || v.Text("StateReason") != test.reason {
				t.Errorf("it is %s for %q, want %s for %q", v["State"], v["StateReason"], test.state, test.reason)
			}
			config := v.Object("ShutdownBehaviorConfiguration")
			if got := fmt.Sprint(v["VmInitiatedShutdownBehavior"], " ", config["GuestAction"], " ", config["HostAction"]); got != test.views {
				t.Errorf("the behavior is %s, want %s", got, test.views)
			}
			if m := l.inWorld(anna, vm); m != nil && m.On != (test.state == "running") || (m == nil) != (test.state == "terminated") {
				t.Errorf("the driver has %+v", m)
			}
		})
	}
}

func TestNoRoom(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	l.drivers.Limit(sim.Room{Subregion: "test-1a", Cores: 2, Memory: 8})
	first, second := l.vms(anna, `"VmType": "tinav5.c2r2"`)[0].Text("VmId"), l.vms(anna, `"VmType": "tinav5.c2r2"`)[0].Text("VmId")
	l.act()
	got := cloudtest.Texts(l.list(anna, "ReadVms", `{}`), "State")
	if strings.Join(sorted(got), " ") != "running stopped" {
		t.Fatalf("with room for one of two, they are %q", got)
	}
	if l.state(anna, first) == "stopped" {
		first, second = second, first
	}
	if v := l.read(anna, "ReadVms", "VmIds", second); v.Text("StateReason") != "Server.InsufficientInstanceCapacity" ||
		v.Text("PublicIp") != "<nil>" {
		t.Errorf("the one without room is %v", v)
	}
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, first)
	l.act()
	l.Call(anna, "StartVms", `{"VmIds": [%q]}`, second)
	l.act()
	if v := l.read(anna, "ReadVms", "VmIds", second); v.Text("State") != "running" || v.Text("StateReason") != "" {
		t.Errorf("once there is room, it is %v", v)
	}
}

// A VM does not run before its NICs and disks are in the driver.
func TestVmWaits(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, _ := l.subnet(anna)
	l.act()
	broken := map[string]bool{"EnsureNet": true, "EnsureDisk": true}
	l.drivers.Fail(func(op string) error {
		if broken[op] {
			return errors.New("it is broken")
		}
		return nil
	})
	vm := l.vms(anna, `"SubnetId": %q`, subnet)[0].Text("VmId")
	waits := func(for_ string) {
		t.Helper()
		l.act()
		if l.state(anna, vm) != "pending" || l.inWorld(anna, vm) != nil {
			t.Errorf("without %s, it is %s", for_, l.state(anna, vm))
		}
	}
	waits("its Net and its disk")
	l.drivers.Fail(func(op string) error {
		if op == "EnsureNet" {
			return errors.New("it is broken")
		}
		return nil
	})
	for range 20 {
		l.act()
	}
	waits("its Net")
	l.drivers.Fail(nil)
	for range 20 {
		l.act()
	}
	if got := l.state(anna, vm); got != "running" {
		t.Errorf("with all that it needs, it is %s", got)
	}
}

// What is linked to a VM that runs reaches its machine.
func TestLinksReachTheMachine(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, _ := l.subnet(anna)
	vm := l.vmIn(anna, `"SubnetId": %q`, subnet)
	nic := l.One(anna, "CreateNic", `{"SubnetId": %q}`, subnet).Text("NicId")
	link := l.Call(anna, "LinkNic", `{"NicId": %q, "VmId": %q, "DeviceNumber": 1}`, nic, vm).Text("LinkNicId")
	has := func(want int) {
		t.Helper()
		l.act()
		if m := l.inWorld(anna, vm); len(m.Nics) != want || l.state(anna, vm) != "running" {
			t.Errorf("the machine has the NICs %+v, want %d", m.Nics, want)
		}
	}
	has(2)
	l.Call(anna, "UnlinkNic", `{"LinkNicId": %q}`, link)
	has(1)
	l.refuse(apierror.VmNotFound, anna, "LinkNic", `{"NicId": %q, "VmId": "i-00000000", "DeviceNumber": 1}`, nic)
	cloud := l.in(anna, VmRunning)
	ip := l.One(anna, "CreatePublicIp", `{}`).Text("PublicIp")
	l.Call(anna, "LinkPublicIp", `{"VmId": %q, "PublicIp": %q}`, cloud, ip)
	l.act()
	if m := l.inWorld(anna, cloud); m.Nics[0].Public.String() != ip {
		t.Errorf("the machine has the public IP %s, want %s", m.Nics[0].Public, ip)
	}
}

func TestStopHistory(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	first, second := l.in(anna, VmStopped), l.in(anna, VmRunning)
	at := l.Clock.Now().Format("2006-01-02T15:04:05.000Z")
	l.Call(anna, "StopVms", `{"VmIds": [%q], "ForceStop": true}`, second)
	l.act()
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, first)
	l.advance(2 * Vms.Retention) // the stops of a VM are known when the VM is not
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, second}},
		{fmt.Sprintf(`{"VmIds": [%q, "i-00000000"]}`, second), []string{second}},
		{`{"StateReasons": ["Client.ApiGracefulShutdown"]}`, []string{first}},
		{`{"StateReasons": ["Client.*"]}`, []string{first, second}},
		{`{"StateReasons": ["Server.*"]}`, nil},
		{fmt.Sprintf(`{"StopDateAfter": %q}`, at), []string{second}},
		{fmt.Sprintf(`{"StopDateBefore": %q}`, at), []string{first}},
		{`{"StopDateAfter": "2026-11-21"}`, nil},
	}
	for _, test := range tests {
		l.Selects(l.list(anna, "ReadVmsStopHistory", "%s", test.filters), "VmId", test.want...)
	}
	l.Selects(l.list(ben, "ReadVmsStopHistory", `{}`), "VmId")
	l.advance(vmStops.Retention)
	l.Selects(l.list(anna, "ReadVmsStopHistory", `{}`), "VmId")
}

func TestVmsState(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	running, stopped := l.in(anna, VmRunning), l.in(anna, VmStopped)
	gone := l.in(anna, VmTerminated)
	all := func(request string, want ...string) {
		t.Helper()
		l.Selects(l.Call(anna, "ReadVmsState", "%s", request).Objects("VmStates"), "VmId", want...)
	}
	all(`{}`, running)
	all(`{"AllVms": true}`, running, stopped, gone)
	all(fmt.Sprintf(`{"Filters": {"VmIds": [%q]}}`, stopped))
	all(fmt.Sprintf(`{"AllVms": true, "Filters": {"VmIds": [%q]}}`, stopped), stopped)
	all(`{"AllVms": true, "Filters": {"VmStates": ["terminated"]}}`, gone)
	all(`{"AllVms": true, "Filters": {"SubregionNames": ["test-1b"]}}`)
	all(`{"AllVms": true, "Filters": {"MaintenanceEventCodes": ["system-reboot"]}}`)
	all(`{"AllVms": true, "ResultsPerPage": 1}`, running)
	l.Shows(l.Call(anna, "ReadVmsState", `{}`).Objects("VmStates")[0],
		`{"MaintenanceEvents": [], "SubregionName": "test-1a", "VmId": %q, "VmState": "running"}`, running)
}

func TestConsoleAndPassword(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	vm := l.in(anna, VmRunning)
	text := l.Call(anna, "ReadConsoleOutput", `{"VmId": %q}`, vm).Text("ConsoleOutput")
	if console, err := base64.StdEncoding.DecodeString(text); err != nil || string(console) != string(l.inWorld(anna,
		vm).Console) || len(console) == 0 {
		t.Errorf("the console is %q, %v", console, err)
	}
	// A machine that the driver has lost comes back to whoever looks at it.
	l.drivers.RemoveMachine(l.Context(), anna, vm)
	l.act()
	for _, there := range []bool{false, true} {
		if got := l.Call(anna, "ReadConsoleOutput", `{"VmId": %q}`, vm).Text("ConsoleOutput"); (got != "") != there {
			t.Errorf("the console of a lost machine is %q", got)
		}
		l.act()
	}
	l.refuse(apierror.VmNotFound, ben, "ReadConsoleOutput", `{"VmId": %q}`, vm)
	l.refuse(apierror.VmNotFound, ben, "ReadAdminPassword", `{"VmId": %q}`, vm)
	if got := l.Call(anna, "ReadAdminPassword", `{"VmId": %q}`, vm).Text("AdminPassword"); got != "" {
		t.Errorf("the password of a Linux is %q", got)
	}
	unknown, windows := l.omi(anna, func(i *Image) { i.ProductCodes = nil }), l.omi(anna, func(i *Image) { i.ProductCodes = []string{"0002"} })
	made := func(image, more string) string {
		return l.Call(anna, "CreateVms", `{"ImageId": %q%s}`, image, more).Objects("Vms")[0].Text("VmId")
	}
	if got := l.Call(anna, "ReadAdminPassword", `{"VmId": %q}`, made(unknown, "")).Text("AdminPassword"); got != "" {
		t.Errorf("the password of a VM that may be anything is %q", got)
	}
	bare := made(windows, "")
	l.act()
	if got := l.Call(anna, "ReadAdminPassword", `{"VmId": %q}`, bare).Text("AdminPassword"); got != "" {
		t.Errorf("the password of a Windows without a keypair is %q", got)
	}
	l.Call(anna, "CreateKeypair", `{"KeypairName": "key"}`)
	vm = made(windows, `, "KeypairName": "key"`)
	if got := l.Call(anna, "ReadAdminPassword", `{"VmId": %q}`, vm).Text("AdminPassword"); got != "" {
		t.Errorf("the password before the first boot is %q", got)
	}
	l.act()
	sealed, err := base64.StdEncoding.DecodeString(l.Call(anna, "ReadAdminPassword", `{"VmId": %q}`, vm).Text("AdminPassword"))
	if err != nil || len(sealed) != 256 {
		t.Errorf("the sealed password has %d bytes, %v", len(sealed), err)
	}
	l.Call(anna, "RebootVms", `{"VmIds": [%q]}`, vm)
	l.act()
	if got := l.Call(anna, "ReadAdminPassword", `{"VmId": %q}`, vm).Text("AdminPassword"); got != "" {
		t.Errorf("the password after the first boot is %q", got)
	}
}

// Whatever is asked of a VM and whatever its machine does, in whatever order, its
// state stays in the table, and store and driver agree in the end.
func TestVmsWalkTheTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		l := newVmRegion(t)
		vm := l.vms(anna, `"VmInitiatedShutdownBehavior": %q`,
			rapid.SampledFrom(ShutdownBehavior("").Literals()).Draw(r, "behavior"))[0].Text("VmId")
		state := VmPending
		look := func() {
			found := l.list(anna, "ReadVms", `{"VmIds": [%q]}`, vm)
			if len(found) == 0 {
				return
			}
			now := VmStateName(found[0].Text("State"))
			if !leads(vmLife, state, now) {
				r.Fatalf("from %s it came to %s", state, now)
			}
			state = now
		}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			switch what := rapid.SampledFrom([]string{"StartVms", "StopVms", "RebootVms", "DeleteVms", "guest", "host", "wait", "wait",
				"rest"}).Draw(r, "what"); what {
			case "guest":
				l.drivers.ShutDownGuest(anna, vm)
				l.loops.LookAgain()
			case "host":
				l.drivers.FailHost(anna, vm)
				l.loops.LookAgain()
			case "wait":
				l.advance(delay)
			case "rest":
				l.rest()
			default:
				_, _ = l.Try(anna, what, `{"VmIds": [%q], "ForceStop": false}`, vm)
				_, _ = l.Try(anna, what, `{"VmIds": [%q]}`, vm)
			}
			look()
		}
		l.loops.LookAgain()
		l.act()
		l.act()
		look()
		m := l.inWorld(anna, vm)
		switch state {
		case VmRunning, VmStopped:
			if m == nil || m.On != (state == VmRunning) {
				r.Fatalf("a VM that is %s is %+v in the driver", state, m)
			}
		case VmTerminated:
			if m != nil {
				r.Fatalf("a VM that is gone is %+v in the driver", m)
			}
		default:
			r.Fatalf("it stays %s", state)
		}
	})
}

// leads reports whether the table leads from one state to another.
func leads[S, E ~string, M ~map[S]map[E]S](life M, from, to S) bool {
	seen := map[S]bool{from: true}
	for todo := []S{from}; len(todo) > 0; todo = todo[1:] {
		for _, next := range life[todo[0]] {
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return seen[to]
}
