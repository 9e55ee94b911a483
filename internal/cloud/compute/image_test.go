package compute

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// vmWithRoot makes a VM with a root device of a size, in a state, and answers
// both their IDs.
func (l *testRegion) vmWithRoot(account string, state VmStateName, size int) (vm, root string) {
	l.Helper()
	root = l.volume(account, fmt.Sprintf(`"Size": %d`, size))
	vm = l.vm(account, "test-1a", VmStopped)
	l.Call(account, "LinkVolume", `{"VmId": %q, "VolumeId": %q, "DeviceName": "/dev/sda1"}`, vm, root)
	l.machine(account, vm)
	l.Update(account, func(tx *resource.Tx) error {
		v, err := Vms.Get(tx, id.Vm(vm))
		if err != nil {
			return err
		}
		v.Architecture, v.BootMode, v.ProductCodes = "x86_64", BootUefi, []string{"0002"}
		if err := Vms.Put(tx, v); err != nil {
			return err
		}
		return bring(tx, Vms, v, &v.State, state)
	})
	return vm, root
}

// image makes an image of a snapshot, and answers both their IDs.
func (l *testRegion) image(account string) (image, snapshot string) {
	l.Helper()
	snapshot = l.snapshot(account, l.volume(account, `"Size": 1`))
	image = l.One(account, "CreateImage", `{"RootDeviceName": "/dev/sda1", "BlockDeviceMappings": [{"DeviceName": "/dev/sda1",
		"Bsu": {"SnapshotId": %q}}]}`, snapshot).Text("ImageId")
	return image, snapshot
}

// readImage finds the one image of an ID.
func (l *testRegion) readImage(account, image string) reply {
	l.Helper()
	return l.read(account, "ReadImages", "ImageIds", image)
}

func TestImageOfVm(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	vm, _ := l.vmWithRoot(anna, VmRunning, 10)
	data := l.volume(anna, `"Size": 20, "VolumeType": "io1", "Iops": 200`)
	l.Call(anna, "LinkVolume", `{"VmId": %q, "VolumeId": %q, "DeviceName": "/dev/xvdb"}`, vm, data)
	l.machine(anna, vm)
	i := l.One(anna, "CreateImage", `{"VmId": %q, "ImageName": "golden", "NoReboot": true}`, vm)
	l.advance(0)
	var set snapshotSet
	l.View(anna, func(tx *resource.Tx) error {
		for s := range snapshotSets.All(tx) {
			set = *s
		}
		return nil
	})
	if len(set.Parts) != 2 {
		t.Fatalf("the snapshots of one instant are %v", set.Parts)
	}
	l.Shows(i, `{
		"AccountAlias": "", "AccountId": %q, "Architecture": "x86_64", "BootModes": ["uefi"], "CreationDate": %q, "Description": "",
		"FileLocation": "000000000001/golden", "ImageId": %q, "ImageName": "golden", "ImageType": "machine",
		"PermissionsToLaunch": {"AccountIds": [], "GlobalPermission": false}, "ProductCodes": ["0002"], "RootDeviceName": "/dev/sda1",
			"RootDeviceType": "bsu",
		"SecureBoot": false, "State": "pending", "StateComment": {}, "Tags": [], "TpmMandatory": false,
		"BlockDeviceMappings": [
			{"DeviceName": "/dev/sda1", "Bsu": {"DeleteOnVmDeletion": false, "SnapshotId": %q, "VolumeSize": 10, "VolumeType": "standard"}},
			{"DeviceName": "/dev/xvdb", "Bsu": {"DeleteOnVmDeletion": false, "Iops": 200, "SnapshotId": %q, "VolumeSize": 20, "VolumeType": "io1"}}
		]}`, anna, i.Text("CreationDate"), i.Text("ImageId"), set.Parts[0].SnapshotId, set.Parts[1].SnapshotId)
	l.settle()
	if got := l.readImage(anna, i.Text("ImageId")).Text("State"); got != "available" {
		t.Errorf("the image is %s", got)
	}
	// It goes without its snapshots, which do not go without it.
	l.refuse(apierror.InUse, anna, "DeleteSnapshot", `{"SnapshotId": %q}`, set.Parts[1].SnapshotId)
	l.Call(anna, "DeleteImage", `{"ImageId": %q}`, i["ImageId"])
	l.Selects(l.list(anna, "ReadImages", `{}`), "ImageId")
	l.Selects(l.list(anna, "ReadSnapshots", `{}`), "SnapshotId", string(set.Parts[0].SnapshotId), string(set.Parts[1].SnapshotId))
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, set.Parts[1].SnapshotId)
}

// A VM that runs is off while its snapshots are taken, unless it shall not be,
// and no longer than that.
func TestImageReboots(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, create, image string
		// is the machine on, and is there a snapshot of it, at each time
		on    []string
		boots int
	}{
		{"running", ``, ``, []string{"true false", "false true", "true true"}, 2},
		{"running and to go on", ``, `, "NoReboot": true`, []string{"true true"}, 1},
		{"stopped", `"BootOnCreation": false`, `, "NoReboot": false`, []string{"false true"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newVmRegion(t)
			vm := l.vmIn(anna, test.create)
			state := l.state(anna, vm)
			l.drivers.Slow(func(op string) time.Duration {
				if op == "EnsureSnapshot" {
					return time.Hour
				}
				return delay
			})
			image := l.One(anna, "CreateImage", `{"VmId": %q%s}`, vm, test.image).Text("ImageId")
			var on []string
			for next := l.rest(); !next.IsZero(); next = l.rest() {
				snapshots, err := l.drivers.ObserveSnapshots(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				on = append(on, fmt.Sprint(l.inWorld(anna, vm).On, " ", len(snapshots) > 0))
				if got := l.state(anna, vm); got != state {
					t.Errorf("the VM is %s, want that it stays %s", got, state)
				}
				l.Clock.AdvanceTo(next)
			}
			if got := slices.Compact(on); !slices.Equal(got, test.on) {
				t.Errorf("it is on, and is there a snapshot: %q, want %q", got, test.on)
			}
			if got := l.readImage(anna, image).Text("State"); got != "available" {
				t.Errorf("the image is %s", got)
			}
			if got := l.inWorld(anna, vm).Boots; got != test.boots {
				t.Errorf("it has booted %d times, want %d", got, test.boots)
			}
		})
	}
}

// What becomes of a VM that is off for an image does not keep the image, nor the
// other way round.
func TestImageRebootInterrupted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, action string
		vm, image    string // their states in the end
	}{
		{"stopped", "StopVms", "stopped", "available"},
		{"rebooted", "RebootVms", "running", "available"},
		{"terminated", "DeleteVms", "", "available"},
		{"another image", "CreateImage", "running", "available"},
		{"no image", "DeleteImage", "running", ""},
	} {
		for _, wait := range []time.Duration{0, delay / 2, delay, 3 * delay / 2} {
			t.Run(fmt.Sprint(test.name, " after ", wait), func(t *testing.T) {
				t.Parallel()
				l := newVmRegion(t)
				vm := l.vmIn(anna, ``)
				i := l.One(anna, "CreateImage", `{"VmId": %q}`, vm)
				image := i.Text("ImageId")
				l.advance(wait)
				switch test.action {
				case "CreateImage":
					l.Call(anna, "CreateImage", `{"VmId": %q}`, vm)
				case "DeleteImage":
					l.Call(anna, "DeleteImage", `{"ImageId": %q}`, image)
					l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, i.Objects("BlockDeviceMappings")[0].Object("Bsu")["SnapshotId"])
				default:
					l.Call(anna, test.action, `{"VmIds": [%q]}`, vm)
				}
				l.settle()
				for _, end := range []struct{ action, filter, of, want string }{
					{"ReadVms", "VmIds", vm, test.vm}, {"ReadImages", "ImageIds", image, test.image},
				} {
					state := ""
					for _, is := range l.list(anna, end.action, `{%q: [%q]}`, end.filter, end.of) {
						state = is.Text("State")
					}
					if state != end.want {
						t.Errorf("%s: it is %q, want %q", end.action, state, end.want)
					}
				}
				if m := l.inWorld(anna, vm); m != nil && m.On != (test.vm == "running") {
					t.Errorf("the machine is on: %t", m.On)
				}
				for _, image := range l.list(anna, "ReadImages", `{}`) {
					if image.Text("State") != "available" {
						t.Errorf("an image is %s", image.Text("State"))
					}
				}
			})
		}
	}
}

// A VM that finds no room after it was off for an image is stopped.
func TestImageRebootWithoutRoom(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	vm := l.vmIn(anna, ``)
	image := l.One(anna, "CreateImage", `{"VmId": %q}`, vm).Text("ImageId")
	l.drivers.Limit(sim.Room{Subregion: "test-1a"})
	l.settle()
	if got := l.read(anna, "ReadVms", "VmIds", vm); got.Text("State") != "stopped" || !strings.Contains(got.Text("StateReason"),
		"InsufficientInstanceCapacity") {
		t.Errorf("the VM is %v", got)
	}
	if got := l.readImage(anna, image).Text("State"); got != "available" {
		t.Errorf("the image is %s", got)
	}
}

func TestImageOfVmRefused(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	vm, root := l.vmWithRoot(anna, VmRunning, 1)
	for _, state := range []VmStateName{VmPending, VmStopping, VmShuttingDown} {
		other, _ := l.vmWithRoot(anna, state, 1)
		l.refuse(apierror.InvalidVmState, anna, "CreateImage", `{"VmId": %q}`, other)
	}
	l.setVm(anna, vm, VmStopped)
	l.Call(anna, "UnlinkVolume", `{"VolumeId": %q}`, root)
	l.refuse(apierror.InvalidVmState, anna, "CreateImage", `{"VmId": %q}`, vm) // its root device is going
	l.refuse(apierror.VmNotFound, ben, "CreateImage", `{"VmId": %q}`, vm)
}

// An image is failed if one of its snapshots is.
func TestImageFails(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	vm, _ := l.vmWithRoot(anna, VmStopped, 1)
	i := l.One(anna, "CreateImage", `{"VmId": %q}`, vm)
	snapshot := i["BlockDeviceMappings"].([]any)[0].(map[string]any)["Bsu"].(map[string]any)["SnapshotId"].(string)
	l.drivers.Break(snapshot, "the disk is on fire")
	l.settle()
	got := l.readImage(anna, i.Text("ImageId"))
	if want := "map[StateCode:Server.InternalError StateMessage:The snapshot " + snapshot + " has failed.]"; got.Text("State") != "failed" ||
		got.Text("StateComment") != want {
		t.Errorf("it is %s: %s", got["State"], got["StateComment"])
	}
	l.refuse(apierror.InvalidImageState, anna, "CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1"}`, i["ImageId"])
	l.refuse(apierror.InvalidImageState, anna, "CreateImageExportTask",
		`{"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "bucket"}}`, i["ImageId"])
	l.Call(anna, "DeleteImage", `{"ImageId": %q}`, i["ImageId"])
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, snapshot)
}

// A request asks for an image in one way.
func TestImageWays(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	vm, _ := l.vmWithRoot(anna, VmStopped, 1)
	image, snapshot := l.image(anna)
	of := fmt.Sprintf(`"VmId": %q`, vm)
	copied := fmt.Sprintf(`"SourceImageId": %q, "SourceRegionName": "test-1"`, image)
	mappings := fmt.Sprintf(`"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q}}]`, snapshot)
	registered := mappings + `, "RootDeviceName": "/dev/sda1"`
	file := `"FileLocation": "https://example.com/manifest.json"`
	for _, test := range []struct {
		name, request string
		want          apierror.Code
	}{
		{"nothing", ``, apierror.MissingParameter},
		{"only a name", `"ImageName": "golden"`, apierror.MissingParameter},
		{"a VM and a copy", of + `, ` + copied, apierror.InvalidParameterSet},
		{"a VM and snapshots", of + `, ` + registered, apierror.InvalidParameterSet},
		{"a VM and an architecture", of + `, "Architecture": "i386"`, apierror.InvalidParameterSet},
		{"a VM and a region", of + `, "SourceRegionName": "test-1"`, apierror.InvalidParameterSet},
		{"a copy and snapshots", copied + `, ` + mappings, apierror.InvalidParameterSet},
		{"a copy without reboot", copied + `, "NoReboot": true`, apierror.InvalidParameterSet},
		{"a file and a VM", of + `, ` + file, apierror.InvalidParameterSet},
		{"a file and a copy", copied + `, ` + file, apierror.InvalidParameterSet},
		{"a file and snapshots", registered + `, ` + file, apierror.InvalidParameterSet},
		{"reboot of nothing", `"NoReboot": true`, apierror.MissingParameter},
		{"a copy of nothing", `"SourceRegionName": "test-1"`, apierror.MissingParameter},
		{"a copy from nowhere", fmt.Sprintf(`"SourceImageId": %q`, image), apierror.MissingParameter},
		{"a copy from elsewhere", fmt.Sprintf(`"SourceImageId": %q, "SourceRegionName": "elsewhere"`, image), apierror.InvalidValue},
		{"snapshots without a root device", mappings, apierror.MissingParameter},
		{"a root device without snapshots", `"RootDeviceName": "/dev/sda1"`, apierror.MissingParameter},
		{"an architecture alone", `"Architecture": "x86_64"`, apierror.MissingParameter},
		{"a short name", of + `, "ImageName": "ab"`, apierror.InvalidImageName},
		{"a long name", of + `, "ImageName": "` + strings.Repeat("a", 129) + `"`, apierror.InvalidImageName},
		{"a name with a letter that is none of those", of + `, "ImageName": "café"`, apierror.InvalidImageName},
		{"a product that nothing is billed as", of + `, "ProductCodes": ["free"]`, apierror.InvalidValue},
		{"a boot mode of no machine", of + `, "BootModes": ["floppy"]`, apierror.InvalidValue},
	} {
		t.Run(test.name, func(t *testing.T) { l.refuse(test.want, anna, "CreateImage", `{%s}`, test.request) })
	}
}

func TestRegisterImage(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	s := l.snapshot(anna, l.volume(anna, `"Size": 10`))
	i := l.One(anna, "CreateImage", `{"RootDeviceName": "/dev/sda1", "ImageName": "web (v1.0)/2026_11-20", "BootModes": ["uefi", "legacy",
		"uefi"], "TpmMandatory": true, "BlockDeviceMappings": [
		{"DeviceName": "/dev/sdb", "Bsu": {"VolumeSize": 5, "VolumeType": "io1", "Iops": 300, "DeleteOnVmDeletion": false}},
		{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q}},
		{"DeviceName": "/dev/xvdc", "Bsu": {"SnapshotId": %[1]q, "VolumeSize": 12, "VolumeType": "gp2"}},
		{"DeviceName": "/dev/xvdd", "VirtualDeviceName": "ephemeral0"}]}`, s)
	for name, want := range map[string]string{
		"State": "available", "Architecture": "i386", "BootModes": "[uefi legacy]", "TpmMandatory": "true", "ProductCodes": "[0001]",
		"FileLocation": "000000000001/web (v1.0)/2026_11-20",
	} {
		if got := i.Text(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	l.Shows(reply{"got": i["BlockDeviceMappings"]}, `{"got": [
		{"DeviceName": "/dev/sdb", "Bsu": {"VolumeSize": 5, "VolumeType": "io1", "Iops": 300, "DeleteOnVmDeletion": false}},
		{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q, "VolumeSize": 10, "VolumeType": "standard", "DeleteOnVmDeletion": true}},
		{"DeviceName": "/dev/xvdc", "Bsu": {"SnapshotId": %[1]q, "VolumeSize": 12, "VolumeType": "gp2", "DeleteOnVmDeletion": true}},
		{"DeviceName": "/dev/xvdd", "VirtualDeviceName": "ephemeral0", "Bsu": {"DeleteOnVmDeletion": false}}]}`, s)
	// A copy keeps what needs no snapshot as it is.
	copied := l.One(anna, "CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1"}`, i["ImageId"])
	got := fmt.Sprint(copied["BlockDeviceMappings"])
	if strings.Contains(got, s) || strings.Count(got, "SnapshotId:snap-") != 2 || !strings.Contains(got, "VirtualDeviceName:ephemeral0") {
		t.Errorf("the mappings of a copy are %s", got)
	}
}

func TestRegisterImageRefused(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	s := l.snapshot(anna, l.volume(anna, `"Size": 10`))
	theirs := l.snapshot(ben, l.volume(ben, `"Size": 1`))
	young := l.One(anna, "CreateSnapshot", `{"SourceSnapshotId": %q, "SourceRegionName": "test-1"}`, s).Text("SnapshotId")
	root := fmt.Sprintf(`{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q}}`, s)
	for _, test := range []struct {
		name, mappings string
		want           apierror.Code
	}{
		{"no device", fmt.Sprintf(`{"Bsu": {"SnapshotId": %q}}`, s), apierror.MissingParameter},
		{"no root device", fmt.Sprintf(`{"DeviceName": "/dev/sdb", "Bsu": {"SnapshotId": %q}}`, s), apierror.InvalidRootMapping},
		{"a root device without a snapshot", `{"DeviceName": "/dev/sda1", "Bsu": {"VolumeSize": 10}}`, apierror.InvalidRootMapping},
		{"a device twice", root + `, ` + root, apierror.InvalidMappings},
		{"a device that is none", root + `, {"DeviceName": "/dev/hda", "Bsu": {"VolumeSize": 1}}`, apierror.InvalidDeviceName},
		{"a snapshot of another account", fmt.Sprintf(`{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q}}`, theirs),
			apierror.SnapshotNotFound},
		{"a snapshot that is not completed", fmt.Sprintf(`{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q}}`, young), apierror.InvalidState},
		{"less than the snapshot", fmt.Sprintf(`{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q, "VolumeSize": 9}}`, s),
			apierror.VolumeTooSmall},
		{"no size", root + `, {"DeviceName": "/dev/sdb", "Bsu": {}}`, apierror.MissingParameter},
		{"too large", root + `, {"DeviceName": "/dev/sdb", "Bsu": {"VolumeSize": 14902}}`, apierror.InvalidVolumeSize},
		{"operations of a type without a choice", root + `, {"DeviceName": "/dev/sdb", "Bsu": {"VolumeSize": 10, "Iops": 200}}`,
			apierror.InvalidParameter},
		{"io1 without operations", root + `, {"DeviceName": "/dev/sdb", "Bsu": {"VolumeSize": 10, "VolumeType": "io1"}}`,
			apierror.MissingParameter},
		{"too many operations", root + `, {"DeviceName": "/dev/sdb", "Bsu": {"VolumeSize": 100, "VolumeType": "io1", "Iops": 13001}}`,
			apierror.InvalidIops},
		{"a virtual device that is none", root + `, {"DeviceName": "/dev/sdb", "VirtualDeviceName": "temporary"}`, apierror.InvalidVirtualName},
		{"a virtual device with a volume", root + `, {"DeviceName": "/dev/sdb", "VirtualDeviceName": "ephemeral0", "Bsu": {"VolumeSize": 1}}`,
			apierror.InvalidVirtualName},
	} {
		t.Run(test.name, func(t *testing.T) {
			l.refuse(test.want, anna, "CreateImage", `{"RootDeviceName": "/dev/sda1", "BlockDeviceMappings": [%s]}`, test.mappings)
		})
	}
	l.refuse(apierror.InvalidDeviceName, anna, "CreateImage", `{"RootDeviceName": "/dev/sdb", "BlockDeviceMappings": [%s]}`, root)
}

// An image of a snapshot that another account has shared keeps to that snapshot,
// also once it is not shared any more.
func TestImageOfLentSnapshot(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	s := l.snapshot(anna, l.volume(anna, `"Size": 1`))
	l.Call(anna, "UpdateSnapshot", `{"SnapshotId": %q, "PermissionsToCreateVolume": {"Additions": {"AccountIds": [%q]}}}`, s, ben)
	i := l.One(ben, "CreateImage", `{"RootDeviceName": "/dev/sda1", "BlockDeviceMappings": [{"DeviceName": "/dev/sda1",
		"Bsu": {"SnapshotId": %q}}]}`, s)
	l.Selects(l.list(ben, "ReadImages", `{"BlockDeviceMappingSnapshotIds": [%q]}`, s), "ImageId", i.Text("ImageId"))
	l.Call(anna, "UpdateSnapshot", `{"SnapshotId": %q, "PermissionsToCreateVolume": {"Removals": {"AccountIds": [%q]}}}`, s, ben)
	copied := l.One(ben, "CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1"}`, i["ImageId"])
	l.Call(ben, "CreateImageExportTask", `{"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "bucket"}}`, i["ImageId"])
	l.settle()
	if got := l.readImage(ben, copied.Text("ImageId")).Text("State"); got != "available" {
		t.Errorf("a copy is %s", got)
	}
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, s)
	l.refuse(apierror.SnapshotNotFound, ben, "CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1"}`, i["ImageId"])
	l.Call(ben, "DeleteImage", `{"ImageId": %q}`, i["ImageId"])
}

// A resource is shared with so many accounts and no more.
func TestSharedWithTooMany(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	image, snapshot := l.image(anna)
	accounts := func(from, n int) string {
		var ids []string
		for i := range n {
			ids = append(ids, fmt.Sprintf("%012d", from+i))
		}
		return jsonOf(ids)
	}
	l.Call(anna, "UpdateImage", `{"ImageId": %q, "PermissionsToLaunch": {"Additions": {"AccountIds": %s}}}`, image, accounts(100, maxShared))
	l.refuse(apierror.InvalidCount, anna, "UpdateImage", `{"ImageId": %q, "PermissionsToLaunch": {"Additions": {"AccountIds": %s}}}`, image,
		accounts(5000, 1))
	l.refuse(apierror.InvalidCount, anna, "UpdateSnapshot",
		`{"SnapshotId": %q, "PermissionsToCreateVolume": {"Additions": {"AccountIds": %s}}}`, snapshot, accounts(100, maxShared+1))
	l.Call(anna, "UpdateImage", `{"ImageId": %q, "PermissionsToLaunch": {"Removals": {"AccountIds": %s}}}`, image, accounts(100, 1))
	l.Call(anna, "UpdateImage", `{"ImageId": %q, "PermissionsToLaunch": {"Additions": {"AccountIds": %s}}}`, image, accounts(5000, 1))
	l.Call(anna, "DeleteImage", `{"ImageId": %q}`, image)
	l.Selects(l.list("000000005000", "ReadImages", `{}`), "ImageId")
}

func TestSharedImages(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	const carol = "000000000003"
	private, snapshot := l.image(anna)
	l.Call(anna, "UpdateImage", `{"ImageId": %q, "Description": "mine", "ProductCodes": ["0004", "0001", "0004"]}`, private)
	l.Call(ben, "UpdateImage", `{"ImageId": %q, "Description": "x"}`, func() string { i, _ := l.image(ben); return i }())
	share := func(change string) string {
		t.Helper()
		return l.One(anna, "UpdateImage", `{"ImageId": %q, "PermissionsToLaunch": %s}`, private, change).Text("PermissionsToLaunch")
	}
	for _, action := range []string{`DeleteImage {"ImageId": %q}`, `UpdateImage {"ImageId": %q,
		"Description": ""}`, `CreateImage {"SourceImageId": %q, "SourceRegionName": "test-1"}`,
		`CreateImageExportTask {"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "bucket"}}`} {
		name, request, _ := strings.Cut(action, " ")
		l.refuse(apierror.ImageNotFound, ben, name, request, private)
	}
	if got, want := share(`{"Additions": {"AccountIds": ["`+ben+`", "`+carol+`"]}}`),
		"map[AccountIds:["+ben+" "+carol+"] GlobalPermission:false]"; got != want {
		t.Errorf("the permissions are %s, want %s", got, want)
	}
	got := l.readImage(ben, private)
	for name, want := range map[string]string{
		"AccountId": anna, "Description": "mine", "ProductCodes": "[0004 0001]", "Tags": "[]", "FileLocation": anna + "/" + private,
		"PermissionsToLaunch": "map[AccountIds:[" + ben + "] GlobalPermission:false]", // with whom else is the owner's
	} {
		if got.Text(name) != want {
			t.Errorf("%s is %s to others, want %s", name, got[name], want)
		}
	}
	l.Selects(l.list(ben, "ReadImages", `{"PermissionsToLaunchAccountIds": [%q]}`, ben), "ImageId", private)
	l.Selects(l.list(ben, "ReadImages", `{"AccountIds": [%q]}`, anna), "ImageId", private)

	// Others copy it, and do nothing else with it; nor with its snapshot.
	l.refuse(apierror.NotAuthorized, ben, "DeleteImage", `{"ImageId": %q}`, private)
	l.refuse(apierror.NotAuthorized, ben, "UpdateImage", `{"ImageId": %q, "Description": "x"}`, private)
	l.refuse(apierror.NotAuthorized, ben, "CreateImageExportTask",
		`{"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "bucket"}}`, private)
	l.refuse(apierror.SnapshotNotFound, ben, "CreateVolume", `{"SubregionName": "test-1a", "SnapshotId": %q}`, snapshot)
	copied := l.One(ben, "CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1"}`, private)
	for name, want := range map[string]string{
		"AccountId": ben, "Description": "mine", "ProductCodes": "[0004 0001]", "State": "pending", "Architecture": "i386",
		"PermissionsToLaunch": "map[AccountIds:[] GlobalPermission:false]",
	} {
		if copied.Text(name) != want {
			t.Errorf("%s of a copy is %s, want %s", name, copied[name], want)
		}
	}
	other := l.One(ben, "CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1", "Description": "ours", "ProductCodes": ["0002"],
		"BootModes": ["uefi"], "TpmMandatory": true}`, private)
	if other.Text("Description") != "ours" || other.Text("ProductCodes") != "[0002]" || other.Text("BootModes") != "[uefi]" ||
		other.Text("TpmMandatory") != "true" {
		t.Errorf("a copy with changes is %v", other)
	}

	// It is everybody's, and then nobody's.
	if got, want := share(`{"Additions": {"GlobalPermission": true}}`),
		"map[AccountIds:["+ben+" "+carol+"] GlobalPermission:true]"; got != want {
		t.Errorf("the permissions are %s, want %s", got, want)
	}
	l.Selects(l.list("000000000004", "ReadImages", `{"PermissionsToLaunchGlobalPermission": true}`), "ImageId", private)
	public := l.One(ben, "CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1"}`, private)
	if got, want := public.Text("PermissionsToLaunch"), "map[AccountIds:[] GlobalPermission:true]"; got != want {
		t.Errorf("the permissions of a copy of it are %s, want %s", got, want)
	}
	l.Selects(l.list("000000000004", "ReadImages", `{"AccountIds": [%q]}`, ben), "ImageId", public.Text("ImageId"))
	l.Call(ben, "DeleteImage", `{"ImageId": %q}`, public["ImageId"])
	share(`{"Removals": {"GlobalPermission": true}}`)
	share(`{"Removals": {"AccountIds": ["` + ben + `"]}}`)
	l.refuse(apierror.ImageNotFound, ben, "CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1"}`, private)
	l.Call(anna, "DeleteImage", `{"ImageId": %q}`, private)
	l.Selects(l.list(carol, "ReadImages", `{}`), "ImageId")

	image, _ := l.image(anna)
	l.refuse(apierror.MissingParameter, anna, "UpdateImage", `{"ImageId": %q}`, image)
	l.refuse(apierror.MissingParameter, anna, "UpdateImage", `{"ImageId": %q, "PermissionsToLaunch": {}}`, image)
	l.refuse(apierror.InvalidParameterSet, anna, "UpdateImage",
		`{"ImageId": %q, "PermissionsToLaunch": {"Additions": {"GlobalPermission": true}, "Removals": {"GlobalPermission": true}}}`, image)
}

// An account calls an image so only once, in whichever way it is made.
func TestImageNames(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	vm, _ := l.vmWithRoot(anna, VmStopped, 1)
	i := l.One(anna, "CreateImage", `{"VmId": %q, "ImageName": "golden"}`, vm)
	l.refuse(apierror.ImageNameTaken, anna, "CreateImage", `{"VmId": %q, "ImageName": "golden"}`, vm)
	l.settle()
	copied := l.One(anna, "CreateImage", `{"SourceImageId": %q, "SourceRegionName": "test-1"}`, i["ImageId"])
	if copied["ImageName"] != copied["ImageId"] {
		t.Errorf("an image without a name is called %s", copied["ImageName"])
	}
	other, _ := l.vmWithRoot(ben, VmStopped, 1)
	l.Call(ben, "CreateImage", `{"VmId": %q, "ImageName": "golden"}`, other)
	l.Call(anna, "DeleteImage", `{"ImageId": %q}`, i["ImageId"])
	l.Call(anna, "CreateImage", `{"VmId": %q, "ImageName": "golden"}`, vm)
}

func TestImageFilters(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	vm, _ := l.vmWithRoot(anna, VmStopped, 7)
	one := l.One(anna, "CreateImage", `{"VmId": %q, "ImageName": "Debian-12-golden", "Description": "one"}`, vm).Text("ImageId")
	l.settle()
	two, snapshot := l.image(anna)
	for filters, want := range map[string][]string{
		`{}`:                                                            {one, two},
		`{"ImageIds": ["` + two + `"]}`:                                 {two},
		`{"ImageNames": ["Debian-12-*"]}`:                               {one},
		`{"ImageNames": ["debian-12-*"]}`:                               nil,
		`{"ImageNames": ["*golden", "ami-*"]}`:                          {one, two},
		`{"Descriptions": ["one"]}`:                                     {one},
		`{"AccountIds": ["` + anna + `"]}`:                              {one, two},
		`{"AccountIds": ["` + ben + `"]}`:                               nil,
		`{"AccountAliases": ["Outscale"]}`:                              nil,
		`{"Architectures": ["i386"]}`:                                   {two},
		`{"BlockDeviceMappingDeleteOnVmDeletion": true}`:                {two},
		`{"BlockDeviceMappingDeviceNames": ["/dev/sda1"]}`:              {one, two},
		`{"BlockDeviceMappingSnapshotIds": ["` + snapshot + `"]}`:       {two},
		`{"BlockDeviceMappingVolumeSizes": [7]}`:                        {one},
		`{"BlockDeviceMappingVolumeTypes": ["gp2"]}`:                    nil,
		`{"BootModes": ["uefi"]}`:                                       {one},
		`{"FileLocations": ["` + anna + `/Debian-12-golden"]}`:          {one},
		`{"Hypervisors": ["xen"]}`:                                      {one, two},
		`{"Hypervisors": ["kvm"]}`:                                      nil,
		`{"VirtualizationTypes": ["hvm"]}`:                              {one, two},
		`{"VirtualizationTypes": ["paravirtual"]}`:                      nil,
		`{"PermissionsToLaunchGlobalPermission": false}`:                {one, two},
		`{"PermissionsToLaunchAccountIds": ["` + ben + `"]}`:            nil,
		`{"ProductCodes": ["0002"]}`:                                    {one},
		`{"ProductCodeNames": ["Linux"]}`:                               {two},
		`{"ProductCodeNames": ["Windows", "Linux"]}`:                    {one, two},
		`{"RootDeviceNames": ["/dev/sda1"]}`:                            {one, two},
		`{"RootDeviceTypes": ["ebs"]}`:                                  {one, two},
		`{"RootDeviceTypes": ["instance-store"]}`:                       nil,
		`{"SecureBoot": true}`:                                          nil,
		`{"TpmMandatory": false}`:                                       {one, two},
		`{"States": ["available"], "ImageNames": ["Debian-12-golden"]}`: {one},
		`{"States": ["pending"]}`:                                       nil,
	} {
		t.Run(filters, func(t *testing.T) { l.Selects(l.list(anna, "ReadImages", filters), "ImageId", want...) })
	}
}

// The region's own images are everybody's, and nobody's to change.
func TestPublish(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	publish := func(images []PublicImage) (changed bool) {
		t.Helper()
		before := l.Revision(string(id.Outscale))
		l.Update(string(id.Outscale), func(tx *resource.Tx) error { return Publish(tx, images) })
		return l.Revision(string(id.Outscale)) != before
	}
	images := PublicImages()
	if !publish(images) || publish(images) {
		t.Error("images are published more often than once, or not at all")
	}
	all := l.list(anna, "ReadImages", `{"AccountAliases": ["Outscale"]}`)
	if len(all) != len(images) {
		t.Fatalf("%d images are published and %d are there", len(images), len(all))
	}
	debian := l.readImage(anna, "ami-deb12000")
	l.Shows(debian, `{
		"AccountAlias": "Outscale", "AccountId": "000000000000", "Architecture": "x86_64", "BootModes": ["legacy", "uefi"],
			"CreationDate": "2026-01-12T09:00:00.000Z",
		"Description": "Debian 12 (bookworm)", "FileLocation": "Outscale/Debian-12-2026.01.12-0", "ImageId": "ami-deb12000",
			"ImageName": "Debian-12-2026.01.12-0", "ImageType": "machine",
		"PermissionsToLaunch": {"AccountIds": [], "GlobalPermission": true}, "ProductCodes": ["0001"], "RootDeviceName": "/dev/sda1",
			"RootDeviceType": "bsu",
		"SecureBoot": false, "State": "available", "StateComment": {}, "Tags": [], "TpmMandatory": false,
		"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Bsu": {"DeleteOnVmDeletion": true, "SnapshotId": "snap-deb12000", "VolumeSize": 10,
			"VolumeType": "standard"}}]}`)
	l.refuse(apierror.NotAuthorized, anna, "DeleteImage", `{"ImageId": "ami-deb12000"}`)
	l.refuse(apierror.SnapshotNotFound, anna, "CreateVolume", `{"SubregionName": "test-1a", "SnapshotId": "snap-deb12000"}`)

	// A copy has a snapshot that the driver makes of the content it knows, and so
	// has a volume.
	copied := l.One(anna, "CreateImage", `{"SourceImageId": "ami-deb12000", "SourceRegionName": "test-1"}`)
	l.Update(anna, func(tx *resource.Tx) error {
		owner, i, err := launchable(tx, "ami-deb12000")
		if err != nil {
			return err
		}
		of := i.BlockDeviceMappings[0].Bsu.SnapshotId
		v, err := Region{Name: "test-1", Subregions: []string{"test-1a"}}.planVolume(tx, newVolume{
			SnapshotId: of, SnapshotOwner: i.snapshotOwner(owner, of), SubregionName: "test-1a",
		})
		if err != nil {
			return err
		}
		used := storageOf(tx)
		return used.insert(tx, v)
	})
	l.settle()
	if got := l.readImage(anna, copied.Text("ImageId")); got.Text("State") != "available" ||
		got.Text("PermissionsToLaunch") != "map[AccountIds:[] GlobalPermission:true]" {
		t.Errorf("a copy is %v", got)
	}
	of := copied["BlockDeviceMappings"].([]any)[0].(map[string]any)["Bsu"].(map[string]any)["SnapshotId"].(string)
	if got := l.source(of); got.Image != "Debian-12-2026.01.12-0" || got.Copy != nil || got.Size != 10 {
		t.Errorf("the driver copies %v", got)
	}
	disks, err := l.drivers.ObserveDisks(t.Context())
	if err != nil || len(disks) != 1 || disks[0].Image != "Debian-12-2026.01.12-0" || disks[0].From != nil || disks[0].Size != 10 {
		t.Errorf("the driver has the disks %v, %v", disks, err)
	}

	// The operator has others from now on.
	others := []PublicImage{images[1], images[0]}
	others[1].Description, others[1].ImageName = "changed", others[1].ImageName+"-1"
	if !publish(others) || publish(others) {
		t.Error("other images are published more often than once, or not at all")
	}
	l.Selects(l.list(ben, "ReadImages", `{}`), "ImageId", "ami-deb13000", copied.Text("ImageId"), "ami-deb12000")
	if got := l.readImage(ben, "ami-deb12000"); got.Text("Description") != "changed" {
		t.Errorf("a changed image is %v", got)
	}
	if got := l.readImage(anna, copied.Text("ImageId")).Text("State"); got != "available" {
		t.Errorf("a copy is %s", got)
	}
	publish(nil)
	l.Selects(l.list(ben, "ReadImages", `{}`), "ImageId", copied.Text("ImageId"))
	l.View(string(id.Outscale), func(tx *resource.Tx) error {
		if n := Snapshots.Count(tx); n != 0 {
			t.Errorf("%d snapshots are left", n)
		}
		return nil
	})
}

func TestReadPublicImages(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(PublicImages())
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadPublicImages(strings.NewReader(string(text)))
	if err != nil || !reflect.DeepEqual(again, PublicImages()) {
		t.Errorf("what is written is read as %v, %v", again, err)
	}
	const fine = `{"ImageId": "ami-00000001", "ImageName": "one", "Architecture": "x86_64", "BootModes": ["uefi"],
		"CreationDate": "2026-01-01", "ProductCodes": ["0001"], "VolumeSize": 10}`
	if got, err := ReadPublicImages(strings.NewReader("[" + fine + "]")); err != nil || got[0].Content != "one" {
		t.Errorf("got %v, %v", got, err)
	}
	for what, text := range map[string]string{
		"cannot unmarshal":            fine,
		"something follows":           "[" + fine + "] []",
		"unknown field":               strings.Replace("["+fine+"]", "ImageId", "Id", 1),
		"used already":                "[" + fine + ", " + strings.Replace(fine, "one", "two", 1) + "]",
		"the name one":                "[" + fine + ", " + strings.Replace(fine, "ami-00000001", "ami-00000002", 1) + "]",
		"the form ami-":               strings.Replace("["+fine+"]", "ami-00000001", "ami-1", 1),
		"no ImageName":                strings.Replace("["+fine+"]", `"one"`, `""`, 1),
		"is not the name of an image": strings.Replace("["+fine+"]", `"one"`, `"é"`, 1),
		"the Architecture":            strings.Replace("["+fine+"]", "x86_64", "arm64", 1),
		"no BootModes":                strings.Replace("["+fine+"]", `["uefi"]`, `[]`, 1),
		"the BootMode 'bios'":         strings.Replace("["+fine+"]", `["uefi"]`, `["bios"]`, 1),
		"a date":                      strings.Replace("["+fine+"]", "2026-01-01", "soon", 1),
		"no ProductCodes":             strings.Replace("["+fine+"]", `["0001"]`, `[]`, 1),
		"a product code":              strings.Replace("["+fine+"]", `["0001"]`, `["free"]`, 1),
		"the VolumeSize 0":            strings.Replace("["+fine+"]", `10}`, `0}`, 1),
	} {
		if got, err := ReadPublicImages(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v, %v", what, got, err)
		}
	}
}

// manifestOf is a manifest with a root device, whose URL works until a time.
func manifestOf(until time.Time) string {
	return fmt.Sprintf(`{"Version": 1, "Image": {"Name": "imported", "Description": "from afar", "Architecture": "x86_64", "Type": "machine",
		"ProductTypes": ["0002"], "Public": true, "Snapshots": [
		{"Ordering": 1, "DeleteOnTermination": true, "Device": "/dev/sda1", "Filename": "a", "Iops": null,
			"PreSignedUrl": "https://example.com/a?Expires=%d&Signature=x", "Size": 10737418241, "VolumeType": "standard"},
		{"DeleteOnTermination": false, "Device": "/dev/sdb", "Filename": "b", "Iops": 300, "PreSignedUrl": "https://example.com/b",
			"Size": 5368709120, "VolumeType": "io1"}]}}`, until.Unix())
}

func TestImportImage(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	l.fetched = []byte(manifestOf(l.Clock.Now().Add(time.Hour)))
	i := l.One(anna, "CreateImage", `{"FileLocation": "https://example.com/manifest.json?Signature=x", "BootModes": ["uefi"]}`)
	for name, want := range map[string]string{
		"ImageName": "imported", "Description": "from afar", "Architecture": "x86_64", "ProductCodes": "[0002]", "State": "pending",
		"BootModes":           "[uefi]",
		"PermissionsToLaunch": "map[AccountIds:[] GlobalPermission:false]", "FileLocation": anna + "/imported",
	} {
		if i.Text(name) != want {
			t.Errorf("%s is %s, want %s", name, i[name], want)
		}
	}
	snapshots := []string{}
	for s := range strings.SplitSeq(fmt.Sprint(i["BlockDeviceMappings"]), "SnapshotId:") {
		if strings.HasPrefix(s, "snap-") {
			snapshots = append(snapshots, s[:len("snap-12345678")])
		}
	}
	l.Shows(reply{"got": i["BlockDeviceMappings"]}, `{"got": [
		{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q, "VolumeSize": 11, "VolumeType": "standard", "DeleteOnVmDeletion": true}},
		{"DeviceName": "/dev/sdb", "Bsu": {"SnapshotId": %q, "VolumeSize": 5, "VolumeType": "io1", "Iops": 300,
			"DeleteOnVmDeletion": false}}]}`, snapshots[0], snapshots[1])
	l.settle()
	if got := l.readImage(anna, i.Text("ImageId")).Text("State"); got != "available" {
		t.Errorf("it is %s", got)
	}
	s, _, err := l.drivers.Snapshot(t.Context(), anna, snapshots[0])
	want := []driver.SnapshotPart{
		{ID: snapshots[0], URL: fmt.Sprintf("https://example.com/a?Expires=%d&Signature=x",
			time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC).Unix()), Size: 11},
		{ID: snapshots[1], URL: "https://example.com/b", Size: 5},
	}
	if err != nil || !reflect.DeepEqual(s.Parts, want) {
		t.Errorf("the driver imports %v, %v", s.Parts, err)
	}
	l.refuse(apierror.ImageNameTaken, anna, "CreateImage", `{"FileLocation": "https://example.com/manifest.json"}`)
	l.Call(anna, "CreateImage", `{"FileLocation": "https://example.com/manifest.json", "ImageName": "another", "Description": "mine",
		"ProductCodes": ["0001"]}`)
	l.advance(time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC).Sub(l.Clock.Now()))
	l.Call(anna, "CreateImage", `{"FileLocation": "https://example.com/manifest.json", "ImageName": "the last one"}`)
	l.advance(time.Second)
	l.refuse(apierror.InvalidManifest, anna, "CreateImage", `{"FileLocation": "https://example.com/manifest.json", "ImageName": "too late"}`)
}

func TestManifests(t *testing.T) {
	t.Parallel()
	fine := manifestOf(time.Now().Add(time.Hour))
	if _, err := parseManifest([]byte(fine)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, old, by string
		want          apierror.Code
	}{
		{"no document", `{"Version"`, `<xml`, apierror.InvalidManifestFormat},
		{"half a document", `]}}`, ``, apierror.InvalidManifestFormat},
		{"two documents", `]}}`, `]}} {}`, apierror.InvalidManifestFormat},
		{"a text for a number", `10737418241`, `"large"`, apierror.InvalidManifestFormat},
		{"another version", `"Version": 1`, `"Version": 2`, apierror.UnknownManifestVersion},
		{"no version", `"Version": 1, `, ``, apierror.UnknownManifestVersion},
		{"an odd name", `"imported"`, `"é"`, apierror.InvalidManifest},
		{"another type", `"machine"`, `"kernel"`, apierror.InvalidManifest},
		{"another architecture", `"x86_64"`, `"arm64"`, apierror.InvalidManifest},
		{"no product types", `["0002"]`, `[]`, apierror.InvalidManifest},
		{"odd product types", `["0002"]`, `["free"]`, apierror.InvalidManifest},
		{"no root device", `/dev/sda1`, `/dev/sdc`, apierror.InvalidManifest},
		{"a device twice", `/dev/sdb`, `/dev/sda1`, apierror.InvalidManifest},
		{"an odd device", `/dev/sdb`, `/dev/hdb`, apierror.InvalidManifest},
		{"another type of volume", `"standard"`, `"fast"`, apierror.InvalidManifest},
		{"operations of a type without a choice", `"io1"`, `"gp2"`, apierror.InvalidManifest},
		{"no operations", `300`, `null`, apierror.InvalidManifest},
		{"no URL", `"https://example.com/b"`, `""`, apierror.InvalidManifest},
		{"a URL of no file", `"https://example.com/b"`, `"https://example.com"`, apierror.InvalidManifest},
		{"a file of the driver's own", `"https://example.com/b"`, `"file:///etc/passwd"`, apierror.InvalidManifest},
		{"a size below nothing", `5368709120`, `-1`, apierror.InvalidManifest},
		{"a size above all", `5368709120`, `16000829587457`, apierror.InvalidManifest},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(fine, test.old, test.by, 1)
			if m, err := parseManifest([]byte(text)); text == fine || !test.want.Is(err) {
				t.Errorf("got %v, %v, want %s", m, err, test.want)
			}
		})
	}
	if m, err := parseManifest([]byte(strings.Replace(fine, `/dev/sdb`, `/dev/sda2`, 1))); err != nil {
		t.Errorf("the device of the published sample: %v, %v", m, err)
	}
	if m, err := parseManifest([]byte(strings.Replace(fine, `"Architecture": "x86_64", "Type": "machine", `, ``,
		1))); err != nil || m.Image.Architecture != "x86_64" {
		t.Errorf("what may be missing: %v, %v", m, err)
	}
}

// Whatever a stranger sends is a manifest or is refused with a sentence.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(manifestOf(time.Unix(0, 0))))
	f.Add([]byte(`{"Version": 1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseManifest(text)
		switch {
		case err == nil:
			again, err := parseManifest(m.text())
			if err != nil || !reflect.DeepEqual(m, again) {
				t.Errorf("%v is read again as %v, %v", m, again, err)
			}
		case apierror.From(err).Code == apierror.Internal:
			t.Errorf("%s: %v", text, err)
		}
	})
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for url, want := range map[string]time.Time{
		"https://example.com/a?Expires=1795168800":                                   at,
		"object:///bucket/a?Expires=1795168800&Signature=x":                          at,
		"https://example.com/a?X-Amz-Date=20261113T100000Z&X-Amz-Expires=604800":     at,
		"https://example.com/a?X-Amz-Date=20261113T100000Z":                          {},
		"https://example.com/a?X-Amz-Date=yesterday&X-Amz-Expires=604800":            {},
		"https://example.com/a?X-Amz-Date=20261113T100000Z&X-Amz-Expires=-1":         {},
		"https://example.com/a?X-Amz-Date=20261113T100000Z&X-Amz-Expires=9999999999": {},
		"https://example.com/a":               {},
		"https://example.com/a?Expires=never": {},
		"%":                                   {},
	} {
		if got, ok := expiry(url); !got.Equal(want) || ok == want.IsZero() {
			t.Errorf("%s expires at %v, %t, want %v", url, got, ok, want)
		}
	}
}
