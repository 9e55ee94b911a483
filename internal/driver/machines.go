package driver

import (
	"context"
	"net/netip"
)

// Machines keeps the machines of a region in the driver. What it promises is
// what [Networks] promises, for values of another kind. It may be called from
// many goroutines at once.
//
// Machines have a will of their own: a guest may shut down, and a host may
// fail. The driver is not brought back behind the back of whoever asked: see
// Boots.
type Machines interface {
	// EnsureMachine makes the driver have the machine as it is given, with
	// these disks and NICs and no others, on or off as it says. Its disks and
	// NICs exist. The driver chooses a host when it turns the machine on, and
	// answers [NoCapacity] if none has room; then nothing has changed. What
	// cannot change in a machine that is on, such as its cores, is so from its
	// next start.
	EnsureMachine(ctx context.Context, m Machine) error
	RemoveMachine(ctx context.Context, account, id string) error
	// ObserveMachines lists the machines of this region's making that the
	// driver has, with how each is doing, its console apart.
	ObserveMachines(ctx context.Context) ([]MachineStatus, error)
	// Machine is how one machine is doing; ok is false if there is none.
	Machine(ctx context.Context, account, id string) (status MachineStatus, ok bool, err error)

	// WatchMachines calls changed for each machine that does what nobody asked
	// for, such as shutting down, until the context ends, and then returns its
	// error. It may lose some: those who must know observe from time to time.
	// changed returns at once.
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
	Nested      bool   // machines can run in it
	// its guest is a Windows, which wants other clocks and devices, and makes itself a password
	Windows    bool
	BootMode   string // uefi or legacy
	Tpm        bool
	SecureBoot string // what to do with its keys when it boots next; empty: nothing
	Gpus       []Gpu

	Disks []MachineDisk // the first is the one to boot from
	Nics  []MachineNic  // in the order of their numbers

	On bool
	// Boots counts the starts and reboots that were asked for, the first start
	// being 1. A machine that is to be on is started when it was to be off
	// before, and when Boots grows; one that is on is then started anew. It is
	// started once for each: what its guest has shut down stays so, however
	// often the same is asked.
	Boots  int
	Forced bool // to turn it off, do not wait for the guest
	// what a shutdown by the guest means: stop, restart (the driver starts it again by itself)
	// or terminate (as stop for the driver)
	OnGuest string
	// what a failure of the host means: stop, or restart (the driver starts it on another host
	// by itself)
	OnHost string

	// What the machine can ask its metadata service.
	UserData []byte
	Keys     []string // public keys, as lines of authorized_keys
	// what is at each path below meta-data; the driver adds what only it knows, such as the
	// host
	Metadata map[string]string
}

// Key says which machine it is, and how new.
func (m Machine) Key() Key { return Key{m.Account, m.ID, m.Generation} }

// Affinity says where a machine is to be with respect to the others of its account
// that have one of the same scope, strategy and group. It counts when the machine
// is turned on.
type Affinity struct {
	Strategy string // attract, to where they are, or repulse
	Scope    string // server or cluster, which is servers that share hardware
	Group    string // the id of a group of machines, or whatever name they chose
	Strict   bool   // a machine that cannot be placed so is not turned on: NoCapacity
}

// MachineDisk is a disk of a machine.
type MachineDisk struct {
	Disk   string // its id, in the account of the machine
	Device string // its name in the machine
}

// MachineNic is a NIC of a machine.
type MachineNic struct {
	ID, MAC string
	Net     string // the id of its Net; empty: the public Cloud
	Device  int
	Private []netip.Addr
	Public  netip.Addr // of a machine in the public Cloud; zero: none
	// the ids of its security groups, of a machine in the public Cloud: see PublicCloud
	Groups []string
}

// Gpu is a graphics processor that a machine has to itself.
type Gpu struct{ ID, Model string }

// MachineStatus is a machine as the driver has it, and how it is doing.
type MachineStatus struct {
	Machine
	On      bool   // which it may not be although it was asked to
	OffBy   Cause  // what turned it off, if nobody asked for that
	Reason  string // why it is not as it was asked to be, for people; empty: it is
	Console []byte // the end of what it wrote to its serial console, up to 64 KiB
	// its administrator's password, which its guest made in its first boot and sealed to the
	// first RSA key, by PKCS #1 v1.5; nil from the second boot on, and if it made none
	Password []byte
}

// Cause is what turned a machine off that was to be on.
type Cause string

// What turns machines off.
const (
	ByGuest Cause = "guest" // it shut down by itself
	ByHost  Cause = "host"  // its host failed
)

// NoCapacity is the error of a call for which no host has room, now.
type NoCapacity struct{ What string }

func (n NoCapacity) Error() string { return "no host has room for " + n.What }
