package compute

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
)

func vmActions(region Region) []api.Action {
	return []api.Action{
		api.Do("Vm", region.createVms),
		api.Read[ReadVmsRequest](api.NewResource(Vms, region.viewVm)),
		api.Update(api.NewResource(Vms, region.viewVm), region.updateVm),
		api.Do("Vm", region.startVms),
		api.Do("Vm", stopVms),
		api.Command("Vm", rebootVms),
		api.Do("Vm", deleteVms),
		readVmsState(),
		readVmsStopHistory(),
		api.Do("Vm", region.readAdminPassword),
		api.Do("Vm", region.readConsoleOutput),
	}
}

// ReadVmsRequest asks for VMs. Terminated ones can be read for an hour.
type ReadVmsRequest struct {
	Filters *FiltersVm // Which VMs to list; all of them if absent.
	api.Page
}

// FiltersVm selects VMs.
type FiltersVm struct {
	// The architectures of the VMs: `i386` or `x86_64`.
	Architectures []string
	// Whether the volumes are deleted when the VMs are.
	BlockDeviceMappingDeleteOnVmDeletion *bool `path:"BlockDeviceMappings.Bsu.DeleteOnVmDeletion"`
	// The names of the devices of the volumes.
	BlockDeviceMappingDeviceNames []string
	// When the volumes were linked.
	BlockDeviceMappingLinkDates []api.DateTime `path:"BlockDeviceMappings.Bsu.LinkDate"`
	// The states of the links of the volumes.
	BlockDeviceMappingStates []VolumeLinkState `path:"BlockDeviceMappings.Bsu.State"`
	// The IDs of the volumes.
	BlockDeviceMappingVolumeIds []id.Volume `path:"BlockDeviceMappings.Bsu.VolumeId"`
	BootModes                   []BootMode  // How the VMs boot.
	// The tokens that the creations were asked for with.
	ClientTokens  []string
	CreationDates []api.DateTime // When the VMs were created.
	// The IDs of the images that the VMs were made from.
	ImageIds []id.Image
	// Whether the primary NICs only receive and send packets that are addressed to or by them.
	IsSourceDestChecked *bool
	// The names of the keypairs that open the VMs.
	KeypairNames []string
	// The numbers of the VMs among those created by the same call.
	LaunchNumbers []int
	// `spot` for VMs that may be taken away at any time. There are none.
	Lifecycles []string
	// The IDs of the Nets that the VMs are in.
	NetIds []id.Net
	// The account IDs of the owners of the NICs.
	NicAccountIds []id.Account
	// The descriptions of the NICs.
	NicDescriptions []string
	// Whether the NICs only receive and send packets that are addressed to or by them.
	NicIsSourceDestChecked *bool
	// Whether the NICs are deleted when the VMs are.
	NicLinkNicDeleteOnVmDeletion *bool
	// The numbers of the NICs among those of their VMs.
	NicLinkNicDeviceNumbers []int
	// When the NICs were linked.
	NicLinkNicLinkNicDates []api.DateTime `path:"Nics.LinkNic.LinkDate"`
	// The IDs of the links of the NICs.
	NicLinkNicLinkNicIds []id.LinkNic
	// The states of the links of the NICs.
	NicLinkNicStates []network.LinkNicState
	// The account IDs of the owners of the VMs.
	NicLinkNicVmAccountIds []id.Account
	// The IDs of the VMs that the NICs are linked to.
	NicLinkNicVmIds []id.Vm
	// The account IDs of the owners of the public IPs of the NICs.
	NicLinkPublicIpAccountIds []id.Account `path:"Nics.LinkPublicIp.PublicIpAccountId"`
	// The IDs of the links between public IPs and the NICs.
	NicLinkPublicIpLinkPublicIpIds []id.LinkPublicIp
	// The IDs of the public IPs of the NICs.
	NicLinkPublicIpPublicIpIds []id.PublicIp
	// The public IPs of the NICs.
	NicLinkPublicIpPublicIps []api.IPv4
	// The MAC addresses of the NICs.
	NicMacAddresses []string
	// The IDs of the Nets that the NICs are in.
	NicNetIds []id.Net
	// The IDs of the NICs.
	NicNicIds []id.Nic
	// The account IDs of the owners of the public IPs of any private IPs of the NICs.
	NicPrivateIpsLinkPublicIpAccountIds []id.Account `path:"Nics.PrivateIps.LinkPublicIp.PublicIpAccountId"`
	// The public IPs of any private IPs of the NICs.
	NicPrivateIpsLinkPublicIpIds []api.IPv4 `path:"Nics.PrivateIps.LinkPublicIp.PublicIp"`
	// Whether the NICs have a primary private IP, or, if false, secondary ones.
	NicPrivateIpsPrimaryIp *bool `path:"Nics.PrivateIps.IsPrimary"`
	// The private IPs of the NICs.
	NicPrivateIpsPrivateIps []api.IPv4
	// The IDs of the security groups that the NICs are in.
	NicSecurityGroupIds []id.SecurityGroup `path:"Nics.SecurityGroups.SecurityGroupId"`
	// The names of the security groups that the NICs are in.
	NicSecurityGroupNames []string `path:"Nics.SecurityGroups.SecurityGroupName"`
	// The states of the NICs.
	NicStates []network.NicState
	// The IDs of the Subnets that the NICs are in.
	NicSubnetIds []id.Subnet
	// The Subregions that the NICs are in.
	NicSubregionNames []string
	// `windows` for VMs whose image is billed as a Windows.
	Platforms []string
	// The primary private IPs of the VMs.
	PrivateIps []api.IPv4
	// What the software in the images is billed as.
	ProductCodes []string
	PublicIps    []api.IPv4 // The public IPs of the VMs.
	// The IDs of the calls that created the VMs.
	ReservationIds  []string
	RootDeviceNames []string // The names of the root devices.
	RootDeviceTypes []string // The types of the root devices.
	// The IDs of the security groups of VMs in the public Cloud.
	SecurityGroupIds []id.SecurityGroup `path:"CloudGroups.SecurityGroupId"`
	// The names of the security groups of VMs in the public Cloud.
	SecurityGroupNames []string `path:"CloudGroups.SecurityGroupName"`
	// The numbers of the reasons of the states, which none has.
	StateReasonCodes []int
	// Why the VMs are in their states.
	StateReasonMessages []string `path:"StateReason"`
	StateReasons        []string // Why the VMs are in their states.
	// The IDs of the Subnets of the primary NICs.
	SubnetIds []id.Subnet
	// The names of the Subregions of the VMs.
	SubregionNames []string `path:"Placement.SubregionName"`
	// The tenancies of the VMs.
	Tenancies []string `path:"Placement.Tenancy"`
	// Whether the VMs have a virtual Trusted Platform Module.
	TpmEnabled *bool
	// The IDs of the VMs.
	VmIds []id.Vm `api:"strict"`
	// The IDs of the security groups of the VMs.
	VmSecurityGroupIds []id.SecurityGroup `path:"SecurityGroups.SecurityGroupId"`
	// The names of the security groups of the VMs.
	VmSecurityGroupNames []string `path:"SecurityGroups.SecurityGroupName"`
	// The numbers of the states of the VMs: `0` (pending), `16` (running), `32`
	// (shutting-down), `48` (terminated), `64` (stopping) and `80` (stopped).
	VmStateCodes []int `path:"StateCode"`
	// The states of the VMs.
	VmStateNames []VmStateName `path:"State"`
	// The types of the VMs, as they were given.
	VmTypes []string
	api.TagFilters
}
