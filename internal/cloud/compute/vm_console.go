package compute

import (
	"context"
	"encoding/base64"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Look is what a machine shows to the driver, now: the end of what it wrote to its
// console, and its administrator's password, sealed, if it just made one.
type Look func(ctx context.Context, account string, vm id.Vm) (console, password []byte, err error)

// look asks the driver, for actions that read what no store keeps.
func (region Region) look(tx *resource.Tx, vm id.Vm) (console, password []byte, err error) {
	if region.Look == nil {
		return nil, nil, nil
	}
	return region.Look(tx.Context(), tx.Account(), vm)
}

// ReadConsoleOutputRequest asks for the console of a VM.
type ReadConsoleOutputRequest struct {
	VmId id.Vm `api:"required"` // The ID of the VM.
}

// ReadConsoleOutputResponse has the end of what a VM wrote to its console.
type ReadConsoleOutputResponse struct {
	ConsoleOutput string // The last 64 KiB of what the VM wrote to its console, in Base64.
	VmId          id.Vm  // The ID of the VM.
}

func (region Region) readConsoleOutput(tx *resource.Tx, req *ReadConsoleOutputRequest) (*ReadConsoleOutputResponse, error) {
	v, err := Vms.Get(tx, req.VmId)
	if err != nil {
		return nil, err
	}
	console, _, err := region.look(tx, v.VmId)
	return &ReadConsoleOutputResponse{base64.StdEncoding.EncodeToString(console), v.VmId}, err
}

// ReadAdminPasswordRequest asks for the password that a Windows made for its
// administrator.
type ReadAdminPasswordRequest struct {
	VmId id.Vm `api:"required"` // The ID of the VM.
}

// ReadAdminPasswordResponse has the password.
type ReadAdminPasswordResponse struct {
	// The password, encrypted to the RSA key of the VM, in Base64. It is empty
	// before and after the first boot, and for a VM that is no Windows or has no
	// keypair.
	AdminPassword string
	VmId          id.Vm // The ID of the VM.
}

func (region Region) readAdminPassword(tx *resource.Tx, req *ReadAdminPasswordRequest) (*ReadAdminPasswordResponse, error) {
	v, err := Vms.Get(tx, req.VmId)
	if err != nil {
		return nil, err
	}
	if v.isOther() || v.KeypairName == "" {
		return &ReadAdminPasswordResponse{VmId: v.VmId}, nil
	}
	_, password, err := region.look(tx, v.VmId)
	return &ReadAdminPasswordResponse{base64.StdEncoding.EncodeToString(password), v.VmId}, err
}
