package compute

import (
	"regexp"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Image is what a [Vm] is made from: its volumes and how it boots. It is also
// called an OUTSCALE machine image (OMI).
type Image struct {
	AccountAlias        string                    // The alias of the owner, if there is one.
	AccountId           id.Account                `json:"-" ref:"-"` // The account ID of the owner.
	Architecture        Architecture              // The architecture of the image.
	BlockDeviceMappings []BlockDeviceMappingImage // The volumes that a VM made from the image gets.
	BootModes           []BootMode                // How a VM made from the image may boot.
	CreationDate        api.DateTime              // When the image was created.
	Description         string                    // The description of the image.
	// Where the image is kept: the owner and the name.
	FileLocation        string                `json:"-"`
	ImageId             id.Image              // The ID of the image.
	ImageName           string                // The name of the image, unique in the account.
	ImageType           string                `json:"-"` // The type of the image: `machine`.
	PermissionsToLaunch PermissionsOnResource // Who may make VMs from the image.
	ProductCodes        []string              // What the software in the image is billed as.
	RootDeviceName      string                // The name of the root device.
	RootDeviceType      string                `json:"-"` // The type of the root device: `bsu`.
	// Whether secure boot is on in VMs made from the image.
	SecureBoot bool
	// The state of the image. It is `pending` until its snapshots are completed.
	State        ImageState
	StateComment StateComment // What led to the state.
	Tags         []api.Tag    // The tags of the image.
	// Whether VMs made from the image need a virtual Trusted Platform Module.
	TpmMandatory bool

	// Snapshots are those of the mappings that are the account's own. They
	// cannot be deleted before the image. Lent are the others.
	Snapshots []id.Snapshot  `wire:"-"`
	Lent      []lentSnapshot `wire:"-"`

	// What filters ask for and nobody is shown.
	ProductCodeNames    []string `json:"-" wire:"-"`
	RootDeviceTypes     []string `json:"-" wire:"-"`
	Hypervisors         []string `json:"-" wire:"-"`
	VirtualizationTypes []string `json:"-" wire:"-"`
}

// lentSnapshot is a snapshot of another account, which shared it when the image
// was made.
type lentSnapshot struct {
	SnapshotId id.Snapshot `ref:"-"`
	AccountId  id.Account  `ref:"-"`
}

// BlockDeviceMappingImage is a volume that a VM made from an image gets.
type BlockDeviceMappingImage struct {
	Bsu        BsuToCreate // The volume.
	DeviceName DeviceName  // The name of the device: `/dev/sda1` for the root device.
	// The name of an ephemeral device, of the form `ephemeralN`. It has no volume.
	VirtualDeviceName string `wire:"omitempty"`
}

// BsuToCreate says what a new volume is like.
type BsuToCreate struct {
	// Whether the volume is deleted when the VM is. By default, true.
	DeleteOnVmDeletion bool `default:"true"`
	// The number of operations per second, for `io1`, which needs it: from 100 to 13000, and at
	// most 300 for each gibibyte.
	Iops int `wire:"omitempty"`
	// The ID of the snapshot that the volume is made from.
	SnapshotId id.Snapshot `ref:"-"`
	// The size of the volume, in gibibytes (GiB): at least that of the snapshot, which is the
	// default.
	VolumeSize int `wire:"omitempty"`
	// The type of the volume. By default, `standard`.
	VolumeType VolumeType `wire:"omitempty"`
}

// StateComment is what led to the state of an image.
type StateComment struct {
	StateCode    string `wire:"omitempty"` // The code of the change of state.
	StateMessage string `wire:"omitempty"` // What happened, for people.
}

// Images are the images of the region.
var Images = &resource.Kind[Image, id.Image]{
	Name:     "Image",
	Tag:      "image",
	NotFound: apierror.ImageNotFound,
	InUse:    apierror.InUse,
	Unique:   []string{"ImageName"},
	Conflict: apierror.ImageNameTaken,
	Life:     imageLife,
}

// sharedImages are the images with those of others that may be used.
var sharedImages = sharing[Image, id.Image]{
	Kind:        Images,
	id:          func(i *Image) id.Image { return i.ImageId },
	permissions: func(i *Image) *PermissionsOnResource { return &i.PermissionsToLaunch },
	private:     func(i *Image) { i.Tags = nil },
}

// Architecture is the architecture of a machine.
type Architecture string

// The architectures.
const (
	I386 Architecture = "i386"
	X86  Architecture = "x86_64"
)

// Literals implements [api.Enum].
func (Architecture) Literals() []string { return []string{"i386", "x86_64"} }

// ImageName is a name of 3 to 128 letters, digits, spaces and any of `_()/.-`.
type ImageName string

var imageNames = regexp.MustCompile(`^[A-Za-z0-9_ ()/.-]{3,128}$`)

// Check reports a text that no image can be called. Clients send an empty one
// for none.
func (n ImageName) Check() error {
	if n != "" && !imageNames.MatchString(string(n)) {
		return apierror.InvalidImageName.Errorf(
			"'%.200s' is not the name of an image: 3 to 128 letters, digits, spaces and any of _ - . / ( and ).", string(n))
	}
	return nil
}

// ProductCode is what software is billed as: the ID of a product type.
type ProductCode string

var productCodes = regexp.MustCompile(`^([0-9]{4}|pty-[0-9a-f]{8})$`)

// Check reports a text that is no product code.
func (c ProductCode) Check() error {
	if !productCodes.MatchString(string(c)) {
		return apierror.InvalidValue.Errorf("'%.100s' is not a product code such as 0001.", string(c))
	}
	return nil
}

// codesOf are product codes as an image has them, each once.
func codesOf(codes []ProductCode) (all []string) {
	seen := map[ProductCode]bool{}
	for _, c := range codes {
		if !seen[c] {
			seen[c] = true
			all = append(all, string(c))
		}
	}
	return all
}

// ImageState is the state of an image.
type ImageState string

// The states of an image.
const (
	ImagePending   ImageState = "pending"
	ImageAvailable ImageState = "available"
	ImageFailed    ImageState = "failed"
)

// Literals implements [api.Enum].
func (ImageState) Literals() []string { return []string{"pending", "available", "failed"} }

// The events of an image. It is registered if its snapshots are there already.
const (
	imageCreated    lifecycle.Event[ImageState] = "created"
	ImageRegistered lifecycle.Event[ImageState] = "registered"
	imageCompleted  lifecycle.Event[ImageState] = "completed"
	imageBroken     lifecycle.Event[ImageState] = "failed"
	imageDeleted    lifecycle.Event[ImageState] = "deleted"
)

// imageLife is the life of an image. A deleted one is gone at once.
var imageLife = lifecycle.Table[ImageState]{
	"":             {imageCreated: ImagePending, ImageRegistered: ImageAvailable},
	ImagePending:   {imageCompleted: ImageAvailable, imageBroken: ImageFailed, imageDeleted: ""},
	ImageAvailable: {imageDeleted: ""},
	ImageFailed:    {imageDeleted: ""},
}

func imageActions(region Region) []api.Action {
	r := api.NewResource(Images, viewImage)
	return []api.Action{
		api.DoPrepared("Image", region.readManifest, region.createImage),
		api.Read[ReadImagesRequest](r.Also(sharedImages.others)),
		api.Reaching(api.Do("Image", updateImage), func(req *UpdateImageRequest) []string {
			if req.PermissionsToLaunch == nil {
				return nil
			}
			return sharedImages.reached(*req.PermissionsToLaunch)
		}),
		api.Command("Image", deleteImage),
	}
}

func viewImage(tx *resource.Tx, i *Image) *Image {
	i.AccountId = id.Account(tx.Account())
	owner := i.AccountAlias
	if owner == "" {
		owner = tx.Account()
	}
	i.FileLocation = owner + "/" + i.ImageName
	i.ImageType, i.RootDeviceType = "machine", "bsu"
	i.RootDeviceTypes, i.Hypervisors, i.VirtualizationTypes = []string{"bsu", "ebs"}, []string{"xen"}, []string{"hvm"}
	for _, p := range productTypesOf(tx, i.ProductCodes) {
		i.ProductCodeNames = append(i.ProductCodeNames, p.Description)
	}
	return i
}

// productTypesOf are the product types that product codes stand for, as far as
// the region knows them.
func productTypesOf(tx *resource.Tx, codes []string) (all []ProductType) {
	for _, code := range codes {
		if i := slices.IndexFunc(productTypes, func(p ProductType) bool { return string(p.ProductTypeId) == code }); i >= 0 {
			all = append(all, productTypes[i])
		} else if p, err := ProductTypes.Get(tx, id.ProductType(code)); err == nil {
			all = append(all, *p)
		}
	}
	return all
}

// launchable finds an image that the account may make VMs from: one of its own,
// or one that it shares in. The transaction is over the account that has it, and
// so over the one that [Image.snapshotOwner] goes by.
func launchable(tx *resource.Tx, imageID id.Image) (owner *resource.Tx, i *Image, err error) {
	owner, i, err = sharedImages.find(tx, imageID)
	if err == nil && i.State != ImageAvailable {
		err = apierror.InvalidImageState.Errorf("The image %s is %s, not available.", imageID, i.State)
	}
	return owner, i, err
}

// snapshotOwner is the account that has a snapshot of the image.
func (i *Image) snapshotOwner(owner *resource.Tx, snapshot id.Snapshot) string {
	for _, lent := range i.Lent {
		if lent.SnapshotId == snapshot {
			return string(lent.AccountId)
		}
	}
	return owner.Account()
}

// ownImage finds an image of the account to be changed by its owner.
func ownImage(tx *resource.Tx, imageID id.Image) (*Image, error) {
	i, err := Images.Get(tx, imageID)
	if err == nil {
		return i, nil
	}
	if owner, _, found := sharedImages.find(tx, imageID); found == nil {
		return nil, apierror.NotAuthorized.Errorf("The image %s belongs to the account %s: copy it first.", imageID, owner.Account())
	}
	return nil, err
}

// snapshotEnded moves the images that wait for a snapshot, which is completed or
// failed, to their next state.
func snapshotEnded(tx *resource.Tx, snapshot id.Snapshot) error {
	for i := range Images.Of(tx, snapshot) {
		event, comment, err := i.awaited(tx)
		if err != nil {
			return err
		}
		if event == "" || !resource.Allows(Images, i, event) {
			continue
		}
		i.StateComment = comment
		if err := resource.Transition(tx, Images, i, event); err != nil {
			return err
		}
	}
	return nil
}

// awaited returns what follows for an image from the states of its snapshots, and
// why. An empty event: none of them has failed, and one has not ended.
func (i *Image) awaited(tx *resource.Tx) (event lifecycle.Event[ImageState], comment StateComment, err error) {
	event = imageCompleted
	for _, of := range i.Snapshots {
		s, err := Snapshots.Get(tx, of)
		switch {
		case err != nil:
			return "", comment, err
		case s.State == SnapshotError:
			event, comment = imageBroken, StateComment{"Server.InternalError", "The snapshot " + string(of) + " has failed."}
		case s.State != SnapshotCompleted && event == imageCompleted:
			event = ""
		}
	}
	return event, comment, nil
}

// ReadImagesRequest asks for images: those of the account, then those of others
// that it may make VMs from.
type ReadImagesRequest struct {
	Filters *FiltersImage // Which images to list; all of them if absent.
	api.Page
}

// FiltersImage selects images.
type FiltersImage struct {
	AccountAliases []string       // The aliases of the owners.
	AccountIds     []id.Account   // The account IDs of the owners.
	Architectures  []Architecture // The architectures of the images.
	// Whether the volumes are deleted when the VMs are.
	BlockDeviceMappingDeleteOnVmDeletion *bool `path:"BlockDeviceMappings.Bsu.DeleteOnVmDeletion"`
	// The names of the devices.
	BlockDeviceMappingDeviceNames []string
	// The IDs of the snapshots that the volumes are made from.
	BlockDeviceMappingSnapshotIds []id.Snapshot `path:"BlockDeviceMappings.Bsu.SnapshotId"`
	// The sizes of the volumes, in gibibytes (GiB).
	BlockDeviceMappingVolumeSizes []int `path:"BlockDeviceMappings.Bsu.VolumeSize"`
	// The types of the volumes.
	BlockDeviceMappingVolumeTypes []VolumeType `path:"BlockDeviceMappings.Bsu.VolumeType"`
	BootModes                     []BootMode   // How VMs made from the images may boot.
	Descriptions                  []string     // The descriptions of the images.
	// Where the images are kept: the owner and the name.
	FileLocations []string
	// The hypervisors of the images: always `xen`.
	Hypervisors []string
	ImageIds    []id.Image // The IDs of the images.
	// The names of the images, in which `*` stands for any text.
	ImageNames []string `match:"glob"`
	// The IDs of accounts that may make VMs from the images.
	PermissionsToLaunchAccountIds []id.Account
	// Whether everybody may make VMs from the images.
	PermissionsToLaunchGlobalPermission *bool
	// The descriptions of the product types that the software is billed as.
	ProductCodeNames []string
	// What the software in the images is billed as.
	ProductCodes    []string
	RootDeviceNames []string // The names of the root devices.
	// The types of the root devices: `bsu`, which is also called `ebs`.
	RootDeviceTypes []string
	// Whether secure boot is on in VMs made from the images.
	SecureBoot *bool
	States     []ImageState // The states of the images.
	// Whether VMs made from the images need a virtual Trusted Platform Module.
	TpmMandatory *bool
	// The types of virtualization: always `hvm`.
	VirtualizationTypes []string
	api.TagFilters
}

// UpdateImageRequest changes an image of the account: one or more of who may make
// VMs from it, its description and its product codes.
type UpdateImageRequest struct {
	Description *string  // The new description.
	ImageId     id.Image `api:"required"` // The ID of the image.
	// The change of who may make VMs from the image: Additions or Removals. An account need not
	// exist.
	PermissionsToLaunch *PermissionsOnResourceCreation
	// All product codes that the image has from now on.
	ProductCodes []ProductCode
}

// UpdateImageResponse shows the image.
type UpdateImageResponse struct{ Image *Image }

func updateImage(tx *resource.Tx, req *UpdateImageRequest) (*UpdateImageResponse, error) {
	i, err := ownImage(tx, req.ImageId)
	if err != nil {
		return nil, err
	}
	if req.PermissionsToLaunch == nil && req.Description == nil && req.ProductCodes == nil {
		return nil, apierror.MissingParameter.Errorf("One of PermissionsToLaunch, Description and ProductCodes is required.")
	}
	if req.PermissionsToLaunch != nil {
		to, err := req.PermissionsToLaunch.apply(i.PermissionsToLaunch)
		if err != nil {
			return nil, apierror.In("PermissionsToLaunch", err)
		}
		if err := sharedImages.permit(tx, i, to); err != nil {
			return nil, err
		}
	}
	if req.Description != nil {
		i.Description = *req.Description
	}
	if req.ProductCodes != nil {
		i.ProductCodes = codesOf(req.ProductCodes)
	}
	if err := Images.Put(tx, i); err != nil {
		return nil, err
	}
	return &UpdateImageResponse{viewImage(tx, i)}, nil
}

// DeleteImageRequest deletes an image of the account. Its snapshots, and the VMs
// that were made from it, stay.
type DeleteImageRequest struct {
	ImageId id.Image `api:"required"` // The ID of the image to delete.
}

func deleteImage(tx *resource.Tx, req *DeleteImageRequest) error {
	i, err := ownImage(tx, req.ImageId)
	if err != nil {
		return err
	}
	if err := sharedImages.permit(tx, i, PermissionsOnResource{}); err != nil {
		return err
	}
	return Images.Delete(tx, i)
}
