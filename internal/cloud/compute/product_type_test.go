package compute

import (
	"slices"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestProductTypes(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, map[string]int{"pty_limit": 2})
	made := l.one("ProductType", alice, "CreateProductType", object{"Description": "Own", "Vendor": "Alice"})
	own := made["ProductTypeId"].(string)
	l.call(alice, "CreateProductType", object{"Description": ""})
	l.refused(apierror.TooManyVms, alice, "CreateProductType", object{"Description": "Own"})
	l.call(bob, "CreateProductType", object{"Description": "Bob's"})
	for name, test := range map[string]struct {
		account string
		filters object
		want    []string
	}{
		"a stranger":            {"", nil, []string{"Linux", "Windows"}},
		"an account":            {alice, nil, []string{"Linux", "Windows", "Own", ""}},
		"another":               {bob, nil, []string{"Linux", "Windows", "Bob's"}},
		"both by id":            {alice, object{"ProductTypeIds": []any{own, "0002"}}, []string{"Windows", "Own"}},
		"somebody else's by id": {bob, object{"ProductTypeIds": []any{own}}, []string{}},
	} {
		if got := l.texts("Description", "ProductTypes", test.account, "ReadProductTypes", test.filters); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	var paged []any
	for request := (object{"ResultsPerPage": 1}); ; {
		answer := l.call(alice, "ReadProductTypes", request)
		paged = append(paged, answer["ProductTypes"].([]any)...)
		if request["NextPageToken"] = answer["NextPageToken"]; answer["NextPageToken"] == nil {
			break
		}
	}
	if len(paged) != 4 {
		t.Errorf("page by page there are %v", paged)
	}
}

func TestDeleteProductType(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	own := l.one("ProductType", alice, "CreateProductType", object{"Description": "Own"})["ProductTypeId"].(string)
	only := object{"ProductTypeId": own}
	l.refused(apierror.ObjectNotFound, bob, "DeleteProductType", only)
	l.refused(apierror.InvalidID, alice, "DeleteProductType", object{"ProductTypeId": "0001"})
	l.image(alice, "0001")
	image := l.image(alice, "0001", own)
	l.refused(apierror.InUse, alice, "DeleteProductType", only)
	l.call(alice, "DeleteProductType", object{"ProductTypeId": own, "Force": true})
	l.refused(apierror.ObjectNotFound, alice, "DeleteProductType", only)
	l.view(alice, func(tx *resource.Tx) {
		if kept, err := Images.Get(tx, image); err != nil || !slices.Contains(kept.ProductCodes, own) {
			t.Errorf("the image has %v, %v", kept.ProductCodes, err)
		}
	})
	other := l.one("ProductType", alice, "CreateProductType", object{"Description": "Own"})["ProductTypeId"].(string)
	l.call(alice, "DeleteProductType", object{"ProductTypeId": other})
}
