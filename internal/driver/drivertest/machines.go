package drivertest

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	gocmp "github.com/google/go-cmp/cmp"
)

// Machines tests a driver of machines. open returns a driver without machines,
// which has the disks and NICs of the machines under test and whose guests do
// nothing by themselves, and a function that returns once the driver's clock
// shows at least the given time.
func Machines(t *testing.T, open func(t *testing.T) (drivers driver.Machines, until func(time.Time))) {
	run(t, func(t *testing.T) methods[driver.Machine] {
		drivers, until := open(t)
		return methods[driver.Machine]{drivers.EnsureMachine, drivers.RemoveMachine, machinesOf(drivers), until}
	}, machine, changedMachine, func(m driver.Machine) driver.Machine { return m })

	tests := map[string]func(*testing.T, subject[driver.Machine], driver.Machines){
		"a machine is on and off as asked": testPower,
		"one machine is as the list says":  testOneMachine,
		"watching ends with its context":   testWatch,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivers, until := open(t)
			methods := methods[driver.Machine]{drivers.EnsureMachine, drivers.RemoveMachine, machinesOf(drivers), until}
			test(t, subject[driver.Machine]{T: t, methods: methods}, drivers)
		})
	}
}

// machinesOf returns a function that observes the machines of a driver without
// their status.
func machinesOf(drivers driver.Machines) func(context.Context) ([]driver.Machine, error) {
	return func(ctx context.Context) (machines []driver.Machine, err error) {
		seen, err := drivers.ObserveMachines(ctx)
		for _, s := range seen {
			machines = append(machines, s.Machine)
		}
		return machines, err
	}
}

func testPower(t *testing.T, s subject[driver.Machine], drivers driver.Machines) {
	m := machine(one)
	for _, step := range []struct {
		name   string
		change func(*driver.Machine)
	}{
		{"made and on", func(*driver.Machine) {}},
		{"asked again", func(m *driver.Machine) { m.Generation-- }},
		{"rebooted", func(m *driver.Machine) { m.Boots++ }},
		{"off", func(m *driver.Machine) { m.On, m.Forced = false, false }},
		{"off by force, which it is", func(m *driver.Machine) { m.Forced = true }},
		{"on again", func(m *driver.Machine) { m.On, m.Boots = true, m.Boots+1 }},
		{"off by force", func(m *driver.Machine) { m.On = false }},
	} {
		m.Generation++
		step.change(&m)
		s.make(m)
		status, ok, err := drivers.Machine(t.Context(), m.Account, m.ID)
		if err != nil || !ok || status.On != m.On || status.Machine.On != m.On || status.OffBy != "" || status.Reason != "" {
			t.Errorf("%s: got %t, %t (off by %q: %q), %v; want it on: %t", step.name, ok, status.On, status.OffBy, status.Reason, err, m.On)
		}
	}
}

func testOneMachine(t *testing.T, s subject[driver.Machine], drivers driver.Machines) {
	if _, ok, err := drivers.Machine(t.Context(), one.Account, one.ID); ok || err != nil {
		t.Errorf("no machine was asked for, and there is one: %t, %v", ok, err)
	}
	s.ask(drivers.EnsureMachine(t.Context(), machine(one)))
	if status, ok, err := drivers.Machine(t.Context(), one.Account, one.ID); !ok || err != nil || status.ID != one.ID {
		t.Errorf("a machine was asked for: got %+v, %t, %v", status, ok, err)
	}
	s.make(machine(one))
	seen, err := drivers.ObserveMachines(t.Context())
	if err != nil || len(seen) != 1 || seen[0].Console != nil {
		t.Fatalf("the list has %+v, %v; want one machine and no console", seen, err)
	}
	status, ok, err := drivers.Machine(t.Context(), one.Account, one.ID)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	status.Console = nil
	if diff := gocmp.Diff(seen[0], status, Equal()); diff != "" {
		t.Errorf("one machine (-in the list +alone):\n%s", diff)
	}
	foreign, ok, err := drivers.Machine(t.Context(), bob, one.ID)
	if ok || err != nil {
		t.Errorf("another account's machine: got %+v, %v", foreign, err)
	}
	s.unmake(machine(one))
	if _, ok, err := drivers.Machine(t.Context(), one.Account, one.ID); ok || err != nil {
		t.Errorf("a removed machine is there: %t, %v", ok, err)
	}
}

func testWatch(t *testing.T, _ subject[driver.Machine], drivers driver.Machines) {
	watching, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- drivers.WatchMachines(watching, func(string, string) {}) }()
	end()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want its context's error", err)
	}
}

// machine returns a machine with every field set.
func machine(key driver.Key) driver.Machine {
	return driver.Machine{
		Account: key.Account, ID: key.ID, Generation: key.Generation,
		Subregion: "region-a", Tenancy: "default",
		Affinities: []driver.Affinity{
			{Strategy: "attract", Scope: "server", Group: "vmgroup-00000001", Strict: true}, {Strategy: "repulse", Scope: "cluster", Group: "db"},
		},
		Cores: 2, CpuModel: "v6", Performance: "high", Memory: 4, Nested: true, Windows: true,
		BootMode: "uefi", Tpm: true, SecureBoot: "enable",
		Gpus:  []driver.Gpu{{ID: "fgpu-00000001", Model: "nvidia-p6"}, {ID: "fgpu-00000002", Model: "nvidia-p6"}},
		Disks: []driver.MachineDisk{{Disk: "vol-00000002", Device: "/dev/sda1"}, {Disk: "vol-00000001", Device: "/dev/xvdb"}},
		Nics: []driver.MachineNic{
			{ID: "eni-00000002", MAC: "aa:00:00:00:00:02", Net: "vpc-00000001", Private: []netip.Addr{addr("10.0.1.4"), addr("10.0.1.5")}},
			{ID: "eni-00000001", MAC: "aa:00:00:00:00:01", Net: "vpc-00000001", Device: 1, Private: []netip.Addr{addr("10.0.2.4")},
				Public: addr("198.51.100.4"), Groups: []string{"sg-00000001", "sg-00000002"}},
		},
		On: true, Boots: 1, Forced: true, OnGuest: "restart", OnHost: "restart",
		UserData: []byte("#!/bin/sh"),
		Keys:     []string{"ssh-ed25519 AAAA one", "ssh-ed25519 AAAA two"},
		Metadata: map[string]string{"ami-id": "ami-00000001"},
	}
}

// changedMachine returns the next generation of a machine, with every other
// field changed.
func changedMachine(m driver.Machine) driver.Machine {
	return driver.Machine{
		Account: m.Account, ID: m.ID, Generation: m.Generation + 1,
		Subregion: "region-b", Tenancy: "dedicated",
		Affinities: []driver.Affinity{{Strategy: "repulse", Scope: "server", Group: "vmgroup-00000002", Strict: true}},
		Cores:      4, CpuModel: "v7", Performance: "highest", Memory: 8,
		BootMode: "legacy", SecureBoot: "none",
		Gpus:  []driver.Gpu{{ID: "fgpu-00000003", Model: "nvidia-v100"}},
		Disks: []driver.MachineDisk{{Disk: "vol-00000001", Device: "/dev/sda1"}},
		Nics: []driver.MachineNic{{ID: "eni-00000003", MAC: "aa:00:00:00:00:03", Private: []netip.Addr{addr("10.1.0.4")},
			Public: addr("198.51.100.5")}},
		Boots: m.Boots + 1, OnGuest: "terminate", OnHost: "stop",
		UserData: []byte("#!/bin/bash"),
		Keys:     []string{"ssh-ed25519 AAAA three"},
		Metadata: map[string]string{"ami-id": "ami-00000001", "hostname": "one"},
	}
}
