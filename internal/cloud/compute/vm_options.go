package compute

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ActionsOnNextBoot is what is to be done once, when a VM boots next.
type ActionsOnNextBoot struct {
	SecureBoot SecureBootAction `wire:"omitempty"` // What to do with the keys of secure boot.
}

// SecureBootAction is something to do with the keys of secure boot.
type SecureBootAction string

// SecureBootNone leaves them as they are.
const SecureBootNone SecureBootAction = "none"

// Literals implements [api.Enum].
func (SecureBootAction) Literals() []string {
	return []string{"enable", "disable", "setup-mode", "none", "restore-factory-keys"}
}

// BootMode is how a machine boots.
type BootMode string

// The ways to boot.
const (
	BootUefi   BootMode = "uefi"
	BootLegacy BootMode = "legacy"
)

// Literals implements [api.Enum].
func (BootMode) Literals() []string { return []string{"uefi", "legacy"} }

// Performance is how much of its vCores a VM gets.
type Performance string

// The levels of performance.
const (
	PerformanceMedium  Performance = "medium"
	PerformanceHigh    Performance = "high"
	PerformanceHighest Performance = "highest"
)

// Literals implements [api.Enum].
func (Performance) Literals() []string { return []string{"medium", "high", "highest"} }

// ShutdownBehavior is what happens when a VM stops by itself.
type ShutdownBehavior string

// What happens when a VM stops by itself.
const (
	ShutdownStop      ShutdownBehavior = "stop"
	ShutdownRestart   ShutdownBehavior = "restart"
	ShutdownTerminate ShutdownBehavior = "terminate"
)

// Literals implements [api.Enum].
func (ShutdownBehavior) Literals() []string { return []string{"stop", "restart", "terminate"} }

// ShutdownBehaviorConfiguration says what happens when a VM stops by itself or
// its host fails.
type ShutdownBehaviorConfiguration struct {
	GuestAction GuestAction // What happens when the guest shuts down.
	HostAction  HostAction  // What happens when the host fails.
}

// GuestAction is what happens when the guest shuts down.
type GuestAction string

// What happens when the guest shuts down.
const (
	GuestStop      GuestAction = "stop"
	GuestTerminate GuestAction = "terminate"
)

// Literals implements [api.Enum].
func (GuestAction) Literals() []string { return []string{"stop", "terminate"} }

// HostAction is what happens when the host fails.
type HostAction string

// What happens when the host fails.
const (
	HostRestart HostAction = "restart"
	HostStop    HostAction = "stop"
)

// Literals implements [api.Enum].
func (HostAction) Literals() []string { return []string{"restart", "stop"} }

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
		return apierror.IncompatibleParameters.Errorf("VmInitiatedShutdownBehavior and ShutdownBehaviorConfiguration cannot be given together.")
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

// setBoot sets how a new VM boots.
func (v *Vm) setBoot(image *Image, req *CreateVmsRequest) error {
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
		return apierror.InvalidParameter.Errorf("ActionsOnNextBoot.SecureBoot requires the BootMode %s, and the VM has %s.", BootUefi, v.BootMode)
	}
	v.ActionsOnNextBoot = &ActionsOnNextBoot{actions.SecureBoot}
	return nil
}

// checkNested refuses VMs in a VM that shares its host.
func (v *Vm) checkNested() error {
	if v.NestedVirtualization && v.Placement.Tenancy == network.TenancyDefault {
		return apierror.InvalidParameter.Errorf("NestedVirtualization requires a dedicated tenancy.")
	}
	return nil
}
