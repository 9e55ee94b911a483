package network_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
)

func TestDefaultDhcpOptions(t *testing.T) {
	t.Parallel()
	r := setup(t)
	sets := r.List(alice, "ReadDhcpOptions", `{}`)
	if len(sets) != 1 {
		t.Fatalf("a new account has %d DHCP options sets", len(sets))
	}
	r.Shows(sets[0], `{"DhcpOptionsSetId": %q, "Default": true, "DomainName": "test-1.compute.internal",
		"DomainNameServers": ["OutscaleProvidedDNS"], "Tags": []}`, sets[0]["DhcpOptionsSetId"])
	r.Refuse(apierror.InUse, alice, "DeleteDhcpOptions", `{"DhcpOptionsSetId": %q}`, sets[0]["DhcpOptionsSetId"])
}

func TestDhcpOptions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, request, want string // want: but for the ID
	}{
		{"all",
			`{"DomainName": "MyCompany.com", "DomainNameServers": ["192.0.2.2", "192.0.2.1"], "LogServers": ["192.0.2.3"],
				"NtpServers": ["192.0.2.5", "192.0.2.4"]}`,
			`{"DomainName": "MyCompany.com", "DomainNameServers": ["192.0.2.2", "192.0.2.1"], "LogServers": ["192.0.2.3"],
				"NtpServers": ["192.0.2.5", "192.0.2.4"]}`},
		{"a name only",
			`{"DomainName": "test"}`,
			`{"DomainName": "test", "DomainNameServers": ["OutscaleProvidedDNS"]}`},
		{"name servers only",
			`{"DomainNameServers": ["192.0.2.1"]}`,
			`{"DomainName": "test-1.compute.internal", "DomainNameServers": ["192.0.2.1"]}`},
		{"the provided name server",
			`{"DomainNameServers": ["OutscaleProvidedDNS"]}`,
			`{"DomainName": "test-1.compute.internal", "DomainNameServers": ["OutscaleProvidedDNS"]}`},
		{"log servers, and empty others",
			`{"DomainName": "", "DomainNameServers": [], "LogServers": ["192.0.2.1"], "NtpServers": []}`,
			`{"DomainName": "test-1.compute.internal", "DomainNameServers": ["OutscaleProvidedDNS"], "LogServers": ["192.0.2.1"]}`},
		{"time servers only",
			`{"NtpServers": ["192.0.2.1"]}`,
			`{"DomainName": "test-1.compute.internal", "DomainNameServers": ["OutscaleProvidedDNS"], "NtpServers": ["192.0.2.1"]}`},
		{"as many as fit",
			`{"NtpServers": [` + servers(63) + `]}`,
			`{"DomainName": "test-1.compute.internal", "DomainNameServers": ["OutscaleProvidedDNS"], "NtpServers": [` + servers(63) + `]}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			made := r.One(alice, "CreateDhcpOptions", test.request)
			id := made.Text("DhcpOptionsSetId")
			want := fmt.Sprintf(`{"DhcpOptionsSetId": %q, "Default": false, "Tags": [], %s`, id, test.want[1:])
			r.Shows(made, want)
			r.Shows(r.List(alice, "ReadDhcpOptions", `{"Filters": {"DhcpOptionsSetIds": [%q]}}`, id)[0], want)
			r.Call(alice, "DeleteDhcpOptions", `{"DhcpOptionsSetId": %q}`, id)
			if left := r.List(alice, "ReadDhcpOptions", `{}`); len(left) != 1 || left[0]["Default"] != true {
				t.Errorf("after the deletion, the account has %v", left)
			}
		})
	}
}

// servers is a JSON list of addresses, without its brackets.
func servers(n int) string { return strings.Repeat(`"192.0.2.1",`, n-1) + `"192.0.2.1"` }

func TestDhcpOptionsRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	bobs := r.One(bob, "CreateDhcpOptions", `{"DomainName": "example.com"}`).Text("DhcpOptionsSetId")
	tests := []struct {
		name, action, body string
		want               apierror.Code
	}{
		{"nothing", "CreateDhcpOptions", `{}`, apierror.MissingParameter},
		{"all of it empty", "CreateDhcpOptions", `{"DomainName": "", "DomainNameServers": [], "LogServers": [], "NtpServers": []}`,
			apierror.MissingParameter},
		{"name server by name", "CreateDhcpOptions", `{"DomainNameServers": ["ns.example.com"]}`, apierror.InvalidIP},
		{"name server by another's name", "CreateDhcpOptions", `{"DomainNameServers": ["AmazonProvidedDNS"]}`, apierror.InvalidIP},
		{"name server in IPv6", "CreateDhcpOptions", `{"DomainNameServers": ["2001:db8::1"]}`, apierror.InvalidIP},
		{"log server by name", "CreateDhcpOptions", `{"LogServers": ["OutscaleProvidedDNS"]}`, apierror.InvalidIP},
		{"time server with a length", "CreateDhcpOptions", `{"NtpServers": ["192.0.2.0/24"]}`, apierror.InvalidIP},
		{"too many name servers", "CreateDhcpOptions", `{"DomainNameServers": [` + servers(64) + `]}`, apierror.InvalidValue},
		{"too many log servers", "CreateDhcpOptions", `{"LogServers": [` + servers(64) + `]}`, apierror.InvalidValue},
		{"too many time servers", "CreateDhcpOptions", `{"NtpServers": [` + servers(64) + `]}`, apierror.InvalidValue},
		{"two names", "CreateDhcpOptions", `{"DomainName": "a.com b.com"}`, apierror.InvalidValue},
		{"an empty label", "CreateDhcpOptions", `{"DomainName": "a..com"}`, apierror.InvalidValue},
		{"a hyphen first", "CreateDhcpOptions", `{"DomainName": "a.-b.com"}`, apierror.InvalidValue},
		{"a hyphen last", "CreateDhcpOptions", `{"DomainName": "a-.com"}`, apierror.InvalidValue},
		{"a long label", "CreateDhcpOptions", `{"DomainName": "` + strings.Repeat("a", 64) + `.com"}`, apierror.InvalidValue},
		{"a long name", "CreateDhcpOptions", `{"DomainName": "` + strings.Repeat("a.", 127) + `"}`, apierror.InvalidValue},
		{"deletion of no set", "DeleteDhcpOptions", `{"DhcpOptionsSetId": "dopt-00000000"}`, apierror.DhcpOptionsNotFound},
		{"deletion of another account's set", "DeleteDhcpOptions", fmt.Sprintf(`{"DhcpOptionsSetId": %q}`, bobs), apierror.DhcpOptionsNotFound},
		{"deletion of default by its word", "DeleteDhcpOptions", `{"DhcpOptionsSetId": "default"}`, apierror.InvalidID},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, alice, test.action, test.body) })
	}
}

func TestDhcpOptionsFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	fallback := r.List(alice, "ReadDhcpOptions", `{}`)[0].Text("DhcpOptionsSetId")
	first := r.One(alice, "CreateDhcpOptions",
		`{"DomainName": "a.com", "DomainNameServers": ["192.0.2.1", "192.0.2.2"]}`).Text("DhcpOptionsSetId")
	second := r.One(alice, "CreateDhcpOptions", `{"LogServers": ["192.0.2.3"], "NtpServers": ["192.0.2.4"]}`).Text("DhcpOptionsSetId")
	r.Tag(alice, first, api.Tag{Key: "env", Value: "test"})
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{fallback, first, second}},
		{`{"Default": true}`, []string{fallback}},
		{`{"Default": false}`, []string{first, second}},
		{fmt.Sprintf(`{"DhcpOptionsSetIds": [%q]}`, first), []string{first}},
		{`{"DomainNameServers": ["192.0.2.2"]}`, []string{first}},
		{`{"DomainNameServers": ["OutscaleProvidedDNS"]}`, []string{fallback, second}},
		{`{"DomainNames": ["a.com", "b.com"]}`, []string{first}},
		{`{"LogServers": ["192.0.2.3"]}`, []string{second}},
		{`{"NtpServers": ["192.0.2.4"]}`, []string{second}},
		{`{"NtpServers": ["192.0.2.4"], "Default": true}`, nil},
		{`{"TagKeys": ["env"]}`, []string{first}},
		{`{"TagValues": ["test"]}`, []string{first}},
		{`{"Tags": ["env=test"]}`, []string{first}},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadDhcpOptions", `{"Filters": `+test.filters+`}`), "DhcpOptionsSetId", test.want...)
		})
	}
}

func TestDhcpOptionsInTheFirstVersion(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.Version = api.Versions[0]
	made := r.One(alice, "CreateDhcpOptions", `{"DomainName": "example.com"}`)
	if made["DhcpOptionsName"] == nil || made["DhcpOptionsName"] != made["DhcpOptionsSetId"] {
		t.Errorf("in 1.1 a set has the name %v, want its ID %v", made["DhcpOptionsName"], made["DhcpOptionsSetId"])
	}
	if _, ok := made["LogServers"]; ok {
		t.Error("in 1.1 a set shows log servers")
	}
	r.Refuse(apierror.UnknownParameter, alice, "CreateDhcpOptions", `{"LogServers": ["192.0.2.1"]}`)
}

// An account that was never welcomed is our mistake, not the caller's.
func TestNotWelcomed(t *testing.T) {
	t.Parallel()
	r := setup(t)
	if _, err := r.Try("000000000003", "CreateNet", `{"IpRange": "10.0.0.0/16"}`); apierror.From(err).Code != apierror.Internal {
		t.Errorf("a Net without a default DHCP options set: got %v, want an internal error", err)
	}
}
