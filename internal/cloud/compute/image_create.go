package compute

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// CreateImageRequest asks for an image: of a VM (VmId), as a copy of another image
// (SourceImageId and SourceRegionName), of snapshots (BlockDeviceMappings and
// RootDeviceName), or of an image that was exported (FileLocation).
type CreateImageRequest struct {
	// The architecture of an image of snapshots. By default, `i386`.
	Architecture Architecture
	// The volumes of an image of snapshots. That of the root device has a snapshot.
	BlockDeviceMappings []BlockDeviceMappingImage
	// How VMs made from the image may boot. By default, as the VM or the image that it is made
	// of; otherwise `legacy`.
	BootModes []BootMode
	// The description of the image. By default, that of the image that it is a copy of.
	Description string
	// The pre-signed URL of the manifest of an exported image, which works for seven days after
	// the export; or, if the account has exported it itself, its bucket and key, with a slash
	// between them.
	FileLocation string
	// The name of the image, unique in the account. By default, its ID.
	ImageName ImageName
	// Whether a running VM goes on while the image of it is made. By default, it shuts down
	// before its snapshots are taken, and boots again as soon as they are.
	NoReboot bool
	// What the software in the image is billed as. By default, as the VM or the image that it
	// is made of; otherwise `0001`.
	ProductCodes []ProductCode
	// The name of the root device of an image of snapshots: `/dev/sda1`.
	RootDeviceName DeviceName
	// The ID of the image to copy: one of your own, or one that you may make VMs from.
	SourceImageId id.Image
	// The name of the Region that the image to copy is in: this one.
	SourceRegionName string
	// Whether VMs made from the image need a virtual Trusted Platform Module. By default, as
	// the image that it is a copy of; otherwise not.
	TpmMandatory *bool
	// The ID of a VM, running or stopped. All of its volumes are in the image.
	VmId id.Vm
}

// CreateImageResponse shows the image.
type CreateImageResponse struct{ Image *Image }

// createImage makes an image. The manifest is the one that FileLocation leads to.
func (region Region) createImage(tx *resource.Tx, req *CreateImageRequest, m *manifest) (*CreateImageResponse, error) {
	if err := req.checkWay(); err != nil {
		return nil, err
	}
	var n *newImage
	var err error
	switch {
	case req.VmId != "":
		n, err = imageOf(tx, req.VmId, req.NoReboot)
	case req.SourceImageId != "":
		if err = region.checkSource(req.SourceRegionName); err == nil {
			n, err = copyOfImage(tx, req.SourceImageId)
		}
	case req.FileLocation != "":
		n, err = m.image(tx)
	default:
		n, err = req.register(tx)
	}
	if err != nil {
		return nil, err
	}
	req.complete(&n.Image)
	if err := n.insert(tx); err != nil {
		return nil, err
	}
	return &CreateImageResponse{viewImage(tx, &n.Image)}, nil
}

// checkWay makes sure that the request asks for an image in one way, with all
// that belongs to it.
func (req *CreateImageRequest) checkWay() error {
	var ways []string
	for _, way := range []struct {
		parameter string
		is        bool
	}{
		{"VmId", req.VmId != ""},
		{"SourceImageId", req.SourceImageId != ""},
		{"SourceRegionName", req.SourceRegionName != ""},
		{"BlockDeviceMappings", len(req.BlockDeviceMappings) > 0},
		{"RootDeviceName", req.RootDeviceName != ""},
		{"Architecture", req.Architecture != ""},
		{"FileLocation", req.FileLocation != ""},
		{"NoReboot", req.NoReboot},
	} {
		if way.is {
			ways = append(ways, way.parameter)
		}
	}
	together := func(allowed ...string) bool {
		return !slices.ContainsFunc(ways, func(p string) bool { return !slices.Contains(allowed, p) })
	}
	missing := func(parameter string) error {
		return apierror.MissingParameter.Errorf("%s is required with %s.", parameter, ways[0])
	}
	switch {
	case len(ways) == 0:
		return apierror.MissingParameter.Errorf("One of VmId, SourceImageId, BlockDeviceMappings and FileLocation is required.")
	case together("VmId", "NoReboot"):
		if req.VmId == "" {
			return missing("VmId")
		}
	case together("SourceImageId", "SourceRegionName"):
		if req.SourceImageId == "" {
			return missing("SourceImageId")
		}
		if req.SourceRegionName == "" {
			return missing("SourceRegionName")
		}
	case together("BlockDeviceMappings", "RootDeviceName", "Architecture"):
		if len(req.BlockDeviceMappings) == 0 {
			return missing("BlockDeviceMappings")
		}
		if req.RootDeviceName == "" {
			return missing("RootDeviceName")
		}
	case together("FileLocation"):
	default:
		return apierror.InvalidParameterSet.Errorf(
			"%s cannot be given together. Give the parameters of one source: a VM (VmId), another image (SourceImageId), "+
				"snapshots (BlockDeviceMappings) or a file (FileLocation).",
			strings.Join(ways, " and "))
	}
	return nil
}

// complete puts what every way to make an image leaves to the caller in its
// place.
func (req *CreateImageRequest) complete(i *Image) {
	if req.Description != "" {
		i.Description = req.Description
	}
	if req.ImageName != "" {
		i.ImageName = string(req.ImageName)
	}
	if len(req.ProductCodes) > 0 {
		i.ProductCodes = codesOf(req.ProductCodes)
	}
	if len(i.ProductCodes) == 0 {
		i.ProductCodes = []string{"0001"}
	}
	if len(req.BootModes) > 0 {
		i.BootModes = nil
		for _, mode := range req.BootModes {
			if !slices.Contains(i.BootModes, mode) {
				i.BootModes = append(i.BootModes, mode)
			}
		}
	}
	if len(i.BootModes) == 0 {
		i.BootModes = []BootMode{BootLegacy}
	}
	if req.TpmMandatory != nil {
		i.TpmMandatory = *req.TpmMandatory
	}
}

// newImage is an image that is about to be made, and the snapshots that are
// taken for it: of one instant, each for a mapping.
type newImage struct {
	Image
	taken  []newSnapshot
	of     []int // the mapping that each is for
	off    id.Vm // the VM that is off at that instant; empty: none needs be
	public bool  // whether all accounts may use it, as they may its source
}

// take adds a mapping whose snapshot is taken for the image.
func (n *newImage) take(mapping BlockDeviceMappingImage, s newSnapshot) {
	n.taken, n.of = append(n.taken, s), append(n.of, len(n.BlockDeviceMappings))
	n.BlockDeviceMappings = append(n.BlockDeviceMappings, mapping)
}

// insert makes the image. It waits for the snapshots that are taken for it.
func (n *newImage) insert(tx *resource.Tx) error {
	n.CreationDate = api.At(tx.Now())
	event := ImageRegistered
	if len(n.taken) > 0 {
		event = imageCreated
		if err := takeSnapshots(tx, n.off, n.taken...); err != nil {
			return err
		}
	}
	for k, s := range n.taken {
		n.BlockDeviceMappings[n.of[k]].Bsu.SnapshotId = s.SnapshotId
		n.Snapshots = append(n.Snapshots, s.SnapshotId)
	}
	if err := resource.Transition(tx, Images, &n.Image, event); err != nil {
		return err
	}
	if n.ImageName == "" {
		n.ImageName = string(n.ImageId)
	}
	if err := sharedImages.permit(tx, &n.Image, PermissionsOnResource{GlobalPermission: n.public}); err != nil {
		return err
	}
	return Images.Put(tx, &n.Image)
}

// imageOf is an image of a VM.
func imageOf(tx *resource.Tx, vmID id.Vm, noReboot bool) (*newImage, error) {
	vm, err := Vms.Get(tx, vmID)
	if err != nil {
		return nil, err
	}
	if vm.State != VmRunning && vm.State != VmStopped {
		return nil, apierror.InvalidVmState.Errorf("The VM %s is %s, neither running nor stopped.", vmID, vm.State)
	}
	n := &newImage{Image: Image{
		Architecture: Architecture(vm.Architecture), RootDeviceName: string(RootDevice), ProductCodes: vm.ProductCodes,
		BootModes: []BootMode{vm.BootMode},
	}}
	for v := range volumesOf(tx, vmID) {
		link := v.LinkedVolumes[0]
		if link.State == VolumeDetaching {
			continue
		}
		s, err := snapshotOf(tx, v.VolumeId)
		if err != nil {
			return nil, err
		}
		mapping := BlockDeviceMappingImage{DeviceName: DeviceName(link.DeviceName), Bsu: BsuToCreate{
			DeleteOnVmDeletion: link.DeleteOnVmDeletion, VolumeSize: v.Size, VolumeType: v.VolumeType,
		}}
		if v.VolumeType == VolumeIo1 {
			mapping.Bsu.Iops = v.Iops
		}
		n.take(mapping, s)
	}
	if !slices.ContainsFunc(n.BlockDeviceMappings, func(m BlockDeviceMappingImage) bool { return m.DeviceName == RootDevice }) {
		return nil, apierror.InvalidVmState.Errorf("The VM %s has no root device.", vmID)
	}
	if !noReboot && vm.State == VmRunning {
		n.off = vmID
		return n, rebootVm(tx, vm)
	}
	return n, nil
}

// copyOfImage is a copy of an image, with snapshots of its own.
func copyOfImage(tx *resource.Tx, source id.Image) (*newImage, error) {
	owner, i, err := launchable(tx, source)
	if err != nil {
		return nil, err
	}
	n := &newImage{Image: Image{
		Architecture: i.Architecture, BootModes: i.BootModes, Description: i.Description, ProductCodes: i.ProductCodes,
		RootDeviceName: i.RootDeviceName, SecureBoot: i.SecureBoot, TpmMandatory: i.TpmMandatory,
	}, public: i.PermissionsToLaunch.GlobalPermission}
	for _, mapping := range i.BlockDeviceMappings {
		of := mapping.Bsu.SnapshotId
		if of == "" {
			n.BlockDeviceMappings = append(n.BlockDeviceMappings, mapping)
			continue
		}
		from := tx.In(i.snapshotOwner(owner, of))
		s, err := Snapshots.Get(from, of)
		if err != nil {
			return nil, err
		}
		copied, err := copyFrom(from, s)
		if err != nil {
			return nil, err
		}
		n.take(mapping, copied)
	}
	return n, nil
}

var ephemeralNames = regexp.MustCompile(`^ephemeral[0-9]{1,2}$`)

// register is an image of snapshots that are there already.
func (req *CreateImageRequest) register(tx *resource.Tx) (*newImage, error) {
	if req.RootDeviceName != RootDevice {
		return nil, apierror.InvalidDeviceName.Errorf("The RootDeviceName '%s' is not %s.", req.RootDeviceName, RootDevice)
	}
	n := &newImage{Image: Image{Architecture: req.Architecture, RootDeviceName: string(req.RootDeviceName)}}
	if n.Architecture == "" {
		n.Architecture = I386
	}
	seen := map[DeviceName]bool{}
	for _, mapping := range req.BlockDeviceMappings {
		switch {
		case mapping.DeviceName == "":
			return nil, apierror.MissingParameter.Errorf("DeviceName is required in each of BlockDeviceMappings.")
		case seen[mapping.DeviceName]:
			return nil, apierror.InvalidMappings.Errorf("The DeviceName %s is given twice.", mapping.DeviceName)
		}
		seen[mapping.DeviceName] = true
		registered, err := n.complete(tx, mapping)
		if err != nil {
			return nil, err
		}
		n.BlockDeviceMappings = append(n.BlockDeviceMappings, registered)
	}
	if !slices.ContainsFunc(n.BlockDeviceMappings, func(m BlockDeviceMappingImage) bool {
		return m.DeviceName == req.RootDeviceName && m.Bsu.SnapshotId != ""
	}) {
		return nil, apierror.InvalidRootMapping.Errorf(
			"None of BlockDeviceMappings has the root device %s as its DeviceName, with a SnapshotId.", req.RootDeviceName)
	}
	return n, nil
}

// complete completes a mapping that was asked for.
func (n *newImage) complete(tx *resource.Tx, m BlockDeviceMappingImage) (BlockDeviceMappingImage, error) {
	if m.VirtualDeviceName != "" {
		m.Bsu.DeleteOnVmDeletion = false // which is there unasked
		if !ephemeralNames.MatchString(m.VirtualDeviceName) || m.Bsu != (BsuToCreate{}) {
			return m, apierror.InvalidVirtualName.Errorf(
				"The VirtualDeviceName '%.100s' is not of the form ephemeralN, or it has a volume.", m.VirtualDeviceName)
		}
		return m, nil
	}
	least := 0
	if of := m.Bsu.SnapshotId; of != "" {
		owner, s, err := sharedSnapshots.find(tx, of)
		if err != nil {
			return m, err
		}
		if s.State != SnapshotCompleted {
			return m, apierror.InvalidState.Errorf("The snapshot %s is %s, not completed.", of, s.State)
		}
		if least = s.VolumeSize; owner.Account() == tx.Account() {
			n.Snapshots = append(n.Snapshots, of)
		} else {
			n.Lent = append(n.Lent, lentSnapshot{of, id.Account(owner.Account())})
		}
	}
	return m, m.Bsu.complete(m.DeviceName, least)
}

// complete checks what a volume shall be that is at least so large, and fills in
// what was not given.
func (b *BsuToCreate) complete(device DeviceName, least int) error {
	if b.VolumeType == "" {
		b.VolumeType = VolumeStandard
	}
	switch {
	case b.VolumeSize == 0 && least == 0:
		return apierror.MissingParameter.Errorf("VolumeSize is required for %s, whose volume has no snapshot.", device)
	case b.VolumeSize == 0:
		b.VolumeSize = least
	case b.VolumeSize < least:
		return apierror.VolumeTooSmall.Errorf(
			"The VolumeSize (%d) of %s is less than the size (%d) of the snapshot %s.", b.VolumeSize, device, least, b.SnapshotId)
	}
	p := VolumeUpdateParameters{Iops: b.Iops, Size: b.VolumeSize, VolumeType: b.VolumeType}
	return p.complete()
}
