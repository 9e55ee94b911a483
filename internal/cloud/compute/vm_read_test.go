package compute

import (
	"fmt"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestVmFilters(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	subnet, net := l.subnet(anna)
	internet := l.One(anna, "CreateInternetService", `{}`).Text("InternetServiceId")
	l.Call(anna, "LinkInternetService", `{"InternetServiceId": %q, "NetId": %q}`, internet, net)
	l.Call(anna, "CreateKeypair", `{"KeypairName": "key",
		"PublicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKqO8OYfWSgr6feI7XEPe0RQPCfmDaZ3T4dtM0wgcmXs"}`)
	image := l.omi(anna, func(i *Image) { i.ProductCodes, i.BootModes = []string{"0002"}, []BootMode{BootLegacy} })
	one := l.vms(anna, `"SubnetId": %q, "PrivateIps": ["10.0.1.7", "10.0.1.8"], "KeypairName": "key", "VmType": "tinav5.c1r1",
		"Placement": {"Tenancy": "dedicated"}`, subnet)[0].Text("VmId")
	l.settle()
	two := l.Call(anna, "CreateVms", `{"ImageId": %q, "ClientToken": "two", "BootOnCreation": false, "MinVmsCount": 2, "TpmEnabled": true,
		"BlockDeviceMappings": [{"DeviceName": "/dev/xvdb", "Bsu": {"VolumeSize": 1, "DeleteOnVmDeletion": false}}]}`, image).Objects("Vms")
	cloud, other := two[0].Text("VmId"), two[1].Text("VmId")
	l.act()
	ip := l.One(anna, "CreatePublicIp", `{}`)
	link := l.Call(anna, "LinkPublicIp", `{"VmId": %q, "PublicIp": %q}`, one, ip.Text("PublicIp")).Text("LinkPublicIpId")
	l.Update(anna, func(tx *resource.Tx) error {
		tagged, _ := tx.Tagged(one)
		tx.SetTags(tagged, []api.Tag{{Key: "env", Value: "test"}})
		return nil
	})
	v, w := l.read(anna, "ReadVms", "VmIds", one), l.read(anna, "ReadVms", "VmIds", cloud)
	nic, bsu := v.Objects("Nics")[0], v.Objects("BlockDeviceMappings")[0].Object("Bsu")
	group := nic.Objects("SecurityGroups")[0].Text("SecurityGroupId")
	cloudGroup := w.Objects("SecurityGroups")[0].Text("SecurityGroupId")
	linked := "2026-11-20T10:00:00.000Z"
	first, rest, all, none := []string{one}, []string{cloud, other}, []string{one, cloud, other}, []string(nil)
	tests := []struct {
		name  string
		value any
		want  []string
	}{
		{"Architectures", []string{"x86_64"}, all}, {"Architectures", []string{"i386"}, none},
		{"BlockDeviceMappingDeleteOnVmDeletion", false, rest}, {"BlockDeviceMappingDeleteOnVmDeletion", true, all},
		{"BlockDeviceMappingDeviceNames", []string{"/dev/xvdb"}, rest},
		{"BlockDeviceMappingLinkDates", []string{linked}, first},
		{"BlockDeviceMappingStates", []string{"attached"}, all}, {"BlockDeviceMappingStates", []string{"attaching"}, none},
		{"BlockDeviceMappingVolumeIds", []string{bsu.Text("VolumeId")}, first},
		{"BootModes", []string{"uefi"}, first}, {"BootModes", []string{"legacy"}, rest},
		{"ClientTokens", []string{"two"}, rest},
		{"CreationDates", []string{linked}, first}, {"CreationDates", []string{w.Text("CreationDate")}, rest},
		{"ImageIds", []string{image}, rest},
		{"IsSourceDestChecked", true, first}, {"IsSourceDestChecked", false, rest},
		{"KeypairNames", []string{"key"}, first},
		{"LaunchNumbers", []int{1}, []string{other}},
		{"Lifecycles", []string{"spot"}, none},
		{"NetIds", []string{net}, first},
		{"NicAccountIds", []string{anna}, first},
		{"NicDescriptions", []string{"Primary network interface"}, first},
		{"NicIsSourceDestChecked", true, first}, {"NicIsSourceDestChecked", false, none},
		{"NicLinkNicDeleteOnVmDeletion", true, first},
		{"NicLinkNicDeviceNumbers", []int{0}, first}, {"NicLinkNicDeviceNumbers", []int{1}, none},
		{"NicLinkNicLinkNicDates", []string{linked}, first}, {"NicLinkNicLinkNicDates", []string{"2026-11-20"}, none},
		{"NicLinkNicLinkNicIds", []string{nic.Object("LinkNic").Text("LinkNicId")}, first},
		{"NicLinkNicStates", []string{"attached"}, first},
		{"NicLinkNicVmAccountIds", []string{anna}, first}, {"NicLinkNicVmAccountIds", []string{ben}, none},
		{"NicLinkNicVmIds", []string{one}, first}, {"NicLinkNicVmIds", []string{cloud}, none},
		{"NicLinkPublicIpAccountIds", []string{anna}, first},
		{"NicLinkPublicIpLinkPublicIpIds", []string{link}, first},
		{"NicLinkPublicIpPublicIpIds", []string{ip.Text("PublicIpId")}, first},
		{"NicLinkPublicIpPublicIps", []string{ip.Text("PublicIp")}, first},
		{"NicMacAddresses", []string{nic.Text("MacAddress")}, first},
		{"NicNetIds", []string{net}, first},
		{"NicNicIds", []string{nic.Text("NicId")}, first},
		{"NicPrivateIpsLinkPublicIpAccountIds", []string{anna}, first},
		{"NicPrivateIpsLinkPublicIpIds", []string{ip.Text("PublicIp")}, first},
		{"NicPrivateIpsPrimaryIp", false, first},
		{"NicPrivateIpsPrivateIps", []string{"10.0.1.8"}, first},
		{"NicSecurityGroupIds", []string{group}, first}, {"NicSecurityGroupIds", []string{cloudGroup}, none},
		{"NicSecurityGroupNames", []string{"default"}, first},
		{"NicStates", []string{"in-use"}, first}, {"NicStates", []string{"available"}, none},
		{"NicSubnetIds", []string{subnet}, first},
		{"NicSubregionNames", []string{"test-1b"}, first},
		{"Platforms", []string{"windows"}, rest},
		{"PrivateIps", []string{"10.0.1.7"}, first}, {"PrivateIps", []string{"10.0.1.8"}, none},
		{"ProductCodes", []string{"0001"}, first}, {"ProductCodes", []string{"0002"}, rest},
		{"PublicIps", []string{ip.Text("PublicIp")}, first},
		{"ReservationIds", []string{w.Text("ReservationId")}, rest},
		{"RootDeviceNames", []string{"/dev/sda1"}, all},
		{"RootDeviceTypes", []string{"ebs"}, all}, {"RootDeviceTypes", []string{"bsu"}, none},
		{"SecurityGroupIds", []string{cloudGroup}, rest}, {"SecurityGroupIds", []string{group}, none},
		{"SecurityGroupNames", []string{"default"}, rest},
		{"StateReasonCodes", []int{1}, none},
		{"StateReasonMessages", []string{"Client.ApiGracefulShutdown"}, none}, {"StateReasonMessages", []string{"Client.InstanceNeverStarted"},
			rest},
		{"StateReasons", []string{"Client.ApiGracefulShutdown"}, none}, {"StateReasons", []string{""}, first},
		{"SubnetIds", []string{subnet}, first},
		{"SubregionNames", []string{"test-1b"}, first}, {"SubregionNames", []string{"test-1a"}, rest},
		{"TagKeys", []string{"env"}, first}, {"TagValues", []string{"test"}, first}, {"Tags", []string{"env=test"}, first}, {"Tags",
			[]string{"env=prod"}, none},
		{"Tenancies", []string{"dedicated"}, first}, {"Tenancies", []string{"default"}, rest},
		{"TpmEnabled", true, rest}, {"TpmEnabled", false, first},
		{"VmIds", []string{other, one, "i-00000000"}, []string{one, other}},
		{"VmSecurityGroupIds", []string{group, cloudGroup}, all}, {"VmSecurityGroupIds", []string{group}, first},
		{"VmSecurityGroupNames", []string{"default"}, all},
		{"VmStateCodes", []int{16}, first}, {"VmStateCodes", []int{80}, rest}, {"VmStateCodes", []int{48}, none},
		{"VmStateNames", []string{"running"}, first}, {"VmStateNames", []string{"stopped", "running"}, all},
		{"VmTypes", []string{"tinav5.c1r1"}, first}, {"VmTypes", []string{"t2.small"}, rest},
	}
	seen := map[string]bool{}
	for _, test := range tests {
		seen[test.name] = true
		got := l.list(anna, "ReadVms", "%s", jsonOf(map[string]any{test.name: test.value}))
		own := *l
		t.Run(fmt.Sprint(test.name, " ", test.value), func(t *testing.T) {
			own.T = t
			own.Selects(got, "VmId", test.want...)
		})
	}
	for _, f := range fields[FiltersVm]() {
		if !seen[f] {
			t.Errorf("no test selects by %s", f)
		}
	}
	l.Selects(l.list(ben, "ReadVms", `{}`), "VmId")
}
