package compute

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// CreateVmsRequest makes VMs from an image, in the public Cloud or in a Net, and
// starts them.
type CreateVmsRequest struct {
	// What is to be done once, when the VMs boot first.
	ActionsOnNextBoot *ActionsOnNextBoot
	// Volumes besides those of the image, or changes of these.
	BlockDeviceMappings []BlockDeviceMappingVmCreation
	// How the VMs boot. By default, `uefi` if the image has it, else the first way that it has.
	BootMode BootMode
	// Whether the VMs are started. Otherwise they are stopped.
	BootOnCreation bool `default:"true"`
	// Not available, and there for clients that were written for AWS.
	BsuOptimized bool
	// A text of your choice, of at most 64 characters. A second call with the same text makes
	// no more VMs, as long as those of the first one are there.
	ClientToken ClientToken
	// Whether the VMs cannot be deleted.
	DeletionProtection bool
	// The ID of the image, which you may use.
	ImageId id.Image `api:"required"`
	// The name of the keypair for the VMs.
	KeypairName string
	// The maximum number of VMs to create. By default, MinVmsCount.
	MaxVmsCount *int
	// The minimum number of VMs to create. If there is no capacity for them, none is created. By default, 1.
	MinVmsCount *int
	// Whether VMs can run in the VMs, for dedicated tenancies only.
	NestedVirtualization bool `default:"false"`
	// The NICs of the VM, one of them with the device number 0, all in one Net. They go in
	// place of SubnetId, PrivateIps and security groups.
	Nics []NicForVmCreation
	// How much of their vCores the VMs get, unless the type says so.
	Performance Performance `default:"high"`
	Placement   *Placement  // Where the VMs run.
	// The private IPs of the VM, the first one being the primary one, inside the range of the
	// Subnet and none of its first four or its last.
	PrivateIps []api.IPv4
	// The IDs of the security groups of the VMs. By default, the default one of the Net or of
	// the public Cloud.
	SecurityGroupIds []id.SecurityGroup
	// The names of the security groups of the VMs.
	SecurityGroups []string
	// What happens when the VMs stop by themselves or their host fails.
	ShutdownBehaviorConfiguration *ShutdownBehaviorConfiguration
	// The ID of the Subnet of the VMs. By default, they are in the public Cloud.
	SubnetId id.Subnet
	// Whether the VMs have a virtual Trusted Platform Module. By default, they do if the image
	// needs one.
	TpmEnabled *bool
	// The user data of the VMs, in Base64: at most 500 KiB. A section of it can
	// give orders to the region: tags that the VMs get, and that they have no public IP.
	UserData UserData
	// What happens when the VMs stop. By default, `stop`.
	VmInitiatedShutdownBehavior ShutdownBehavior
	// The type of the VMs: of the form `tinavW.cXrYpZ`, or the name of a predefined one. By
	// default, `t2.small`.
	VmType string
}

// CreateVmsResponse shows the VMs.
type CreateVmsResponse struct {
	Vms []*Vm // The VMs, in order of their launch numbers.
}

// maxVmsPerCall bounds what one transaction makes, and maxUserDataPerCall how many
// characters of user data its answer has, which shows them with each VM.
const (
	maxVmsPerCall      = 1000
	maxUserDataPerCall = 16 << 20
)

func (region Region) createVms(tx *resource.Tx, req *CreateVmsRequest) (*CreateVmsResponse, error) {
	if again, err := region.createdBefore(tx, req); again != nil || err != nil {
		return again, err
	}
	least, most, err := req.counts()
	if err != nil {
		return nil, err
	}
	plan, err := region.planLaunch(tx, req)
	if err != nil {
		return nil, err
	}
	vms, err := region.launch(tx, plan, least, most)
	if err != nil {
		return nil, err
	}
	resp := &CreateVmsResponse{}
	for _, v := range vms {
		own := *v
		resp.Vms = append(resp.Vms, region.viewVm(tx, &own))
	}
	return resp, nil
}

// createdBefore returns the VMs that an earlier call with the same client token
// created and that still exist; nil: there was no such call.
func (region Region) createdBefore(tx *resource.Tx, req *CreateVmsRequest) (*CreateVmsResponse, error) {
	if req.ClientToken == "" {
		return nil, nil
	}
	var resp *CreateVmsResponse
	for _, v := range Vms.Each(tx, 0) {
		if v.ClientToken != string(req.ClientToken) || v.State == VmTerminated {
			continue
		}
		if err := req.ClientToken.checkRepeated(req, v.Asked); err != nil {
			return nil, err
		}
		if resp == nil {
			resp = &CreateVmsResponse{}
		}
		own := *v
		resp.Vms = append(resp.Vms, region.viewVm(tx, &own))
	}
	return resp, nil
}

// counts returns the minimum and the maximum number of VMs to create.
func (req *CreateVmsRequest) counts() (least, most int, err error) {
	least = 1
	if req.MinVmsCount != nil {
		least = *req.MinVmsCount
	}
	most, name := least, "MinVmsCount"
	if req.MaxVmsCount != nil {
		most, name = *req.MaxVmsCount, "MaxVmsCount"
	}
	switch {
	case least < 1:
		err = apierror.InvalidCount.Errorf("MinVmsCount is %d. The minimum is 1.", least)
	case most < 1:
		err = apierror.InvalidCount.Errorf("MaxVmsCount is %d. The minimum is 1.", most)
	case most < least:
		err = apierror.InvalidCount.Errorf("MaxVmsCount (%d) is less than MinVmsCount (%d).", most, least)
	case most > maxVmsPerCall:
		err = apierror.InvalidCount.Errorf("%s is %d. The maximum is %d.", name, most, maxVmsPerCall)
	}
	return least, most, err
}
