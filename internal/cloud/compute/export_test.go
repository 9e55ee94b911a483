package compute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// written are the objects that the object store has, with their sizes.
func (l *testRegion) written() (files []string) {
	l.Helper()
	err := filepath.WalkDir(l.objects, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".owner" {
			return err
		}
		info, err := d.Info()
		name, _ := filepath.Rel(l.objects, path)
		if strings.HasSuffix(name, ".json") {
			files = append(files, name)
		} else {
			files = append(files, fmt.Sprint(name, " ", info.Size()))
		}
		return err
	})
	if err != nil {
		l.Fatal(err)
	}
	return files
}

// noSecrets checks that nothing is kept of what exports needed.
func (l *testRegion) noSecrets(account string) {
	l.Helper()
	l.View(account, func(tx *resource.Tx) error {
		if n := exportFiles.Count(tx); n != 0 {
			l.Errorf("%d files are still being written", n)
		}
		for task := range ImageExportTasks.All(tx) {
			if task.Target.AccessKey+string(task.Target.SecretKey) != "" {
				l.Errorf("%s has its credentials still", task.TaskId)
			}
		}
		for task := range SnapshotExportTasks.All(tx) {
			if task.Target.AccessKey+string(task.Target.SecretKey) != "" {
				l.Errorf("%s has its credentials still", task.TaskId)
			}
		}
		return nil
	})
	if exports, err := l.drivers.ObserveExports(l.Context()); err != nil || len(exports) != 0 {
		l.Errorf("the driver knows the exports %v still, %v", exports, err)
	}
}

// task reads a task of either kind.
func (l *testRegion) task(account, task string) reply {
	l.Helper()
	action := "ReadImageExportTasks"
	if strings.HasPrefix(task, "snap") {
		action = "ReadSnapshotExportTasks"
	}
	return l.read(account, action, "TaskIds", task)
}

func TestExportSnapshot(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	s := l.snapshot(anna, l.volume(anna, `"Size": 1`))
	task := l.One(anna, "CreateSnapshotExportTask",
		`{"SnapshotId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups", "OsuPrefix": "daily/web-"}}`, s)
	taskID := task.Text("TaskId")
	l.Shows(task, `{
		"Comment": "Export of snapshot %s", "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups", "OsuPrefix": "daily/web-"},
		"Progress": 0, "SnapshotId": %[1]q, "State": "pending", "Tags": [], "TaskId": %q}`, s, taskID)

	// While it is under way the snapshot stays.
	var ways []string
	for next := l.rest(); !next.IsZero(); next = l.rest() {
		now := l.task(anna, taskID)
		if way := now.Text("State") + " " + now.Text("Progress"); now.Text("State") != "completed" && !slices.Contains(ways, way) {
			ways = append(ways, way)
			l.refuse(apierror.InUse, anna, "DeleteSnapshot", `{"SnapshotId": %q}`, s)
		}
		l.Clock.AdvanceTo(next)
	}
	if got := strings.Join(ways, ", "); got != "pending 0, pending 25, pending 50, pending 75" {
		t.Errorf("on the way it was %s", got)
	}
	if now := l.task(anna, taskID); now.Text("State") != "completed" || now.Text("Progress") != "100" {
		t.Errorf("in the end it is %v", now)
	}
	if got, want := fmt.Sprint(l.written()), "[backups/daily/web-"+taskID+".raw 1073741824]"; got != want {
		t.Errorf("written are %s, want %s", got, want)
	}
	l.noSecrets(anna)
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, s)
	l.Selects(l.list(anna, "ReadSnapshotExportTasks", `{"SnapshotIds": [%q]}`, s), "TaskId", taskID)
	l.Selects(l.list(anna, "ReadSnapshotExportTasks", `{"TaskIds": ["snap-export-00000000"]}`), "TaskId")
	l.Selects(l.list(ben, "ReadSnapshotExportTasks", `{}`), "TaskId")
	l.refuse(apierror.InvalidState, anna, "DeleteExportTask", `{"ExportTaskId": %q}`, taskID)
}

func TestExportImage(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	vm, _ := l.vmWithRoot(anna, VmStopped, 2)
	data := l.volume(anna, `"Size": 4, "VolumeType": "io1", "Iops": 200`)
	l.Call(anna, "LinkVolume", `{"VmId": %q, "VolumeId": %q, "DeviceName": "/dev/xvdb"}`, vm, data)
	l.machine(anna, vm)
	image := l.One(anna, "CreateImage", `{"VmId": %q, "ImageName": "golden", "Description": "with data"}`, vm).Text("ImageId")
	l.refuse(apierror.InvalidImageState, anna, "CreateImageExportTask",
		`{"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups"}}`, image)
	l.settle()

	// What is written is told apart by the credentials.
	var mu sync.Mutex // guards asked
	var asked []string
	write := l.drivers.Write
	l.drivers.Write = func(ctx context.Context, e driver.Export, size int64, content io.Reader, far func(int)) error {
		mu.Lock()
		asked = append(asked, fmt.Sprint(e.Object, " ", size>>30, " ", e.AccessKey, "/", e.SecretKey))
		mu.Unlock()
		e.Format = "raw" // which needs no other program
		return write(ctx, e, 1, content, far)
	}
	task := l.One(anna, "CreateImageExportTask",
		`{"ImageId": %q, "OsuExport": {"DiskImageFormat": "qcow2", "OsuBucket": "backups", "OsuPrefix": "images/",
		"OsuApiKey": {"ApiKeyId": "ACCESS", "SecretKey": "hunter2"}}}`, image)
	taskID := task.Text("TaskId")
	l.Shows(task, `{
		"Comment": "Export of image %s", "OsuExport": {"DiskImageFormat": "qcow2", "OsuBucket": "backups", "OsuPrefix": "images/"},
		"Progress": 0, "ImageId": %[1]q, "State": "pending/queued", "Tags": [], "TaskId": %q}`, image, taskID)
	l.Call(anna, "DeleteImage", `{"ImageId": %q}`, image) // its description was taken
	var progress []string
	for next := l.rest(); !next.IsZero(); next = l.rest() {
		now := l.task(anna, taskID)
		progress = append(progress, now.Text("State")+" "+now.Text("Progress"))
		l.Clock.AdvanceTo(next)
	}
	if got, want := slices.Compact(progress)[:4], []string{"pending 0", "pending 25", "pending 50", "pending 75"}; !slices.Equal(got, want) {
		t.Errorf("it goes on as %q, want %q", got, want)
	}
	now := l.task(anna, taskID)
	url, _ := now["OsuExport"].(map[string]any)["OsuManifestUrl"].(string)
	if now.Text("State") != "completed" || now.Text("Progress") != "100" || !strings.Contains(url, "/backups/images/"+taskID+".json?") {
		t.Fatalf("in the end it is %v", now)
	}
	want := []string{
		"images/" + taskID + "-xvdb.qcow2 4 ACCESS/hunter2",
		"images/" + taskID + ".qcow2 2 ACCESS/hunter2",
	}
	if slices.Sort(asked); !slices.Equal(asked, want) {
		t.Errorf("the driver was asked for %q, want %q", asked, want)
	}
	l.noSecrets(anna)

	var m manifest
	text, err := os.ReadFile(filepath.Join(l.objects, "backups", "images", taskID+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	root := m.Image.Snapshots[0]
	if root.Device != "/dev/sda1" || root.Filename != "images/"+taskID+".qcow2" || root.Size != 2<<30 || *m.Image.Snapshots[1].Iops != 200 ||
		strings.Contains(string(text), "hunter2") {
		t.Errorf("the manifest is %s", text)
	}

	// Anybody who has the URL makes an image of it, and the account also by its
	// place, for seven days.
	byURL := l.One(ben, "CreateImage", `{"FileLocation": %q}`, url)
	if byURL.Text("Description") != "with data" || byURL.Text("ImageName") != "golden" || byURL.Text("ProductCodes") != "[0002]" {
		t.Errorf("an image of it is %v", byURL)
	}
	for n, place := range []string{"backups/images/" + taskID + ".json", "backups/images/" + taskID + ".qcow2"} {
		l.refuse(apierror.ManifestNotFound, ben, "CreateImage", `{"FileLocation": %q}`, place)
		l.Call(anna, "CreateImage", `{"FileLocation": %q, "ImageName": "again %d"}`, place, n)
	}
	l.refuse(apierror.ManifestNotFound, anna, "CreateImage", `{"FileLocation": "backups/images/%s-xvdb.qcow2"}`, taskID)
	l.refuse(apierror.ManifestNotFound, ben, "CreateImage", `{"FileLocation": %q}`, strings.Replace(url, "Signature=", "Signature=0", 1))
	l.settle()
	if got := l.readImage(ben, byURL.Text("ImageId")).Text("State"); got != "available" {
		t.Errorf("an image of it is %s", got)
	}
	l.advance(7 * 24 * time.Hour)
	l.refuse(apierror.ManifestNotFound, ben, "CreateImage", `{"FileLocation": %q, "ImageName": "late"}`, url)
	l.refuse(apierror.ManifestNotFound, anna, "CreateImage", `{"FileLocation": "backups/images/%s.json", "ImageName": "late"}`, taskID)
}

// A URL of the manifest that was given is the one that is shown.
func TestManifestUrl(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	image, _ := l.image(anna)
	const url = "https://example.com/manifest.json"
	task := l.One(anna, "CreateImageExportTask",
		`{"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups", "OsuManifestUrl": %q}}`, image, url)
	l.settle()
	now := l.task(anna, task.Text("TaskId"))
	if got := now["OsuExport"].(map[string]any)["OsuManifestUrl"]; got != url || now.Text("State") != "completed" {
		t.Errorf("it is %v", now)
	}
}

func TestExportFails(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	image, snapshot := l.image(anna)
	l.drivers.Write = func(context.Context, driver.Export, int64, io.Reader, func(int)) error {
		return errors.New("The region cannot make the format vdi: the program qemu-img is not installed.")
	}
	for _, task := range []reply{
		l.One(anna, "CreateImageExportTask", `{"ImageId": %q, "OsuExport": {"DiskImageFormat": "vdi", "OsuBucket": "backups",
			"OsuApiKey": {"ApiKeyId": "A", "SecretKey": "B"}}}`, image),
		l.One(anna, "CreateSnapshotExportTask", `{"SnapshotId": %q, "OsuExport": {"DiskImageFormat": "vdi", "OsuBucket": "backups",
			"OsuApiKey": {"ApiKeyId": "A", "SecretKey": "B"}}}`, snapshot),
	} {
		l.settle()
		if now := l.task(anna, task.Text("TaskId")); now.Text("State") != "failed" || !strings.Contains(now.Text("Comment"),
			"qemu-img is not installed") {
			t.Errorf("it is %v", now)
		}
		l.refuse(apierror.InvalidState, anna, "DeleteExportTask", `{"ExportTaskId": %q}`, task["TaskId"])
	}
	l.noSecrets(anna)
	l.Call(anna, "DeleteImage", `{"ImageId": %q}`, image)
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, snapshot)
}

// One file that cannot be written ends the whole.
func TestExportOfManyFails(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	s := l.snapshot(anna, l.volume(anna, `"Size": 1`))
	image := l.One(anna, "CreateImage", `{"RootDeviceName": "/dev/sda1", "BlockDeviceMappings": [
		{"DeviceName": "/dev/sda1", "Bsu": {"SnapshotId": %q}}, {"DeviceName": "/dev/sdb", "Bsu": {"SnapshotId": %[1]q}}]}`, s).Text("ImageId")
	task := l.One(anna, "CreateImageExportTask", `{"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups"}}`,
		image).Text("TaskId")
	l.drivers.Break(task+"-sdb", "The disk is on fire.")
	l.settle()
	if now := l.task(anna, task); now.Text("State") != "failed" || now.Text("Comment") != "The disk is on fire." {
		t.Errorf("it is %v", now)
	}
	for _, file := range l.written() {
		if strings.HasSuffix(file, ".json") {
			t.Errorf("there is the manifest %s of an export that failed", file)
		}
	}
	l.noSecrets(anna)
}

func TestCancelExport(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	image, snapshot := l.image(anna)
	ofImage := func() string {
		return l.One(anna, "CreateImageExportTask", `{"ImageId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups",
			"OsuApiKey": {"ApiKeyId": "A", "SecretKey": "B"}}}`, image).Text("TaskId")
	}
	ofSnapshot := func() string {
		return l.One(anna, "CreateSnapshotExportTask", `{"SnapshotId": %q, "OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups"}}`,
			snapshot).Text("TaskId")
	}
	for _, make := range []func() string{ofImage, ofSnapshot} {
		for name, wait := range map[string]time.Duration{"at once": -1, "under way": 3 * time.Second} {
			task := make()
			if wait >= 0 {
				l.advance(wait)
			}
			l.refuse(apierror.TaskNotFound, ben, "DeleteExportTask", `{"ExportTaskId": %q}`, task)
			l.Call(anna, "DeleteExportTask", `{"ExportTaskId": %q}`, task)
			l.settle()
			if now := l.task(anna, task); now.Text("State") != "cancelled" {
				t.Errorf("%s: it is %v", name, now)
			}
			l.refuse(apierror.InvalidState, anna, "DeleteExportTask", `{"ExportTaskId": %q}`, task)
			l.noSecrets(anna)
		}
	}
	if files := l.written(); len(files) != 0 {
		t.Errorf("written are %s", files)
	}
	l.refuse(apierror.TaskNotFound, anna, "DeleteExportTask", `{"ExportTaskId": "image-export-00000000"}`)
	l.refuse(apierror.TaskNotFound, anna, "DeleteExportTask", `{"ExportTaskId": "snap-export-00000000"}`)
	l.refuse(apierror.InvalidID, anna, "DeleteExportTask", `{"ExportTaskId": "snap-00000000"}`)
}

func TestExportRefused(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	s := l.snapshot(anna, l.volume(anna, `"Size": 1`))
	young := l.One(anna, "CreateSnapshot", `{"SourceSnapshotId": %q, "SourceRegionName": "test-1"}`, s).Text("SnapshotId")
	shared := l.snapshot(ben, l.volume(ben, `"Size": 1`))
	private := l.snapshot(ben, l.volume(ben, `"Size": 1`))
	l.Call(ben, "UpdateSnapshot", `{"SnapshotId": %q, "PermissionsToCreateVolume": {"Additions": {"GlobalPermission": true}}}`, shared)
	const fine = `"DiskImageFormat": "raw", "OsuBucket": "backups"`
	for _, test := range []struct {
		name, snapshot, export string
		want                   apierror.Code
	}{
		{"another account's", private, fine, apierror.SnapshotNotFound},
		{"a shared one", shared, fine, apierror.NotAuthorized},
		{"no format", s, `"OsuBucket": "backups"`, apierror.MissingParameter},
		{"no bucket", s, `"DiskImageFormat": "raw"`, apierror.MissingParameter},
		{"another format", s, `"DiskImageFormat": "iso", "OsuBucket": "backups"`, apierror.InvalidValue},
		{"a short bucket", s, `"DiskImageFormat": "raw", "OsuBucket": "ab"`, apierror.InvalidValue},
		{"a bucket with a slash", s, `"DiskImageFormat": "raw", "OsuBucket": "a/b"`, apierror.InvalidValue},
		{"a hidden bucket", s, `"DiskImageFormat": "raw", "OsuBucket": "..."`, apierror.InvalidValue},
		{"a prefix that goes up", s, fine + `, "OsuPrefix": "a/../../b"`, apierror.InvalidValue},
		{"a prefix from the root", s, fine + `, "OsuPrefix": "/a"`, apierror.InvalidValue},
		{"a prefix with nothing in it", s, fine + `, "OsuPrefix": "a//b"`, apierror.InvalidValue},
		{"a prefix with a new line", s, fine + `, "OsuPrefix": "a\nb"`, apierror.InvalidValue},
		{"a long prefix", s, fine + `, "OsuPrefix": "` + strings.Repeat("a", 901) + `"`, apierror.InvalidLength},
		{"half a key", s, fine + `, "OsuApiKey": {"ApiKeyId": "A"}`, apierror.MissingParameter},
		{"the other half of a key", s, fine + `, "OsuApiKey": {"SecretKey": "B"}`, apierror.MissingParameter},
	} {
		t.Run(test.name, func(t *testing.T) {
			l.refuse(test.want, anna, "CreateSnapshotExportTask", `{"SnapshotId": %q, "OsuExport": {%s}}`, test.snapshot, test.export)
		})
	}
	l.settle()
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, young)
	for _, refusal := range []error{apierror.BucketNotFound.Errorf("No."), apierror.StoreUnreachable.Errorf("No.")} {
		l.bucket = refusal
		l.refuse(apierror.From(refusal).Code, anna, "CreateSnapshotExportTask", `{"SnapshotId": %q, "OsuExport": {%s}}`, s, fine)
		image, _ := l.image(anna)
		l.refuse(apierror.From(refusal).Code, anna, "CreateImageExportTask", `{"ImageId": %q, "OsuExport": {%s}}`, image, fine)
	}
}

// The quotas count what is running.
func TestExportQuotas(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t, map[string]int{imageExports.quota: 2, snapshotExports.quota: 1})
	image, snapshot := l.image(anna)
	const export = `"OsuExport": {"DiskImageFormat": "raw", "OsuBucket": "backups"}`
	used := func() (image, snapshot int) {
		l.View(anna, func(tx *resource.Tx) error {
			image, snapshot = 0, 0
			for _, m := range Meters() {
				for _, use := range m.Read(tx) {
					switch m.Quota {
					case imageExports.quota:
						image = use
					case snapshotExports.quota:
						snapshot = use
					}
				}
			}
			return nil
		})
		return image, snapshot
	}
	one := l.One(anna, "CreateImageExportTask", `{"ImageId": %q, %s}`, image, export)
	l.Call(anna, "CreateImageExportTask", `{"ImageId": %q, %s}`, image, export)
	l.refuse(apierror.TooManyActiveSnapshots, anna, "CreateImageExportTask", `{"ImageId": %q, %s}`, image, export)
	l.Call(anna, "CreateSnapshotExportTask", `{"SnapshotId": %q, %s}`, snapshot, export)
	l.refuse(apierror.TooManyActiveSnapshots, anna, "CreateSnapshotExportTask", `{"SnapshotId": %q, %s}`, snapshot, export)
	if i, s := used(); i != 2 || s != 1 {
		t.Errorf("%d and %d exports are running", i, s)
	}
	l.Call(anna, "DeleteExportTask", `{"ExportTaskId": %q}`, one["TaskId"])
	l.Call(anna, "CreateImageExportTask", `{"ImageId": %q, %s}`, image, export)
	l.settle()
	if i, s := used(); i != 0 || s != 0 {
		t.Errorf("%d and %d exports are running in the end", i, s)
	}
	l.Call(anna, "CreateSnapshotExportTask", `{"SnapshotId": %q, %s}`, snapshot, export)
}

// A region without an object store says so.
func TestNoObjects(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	region := Region{Name: "test-1"}
	l.View(anna, func(tx *resource.Tx) error {
		if _, err := region.checkBucket(tx, &OsuExportToCreate{}); !apierror.StoreUnreachable.Is(err) {
			t.Errorf("an export: %v", err)
		}
		if _, err := region.readManifest(tx, &CreateImageRequest{FileLocation: "https://example.com/"}); !apierror.StoreUnreachable.Is(err) {
			t.Errorf("an import: %v", err)
		}
		return nil
	})
	if _, err := (&imageManifest{}).write(t.Context(), nil); !apierror.StoreUnreachable.Is(err) {
		t.Errorf("a manifest: %v", err)
	}
}
