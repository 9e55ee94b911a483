package compute

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestCreateVolume(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, request    string
		size, iops, kind string
		refused          apierror.Code
	}{
		{"least", `"Size": 1`, "1", "", "standard", 0},
		{"largest", `"Size": 14901, "VolumeType": "standard"`, "14901", "", "standard", 0},
		{"too large", `"Size": 14902`, "", "", "", apierror.InvalidVolumeSize},
		{"less than nothing", `"Size": -1`, "", "", "", apierror.InvalidVolumeSize},
		{"no size", `"VolumeType": "gp2"`, "", "", "", apierror.MissingParameter},
		{"gp2", `"Size": 500, "VolumeType": "gp2"`, "500", "100", "gp2", 0},
		{"io1", `"Size": 4, "VolumeType": "io1", "Iops": 100`, "4", "100", "io1", 0},
		{"most operations for a size", `"Size": 4, "VolumeType": "io1", "Iops": 1200`, "4", "1200", "io1", 0},
		{"more operations than the size has", `"Size": 4, "VolumeType": "io1", "Iops": 1201`, "", "", "", apierror.InvalidIopsRatio},
		{"most operations", `"Size": 44, "VolumeType": "io1", "Iops": 13000`, "44", "13000", "io1", 0},
		{"too many operations", `"Size": 100, "VolumeType": "io1", "Iops": 13001`, "", "", "", apierror.InvalidIops},
		{"too few operations", `"Size": 100, "VolumeType": "io1", "Iops": 99`, "", "", "", apierror.InvalidIops},
		{"io1 without operations", `"Size": 100, "VolumeType": "io1"`, "", "", "", apierror.MissingParameter},
		{"io1 that is too small", `"Size": 3, "VolumeType": "io1", "Iops": 100`, "", "", "", apierror.InvalidVolumeSize},
		{"operations for gp2", `"Size": 10, "VolumeType": "gp2", "Iops": 100`, "", "", "", apierror.InvalidParameter},
		{"operations for the default", `"Size": 10, "Iops": 150`, "", "", "", apierror.InvalidParameter},
		{"another type", `"Size": 10, "VolumeType": "st1"`, "", "", "", apierror.InvalidValue},
		{"an absent snapshot", `"Size": 10, "SnapshotId": "snap-00000000"`, "", "", "", apierror.SnapshotNotFound},
		{"a token too long", `"Size": 10, "ClientToken": "` + strings.Repeat("x", 65) + `"`, "", "", "", apierror.InvalidLength},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newTestRegion(t)
			if test.refused != 0 {
				l.refuse(test.refused, anna, "CreateVolume", `{"SubregionName": "test-1b", %s}`, test.request)
				return
			}
			v := l.One(anna, "CreateVolume", `{"SubregionName": "test-1b", %s}`, test.request)
			iops := ""
			if test.iops != "" {
				iops = `"Iops": ` + test.iops + ", "
			}
			l.Shows(v, `{"CreationDate": "2026-11-20T10:00:00.000Z", %s"LinkedVolumes": [], "Size": %s,
				"State": "creating", "SubregionName": "test-1b", "Tags": [], "VolumeId": %q, "VolumeType": %q}`, iops, test.size, v["VolumeId"],
				test.kind)
		})
	}
}

func TestVolumeLife(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v := l.One(anna, "CreateVolume", `{"SubregionName": "test-1a", "Size": 4, "VolumeType": "io1", "Iops": 200}`).Text("VolumeId")
	for action, want := range map[string]apierror.Code{
		"DeleteVolume": apierror.InvalidState, "CreateSnapshot": apierror.InvalidVolumeState, "UnlinkVolume": apierror.VolumeNotLinked,
	} {
		l.refuse(want, anna, action, `{"VolumeId": %q}`, v)
	}
	l.refuse(apierror.InvalidVolumeState, anna, "UpdateVolume", `{"VolumeId": %q, "Size": 5}`, v)
	l.refuse(apierror.InvalidState, anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdb"}`, v,
		l.vm(anna, "test-1a", VmRunning))
	l.advance(delay - 1)
	if state := l.read(anna, "ReadVolumes", "VolumeIds", v).Text("State"); state != "creating" {
		t.Errorf("a volume that the driver has not made yet is %s", state)
	}
	l.advance(1)
	if state := l.read(anna, "ReadVolumes", "VolumeIds", v).Text("State"); state != "available" {
		t.Errorf("a volume that the driver has made is %s", state)
	}
	l.hasDisks(driver.Disk{Account: anna, ID: v, Generation: 1, Subregion: "test-1a", Size: 4, Type: "io1", Iops: 200})
	l.Selects(l.list(ben, "ReadVolumes", `{}`), "VolumeId")
	l.refuse(apierror.VolumeNotFound, ben, "DeleteVolume", `{"VolumeId": %q}`, v)

	// It is deleting for as long as it takes to look, and to remove its disk.
	l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, v)
	for _, d := range []time.Duration{0, deletingFor, delay - 1} {
		l.advance(d)
		if state := l.read(anna, "ReadVolumes", "VolumeIds", v).Text("State"); state != "deleting" {
			t.Errorf("%s after its deletion it is %s", d, state)
		}
		l.refuse(apierror.InvalidState, anna, "DeleteVolume", `{"VolumeId": %q}`, v)
	}
	l.advance(1)
	l.refuse(apierror.VolumeNotFound, anna, "DeleteVolume", `{"VolumeId": %q}`, v)
	l.hasDisks()
	l.settle()
	l.Selects(l.list(anna, "ReadVolumes", `{}`), "VolumeId")
}

// What a volume that is being deleted has taken of the account is free at once:
// its gibibytes, its client token and its snapshot. Only its number is not.
func TestDeletingVolumeLetsGo(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t, map[string]int{"volume_size_limit": 10, "volume_limit": 2})
	snapshot := l.snapshot(anna, l.volume(anna, `"Size": 2`))
	request := fmt.Sprintf(`{"SubregionName": "test-1a", "SnapshotId": %q, "Size": 8, "ClientToken": "once"}`, snapshot)
	first := l.One(anna, "CreateVolume", "%s", request).Text("VolumeId")
	l.settle()
	l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, first)
	l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, l.list(anna, "ReadVolumes", `{"VolumeSizes": [2]}`)[0].Text("VolumeId"))
	l.refuse(apierror.TooManyVolumes, anna, "CreateVolume", "%s", request)
	l.settle()
	second := l.One(anna, "CreateVolume", "%s", request).Text("VolumeId")
	if second == first {
		t.Error("a deleted volume is answered")
	}
	l.settle()
	l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, second)
	if third := l.One(anna, "CreateVolume", "%s", request).Text("VolumeId"); third == second {
		t.Error("a volume that is being deleted is answered")
	}
	l.settle()
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, snapshot)
}

// hasDisks checks which disks the driver has.
func (l *testRegion) hasDisks(want ...driver.Disk) {
	l.Helper()
	got, err := l.drivers.ObserveDisks(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	byID := func(a, b driver.Disk) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		l.Errorf("the driver has the disks %+v, want %+v", got, want)
	}
}

func TestVolumeRefusals(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	l.refuse(apierror.SubregionNotFound, anna, "CreateVolume", `{"SubregionName": "test-2a", "Size": 1}`)
	l.refuse(apierror.MissingParameter, anna, "CreateVolume", `{"Size": 1}`)
	l.refuse(apierror.SubregionNotFound, anna, "CreateVolume", `{"SubregionName": "", "Size": 1}`)
	for _, action := range []string{"DeleteVolume", "UnlinkVolume"} {
		l.refuse(apierror.VolumeNotFound, anna, action, `{"VolumeId": "vol-00000000"}`)
		l.refuse(apierror.InvalidID, anna, action, `{"VolumeId": "i-00000000"}`)
	}
	l.refuse(apierror.VolumeNotFound, anna, "UpdateVolume", `{"VolumeId": "vol-00000000", "Size": 2}`)
}

func TestClientTokenOfVolumes(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	const request = `{"SubregionName": "test-1a", "Size": 1, "ClientToken": "once"}`
	var wait sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wait.Go(func() {
			if answer, err := l.Try(anna, "CreateVolume", request); err == nil {
				ids[i] = reply(answer["Volume"].(map[string]any)).Text("VolumeId")
			}
		})
	}
	wait.Wait()
	if ids = slices.Compact(ids); len(ids) != 1 || ids[0] == "" {
		t.Fatalf("the same request at once made %q", ids)
	}
	l.settle()
	if again := l.One(anna, "CreateVolume", request); again.Text("VolumeId") != ids[0] || again.Text("State") != "available" ||
		again.Text("ClientToken") != "once" {
		t.Errorf("the same request later answers %v", again)
	}
	l.refuse(apierror.TokenMismatch, anna, "CreateVolume", `{"SubregionName": "test-1a", "Size": 2, "ClientToken": "once"}`)
	if other := l.One(ben, "CreateVolume", request).Text("VolumeId"); other == ids[0] {
		t.Error("another account is answered the volume of the first")
	}
	l.Selects(l.list(anna, "ReadVolumes", `{"ClientTokens": ["once"]}`), "VolumeId", ids[0])
	l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, ids[0])
	if after := l.One(anna, "CreateVolume", request).Text("VolumeId"); after == ids[0] {
		t.Error("a volume that was deleted is answered")
	}
}

func TestVolumeFromSnapshot(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	snapshot := l.snapshot(anna, l.volume(anna, `"Size": 10`))
	same := l.One(anna, "CreateVolume", `{"SubregionName": "test-1b", "SnapshotId": %q}`, snapshot)
	if same.Text("Size") != "10" || same.Text("SnapshotId") != snapshot || same.Text("VolumeType") != "standard" {
		t.Errorf("a volume of a snapshot is %v", same)
	}
	larger := l.One(anna, "CreateVolume", `{"SubregionName": "test-1b", "SnapshotId": %q, "Size": 11, "VolumeType": "gp2"}`, snapshot)
	if larger.Text("Size") != "11" {
		t.Errorf("a larger volume of a snapshot is %v", larger)
	}
	l.refuse(apierror.VolumeTooSmall, anna, "CreateVolume", `{"SubregionName": "test-1a", "SnapshotId": %q, "Size": 9}`, snapshot)
	l.refuse(apierror.SnapshotNotFound, ben, "CreateVolume", `{"SubregionName": "test-1a", "SnapshotId": %q}`, snapshot)

	// The snapshot is needed until the driver has made the volumes, and no longer.
	l.refuse(apierror.InUse, anna, "DeleteSnapshot", `{"SnapshotId": %q}`, snapshot)
	l.settle()
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, snapshot)
	if got := l.read(anna, "ReadVolumes", "VolumeIds", same.Text("VolumeId")).Text("SnapshotId"); got != snapshot {
		t.Errorf("a volume says it was made from %s, want %s", got, snapshot)
	}

	// One that is not completed has nothing yet.
	pending := l.One(anna, "CreateSnapshot", `{"VolumeId": %q}`, larger["VolumeId"]).Text("SnapshotId")
	l.refuse(apierror.InvalidState, anna, "CreateVolume", `{"SubregionName": "test-1a", "SnapshotId": %q}`, pending)
	disks, err := l.drivers.ObserveDisks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range disks {
		if want := (driver.SnapshotName{Account: anna, ID: snapshot}); d.ID == same.Text("VolumeId") && (d.From == nil || *d.From != want) {
			t.Errorf("the driver made the disk from %v, want %v", d.From, want)
		}
	}
}

func TestVolumeFilters(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	vm := l.vm(anna, "test-1a", VmRunning)
	snapshot := l.snapshot(anna, l.volume(anna, `"Size": 1`))
	first := l.list(anna, "ReadVolumes", `{}`)[0].Text("VolumeId")
	second := l.volume(anna, `"Size": 4, "VolumeType": "io1", "Iops": 100, "ClientToken": "second"`)
	third := l.volume(anna, `"SnapshotId": "`+snapshot+`"`)
	last := l.One(anna, "CreateVolume", `{"SubregionName": "test-1b", "Size": 2}`).Text("VolumeId")
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdb"}`, second, vm)
	linked := l.Clock.Now().Format("2006-01-02T15:04:05.000Z")
	l.machine(anna, vm)
	l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/xvdc"}`, third, vm)
	l.Update(anna, func(tx *resource.Tx) error {
		tagged, _ := tx.Tagged(first)
		tx.SetTags(tagged, []api.Tag{{Key: "env", Value: "test"}})
		return setDeleteOnVmDeletion(tx, id.Vm(vm), "/dev/xvdc", true)
	})
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, second, third, last}},
		{`{"ClientTokens": ["second", "third"]}`, []string{second}},
		{`{"CreationDates": ["2026-11-20T10:00:00.000Z"]}`, []string{first}},
		{`{"LinkVolumeDeleteOnVmDeletion": true}`, []string{third}},
		{`{"LinkVolumeDeleteOnVmDeletion": false}`, []string{second}},
		{`{"LinkVolumeDeviceNames": ["/dev/xvdb", "/dev/xvdd"]}`, []string{second}},
		{`{"LinkVolumeLinkDates": ["` + linked + `"]}`, []string{second, third}},
		{`{"LinkVolumeLinkDates": ["2026-11-20"]}`, nil},
		{`{"LinkVolumeLinkStates": ["attached"]}`, []string{second}},
		{`{"LinkVolumeLinkStates": ["attaching", "detaching", "detached"]}`, []string{third}},
		{`{"LinkVolumeVmIds": ["` + vm + `"]}`, []string{second, third}},
		{`{"LinkVolumeVmIds": ["` + vm + `"], "VolumeIds": ["` + third + `"]}`, []string{third}},
		{`{"LinkVolumeVmIds": ["i-00000000"]}`, nil},
		{`{"SnapshotIds": ["` + snapshot + `"]}`, []string{third}},
		{`{"SubregionNames": ["test-1b"]}`, []string{last}},
		{`{"TagKeys": ["env"]}`, []string{first}},
		{`{"TagValues": ["test"]}`, []string{first}},
		{`{"Tags": ["env=test"]}`, []string{first}},
		{`{"VolumeIds": ["` + last + `", "` + first + `"]}`, []string{first, last}},
		{`{"VolumeSizes": [1, 4]}`, []string{first, second, third}},
		{`{"VolumeStates": ["creating"]}`, []string{last}},
		{`{"VolumeStates": ["in-use"]}`, []string{second, third}},
		{`{"VolumeTypes": ["io1", "gp2"]}`, []string{second}},
	}
	for _, test := range tests {
		l.Selects(l.list(anna, "ReadVolumes", "%s", test.filters), "VolumeId", test.want...)
		if t.Failed() {
			t.Fatal(test.filters)
		}
	}
}

func TestStorageQuotas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, quota string
		limit       int
		fits, over  string
		refused     apierror.Code
	}{
		{"volumes", "volume_limit", 2, `"Size": 1`, `"Size": 1`, apierror.TooManyVolumes},
		{"size", "volume_size_limit", 100, `"Size": 90`, `"Size": 1, "VolumeType": "gp2"`, apierror.TooMuchVolumeSize},
		{"size of a type", "gp2_volume_size_limit", 100, `"Size": 100, "VolumeType": "gp2"`, `"Size": 1, "VolumeType": "gp2"`,
			apierror.TooMuchVolumeSize},
		{"size of the default type", "standard_volume_size_limit", 50, `"Size": 40`, `"Size": 1`, apierror.TooMuchVolumeSize},
		{"operations", "iops_limit", 500, `"Size": 10, "VolumeType": "io1", "Iops": 450`, `"Size": 10, "VolumeType": "io1", "Iops": 100`,
			apierror.TooManyIops},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newTestRegion(t, map[string]int{test.quota: test.limit})
			l.volume(anna, `"Size": 10`)
			fits := l.volume(anna, test.fits)
			l.refuse(test.refused, anna, "CreateVolume", `{"SubregionName": "test-1a", %s}`, test.over)
			l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, fits)
			l.settle()
			l.volume(anna, test.over)
		})
	}
}

func TestStorageIsMetered(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	l.volume(anna, `"Size": 10`)
	l.volume(anna, `"Size": 20, "VolumeType": "gp2"`)
	io := l.volume(anna, `"Size": 40, "VolumeType": "io1", "Iops": 300`)
	l.One(anna, "UpdateVolume", `{"VolumeId": %q, "Size": 50, "Iops": 400}`, io) // which is under way
	want := map[string]int{
		"volume_size_limit": 80, "standard_volume_size_limit": 10, "gp2_volume_size_limit": 20, "io1_volume_size_limit": 50, "iops_limit": 400,
		"concurrent_snapshot_limit": 0,
	}
	for _, m := range Meters() {
		l.View(anna, func(tx *resource.Tx) error {
			for quotaType, use := range m.Read(tx) {
				if use != want[m.Quota] || quotaType != resource.Global {
					t.Errorf("%s: %d of %s are used, want %d", m.Quota, use, quotaType, want[m.Quota])
				}
				delete(want, m.Quota)
			}
			return nil
		})
	}
	if len(want) > 0 {
		t.Errorf("nobody reads %v", want)
	}
}
