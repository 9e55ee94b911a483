package network

import (
	"net/netip"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// DirectLinkInterface is an interface on a [DirectLink]: a VLAN that leads to
// a virtual gateway, with BGP on it.
//
// The owner of a link can allocate an interface for another account, which is
// hosted then: it is kept in both accounts, the link being the reference of the
// one, and the virtual gateway, once there is one, that of the other.
type DirectLinkInterface struct {
	_ struct{} `schema:"DirectLinkInterfaces"`

	// The account ID of the owner of the DirectLink interface.
	AccountId id.Account `ref:"-"`
	// The autonomous system number of the client's network in BGP.
	BgpAsn PrivateAsn
	// The key of the BGP session. It is a secret of those who know it, and is not shown.
	BgpKey string `json:"-" wire:"omitempty"`
	// The IP of the client's end, with the length of the prefix.
	ClientPrivateIp         LinkIp
	DirectLinkId            id.DirectLink          `ref:"-"` // The ID of the DirectLink.
	DirectLinkInterfaceId   id.DirectLinkInterface // The ID of the DirectLink interface.
	DirectLinkInterfaceName LinkName               // The name of the DirectLink interface.
	// The type of the DirectLink interface: `private`.
	InterfaceType InterfaceType `json:"-"`
	// The code of the datacenter where the DirectLink ends.
	Location string
	Mtu      Mtu // The size of the largest packet, in bytes.
	// The IP of the region's end, with the length of the prefix.
	OutscalePrivateIp LinkIp
	State             InterfaceState // The state of the DirectLink interface.
	// The ID of the virtual gateway that it leads to.
	VirtualGatewayId id.VirtualGateway
	Vlan             Vlan // The number of the VLAN.

	// LinkOwner is the account of the link, and OwnLink the link if it is that
	// of the account that keeps this copy.
	LinkOwner id.Account    `wire:"-" ref:"-"`
	OwnLink   id.DirectLink `wire:"-"`

	Key resource.Secret `wire:"-"` // see BgpKey

	// ConfirmBefore is when an interface that waits to be confirmed expires.
	ConfirmBefore api.DateTime `wire:"-"`

	// Generation counts the changes that the driver must hear of, as that of a
	// [Net] does, in the owner's copy. ObservedGeneration is written by the loop only.
	Generation         uint64 `wire:"-"`
	ObservedGeneration uint64 `wire:"-"`
}

// Interfaces are the DirectLink interfaces of the region. One that has ended,
// however it did, is a deleted resource in its last state.
var Interfaces = &resource.Kind[DirectLinkInterface, id.DirectLinkInterface]{
	Name:      "DirectLinkInterface",
	NotFound:  apierror.DirectLinkInterfaceNotFound,
	InUse:     apierror.InUse,
	Quota:     &resource.Quota{Name: "dl_interface_limit", Code: apierror.TooManyDirectLinkInterfaces, Per: "OwnLink"},
	Life:      interfaceLife,
	Retention: time.Hour,
}

// PrivateAsn is an autonomous system number of those that are nobody's on the
// Internet.
type PrivateAsn int

// Bounds implements [api.Bounded].
func (PrivateAsn) Bounds() (low, high int64) { return 64512, 65534 }

// Check reports a number out of bounds.
func (n PrivateAsn) Check() error {
	if low, high := n.Bounds(); int64(n) < low || int64(n) > high {
		return apierror.InvalidAsn.Errorf("%d is not between %d and %d.", n, low, high)
	}
	return nil
}

// Vlan is the number of a VLAN.
type Vlan int

// Bounds implements [api.Bounded].
func (Vlan) Bounds() (low, high int64) { return 2, 4094 }

// Mtu is the size of the largest packet, in bytes.
type Mtu int

// defaultMtu is the only size.
const defaultMtu = 1500

// Bounds implements [api.Bounded].
func (Mtu) Bounds() (low, high int64) { return defaultMtu, defaultMtu }

// InterfaceType is the type of a DirectLink interface.
type InterfaceType string

// PrivateInterface is the only type.
const PrivateInterface InterfaceType = "private"

// Literals implements [api.Enum].
func (InterfaceType) Literals() []string { return []string{"private"} }

// LinkIp is an IPv4 address with the length of a prefix, such as
// 169.254.10.1/30, or no text at all if there is none.
type LinkIp string

// Check reports a text that is neither, and an address that no machine has.
func (a LinkIp) Check() error {
	if a == "" {
		return nil
	}
	p, err := netip.ParsePrefix(string(a))
	if err != nil || !p.Addr().Is4() {
		return apierror.InvalidIP.Errorf("'%s' is not an IPv4 address with the length of a prefix, such as 169.254.10.1/30.", a)
	}
	if !p.Addr().IsGlobalUnicast() && !p.Addr().IsLinkLocalUnicast() {
		return apierror.InvalidIPAddress.Errorf("%s is not an address that an interface can have.", p.Addr())
	}
	return nil
}

// Prefix is the address with the range that it is in. It is zero if there is
// none.
func (a LinkIp) Prefix() netip.Prefix {
	p, _ := netip.ParsePrefix(string(a))
	return p
}

// InterfaceState is the state of a DirectLink interface.
type InterfaceState string

// The states of a DirectLink interface.
const (
	InterfaceConfirming InterfaceState = "confirming" // its owner has not said yet where it leads to
	InterfacePending    InterfaceState = "pending"
	InterfaceAvailable  InterfaceState = "available"
	InterfaceDeleted    InterfaceState = "deleted"
	InterfaceRejected   InterfaceState = "rejected" // deleted by its owner instead of being confirmed
	InterfaceExpired    InterfaceState = "expired"  // not confirmed in time
)

// Literals implements [api.Enum].
func (InterfaceState) Literals() []string {
	return []string{"pending", "available", "deleting", "deleted", "confirming", "rejected", "expired"}
}

// What happens to an interface.
const (
	interfaceCreated   lifecycle.Event[InterfaceState] = "created"
	interfaceAllocated lifecycle.Event[InterfaceState] = "allocated"
	interfaceConfirmed lifecycle.Event[InterfaceState] = "confirmed"
	interfaceRejected  lifecycle.Event[InterfaceState] = "rejected"
	interfaceExpired   lifecycle.Event[InterfaceState] = "expired"
	interfaceApplied   lifecycle.Event[InterfaceState] = "applied" // the driver has it
	interfaceDeleted   lifecycle.Event[InterfaceState] = "deleted"
	interfaceForgotten lifecycle.Event[InterfaceState] = "forgotten"
)

// interfaceLife is the life of an interface.
var interfaceLife = lifecycle.Table[InterfaceState]{
	"": {interfaceCreated: InterfacePending, interfaceAllocated: InterfaceConfirming},
	InterfaceConfirming: {
		interfaceConfirmed: InterfacePending, interfaceRejected: InterfaceRejected,
		interfaceExpired: InterfaceExpired, interfaceDeleted: InterfaceDeleted,
	},
	InterfacePending:   {interfaceApplied: InterfaceAvailable, interfaceDeleted: InterfaceDeleted},
	InterfaceAvailable: {interfaceDeleted: InterfaceDeleted},
	InterfaceDeleted:   {interfaceForgotten: ""},
	InterfaceRejected:  {interfaceForgotten: ""},
	InterfaceExpired:   {interfaceForgotten: ""},
}

// interfacePatience is how long an interface waits to be confirmed.
const interfacePatience = 7 * 24 * time.Hour

// Pending reports whether the driver is behind, or the interface waits for its
// owner, whose time may have passed.
func (i *DirectLinkInterface) Pending() bool {
	return i.ObservedGeneration < i.Generation || i.State == InterfaceConfirming
}

// isOver reports whether the time to confirm an interface has passed.
func (i *DirectLinkInterface) isOver(now time.Time) bool {
	return i.State == InterfaceConfirming && !i.ConfirmBefore.Time().After(now)
}

// interfaceCopies are the copies that the accounts of an interface keep.
var interfaceCopies = &twoSided[DirectLinkInterface, id.DirectLinkInterface, InterfaceState]{
	kind:  Interfaces,
	id:    func(i *DirectLinkInterface) id.DirectLinkInterface { return i.DirectLinkInterfaceId },
	sides: func(i *DirectLinkInterface) []id.Account { return distinctAccounts(i.LinkOwner, i.AccountId) },
}

// isOwners reports whether it is the copy of the owner of the interface.
func (i *DirectLinkInterface) isOwners(tx *resource.Tx) bool {
	return string(i.AccountId) == tx.Account()
}

func directLinkInterfaceActions() []api.Action {
	r := api.NewResource(Interfaces, viewInterface)
	return []api.Action{
		api.Do("DirectLinkInterface", createDirectLinkInterface),
		api.Read[ReadDirectLinkInterfacesRequest](r),
		api.Do("DirectLinkInterface", updateDirectLinkInterface),
		api.Command("DirectLinkInterface", deleteDirectLinkInterface),
	}
}

// viewInterface shows an interface as it is now. One that was not confirmed in
// time is expired, whether or not the loop has noted it.
func viewInterface(tx *resource.Tx, i *DirectLinkInterface) *DirectLinkInterface {
	i.InterfaceType = PrivateInterface
	if i.isOver(tx.Now()) {
		i.State = InterfaceExpired
	}
	return i
}

// DirectLinkInterfaceToCreate describes an interface on a DirectLink.
type DirectLinkInterfaceToCreate struct {
	_ struct{} `schema:"DirectLinkInterface"`

	// The autonomous system number of the client's network in BGP, between 64512 and 65534.
	BgpAsn PrivateAsn `api:"required"`
	// The key of the BGP session, at most 80 bytes. By default, there is none.
	BgpKey string
	// The IP of the client's end, with the length of the prefix. It is given together with the
	// other end's, and is in the same range.
	ClientPrivateIp LinkIp
	// The name of the DirectLink interface, between 1 and 255 characters.
	DirectLinkInterfaceName LinkName `api:"required"`
	// The IP of the region's end, with the length of the prefix. By default, both are chosen in
	// a /30 of 169.254.0.0/16.
	OutscalePrivateIp LinkIp
	// The ID of the virtual gateway that it leads to.
	VirtualGatewayId id.VirtualGateway `api:"required"`
	// The number of the VLAN, between 2 and 4094. No other interface of the DirectLink has it.
	Vlan Vlan `api:"required"`
}

// CreateDirectLinkInterfaceRequest asks for an interface on a DirectLink.
type CreateDirectLinkInterfaceRequest struct {
	DirectLinkId        id.DirectLink               `api:"required"` // The ID of the DirectLink.
	DirectLinkInterface DirectLinkInterfaceToCreate `api:"required"` // The DirectLink interface to create.
}

// CreateDirectLinkInterfaceResponse shows the interface.
type CreateDirectLinkInterfaceResponse struct {
	DirectLinkInterface *DirectLinkInterface
}

func createDirectLinkInterface(tx *resource.Tx, req *CreateDirectLinkInterfaceRequest) (*CreateDirectLinkInterfaceResponse, error) {
	i, err := newInterface(tx, req.DirectLinkId, id.Account(tx.Account()), req.DirectLinkInterface)
	if err != nil {
		return nil, err
	}
	gateway, err := VirtualGateways.Get(tx, req.DirectLinkInterface.VirtualGatewayId)
	if err != nil {
		return nil, err
	}
	i.VirtualGatewayId, i.Generation = gateway.VirtualGatewayId, 1
	err = resource.Transition(tx, Interfaces, i, interfaceCreated)
	return &CreateDirectLinkInterfaceResponse{viewInterface(tx, i)}, err
}

// longestBgpKey is what TCP signatures (RFC 2385) take, in bytes.
const longestBgpKey = 80

// newInterface plans an interface on a link of the account, for an owner. It
// leads nowhere yet.
func newInterface(tx *resource.Tx, linkID id.DirectLink, owner id.Account, want DirectLinkInterfaceToCreate) (*DirectLinkInterface, error) {
	link, err := DirectLinks.Get(tx, linkID)
	if err != nil {
		return nil, err
	}
	if len(want.BgpKey) > longestBgpKey {
		return nil, apierror.InvalidLength.Errorf("BgpKey is longer than %d bytes.", longestBgpKey)
	}
	for other := range Interfaces.Of(tx, linkID) {
		if other.Vlan == want.Vlan && !other.isOver(tx.Now()) {
			return nil, apierror.VlanTaken.Errorf(
				"The Vlan %d of %s is used by the DirectLink interface %s.", want.Vlan, linkID, other.DirectLinkInterfaceId)
		}
	}
	i := &DirectLinkInterface{
		AccountId: owner, BgpAsn: want.BgpAsn, DirectLinkId: linkID, DirectLinkInterfaceName: want.DirectLinkInterfaceName,
		Location: link.Location, Mtu: defaultMtu, Vlan: want.Vlan,
		LinkOwner: id.Account(tx.Account()), OwnLink: linkID, Key: resource.Secret(want.BgpKey),
	}
	i.DirectLinkInterfaceId = interfaceCopies.newID(tx, i)
	i.OutscalePrivateIp, i.ClientPrivateIp, err = want.addresses(tx, owner)
	return i, err
}

// addresses returns the requested addresses of both ends, or chooses them.
func (want DirectLinkInterfaceToCreate) addresses(tx *resource.Tx, owner id.Account) (ours, clients LinkIp, err error) {
	ours, clients = want.OutscalePrivateIp, want.ClientPrivateIp
	switch {
	case ours == "" && clients == "":
		return chooseAddresses(tx, owner)
	case ours == "":
		return "", "", apierror.MissingParameter.Errorf("DirectLinkInterface.OutscalePrivateIp is required with ClientPrivateIp.")
	case clients == "":
		return "", "", apierror.MissingParameter.Errorf("DirectLinkInterface.ClientPrivateIp is required with OutscalePrivateIp.")
	case ours.Prefix().Masked() != clients.Prefix().Masked():
		return "", "", apierror.InvalidParameter.Errorf("OutscalePrivateIp %s and ClientPrivateIp %s are not of the same range.", ours, clients)
	case ours == clients:
		return "", "", apierror.InvalidParameter.Errorf("OutscalePrivateIp and ClientPrivateIp cannot both be %s.", ours)
	}
	return ours, clients, nil
}

// linkLocal is the range of chosen addresses, which are valid on one link only.
// metadata, around 169.254.169.254, is left to the metadata of machines.
var linkLocal, metadata = netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("169.254.169.0/24")

// chooseAddresses finds a /30 for both ends that no interface has of those in the
// account and in that of the owner, beginning anywhere.
func chooseAddresses(tx *resource.Tx, owner id.Account) (ours, clients LinkIp, err error) {
	taken := map[netip.Prefix]bool{metadata: true}
	for _, account := range distinctAccounts(id.Account(tx.Account()), owner) {
		for i := range Interfaces.All(tx.In(string(account))) {
			if p := i.OutscalePrivateIp.Prefix().Masked(); p.Overlaps(linkLocal) {
				taken[p] = true
			}
		}
	}
	const size = 4
	blocks := sizeOf(linkLocal) / size
	used := make([]bool, blocks)
	for p := range taken {
		if p.Bits() < linkLocal.Bits() {
			p = linkLocal
		}
		at := p.Addr().As4()
		first := (int(at[2])<<8 | int(at[3])) / size
		for n := range max(1, sizeOf(p)/size) {
			used[first+n] = true
		}
	}
	first := number(tx, blocks)
	for n := range blocks {
		block := netip.PrefixFrom(nth(linkLocal, (first+n)%blocks*size), 30)
		if !used[(first+n)%blocks] {
			end := func(n int) LinkIp { return LinkIp(netip.PrefixFrom(nth(block, n), block.Bits()).String()) }
			return end(1), end(2), nil
		}
	}
	return "", "", apierror.InsufficientCapacity.Errorf("No range of %s is free: give both addresses.", linkLocal)
}

// AllocateInterface makes an interface on a link of the account for an owner,
// most likely another one. It is `confirming` until the owner says by
// [ConfirmInterface] which virtual gateway it leads to, and `expired` if that
// does not happen within 7 days. What want says of a gateway is ignored. The
// values in want are valid: Check and Bounds of their types say so. The answer
// is as the API shows it.
func AllocateInterface(tx *resource.Tx, link id.DirectLink, owner id.Account, want DirectLinkInterfaceToCreate) (*DirectLinkInterface, error) {
	if !isRegistered(tx, owner) {
		return nil, apierror.ObjectNotFound.Errorf("The account '%s' doesn't exist.", owner)
	}
	i, err := newInterface(tx, link, owner, want)
	if err != nil {
		return nil, err
	}
	i.ConfirmBefore = api.At(tx.Now().Add(interfacePatience))
	err = interfaceCopies.create(tx, i, interfaceAllocated, func(in *resource.Tx, own *DirectLinkInterface) error {
		if in.Account() != string(own.LinkOwner) {
			own.OwnLink = ""
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return viewInterface(tx, i), nil
}

// getInterface finds an interface that has not ended, be it by the time alone.
func getInterface(tx *resource.Tx, which id.DirectLinkInterface) (*DirectLinkInterface, error) {
	i, err := Interfaces.Get(tx, which)
	if err == nil && i.isOver(tx.Now()) {
		return nil, apierror.DirectLinkInterfaceNotFound.Errorf("The DirectLink interface '%s' has expired.", which)
	}
	return i, err
}

// ConfirmInterface has an interface that was allocated for the account lead to
// a virtual gateway of the account. It answers the interface as the API shows
// it.
func ConfirmInterface(tx *resource.Tx, which id.DirectLinkInterface, gateway id.VirtualGateway) (*DirectLinkInterface, error) {
	i, err := getInterface(tx, which)
	if err != nil {
		return nil, err
	}
	if !i.isOwners(tx) {
		return nil, apierror.NotAuthorized.Errorf(
			"The DirectLink interface %s is the account %s's, which alone can confirm it.", which, i.AccountId)
	}
	if _, err := VirtualGateways.Get(tx, gateway); err != nil {
		return nil, err
	}
	err = interfaceCopies.transition(tx, i, interfaceConfirmed, func(tx *resource.Tx, own *DirectLinkInterface) error {
		own.ConfirmBefore = 0
		if own.isOwners(tx) {
			own.VirtualGatewayId = gateway
			own.Generation++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	i, err = Interfaces.Get(tx, which)
	return viewInterface(tx, i), err
}

// expire ends an interface that was not confirmed in time.
func (i *DirectLinkInterface) expire(tx *resource.Tx) error {
	return interfaceCopies.transition(tx, i, interfaceExpired, nil)
}

// touchInterfaces makes the driver hear of a change in what interfaces depend
// on: the DirectLink that they are on, or the virtual gateway that they lead to.
func touchInterfaces(tx *resource.Tx, of any) error {
	for i := range Interfaces.Of(tx, of) {
		err := interfaceCopies.update(tx, i, func(tx *resource.Tx, own *DirectLinkInterface) error {
			if !own.isOwners(tx) || own.State == InterfaceConfirming {
				return nil
			}
			own.Generation++
			return Interfaces.Put(tx, own)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadDirectLinkInterfacesRequest asks for DirectLink interfaces.
type ReadDirectLinkInterfacesRequest struct {
	// Which DirectLink interfaces to list; all of them if absent. Those that have ended are
	// listed for an hour.
	Filters *FiltersDirectLinkInterface
	api.Page
}

// FiltersDirectLinkInterface selects DirectLink interfaces.
type FiltersDirectLinkInterface struct {
	// The IDs of the DirectLinks that the interfaces are on.
	DirectLinkIds          []id.DirectLink
	DirectLinkInterfaceIds []id.DirectLinkInterface // The IDs of the DirectLink interfaces.
}

// UpdateDirectLinkInterfaceRequest changes a DirectLink interface.
type UpdateDirectLinkInterfaceRequest struct {
	// The ID of the DirectLink interface.
	DirectLinkInterfaceId id.DirectLinkInterface `api:"required"`
	// The size of the largest packet, in bytes: 1500.
	Mtu Mtu `api:"required"`
}

// UpdateDirectLinkInterfaceResponse shows the interface.
type UpdateDirectLinkInterfaceResponse struct {
	DirectLinkInterface *DirectLinkInterface
}

func updateDirectLinkInterface(tx *resource.Tx, req *UpdateDirectLinkInterfaceRequest) (*UpdateDirectLinkInterfaceResponse, error) {
	i, err := getInterface(tx, req.DirectLinkInterfaceId)
	if err != nil {
		return nil, err
	}
	err = interfaceCopies.update(tx, i, func(tx *resource.Tx, own *DirectLinkInterface) error {
		if own.isOwners(tx) && own.State != InterfaceConfirming && own.Mtu != req.Mtu {
			own.Generation++
		}
		own.Mtu = req.Mtu
		return Interfaces.Put(tx, own)
	})
	i.Mtu = req.Mtu
	return &UpdateDirectLinkInterfaceResponse{viewInterface(tx, i)}, err
}

// DeleteDirectLinkInterfaceRequest deletes a DirectLink interface. Of a hosted
// one, both sides may.
type DeleteDirectLinkInterfaceRequest struct {
	// The ID of the DirectLink interface to delete.
	DirectLinkInterfaceId id.DirectLinkInterface `api:"required"`
}

func deleteDirectLinkInterface(tx *resource.Tx, req *DeleteDirectLinkInterfaceRequest) error {
	_, err := EndInterface(tx, req.DirectLinkInterfaceId)
	return err
}

// EndInterface deletes an interface, whether the account owns it or the link it
// is on, and answers its last state: `rejected` if its owner had still to
// confirm it and does this instead, else `deleted`.
func EndInterface(tx *resource.Tx, which id.DirectLinkInterface) (InterfaceState, error) {
	i, err := getInterface(tx, which)
	if err != nil {
		return "", err
	}
	event := interfaceDeleted
	if i.State == InterfaceConfirming && i.isOwners(tx) && i.LinkOwner != i.AccountId {
		event = interfaceRejected
	}
	err = interfaceCopies.transition(tx, i, event, nil)
	return i.State, err
}
