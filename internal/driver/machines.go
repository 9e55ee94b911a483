package driver

import (
	"context"
	"net/netip"
)

// Machines manages the machines of a region. Its methods keep the promises of
// [Networks], for another kind of values, and are safe for concurrent use.
//
// Machines also change by themselves: a guest may shut down, and a host may
// fail. A repeated Ensure does not undo that without the caller's knowledge:
// see Machine.Boots.
type Machines interface {
	// EnsureMachine creates or changes the machine, with exactly these disks
	// and NICs, which exist, and turns it on or off. The driver chooses a host
	// when it turns the machine on, and returns [NoCapacity] if no host has
	// room; then nothing is changed. What cannot change while a machine runs,
	// such as its cores, changes at its next start.
	EnsureMachine(ctx context.Context, m Machine) error
	RemoveMachine(ctx context.Context, account, id string) error
	// ObserveMachines lists the machines of this region that exist, with their
	// status but without Console.
	ObserveMachines(ctx context.Context) ([]MachineStatus, error)
	// Machine returns the status of one machine; ok is false if there is none.
	Machine(ctx context.Context, account, id string) (status MachineStatus, ok bool, err error)

	// WatchMachines calls changed for each machine that changes by itself, for
	// example by shutting down, until the context ends, and then returns the
	// context's error. It may miss some, so callers also observe from time to
	// time. changed does not block.
	WatchMachines(ctx context.Context, changed func(account, id string)) error
}

// Machine is a virtual machine.
type Machine struct {
	Account, ID string // together they name the machine
	Generation  uint64 // grows with each change

	Subregion   string
	Tenancy     string     // default, dedicated, or the id of a dedicated group
	Affinities  []Affinity // to other machines, in any order
	Cores       int
	CpuModel    string // the generation of processors, such as v5; empty: any
	Performance string // medium, high or highest
	Memory      int    // GiB
	Nested      bool   // it can run machines itself
	// its guest is Windows, which needs other clocks and devices, and generates
	// a password
	Windows    bool
	BootMode   string // uefi or legacy
	Tpm        bool
	SecureBoot string // what to do with its keys at its next boot; empty: nothing
	Gpus       []Gpu

	Disks []MachineDisk // the first is the boot disk
	Nics  []MachineNic  // ordered by Device

	On bool
	// Boots counts the requested starts and reboots; the first start is 1. A
	// machine with On is started when the last value did not have On, and
	// restarted when Boots has grown. Each is done once: a machine whose guest
	// has shut down stays off, however often the same value is ensured.
	Boots  int
	Forced bool // turn it off without waiting for the guest
	// what a shutdown by the guest means: stop, restart (the driver starts the
	// machine again) or terminate (the driver treats it as stop)
	OnGuest string
	// what a failure of the host means: stop, or restart (the driver starts the
	// machine on another host)
	OnHost string

	// What the metadata service serves to the machine.
	UserData []byte
	Keys     []string // public keys, as lines of authorized_keys
	// the content of each path below meta-data; the driver adds what only it
	// knows, such as the host
	Metadata map[string]string
}

// Key returns the name and generation of the machine.
func (m Machine) Key() Key { return Key{m.Account, m.ID, m.Generation} }

// Affinity places a machine relative to the other machines of its account with
// the same scope, strategy and group. It applies when the machine is turned on.
type Affinity struct {
	Strategy string // attract (same place) or repulse (another place)
	Scope    string // server, or cluster (servers that share hardware)
	Group    string // the ID of a VM group, or a name chosen by the account
	Strict   bool   // NoCapacity if it cannot be met; otherwise a preference
}

// MachineDisk is a disk of a machine.
type MachineDisk struct {
	Disk   string // its ID, in the account of the machine
	Device string // its name in the machine
}

// MachineNic is a NIC of a machine.
type MachineNic struct {
	ID, MAC string
	Net     string // the id of its Net; empty: the public Cloud
	Device  int
	Private []netip.Addr
	Public  netip.Addr // only in the public Cloud; zero: none
	// only in the public Cloud: the IDs of its security groups; see PublicCloud
	Groups []string
}

// Gpu is a graphics processor that one machine has exclusively.
type Gpu struct{ ID, Model string }

// MachineStatus is a machine as the driver has it, and its status.
type MachineStatus struct {
	Machine
	On      bool   // whether it runs, which may differ from Machine.On
	OffBy   Cause  // what turned it off, if no caller did
	Reason  string // why it differs from what was asked for, in a sentence; empty: it does not
	Console []byte // the last 64 KiB of its serial console
	// its administrator's password, which its guest generates at its first boot
	// and encrypts for the first RSA key (PKCS #1 v1.5); nil from the second
	// boot on, and if there is none
	Password []byte
}

// Cause is what turned off a machine without a request.
type Cause string

// The causes.
const (
	ByGuest Cause = "guest" // it shut down by itself
	ByHost  Cause = "host"  // its host failed
)

// NoCapacity is the error of a call for which no host has room now.
type NoCapacity struct{ What string }

func (n NoCapacity) Error() string { return "no host has room for " + n.What }
