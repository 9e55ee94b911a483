package compute

import (
	"net/url"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// CreateSnapshotRequest asks for a snapshot: of a volume (VolumeId), as a copy of
// another snapshot (SourceSnapshotId and SourceRegionName), or of a file
// (FileLocation and SnapshotSize).
type CreateSnapshotRequest struct {
	// A text of your choice, of at most 64 characters. A second call with the same text makes
	// no second snapshot, as long as the first one is there.
	ClientToken  ClientToken
	Description  string // The description of the snapshot.
	FileLocation string // The pre-signed URL of the file to import.
	// The size of the content of the file, once uncompressed, in bytes.
	SnapshotSize int64
	// The name of the Region that the snapshot to copy is in: this one.
	SourceRegionName string
	// The ID of the snapshot to copy: one of your own, or one that you may create volumes from.
	SourceSnapshotId id.Snapshot
	VolumeId         id.Volume // The ID of the volume.
}

// CreateSnapshotResponse shows the snapshot.
type CreateSnapshotResponse struct{ Snapshot *Snapshot }

func (region Region) createSnapshot(tx *resource.Tx, req *CreateSnapshotRequest) (*CreateSnapshotResponse, error) {
	if req.ClientToken != "" {
		for s := range Snapshots.Where(tx, "ClientToken", string(req.ClientToken)) {
			return &CreateSnapshotResponse{viewSnapshot(tx, s)}, req.ClientToken.checkRepeated(req, s.Asked)
		}
	}
	if err := req.checkWay(); err != nil {
		return nil, err
	}
	var n newSnapshot
	var err error
	switch {
	case req.VolumeId != "":
		n, err = snapshotOf(tx, req.VolumeId)
	case req.SourceSnapshotId != "":
		if err = region.checkSource(req.SourceRegionName); err == nil {
			n, err = copyOf(tx, req.SourceSnapshotId)
		}
	default:
		n, err = importOf(tx, req.FileLocation, req.SnapshotSize)
	}
	if err != nil {
		return nil, err
	}
	n.Description = req.Description
	if req.ClientToken != "" {
		n.ClientToken, n.Asked = string(req.ClientToken), digest(req)
	}
	if err := takeSnapshots(tx, "", n); err != nil {
		return nil, err
	}
	return &CreateSnapshotResponse{viewSnapshot(tx, n.Snapshot)}, nil
}

// checkWay makes sure that the request asks for a snapshot in one way, with all
// that belongs to it.
func (req *CreateSnapshotRequest) checkWay() error {
	ways := 0
	for _, is := range []bool{
		req.VolumeId != "",
		req.SourceSnapshotId != "" || req.SourceRegionName != "",
		req.FileLocation != "" || req.SnapshotSize != 0,
	} {
		if is {
			ways++
		}
	}
	switch {
	case ways > 1:
		return apierror.InvalidParameterSet.Errorf(
			"Give the parameters of one source: a volume (VolumeId), another snapshot (SourceSnapshotId and SourceRegionName) " +
				"or a file (FileLocation and SnapshotSize).")
	case ways == 0:
		return apierror.MissingParameter.Errorf("One of VolumeId, SourceSnapshotId and FileLocation is required.")
	case (req.SourceSnapshotId == "") != (req.SourceRegionName == ""):
		return apierror.MissingParameter.Errorf("SourceSnapshotId and SourceRegionName are required together.")
	case (req.FileLocation == "") != (req.SnapshotSize == 0):
		return apierror.MissingParameter.Errorf("FileLocation and SnapshotSize are required together.")
	}
	return nil
}

// checkSource refuses to copy from another region: what is copied is in this
// one.
func (region Region) checkSource(name string) error {
	if name != region.Name {
		return apierror.InvalidValue.Errorf("The SourceRegionName '%.100s' is not %s, the Region of the account.", name, region.Name)
	}
	return nil
}

// newSnapshot is a snapshot that is about to be taken, and where its content is
// from.
type newSnapshot struct {
	*Snapshot
	part snapshotPart
}

// snapshotOf is a snapshot of a volume.
func snapshotOf(tx *resource.Tx, volume id.Volume) (newSnapshot, error) {
	v, err := Volumes.Get(tx, volume)
	if err != nil {
		return newSnapshot{}, err
	}
	if v.State != VolumeAvailable && v.State != VolumeInUse {
		return newSnapshot{}, apierror.InvalidVolumeState.Errorf("The volume %s is %s, neither available nor in-use.", v.VolumeId, v.State)
	}
	return newSnapshot{&Snapshot{VolumeId: volume, VolumeSize: v.Size}, snapshotPart{Volume: volume}}, nil
}

// copyOf is a copy of a snapshot, of the account or of one that shares it.
func copyOf(tx *resource.Tx, source id.Snapshot) (newSnapshot, error) {
	owner, s, err := sharedSnapshots.find(tx, source)
	if err != nil {
		return newSnapshot{}, err
	}
	return copyFrom(owner, s)
}

// copyFrom is a copy of a snapshot of an owner.
func copyFrom(owner *resource.Tx, s *Snapshot) (newSnapshot, error) {
	if s.State != SnapshotCompleted {
		return newSnapshot{}, apierror.InvalidState.Errorf("The snapshot %s is %s, not completed.", s.SnapshotId, s.State)
	}
	part := snapshotPart{Copied: s.SnapshotId, CopiedFrom: id.Account(owner.Account())}
	if s.Image != "" {
		part = snapshotPart{Image: s.Image}
	}
	return newSnapshot{&Snapshot{VolumeSize: s.VolumeSize}, part}, nil
}

// importOf is a snapshot whose content is in a file, so many bytes of it.
func importOf(tx *resource.Tx, location string, size int64) (newSnapshot, error) {
	if !isFile(location) {
		return newSnapshot{}, apierror.InvalidURL.Errorf(
			"The FileLocation is not the URL of a file, such as https://example.com/bucket/snapshot.qcow2.")
	}
	if at, ok := expiry(location); ok && tx.Now().After(at) {
		return newSnapshot{}, apierror.InvalidURL.Errorf("The FileLocation has expired: it worked until %s.", at.Format(time.RFC3339))
	}
	if size < 1 || size > maxVolumeSize*gib {
		return newSnapshot{}, apierror.InvalidSnapshotSize.Errorf(
			"The SnapshotSize %d is not between 1 and %d bytes.", size, int64(maxVolumeSize*gib))
	}
	return newSnapshot{&Snapshot{VolumeSize: int((size + gib - 1) / gib)}, snapshotPart{FileLocation: resource.Secret(location)}}, nil
}

// isFile reports whether a text is the URL of a file that the driver may be asked
// to fetch: from the web, or from the region's own object store.
func isFile(location string) bool {
	u, err := url.Parse(location)
	switch {
	case err != nil || u.Path == "" || u.Path == "/":
		return false
	case u.Scheme == objectstore.Scheme:
		return u.Host == ""
	}
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// takeSnapshots makes snapshots, all of one instant, at which a VM is off unless
// it is empty. Each says what it is like.
func takeSnapshots(tx *resource.Tx, vm id.Vm, all ...newSnapshot) error {
	if err := tx.CheckLimit("concurrent_snapshot_limit", apierror.TooManyActiveSnapshots, activeSnapshots(tx)+len(all)); err != nil {
		return err
	}
	set := &snapshotSet{Vm: vm, Generation: 1}
	for _, n := range all {
		n.CreationDate = api.At(tx.Now())
		if err := resource.Transition(tx, Snapshots, n.Snapshot, snapshotCreated); err != nil {
			return err
		}
		n.part.SnapshotId, n.part.Size = n.SnapshotId, n.VolumeSize
		set.Parts = append(set.Parts, n.part)
		if n.part.Volume != "" {
			set.Volumes = append(set.Volumes, n.part.Volume)
		}
		if n.part.Copied != "" && string(n.part.CopiedFrom) == tx.Account() {
			set.Sources = append(set.Sources, n.part.Copied)
		}
	}
	set.SetId = resource.Name(set.Parts[0].SnapshotId)
	return snapshotSets.Insert(tx, set)
}
