package acceptance

import (
	"maps"

	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// equipSources makes what VMs are made from: an image, which may be of anything,
// and a keypair.
func (w *testRegion) equipSources(name string, made making, has belongings) {
	w.t.Helper()
	w.update(name, func(tx *resource.Tx) error {
		image := compute.Image{
			ImageName: "an image", Architecture: compute.X86, RootDeviceName: string(compute.RootDevice),
			BlockDeviceMappings: []compute.BlockDeviceMappingImage{{DeviceName: compute.RootDevice,
				Bsu: compute.BsuToCreate{VolumeSize: 10, DeleteOnVmDeletion: true}}},
		}
		err := resource.Transition(tx, compute.Images, &image, compute.ImageRegistered)
		has["id.Image"] = string(image.ImageId)
		return err
	})
	keypair := name + "-key"
	maps.Copy(has, belongings{
		"id.Keypair":                       made("Keypair.KeypairId", "CreateKeypair", `{"KeypairName": %q, "PublicKey": %q}`, keypair, someKey),
		"DeleteKeypairRequest.KeypairName": keypair, "CreateVmTemplateRequest.KeypairName": keypair,
		"CreateVmsRequest.KeypairName": keypair, "UpdateVmRequest.KeypairName": keypair,
	})
}

// settleVms lets the driver come to have the VMs that were asked for: their Nets,
// their volumes, and then the machines.
func (w *testRegion) settleVms() {
	w.t.Helper()
	for range 4 {
		w.advance(transition)
	}
}

// equipVms makes VMs in a Subnet whose addresses begin with 10.8.0: one that has
// what a flexible GPU needs, one with a NIC only, and one that was stopped.
func (w *testRegion) equipVms(subnet string, made making, has belongings) {
	w.t.Helper()
	vm := func(ip, more string) string {
		w.t.Helper()
		return made("Vms.0.VmId", "CreateVms", `{"ImageId": %q, "SubnetId": %q, "PrivateIps": ["10.8.0.%s"], %s}`, has["id.Image"], subnet, ip,
			more)
	}
	has["id.Vm"] = vm("8", `"VmType": "tinav5.c2r4p1"`)
	has["LinkPublicIpRequest.VmId"] = vm("9", `"ClientToken": "a token"`)
	has["CreateRouteRequest.VmId"] = has["LinkPublicIpRequest.VmId"]
	stopped := vm("10", `"Placement": {"Tenancy": "dedicated"}`)
	cloud := made("Vms.0.VmId", "CreateVms", `{"ImageId": %q, "SecurityGroupIds": [%q]}`, has["id.Image"], has["id.SecurityGroup"])
	w.settleVms()
	made("", "StopVms", `{"VmIds": [%q]}`, stopped)
	w.settleVms()
	root := made("Vms.0.BlockDeviceMappings.0.Bsu.VolumeId", "ReadVms", `{"Filters": {"VmIds": [%q]}}`, stopped)
	maps.Copy(has, belongings{
		"UpdateVmRequest.VmId": stopped, "StartVmsRequest.VmIds": stopped, "FiltersVmsStopHistory.VmIds": stopped,
		"BsuToUpdateVm.VolumeId": root, "FiltersVm.BlockDeviceMappingVolumeIds": root,
		"UpdateVmRequest.SecurityGroupIds":      has["CreateNicRequest.SecurityGroupIds"],
		"NicForVmCreation.SecurityGroupIds":     has["CreateNicRequest.SecurityGroupIds"],
		"FiltersVm.NicSecurityGroupIds":         has["CreateNicRequest.SecurityGroupIds"],
		"CreateVmGroupRequest.SecurityGroupIds": has["CreateNicRequest.SecurityGroupIds"],
		"FiltersVmGroup.SecurityGroupIds":       has["CreateNicRequest.SecurityGroupIds"],
		"FiltersVm.ReservationIds":              made("Vms.0.ReservationId", "ReadVms", `{"Filters": {"VmIds": [%q]}}`, cloud),
	})
}

// equipMachines makes what VMs are made with, or in: a flexible GPU that is free
// and one that a VM has, a dedicated group, a template and a group of one VM.
func (w *testRegion) equipMachines(made making, has belongings) {
	w.t.Helper()
	gpu := func() string {
		return made("FlexibleGpu.FlexibleGpuId", "CreateFlexibleGpu", `{"ModelName": "nvidia-p6", "SubregionName": "eu-west-2a"}`)
	}
	linked, product := gpu(), made("ProductType.ProductTypeId", "CreateProductType", `{"Description": "Own", "Vendor": "Us"}`)
	made("", "LinkFlexibleGpu", `{"FlexibleGpuId": %q, "VmId": %q}`, linked, has["id.Vm"])
	maps.Copy(has, belongings{
		"id.FlexibleGpu": gpu(), "UnlinkFlexibleGpuRequest.FlexibleGpuId": linked,
		"id.DedicatedGroup": made("DedicatedGroup.DedicatedGroupId", "CreateDedicatedGroup",
			`{"CpuGeneration": 5, "Name": "ours", "SubregionName": "eu-west-2a"}`),
		"id.ProductType": product, "FiltersProductType.ProductTypeIds": product,
		"id.VmTemplate": made("VmTemplate.VmTemplateId", "CreateVmTemplate",
			`{"CpuCores": 2, "CpuGeneration": "v5", "ImageId": %q, "Ram": 4, "VmTemplateName": "small", "Tags": [{"Key": "env", `+
				`"Value": "test"}]}`, has["id.Image"]),
		"DeleteVmTemplateRequest.VmTemplateId": made("VmTemplate.VmTemplateId", "CreateVmTemplate",
			`{"CpuCores": 2, "CpuGeneration": "v5", "ImageId": %q, "Ram": 4, "VmTemplateName": "idle"}`, has["id.Image"]),
	})
	has["network.Tenancy"], has["compute.Tenancy"] = has["id.DedicatedGroup"], has["id.DedicatedGroup"]
	has["id.VmGroup"] = made("VmGroup.VmGroupId", "CreateVmGroup",
		`{"SecurityGroupIds": [%q], "SubnetId": %q, "VmCount": 1, "VmGroupName": "herd", "VmTemplateId": %q, "Tags": [{"Key": `+
			`"env", "Value": "test"}]}`,
		has["CreateVmGroupRequest.SecurityGroupIds"], has["id.Subnet"], has["id.VmTemplate"])
	w.settleVms()
	made("", "CreateTags", `{"ResourceIds": [%q, %q, %q], "Tags": [{"Key": "env", "Value": "test"}]}`, linked, has["id.Keypair"], has["id.Vm"])
}
