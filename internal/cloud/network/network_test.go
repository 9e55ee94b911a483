package network_test

import (
	"sync/atomic"
	"testing"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

const alice, bob, carol = cloudtest.Alice, cloudtest.Bob, cloudtest.Carol

var (
	start = cloudtest.Start
	here  = network.Region{
		Name: "test-1", Domain: "example.com", Subregions: []string{"test-1a", "test-1b"}, Locations: []string{"LOC1", "LOC2"},
		PublicIps: []api.CIDR{"198.51.100.0/24"},
	}
)

// object is a JSON object of an answer.
type object = cloudtest.Object

// tester is a test or a property.
type tester = cloudtest.TB

// region is a region in which alice, bob and carol have accounts.
type region struct {
	tester
	*cloudtest.Region
	changed atomic.Pointer[func([]store.Change)] // is notified of changes
}

// Guest lives in a Subnet, as NICs and others do.
type Guest struct {
	GuestId  guestID
	SubnetId id.Subnet
}

type guestID string

func (guestID) Form() resource.Form {
	return resource.Form{Prefix: "guest-", Length: 8, Alphabet: resource.Hexadecimal}
}

var guests = &resource.Kind[Guest, guestID]{Name: "Guest"}

// open opens a region over a journal; nil: over none.
func open(t tester, journal store.Journal, limits map[string]int) *region {
	return openAt(t, here, journal, limits)
}

// openAt opens a region with other Subregions or addresses.
func openAt(t tester, here network.Region, journal store.Journal, limits map[string]int) *region {
	r := &region{tester: t}
	r.Region = cloudtest.Open(t, network.Actions(here), resource.Options{
		Kinds: append(network.Kinds(), guests), Journal: journal, Limits: limits,
		Changed: func(changes []store.Change) {
			if notified := r.changed.Load(); notified != nil {
				(*notified)(changes)
			}
		},
	})
	return r
}

func setup(t *testing.T, limits ...map[string]int) *region {
	t.Helper()
	r := open(t, nil, append(limits, nil)[0])
	t.Cleanup(func() { r.DB.Close() })
	r.welcome()
	return r
}

// welcome registers the accounts.
func (r *region) welcome() {
	r.Helper()
	for _, account := range []string{alice, bob, carol} {
		r.Update(account, func(tx *resource.Tx) error { return network.Welcome(tx, here) })
	}
}

// net creates a Net and returns its ID.
func (r *region) net(account, ipRange string) string {
	r.Helper()
	return r.One(account, "CreateNet", `{"IpRange": %q}`, ipRange).Text("NetId")
}

// subnet creates a Subnet and returns its ID.
func (r *region) subnet(account, net, ipRange string) string {
	r.Helper()
	return r.One(account, "CreateSubnet", `{"NetId": %q, "IpRange": %q}`, net, ipRange).Text("SubnetId")
}
