package compute

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
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
	// The name of the keypair that opens the VMs.
	KeypairName string
	// The most VMs to make: as many as there is room for. By default, as many as at least.
	MaxVmsCount *int
	// The fewest VMs to make: if there is no room for them, none is made. By default, 1.
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
	// What the VMs are told, in Base64, of which there are at most 500 KiB. A section of it can
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
	order, err := region.order(tx, req)
	if err != nil {
		return nil, err
	}
	made, err := region.fill(tx, order, least, most)
	if err != nil {
		return nil, err
	}
	resp := &CreateVmsResponse{}
	for _, v := range made {
		own := *v
		resp.Vms = append(resp.Vms, region.viewVm(tx, &own))
	}
	return resp, nil
}

// createdBefore answers what an earlier call with the same client token made, as
// far as it is there; nil: there was none.
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

// counts are the fewest and the most VMs to make.
func (req *CreateVmsRequest) counts() (least, most int, err error) {
	least = 1
	if req.MinVmsCount != nil {
		least = *req.MinVmsCount
	}
	most = least
	if req.MaxVmsCount != nil {
		most = *req.MaxVmsCount
	}
	switch {
	case req.MinVmsCount == nil && most >= 1:
	case least < 1:
		err = apierror.InvalidCount.Errorf("MinVmsCount is at least 1.")
	case most < least:
		err = apierror.InvalidCount.Errorf("MaxVmsCount, %d, is less than MinVmsCount, %d.", most, least)
	}
	switch {
	case err != nil:
	case most < 1:
		err = apierror.InvalidCount.Errorf("MaxVmsCount is at least 1.")
	case most > maxVmsPerCall:
		err = apierror.InvalidCount.Errorf("One call makes at most %d VMs.", maxVmsPerCall)
	}
	return least, most, err
}

// order is a creation of VMs that are alike, checked: what they have in common,
// and what each of them gets.
type order struct {
	vm       Vm
	disks    []plannedDisk
	plug     plug
	userData int // the length of the user data
}

// order checks a request.
func (region Region) order(tx *resource.Tx, req *CreateVmsRequest) (*order, error) {
	owner, image, err := launchable(tx, req.ImageId)
	switch {
	case err != nil:
		return nil, err
	case req.BsuOptimized:
		return nil, apierror.InvalidConfiguration.Errorf("BsuOptimized is not available.")
	}
	o := &order{userData: len(req.UserData), vm: Vm{
		Architecture: string(image.Architecture), ClientToken: string(req.ClientToken), CreationDate: api.At(tx.Now()),
		DeletionProtection: req.DeletionProtection, Hypervisor: "xen", ImageId: image.ImageId, KeypairName: req.KeypairName,
		NestedVirtualization: req.NestedVirtualization, ProductCodes: image.ProductCodes, RootDeviceName: image.RootDeviceName, RootDeviceType: "ebs",
		ReservationId: "r-" + resource.Random(tx.Rand(), 8, resource.Hexadecimal),
		Running:       req.BootOnCreation, PrivateOnly: req.UserData.orders().privateOnly, Generation: 1,
	}}
	if err := o.vm.setUserData(tx, req.UserData); err != nil {
		return nil, err
	}
	if req.ClientToken != "" {
		o.vm.Asked = digest(req)
	}
	if req.BootOnCreation {
		o.vm.Boots = 1
	}
	if err := o.vm.setShutdown(req.VmInitiatedShutdownBehavior, req.ShutdownBehaviorConfiguration); err != nil {
		return nil, err
	}
	if err := o.vm.setKeypair(tx, req.KeypairName); err != nil {
		return nil, err
	}
	if err := o.vm.bootAs(image, req); err != nil {
		return nil, err
	}
	name := req.VmType
	if name == "" {
		name = defaultVmType
	}
	if err := region.setType(&o.vm, name, req.Performance); err != nil {
		return nil, err
	}
	if o.plug, err = region.plan(tx, req); err != nil {
		return nil, err
	}
	if o.vm.Placement, err = region.place(tx, req.Placement, &o.plug); err != nil {
		return nil, err
	}
	if err := o.vm.joinGroup(tx); err != nil {
		return nil, err
	}
	if err := o.vm.checkNested(); err != nil {
		return nil, err
	}
	o.disks, err = region.planDisks(tx, owner, image, o.vm.Placement.SubregionName, req.BlockDeviceMappings)
	return o, err
}

// setType gives a VM the size and performance of a type.
func (region Region) setType(v *Vm, name string, asked Performance) error {
	size, performance, err := region.typed(name, asked)
	if err != nil {
		return err
	}
	v.VmType, v.Vcores, v.Memory, v.Performance = name, size.Vcores, size.Memory, performance
	return nil
}

// setKeypair gives a VM a keypair; an empty name: none.
func (v *Vm) setKeypair(tx *resource.Tx, name string) error {
	if name == "" {
		return nil
	}
	k, err := keypairNamed(tx, name)
	if err == nil {
		v.KeypairName, v.PublicKey = k.KeypairName, k.PublicKey
	}
	return err
}

// setShutdown says what happens when a VM stops, in either of its two views; if
// it is said in neither, it stays as it is, or is to stop.
func (v *Vm) setShutdown(behavior ShutdownBehavior, config *ShutdownBehaviorConfiguration) error {
	if v.VmInitiatedShutdownBehavior == "" {
		v.VmInitiatedShutdownBehavior = ShutdownStop
		v.ShutdownBehaviorConfiguration = ShutdownBehaviorConfiguration{GuestStop, HostStop}
	}
	if behavior != "" && config != nil {
		return apierror.IncompatibleParameters.Errorf("VmInitiatedShutdownBehavior and ShutdownBehaviorConfiguration are the same: they cannot be given together.")
	}
	now := &v.ShutdownBehaviorConfiguration
	switch {
	case config != nil:
		if config.GuestAction != "" {
			now.GuestAction = config.GuestAction
		}
		if config.HostAction != "" {
			now.HostAction = config.HostAction
		}
		v.VmInitiatedShutdownBehavior = ShutdownBehavior(now.GuestAction)
	case behavior != "":
		v.VmInitiatedShutdownBehavior = behavior
		*now = map[ShutdownBehavior]ShutdownBehaviorConfiguration{
			ShutdownStop: {GuestStop, HostStop}, ShutdownRestart: {GuestStop, HostRestart}, ShutdownTerminate: {GuestTerminate, HostStop},
		}[behavior]
	}
	return nil
}

// bootAs says how a VM boots that is made from an image.
func (v *Vm) bootAs(image *Image, req *CreateVmsRequest) error {
	v.BootMode = req.BootMode
	switch {
	case v.BootMode == "" && slices.Contains(image.BootModes, BootUefi):
		v.BootMode = BootUefi
	case v.BootMode == "" && len(image.BootModes) > 0:
		v.BootMode = image.BootModes[0]
	case v.BootMode == "":
		v.BootMode = BootLegacy
	case len(image.BootModes) > 0 && !slices.Contains(image.BootModes, v.BootMode):
		return apierror.InvalidParameter.Errorf("The image %s does not boot by %s, only by %s.", image.ImageId, v.BootMode, image.BootModes)
	}
	v.TpmEnabled = image.TpmMandatory
	if tpm := req.TpmEnabled; tpm != nil {
		if image.TpmMandatory && !*tpm {
			return apierror.InvalidParameter.Errorf("The image %s needs a Trusted Platform Module.", image.ImageId)
		}
		v.TpmEnabled = *tpm
	}
	return v.setNextBoot(req.ActionsOnNextBoot)
}

// setNextBoot says what is to be done at the next boot, if anything.
func (v *Vm) setNextBoot(actions *ActionsOnNextBoot) error {
	if actions == nil || actions.SecureBoot == "" {
		return nil
	}
	if actions.SecureBoot != SecureBootNone && v.BootMode == BootLegacy {
		return apierror.InvalidParameter.Errorf("ActionsOnNextBoot.SecureBoot is for VMs that boot by %s, and this one boots by %s.", BootUefi, v.BootMode)
	}
	v.ActionsOnNextBoot = &ActionsOnNextBoot{actions.SecureBoot}
	return nil
}

// checkNested refuses VMs in a VM that shares its host.
func (v *Vm) checkNested() error {
	if v.NestedVirtualization && v.Placement.Tenancy == network.TenancyDefault {
		return apierror.InvalidParameter.Errorf("NestedVirtualization is for dedicated tenancies only.")
	}
	return nil
}
