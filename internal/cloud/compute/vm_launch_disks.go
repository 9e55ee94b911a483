package compute

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// BlockDeviceMappingVmCreation is a volume for a new VM, or a change of one that
// the image has under the same device name.
type BlockDeviceMappingVmCreation struct {
	Bsu *BsuToCreate // What the volume is like. What is left out is as in the image.
	// The name of the device, which is required: `/dev/sda1` for the root device; else
	// `/dev/sdX`, `/dev/sdXX`, `/dev/xvdX` or `/dev/xvdXX`, where the first X is a letter from
	// b to z and the second one from a to z.
	DeviceName DeviceName
	// If given, the VM does not get the volume that the image has under this device name.
	NoDevice *string
	// The name of an ephemeral device, of the form `ephemeralN`. Nothing is made for it.
	VirtualDeviceName string
}

// plannedDisk is a volume of a new VM.
type plannedDisk struct {
	volume       Volume
	device       DeviceName
	deleteWithVm bool
}

// planDisks plans the volumes of each VM of a request. The transaction owner is
// over the account that has the image.
func (region Region) planDisks(
	tx, owner *resource.Tx, image *Image, subregion string, wanted []BlockDeviceMappingVmCreation,
) ([]plannedDisk, error) {
	mappings, err := image.mappingsWith(wanted)
	if err != nil {
		return nil, err
	}
	var disks []plannedDisk
	for _, m := range mappings {
		v, err := region.planVolume(tx, newVolume{
			Iops: m.Bsu.Iops, Size: m.Bsu.VolumeSize, SnapshotId: m.Bsu.SnapshotId, SnapshotOwner: image.ownerOf(owner, m.Bsu.SnapshotId),
			SubregionName: subregion, VolumeType: m.Bsu.VolumeType,
		})
		if err != nil {
			return nil, apierror.In("the volume "+string(m.DeviceName), err)
		}
		disks = append(disks, plannedDisk{*v, m.DeviceName, m.Bsu.DeleteOnVmDeletion})
	}
	return disks, nil
}

// mappingsWith merges the volumes of the image with those of a request: the
// image's come first, its root device before all others.
func (i *Image) mappingsWith(wanted []BlockDeviceMappingVmCreation) ([]BlockDeviceMappingImage, error) {
	root := DeviceName(i.RootDeviceName)
	mappings := i.volumeMappings()
	place := map[DeviceName]int{} // in mappings
	for i, m := range mappings {
		place[m.DeviceName] = i
	}
	seen := map[DeviceName]bool{}
	for _, w := range wanted {
		if w.DeviceName == "" {
			return nil, apierror.MissingParameter.Errorf("DeviceName is required in each of BlockDeviceMappings.")
		}
		if seen[w.DeviceName] {
			return nil, apierror.InvalidMappings.Errorf("Two of the BlockDeviceMappings have the DeviceName %s.", w.DeviceName)
		}
		seen[w.DeviceName] = true
		at, inImage := place[w.DeviceName]
		if err := w.check(inImage, w.DeviceName == root); err != nil {
			return nil, err
		}
		switch {
		case w.NoDevice != nil:
			mappings[at].DeviceName = ""
		case w.Bsu == nil:
		case inImage:
			mappings[at].Bsu = w.Bsu.over(mappings[at].Bsu)
		default:
			mappings = append(mappings, BlockDeviceMappingImage{DeviceName: w.DeviceName, Bsu: *w.Bsu})
		}
	}
	mappings = slices.DeleteFunc(mappings, func(m BlockDeviceMappingImage) bool { return m.DeviceName == "" })
	if len(mappings) > maxVolumes {
		return nil, apierror.TooManyVolumes.Errorf("The VM would have %d volumes. The maximum is %d.", len(mappings), maxVolumes)
	}
	return mappings, nil
}

// volumeMappings returns the mappings of the image that are volumes, the root
// device first.
func (i *Image) volumeMappings() []BlockDeviceMappingImage {
	var root, others []BlockDeviceMappingImage
	for _, m := range i.BlockDeviceMappings {
		switch {
		case m.VirtualDeviceName != "":
		case m.DeviceName == DeviceName(i.RootDeviceName):
			root = append(root, m)
		default:
			others = append(others, m)
		}
	}
	return append(root, others...)
}

// ownerOf returns the account that has a snapshot of the image, because the
// permission to use an image includes its snapshots. Empty: the image has no such
// snapshot.
func (i *Image) ownerOf(owner *resource.Tx, snapshot id.Snapshot) string {
	if slices.ContainsFunc(i.BlockDeviceMappings,
		func(m BlockDeviceMappingImage) bool { return m.Bsu.SnapshotId == snapshot }) && snapshot != "" {
		return i.snapshotOwner(owner, snapshot)
	}
	return ""
}

// check refuses a mapping that gives nothing, or too much, for a device that the
// image has or has not.
func (w *BlockDeviceMappingVmCreation) check(inImage, isRoot bool) error {
	switch {
	case w.VirtualDeviceName != "":
		return w.checkEphemeral(isRoot)
	case w.NoDevice == nil:
		return w.checkVolume(inImage, isRoot)
	case w.Bsu != nil:
		return apierror.InvalidMappings.Errorf("Bsu and NoDevice cannot be given together for the device %s.", w.DeviceName)
	case isRoot:
		return w.errRootRequired()
	case !inImage:
		return apierror.InvalidMappings.Errorf("NoDevice is given for the device %s, which the image does not have.", w.DeviceName)
	}
	return nil
}

// checkVolume refuses a mapping of a volume that has none, or another root device
// than that of the image.
func (w *BlockDeviceMappingVmCreation) checkVolume(inImage, isRoot bool) error {
	switch {
	case w.Bsu == nil && !inImage:
		return apierror.InvalidMappings.Errorf("Bsu is required for the device %s, which the image does not have.", w.DeviceName)
	case w.Bsu != nil && isRoot && w.Bsu.SnapshotId != "":
		return apierror.InvalidRootMapping.Errorf(
			"Bsu.SnapshotId cannot be given for the root device %s: its snapshot is the one of the image.", w.DeviceName)
	}
	return nil
}

// checkEphemeral refuses the mapping of an ephemeral device that is given as
// something else too.
func (w *BlockDeviceMappingVmCreation) checkEphemeral(isRoot bool) error {
	switch {
	case !ephemeralNames.MatchString(w.VirtualDeviceName):
		return apierror.InvalidVirtualName.Errorf("The VirtualDeviceName '%.100s' is not of the form ephemeralN.", w.VirtualDeviceName)
	case w.Bsu != nil || w.NoDevice != nil:
		return apierror.InvalidVirtualName.Errorf("Bsu and NoDevice cannot be given for the ephemeral device %s.", w.DeviceName)
	case isRoot:
		return w.errRootRequired()
	}
	return nil
}

func (w *BlockDeviceMappingVmCreation) errRootRequired() error {
	return apierror.InvalidRootMapping.Errorf("The device %s is the root device, which every VM has.", w.DeviceName)
}

// over returns the volume of a request, with what the request leaves out taken
// from the image.
func (b BsuToCreate) over(image BsuToCreate) BsuToCreate {
	if b.VolumeType == "" {
		b.VolumeType = image.VolumeType
	}
	if b.Iops == 0 && b.VolumeType == VolumeIo1 {
		b.Iops = image.Iops
	}
	if b.SnapshotId == "" {
		b.SnapshotId = image.SnapshotId
		if b.VolumeSize == 0 {
			b.VolumeSize = image.VolumeSize
		}
	}
	return b
}
