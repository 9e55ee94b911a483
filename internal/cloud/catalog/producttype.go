package catalog

import "github.com/bastide-cloud/bastide/internal/api"

// ProductType is what the software of an image is billed as.
type ProductType struct {
	ProductTypeId string // The ID of the product type.
	Description   string // The description of the product type.
	Vendor        string // The vendor of the product; empty if there is none.
}

// ReadProductTypesRequest lists the product types.
type ReadProductTypesRequest struct {
	Filters *FiltersProductType // One or more filters.
	api.Page
}

// FiltersProductType selects product types.
type FiltersProductType struct {
	ProductTypeIds []string // The IDs of the product types.
}

// productTypes are those seen on the real service.
var productTypes = []ProductType{
	{ProductTypeId: "0001", Description: "Linux"},
	{ProductTypeId: "0002", Description: "Windows", Vendor: "Microsoft"},
}

func readProductTypes() api.Action {
	return api.Read[ReadProductTypesRequest](api.Fixed("ProductType", "ProductTypes", productTypes)).WithAuth(api.Open)
}
