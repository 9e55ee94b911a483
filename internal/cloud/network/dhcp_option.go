package network

import (
	"errors"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// DhcpOptionsSet is what machines in a [Net] are told when they ask for an
// address. It never changes.
type DhcpOptionsSet struct {
	DhcpOptionsSetId id.DhcpOptionsSet // The ID of the DHCP options set.
	DhcpOptionsName  string            `json:"-"` // The name of the DHCP options set: its ID.
	// Whether the set is the one that new Nets of the account get.
	Default    bool
	DomainName DomainName // The domain that machines are in.
	// The domain name servers, in the order in which to ask them.
	DomainNameServers []NameServer
	// The addresses of the log servers, in the order given; absent if there are none.
	LogServers []api.IPv4 `wire:"omitempty"`
	// The addresses of the time servers, in the order given; absent if there are none.
	NtpServers []api.IPv4 `wire:"omitempty"`
	Tags       []api.Tag  // The tags of the DHCP options set.
}

// DhcpOptionsSets are the DHCP options sets of the region.
var DhcpOptionsSets = &resource.Kind[DhcpOptionsSet, id.DhcpOptionsSet]{
	Name:     "DhcpOptionsSet",
	Tag:      "dhcpoptions",
	NotFound: apierror.DhcpOptionsNotFound,
}

// DomainName is the name of a domain, such as MyCompany.com.
type DomainName string

// Check reports a text that is no domain name: labels of letters, digits and
// hyphens between dots, as RFC 1123 has them. No text at all is no name given.
func (n DomainName) Check() error {
	if n == "" {
		return nil
	}
	if len(n) > 253 {
		return apierror.InvalidValue.Errorf("The domain name is longer than 253 characters.")
	}
	for label := range strings.SplitSeq(string(n), ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, letters+"-") != "" || label[0] == '-' || label[len(label)-1] == '-' {
			return apierror.InvalidValue.Errorf(
				"'%s' is not a domain name: labels have 1 to 63 letters, digits and hyphens, and neither begin nor end with a hyphen.", n)
		}
	}
	return nil
}

// letters are the letters and digits of domain names.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// NameServer is the IPv4 address of a domain name server, or
// OutscaleProvidedDNS.
type NameServer string

// ProvidedDNS stands for the domain name server of the region.
const ProvidedDNS NameServer = "OutscaleProvidedDNS"

// Check reports a text that is neither.
func (s NameServer) Check() error {
	if s == ProvidedDNS {
		return nil
	}
	return api.IPv4(s).Check()
}

// defaultDhcpOptions is the set that an account has from the beginning, and
// where others take what they do not say.
func (region Region) defaultDhcpOptions() *DhcpOptionsSet {
	return &DhcpOptionsSet{
		Default:           true,
		DomainName:        DomainName(region.Name + ".compute.internal"),
		DomainNameServers: []NameServer{ProvidedDNS},
	}
}

// defaultSet finds the default set of the account.
func defaultSet(tx *resource.Tx) (id.DhcpOptionsSet, error) {
	for s := range DhcpOptionsSets.All(tx) {
		if s.Default {
			return s.DhcpOptionsSetId, nil
		}
	}
	return "", errors.New("the account has no default DHCP options set: it was not welcomed")
}

func dhcpOptionActions(region Region) []api.Action {
	r := api.NewResource(DhcpOptionsSets, viewDhcpOptions).InFamily("DhcpOption")
	return []api.Action{
		api.Create(r, region.createDhcpOptions),
		api.Read[ReadDhcpOptionsRequest](r),
		api.Delete[DeleteDhcpOptionsRequest](r, keepDefaultSet),
	}
}

func viewDhcpOptions(_ *resource.Tx, s *DhcpOptionsSet) *DhcpOptionsSet {
	s.DhcpOptionsName = string(s.DhcpOptionsSetId)
	return s
}

// CreateDhcpOptionsRequest asks for a DHCP options set. It has at least one of
// its parameters.
type CreateDhcpOptionsRequest struct {
	// One domain name, such as `MyCompany.com`. By default, the region's:
	// `<region>.compute.internal`.
	DomainName DomainName
	// The IPv4 addresses of the domain name servers. By default, `OutscaleProvidedDNS`, the
	// region's own.
	DomainNameServers []NameServer
	LogServers        []api.IPv4 // The IPv4 addresses of the log servers.
	NtpServers        []api.IPv4 // The IPv4 addresses of the time servers.
}

// maxServers is how many addresses of 4 bytes fit in the 255 bytes of a DHCP
// option.
const maxServers = 255 / 4

func (region Region) createDhcpOptions(_ *resource.Tx, req *CreateDhcpOptionsRequest) (*DhcpOptionsSet, error) {
	lists := []struct {
		name   string
		length int
	}{
		{"DomainNameServers", len(req.DomainNameServers)},
		{"LogServers", len(req.LogServers)},
		{"NtpServers", len(req.NtpServers)},
	}
	given := req.DomainName != ""
	for _, l := range lists {
		if l.length > maxServers {
			return nil, apierror.InvalidValue.Errorf("%s has %d addresses, and a DHCP option can hold %d.", l.name, l.length, maxServers)
		}
		given = given || l.length > 0
	}
	if !given {
		return nil, apierror.MissingParameter.Errorf("At least one of DomainName, DomainNameServers, LogServers and NtpServers is required.")
	}
	set := region.defaultDhcpOptions()
	set.Default = false
	if req.DomainName != "" {
		set.DomainName = req.DomainName
	}
	if len(req.DomainNameServers) > 0 {
		set.DomainNameServers = req.DomainNameServers
	}
	set.LogServers, set.NtpServers = req.LogServers, req.NtpServers
	return set, nil
}

// ReadDhcpOptionsRequest asks for DHCP options sets.
type ReadDhcpOptionsRequest struct {
	Filters *FiltersDhcpOptions // Which DHCP options sets to list; all of them if absent.
	api.Page
}

// FiltersDhcpOptions selects DHCP options sets.
type FiltersDhcpOptions struct {
	Default           *bool               // Whether the set is the default one of the account.
	DhcpOptionsSetIds []id.DhcpOptionsSet // The IDs of the DHCP options sets.
	DomainNameServers []NameServer        // The domain name servers in the sets.
	DomainNames       []DomainName        // The domain names of the sets.
	LogServers        []api.IPv4          // The addresses of the log servers in the sets.
	NtpServers        []api.IPv4          // The addresses of the time servers in the sets.
	api.TagFilters
}

// DeleteDhcpOptionsRequest deletes a DHCP options set that no Net has.
type DeleteDhcpOptionsRequest struct {
	DhcpOptionsSetId id.DhcpOptionsSet `api:"required"` // The ID of the DHCP options set to delete.
}

func keepDefaultSet(_ *resource.Tx, s *DhcpOptionsSet) error {
	if s.Default {
		return apierror.InUse.Errorf("The DHCP options set %s is the default one of the account, which cannot be deleted.", s.DhcpOptionsSetId)
	}
	return nil
}
