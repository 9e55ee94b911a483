package catalog

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// A parent has children: two kinds with quotas, of the account and per reference.
type parent struct{ ParentId parentID }

type child struct {
	ChildId  childID
	ParentId parentID
}

type (
	parentID string
	childID  string
)

func (parentID) Form() resource.Form {
	return resource.Form{Prefix: "parent-", Length: 8, Alphabet: resource.Hexadecimal}
}
func (childID) Form() resource.Form {
	return resource.Form{Prefix: "child-", Length: 8, Alphabet: resource.Hexadecimal}
}

// townKinds take the quotas of Nets and Subnets.
func townKinds() (*resource.Kind[parent, parentID], *resource.Kind[child, childID]) {
	return &resource.Kind[parent, parentID]{Name: "Parent", Quota: &resource.Quota{Name: "vpc_limit", Code: apierror.TooManyNets}},
		&resource.Kind[child, childID]{Name: "Child", Quota: &resource.Quota{Name: "subnet_limit", Code: apierror.TooManyNets, Per: "ParentId"}}
}

type quotasPage struct {
	QuotaTypes []struct {
		QuotaType string
		Quotas    []Quota
	}
	NextPageToken string
}

func (p quotasPage) names() []string {
	names := []string{}
	for _, group := range p.QuotaTypes {
		for _, q := range group.Quotas {
			names = append(names, group.QuotaType+" "+q.Name)
		}
	}
	return names
}

func TestReadQuotasListsThoseOfTheRealService(t *testing.T) {
	w := newTestRegion(t, NewRegion("home", "cloud.test"), Limits(), nil)
	answer := ask[quotasPage](t, w, alice, "ReadQuotas", "")
	if len(answer.QuotaTypes) != 1 || answer.QuotaTypes[0].QuotaType != "global" {
		t.Fatalf("the groups are %v, want only global", answer.QuotaTypes)
	}
	all := answer.QuotaTypes[0].Quotas
	if len(all) != 48 {
		t.Errorf("%d quotas, want 48", len(all))
	}
	sizes := map[string]int{}
	for _, q := range all {
		sizes[q.QuotaCollection]++
		if q.AccountId != "123456789012" || q.MaxValue <= 0 || q.UsedValue != 0 || q.ShortDescription == "" || q.Description == "" {
			t.Errorf("the quota %s is shown as %+v", q.Name, q)
		}
	}
	want := map[string]int{
		"Compute": 6, "Storage": 13, "Prefix Lists": 2, "Security Groups": 5, "VPC": 10, "VPN": 5, "LBU": 2, "Direct Link": 2, "Other": 3,
	}
	if !maps.Equal(sizes, want) {
		t.Errorf("the collections have %v quotas, want %v", sizes, want)
	}
}

func TestReadQuotasFilters(t *testing.T) {
	for name, tt := range map[string]struct {
		filters string
		want    []string
	}{
		"by name": {`{"QuotaNames":["lb_limit","no_limit"]}`, []string{"global lb_limit"}},
		"by collection": {`{"Collections":["LBU"]}`,
			[]string{"global lb_limit", "global lb_rules_limit", "one lb_listeners_limit", "two lb_listeners_limit"}},
		"by resource":        {`{"QuotaTypes":["one"]}`, []string{"one lb_listeners_limit"}},
		"by text":            {`{"ShortDescriptions":["VPC Limit"],"QuotaTypes":["global"]}`, []string{"global vpc_limit"}},
		"all must fit one":   {`{"QuotaNames":["vm_limit"],"Collections":["VPC"]}`, []string{}},
		"nothing, no groups": {`{"QuotaTypes":["three"]}`, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			listeners := resource.Meter{Quota: "lb_listeners_limit", Read: func(*resource.Tx) iter.Seq2[string, int] {
				return maps.All(map[string]int{"two": 2, "one": 1})
			}}
			w := newTestRegion(t, NewRegion("home", "cloud.test"), Limits(), nil, listeners)
			answer := ask[quotasPage](t, w, alice, "ReadQuotas", `{"Filters":`+tt.filters+`}`)
			if got := answer.names(); !slices.Equal(got, tt.want) {
				t.Errorf("the filters %s select %v, want %v", tt.filters, got, tt.want)
			}
			if len(tt.want) == 0 && len(answer.QuotaTypes) > 0 {
				t.Errorf("there are empty groups: %v", answer.QuotaTypes)
			}
		})
	}
}

func TestReadQuotasInPages(t *testing.T) {
	w := newTestRegion(t, NewRegion("home", "cloud.test"), Limits(), nil)
	want := ask[quotasPage](t, w, alice, "ReadQuotas", "").names()
	var got []string
	for token, more := "", true; more; {
		page := ask[quotasPage](t, w, alice, "ReadQuotas", fmt.Sprintf(`{"ResultsPerPage":7,"NextPageToken":%q}`, token))
		if len(page.names()) > 7 {
			t.Fatalf("a page has %d quotas, want at most 7", len(page.names()))
		}
		got = append(got, page.names()...)
		token = page.NextPageToken
		more = token != ""
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %v, want %v", got, want)
	}
}

func TestReadQuotasShowsWhatIsUsed(t *testing.T) {
	parents, children := townKinds()
	volumes := resource.Meter{Quota: "volume_size_limit",
		Read: func(*resource.Tx) iter.Seq2[string, int] { return maps.All(map[string]int{resource.Global: 70}) }}
	limits := map[string]int{"vpc_limit": 5, "subnet_limit": 3, "volume_size_limit": 100}
	w := newTestRegion(t, NewRegion("home", "cloud.test"), limits, []resource.Any{parents, children}, volumes)
	err := w.DB.Update(t.Context(), alice, func(tx *resource.Tx) error {
		big, small := &parent{}, &parent{}
		for _, v := range []*parent{big, small} {
			if err := parents.Insert(tx, v); err != nil {
				return err
			}
		}
		for _, in := range []parentID{small.ParentId, big.ParentId, big.ParentId, big.ParentId} {
			if err := children.Insert(tx, &child{ParentId: in}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Quota{
		"vpc_limit":         {UsedValue: 2, MaxValue: 5},
		"subnet_limit":      {UsedValue: 3, MaxValue: 3}, // of the parent that has most
		"volume_size_limit": {UsedValue: 70, MaxValue: 100},
		"igw_limit":         {UsedValue: 0, MaxValue: 0}, // no kind and no limit
	} {
		answer := ask[quotasPage](t, w, alice, "ReadQuotas", `{"Filters":{"QuotaNames":["`+name+`"]}}`)
		if len(answer.names()) != 1 {
			t.Fatalf("%s: answered %v", name, answer.names())
		}
		if got := answer.QuotaTypes[0].Quotas[0]; got.UsedValue != want.UsedValue || got.MaxValue != want.MaxValue {
			t.Errorf("%s: %d of %d are used, want %d of %d", name, got.UsedValue, got.MaxValue, want.UsedValue, want.MaxValue)
		}
	}
}
