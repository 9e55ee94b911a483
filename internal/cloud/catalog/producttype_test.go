package catalog

import (
	"slices"
	"testing"
)

func TestReadProductTypes(t *testing.T) {
	w := newWorld(t, NewRegion("home", "cloud.test"), nil, nil)
	type answer struct{ ProductTypes []ProductType }
	all := ask[answer](w, nobody, "ReadProductTypes", "").ProductTypes
	if want := []ProductType{{"0001", "Linux", ""}, {"0002", "Windows", "Microsoft"}}; !slices.Equal(all, want) {
		t.Errorf("product types %v, want %v", all, want)
	}
	one := ask[answer](w, nobody, "ReadProductTypes", `{"Filters":{"ProductTypeIds":["0002"]}}`).ProductTypes
	if !slices.Equal(one, all[1:]) {
		t.Errorf("the product type 0002 is %v, want %v", one, all[1:])
	}
}
