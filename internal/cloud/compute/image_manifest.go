package compute

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// manifest describes an image that was exported. Its names are those that the
// real service has published, so that images go from one to the other.
type manifest struct {
	Version int
	Image   manifestImage
}

type manifestImage struct {
	Name         string
	Description  string
	Architecture string
	Type         string
	ProductTypes []string
	Public       bool
	Snapshots    []manifestSnapshot
}

type manifestSnapshot struct {
	DeleteOnTermination bool
	Device              string
	Filename            string // the key of the object in its bucket
	Iops                *int
	PreSignedUrl        string
	Size                int64 // of the disk, in bytes
	VolumeType          string
}

const (
	manifestVersion = 1
	maxManifest     = 1 << 20 // bytes
	gib             = 1 << 30 // bytes
)

// readManifest reads the manifest that a request leads to; nil: it leads to none.
// Nothing waits for it but the caller.
func (region Region) readManifest(tx *resource.Tx, req *CreateImageRequest) (*manifest, error) {
	if req.FileLocation == "" || req.checkWay() != nil {
		return nil, nil
	}
	location := req.FileLocation
	if !strings.Contains(location, "://") {
		task, ok := exported(tx, location)
		if !ok {
			return nil, apierror.ManifestNotFound.Errorf(
				"The FileLocation '%.200s' is neither the pre-signed URL of a manifest nor "+
					"the bucket and key of an image that the account has exported.",
				location)
		}
		location = string(task.ManifestUrl)
	}
	if region.Objects == nil {
		return nil, errNoObjects()
	}
	text, err := region.Objects.Fetch(tx.Context(), location, maxManifest)
	if err != nil {
		return nil, apierror.In("FileLocation", err)
	}
	return parseManifest(text)
}

// errNoObjects refuses what needs an object store.
func errNoObjects() error { return apierror.StoreUnreachable.Errorf("The region has no object store.") }

// parseManifest reads a manifest and checks its form.
func parseManifest(text []byte) (*manifest, error) {
	var m manifest
	d := json.NewDecoder(strings.NewReader(string(text)))
	if err := d.Decode(&m); err != nil {
		return nil, apierror.InvalidManifestFormat.Errorf("The manifest is not the JSON document that it should be.")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, apierror.InvalidManifestFormat.Errorf("The manifest is more than one JSON document.")
	}
	if m.Version != manifestVersion {
		return nil, apierror.UnknownManifestVersion.Errorf("The manifest is of version %d, not %d.", m.Version, manifestVersion)
	}
	return &m, m.check()
}

// check refuses a manifest that no image can be created from.
func (m *manifest) check() error {
	wrong := func(format string, args ...any) error {
		return apierror.InvalidManifest.Errorf("The manifest: "+format, args...)
	}
	i := &m.Image
	if i.Architecture == "" {
		i.Architecture = string(X86)
	}
	switch {
	case i.Type != "" && i.Type != "machine":
		return wrong("the Type '%.100s' is not machine.", i.Type)
	case !slices.Contains(Architecture("").Literals(), i.Architecture):
		return wrong("the Architecture '%.100s' is neither i386 nor x86_64.", i.Architecture)
	case len(i.ProductTypes) == 0:
		return wrong("ProductTypes are required.")
	case len(i.Snapshots) > maxVolumes:
		return wrong("a VM cannot have %d volumes.", len(i.Snapshots))
	}
	if err := ImageName(i.Name).Check(); err != nil {
		return wrong("the Name %v", apierror.From(err).Details)
	}
	for _, code := range i.ProductTypes {
		if err := ProductCode(code).Check(); err != nil {
			return wrong("the ProductTypes: %v", apierror.From(err).Details)
		}
	}
	if err := m.checkSnapshots(); err != nil {
		return wrong("%v", apierror.From(err).Details)
	}
	return nil
}

// checkSnapshots refuses a snapshot that no volume can be created from, two for one
// device, and none for the root device.
func (m *manifest) checkSnapshots() error {
	devices := map[string]bool{}
	for _, s := range m.Image.Snapshots {
		if err := s.check(); err != nil {
			return err
		}
		if devices[s.Device] {
			return apierror.InvalidManifest.Errorf("two of the Snapshots have the Device %s.", s.Device)
		}
		devices[s.Device] = true
	}
	if !devices[string(RootDevice)] {
		return apierror.InvalidManifest.Errorf("none of the Snapshots has the Device %s, which is the root device.", RootDevice)
	}
	return nil
}

// manifestDevices are more than those that requests may name: the manifest that
// the real service shows has a volume at /dev/sda2.
var manifestDevices = regexp.MustCompile(`^/dev/(sd|xvd)[a-z]{1,2}[0-9]{0,2}$`)

func (s *manifestSnapshot) check() error {
	if !manifestDevices.MatchString(s.Device) {
		return apierror.InvalidManifest.Errorf("'%.100s' is not the name of a device such as /dev/sda1.", s.Device)
	}
	if !slices.Contains(VolumeType("").Literals(), s.VolumeType) {
		return apierror.InvalidManifest.Errorf("the VolumeType '%.100s' of %s is not one of standard, gp2 and io1.", s.VolumeType, s.Device)
	}
	if !isFile(s.PreSignedUrl) {
		return apierror.InvalidManifest.Errorf("the PreSignedUrl of %s is not a URL.", s.Device)
	}
	if s.Size < 1 || s.Size > maxVolumeSize*gib {
		return apierror.InvalidManifest.Errorf("the Size %d of %s is not between 1 and %d bytes.", s.Size, s.Device, int64(maxVolumeSize*gib))
	}
	bsu := s.bsu()
	return bsu.complete(DeviceName(s.Device), 0)
}

// bsu is the volume that a VM gets of the snapshot.
func (s *manifestSnapshot) bsu() BsuToCreate {
	b := BsuToCreate{DeleteOnVmDeletion: s.DeleteOnTermination, VolumeSize: int((s.Size + gib - 1) / gib),
		VolumeType: VolumeType(s.VolumeType)}
	if s.Iops != nil {
		b.Iops = *s.Iops
	}
	return b
}

// image is the image that the manifest describes, with snapshots of what its
// URLs lead to.
func (m *manifest) image(tx *resource.Tx) (*newImage, error) {
	n := &newImage{Image: Image{
		Architecture: Architecture(m.Image.Architecture), Description: m.Image.Description, ImageName: m.Image.Name,
		ProductCodes: m.Image.ProductTypes, RootDeviceName: string(RootDevice),
	}}
	for _, s := range m.Image.Snapshots {
		if at, ok := expiry(s.PreSignedUrl); ok && tx.Now().After(at) {
			return nil, apierror.InvalidManifest.Errorf(
				"The manifest has expired: the URL of %s worked until %s.", s.Device, at.Format(time.RFC3339))
		}
		bsu := s.bsu()
		n.take(BlockDeviceMappingImage{DeviceName: DeviceName(s.Device), Bsu: bsu},
			newSnapshot{&Snapshot{VolumeSize: bsu.VolumeSize}, snapshotPart{FileLocation: resource.Secret(s.PreSignedUrl)}})
	}
	return n, nil
}

// expiry is when a pre-signed URL ends to work, if it says so, in one of the two
// ways of S3.
func expiry(location string) (time.Time, bool) {
	u, err := url.Parse(location)
	if err != nil {
		return time.Time{}, false
	}
	query := u.Query()
	if at, err := strconv.ParseInt(query.Get("Expires"), 10, 64); err == nil {
		return time.Unix(at, 0).UTC(), true
	}
	from, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	seconds, err2 := strconv.ParseUint(query.Get("X-Amz-Expires"), 10, 31)
	if errors.Join(err, err2) != nil {
		return time.Time{}, false
	}
	return from.Add(time.Duration(seconds) * time.Second), true
}

// describe is the manifest of an image. Files and URLs are still missing.
func (i *Image) describe() (manifest, error) {
	m := manifest{Version: manifestVersion, Image: manifestImage{
		Name: i.ImageName, Description: i.Description, Architecture: string(i.Architecture), Type: "machine", ProductTypes: i.ProductCodes,
	}}
	for _, mapping := range i.BlockDeviceMappings {
		if mapping.Bsu.SnapshotId == "" {
			continue
		}
		s := manifestSnapshot{
			DeleteOnTermination: mapping.Bsu.DeleteOnVmDeletion, Device: string(mapping.DeviceName),
			Size: int64(mapping.Bsu.VolumeSize) * gib, VolumeType: string(mapping.Bsu.VolumeType),
		}
		if mapping.Bsu.Iops > 0 {
			s.Iops = new(mapping.Bsu.Iops)
		}
		m.Image.Snapshots = append(m.Image.Snapshots, s)
	}
	if len(m.Image.Snapshots) == 0 {
		return m, apierror.InvalidImageState.Errorf("The image %s has no snapshots.", i.ImageId)
	}
	return m, nil
}

// text is the manifest as a document.
func (m *manifest) text() []byte {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("compute: a manifest is no document: %v", err))
	}
	return append(text, '\n')
}
