package compute

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/driver"
)

func TestUpdateVm(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, change, field, want string
		stopped                   bool // it is refused while the VM runs
	}{
		{"type", `"VmType": "tinav6.c4r8p2"`, "VmType", "tinav6.c4r8p2", true},
		{"performance of the type", `"VmType": "tinav6.c4r8p1"`, "Performance", "highest", true},
		{"performance", `"Performance": "medium"`, "Performance", "medium", true},
		{"user data", `"UserData": "aGk="`, "UserData", "aGk=", true},
		{"nested virtualization", `"NestedVirtualization": true`, "NestedVirtualization", "true", true},
		{"keypair", `"KeypairName": "key"`, "KeypairName", "key", false},
		{"protection", `"DeletionProtection": true`, "DeletionProtection", "true", false},
		{"shutdown behavior", `"VmInitiatedShutdownBehavior": "restart"`, "VmInitiatedShutdownBehavior", "restart", false},
		{"source check", `"IsSourceDestChecked": false`, "IsSourceDestChecked", "false", false},
		{"secure boot", `"ActionsOnNextBoot": {"SecureBoot": "enable"}`, "ActionsOnNextBoot", "map[SecureBoot:enable]", false},
		{"several", `"BsuOptimized": false, "DeletionProtection": true, "VmInitiatedShutdownBehavior": "terminate"`,
			"VmInitiatedShutdownBehavior", "terminate", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newVmRegion(t)
			subnet, _ := l.subnet(anna)
			l.Call(anna, "CreateKeypair", `{"KeypairName": "key",
				"PublicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKqO8OYfWSgr6feI7XEPe0RQPCfmDaZ3T4dtM0wgcmXs"}`)
			vm := l.vmIn(anna, `"SubnetId": %q, "VmType": "tinav6.c2r2", "Placement": {"Tenancy": "dedicated"}`, subnet)
			if test.stopped {
				l.refuse(apierror.InvalidState, anna, "UpdateVm", `{"VmId": %q, %s}`, vm, test.change)
				l.Call(anna, "StopVms", `{"VmIds": [%q]}`, vm)
				l.act()
			}
			if got := l.One(anna, "UpdateVm", `{"VmId": %q, %s}`, vm, test.change).Text(test.field); got != test.want {
				t.Errorf("answered is %s, want %s", got, test.want)
			}
			l.act()
			if got := l.read(anna, "ReadVms", "VmIds", vm).Text(test.field); got != test.want {
				t.Errorf("it is %s, want %s", got, test.want)
			}
			if m := l.inWorld(anna, vm); m.On == test.stopped || test.field == "VmType" && m.Cores != 4 && m.Memory != 8 ||
				test.field == "KeypairName" && len(m.Keys) != 1 {
				t.Errorf("the driver has %+v", m)
			}
		})
	}
}

func TestUpdateVmRefuses(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	cloud, stopped := l.in(anna, VmRunning), l.in(anna, VmStopped)
	large := base64.StdEncoding.EncodeToString(make([]byte, 500<<10/4*3+1))
	volume := l.read(anna, "ReadVms", "VmIds", cloud).Objects("BlockDeviceMappings")[0].Object("Bsu").Text("VolumeId")
	gpu := l.One(anna, "CreateFlexibleGpu", `{"ModelName": "nvidia-p6", "SubregionName": "test-1a"}`).Text("FlexibleGpuId")
	fitted := l.vms(anna, `"VmType": "tinav5.c2r2p1", "BootOnCreation": false`)[0].Text("VmId")
	l.act()
	l.Call(anna, "LinkFlexibleGpu", `{"FlexibleGpuId": %q, "VmId": %q}`, gpu, fitted)
	ending := l.in(anna, VmShuttingDown)
	tests := []struct {
		name, vm, change string
		want             apierror.Code
	}{
		{"nobody's", "i-00000000", `"DeletionProtection": true`, apierror.VmNotFound},
		{"one on its way out", ending, `"DeletionProtection": true`, apierror.InvalidState},
		{"BSU optimisation", cloud, `"BsuOptimized": true`, apierror.InvalidConfiguration},
		{"source check in the public Cloud", cloud, `"IsSourceDestChecked": true`, apierror.VmNotInNet},
		{"a keypair", cloud, `"KeypairName": "nobody's"`, apierror.KeypairNotFound},
		{"a group", cloud, `"SecurityGroupIds": ["sg-00000000"]`, apierror.SecurityGroupNotFound},
		{"a type", stopped, `"VmType": "tinav9.c1r1"`, apierror.VmTypeNotFound},
		{"a type that its flexible GPU does not go with", fitted, `"VmType": "tinav6.c2r2p1"`, apierror.GpuMismatch},
		{"a performance that its flexible GPU does not go with", fitted, `"VmType": "tinav5.c2r2", "Performance": "high"`, apierror.GpuMismatch},
		{"nested virtualization on a shared host", stopped, `"NestedVirtualization": true`, apierror.InvalidParameter},
		{"user data", stopped, `"UserData": "not Base64!"`, apierror.InvalidValue},
		{"large user data", stopped, fmt.Sprintf(`"UserData": %q`, large), apierror.InvalidLength},
		{"both views of the shutdown behavior", cloud, `"VmInitiatedShutdownBehavior": "stop", "ShutdownBehaviorConfiguration": {}`,
			apierror.IncompatibleParameters},
		{"a mapping of nothing", cloud, `"BlockDeviceMappings": [{"DeviceName": "/dev/sda1"}]`, apierror.MissingParameter},
		{"a mapping without a name", cloud, `"BlockDeviceMappings": [{"Bsu": {"DeleteOnVmDeletion": true}}]`, apierror.MissingParameter},
		{"a mapping of no device", cloud, `"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Bsu": {"DeleteOnVmDeletion": true}}]`,
			apierror.DeviceNameNotLinked},
		{"a mapping of another device", cloud, fmt.Sprintf(`"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Bsu": {"VolumeId": %q}}]`,
			volume), apierror.VolumeDeviceMismatch},
		{"a mapping of another VM's volume", stopped, fmt.Sprintf(`"BlockDeviceMappings": [{"Bsu": {"VolumeId": %q}}]`, volume),
			apierror.VolumeDeviceMismatch},
		{"a mapping of no volume", cloud, `"BlockDeviceMappings": [{"Bsu": {"VolumeId": "vol-00000000"}}]`, apierror.VolumeNotFound},
		{"no device", cloud, `"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "NoDevice": ""}]`, apierror.InvalidMappings},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			own := *l
			own.T = t
			own.refuse(test.want, anna, "UpdateVm", `{"VmId": %q, %s}`, test.vm, test.change)
		})
	}
	l.refuse(apierror.VmNotFound, ben, "UpdateVm", `{"VmId": %q, "DeletionProtection": true}`, cloud)
}

func TestUpdateVmWithinQuotas(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t, map[string]int{"core_limit": 6, "memory_limit": 10})
	vm := l.vms(anna, `"VmType": "tinav5.c4r8", "BootOnCreation": false`)[0].Text("VmId")
	l.act()
	l.refuse(apierror.TooManyCores, anna, "UpdateVm", `{"VmId": %q, "VmType": "tinav5.c11r8"}`, vm)
	l.refuse(apierror.TooMuchMemory, anna, "UpdateVm", `{"VmId": %q, "VmType": "tinav5.c4r11"}`, vm)
	l.Call(anna, "UpdateVm", `{"VmId": %q, "VmType": "tinav5.c6r10"}`, vm)
}

func TestUpdateVmLinks(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, net := l.subnet(anna)
	group := l.One(anna, "CreateSecurityGroup", `{"NetId": %q, "SecurityGroupName": "web", "Description": "-"}`, net).Text("SecurityGroupId")
	vm := l.vmIn(anna, `"SubnetId": %q`, subnet)
	l.Call(anna, "UpdateVm", `{"VmId": %q, "SecurityGroupIds": [%q], "BlockDeviceMappings": [{"DeviceName": "/dev/sda1",
		"Bsu": {"DeleteOnVmDeletion": false}}]}`, vm, group)
	v := l.read(anna, "ReadVms", "VmIds", vm)
	if got := v.Objects("BlockDeviceMappings")[0].Object("Bsu").Text("DeleteOnVmDeletion"); got != "false" {
		t.Errorf("the volume goes with the VM: %s", got)
	}
	l.Selects(v.Objects("SecurityGroups"), "SecurityGroupName", "web")
	l.Selects(v.Objects("Nics")[0].Objects("SecurityGroups"), "SecurityGroupId", group)
	l.refuse(apierror.SecurityGroupInUse, anna, "DeleteSecurityGroup", `{"SecurityGroupId": %q}`, group)
}

// What is to be done at the next boot is done when the VM is started, and not
// when it is rebooted.
func TestSecureBoot(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	vm := l.vms(anna, `"ActionsOnNextBoot": {"SecureBoot": "setup-mode"}`)[0].Text("VmId")
	next := func(want string) {
		t.Helper()
		l.act()
		if got := l.read(anna, "ReadVms", "VmIds", vm).Object("ActionsOnNextBoot").Text("SecureBoot"); got != want {
			t.Errorf("at the next boot it is to %s, want %s", got, want)
		}
	}
	next("none")
	l.Call(anna, "UpdateVm", `{"VmId": %q, "ActionsOnNextBoot": {"SecureBoot": "enable"}}`, vm)
	l.Call(anna, "RebootVms", `{"VmIds": [%q]}`, vm)
	next("enable")
	l.Call(anna, "StopVms", `{"VmIds": [%q]}`, vm)
	next("enable")
	l.Call(anna, "StartVms", `{"VmIds": [%q]}`, vm)
	l.rest()
	next("none")
}

// What a machine can ask about itself follows its tags.
func TestTagsReachTheMachine(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	vm := l.vmIn(anna, "")
	for _, tags := range [][]api.Tag{{{Key: "Name", Value: "web"}}, {{Key: "Name", Value: "db"}, {Key: "team", Value: "red"}}, nil} {
		l.Tag(anna, vm, tags...)
		l.settle()
		want := map[string]string{}
		for _, tag := range tags {
			want["tags/"+tag.Key] = tag.Value
		}
		got := l.inWorld(anna, vm).Metadata
		maps.DeleteFunc(got, func(path, _ string) bool { return !strings.HasPrefix(path, "tags/") })
		if !maps.Equal(got, want) {
			t.Errorf("tagged with %v, the machine is told %v", tags, got)
		}
	}
}

// The driver is told which security groups a machine of the public Cloud is in,
// and what they let through.
func TestPublicGroupsOfMachines(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	group := func(name string) string {
		return l.One(anna, "CreateSecurityGroup", `{"SecurityGroupName": %q, "Description": "d"}`, name).Text("SecurityGroupId")
	}
	web, db := group("web"), group("db")
	vm := l.vmIn(anna, `"SecurityGroupIds": [%q]`, web)
	in := func(want ...string) {
		t.Helper()
		l.settle()
		slices.Sort(want)
		if got := l.inWorld(anna, vm).Nics[0].Groups; !slices.Equal(got, want) {
			t.Errorf("the machine is in %q, want %q", got, want)
		}
	}
	in(web)
	before := l.inWorld(anna, vm).Generation
	l.Call(anna, "CreateSecurityGroupRule", `{"SecurityGroupId": %q, "Flow": "Inbound", "IpProtocol": "tcp", "FromPortRange": 80,
		"ToPortRange": 80, "IpRange": "0.0.0.0/0"}`, web)
	in(web)
	if after := l.inWorld(anna, vm).Generation; after != before {
		t.Errorf("for a rule the machine was changed from %d to %d", before, after)
	}
	groups, err := l.drivers.ObserveGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(groups, func(g driver.PublicGroup) bool { return g.ID == web })
	if i < 0 || len(groups[i].Inbound) != 1 || groups[i].Inbound[0].To != 80 {
		t.Errorf("the driver has the groups %+v", groups)
	}
	l.Call(anna, "UpdateVm", `{"VmId": %q, "SecurityGroupIds": [%q, %q]}`, vm, db, web)
	in(db, web)

	subnet, _ := l.subnet(anna)
	if nic := l.inWorld(anna, l.vmIn(anna, `"SubnetId": %q`, subnet)).Nics[0]; nic.Groups != nil {
		t.Errorf("a NIC in a Net, whose groups the Net has, is %+v", nic)
	}
}
