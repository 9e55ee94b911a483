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

// plannedDisk is a volume that a new VM gets.
type plannedDisk struct {
	volume       Volume
	device       DeviceName
	deleteWithVm bool
}

// planDisks merges the volumes of an image with those of a request: the image's
// come first, its root device before all others. The transaction owner is over
// the account that has the image.
func (region Region) planDisks(tx, owner *resource.Tx, image *Image, subregion string, wanted []BlockDeviceMappingVmCreation) ([]plannedDisk, error) {
	root := DeviceName(image.RootDeviceName)
	mappings := slices.DeleteFunc(slices.Clone(image.BlockDeviceMappings), func(m BlockDeviceMappingImage) bool { return m.VirtualDeviceName != "" })
	slices.SortStableFunc(mappings, func(a, b BlockDeviceMappingImage) int {
		switch root {
		case a.DeviceName:
			return -1
		case b.DeviceName:
			return 1
		}
		return 0
	})
	at := map[DeviceName]int{} // where in mappings a device is
	for i, m := range mappings {
		at[m.DeviceName] = i
	}
	seen := map[DeviceName]bool{}
	for _, w := range wanted {
		if w.DeviceName == "" {
			return nil, apierror.MissingParameter.Errorf("DeviceName is required in each of BlockDeviceMappings.")
		}
		if seen[w.DeviceName] {
			return nil, apierror.InvalidMappings.Errorf("The DeviceName %s is given twice.", w.DeviceName)
		}
		seen[w.DeviceName] = true
		i, inImage := at[w.DeviceName]
		if err := w.check(inImage, w.DeviceName == root); err != nil {
			return nil, err
		}
		switch {
		case w.NoDevice != nil:
			mappings[i].DeviceName = ""
		case w.Bsu == nil:
		case inImage:
			mappings[i].Bsu = w.Bsu.over(mappings[i].Bsu)
		default:
			mappings = append(mappings, BlockDeviceMappingImage{DeviceName: w.DeviceName, Bsu: *w.Bsu})
		}
	}
	mappings = slices.DeleteFunc(mappings, func(m BlockDeviceMappingImage) bool { return m.DeviceName == "" })
	if len(mappings) > maxVolumes {
		return nil, apierror.TooManyVolumes.Errorf("The VM would have %d volumes: it can have %d.", len(mappings), maxVolumes)
	}
	var disks []plannedDisk
	for _, m := range mappings {
		v, err := region.planVolume(tx, newVolume{
			Iops: m.Bsu.Iops, Size: m.Bsu.VolumeSize, SnapshotId: m.Bsu.SnapshotId, SnapshotOwner: image.lends(owner, m.Bsu.SnapshotId),
			SubregionName: subregion, VolumeType: m.Bsu.VolumeType,
		})
		if err != nil {
			return nil, apierror.In("the volume "+string(m.DeviceName), err)
		}
		disks = append(disks, plannedDisk{*v, m.DeviceName, m.Bsu.DeleteOnVmDeletion})
	}
	return disks, nil
}

// lends is the account that has a snapshot which the image is made of: who may
// use the image may use that. Empty: it is none of the image's.
func (i *Image) lends(owner *resource.Tx, snapshot id.Snapshot) string {
	if slices.ContainsFunc(i.BlockDeviceMappings, func(m BlockDeviceMappingImage) bool { return m.Bsu.SnapshotId == snapshot }) && snapshot != "" {
		return i.snapshotOwner(owner, snapshot)
	}
	return ""
}

// check refuses a mapping that says nothing, or too much, about a device that the
// image has or has not.
func (w *BlockDeviceMappingVmCreation) check(inImage, isRoot bool) error {
	said := 0
	for _, given := range []bool{w.Bsu != nil, w.NoDevice != nil, w.VirtualDeviceName != ""} {
		if given {
			said++
		}
	}
	switch {
	case w.VirtualDeviceName != "" && !ephemeralNames.MatchString(w.VirtualDeviceName):
		return apierror.InvalidVirtualName.Errorf("The VirtualDeviceName '%.100s' is not of the form ephemeralN.", w.VirtualDeviceName)
	case w.VirtualDeviceName != "" && said > 1:
		return apierror.InvalidVirtualName.Errorf("The device %s is ephemeral: Bsu and NoDevice cannot be given as well.", w.DeviceName)
	case said > 1:
		return apierror.InvalidMappings.Errorf("The device %s has both Bsu and NoDevice.", w.DeviceName)
	case isRoot && w.Bsu == nil && said > 0:
		return apierror.InvalidRootMapping.Errorf("The device %s is the root device, which every VM has.", w.DeviceName)
	case isRoot && w.Bsu != nil && w.Bsu.SnapshotId != "":
		return apierror.InvalidRootMapping.Errorf("The device %s is the root device, whose snapshot is that of the image.", w.DeviceName)
	case !inImage && w.NoDevice != nil:
		return apierror.InvalidMappings.Errorf("The image has no device %s that could be left out.", w.DeviceName)
	case !inImage && said == 0:
		return apierror.InvalidMappings.Errorf("The device %s has no Bsu.", w.DeviceName)
	}
	return nil
}

// over is what a volume is like of which one mapping says something and another
// one the rest.
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
