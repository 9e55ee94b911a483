package network

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// InternetService is the way of a [Net] to the Internet, once it is linked.
type InternetService struct {
	InternetServiceId id.InternetService // The ID of the internet service.
	// The ID of the Net that it is linked to; absent if it is not.
	NetId id.Net
	// `available` if it is linked to a Net; absent if it is not.
	State InternetServiceState `json:"-" wire:"omitempty"`
	Tags  []api.Tag            // The tags of the internet service.
}

// InternetServices are the internet services of the region.
var InternetServices = &resource.Kind[InternetService, id.InternetService]{
	Name:     "InternetService",
	Tag:      "internet-gateway",
	NotFound: apierror.InternetServiceNotFound,
	InUse:    apierror.InUse,
	Quota:    &resource.Quota{Name: "igw_limit", Code: apierror.TooManyInternetServices},
}

// InternetServiceState is the state of the link of an internet service.
type InternetServiceState string

// InternetServiceAvailable is the state of one that is linked.
const InternetServiceAvailable InternetServiceState = "available"

// Literals implements [api.Enum].
func (InternetServiceState) Literals() []string { return []string{"available"} }

func internetServiceActions() []api.Action {
	r := api.NewResource(InternetServices, viewInternetService)
	return []api.Action{
		api.Create(r, createInternetService),
		api.Read[ReadInternetServicesRequest](r),
		api.Delete[DeleteInternetServiceRequest](r, keepLinkedService),
		api.Command("InternetService", linkInternetService),
		api.Command("InternetService", unlinkInternetService),
	}
}

func viewInternetService(_ *resource.Tx, s *InternetService) *InternetService {
	if s.NetId != "" {
		s.State = InternetServiceAvailable
	}
	return s
}

// CreateInternetServiceRequest asks for an internet service, which is of use
// once it is linked to a Net.
type CreateInternetServiceRequest struct{}

func createInternetService(*resource.Tx, *CreateInternetServiceRequest) (*InternetService, error) {
	return &InternetService{}, nil
}

// ReadInternetServicesRequest asks for internet services.
type ReadInternetServicesRequest struct {
	Filters *FiltersInternetService // Which internet services to list; all of them if absent.
	api.Page
}

// FiltersInternetService selects internet services.
type FiltersInternetService struct {
	InternetServiceIds []id.InternetService // The IDs of the internet services.
	// The IDs of the Nets that the internet services are linked to.
	LinkNetIds []id.Net `path:"NetId"`
	// The states of the links: `available`, for those that are linked to a Net.
	LinkStates []InternetServiceState `path:"State"`
	api.TagFilters
}

// DeleteInternetServiceRequest deletes an internet service that is linked to no
// Net. Routes that lead to it stay, and lead nowhere.
type DeleteInternetServiceRequest struct {
	// The ID of the internet service to delete.
	InternetServiceId id.InternetService `api:"required"`
}

func keepLinkedService(_ *resource.Tx, s *InternetService) error {
	if s.NetId != "" {
		return apierror.InUse.Errorf("The internet service %s is linked to the Net %s.", s.InternetServiceId, s.NetId)
	}
	return nil
}

// LinkInternetServiceRequest connects a Net to the Internet.
type LinkInternetServiceRequest struct {
	// The ID of the internet service, which is linked to no Net.
	InternetServiceId id.InternetService `api:"required"`
	// The ID of the Net, which has no internet service.
	NetId id.Net `api:"required"`
}

func linkInternetService(tx *resource.Tx, req *LinkInternetServiceRequest) error {
	s, err := InternetServices.Get(tx, req.InternetServiceId)
	if err != nil {
		return err
	}
	net, err := Nets.Get(tx, req.NetId)
	if err != nil {
		return err
	}
	if s.NetId != "" {
		return apierror.GatewayLinked.Errorf("The internet service %s is linked to the Net %s already.", s.InternetServiceId, s.NetId)
	}
	if other := net.internetService(tx); other != "" {
		return apierror.NetLinked.Errorf("The Net %s is linked to the internet service %s.", net.NetId, other)
	}
	s.NetId = net.NetId
	if err := InternetServices.Put(tx, s); err != nil {
		return err
	}
	return touch(tx, net.NetId)
}

// internetService is the ID of the one that is linked to the Net; empty: none is.
func (n *Net) internetService(tx *resource.Tx) id.InternetService {
	if s := first(InternetServices.Of(tx, n.NetId)); s != nil {
		return s.InternetServiceId
	}
	return ""
}

// UnlinkInternetServiceRequest disconnects a Net, in which nothing is reached
// from the Internet any more, from it.
type UnlinkInternetServiceRequest struct {
	InternetServiceId id.InternetService `api:"required"` // The ID of the internet service.
	NetId             id.Net             `api:"required"` // The ID of the Net that it is linked to.
}

func unlinkInternetService(tx *resource.Tx, req *UnlinkInternetServiceRequest) error {
	s, err := InternetServices.Get(tx, req.InternetServiceId)
	if err != nil {
		return err
	}
	net, err := Nets.Get(tx, req.NetId)
	if err != nil {
		return err
	}
	if s.NetId != net.NetId {
		return apierror.InternetServiceNotLinked.Errorf("The internet service %s is not linked to the Net %s.", s.InternetServiceId, net.NetId)
	}
	if err := net.checkUnreached(tx); err != nil {
		return err
	}
	s.NetId = ""
	if err := InternetServices.Put(tx, s); err != nil {
		return err
	}
	return touch(tx, net.NetId)
}

// checkUnreached refuses a Net that something on the Internet reaches or that
// reaches it under an address of its own, and one that a load balancer is in.
func (n *Net) checkUnreached(tx *resource.Tx) error {
	for nat := range NatServices.Of(tx, n.NetId) {
		return apierror.NetHasNatService.Errorf("The Net %s has the NAT service %s.", n.NetId, nat.NatServiceId)
	}
	for nic := range Nics.Of(tx, n.NetId) {
		if nic.LoadBalancerName != "" {
			return apierror.NetHasLoadBalancer.Errorf("The Net %s has %s.", n.NetId, nic.shownAs())
		}
		for ip := range PublicIps.Of(tx, nic.NicId) {
			return apierror.NetHasPublicIps.Errorf("The public IP %s is linked to %s, in the Net %s.", ip.PublicIp, nic.shownAs(), n.NetId)
		}
	}
	return nil
}

// wantInternetService adds the internet service of a Net to what the driver must have.
func wantInternetService(tx *resource.Tx, n *Net, want *driver.Net) error {
	want.InternetService = string(n.internetService(tx))
	return nil
}
