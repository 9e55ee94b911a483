package iam

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// ids lists a field of the values at a path, as JSON.
func ids(a answer, list, field string) string {
	a.t.Helper()
	found := []any{}
	for i := range a.count(list) {
		found = append(found, a.find(fmt.Sprintf("%s.%d.%s", list, i, field)))
	}
	b, err := json.Marshal(found)
	if err != nil {
		a.t.Fatalf("%v", err)
	}
	return string(b)
}

func TestApiAccessRule(t *testing.T) {
	t.Parallel()
	r := setup(t)
	ca := r.call("CreateCa", `{"CaPem": `+quote(newCa(t))+`}`).get("Ca.CaId")
	ca2 := r.call("CreateCa", `{"CaPem": `+quote(newCa(t))+`}`).get("Ca.CaId")

	full := r.call("CreateApiAccessRule", `{"CaIds": ["`+ca+`", "`+ca2+`"], "Cns": ["one", "two"], "Description": "full",
		"IpRanges": ["192.168.2.34", "192.14.0.0/16", "192.0.2.0/16", "2001:db8::/32", "::1"]}`)
	full.is("ApiAccessRule.CaIds", `["`+ca+`","`+ca2+`"]`, "ApiAccessRule.Cns", `["one","two"]`, "ApiAccessRule.Description", `"full"`,
		"ApiAccessRule.IpRanges", `["192.168.2.34","192.14.0.0/16","192.0.2.0/16","2001:db8::/32","::1"]`)
	a := full.get("ApiAccessRule.ApiAccessRuleId")
	// A CA may be in several rules, and a rule may have one list only.
	lean := r.call("CreateApiAccessRule", `{"CaIds": ["`+ca+`"], "Cns": ["one"]}`)
	lean.is("ApiAccessRule.IpRanges", `[]`, "ApiAccessRule.Description", "")
	b := lean.get("ApiAccessRule.ApiAccessRuleId")

	for body, want := range map[string]string{
		`{"Filters": {"ApiAccessRuleIds": ["` + b + `", "nonsense"]}}`:   `["` + b + `"]`,
		`{"Filters": {"CaIds": ["` + ca + `"]}}`:                         `["` + a + `","` + b + `"]`,
		`{"Filters": {"CaIds": ["` + ca + `"], "Cns": ["two"]}}`:         `["` + a + `"]`,
		`{"Filters": {"Descriptions": ["full"]}}`:                        `["` + a + `"]`,
		`{"Filters": {"IpRanges": ["192.14.0.0/16"]}}`:                   `["` + a + `"]`,
		`{"Filters": {"IpRanges": ["192.14.0.1"]}}`:                      `[]`,
		`{"Filters": {"CaIds": ["ca-` + fmt.Sprintf("%032d", 0) + `"]}}`: `[]`,
	} {
		if got := ids(r.call("ReadApiAccessRules", body), "ApiAccessRules", "ApiAccessRuleId"); got != want {
			t.Errorf("ReadApiAccessRules %s: %s, want %s", body, got, want)
		}
	}

	// An update replaces the rule: what is not given is gone.
	r.call("UpdateApiAccessRule", `{"ApiAccessRuleId": "`+a+`", "IpRanges": ["172.3.4.0/32"]}`).is(
		"ApiAccessRule.ApiAccessRuleId", `"`+a+`"`, "ApiAccessRule.IpRanges", `["172.3.4.0/32"]`,
		"ApiAccessRule.CaIds", `[]`, "ApiAccessRule.Cns", `[]`, "ApiAccessRule.Description", "")
	r.call("DeleteCa", `{"CaId": "`+ca2+`"}`)
	r.call("DeleteApiAccessRule", `{"ApiAccessRuleId": "`+b+`"}`)
	r.refused("DeleteApiAccessRule", `{"ApiAccessRuleId": "`+b+`"}`, apierror.ObjectNotFound, b)
}

func TestApiAccessRuleRefused(t *testing.T) {
	t.Parallel()
	r := setup(t)
	ca := r.call("CreateCa", `{"CaPem": `+quote(newCa(t))+`}`).get("Ca.CaId")
	rule := r.call("CreateApiAccessRule", `{"IpRanges": ["192.0.2.1"]}`).get("ApiAccessRule.ApiAccessRuleId")
	absent := "ca-" + fmt.Sprintf("%032d", 0)
	foreigner := r.newAccount(NewAccount{Email: "f@example.com"})
	foreign := r.as(foreigner, "").call("CreateCa", `{"CaPem": `+quote(newCa(t))+`}`).get("Ca.CaId")

	for name, c := range map[string]struct {
		fields string
		code   apierror.Code
		word   string
	}{
		"nothing":            {`"Description": "x"`, apierror.MissingParameter, "IpRanges"},
		"empty lists":        {`"IpRanges": [], "CaIds": []`, apierror.MissingParameter, "CaIds"},
		"names without a CA": {`"IpRanges": ["192.0.2.1"], "Cns": ["x"]`, apierror.MissingParameter, "CaIds"},
		"an absent CA":       {`"CaIds": ["` + ca + `", "` + absent + `"]`, apierror.ObjectNotFound, absent},
		"a foreign CA":       {`"CaIds": ["` + foreign + `"]`, apierror.ObjectNotFound, foreign},
		"a malformed CA":     {`"CaIds": ["ca-1"]`, apierror.MalformedID, "CaIds.0"},
		"an empty CA":        {`"CaIds": [""]`, apierror.InvalidID, "CaIds"},
		"an empty name":      {`"CaIds": ["` + ca + `"], "Cns": [""]`, apierror.InvalidValue, "Cns"},
		"no address":         {`"IpRanges": ["192.0.2.1", "here"]`, apierror.InvalidBlock, "IpRanges.1"},
		"a wide prefix":      {`"IpRanges": ["192.0.2.0/33"]`, apierror.InvalidBlock, "IpRanges.0"},
	} {
		t.Run(name, func(t *testing.T) {
			r.refused("CreateApiAccessRule", `{`+c.fields+`}`, c.code, c.word)
			r.refused("UpdateApiAccessRule", `{"ApiAccessRuleId": "`+rule+`", `+c.fields+`}`, c.code, c.word)
		})
	}
	r.call("ReadApiAccessRules", `{"Filters": {"ApiAccessRuleIds": ["`+rule+`"]}}`).is("ApiAccessRules.0.IpRanges", `["192.0.2.1"]`)
	r.refused("UpdateApiAccessRule", `{"IpRanges": ["192.0.2.1"]}`, apierror.MissingParameter, "ApiAccessRuleId")
}

func TestLastApiAccessRuleStays(t *testing.T) {
	t.Parallel()
	r := setup(t)
	first := r.call("ReadApiAccessRules", `{}`).get("ApiAccessRules.0.ApiAccessRuleId")
	r.refused("DeleteApiAccessRule", `{"ApiAccessRuleId": "`+first+`"}`, apierror.InUse, first)
	second := r.call("CreateApiAccessRule", `{"IpRanges": ["192.0.2.1"]}`).get("ApiAccessRule.ApiAccessRuleId")
	r.call("DeleteApiAccessRule", `{"ApiAccessRuleId": "`+first+`"}`)
	r.refused("DeleteApiAccessRule", `{"ApiAccessRuleId": "`+second+`"}`, apierror.InUse, second)
}

func TestTooManyApiAccessRules(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for range maxAccessRules - 1 {
		r.call("CreateApiAccessRule", `{"IpRanges": ["192.0.2.1"]}`)
	}
	r.refused("CreateApiAccessRule", `{"IpRanges": ["192.0.2.1"]}`, apierror.TooManyRules)
}
