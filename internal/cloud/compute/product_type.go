package compute

import (
	"iter"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ProductType is what the software of an image is billed as.
type ProductType struct {
	Description   string         // The description of the product type.
	ProductTypeId id.ProductType // The ID of the product type.
	Vendor        string         // The vendor of the product; empty if there is none.
}

// ProductTypes are the product types that accounts have of their own, beside the
// region's.
var ProductTypes = &resource.Kind[ProductType, id.ProductType]{
	Name:  "ProductType",
	InUse: apierror.InUse,
	// The catalogue has no code for too many of them: that of the VMs that are
	// billed by them is nearest.
	Quota: &resource.Quota{Name: "pty_limit", Code: apierror.TooManyVms},
}

// productTypes are everybody's: those seen on the real service, whose IDs are not
// of the form of the others.
var productTypes = []ProductType{
	{ProductTypeId: "0001", Description: "Linux"},
	{ProductTypeId: "0002", Description: "Windows", Vendor: "Microsoft"},
}

func productTypeActions() []api.Action {
	r := api.NewResource(ProductTypes, api.Plain[ProductType])
	all := api.Values("ProductType", "ProductTypes", allProductTypes)
	return []api.Action{
		api.Create(r, createProductType),
		api.Read[ReadProductTypesRequest](all).WithAuth(api.OpenOrKnown),
		api.Command("ProductType", deleteProductType),
	}
}

// allProductTypes lists the region's product types and then the account's own. A
// stranger has none.
func allProductTypes(tx *resource.Tx) iter.Seq2[api.Position, ProductType] {
	return func(yield func(api.Position, ProductType) bool) {
		for _, p := range productTypes { // which stand before whatever was made
			if !yield(api.Position{Name: string(p.ProductTypeId)}, p) {
				return
			}
		}
		if tx.Account() == "" {
			return
		}
		for seq, p := range ProductTypes.Each(tx, 0) {
			if !yield(api.Position{Seq: seq}, *p) {
				return
			}
		}
	}
}

// CreateProductTypeRequest makes a product type, which images of the account can
// be billed as.
type CreateProductTypeRequest struct {
	Description string `api:"required"` // The description of the product type.
	Vendor      string // The vendor of the product.
}

func createProductType(_ *resource.Tx, req *CreateProductTypeRequest) (*ProductType, error) {
	return &ProductType{Description: req.Description, Vendor: req.Vendor}, nil
}

// ReadProductTypesRequest lists the product types of the region and, for an
// account that proves who it is, its own.
type ReadProductTypesRequest struct {
	Filters *FiltersProductType // Which product types to list; all of them if absent.
	api.Page
}

// FiltersProductType selects product types.
type FiltersProductType struct {
	ProductTypeIds []string // The IDs of the product types.
}

// DeleteProductTypeRequest deletes a product type of the account.
type DeleteProductTypeRequest struct {
	// Whether the product type is deleted although images have it. They keep it. By default, it
	// stays.
	Force         bool
	ProductTypeId id.ProductType `api:"required"` // The ID of the product type.
}

func deleteProductType(tx *resource.Tx, req *DeleteProductTypeRequest) error {
	p, err := ProductTypes.Get(tx, req.ProductTypeId)
	if err != nil {
		return err
	}
	for image := range Images.All(tx) {
		if !req.Force && slices.Contains(image.ProductCodes, string(p.ProductTypeId)) {
			return apierror.InUse.Errorf("The image %s has the product type %s.", image.ImageId, p.ProductTypeId)
		}
	}
	return ProductTypes.Delete(tx, p)
}
