package compute

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestSnapshotOfAVolume(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v := l.volume(anna, `"Size": 7`)
	made := l.Clock.Now().Format("2006-01-02T15:04:05.000Z")
	s := l.One(anna, "CreateSnapshot", `{"VolumeId": %q, "Description": "before the change"}`, v)
	shown := func(got reply, state string, progress int) {
		t.Helper()
		l.Shows(got, `{"AccountId": %q, "CreationDate": %q, "Description": "before the change",
			"PermissionsToCreateVolume": {"AccountIds": [], "GlobalPermission": false}, "Progress": %d, "SnapshotId": %q, "State": %q,
			"Tags": [], "VolumeId": %q, "VolumeSize": 7}`, anna, made, progress, s["SnapshotId"], state, v)
	}
	read := func() reply { return l.read(anna, "ReadSnapshots", "SnapshotIds", s.Text("SnapshotId")) }
	shown(s, "in-queue", 0)
	shown(read(), "in-queue", 0)
	l.advance(delay / 2)
	shown(read(), "pending", 50)
	l.advance(delay / 4)
	shown(read(), "pending", 75)
	l.advance(delay / 4)
	shown(read(), "completed", 100)

	l.refuse(apierror.SnapshotNotFound, ben, "DeleteSnapshot", `{"SnapshotId": %q}`, s["SnapshotId"])
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, s["SnapshotId"])
	l.refuse(apierror.SnapshotNotFound, anna, "DeleteSnapshot", `{"SnapshotId": %q}`, s["SnapshotId"])
	l.settle()
	l.hasSnapshots()
}

// hasSnapshots checks which snapshots the driver has, as values of parts.
func (l *testRegion) hasSnapshots(want ...[]string) {
	l.Helper()
	seen, err := l.drivers.ObserveSnapshots(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	var got [][]string
	for _, s := range seen {
		var parts []string
		for _, p := range s.Parts {
			parts = append(parts, p.ID)
		}
		got = append(got, parts)
	}
	slices.SortFunc(got, slices.Compare)
	slices.SortFunc(want, slices.Compare)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.Errorf("the driver has the snapshots %q, want %q", got, want)
	}
}

// source is where the driver takes the content of a snapshot from.
func (l *testRegion) source(snapshot string) driver.SnapshotPart {
	l.Helper()
	s, ok, err := l.drivers.Snapshot(l.Context(), anna, snapshot)
	if err != nil || !ok || len(s.Parts) != 1 {
		l.Fatalf("the snapshot %s is %v, %v in the driver", snapshot, s, err)
	}
	return s.Parts[0]
}

func TestCopyAndImport(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v := l.volume(anna, `"Size": 7`)
	s := l.snapshot(anna, v)
	copied := l.One(anna, "CreateSnapshot", `{"SourceSnapshotId": %q, "SourceRegionName": "test-1"}`, s)
	if copied["VolumeId"] != nil || copied.Text("VolumeSize") != "7" || copied.Text("Description") != "" || copied.Text("SnapshotId") == s {
		t.Errorf("a copy is %v", copied)
	}
	l.refuse(apierror.InUse, anna, "DeleteSnapshot", `{"SnapshotId": %q}`, s) // it is being copied
	l.refuse(apierror.InvalidState, anna, "CreateSnapshot", `{"SourceSnapshotId": %q, "SourceRegionName": "test-1"}`, copied["SnapshotId"])
	l.settle()
	if got := l.source(copied.Text("SnapshotId")); got.Copy == nil || *got.Copy != (driver.SnapshotName{Account: anna,
		ID: s}) || got.Size != 7 {
		t.Errorf("the driver copies %v", got)
	}
	l.settle()
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, s)

	const url = "https://example.com/bucket/snap.qcow2?signature=x"
	imported := l.One(anna, "CreateSnapshot", `{"FileLocation": %q, "SnapshotSize": %d}`, url, 10<<30+1)
	if imported["VolumeId"] != nil || imported.Text("VolumeSize") != "11" || imported["FileLocation"] != nil {
		t.Errorf("an import is %v", imported)
	}
	l.settle()
	if got := l.source(imported.Text("SnapshotId")); got.URL != url || got.Size != 11 {
		t.Errorf("the driver imports %v", got)
	}
	// the region's own store has it
	l.Call(anna, "CreateSnapshot", `{"FileLocation": "object:///backups/snap.raw?Expires=%d&Signature=x", "SnapshotSize": 1}`,
		l.Clock.Now().Unix())
	l.settle()
	l.View(anna, func(tx *resource.Tx) error {
		for set := range snapshotSets.All(tx) {
			for _, part := range set.Parts {
				if part.FileLocation != "" {
					t.Error("the right to read a file is kept after it was read")
				}
			}
		}
		return nil
	})
}

func TestCreateSnapshotRefusals(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v := l.volume(anna, `"Size": 1`)
	s := l.snapshot(anna, v)
	const url = `"FileLocation": "https://example.com/snap.qcow2"`
	tests := []struct {
		name, body string
		want       apierror.Code
	}{
		{"nothing", ``, apierror.MissingParameter},
		{"a volume and a snapshot", `"VolumeId": "` + v + `", "SourceSnapshotId": "` + s + `", "SourceRegionName": "test-1"`,
			apierror.InvalidParameterSet},
		{"a volume and a file", `"VolumeId": "` + v + `", "SnapshotSize": 1, ` + url, apierror.InvalidParameterSet},
		{"a volume and a region", `"VolumeId": "` + v + `", "SourceRegionName": "test-1"`, apierror.InvalidParameterSet},
		{"a volume and a size", `"VolumeId": "` + v + `", "SnapshotSize": 1`, apierror.InvalidParameterSet},
		{"a copy without a region", `"SourceSnapshotId": "` + s + `"`, apierror.MissingParameter},
		{"a region without a copy", `"SourceRegionName": "test-1"`, apierror.MissingParameter},
		{"a copy from another region", `"SourceSnapshotId": "` + s + `", "SourceRegionName": "test-2"`, apierror.InvalidValue},
		{"a copy of nothing", `"SourceSnapshotId": "snap-00000000", "SourceRegionName": "test-1"`, apierror.SnapshotNotFound},
		{"a file without a size", url, apierror.MissingParameter},
		{"a size without a file", `"SnapshotSize": 1`, apierror.MissingParameter},
		{"a file of less than nothing", `"SnapshotSize": -1, ` + url, apierror.InvalidSnapshotSize},
		{"a file that is too large", fmt.Sprintf(`"SnapshotSize": %d, `, 14901<<30+1) + url, apierror.InvalidSnapshotSize},
		{"a file that was there", `"SnapshotSize": 1, "FileLocation": "https://example.com/snap.qcow2?Expires=1795168799&Signature=x"`,
			apierror.InvalidURL},
		{"a file without a name", `"SnapshotSize": 1, "FileLocation": "https://example.com/"`, apierror.InvalidURL},
		{"a file that is nowhere", `"SnapshotSize": 1, "FileLocation": "bucket/snap.qcow2"`, apierror.InvalidURL},
		{"a file of this machine", `"SnapshotSize": 1, "FileLocation": "file:///etc/passwd"`, apierror.InvalidURL},
		{"no volume", `"VolumeId": "vol-00000000"`, apierror.VolumeNotFound},
		{"what is no volume", `"VolumeId": "` + s + `"`, apierror.InvalidID},
	}
	for _, test := range tests {
		t.Run(test.name, func(*testing.T) { l.refuse(test.want, anna, "CreateSnapshot", "{%s}", test.body) })
	}
	l.refuse(apierror.VolumeNotFound, ben, "CreateSnapshot", `{"VolumeId": %q}`, v)
}

func TestClientTokenOfSnapshots(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v := l.volume(anna, `"Size": 1`)
	first := l.One(anna, "CreateSnapshot", `{"VolumeId": %q, "ClientToken": "once"}`, v).Text("SnapshotId")
	if again := l.One(anna, "CreateSnapshot", `{"VolumeId": %q, "ClientToken": "once"}`, v).Text("SnapshotId"); again != first {
		t.Errorf("the same request made %s, then %s", first, again)
	}
	l.refuse(apierror.TokenMismatch, anna, "CreateSnapshot", `{"VolumeId": %q, "ClientToken": "once", "Description": "another"}`, v)
	l.settle()
	l.hasSnapshots([]string{first})
}

// A volume may be deleted while a snapshot of it is being taken: it stays until
// the snapshot has what it needs.
func TestVolumeOutlivesItsSnapshots(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	for name, end := range map[string]func(first, second string){
		"taken": func(string, string) { l.settle() },
		"given up": func(first, second string) {
			l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, first)
			if n := len(l.list(anna, "ReadVolumes", `{}`)); n != 1 {
				t.Errorf("a volume that a second snapshot is taken of is listed %d times", n)
			}
			l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, second)
		},
		"failed": func(first, second string) {
			l.drivers.Break(first, "the disk is broken")
			l.drivers.Break(second, "the disk is broken")
			l.settle()
			if state := l.read(anna, "ReadSnapshots", "SnapshotIds", first).Text("State"); state != "error" {
				t.Errorf("a snapshot that fails is %s", state)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := l.volume(anna, `"Size": 1`)
			first := l.One(anna, "CreateSnapshot", `{"VolumeId": %q}`, v).Text("SnapshotId")
			second := l.One(anna, "CreateSnapshot", `{"VolumeId": %q}`, v).Text("SnapshotId")
			l.Call(anna, "DeleteVolume", `{"VolumeId": %q}`, v)
			if state := l.read(anna, "ReadVolumes", "VolumeIds", v).Text("State"); state != "deleting" {
				t.Errorf("a volume that snapshots are taken of is %s when it is deleted", state)
			}
			l.refuse(apierror.InvalidState, anna, "DeleteVolume", `{"VolumeId": %q}`, v)
			l.refuse(apierror.InvalidVolumeState, anna, "CreateSnapshot", `{"VolumeId": %q}`, v)
			end(first, second)
			l.settle()
			l.Selects(l.list(anna, "ReadVolumes", `{}`), "VolumeId")
			l.hasDisks()
		})
	}
}

// Snapshots of one instant are one value for the driver, and each is deleted on
// its own.
func TestSnapshotsOfOneInstant(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	volumes := []string{l.volume(anna, `"Size": 1`), l.volume(anna, `"Size": 2`), l.volume(anna, `"Size": 3`)}
	var ids []string
	l.Update(anna, func(tx *resource.Tx) error {
		var all []newSnapshot
		for _, v := range volumes {
			s, err := snapshotOf(tx, id.Volume(v))
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		if err := takeSnapshots(tx, "", all...); err != nil {
			return err
		}
		ids = nil
		for _, s := range all {
			ids = append(ids, string(s.SnapshotId))
		}
		return nil
	})
	l.settle()
	l.hasSnapshots(ids)
	l.Selects(l.list(anna, "ReadSnapshots", `{"States": ["completed"]}`), "SnapshotId", ids...)
	for len(ids) > 0 { // the first one, after which the set is called, goes first
		l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, ids[0])
		l.settle()
		if ids = ids[1:]; len(ids) > 0 {
			l.hasSnapshots(ids)
		}
		l.Selects(l.list(anna, "ReadSnapshots", `{}`), "SnapshotId", ids...)
	}
	l.hasSnapshots()
}

// A change of permissions names all accounts of the region that it writes to.
func TestReachedBySharing(t *testing.T) {
	t.Parallel()
	some := &PermissionsOnResource{AccountIds: []id.Account{"000000000001", "000000000002"}, GlobalPermission: true}
	want := []string{"shared-Snapshot-000000000001", "shared-Snapshot-000000000002", "shared-Snapshot-everybody"}
	for _, change := range []PermissionsOnResourceCreation{{Additions: some}, {Removals: some}} {
		if got := sharedSnapshots.reached(change); !slices.Equal(got, want) {
			t.Errorf("%+v reaches %q, want %q", change, got, want)
		}
	}
}

func TestSharedSnapshots(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	private, public := l.snapshot(anna, l.volume(anna, `"Size": 5`)), l.snapshot(anna, l.volume(anna, `"Size": 6`))
	own := l.snapshot(ben, l.volume(ben, `"Size": 1`))
	l.Update(anna, func(tx *resource.Tx) error {
		tagged, _ := tx.Tagged(private)
		tx.SetTags(tagged, []api.Tag{{Key: "secret", Value: "plan"}})
		return nil
	})
	update := func(snapshot, change string) string {
		t.Helper()
		return l.One(anna, "UpdateSnapshot", `{"SnapshotId": %q, "PermissionsToCreateVolume": %s}`, snapshot,
			change).Text("PermissionsToCreateVolume")
	}
	sees := func(filters string, want ...string) {
		t.Helper()
		l.Selects(l.list(ben, "ReadSnapshots", "%s", filters), "SnapshotId", want...)
	}
	const stranger = "999999999999"
	if got, want := update(private, `{"Additions": {"AccountIds": ["`+ben+`", "`+stranger+`", "`+ben+`"]}}`),
		"map[AccountIds:["+ben+" "+stranger+"] GlobalPermission:false]"; got != want {
		t.Errorf("after the additions the permissions are %s, want %s", got, want)
	}
	if got, want := update(public, `{"Additions": {"GlobalPermission": true}}`), "map[AccountIds:[] GlobalPermission:true]"; got != want {
		t.Errorf("after the addition the permissions are %s, want %s", got, want)
	}
	sees(`{}`, own, private, public)
	sees(`{"AccountIds": ["`+anna+`"]}`, private, public)
	sees(`{"SnapshotIds": ["`+public+`"]}`, public)
	sees(`{"SnapshotIds": ["`+public+`", "`+own+`", "`+private+`"]}`, own, private, public)
	sees(`{"PermissionsToCreateVolumeGlobalPermission": true}`, public)
	sees(`{"PermissionsToCreateVolumeAccountIds": ["`+ben+`"]}`, private)
	sees(`{"VolumeSizes": [6, 1]}`, own, public)
	sees(`{"TagKeys": ["secret"]}`) // tags are the owner's
	got := l.read(ben, "ReadSnapshots", "SnapshotIds", private)
	if got.Text("AccountId") != anna || got.Text("Tags") != "[]" || got.Text("VolumeSize") != "5" {
		t.Errorf("a snapshot of another account is %v", got)
	}
	l.Selects(l.list(anna, "ReadSnapshots", `{}`), "SnapshotId", private, public)

	// What is shared with both lists is listed once.
	update(public, `{"Additions": {"AccountIds": ["`+ben+`"]}}`)
	sees(`{}`, own, private, public)
	page := l.Call(ben, "ReadSnapshots", `{"ResultsPerPage": 2}`)
	rest := l.Call(ben, "ReadSnapshots", `{"ResultsPerPage": 2, "NextPageToken": %q}`, page["NextPageToken"])["Snapshots"].([]any)
	if len(page["Snapshots"].([]any)) != 2 || len(rest) != 1 || reply(rest[0].(map[string]any)).Text("SnapshotId") != public {
		t.Errorf("the pages are %v and %v", page, rest)
	}

	// It can be used, and changed by nobody else.
	v := l.One(ben, "CreateVolume", `{"SubregionName": "test-1a", "SnapshotId": %q}`, private)
	copied := l.One(ben, "CreateSnapshot", `{"SourceSnapshotId": %q, "SourceRegionName": "test-1"}`, public)
	if v.Text("Size") != "5" || copied.Text("VolumeSize") != "6" || copied.Text("AccountId") != ben {
		t.Errorf("of snapshots of another account come %v and %v", v, copied)
	}
	l.settle()
	if s, _, err := l.drivers.Snapshot(t.Context(), ben,
		copied.Text("SnapshotId")); err != nil || *s.Parts[0].Copy != (driver.SnapshotName{Account: anna, ID: public}) {
		t.Errorf("the driver copies %v, %v", s, err)
	}
	l.refuse(apierror.SnapshotNotFound, ben, "DeleteSnapshot", `{"SnapshotId": %q}`, public)
	l.refuse(apierror.SnapshotNotFound, ben, "UpdateSnapshot",
		`{"SnapshotId": %q, "PermissionsToCreateVolume": {"Additions": {"GlobalPermission": true}}}`, private)

	// What is not shared any more is as if it was not there.
	update(private, `{"Removals": {"AccountIds": ["`+ben+`", "123456789012"]}}`)
	update(public, `{"Removals": {"GlobalPermission": true}}`)
	sees(`{"AccountIds": ["`+anna+`"]}`, public)
	l.refuse(apierror.SnapshotNotFound, ben, "CreateVolume", `{"SubregionName": "test-1a", "SnapshotId": %q}`, private)
	l.settle()
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, public)
	sees(`{"AccountIds": ["` + anna + `"]}`)
	l.refuse(apierror.SnapshotNotFound, ben, "CreateSnapshot", `{"SourceSnapshotId": %q, "SourceRegionName": "test-1"}`, public)
	l.Update(anna, func(tx *resource.Tx) error {
		for _, reader := range []string{ben, everybody} {
			for entry := range shares.All(tx.In(sharedSnapshots.with(reader))) {
				t.Errorf("%s is still shared with %s", entry.Resource, reader)
			}
		}
		return nil
	})
}

func TestUpdateSnapshotRefusals(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	s := l.snapshot(anna, l.volume(anna, `"Size": 1`))
	for change, want := range map[string]apierror.Code{
		`{}`: apierror.MissingParameter,
		`{"Additions": {"GlobalPermission": true}, "Removals": {"AccountIds": ["` + ben + `"]}}`: apierror.InvalidParameterSet,
		`{"Additions": {"AccountIds": ["everybody"]}}`:                                           apierror.MalformedID,
	} {
		l.refuse(want, anna, "UpdateSnapshot", `{"SnapshotId": %q, "PermissionsToCreateVolume": %s}`, s, change)
	}
	l.refuse(apierror.MissingParameter, anna, "UpdateSnapshot", `{"SnapshotId": %q}`, s)
}

func TestSnapshotInUseByAnImage(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	s := l.snapshot(anna, l.volume(anna, `"Size": 1`))
	image := &Image{Snapshots: []id.Snapshot{id.Snapshot(s)}}
	l.Update(anna, func(tx *resource.Tx) error { return resource.Transition(tx, Images, image, ImageRegistered) })
	l.refuse(apierror.InUse, anna, "DeleteSnapshot", `{"SnapshotId": %q}`, s)
	l.Update(anna, func(tx *resource.Tx) error { return Images.Delete(tx, image) })
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, s)
}

func TestSnapshotFilters(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	small, large := l.volume(anna, `"Size": 1`), l.volume(anna, `"Size": 2`)
	first := l.One(anna, "CreateSnapshot", `{"VolumeId": %q, "Description": "daily", "ClientToken": "one"}`, small).Text("SnapshotId")
	l.settle()
	at := l.Clock.Now()
	second := l.One(anna, "CreateSnapshot", `{"VolumeId": %q}`, large).Text("SnapshotId")
	l.Update(anna, func(tx *resource.Tx) error {
		tagged, _ := tx.Tagged(second)
		tx.SetTags(tagged, []api.Tag{{Key: "env", Value: "test"}})
		return nil
	})
	l.Call(anna, "UpdateSnapshot", `{"SnapshotId": %q, "PermissionsToCreateVolume": {"Additions": {"AccountIds": [%q]}}}`, first, ben)
	date := func(after time.Duration) string { return at.Add(after).Format("2006-01-02T15:04:05.000Z") }
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, second}},
		{`{"AccountAliases": [""]}`, []string{first, second}},
		{`{"AccountAliases": ["Outscale"]}`, nil},
		{`{"AccountIds": ["` + anna + `"]}`, []string{first, second}},
		{`{"AccountIds": ["` + ben + `"]}`, nil},
		{`{"ClientTokens": ["one"]}`, []string{first}},
		{`{"Descriptions": ["daily"]}`, []string{first}},
		{`{"FromCreationDate": "` + date(0) + `"}`, []string{second}},
		{`{"FromCreationDate": "` + date(1e6) + `"}`, nil},
		{`{"ToCreationDate": "` + date(-1e6) + `"}`, []string{first}},
		{`{"ToCreationDate": "` + date(0) + `"}`, []string{first, second}},
		{`{"FromCreationDate": "2026-11-20", "ToCreationDate": "2026-11-21"}`, []string{first, second}},
		{`{"PermissionsToCreateVolumeAccountIds": ["` + ben + `"]}`, []string{first}},
		{`{"PermissionsToCreateVolumeGlobalPermission": true}`, nil},
		{`{"PermissionsToCreateVolumeGlobalPermission": false}`, []string{first, second}},
		{`{"Progresses": [100]}`, []string{first}},
		{`{"Progresses": [0]}`, []string{second}},
		{`{"SnapshotIds": ["` + second + `"]}`, []string{second}},
		{`{"States": ["completed", "error"]}`, []string{first}},
		{`{"States": ["in-queue"]}`, []string{second}},
		{`{"TagKeys": ["env"]}`, []string{second}},
		{`{"TagValues": ["test"]}`, []string{second}},
		{`{"Tags": ["env=test"]}`, []string{second}},
		{`{"VolumeIds": ["` + small + `"]}`, []string{first}},
		{`{"VolumeSizes": [2, 3]}`, []string{second}},
	}
	for _, test := range tests {
		l.Selects(l.list(anna, "ReadSnapshots", "%s", test.filters), "SnapshotId", test.want...)
		if t.Failed() {
			t.Fatal(test.filters)
		}
	}
}

func TestSnapshotQuotas(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t, map[string]int{"snapshot_limit": 3, "concurrent_snapshot_limit": 2})
	v := l.volume(anna, `"Size": 1`)
	first := l.One(anna, "CreateSnapshot", `{"VolumeId": %q}`, v).Text("SnapshotId")
	l.One(anna, "CreateSnapshot", `{"VolumeId": %q}`, v)
	l.refuse(apierror.TooManyActiveSnapshots, anna, "CreateSnapshot", `{"VolumeId": %q}`, v)
	l.settle()
	l.snapshot(anna, v)
	l.refuse(apierror.TooManySnapshots, anna, "CreateSnapshot", `{"VolumeId": %q}`, v)
	l.Call(anna, "DeleteSnapshot", `{"SnapshotId": %q}`, first)
	l.snapshot(anna, v)
}

// A driver that fails is asked again, and one that is done is not.
func TestSnapshotLoopOutlastsFailures(t *testing.T) {
	t.Parallel()
	l := newTestRegion(t)
	v := l.volume(anna, `"Size": 1`)
	for _, op := range []string{"EnsureSnapshot", "Snapshot"} {
		l.drivers.Fail(func(called string) error {
			if called == op {
				return errors.New("the cable is cut")
			}
			return nil
		})
		s := l.One(anna, "CreateSnapshot", `{"VolumeId": %q}`, v).Text("SnapshotId")
		l.advance(time.Minute)
		if state := l.read(anna, "ReadSnapshots", "SnapshotIds", s).Text("State"); state != "in-queue" {
			t.Errorf("a snapshot that nobody has heard of, by %s, is %s", op, state)
		}
		l.drivers.Fail(nil)
		l.settle()
		if state := l.read(anna, "ReadSnapshots", "SnapshotIds", s).Text("State"); state != "completed" {
			t.Errorf("once %s works again the snapshot is %s", op, state)
		}
		before := l.Revision(anna)
		l.drivers.Fail(func(op string) error { return errors.New(op + " was called for nothing") })
		if again, err := NewSnapshotLoop(l.DB, l.drivers).Reconcile(t.Context(), anna,
			s); err != nil || !again.IsZero() || l.Revision(anna) != before {
			t.Errorf("a step with nothing to do: %v, %v", again, err)
		}
		l.drivers.Fail(nil)
	}
}
