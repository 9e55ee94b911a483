package compute

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestDeviceNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[DeviceName]bool{
		"/dev/sda1": true, "/dev/sdb": true, "/dev/sdz": true, "/dev/sdba": true, "/dev/sdzz": true, "/dev/xvdb": true, "/dev/xvdza": true,
		"": false, "/dev/sda": false, "/dev/sda2": false, "/dev/sdab": false, "/dev/sd": false, "/dev/sdb1": false, "/dev/sdbcd": false,
		"/dev/sdB":  false,
		"/dev/xvda": false, "/dev/xvda1": false, "/dev/vdb": false, "sdb": false, "/dev/sdb\n": false, " /dev/sdb": false,
	} {
		if err := name.Check(); (err == nil) != want {
			t.Errorf("that %q is the name of a disk is %t: %v", name, err == nil, err)
		}
		if err := name.Check(); err != nil && !apierror.InvalidDeviceName.Is(err) {
			t.Errorf("%q is refused with %v", name, err)
		}
	}
}

func TestLinkVolume(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v, vm := l.volume(anna, `"Size": 1`), l.vm(anna, "test-1a", VmRunning)
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdb"}`, v, vm)
	linked := func(state string) {
		t.Helper()
		now := l.read(anna, "ReadVolumes", "VolumeIds", v)
		want := fmt.Sprintf(`[map[DeleteOnVmDeletion:false DeviceName:/dev/xvdb State:%s VmId:%s VolumeId:%s]]`, state, vm, v)
		if now.Text("LinkedVolumes") != want || now.Text("State") != "in-use" {
			t.Errorf("the volume is %s, linked by %v, want %s", now["State"], now["LinkedVolumes"], want)
		}
	}
	linked("attaching")
	if got, want := l.machine(anna, vm), []string{"/dev/xvdb " + v}; !slices.Equal(got, want) {
		t.Errorf("the machine has %q, want %q", got, want)
	}
	linked("attached")

	l.refuse(apierror.InvalidState, anna, "DeleteVolume", `{"VolumeId": %q}`, v)
	l.refuse(apierror.InvalidState, anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdc"}`, v, vm)
	l.refuse(apierror.VolumeNotFound, ben, "UnlinkVolume", `{"VolumeId": %q}`, v)

	l.Call(anna, "UnlinkVolume", `{"VolumeId": %q}`, v)
	linked("detaching")
	l.refuse(apierror.InvalidState, anna, "UnlinkVolume", `{"VolumeId": %q}`, v)
	// Until the machine has let it go nobody else can have it.
	l.refuse(apierror.InvalidState, anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdb"}`, v, vm)
	l.machine(anna, vm)
	if now := l.read(anna, "ReadVolumes", "VolumeIds", v); now.Text("State") != "available" || now.Text("LinkedVolumes") != "[]" {
		t.Errorf("a volume that the machine has let go is %v", now)
	}
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/sdc"}`, v, vm)

	// What the machine must learn raises its generation.
	l.View(anna, func(tx *resource.Tx) error {
		got, err := Vms.Get(tx, id.Vm(vm))
		if err == nil && got.Generation != 3 {
			t.Errorf("after three changes the VM is at generation %d", got.Generation)
		}
		return err
	})

	l.Call(anna, "UnlinkVolume", `{"VolumeId": %q, "ForceUnlink": true}`, v)
	if now := l.read(anna, "ReadVolumes", "VolumeIds", v); now.Text("State") != "available" {
		t.Errorf("a volume that was taken away by force is %v", now)
	}
	l.refuse(apierror.VolumeNotLinked, anna, "UnlinkVolume", `{"VolumeId": %q, "ForceUnlink": true}`, v)
	l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, v)
}

func TestLinkVolumeRefusals(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v, used := l.volume(anna, `"Size": 1`), l.volume(anna, `"Size": 1`)
	running, stopped, elsewhere := l.vm(anna, "test-1a", VmRunning), l.vm(anna, "test-1a", VmStopped), l.vm(anna, "test-1b", VmRunning)
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdb"}`, used, running)
	tests := []struct {
		name, account, vm, device string
		want                      apierror.Code
	}{
		{"a device that is taken", anna, running, "/dev/xvdb", apierror.DeviceNameTaken},
		{"no device", anna, running, "xvdb", apierror.InvalidDeviceName},
		{"the root of a running VM", anna, running, "/dev/sda1", apierror.InvalidVmState},
		{"another Subregion", anna, elsewhere, "/dev/xvdb", apierror.SubregionMismatch},
		{"no VM", anna, "i-00000000", "/dev/xvdb", apierror.VmNotFound},
		{"another account's volume", ben, l.vm(ben, "test-1a", VmRunning), "/dev/xvdb", apierror.VolumeNotFound},
		{"no VM and another account's volume", ben, "i-00000000", "/dev/xvdb", apierror.VmNotFound},
		{"another account's VM", anna, l.vm(ben, "test-1a", VmRunning), "/dev/xvdb", apierror.VmNotFound},
		{"a pending VM", anna, l.vm(anna, "test-1a", VmPending), "/dev/xvdb", apierror.InvalidVmState},
		{"a stopping VM", anna, l.vm(anna, "test-1a", VmStopping), "/dev/xvdb", apierror.InvalidVmState},
		{"a VM that shuts down", anna, l.vm(anna, "test-1a", VmShuttingDown), "/dev/xvdb", apierror.InvalidVmState},
	}
	for _, test := range tests {
		t.Run(test.name, func(*testing.T) {
			l.refuse(test.want, test.account, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": %q}`, v, test.vm, test.device)
		})
	}

	// The root device goes and comes while the VM is stopped.
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/sda1"}`, v, stopped)
	l.machine(anna, stopped)
	l.setVm(anna, stopped, VmRunning)
	for _, force := range []bool{false, true} {
		l.refuse(apierror.InvalidVmState, anna, "UnlinkVolume", `{"VolumeId": %q, "ForceUnlink": %t}`, v, force)
	}
	l.setVm(anna, stopped, VmStopped)
	l.Call(anna, "UnlinkVolume", `{"VolumeId": %q}`, v)
}

func TestVolumesOfAVmAreLimited(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	vm := l.vm(anna, "test-1a", VmRunning)
	for i := range maxVolumes + 1 {
		v := l.volume(anna, `"Size": 1`)
		if i == maxVolumes {
			l.refuse(apierror.TooManyVolumes, anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdb"}`, v, vm)
			break
		}
		l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvd%c%c"}`, v, vm, 'b'+i/26, 'a'+i%26)
	}
}

// A VM is made with its volumes in one transaction: its machine waits for them,
// and boots from its root device whatever the order of its volumes.
func TestVolumesOfANewVm(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	spare := l.volume(anna, `"Size": 1`)
	vm := l.vm(anna, "test-1a", VmPending)
	var data, root *Volume
	l.Update(anna, func(tx *resource.Tx) error {
		v, err := Vms.Get(tx, id.Vm(vm))
		if err != nil {
			return err
		}
		used := storageOf(tx)
		make := func(device DeviceName, keep bool) *Volume {
			disk, err := Region{Subregions: []string{"test-1a"}}.planVolume(tx, newVolume{SubregionName: "test-1a", Size: 10})
			if err == nil {
				disk.linkTo(tx, v.VmId, device, !keep)
				err = used.insert(tx, disk)
			}
			if err != nil {
				t.Fatal(err)
			}
			return disk
		}
		data, root = make("/dev/sdb", true), make(RootDevice, false)
		return nil
	})
	if got := l.machine(anna, vm); got != nil {
		t.Errorf("a machine whose disks are not made has %q", got)
	}
	if now := l.read(anna, "ReadVolumes", "VolumeIds", string(root.VolumeId)); now.Text("State") != "creating" {
		t.Errorf("the root device is %v", now)
	}
	l.settle()
	if now := l.read(anna, "ReadVolumes", "VolumeIds", string(root.VolumeId)); now.Text("State") != "in-use" {
		t.Errorf("the root device that was made is %v", now)
	}
	l.setVm(anna, vm, VmRunning)
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdc"}`, spare, vm)
	want := []string{"/dev/sda1 " + string(root.VolumeId), "/dev/sdb " + string(data.VolumeId), "/dev/xvdc " + spare}
	if got := l.machine(anna, vm); !slices.Equal(got, want) {
		t.Errorf("the machine has %q, want %q", got, want)
	}
	l.View(anna, func(tx *resource.Tx) error {
		var order []string
		for v := range volumesOf(tx, id.Vm(vm)) {
			order = append(order, v.LinkedVolumes[0].DeviceName)
		}
		if want := []string{"/dev/sdb", "/dev/sda1", "/dev/xvdc"}; !slices.Equal(order, want) {
			t.Errorf("the volumes are linked in the order %q, want %q", order, want)
		}
		got, err := Vms.Get(tx, id.Vm(vm))
		if err == nil && got.Generation != 3 {
			t.Errorf("two disks were made and one was linked, and the VM is at generation %d", got.Generation)
		}
		return err
	})

	// With the VM goes what says so, and the rest is free.
	l.Update(anna, func(tx *resource.Tx) error {
		if err := setDeleteOnVmDeletion(tx, id.Vm(vm), "/dev/xvdc", true); err != nil {
			return err
		}
		if err := setDeleteOnVmDeletion(tx, id.Vm(vm), "/dev/xvdz", true); !apierror.DeviceNameNotLinked.Is(err) {
			t.Errorf("a device that the VM does not have: %v", err)
		}
		v, err := Vms.Get(tx, id.Vm(vm))
		if err != nil {
			return err
		}
		if err := leaveVm(tx, v.VmId); err != nil {
			return err
		}
		return bring(tx, Vms, v, &v.State, VmTerminated)
	})
	l.settle()
	l.Selects(l.list(anna, "ReadVolumes", `{"VolumeStates": ["available"]}`), "VolumeId", string(data.VolumeId))
	l.Selects(l.list(anna, "ReadVolumes", `{}`), "VolumeId", string(data.VolumeId))
	l.hasDisks(driver.Disk{Account: anna, ID: string(data.VolumeId), Generation: 1, Subregion: "test-1a", Size: 10, Type: "standard",
		Iops: 150})
}

// A link that changes while the driver is asked is not taken for done.
func TestLinkChangesDuringAStep(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v, vm := l.volume(anna, `"Size": 1`), l.vm(anna, "test-1a", VmRunning)
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdb"}`, v, vm)
	asked := []driver.MachineDisk{{Disk: v, Device: "/dev/xvdb"}}
	l.Call(anna, "UnlinkVolume", `{"VolumeId": %q}`, v)
	l.Update(anna, func(tx *resource.Tx) error { return disksLinked(tx, id.Vm(vm), asked) })
	l.Selects(l.list(anna, "ReadVolumes", `{"LinkVolumeLinkStates": ["detaching"]}`), "VolumeId", v)
	l.Update(anna, func(tx *resource.Tx) error { return disksLinked(tx, id.Vm(vm), nil) })
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdc"}`, v, vm)
	l.Update(anna, func(tx *resource.Tx) error { return disksLinked(tx, id.Vm(vm), asked) })
	l.Selects(l.list(anna, "ReadVolumes", `{"LinkVolumeLinkStates": ["attaching"]}`), "VolumeId", v)
}
