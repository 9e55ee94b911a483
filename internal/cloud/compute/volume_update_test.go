package compute

import (
	"errors"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// How volumes are updated, on stopped and running VMs and on none: what is done
// at once, what is a task, and what is refused.
func TestUpdateVolume(t *testing.T) {
	t.Parallel()
	const io, standard = `"Size": 10, "VolumeType": "io1", "Iops": 200`, `"Size": 2`
	tests := []struct {
		name, volume string
		vm           VmStateName // none: it is not linked
		update       string
		size, iops   string
		kind         string
		task         bool
		refused      apierror.Code
	}{
		{"larger", standard, "", `"Size": 3`, "3", "<nil>", "standard", true, 0},
		{"as large", standard, "", `"Size": 2`, "2", "<nil>", "standard", false, 0},
		{"smaller", standard, "", `"Size": 1`, "", "", "", false, apierror.InvalidVolumeSize},
		{"too large", standard, "", `"Size": 14902`, "", "", "", false, apierror.InvalidVolumeSize},
		{"nothing", standard, "", ``, "", "", "", false, apierror.MissingParameter},
		{"operations", io, "", `"Iops": 3000`, "10", "3000", "io1", false, 0},
		{"the same operations", io, VmRunning, `"Iops": 200`, "10", "200", "io1", false, 0},
		{"too many operations for the size", io, "", `"Iops": 3001`, "", "", "", false, apierror.InvalidIopsRatio},
		{"operations for a size to come", io, "", `"Iops": 3300, "Size": 11`, "11", "3300", "io1", true, 0},
		{"too few operations", io, "", `"Iops": 99`, "", "", "", false, apierror.InvalidIops},
		{"operations of a type without", standard, "", `"Iops": 150`, "", "", "", false, apierror.InvalidParameter},
		{"to gp2", io, "", `"VolumeType": "gp2"`, "10", "100", "gp2", false, 0},
		{"to gp2 with operations", io, "", `"VolumeType": "gp2", "Iops": 100`, "", "", "", false, apierror.InvalidParameter},
		{"to standard, larger", io, "", `"VolumeType": "standard", "Size": 20`, "20", "<nil>", "standard", true, 0},
		{"to io1", `"Size": 5`, "", `"VolumeType": "io1", "Iops": 100`, "5", "100", "io1", false, 0},
		{"to io1 without operations", `"Size": 5`, "", `"VolumeType": "io1"`, "", "", "", false, apierror.MissingParameter},
		{"to io1, too small", standard, "", `"VolumeType": "io1", "Iops": 100`, "", "", "", false, apierror.InvalidVolumeSize},
		{"to io1, larger", standard, "", `"VolumeType": "io1", "Iops": 100, "Size": 4`, "4", "100", "io1", true, 0},
		{"on a stopped VM", io, VmStopped, `"Iops": 300`, "10", "300", "io1", false, 0},
		{"larger on a stopped VM", io, VmStopped, `"Size": 12`, "12", "200", "io1", true, 0},
		{"on a running VM", io, VmRunning, `"Iops": 300`, "10", "300", "io1", true, 0},
		{"type on a running VM", io, VmRunning, `"VolumeType": "gp2"`, "10", "100", "gp2", true, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newTestRegion(t)
			v := l.volume(anna, test.volume)
			if test.vm != "" {
				vm := l.vm(anna, "test-1a", test.vm)
				l.Call(anna, "LinkVolume", `{"VolumeId": %q, "VmId": %q, "DeviceName": "/dev/sdb"}`, v, vm)
				l.machine(anna, vm)
			}
			body := `{"VolumeId": "` + v + `"}`
			if test.update != "" {
				body = `{"VolumeId": "` + v + `", ` + test.update + `}`
			}
			if test.refused != 0 {
				l.refuse(test.refused, anna, "UpdateVolume", "%s", body)
				return
			}
			before := l.read(anna, "ReadVolumes", "VolumeIds", v)
			answer := l.One(anna, "UpdateVolume", "%s", body)
			_, isTask := answer["TaskId"]
			if isTask != test.task {
				t.Errorf("that the update is a task is %t, want %t", isTask, test.task)
			}
			if isTask && (answer.Text("Size") != before.Text("Size") || answer.Text("VolumeType") != before.Text("VolumeType")) {
				t.Errorf("an update that takes time answers %v", answer)
			}
			l.settle()
			after := l.read(anna, "ReadVolumes", "VolumeIds", v)
			if after.Text("Size") != test.size || after.Text("Iops") != test.iops || after.Text("VolumeType") != test.kind ||
				after["TaskId"] != nil {
				t.Errorf("the volume becomes %v, want %s GiB, %s operations, %s", after, test.size, test.iops, test.kind)
			}
			disks, err := l.drivers.ObserveDisks(t.Context())
			if err != nil || len(disks) != 1 || disks[0].Type != test.kind || float64(disks[0].Size) != after["Size"] || disks[0].Iops == 0 ||
				after["Iops"] != nil && float64(disks[0].Iops) != after["Iops"] {
				t.Errorf("the driver has %v, %v", disks, err)
			}
		})
	}
}

func TestVolumeUpdateTask(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v := l.volume(anna, `"Size": 10`)
	asked := l.Clock.Now().Format("2006-01-02T15:04:05.000Z")
	task := l.One(anna, "UpdateVolume", `{"VolumeId": %q, "Size": 20, "VolumeType": "io1", "Iops": 600}`, v).Text("TaskId")
	shown := func(more string, args ...any) {
		t.Helper()
		l.Shows(l.read(anna, "ReadVolumeUpdateTasks", "TaskIds", task),
			`{"Comment": "Update of volume %[3]s", "StartDate": %[1]q, "Tags": [], "TaskId": %[2]q, "VolumeId": %[3]q,
			"VolumeUpdate": {"Origin": {"Iops": 150, "Size": 10, "VolumeType": "standard"}, "Target": {"Iops": 600, "Size": 20,
				"VolumeType": "io1"}}, `+more+`}`,
			append([]any{asked, task, v}, args...)...)
	}
	l.rest()
	shown(`"State": "active", "Progress": 0`)
	l.refuse(apierror.InvalidVolumeState, anna, "UpdateVolume", `{"VolumeId": %q, "Size": 30}`, v)
	l.advance(delay / 4)
	shown(`"State": "active", "Progress": 25`)
	if now := l.read(anna, "ReadVolumes", "VolumeIds", v); now.Text("Size") != "10" || now.Text("TaskId") != task {
		t.Errorf("during the update the volume is %v", now)
	}
	l.advance(delay)
	shown(`"State": "completed", "Progress": 100, "CompletionDate": %q`, l.Clock.Now().Format("2006-01-02T15:04:05.000Z"))
	if now := l.read(anna, "ReadVolumes", "VolumeIds", v); now.Text("Size") != "20" || now["TaskId"] != nil {
		t.Errorf("after the update the volume is %v", now)
	}

	second := l.One(anna, "UpdateVolume", `{"VolumeId": %q, "Size": 30}`, v).Text("TaskId")
	l.Selects(l.list(anna, "ReadVolumeUpdateTasks", `{}`), "TaskId", task, second)
	l.Selects(l.list(anna, "ReadVolumeUpdateTasks", `{"VolumeIds": [%q]}`, v), "TaskId", task, second)
	l.Selects(l.list(anna, "ReadVolumeUpdateTasks", `{"VolumeIds": ["vol-00000000"]}`), "TaskId")
	l.Selects(l.list(ben, "ReadVolumeUpdateTasks", `{}`), "TaskId")

	// A volume that is deleted is not updated any more.
	l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, v)
	if state := l.read(anna, "ReadVolumeUpdateTasks", "TaskIds", second).Text("State"); state != "canceled" {
		t.Errorf("the update of a volume that is deleted is %s", state)
	}
	l.settle()
	l.hasDisks()
	l.advance(2 * time.Hour)
	l.Selects(l.list(anna, "ReadVolumeUpdateTasks", `{}`), "TaskId")
}

// A volume may grow up to what the quotas leave, and what is under way counts.
func TestUpdateVolumeQuotas(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t, map[string]int{"volume_size_limit": 100, "gp2_volume_size_limit": 50, "iops_limit": 500})
	v, io := l.volume(anna, `"Size": 40`), l.volume(anna, `"Size": 10, "VolumeType": "io1", "Iops": 300`)
	l.refuse(apierror.TooMuchVolumeSize, anna, "UpdateVolume", `{"VolumeId": %q, "Size": 91}`, v)
	l.refuse(apierror.TooManyIops, anna, "UpdateVolume", `{"VolumeId": %q, "Iops": 501}`, io)
	l.refuse(apierror.TooManyIops, anna, "UpdateVolume", `{"VolumeId": %q, "VolumeType": "io1", "Iops": 201}`, v)
	l.One(anna, "UpdateVolume", `{"VolumeId": %q, "Size": 60}`, v)
	l.refuse(apierror.TooMuchVolumeSize, anna, "CreateVolume", `{"SubregionName": "test-1a", "Size": 31}`)
	l.settle()
	l.refuse(apierror.TooMuchVolumeSize, anna, "UpdateVolume", `{"VolumeId": %q, "VolumeType": "gp2"}`, v)
	l.One(anna, "UpdateVolume", `{"VolumeId": %q, "Iops": 500}`, io)
	l.One(anna, "UpdateVolume", `{"VolumeId": %q, "VolumeType": "gp2", "Size": 40}`, io)
}

// A step may be made any number of times, also from its middle, and a driver that
// fails is asked again.
func TestVolumeLoopOutlastsFailures(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	l.drivers.Fail(func(string) error { return errors.New("the cable is cut") })
	v := l.One(anna, "CreateVolume", `{"SubregionName": "test-1a", "Size": 1}`).Text("VolumeId")
	l.advance(time.Minute)
	if state := l.read(anna, "ReadVolumes", "VolumeIds", v).Text("State"); state != "creating" {
		t.Errorf("a volume that the driver cannot make is %s", state)
	}
	l.drivers.Fail(nil)
	l.settle()
	if state := l.read(anna, "ReadVolumes", "VolumeIds", v).Text("State"); state != "available" {
		t.Errorf("a volume that the driver can make again is %s", state)
	}
	before := l.Revision(anna)
	l.drivers.Fail(func(op string) error { return errors.New(op + " was called for nothing") })
	if again, err := NewVolumeLoop(l.DB, l.drivers).Reconcile(t.Context(), anna, v); err != nil || !again.IsZero() {
		t.Errorf("a step with nothing to do: %v, %v", again, err)
	}
	if l.Revision(anna) != before {
		t.Error("a step with nothing to do has changed the account")
	}
}

// What changes while the driver is asked is not taken for done.
func TestVolumeChangesDuringAStep(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v := l.volume(anna, `"Size": 1`)
	stale := driver.Disk{Account: anna, ID: v, Generation: 2, Size: 1, Type: "gp2", Iops: 100}
	l.One(anna, "UpdateVolume", `{"VolumeId": %q, "VolumeType": "gp2"}`, v)
	l.One(anna, "UpdateVolume", `{"VolumeId": %q, "Size": 5}`, v)
	l.Update(anna, func(tx *resource.Tx) error {
		now, err := Volumes.Get(tx, id.Volume(v))
		if err != nil {
			return err
		}
		return now.diskDone(tx, diskChange{Disk: stale})
	})
	if now := l.read(anna, "ReadVolumes", "VolumeIds", v); now.Text("Size") != "1" || now["TaskId"] == nil {
		t.Errorf("an update is taken for done when an older one is: %v", now)
	}
	l.settle()
	if now := l.read(anna, "ReadVolumes", "VolumeIds", v); now.Text("Size") != "5" || now["TaskId"] != nil {
		t.Errorf("after both updates the volume is %v", now)
	}
}

// What the driver can never do is not waited for.
func TestVolumeThatCannotBe(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	good := l.volume(anna, `"Size": 1`)
	l.drivers.Fail(func(op string) error {
		if op == "EnsureDisk" {
			return driver.Never{Why: "What it is made from is gone."}
		}
		return nil
	})
	v := l.volume(anna, `"Size": 1`)
	if state := l.read(anna, "ReadVolumes", "VolumeIds", v).Text("State"); state != "error" {
		t.Errorf("a volume that cannot be made is %s", state)
	}
	l.refuse(apierror.InvalidVolumeState, anna, "CreateSnapshot", `{"VolumeId": %q}`, v)
	l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, v)

	task := l.One(anna, "UpdateVolume", `{"VolumeId": %q, "Size": 2}`, good).Text("TaskId")
	l.rest()
	got := l.read(anna, "ReadVolumeUpdateTasks", "TaskIds", task)
	if got.Text("State") != "failed" || got.Text("Comment") != "What it is made from is gone." || got.Text("Progress") != "0" {
		t.Errorf("an update that cannot be done is %v", got)
	}
	l.drivers.Fail(nil)
	l.settle()
	if now := l.read(anna, "ReadVolumes", "VolumeIds",
		good); now.Text("Size") != "1" || now.Text("State") != "available" || now["TaskId"] != nil {
		t.Errorf("a volume whose update failed is %v", now)
	}
	l.hasDisks(driver.Disk{Account: anna, ID: good, Generation: 3, Subregion: "test-1a", Size: 1, Type: "standard", Iops: 150})
}
