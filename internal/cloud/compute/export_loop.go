package compute

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/reconcile"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// NewExportLoop makes the loop that has the files of exports written, and notes how
// far they are.
func NewExportLoop(db *resource.DB, disks driver.Disks) reconcile.Loop {
	return reconcile.For(db, exportFiles, reconcile.Ops[exportFile, driver.Export, driver.ExportStatus]{
		Want:   wantedExport,
		Ensure: reconcile.ApplyAndReport(disks.EnsureExport, disks.Export),
		Remove: disks.RemoveExport,
		Note: func(tx *resource.Tx, f *exportFile, _ driver.Export, status driver.ExportStatus) error {
			if status.Failure == "" {
				status.Progress = 100
			}
			return f.note(tx, status)
		},
		Progress: func(tx *resource.Tx, f *exportFile, _ driver.Export, status driver.ExportStatus, _ time.Time) error {
			return f.note(tx, status)
		},
		Observe: reconcile.List(disks.ObserveExports, nil),
	})
}

// wantedExport is a file as the driver should write it.
func wantedExport(tx *resource.Tx, f *exportFile) (*driver.Export, error) {
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

// note notes how far the driver is with a file.
func (f *exportFile) note(tx *resource.Tx, status driver.ExportStatus) error {
	task, err := f.task(tx)
	if err != nil {
		return err
	}
	if status.Failure != "" {
		return task.end(tx, exportFailed, status.Failure)
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
	return task.noteFiles(tx)
}

// imageManifest is a manifest to be written.
type imageManifest struct {
	account string
	task    ImageExportTask
}

// writtenManifest is the URL of a manifest, or why there is none.
type writtenManifest struct{ location, failure string }

// NewManifestLoop makes the loop that completes the exports of images: once all
// files are written, it writes the manifest that leads to them. Manifests stay.
func NewManifestLoop(db *resource.DB, objects objectstore.Store) reconcile.Loop {
	return reconcile.For(db, ImageExportTasks, reconcile.Ops[ImageExportTask, imageManifest, writtenManifest]{
		Want: func(tx *resource.Tx, t *ImageExportTask) (*imageManifest, error) {
			if !t.Written {
				return nil, nil
			}
			return &imageManifest{tx.Account(), *t}, nil
		},
		Ensure: func(ctx context.Context, want imageManifest) (writtenManifest, error) {
			location, err := want.write(ctx, objects)
			if failure, failed := errors.AsType[*apierror.Error](err); failed {
				return writtenManifest{failure: failure.Details}, nil
			}
			return writtenManifest{location: location}, err
		},
		Note: func(tx *resource.Tx, t *ImageExportTask, _ imageManifest, written writtenManifest) error {
			if t.ended() {
				return nil
			}
			t.Target.forget()
			if written.failure != "" {
				t.Comment = written.failure
				return resource.Transition(tx, ImageExportTasks, t, lifecycle.Event[ImageExportState](exportFailed))
			}
			t.ManifestUrl, t.Progress = resource.Secret(written.location), 100
			return resource.Transition(tx, ImageExportTasks, t, lifecycle.Event[ImageExportState](exportCompleted))
		},
	})
}

// write writes the manifest, and returns its URL.
func (w *imageManifest) write(ctx context.Context, objects objectstore.Store) (string, error) {
	if objects == nil {
		return "", errNoObjects()
	}
	bucket := w.task.Target.bucket(w.account)
	m := w.task.Manifest
	m.Image.Snapshots = slices.Clone(m.Image.Snapshots)
	for k := range m.Image.Snapshots {
		s := &m.Image.Snapshots[k]
		var err error
		if s.PreSignedUrl, err = objects.Sign(ctx, bucket, s.Filename, objectstore.MaxLifetime); err != nil {
			return "", err
		}
	}
	text := m.text()
	if err := objects.Put(ctx, bucket, w.task.manifestKey(), bytes.NewReader(text), int64(len(text))); err != nil {
		return "", err
	}
	return objects.Sign(ctx, bucket, w.task.manifestKey(), objectstore.MaxLifetime)
}
