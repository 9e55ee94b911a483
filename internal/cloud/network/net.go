package network

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Net is a private network of an account, in one region.
type Net struct {
	NetId   id.Net   // The ID of the Net.
	IpRange api.CIDR // The range of addresses of the Net, in CIDR notation.
	// The ID of the DHCP options set that the machines in the Net are told.
	DhcpOptionsSetId id.DhcpOptionsSet
	// The state of the Net. A Net is `available` as soon as it is created, and `deleting` for a
	// moment after it is deleted.
	State NetState
	// Whether the VMs in the Net may share hardware with those of other accounts: `default`,
	// `dedicated`, or the ID of a dedicated group.
	Tenancy Tenancy
	Tags    []api.Tag // The tags of the Net.

	// IsDefault is true for a Net that a region makes by itself. This one
	// makes none.
	IsDefault bool `wire:"-"`

	// DedicatedGroupId is the group that the tenancy names.
	DedicatedGroupId id.DedicatedGroup `wire:"-" ref:"weak"`

	// Generation counts the changes that the driver must hear of: each rule
	// that makes one adds one. ObservedGeneration is the generation that the driver has,
	// as far as we know, and is written by the loop only.
	Generation         uint64 `wire:"-"`
	ObservedGeneration uint64 `wire:"-"`
}

// Pending reports whether the driver is behind.
func (n *Net) Pending() bool { return n.ObservedGeneration < n.Generation }

// touch makes the driver hear of a change in a Net.
func touch(tx *resource.Tx, netID id.Net) error {
	net, err := Nets.Get(tx, netID)
	if err != nil {
		return err
	}
	net.Generation++
	return Nets.Put(tx, net)
}

// Nets are the Nets of the region.
var Nets = &resource.Kind[Net, id.Net]{
	Name:      "Net",
	Tag:       "vpc",
	NotFound:  apierror.NetNotFound,
	InUse:     apierror.NetInUse,
	Quota:     &resource.Quota{Name: "vpc_limit", Code: apierror.TooManyNets},
	Life:      netLife,
	Retention: 2 * time.Second, // as long as clients that expect it to be deleting may take to look
}

// NetState is the state of a Net.
type NetState string

// The states of a Net. One that is deleting is there no more, and only shown.
const (
	NetAvailable NetState = "available"
	NetDeleting  NetState = "deleting"
)

// What happens to a Net.
const (
	netCreated   lifecycle.Event[NetState] = "created"
	netDeleted   lifecycle.Event[NetState] = "deleted"
	netForgotten lifecycle.Event[NetState] = "forgotten"
)

// netLife is the life of a Net.
var netLife = lifecycle.Table[NetState]{
	"":           {netCreated: NetAvailable},
	NetAvailable: {netDeleted: NetDeleting},
	NetDeleting:  {netForgotten: ""},
}

// Literals implements [api.Enum].
func (NetState) Literals() []string { return []string{"pending", "available", "deleting"} }

// Tenancy says on whose hardware VMs run: default, dedicated, or the ID of a
// dedicated group.
type Tenancy string

// The tenancies that have names.
const (
	TenancyDefault   Tenancy = "default" // leaves it to each VM
	TenancyDedicated Tenancy = "dedicated"
)

// Check reports a text that is no tenancy.
func (t Tenancy) Check() error {
	group, ok := t.group()
	if ok && group.Form().Check(string(group)) != nil {
		return apierror.InvalidTenancy.Errorf("The tenancy '%.100s' is not default, dedicated or the ID of a dedicated group.", string(t))
	}
	return nil
}

// group is the dedicated group that the tenancy names, if it names one.
func (t Tenancy) group() (id.DedicatedGroup, bool) {
	if t == "" || t == TenancyDefault || t == TenancyDedicated {
		return "", false
	}
	return id.DedicatedGroup(t), true
}

func netActions() []api.Action {
	r := api.NewResource(Nets, api.Plain[Net])
	return []api.Action{
		api.Create(r, createNet, addMainTable, addDefaultGroup),
		api.Read[ReadNetsRequest](r),
		api.Do("Net", updateNet),
		api.Delete[DeleteNetRequest](r, netRules...),
	}
}

// netRules see to what goes with a Net that is deleted.
var netRules = []func(*resource.Tx, *Net) error{dropMainTable, dropDefaultGroup, expirePeerings, fadeNet}

// fadeNet makes a Net that is deleted what is shown of it for a moment: without
// tags, and with the DHCP options set that cannot be deleted meanwhile.
func fadeNet(tx *resource.Tx, n *Net) (err error) {
	n.Tags = nil
	n.DhcpOptionsSetId, err = defaultSet(tx)
	return err
}

// DeleteNet deletes a Net as the action does, for a rule that takes the Net
// along: it is refused if something is in the Net.
func DeleteNet(tx *resource.Tx, n *Net) error {
	for _, rule := range netRules {
		if err := rule(tx, n); err != nil {
			return err
		}
	}
	return Nets.Delete(tx, n)
}

// CreateNetRequest asks for a Net.
type CreateNetRequest struct {
	// The range of the Net, from /16 to /28, inside 10.0.0.0/8, 172.16.0.0/12 or
	// 192.168.0.0/16. It may be the range of another Net.
	IpRange api.CIDR `api:"required"`
	// `default` if each VM in the Net may choose its tenancy, `dedicated` if all of them get
	// hardware of their own, or the ID of the dedicated group that they run in. By default,
	// `default`.
	Tenancy Tenancy
}

// The sizes of a Net, in bits of its prefix.
const widestNet, narrowestNet = 16, 28

// private are the ranges that Nets are made of, as RFC 1918 sets them aside.
// Any other would hide a part of the Internet from the machines in the Net.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
}

func createNet(tx *resource.Tx, req *CreateNetRequest) (*Net, error) {
	ipRange := req.IpRange.Prefix()
	if !slices.ContainsFunc(private, func(block netip.Prefix) bool { return within(ipRange, block) }) {
		return nil, apierror.ReservedBlock.Errorf("The IpRange %s is not inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16.", req.IpRange)
	}
	if bits := ipRange.Bits(); bits < widestNet || bits > narrowestNet {
		return nil, apierror.InvalidNetSize.Errorf("The IpRange %s is not between /%d and /%d.", req.IpRange, widestNet, narrowestNet)
	}
	set, err := defaultSet(tx)
	if err != nil {
		return nil, err
	}
	tenancy := req.Tenancy
	if tenancy == "" {
		tenancy = TenancyDefault
	}
	group, _ := tenancy.group()
	return &Net{
		IpRange: req.IpRange, DhcpOptionsSetId: set, Tenancy: tenancy, DedicatedGroupId: group, Generation: 1,
	}, nil
}

// ReadNetsRequest asks for Nets. One that was just deleted is among them.
type ReadNetsRequest struct {
	Filters *FiltersNet // Which Nets to list; all of them if absent.
	api.Page
}

// FiltersNet selects Nets.
type FiltersNet struct {
	DhcpOptionsSetIds []id.DhcpOptionsSet // The IDs of the DHCP options sets.
	IpRanges          []api.CIDR          // The ranges of the Nets, in CIDR notation.
	// Whether the Net is one that the region made by itself. None is.
	IsDefault *bool
	NetIds    []id.Net   // The IDs of the Nets.
	States    []NetState // The states of the Nets.
	api.TagFilters
}

// UpdateNetRequest gives a Net another DHCP options set.
type UpdateNetRequest struct {
	// The ID of the DHCP options set, or `default` for the default one of the account.
	DhcpOptionsSetId DhcpOptionsChoice `api:"required"`
	NetId            id.Net            `api:"required"` // The ID of the Net.
}

// DhcpOptionsChoice is the ID of a DHCP options set, or `default`.
type DhcpOptionsChoice string

// chooseDefault stands for the default set of the account.
const chooseDefault DhcpOptionsChoice = "default"

// Check reports a text that is neither.
func (c DhcpOptionsChoice) Check() error {
	if c == chooseDefault {
		return nil
	}
	return id.DhcpOptionsSet.Form("").Check(string(c))
}

// UpdateNetResponse shows the Net.
type UpdateNetResponse struct{ Net *Net }

func updateNet(tx *resource.Tx, req *UpdateNetRequest) (resp *UpdateNetResponse, err error) {
	n := Nets.Find(tx, req.NetId)
	if n == nil {
		return updateDeletingNet(tx, req)
	}
	n.DhcpOptionsSetId = id.DhcpOptionsSet(req.DhcpOptionsSetId)
	if req.DhcpOptionsSetId == chooseDefault {
		if n.DhcpOptionsSetId, err = defaultSet(tx); err != nil {
			return nil, err
		}
	}
	n.Generation++
	return &UpdateNetResponse{n}, Nets.Put(tx, n)
}

// updateDeletingNet gives a Net that is being deleted the default set, which it
// has already. Clients ask this of every Net that has a set they want to delete.
func updateDeletingNet(tx *resource.Tx, req *UpdateNetRequest) (*UpdateNetResponse, error) {
	n := Nets.Lookup(tx, req.NetId)
	if n == nil || req.DhcpOptionsSetId != chooseDefault {
		return nil, Nets.ErrNotFound(req.NetId)
	}
	return &UpdateNetResponse{n}, nil
}

// DeleteNetRequest deletes a Net that has nothing in it any more but what it was
// created with.
type DeleteNetRequest struct {
	NetId id.Net `api:"required"` // The ID of the Net to delete.
}
