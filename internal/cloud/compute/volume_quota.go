package compute

import (
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// storage is what the volumes of an account take together, updates under way
// included.
type storage struct {
	size  int                // GiB
	types map[VolumeType]int // GiB by type
	iops  int                // of io1 volumes
}

func storageOf(tx *resource.Tx) storage {
	s := storage{types: map[VolumeType]int{}, iops: Volumes.Sum(tx, volumeIops)}
	for _, t := range []VolumeType{VolumeStandard, VolumeGp2, VolumeIo1} {
		s.types[t] = Volumes.Sum(tx, string(t))
		s.size += s.types[t]
	}
	return s
}

func (s *storage) add(p VolumeUpdateParameters, sign int) {
	s.size += sign * p.Size
	s.types[p.VolumeType] += sign * p.Size
	if p.VolumeType == VolumeIo1 {
		s.iops += sign * p.Iops
	}
}

// change lets a volume become something else, or begin if it was nothing,
// within what the quotas allow. They limit what grows only: a limit that was
// lowered below the use does not keep anybody from using less.
func (s *storage) change(tx *resource.Tx, from, to VolumeUpdateParameters) error {
	s.add(from, -1)
	s.add(to, 1)
	ofType := from
	if from.VolumeType != to.VolumeType {
		ofType = VolumeUpdateParameters{}
	}
	if to.Size > from.Size {
		if err := tx.CheckLimit("volume_size_limit", apierror.TooMuchVolumeSize, s.size); err != nil {
			return err
		}
	}
	if to.Size > ofType.Size {
		if err := tx.CheckLimit(sizeQuota(to.VolumeType), apierror.TooMuchVolumeSize, s.types[to.VolumeType]); err != nil {
			return err
		}
	}
	if to.VolumeType == VolumeIo1 && to.Iops > ofType.Iops {
		return tx.CheckLimit("iops_limit", apierror.TooManyIops, s.iops)
	}
	return nil
}

// insert makes a volume.
func (s *storage) insert(tx *resource.Tx, v *Volume) error {
	if err := s.change(tx, VolumeUpdateParameters{}, v.parameters()); err != nil {
		return err
	}
	return Volumes.Insert(tx, v)
}

// sizeQuota is the quota of the size of all volumes of a type.
func sizeQuota(t VolumeType) string { return string(t) + "_volume_size_limit" }

func storageMeters() []resource.Meter {
	read := func(quota string, use func(storage) int) resource.Meter {
		return resource.GlobalMeter(quota, func(tx *resource.Tx) int { return use(storageOf(tx)) })
	}
	meters := []resource.Meter{
		read("volume_size_limit", func(s storage) int { return s.size }),
		read("iops_limit", func(s storage) int { return s.iops }),
	}
	for _, t := range []VolumeType{VolumeStandard, VolumeGp2, VolumeIo1} {
		meters = append(meters, read(sizeQuota(t), func(s storage) int { return s.types[t] }))
	}
	return meters
}
