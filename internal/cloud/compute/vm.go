package compute

import (
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Vm is a virtual machine. Its NICs and volumes say themselves that they are
// linked to it; a view puts them together.
type Vm struct {
	// What is to be done once, when the VM boots next.
	ActionsOnNextBoot *ActionsOnNextBoot
	Architecture      string // The architecture of the VM.
	// The volumes that are linked to the VM, in the order of their links.
	BlockDeviceMappings []BlockDeviceMappingCreated `json:"-"`
	BootMode            BootMode                    // How the VM boots.
	// Without effect, and there for clients that were written for AWS.
	BsuOptimized bool
	// The token that the creation was asked for with.
	ClientToken        string       `wire:"omitempty"`
	CreationDate       api.DateTime // When the VM was created.
	DeletionProtection bool         // Whether the VM cannot be deleted.
	Hypervisor         string       // The hypervisor of the VM.
	// The ID of the image that the VM was made from.
	ImageId id.Image `ref:"-"`
	// Whether the primary NIC only receives and sends packets that are addressed to or by it.
	IsSourceDestChecked bool   `json:"-"`
	KeypairName         string // The name of the keypair of the VM.
	// The number of the VM among those created by the same call, from 0 on.
	LaunchNumber         int
	NestedVirtualization bool // Whether VMs can run in the VM.
	// The ID of the Net that the VM is in; absent in the public Cloud.
	NetId id.Net `json:"-" ref:"-"`
	// The NICs of the VM; none in the public Cloud. Absent once the VM is
	// terminated.
	Nics        *[]NicLight `json:"-"`
	OsFamily    string      `wire:"omitempty"` // The operating system, if it is known.
	Performance Performance // How much of its vCores the VM gets.
	Placement   Placement   // Where the VM runs.
	// The private DNS name of the primary NIC.
	PrivateDnsName string   `json:"-" wire:"omitempty"`
	PrivateIp      api.IPv4 `json:"-" wire:"omitempty"` // The primary private IP.
	ProductCodes   []string // What the software in the image is billed as.
	PublicDnsName  string   `json:"-" wire:"omitempty"` // The public DNS name.
	PublicIp       api.IPv4 `json:"-" wire:"omitempty"` // The public IP.
	// The ID of the call that created the VM, shared by all VMs of the call.
	ReservationId  string
	RootDeviceName string // The name of the root device.
	RootDeviceType string // The type of the root device.
	// The security groups of the primary NIC, in the order of their IDs. Absent
	// once the VM is terminated.
	SecurityGroups *[]network.SecurityGroupLight `json:"-"`
	// What happens when the VM stops by itself or its host fails.
	ShutdownBehaviorConfiguration ShutdownBehaviorConfiguration
	State                         VmStateName // The state of the VM.
	// Why the VM is in its state, if there is a reason.
	StateReason string
	// The ID of the Subnet of the primary NIC.
	SubnetId id.Subnet `json:"-" ref:"-"`
	Tags     []api.Tag // The tags of the VM.
	// Whether the VM has a virtual Trusted Platform Module.
	TpmEnabled bool
	// The user data of the VM, in Base64.
	UserData UserData
	VmId     id.Vm // The ID of the VM.
	// What happens when the VM stops by itself.
	VmInitiatedShutdownBehavior ShutdownBehavior
	// The type of the VM, as it was given.
	VmType string

	// Vcores and Memory, in GiB, are what the type means.
	Vcores int `wire:"-"`
	Memory int `wire:"-"`

	// UserTextId is that of the user data, if they are not in UserData: see
	// [userText].
	UserTextId userTextID `wire:"-"`
	// PublicKey is that of the keypair, which may be gone.
	PublicKey string `wire:"-"`
	// Asked is the digest of the request, if it had a client token.
	Asked string `wire:"-"`
	// VmGroupId is the group that made the VM; empty: none did.
	VmGroupId id.VmGroup `wire:"-" ref:"weak"`
	// AwaitedBy is the group that waits for the VM: while it is pending or shutting down.
	AwaitedBy id.VmGroup `wire:"-" ref:"weak"`
	// DedicatedGroupId is the tenancy, if that is a dedicated group.
	DedicatedGroupId id.DedicatedGroup `wire:"-" ref:"weak"`
	// PrivateOnly says that the VM is in the public Cloud without a public IP, as
	// its user data ask for. They count when the VM starts.
	PrivateOnly bool `wire:"-"`

	// SourceDestChecked is what IsSourceDestChecked was when the VM was
	// terminated: its NICs, which had it, are gone.
	SourceDestChecked bool `wire:"-"`

	// Running is the requested state of the VM, State the observed one.
	Running bool `wire:"-"`
	// Boots counts the starts and reboots that were asked for.
	Boots int `wire:"-"`
	// Forced says that a stop does not wait for the guest.
	Forced bool `wire:"-"`

	// Generation and ObservedGeneration are as in [network.Net].
	Generation         uint64 `wire:"-"`
	ObservedGeneration uint64 `wire:"-"`

	// Fields that filters select by and no answer shows: the number of the state, the
	// platform and the lifecycle as AWS has them, the number of the state reason,
	// which none has, and the security groups of a VM of the public Cloud.
	StateCode       int                          `json:"-" wire:"-"`
	Platform        string                       `json:"-" wire:"-"`
	Lifecycle       string                       `json:"-" wire:"-"`
	StateReasonCode int                          `json:"-" wire:"-"`
	CloudGroups     []network.SecurityGroupLight `json:"-" wire:"-"`
}

// Pending reports whether the driver is behind.
func (v *Vm) Pending() bool { return v.ObservedGeneration < v.Generation }

// The names of the sums of the VMs of an account: vCores, and GiB of memory.
const vmCores, vmMemory = "cores", "memory"

// Sums implements [resource.Summed].
func (v *Vm) Sums() resource.Sums {
	return resource.Sums{{Name: vmCores, N: int64(v.Vcores)}, {Name: vmMemory, N: int64(v.Memory)}}
}

// Vms are the VMs of the region.
var Vms = &resource.Kind[Vm, id.Vm]{
	Name:      "Vm",
	Tag:       "vm",
	NotFound:  apierror.VmNotFound,
	InUse:     apierror.InUse,
	Quota:     &resource.Quota{Name: "vm_limit", Code: apierror.TooManyVms},
	Retention: time.Hour, // as long as AWS shows terminated ones
	Life:      vmLife,

	ToldTags: true, // machines can ask for them
}

// BlockDeviceMappingCreated is a volume that is linked to a VM.
type BlockDeviceMappingCreated struct {
	Bsu        BsuCreated // The volume.
	DeviceName string     // The name of the device.
}

// BsuCreated is the volume of a mapping.
type BsuCreated struct {
	DeleteOnVmDeletion bool            // Whether the volume is deleted when the VM is.
	LinkDate           api.DateTime    // When the volume was linked.
	State              VolumeLinkState // The state of the link.
	VolumeId           id.Volume       `ref:"-"` // The ID of the volume.
}

// NicLight is a NIC as its VM shows it.
type NicLight struct {
	// The account ID of the owner of the NIC.
	AccountId   id.Account `ref:"-"`
	Description string     // The description of the NIC.
	// Whether the NIC only receives and sends packets that are addressed to or by it.
	IsSourceDestChecked bool
	LinkNic             LinkNicLight // The link between the NIC and the VM.
	// The public IP of the primary private IP; absent if it has none.
	LinkPublicIp *LinkPublicIpLightForVm
	MacAddress   string // The MAC address of the NIC.
	// The ID of the Net that the NIC is in.
	NetId          id.Net                       `ref:"-"`
	NicId          id.Nic                       `ref:"-"` // The ID of the NIC.
	PrivateDnsName string                       // The private DNS name of the NIC.
	PrivateIps     []PrivateIpLightForVm        // The private IPs of the NIC.
	SecurityGroups []network.SecurityGroupLight // The security groups that the NIC is in.
	State          network.NicState             // The state of the NIC.
	// The ID of the Subnet that the NIC is in.
	SubnetId id.Subnet `ref:"-"`

	SubregionName string `wire:"-"` // for filters
}

// LinkNicLight is the link of a NIC as its VM shows it.
type LinkNicLight struct {
	DeleteOnVmDeletion bool                 // Whether the NIC is deleted when the VM is.
	DeviceNumber       int                  // The number of the NIC among those of the VM.
	LinkNicId          id.LinkNic           `ref:"-"` // The ID of the link.
	State              network.LinkNicState // The state of the link.

	// For filters.
	LinkDate    api.DateTime `wire:"-"`
	VmAccountId id.Account   `wire:"-" ref:"-"`
	VmId        id.Vm        `wire:"-" ref:"-"`
}

// LinkPublicIpLightForVm is a public IP as a VM shows it.
type LinkPublicIpLightForVm struct {
	PublicDnsName     string     // The public DNS name of the address.
	PublicIp          api.IPv4   // The public IP.
	PublicIpAccountId id.Account `ref:"-"` // The account ID of the owner of the public IP.

	// For filters.
	LinkPublicIpId id.LinkPublicIp `wire:"-" ref:"-"`
	PublicIpId     id.PublicIp     `wire:"-" ref:"-"`
}

// PrivateIpLightForVm is a private IP as a VM shows it.
type PrivateIpLightForVm struct {
	IsPrimary bool // Whether it is the primary private IP of the NIC.
	// The public IP that stands for it on the Internet; absent if it has none.
	LinkPublicIp   *LinkPublicIpLightForVm
	PrivateDnsName string   // The private DNS name of the address.
	PrivateIp      api.IPv4 // The address.
}

// Placement says where a VM runs.
type Placement struct {
	SubregionName string // The name of the Subregion.
	// Whether the VM may share its host: `default`, `dedicated`, or the ID of a dedicated
	// group.
	Tenancy network.Tenancy
}
