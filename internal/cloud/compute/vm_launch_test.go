package compute

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// absent are fields whose values no test knows beforehand.
func without(r reply, names ...string) reply {
	for _, name := range names {
		delete(r, name)
	}
	return r
}

func TestVmInPublicCloud(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	image := l.omi(anna)
	l.Call(anna, "CreateKeypair", `{"KeypairName": "key",
		"PublicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKqO8OYfWSgr6feI7XEPe0RQPCfmDaZ3T4dtM0wgcmXs"}`)
	v := l.Call(anna, "CreateVms", `{"ImageId": %q, "VmType": "tinav5.c2r2", "Performance": "medium", "KeypairName": "key",
		"UserData": "aGVsbG8="}`, image).Objects("Vms")[0]
	vm := v.Text("VmId")
	for field, prefix := range map[string]string{"VmId": "i-", "ReservationId": "r-", "PrivateIp": "10.", "PublicIp": "192.0.2.",
		"PrivateDnsName": "ip-10-", "PublicDnsName": "ows-192-0-2-"} {
		if !strings.HasPrefix(v.Text(field), prefix) {
			t.Errorf("%s is %s", field, v.Text(field))
		}
	}
	if groups := v.Objects("SecurityGroups"); len(groups) != 1 || groups[0].Text("SecurityGroupName") != "default" {
		t.Errorf("the security groups are %v", groups)
	}
	disk := v.Objects("BlockDeviceMappings")[0]
	l.Shows(without(disk.Object("Bsu"), "VolumeId"),
		`{"DeleteOnVmDeletion": true, "LinkDate": "2026-11-20T10:00:00.000Z", "State": "attaching"}`)
	want := `{"ActionsOnNextBoot": {"SecureBoot": "none"}, "Architecture": "x86_64", "BootMode": "uefi", "BsuOptimized": false,
		"CreationDate": "2026-11-20T10:00:00.000Z", "DeletionProtection": false, "Hypervisor": "xen", "ImageId": %q, "IsSourceDestChecked": false,
		"KeypairName": "key", "LaunchNumber": 0, "NestedVirtualization": false, "Nics": [], "Performance": "medium",
		"Placement": {"SubregionName": "test-1a", "Tenancy": "default"}, "ProductCodes": ["0001"], "RootDeviceName": "/dev/sda1",
			"RootDeviceType": "ebs",
		"ShutdownBehaviorConfiguration": {"GuestAction": "stop", "HostAction": "stop"}, "State": %q, "StateReason": "", "Tags": [],
			"TpmEnabled": false,
		"UserData": "aGVsbG8=", "VmId": %q, "VmInitiatedShutdownBehavior": "stop", "VmType": "tinav5.c2r2"}`
	unknown := []string{"ReservationId", "PrivateIp", "PublicIp", "PrivateDnsName", "PublicDnsName", "SecurityGroups", "BlockDeviceMappings"}
	l.Shows(without(v, unknown...), want, image, "pending", vm)
	l.act()
	l.Shows(without(l.read(anna, "ReadVms", "VmIds", vm), unknown...), want, image, "running", vm)

	m := l.inWorld(anna, vm)
	if m == nil || !m.On || m.Cores != 2 || m.Memory != 2 || m.CpuModel != "v5" || m.Performance != "medium" ||
		string(m.UserData) != "hello" || m.Subregion != "test-1a" ||
		len(m.Keys) != 1 || len(m.Disks) != 1 || m.Disks[0].Device != "/dev/sda1" || len(m.Nics) != 1 || m.Nics[0].Net != "" ||
		!m.Nics[0].Public.IsValid() {
		t.Errorf("the driver has %+v", m)
	}
	if m.Metadata["instance-id"] != vm || m.Metadata["public-keys/0/openssh-key"] == "" || m.Metadata["instance-type"] != "tinav5.c2r2" {
		t.Errorf("the VM is told %v", m.Metadata)
	}
}

func TestVmInNet(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, net := l.subnet(anna)
	vm := l.vms(anna, `"SubnetId": %q, "PrivateIps": ["10.0.1.7", "10.0.1.8"]`, subnet)[0].Text("VmId")
	l.act()
	v := l.read(anna, "ReadVms", "VmIds", vm)
	for field, want := range map[string]string{
		"State": "running", "NetId": net, "SubnetId": subnet, "PrivateIp": "10.0.1.7", "IsSourceDestChecked": "true", "PublicIp": "<nil>",
		"VmType": "t2.small", "Performance": "medium",
	} {
		if v.Text(field) != want {
			t.Errorf("%s is %s, want %s", field, v.Text(field), want)
		}
	}
	if got := v.Object("Placement").Text("SubregionName"); got != "test-1b" {
		t.Errorf("it is in %s", got)
	}
	nic := v.Objects("Nics")[0]
	if nic.Text("Description") != "Primary network interface" || nic.Text("State") != "in-use" || nic.Text("NetId") != net ||
		nic.Text("SubnetId") != subnet ||
		nic.Object("LinkNic").Text("DeleteOnVmDeletion") != "true" || nic.Object("LinkNic").Text("DeviceNumber") != "0" ||
		nic.Object("LinkNic").Text("State") != "attached" {
		t.Errorf("its NIC is %v", nic)
	}
	l.Selects(nic.Objects("PrivateIps"), "PrivateIp", "10.0.1.7", "10.0.1.8")
	l.Selects(v.Objects("SecurityGroups"), "SecurityGroupId", cloudtest.Texts(nic.Objects("SecurityGroups"), "SecurityGroupId")...)
	if m := l.inWorld(anna, vm); m == nil || m.Nics[0].Net != net || m.Metadata["local-ipv4"] != "10.0.1.7" {
		t.Errorf("the driver has %+v", m)
	}
}

func TestVmsBothWaysOfNics(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, _ := l.subnet(anna)
	ready := l.One(anna, "CreateNic", `{"SubnetId": %q, "Description": "mine"}`, subnet).Text("NicId")
	v := l.vms(anna, `"Nics": [
		{"DeviceNumber": 2, "SubnetId": %q, "SecondaryPrivateIpCount": 2, "DeleteOnVmDeletion": false},
		{"NicId": %q, "DeviceNumber": 0, "SubnetId": "", "Description": "", "PrivateIps": [], "DeleteOnVmDeletion": true},
		{"DeviceNumber": 1, "SubnetId": %[1]q, "Description": "second", "PrivateIps": [{"IsPrimary": true, "PrivateIp": "10.0.1.9"}]}]`, subnet,
		ready)[0]
	var got []string
	for _, n := range v.Objects("Nics") {
		got = append(got, fmt.Sprint(n.Object("LinkNic")["DeviceNumber"], " ", n["Description"], " ", n.Object("LinkNic")["DeleteOnVmDeletion"],
			" ", len(n.Objects("PrivateIps"))))
	}
	if want := []string{"0 mine false 1", "1 second true 1", "2  false 3"}; !slices.Equal(got, want) {
		t.Errorf("the NICs are %q, want %q", got, want)
	}
	l.act()
	vm := v.Text("VmId")
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, vm)
	l.act()
	l.Selects(l.list(anna, "ReadNics", `{"Descriptions": ["mine", "second", ""]}`), "State", "available", "available")
	if v := l.read(anna, "ReadVms", "VmIds", vm); v.Text("State") != "terminated" || v["Nics"] != nil {
		t.Errorf("it ends as %v", v)
	}
}

func TestCreateVmsRefuses(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, _ := l.subnet(anna)
	other, _ := l.subnet(anna)
	free := l.One(anna, "CreateNic", `{"SubnetId": %q}`, subnet).Text("NicId")
	used := l.vms(anna, `"SubnetId": %q`, subnet)[0].Objects("Nics")[0].Text("NicId")
	theirs, _ := l.subnet(ben)
	cloud := l.One(anna, "CreateSecurityGroup", `{"SecurityGroupName": "web", "Description": "-"}`).Text("SecurityGroupId")
	l.settle()
	image := l.omi(anna, func(i *Image) { i.BootModes = []BootMode{BootLegacy}; i.TpmMandatory = true })
	pending := l.omi(anna, func(i *Image) { i.State = ImagePending })
	foreign := l.omi(ben)
	group := l.One(anna, "CreateDedicatedGroup", `{"CpuGeneration": 5, "Name": "ours", "SubregionName": "test-1b"}`).Text("DedicatedGroupId")
	large := base64.StdEncoding.EncodeToString(make([]byte, 500<<10/4*3+1))
	tests := []struct {
		name, request string
		want          apierror.Code
	}{
		{"no image", `"ImageId": "ami-00000000"`, apierror.ImageNotFound},
		{"another account's image", fmt.Sprintf(`"ImageId": %q`, foreign), apierror.ImageNotFound},
		{"an image that is not made yet", fmt.Sprintf(`"ImageId": %q`, pending), apierror.InvalidImageState},
		{"a type", `"VmType": "tinav9.c1r1"`, apierror.VmTypeNotFound},
		{"BSU optimisation", `"BsuOptimized": true`, apierror.InvalidConfiguration},
		{"a keypair", `"KeypairName": "nobody's"`, apierror.KeypairNotFound},
		{"none", `"MinVmsCount": 0`, apierror.InvalidCount},
		{"at most none", `"MaxVmsCount": 0`, apierror.InvalidCount},
		{"fewer at most than at least", `"MinVmsCount": 3, "MaxVmsCount": 2`, apierror.InvalidCount},
		{"too many", `"MaxVmsCount": 1001`, apierror.InvalidCount},
		{"a boot mode that the image has not", `"BootMode": "uefi"`, apierror.InvalidParameter},
		{"no TPM where one is needed", `"TpmEnabled": false`, apierror.InvalidParameter},
		{"secure boot without UEFI", `"ActionsOnNextBoot": {"SecureBoot": "enable"}`, apierror.InvalidParameter},
		{"a tenancy", `"Placement": {"Tenancy": "mine"}`, apierror.InvalidTenancy},
		{"a dedicated group", `"Placement": {"Tenancy": "ded-00000000"}`, apierror.ObjectNotFound},
		{"a dedicated group elsewhere", fmt.Sprintf(`"Placement": {"Tenancy": %q}`, group), apierror.SubregionMismatch},
		{"a dedicated group of other processors",
			fmt.Sprintf(`"VmType": "tinav4.c1r1", "Placement": {"Tenancy": %q, "SubregionName": "test-1b"}`, group), apierror.InvalidParameter},
		{"a Subregion", `"Placement": {"SubregionName": "test-2a"}`, apierror.SubregionNotFound},
		{"a Subregion other than the Subnet's", fmt.Sprintf(`"SubnetId": %q, "Placement": {"SubregionName": "test-1a"}`, subnet),
			apierror.SubregionMismatch},
		{"nested virtualization on a shared host", `"NestedVirtualization": true`, apierror.InvalidParameter},
		{"user data", `"UserData": "not Base64!"`, apierror.InvalidValue},
		{"large user data", fmt.Sprintf(`"UserData": %q`, large), apierror.InvalidLength},
		{"a long token", fmt.Sprintf(`"ClientToken": %q`, strings.Repeat("x", 65)), apierror.InvalidLength},
		{"both views of the shutdown behavior", `"VmInitiatedShutdownBehavior": "stop", "ShutdownBehaviorConfiguration": {}`,
			apierror.IncompatibleParameters},
		{"a shutdown behavior", `"VmInitiatedShutdownBehavior": "sleep"`, apierror.InvalidValue},

		{"a Subnet", `"SubnetId": "subnet-00000000"`, apierror.SubnetNotFound},
		{"another account's Subnet", fmt.Sprintf(`"SubnetId": %q`, theirs), apierror.SubnetNotFound},
		{"a reserved address", fmt.Sprintf(`"SubnetId": %q, "PrivateIps": ["10.0.1.3"]`, subnet), apierror.InvalidValue},
		{"an address in the public Cloud", `"PrivateIps": ["10.0.1.9"]`, apierror.InvalidParameterSet},
		{"one address for two", fmt.Sprintf(`"SubnetId": %q, "PrivateIps": ["10.0.1.9"], "MaxVmsCount": 2`, subnet),
			apierror.InvalidParameterSet},
		{"a group of the public Cloud in a Net", fmt.Sprintf(`"SubnetId": %q, "SecurityGroupIds": [%q]`, subnet, cloud), apierror.NotInNet},
		{"a group of the public Cloud by its name in a Net", fmt.Sprintf(`"SubnetId": %q, "SecurityGroups": ["web"]`, subnet),
			apierror.SecurityGroupNotFound},
		{"a group", `"SecurityGroupIds": ["sg-00000000"]`, apierror.SecurityGroupNotFound},
		{"a group by its name", `"SecurityGroups": ["db"]`, apierror.SecurityGroupNotFound},

		{"NICs and a Subnet", fmt.Sprintf(`"SubnetId": %q, "Nics": [{"NicId": %q}]`, subnet, free), apierror.IncompatibleParameters},
		{"NICs and groups", fmt.Sprintf(`"SecurityGroups": ["default"], "Nics": [{"NicId": %q}]`, free), apierror.IncompatibleParameters},
		{"no primary NIC", fmt.Sprintf(`"Nics": [{"DeviceNumber": 1, "NicId": %q}]`, free), apierror.InvalidParameter},
		{"a NIC", `"Nics": [{"DeviceNumber": 0, "NicId": "eni-00000000"}]`, apierror.NicNotFound},
		{"a NIC in use", fmt.Sprintf(`"Nics": [{"DeviceNumber": 0, "NicId": %q}]`, used), apierror.InUse},
		{"one NIC for two", fmt.Sprintf(`"Nics": [{"DeviceNumber": 0, "NicId": %q}], "MaxVmsCount": 2`, free), apierror.InvalidParameterSet},
		{"a NIC of nothing", `"Nics": [{"DeviceNumber": 0}]`, apierror.MissingParameter},
		{"a NIC without a number", fmt.Sprintf(`"Nics": [{"SubnetId": %q}]`, subnet), apierror.MissingParameter},
		{"a number too high", fmt.Sprintf(`"Nics": [{"SubnetId": %q, "DeviceNumber": 8}]`, subnet), apierror.InvalidValue},
		{"a number twice", fmt.Sprintf(`"Nics": [{"SubnetId": %q, "DeviceNumber": 0}, {"SubnetId": %[1]q, "DeviceNumber": 0}]`, subnet),
			apierror.DeviceTaken},
		{"NICs in two Nets", fmt.Sprintf(`"Nics": [{"SubnetId": %q, "DeviceNumber": 0}, {"SubnetId": %q, "DeviceNumber": 1}]`, subnet, other),
			apierror.InvalidParameter},
		{"a NIC that exists, in a Subnet", fmt.Sprintf(`"Nics": [{"DeviceNumber": 0, "NicId": %q, "SubnetId": %q}]`, free, subnet),
			apierror.IncompatibleParameters},
		{"a NIC that exists, with groups", fmt.Sprintf(`"Nics": [{"DeviceNumber": 0, "NicId": %q, "SecurityGroupIds": [%q]}]`, free, cloud),
			apierror.IncompatibleParameters},
		{"a NIC that exists, with addresses", fmt.Sprintf(`"Nics": [{"DeviceNumber": 0, "NicId": %q,
			"PrivateIps": [{"PrivateIp": "10.0.1.20"}]}]`, free), apierror.IncompatibleParameters},
		{"a NIC that exists, with chosen addresses",
			fmt.Sprintf(`"Nics": [{"DeviceNumber": 0, "NicId": %q, "SecondaryPrivateIpCount": 1}]`, free), apierror.IncompatibleParameters},
		{"a NIC that exists, described", fmt.Sprintf(`"Nics": [{"DeviceNumber": 0, "NicId": %q, "Description": "mine"}]`, free),
			apierror.IncompatibleParameters},
		{"two primary addresses", fmt.Sprintf(`"Nics": [{"SubnetId": %q, "DeviceNumber": 0, "PrivateIps": [{"IsPrimary": true,
			"PrivateIp": "10.0.1.20"}, {"IsPrimary": true, "PrivateIp": "10.0.1.21"}]}]`, subnet), apierror.IncompatibleParameters},
		{"user data that order too many tags", fmt.Sprintf(`"UserData": %q`, ordering(manyTags(51)...)), apierror.TooManyTags},
		{"addresses given and chosen", fmt.Sprintf(`"Nics": [{"SubnetId": %q, "DeviceNumber": 0, "SecondaryPrivateIpCount": 1,
			"PrivateIps": [{"PrivateIp": "10.0.1.20"}, {"PrivateIp": "10.0.1.21"}]}]`, subnet), apierror.IncompatibleParameters},

		{"no device name", `"BlockDeviceMappings": [{"Bsu": {"VolumeSize": 1}}]`, apierror.MissingParameter},
		{"a device name", `"BlockDeviceMappings": [{"DeviceName": "sdb", "Bsu": {"VolumeSize": 1}}]`, apierror.InvalidDeviceName},
		{"a device name twice", `"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Bsu": {"VolumeSize": 1}}, {"DeviceName": "/dev/sdb",
			"Bsu": {"VolumeSize": 1}}]`, apierror.InvalidMappings},
		{"a volume of no size", `"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Bsu": {}}]`, apierror.MissingParameter},
		{"a device of nothing", `"BlockDeviceMappings": [{"DeviceName": "/dev/sdb"}]`, apierror.InvalidMappings},
		{"no device that is there", `"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "NoDevice": ""}]`, apierror.InvalidMappings},
		{"more volumes than a VM can have", `"BlockDeviceMappings": [` + strings.Join(manyDisks(maxVolumes), ", ") + `]`,
			apierror.TooManyVolumes},
		{"no root device", `"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "NoDevice": ""}]`, apierror.InvalidRootMapping},
		{"another snapshot as the root device", `"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": "snap-00000000"}}]`,
			apierror.InvalidRootMapping},
		{"an ephemeral root device", `"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "VirtualDeviceName": "ephemeral0"}]`,
			apierror.InvalidRootMapping},
		{"an ephemeral name", `"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "VirtualDeviceName": "disk0"}]`, apierror.InvalidVirtualName},
		{"an ephemeral volume", `"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "VirtualDeviceName": "ephemeral0",
			"Bsu": {"VolumeSize": 1}}]`, apierror.InvalidVirtualName},
		{"a snapshot", `"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Bsu": {"SnapshotId": "snap-00000000"}}]`, apierror.SnapshotNotFound},
		{"io1 without operations", `"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Bsu": {"VolumeType": "io1"}}]`,
			apierror.MissingParameter},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := test.request
			if !strings.Contains(request, "ImageId") {
				request = fmt.Sprintf(`"ImageId": %q, %s`, image, request)
			}
			own := *l
			own.T = t
			own.refuse(test.want, anna, "CreateVms", "%s", "{"+request+"}")
		})
	}
	// What was refused has left nothing behind.
	l.Selects(l.list(anna, "ReadNics", `{"NicIds": [%q]}`, free), "State", "available")
}

// manyDisks are mappings of disks.
func manyDisks(n int) (mappings []string) {
	for i := range n {
		mappings = append(mappings, fmt.Sprintf(`{"DeviceName": "/dev/xvd%c%c", "Bsu": {"VolumeSize": 1}}`, 'b'+i/26, 'a'+i%26))
	}
	return mappings
}

func TestVmDisks(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	root, data := l.snapshot(anna, l.volume(anna, `"Size": 10`)), l.snapshot(anna, l.volume(anna, `"Size": 5`))
	image := l.omi(anna, func(i *Image) {
		i.BlockDeviceMappings = []BlockDeviceMappingImage{
			{DeviceName: "/dev/sdb", Bsu: BsuToCreate{SnapshotId: id.Snapshot(data), VolumeSize: 5, VolumeType: VolumeGp2,
				DeleteOnVmDeletion: false}},
			{DeviceName: "/dev/sda1", Bsu: BsuToCreate{SnapshotId: id.Snapshot(root), VolumeSize: 10, VolumeType: VolumeIo1, Iops: 200,
				DeleteOnVmDeletion: true}},
			{DeviceName: "/dev/sdc", VirtualDeviceName: "ephemeral0"},
		}
		i.PermissionsToLaunch = PermissionsOnResource{}
	})
	l.Update(anna, func(tx *resource.Tx) error {
		i, err := Images.Get(tx, id.Image(image))
		if err != nil {
			return err
		}
		if err := sharedImages.permit(tx, i, PermissionsOnResource{GlobalPermission: true}); err != nil {
			return err
		}
		return Images.Put(tx, i)
	})
	tests := []struct{ name, mappings, want string }{
		{"the image's", ``, "/dev/sda1 10 io1 200 true, /dev/sdb 5 gp2 100 false"},
		{"a larger root", `{"DeviceName": "/dev/sda1", "Bsu": {"VolumeSize": 20}}`, "/dev/sda1 20 io1 200 true, /dev/sdb 5 gp2 100 false"},
		{"a root of another type that stays", `{"DeviceName": "/dev/sda1", "Bsu": {"VolumeType": "standard", "DeleteOnVmDeletion": false}}`,
			"/dev/sda1 10 standard <nil> false, /dev/sdb 5 gp2 100 false"},
		{"one less", `{"DeviceName": "/dev/sdb", "NoDevice": ""}`, "/dev/sda1 10 io1 200 true"},
		{"more, in the order of the request", `{"DeviceName": "/dev/xvdz", "Bsu": {"VolumeSize": 1}}, {"DeviceName": "/dev/sdd",
			"Bsu": {"VolumeSize": 4, "VolumeType": "io1", "Iops": 100}}`,
			"/dev/sda1 10 io1 200 true, /dev/sdb 5 gp2 100 false, /dev/xvdz 1 standard <nil> true, /dev/sdd 4 io1 100 true"},
		{"a gp2 root", `{"DeviceName": "/dev/sda1", "Bsu": {"VolumeType": "gp2"}}`, "/dev/sda1 10 gp2 100 true, /dev/sdb 5 gp2 100 false"},
		{"ephemeral ones", `{"DeviceName": "/dev/sdd", "VirtualDeviceName": "ephemeral1"}`,
			"/dev/sda1 10 io1 200 true, /dev/sdb 5 gp2 100 false"},
	}
	for _, account := range []string{anna, ben} { // who may use an image may use its snapshots
		for _, test := range tests {
			v := l.Call(account, "CreateVms", `{"ImageId": %q, "BlockDeviceMappings": [%s]}`, image, test.mappings).Objects("Vms")[0]
			var got []string
			for _, m := range v.Objects("BlockDeviceMappings") {
				bsu := m.Object("Bsu")
				volume := l.read(account, "ReadVolumes", "VolumeIds", bsu.Text("VolumeId"))
				got = append(got, fmt.Sprint(m["DeviceName"], " ", volume["Size"], " ", volume["VolumeType"], " ", volume["Iops"], " ",
					bsu["DeleteOnVmDeletion"]))
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("%s: the volumes are %q, want %q", test.name, got, test.want)
			}
		}
	}
	most := l.vms(anna, `"BlockDeviceMappings": [%s]`, strings.Join(manyDisks(maxVolumes-1), ", "))[0]
	if got := len(most.Objects("BlockDeviceMappings")); got != maxVolumes {
		t.Errorf("a VM has %d volumes, want %d", got, maxVolumes)
	}
	l.refuse(apierror.VolumeTooSmall, ben, "CreateVms",
		`{"ImageId": %q, "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Bsu": {"VolumeSize": 9}}]}`, image)
	l.refuse(apierror.SnapshotNotFound, ben, "CreateVms",
		`{"ImageId": %q, "BlockDeviceMappings": [{"DeviceName": "/dev/sdf", "Bsu": {"SnapshotId": "snap-00000000"}}]}`, image)
}

func TestVmQuotas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, quota string
		limit       int
		refused     apierror.Code
	}{
		{"VMs", "vm_limit", 3, apierror.TooManyVms},
		{"cores", "core_limit", 7, apierror.TooManyCores},
		{"memory", "memory_limit", 13, apierror.TooMuchMemory},
		{"volumes", "volume_limit", 7, apierror.TooManyVolumes},
		{"size of volumes", "volume_size_limit", 39, apierror.TooMuchVolumeSize},
		{"size of volumes of a type", "gp2_volume_size_limit", 6, apierror.TooMuchVolumeSize},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newVmRegion(t, map[string]int{test.quota: test.limit})
			image := l.omi(anna)
			create := func(least, most int) string {
				return fmt.Sprintf(`{"ImageId": %q, "VmType": "tinav5.c2r4", "MinVmsCount": %d, "MaxVmsCount": %d,
					"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Bsu": {"VolumeSize": 2, "VolumeType": "gp2"}}]}`, image, least, most)
			}
			l.refuse(test.refused, anna, "CreateVms", "%s", create(4, 9))
			made := l.Call(anna, "CreateVms", "%s", create(2, 9)).Objects("Vms")
			if len(made) != 3 || made[2].Text("LaunchNumber") != "2" || made[0].Text("ReservationId") != made[2].Text("ReservationId") {
				t.Errorf("made were %d: %v", len(made), made)
			}
			l.refuse(test.refused, anna, "CreateVms", "%s", create(1, 1))
			l.Call(ben, "CreateVms", `{"ImageId": %q}`, l.omi(ben))
			l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, made[1].Text("VmId"))
			l.act()
			l.Call(anna, "CreateVms", "%s", create(1, 1))
		})
	}
}

func TestVmsInFullSubnet(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	_, net := l.subnet(anna)
	subnet := l.One(anna, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.7.0/29"}`, net).Text("SubnetId")
	if made := l.vms(anna, `"SubnetId": %q, "MinVmsCount": 2, "MaxVmsCount": 9`, subnet); len(made) != 3 {
		t.Errorf("in a Subnet with 3 addresses, %d VMs were made", len(made))
	}
	l.refuse(apierror.InsufficientCapacity, anna, "CreateVms", `{"ImageId": %q, "SubnetId": %q}`, l.omi(anna), subnet)
}

func TestClientTokenOfVms(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	request := fmt.Sprintf(`{"ImageId": %q, "MinVmsCount": 2, "ClientToken": "once"}`, l.omi(anna))
	var wait sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wait.Go(func() {
			if answer, err := l.Try(anna, "CreateVms", "%s", request); err == nil {
				ids[i] = fmt.Sprint(cloudtest.Texts(answer.Objects("Vms"), "VmId"))
			}
		})
	}
	wait.Wait()
	if ids = slices.Compact(ids); len(ids) != 1 {
		t.Fatalf("the same request at once made %q", ids)
	}
	l.refuse(apierror.TokenMismatch, anna, "CreateVms", "%s", strings.Replace(request, "2", "3", 1))
	both := cloudtest.Texts(l.Call(anna, "CreateVms", "%s", request).Objects("Vms"), "VmId")
	l.Selects(l.list(anna, "ReadVms", `{"ClientTokens": ["once"]}`), "VmId", both...)
	l.act()
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, both[0])
	l.act()
	l.Selects(l.Call(anna, "CreateVms", "%s", request).Objects("Vms"), "VmId", both[1])
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, both[1])
	l.act()
	if after := l.Call(anna, "CreateVms", "%s", request).Objects("Vms"); len(after) != 2 {
		t.Errorf("when those of the first call are gone, %d are made", len(after))
	}
}

func TestStoppedOnCreation(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	v := l.vms(anna, `"BootOnCreation": false`)[0]
	vm := v.Text("VmId")
	if v.Text("State") != "pending" || v.Text("PublicIp") != "<nil>" {
		t.Errorf("it begins as %v", v)
	}
	l.act()
	if m := l.inWorld(anna, vm); l.state(anna, vm) != "stopped" || m == nil || m.On || m.Boots != 0 {
		t.Errorf("it is %s, and %+v in the driver", l.state(anna, vm), m)
	}
	if got := l.read(anna, "ReadVms", "VmIds", vm).Text("StateReason"); got != neverStarted || len(got) != 27 {
		t.Errorf("it is stopped for %q, which has %d characters", got, len(got))
	}
	l.Selects(l.Call(anna, "ReadVmsStopHistory", `{}`).Objects("VmsStopHistory"), "VmId")
	other := l.vmIn(anna, `"BootOnCreation": false`)
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, other)
	l.act()
	if v := l.read(anna, "ReadVms", "VmIds", other); v.Text("State") != "terminated" || v.Text("StateReason") != neverStarted {
		t.Errorf("terminated, it is %v", v)
	}
	l.Call(anna, "StartVms", `{"VmIds": [%q]}`, vm)
	l.act()
	if v := l.read(anna, "ReadVms", "VmIds", vm); v.Text("State") != "running" || v.Text("PublicIp") == "<nil>" ||
		v.Text("StateReason") != "" {
		t.Errorf("started, it is %v", v)
	}
}

func TestBootModeOfVms(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	for _, test := range []struct{ name, asked, want string }{
		{"legacy uefi", ``, "uefi"}, {"uefi legacy", ``, "uefi"}, {"legacy", ``, "legacy"}, {"uefi", ``, "uefi"}, {"", ``, "legacy"},
		{"legacy uefi", `, "BootMode": "legacy"`, "legacy"},
	} {
		image := l.omi(anna, func(i *Image) {
			i.BootModes = nil
			for mode := range strings.FieldsSeq(test.name) {
				i.BootModes = append(i.BootModes, BootMode(mode))
			}
		})
		if got := l.Call(anna, "CreateVms", `{"ImageId": %q%s}`, image, test.asked).Objects("Vms")[0].Text("BootMode"); got != test.want {
			t.Errorf("of an image that boots by %q, a VM boots by %s, want %s", test.name, got, test.want)
		}
	}
}

// Security groups come in the order of their IDs, however they were given.
func TestSecurityGroupsAreInOrder(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, net := l.subnet(anna)
	for _, where := range []string{fmt.Sprintf(`"NetId": %q, `, net), ""} {
		var groups []string
		for i := range 5 {
			groups = append(groups, l.One(anna, "CreateSecurityGroup", `{%s"Description": "d", "SecurityGroupName": "g%d"}`, where,
				i).Text("SecurityGroupId"))
		}
		slices.SortFunc(groups, func(a, b string) int { return strings.Compare(b, a) })
		request := fmt.Sprintf(`"SecurityGroupIds": %s`, jsonOf(groups))
		if where != "" {
			request += fmt.Sprintf(`, "SubnetId": %q`, subnet)
		}
		v := l.vms(anna, "%s", request)[0]
		want := sorted(slices.Clone(groups))
		if got := cloudtest.Texts(v.Objects("SecurityGroups"), "SecurityGroupId"); !slices.Equal(got, want) {
			t.Errorf("the security groups of a VM are %q, want %q", got, want)
		}
		for _, n := range v.Objects("Nics") {
			if got := cloudtest.Texts(n.Objects("SecurityGroups"), "SecurityGroupId"); !slices.Equal(got, want) {
				t.Errorf("the security groups of its NIC are %q, want %q", got, want)
			}
		}
	}
}

// A terminated VM shows what it was, and no NIC.
func TestTerminatedVmInNet(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, _ := l.subnet(anna)
	for _, checked := range []bool{true, false} {
		vm := l.vmIn(anna, `"SubnetId": %q, "ActionsOnNextBoot": {"SecureBoot": "enable"}, "BootOnCreation": false`, subnet)
		l.Call(anna, "UpdateVm", `{"VmId": %q, "IsSourceDestChecked": %t}`, vm, checked)
		l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, vm)
		l.act()
		v := l.read(anna, "ReadVms", "VmIds", vm)
		if v.Text("State") != "terminated" || v["IsSourceDestChecked"] != checked || len(v.Object("ActionsOnNextBoot")) != 0 ||
			v["ActionsOnNextBoot"] == nil ||
			v["Nics"] != nil || v["SecurityGroups"] != nil || v["BlockDeviceMappings"] == nil || v["Tags"] == nil {
			t.Errorf("it ends as %v", v)
		}
		l.Selects(l.list(anna, "ReadVms", `{"VmIds": [%q], "IsSourceDestChecked": %t}`, vm, checked), "VmId", vm)
	}
}

func TestPrivateOnly(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	data := base64.StdEncoding.EncodeToString([]byte(
		"#!/bin/sh\n-----BEGIN OUTSCALE SECTION-----\n private_only = true\n-----END OUTSCALE SECTION-----\n"))
	check := func(v reply, private bool) {
		t.Helper()
		nics := v.Objects("Nics")
		if !private {
			if len(nics) != 0 || v.Text("NetId") != "<nil>" || v.Text("PublicIp") == "<nil>" {
				t.Errorf("a VM of the public Cloud is %v", v)
			}
			return
		}
		if len(nics) != 1 || v.Text("PublicIp") != "<nil>" || !strings.HasPrefix(v.Text("NetId"),
			"vpc-") || !strings.HasPrefix(v.Text("SubnetId"), "subnet-") {
			t.Fatalf("a private VM is %v", v)
		}
		if n := nics[0]; n.Text("Description") != "Primary network interface" || n.Text("IsSourceDestChecked") != "false" ||
			n.Text("NetId") != v.Text("NetId") ||
			n.Object("LinkNic").Text("DeleteOnVmDeletion") != "true" {
			t.Errorf("its NIC is %v", n)
		}
	}
	v := l.vms(anna, `"UserData": %q`, data)[0]
	check(v, true)
	if other := l.vms(anna, `"UserData": %q`, data)[0]; other.Text("NetId") != v.Text("NetId") {
		t.Errorf("two private VMs are in %s and %s", v["NetId"], other["NetId"])
	}
	vm := v.Text("VmId")
	change := func(data string, private bool) {
		t.Helper()
		l.act()
		l.Call(anna, "StopVms", `{"VmIds": [%q]}`, vm)
		l.act()
		l.Call(anna, "UpdateVm", `{"VmId": %q, "UserData": %q}`, vm, data)
		l.Call(anna, "StartVms", `{"VmIds": [%q]}`, vm)
		l.act()
		check(l.read(anna, "ReadVms", "VmIds", vm), private)
	}
	change("", false)
	change(data, true)
}

// A VM in a Net with hardware of its own takes that, or a group of it.
func TestTenancyInADedicatedNet(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	group := l.One(anna, "CreateDedicatedGroup", `{"CpuGeneration": 5, "Name": "ours", "SubregionName": "test-1b"}`).Text("DedicatedGroupId")
	other := l.One(anna, "CreateDedicatedGroup", `{"CpuGeneration": 5, "Name": "others", "SubregionName": "test-1b"}`).Text("DedicatedGroupId")
	for _, test := range []struct{ net, asked, want string }{
		{"default", "", "default"}, {"default", "dedicated", "dedicated"}, {"default", group, group},
		{"dedicated", "", "dedicated"}, {"dedicated", "default", "dedicated"}, {"dedicated", group, group},
		{group, "", group}, {group, "dedicated", group}, {group, other, group},
	} {
		net := l.One(anna, "CreateNet", `{"IpRange": "10.0.0.0/16", "Tenancy": %q}`, test.net).Text("NetId")
		subnet := l.One(anna, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.1.0/24", "SubregionName": "test-1b"}`, net).Text("SubnetId")
		v := l.vms(anna, `"VmType": "tinav5.c1r1", "SubnetId": %q, "Placement": {"Tenancy": %q}`, subnet, test.asked)[0]
		if got := v.Object("Placement").Text("Tenancy"); got != test.want {
			t.Errorf("in a Net with %s, asked for %q, it has %s, want %s", test.net, test.asked, got, test.want)
		}
	}
}

// A dedicated group knows the VMs that are made in it, and takes them with it.
func TestVmsInADedicatedGroup(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	group := l.One(anna, "CreateDedicatedGroup", `{"CpuGeneration": 5, "Name": "ours", "SubregionName": "test-1b"}`).Text("DedicatedGroupId")
	vm := l.vmIn(anna, `"VmType": "tinav5.c1r1", "Placement": {"SubregionName": "test-1b", "Tenancy": %q}`, group)
	l.vmIn(anna, "")
	if got := l.read(anna, "ReadDedicatedGroups", "DedicatedGroupIds", group).Text("VmIds"); got != "["+vm+"]" {
		t.Errorf("in the group are %s, want %s", got, vm)
	}
	l.refuse(apierror.InUse, anna, "DeleteDedicatedGroup", `{"DedicatedGroupId": %q}`, group)
	l.Call(anna, "DeleteDedicatedGroup", `{"DedicatedGroupId": %q, "Force": true}`, group)
	l.act()
	if v := l.read(anna, "ReadVms", "VmIds", vm); v.Text("State") != "terminated" || v.Object("Placement").Text("Tenancy") != group {
		t.Errorf("its VM is %v", v)
	}
}
