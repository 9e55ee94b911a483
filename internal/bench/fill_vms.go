package main

import (
	"fmt"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// clusterSize is the number of VMs with a tag in common, and stoppedOneIn means
// that one in that number is stopped.
const clusterSize, stoppedOneIn = 10, 100

// image is an image that every region has.
const image = "ami-deb12000"

func vmID(n int) id.Vm { return id.Vm(fmt.Sprintf("i-%08x", n)) }

// clusterTag returns a tag that a VM has in common with some others, in the
// form of a filter.
func clusterTag(vm int) string { return fmt.Sprintf("cluster=production-%d", vm/clusterSize) }

// fillVms creates the VMs of an account, in one Subnet of its first Net: each
// with a NIC and a volume, as if the driver had them.
func (c contents) fillVms(tx *resource.Tx) error {
	if c.vms == 0 {
		return nil
	}
	group := &network.SecurityGroup{NetId: netID(0), SecurityGroupName: "default", Description: "default",
		Place: string(netID(0)) + "/default"}
	subnet := &network.Subnet{NetId: netID(0), SubregionName: regionName + "a", IpRange: "10.0.0.0/16"}
	if err := network.SecurityGroups.Insert(tx, group); err != nil {
		return err
	}
	if err := network.Subnets.Insert(tx, subnet); err != nil {
		return err
	}
	now := api.At(tx.Now())
	for i := range c.vms {
		vm := &compute.Vm{
			VmId: vmID(i), Architecture: "x86_64", BootMode: compute.BootUefi, CreationDate: now, Hypervisor: "xen", ImageId: image,
			Performance: compute.PerformanceHigh, Placement: compute.Placement{SubregionName: subnet.SubregionName, Tenancy: network.TenancyDefault},
			ProductCodes: []string{"0001"}, ReservationId: fmt.Sprintf("r-%08x", i), RootDeviceName: string(compute.RootDevice),
			RootDeviceType:                "ebs",
			ShutdownBehaviorConfiguration: compute.ShutdownBehaviorConfiguration{GuestAction: compute.GuestStop, HostAction: compute.HostStop},
			VmInitiatedShutdownBehavior:   compute.ShutdownStop, VmType: "tinav7.c2r4p2", Vcores: 2, Memory: 4,
			Tags: []api.Tag{
				{Key: "Name", Value: fmt.Sprintf("worker-%d", i)}, {Key: "cluster", Value: fmt.Sprintf("production-%d", i/clusterSize)},
				{Key: "example.com/cost-center", Value: "a value of usual length"},
			},
			Running: true, Boots: 1, Generation: 1, ObservedGeneration: 1,
		}
		power := compute.VmTurnedOn
		if i%stoppedOneIn == 0 {
			power, vm.Running = compute.VmTurnedOff, false
		}
		ip := api.IPv4(fmt.Sprintf("10.0.%d.%d", 1+i>>8, i&255))
		nic := &network.Nic{
			NicId: id.Nic(fmt.Sprintf("eni-%08x", i)), Description: "Primary network interface", IsSourceDestChecked: true, NetId: netID(0),
			MacAddress: fmt.Sprintf("aa:00:%02x:%02x:%02x:%02x", i>>24, i>>16&255, i>>8&255, i&255), SubnetId: subnet.SubnetId,
			SubregionName: subnet.SubregionName,
			PrivateIps:    []network.PrivateIp{{IsPrimary: true, PrivateIp: ip}}, Places: []string{string(subnet.SubnetId) + "/" + string(ip)},
			SecurityGroups: []network.SecurityGroupLight{{SecurityGroupId: group.SecurityGroupId}}, Told: 1,
			LinkNic: &network.LinkNic{
				DeleteOnVmDeletion: true, LinkNicId: id.LinkNic(fmt.Sprintf("eni-attach-%08x", i)), State: network.LinkNicAttached, VmId: vm.VmId,
				LinkDate: now,
			},
		}
		volume := &compute.Volume{
			VolumeId: id.Volume(fmt.Sprintf("vol-%08x", i)), CreationDate: now, Iops: 150, Size: 10,
			SubregionName: subnet.SubregionName, VolumeType: compute.VolumeStandard, Generation: 1, ObservedGeneration: 1,
			LinkedVolumes: []compute.LinkedVolume{{
				DeleteOnVmDeletion: true, DeviceName: vm.RootDeviceName, State: compute.VolumeAttached, VmId: vm.VmId, LinkDate: now,
			}},
		}
		if err := compute.Vms.Insert(tx, vm); err != nil {
			return err
		}
		if err := resource.Transition(tx, compute.Vms, vm, power); err != nil {
			return err
		}
		if err := network.Nics.Insert(tx, nic); err != nil {
			return err
		}
		if err := compute.Volumes.Insert(tx, volume); err != nil {
			return err
		}
		if err := resource.Transition(tx, compute.Volumes, volume, compute.VolumeMadeForVm); err != nil {
			return err
		}
	}
	return nil
}
