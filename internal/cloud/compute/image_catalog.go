package compute

import (
	"bytes"
	_ "embed" // the images that a region has unless its operator has others
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// PublicImage is an image of the region's own, which everybody can use.
type PublicImage struct {
	ImageId      id.Image
	ImageName    ImageName
	Description  string
	Architecture Architecture
	BootModes    []BootMode
	CreationDate string
	ProductCodes []ProductCode
	SecureBoot   bool
	TpmMandatory bool
	VolumeSize   int // of the root device, in GiB
	// how the driver knows what is on the root device; the name of the image if empty
	Content string
}

//go:embed images.json
var publicImages []byte

// outscale is the alias that public images have instead of an owner.
const outscale = "Outscale"

// PublicImages are the images that a region has unless its operator has others.
func PublicImages() []PublicImage {
	images, err := ReadPublicImages(bytes.NewReader(publicImages))
	if err != nil {
		panic(fmt.Sprintf("compute: images.json: %v", err))
	}
	return images
}

// ReadPublicImages reads the images of a region, a JSON list of them, and checks
// each.
func ReadPublicImages(r io.Reader) (images []PublicImage, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&images); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the list")
	}
	ids, names := map[id.Image]bool{}, map[ImageName]bool{}
	for n := range images {
		i := &images[n]
		if i.Content == "" {
			i.Content = string(i.ImageName)
		}
		if err := i.check(); err != nil {
			return nil, fmt.Errorf("image %d: %s", n+1, apierror.From(err).Details)
		}
		if ids[i.ImageId] || names[i.ImageName] {
			return nil, fmt.Errorf("image %d: the ID %s or the name %s is used already", n+1, i.ImageId, i.ImageName)
		}
		ids[i.ImageId], names[i.ImageName] = true, true
	}
	return images, nil
}

// check reports a field that no image has so.
func (i *PublicImage) check() error {
	wrong := func(format string, args ...any) error { return apierror.InvalidValue.Errorf(format, args...) }
	switch {
	case i.ImageId.Form().Check(string(i.ImageId)) != nil:
		return wrong("the ImageId '%s' is not of the form ami-12345678", i.ImageId)
	case i.ImageName == "":
		return wrong("it has no ImageName")
	case !slices.Contains(Architecture("").Literals(), string(i.Architecture)):
		return wrong("the Architecture '%s' is neither %s nor %s", i.Architecture, I386, X86)
	case len(i.BootModes) == 0:
		return wrong("it has no BootModes")
	case i.VolumeSize < 1 || i.VolumeSize > maxVolumeSize:
		return wrong("the VolumeSize %d is not between 1 and %d", i.VolumeSize, maxVolumeSize)
	case len(i.ProductCodes) == 0:
		return wrong("it has no ProductCodes")
	}
	known := func(mode BootMode) bool { return slices.Contains(mode.Literals(), string(mode)) }
	if unknown := slices.DeleteFunc(slices.Clone(i.BootModes), known); len(unknown) > 0 {
		return wrong("the BootMode '%s' is neither %s nor %s", unknown[0], BootLegacy, BootUefi)
	}
	for _, code := range i.ProductCodes {
		if err := code.Check(); err != nil {
			return err
		}
	}
	if _, err := api.ParseTime(i.CreationDate); err != nil {
		return err
	}
	return i.ImageName.Check()
}

// snapshot is what the image has on its root device.
func (i *PublicImage) snapshot() *Snapshot {
	created, _ := api.ParseTime(i.CreationDate)
	return &Snapshot{
		SnapshotId: id.Snapshot(strings.Replace(string(i.ImageId), "ami-", "snap-", 1)), AccountAlias: outscale, CreationDate: api.At(created),
		Description: i.Description, Progress: 100, VolumeSize: i.VolumeSize, Image: i.Content,
	}
}

func (i *PublicImage) image() *Image {
	s := i.snapshot()
	return &Image{
		AccountAlias: outscale, Architecture: i.Architecture, BootModes: i.BootModes, CreationDate: s.CreationDate, Description: i.Description,
		ImageId: i.ImageId, ImageName: string(i.ImageName), ProductCodes: codesOf(i.ProductCodes), RootDeviceName: string(RootDevice),
		SecureBoot: i.SecureBoot, TpmMandatory: i.TpmMandatory, Snapshots: []id.Snapshot{s.SnapshotId},
		BlockDeviceMappings: []BlockDeviceMappingImage{{DeviceName: RootDevice, Bsu: BsuToCreate{
			DeleteOnVmDeletion: true, SnapshotId: s.SnapshotId, VolumeSize: s.VolumeSize, VolumeType: VolumeStandard,
		}}},
		PermissionsToLaunch: PermissionsOnResource{GlobalPermission: true},
	}
}

// Publish makes the images of the region's own what they shall be: everybody can
// use these, and no others. What is as it shall be stays untouched.
func Publish(tx *resource.Tx, images []PublicImage) error {
	own := tx.In(string(id.Outscale)).Unlimited()
	wanted := map[id.Image]*PublicImage{}
	for n := range images {
		wanted[images[n].ImageId] = &images[n]
	}
	for is := range Images.All(own) {
		if i := wanted[is.ImageId]; i != nil && i.isPublished(own, is) {
			delete(wanted, is.ImageId)
			continue
		}
		if err := withdraw(own, is); err != nil {
			return err
		}
	}
	for n := range images {
		if wanted[images[n].ImageId] == nil {
			continue
		}
		if err := images[n].publish(own); err != nil {
			return err
		}
	}
	return nil
}

// isPublished reports whether an image of the region's own is as it should be.
func (i *PublicImage) isPublished(own *resource.Tx, is *Image) bool {
	image, snapshot := i.image(), i.snapshot()
	s, err := Snapshots.Get(own, snapshot.SnapshotId)
	if err != nil {
		return false
	}
	image.State, snapshot.State = is.State, s.State // which the catalogue does not say
	return reflect.DeepEqual(is, image) && reflect.DeepEqual(s, snapshot)
}

// publish makes the image.
func (i *PublicImage) publish(own *resource.Tx) error {
	if err := resource.Transition(own, Snapshots, i.snapshot(), snapshotRegistered); err != nil {
		return err
	}
	image := i.image()
	to := image.PermissionsToLaunch
	image.PermissionsToLaunch = PermissionsOnResource{}
	if err := sharedImages.permit(own, image, to); err != nil {
		return err
	}
	return resource.Transition(own, Images, image, ImageRegistered)
}

// withdraw takes an image away. Volumes and copies that were made from it stay.
func withdraw(own *resource.Tx, i *Image) error {
	if err := sharedImages.permit(own, i, PermissionsOnResource{}); err != nil {
		return err
	}
	if err := Images.Delete(own, i); err != nil {
		return err
	}
	for _, of := range i.Snapshots {
		s, err := Snapshots.Get(own, of)
		if err != nil {
			return err
		}
		if err := Snapshots.Delete(own, s); err != nil {
			return err
		}
	}
	return nil
}
