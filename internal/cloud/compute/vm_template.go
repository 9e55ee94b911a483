package compute

import (
	"fmt"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// VmTemplate is what the VMs of a group are made like.
type VmTemplate struct {
	CpuCores       int          `api:"required"` // The number of vCores of each VM.
	CpuGeneration  string       `api:"required"` // The generation of the processors.
	CpuPerformance Performance  // The performance of the VMs.
	CreationDate   api.DateTime // When the template was created.
	Description    string       // The description of the template.
	// The ID of the image that the VMs are made from.
	ImageId        id.Image      `api:"required" ref:"-"`
	KeypairName    string        // The name of the keypair for the VMs.
	Ram            int           `api:"required"` // The memory of each VM, in gibibytes (GiB).
	Tags           []api.Tag     // The tags of the template.
	VmTemplateId   id.VmTemplate `api:"required"` // The ID of the template.
	VmTemplateName string        `api:"required"` // The name of the template.
}

// VmTemplates are the templates of the region. A group of VMs refers to its
// template, which keeps it.
var VmTemplates = &resource.Kind[VmTemplate, id.VmTemplate]{Name: "VmTemplate", InUse: apierror.InUse}

// maxVmTemplates is how many templates an account can have. No quota shows it.
const maxVmTemplates = 50

func vmTemplateActions() []api.Action {
	r := api.NewResource(VmTemplates, api.Plain[VmTemplate])
	return []api.Action{
		api.Create(r, createVmTemplate),
		api.Read[ReadVmTemplatesRequest](r),
		api.Update(r, updateVmTemplate),
		api.Delete[DeleteVmTemplateRequest](r),
	}
}

// CreateVmTemplateRequest makes a template for groups of VMs.
type CreateVmTemplateRequest struct {
	CpuCores VmCores `api:"required"` // The number of vCores of each VM.
	// The generation of the processors, such as `v4`.
	CpuGeneration  GenerationName `api:"required"`
	CpuPerformance Performance    `default:"high"` // The performance of the VMs.
	Description    string         // A description of the template.
	ImageId        id.Image       `api:"required"` // The ID of the image to make the VMs from.
	KeypairName    string         // The name of the keypair for the VMs.
	Ram            VmRam          `api:"required"` // The memory of each VM, in gibibytes (GiB).
	Tags           []api.Tag      // One or more tags for the template.
	// A name for the template, of 1 to 255 characters.
	VmTemplateName Name `api:"required"`
}

// VmCores is a number of vCores. The most is what VMs with the largest flexible
// GPU of the catalogue can have.
type VmCores int

// Bounds implements [api.Bounded].
func (VmCores) Bounds() (low, high int64) { return 1, 130 }

// VmRam is an amount of memory in GiB, bounded like vCores.
type VmRam int

// Bounds implements [api.Bounded].
func (VmRam) Bounds() (low, high int64) { return 1, 2300 }

// GenerationName is a generation of processors as the types of VMs name it: v4.
type GenerationName string

// Check reports a text that is no generation.
func (g GenerationName) Check() error {
	low, high := CpuGeneration(0).Bounds()
	for n := low; n <= high; n++ {
		if string(g) == fmt.Sprint("v", n) {
			return nil
		}
	}
	return apierror.InvalidValue.Errorf("'%.100s' is no generation of processors: those are v%d to v%d.", string(g), low, high)
}

func createVmTemplate(tx *resource.Tx, req *CreateVmTemplateRequest) (*VmTemplate, error) {
	if have := VmTemplates.Count(tx); have >= maxVmTemplates {
		return nil, apierror.TooManyVms.Errorf("The account has %d VM templates, which is the maximum.", maxVmTemplates)
	}
	if _, _, err := launchable(tx, req.ImageId); err != nil {
		return nil, err
	}
	if req.KeypairName != "" {
		if _, err := keypairNamed(tx, req.KeypairName); err != nil {
			return nil, err
		}
	}
	tags, err := withTags(nil, req.Tags)
	return &VmTemplate{
		CpuCores: int(req.CpuCores), CpuGeneration: string(req.CpuGeneration), CpuPerformance: req.CpuPerformance,
		CreationDate: api.At(tx.Now()), Description: req.Description, ImageId: req.ImageId, KeypairName: req.KeypairName,
		Ram: int(req.Ram), Tags: tags, VmTemplateName: string(req.VmTemplateName),
	}, err
}

// ReadVmTemplatesRequest lists templates.
type ReadVmTemplatesRequest struct {
	Filters *FiltersVmTemplate // Which templates to list; all of them if absent.
}

// FiltersVmTemplate selects templates.
type FiltersVmTemplate struct {
	CpuCores        []int           // The numbers of vCores of each VM.
	CpuGenerations  []string        // The generations of the processors.
	CpuPerformances []string        // The performances of the VMs.
	Descriptions    []string        // The descriptions of the templates.
	ImageIds        []id.Image      // The IDs of the images that the VMs are made from.
	KeypairNames    []string        // The names of the keypairs that open the VMs.
	Rams            []int           // The amounts of memory of each VM, in gibibytes (GiB).
	VmTemplateIds   []id.VmTemplate // The IDs of the templates.
	VmTemplateNames []string        // The names of the templates.
	api.TagFilters
}

// UpdateVmTemplateRequest changes what a template is called and said to be. What
// VMs are made like stays.
type UpdateVmTemplateRequest struct {
	Description    *string       // A new description of the template.
	Tags           *[]api.Tag    // The new tags of the template, in place of those that it has.
	VmTemplateId   id.VmTemplate `api:"required"` // The ID of the template.
	VmTemplateName Name          // A new name for the template, of 1 to 255 characters.
}

func updateVmTemplate(_ *resource.Tx, v *VmTemplate, req *UpdateVmTemplateRequest) (err error) {
	if req.Description != nil {
		v.Description = *req.Description
	}
	if req.Tags != nil {
		v.Tags, err = withTags(nil, *req.Tags)
	}
	if req.VmTemplateName != "" {
		v.VmTemplateName = string(req.VmTemplateName)
	}
	return err
}

// DeleteVmTemplateRequest deletes a template that no group of VMs uses.
type DeleteVmTemplateRequest struct {
	VmTemplateId id.VmTemplate `api:"required"` // The ID of the template.
}
