package compute

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// ExportLoop has the files of exports written, and notes how far they are.
type ExportLoop struct {
	db    *kind.DB
	world driver.Disks
}

// NewExportLoop makes the loop that joins a store and a driver.
func NewExportLoop(db *kind.DB, world driver.Disks) *ExportLoop { return &ExportLoop{db, world} }

// Kind is the kind whose changes wake the loop.
func (l *ExportLoop) Kind() kind.Any { return exportFiles }

// Step has one file written and notes what came of it. It answers when to ask
// again if the world is not done.
func (l *ExportLoop) Step(ctx context.Context, account, file string) (again time.Time, err error) {
	caller := kind.Caller{Account: account}
	var want *driver.Export
	err = l.db.View(ctx, caller, func(tx *kind.Tx) (err error) {
		want = nil
		if f := exportFiles.Living(tx, exportFileID(file)); f != nil {
			want, err = wantedExport(tx, f)
		}
		return err
	})
	switch {
	case err != nil:
		return again, err
	case want == nil:
		return driver.UntilDone(l.world.RemoveExport(ctx, account, file))
	}
	if again, err = driver.UntilDone(l.world.EnsureExport(ctx, *want)); err != nil {
		return again, err
	}
	status, ok, err := l.world.Export(ctx, account, file)
	switch {
	case err != nil:
		return again, err
	case !ok:
		return again, fmt.Errorf("the world has no export %s, which it was asked for", file)
	case again.IsZero() && status.Failure == "":
		status.Progress = 100
	}
	return again, l.db.Update(ctx, caller, func(tx *kind.Tx) error { return exportSeen(tx, exportFileID(file), status) })
}

// Observe finds the exports that the world knows of.
func (l *ExportLoop) Observe(ctx context.Context, found reconcile.Found) error {
	exports, err := l.world.ObserveExports(ctx)
	for _, e := range exports {
		found(e.Account, e.ID, false)
	}
	return err
}

// wantedExport is a file as the world should write it.
func wantedExport(tx *kind.Tx, f *exportFile) (*driver.Export, error) {
	task, err := f.task(tx)
	if err != nil {
		return nil, err
	}
	to := task.to()
	return &driver.Export{
		Account: tx.Account(), ID: string(f.FileId), Generation: 1,
		From: driver.SnapshotName{Account: string(f.Owner), ID: string(f.SnapshotId)}, Size: f.Size,
		Format: string(to.Format), Bucket: string(to.Bucket), Object: f.Object,
		AccessKey: to.AccessKey, SecretKey: string(to.SecretKey),
	}, nil
}

// exportSeen notes how far the world is with a file. A task that was cancelled
// since the world was asked stays so.
func exportSeen(tx *kind.Tx, file exportFileID, status driver.ExportStatus) error {
	f := exportFiles.Living(tx, file)
	if f == nil {
		return nil
	}
	task, err := f.task(tx)
	if err != nil {
		return err
	}
	if status.Failure != "" {
		return endExport(tx, task, "fail", status.Failure, filesOf(tx, f.ImageTask, f.SnapshotTask))
	}
	if status.Progress >= 100 {
		err = exportFiles.Delete(tx, f)
	} else if f.Progress != status.Progress {
		f.Progress = status.Progress
		err = exportFiles.Put(tx, f)
	}
	if err != nil {
		return err
	}
	return task.advance(tx)
}

// advance notes how far the world is. What is written is the whole export.
func (t *SnapshotExportTask) advance(tx *kind.Tx) error {
	before := *t
	left := 0
	for f := range filesOf(tx, "", t.TaskId) {
		left++
		t.happens("progress", f.Progress, "")
	}
	if left == 0 {
		t.happens("done", 100, "")
		t.Target.forget()
	}
	if t.State == before.State && t.Progress == before.Progress {
		return nil
	}
	return t.put(tx)
}

// advance notes that the world has begun, and how far it is. What is written
// lacks the manifest still.
func (t *ImageExportTask) advance(tx *kind.Tx) error {
	before := *t
	all := len(t.Manifest.Image.Snapshots)
	left, done := 0, 0
	for f := range filesOf(tx, t.TaskId, "") {
		left++
		done += f.Progress
	}
	t.happens("begin", min((done+100*(all-left))/all, 99), "")
	t.Written = left == 0
	if t.State == before.State && t.Progress == before.Progress && t.Written == before.Written {
		return nil
	}
	return t.put(tx)
}

// ManifestLoop completes the exports of images: once all files are written, it
// writes the manifest that leads to them.
type ManifestLoop struct {
	db      *kind.DB
	objects objectstore.Store
}

// NewManifestLoop makes the loop that joins a store and an object store.
func NewManifestLoop(db *kind.DB, objects objectstore.Store) *ManifestLoop {
	return &ManifestLoop{db, objects}
}

// Kind is the kind whose changes wake the loop.
func (l *ManifestLoop) Kind() kind.Any { return ImageExportTasks }

// Step writes the manifest of one task if its files are there.
func (l *ManifestLoop) Step(ctx context.Context, account, taskID string) (again time.Time, err error) {
	caller := kind.Caller{Account: account}
	var task *ImageExportTask
	err = l.db.View(ctx, caller, func(tx *kind.Tx) error {
		task = ImageExportTasks.Living(tx, id.ImageExportTask(taskID))
		return nil
	})
	if err != nil || task == nil || task.ended() || !task.Written {
		return again, err
	}
	location, err := l.write(ctx, account, task)
	failure, failed := errors.AsType[*fault.Error](err)
	if err != nil && !failed {
		return again, err
	}
	return again, l.db.Update(ctx, caller, func(tx *kind.Tx) error {
		now, err := ImageExportTasks.Get(tx, task.TaskId)
		switch {
		case err != nil || now.ended():
			return err
		case failed:
			now.happens("fail", 0, failure.Details)
		default:
			now.ManifestUrl = kind.Secret(location)
			now.happens("done", 100, "")
		}
		now.Target.forget()
		return now.put(tx)
	})
}

// Observe finds nothing: manifests stay.
func (l *ManifestLoop) Observe(context.Context, reconcile.Found) error { return nil }

// write writes the manifest of a task of an account, and returns its URL.
func (l *ManifestLoop) write(ctx context.Context, account string, t *ImageExportTask) (string, error) {
	if l.objects == nil {
		return "", errNoObjects()
	}
	bucket := t.Target.bucket(account)
	m := t.Manifest
	m.Image.Snapshots = slices.Clone(m.Image.Snapshots)
	for k := range m.Image.Snapshots {
		s := &m.Image.Snapshots[k]
		var err error
		if s.PreSignedUrl, err = l.objects.Sign(ctx, bucket, s.Filename, objectstore.MaxLifetime); err != nil {
			return "", err
		}
	}
	text := m.text()
	if err := l.objects.Put(ctx, bucket, t.manifestKey(), bytes.NewReader(text), int64(len(text))); err != nil {
		return "", err
	}
	return l.objects.Sign(ctx, bucket, t.manifestKey(), objectstore.MaxLifetime)
}
