package balancer

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// BalancerName is the name that a load balancer is given.
type BalancerName string

const maxName = 32

var names = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`)

// Check reports a name that no load balancer can have.
func (n BalancerName) Check() error {
	switch {
	case n == "" || len(n) > maxName:
		return apierror.InvalidLength.Errorf("The name of a load balancer has from 1 to %d characters, and not %d.", maxName, len(n))
	case !names.MatchString(string(n)):
		return apierror.InvalidBalancerName.Errorf(
			"'%s' is not a name of alphanumeric characters and hyphens, which begins and ends with an alphanumeric one.", string(n))
	}
	return nil
}

// CreateLoadBalancerRequest asks for a load balancer, in a Net if it names a Subnet
// and otherwise in the public Cloud.
type CreateLoadBalancerRequest struct {
	// One or more listeners, no two of them on the same port.
	Listeners []ListenerForCreation `api:"required"`
	// A name that no other load balancer of the account has, of 1 to 32 alphanumeric characters and
	// hyphens. It begins and ends with an alphanumeric character.
	LoadBalancerName BalancerName `api:"required"`
	// Whether the load balancer has a public IP (`internet-facing`), as it does by default, or is reached
	// in its Net only (`internal`). For a Net.
	LoadBalancerType BalancerType `default:"internet-facing"`
	// A public IP of the account that nothing uses, for an internet-facing load balancer. By default, the
	// region lends one.
	PublicIp string
	// The IDs of the security groups of the load balancer. At least one is required in a Net, all of
	// them of that Net.
	SecurityGroups []id.SecurityGroup
	// The ID of the Subnet to create the load balancer in. The backends may be in any Subnet of the Net.
	// Either a Subnet or a Subregion is required.
	Subnets []id.Subnet
	// The name of the Subregion to create the load balancer in, in the public Cloud. The backends may be in
	// any Subregion.
	SubregionNames []string
	// One or more tags.
	Tags []api.Tag
}

func (region Region) createLoadBalancer(tx *resource.Tx, req *CreateLoadBalancerRequest) (*LoadBalancerResponse, error) {
	name := id.LoadBalancer(req.LoadBalancerName)
	if LoadBalancers.Has(tx, name) {
		return nil, apierror.BalancerNameTaken.Errorf("The LoadBalancerName '%s' is used already.", name)
	}
	lb := &LoadBalancer{
		LoadBalancerName: name, LoadBalancerType: req.LoadBalancerType, SecurityGroups: once(req.SecurityGroups),
		AccessLog: AccessLog{PublicationInterval: 60}, Generation: 1,
	}
	if err := lb.tag(req.Tags); err != nil {
		return nil, err
	}
	if err := region.place(tx, lb, req); err != nil {
		return nil, err
	}
	if len(req.Listeners) == 0 {
		return nil, apierror.MissingParameter.Errorf("Listeners is empty: a load balancer is created with at least one listener.")
	}
	if err := lb.listen(tx, req.Listeners); err != nil {
		return nil, err
	}
	lb.HealthCheck = defaultHealthCheck(lb.Listeners[0].BackendPort)
	if err := LoadBalancers.Insert(tx, lb); err != nil {
		return nil, err
	}
	nic, err := lb.newNic(req.PublicIp).Create(tx, region.Network)
	if err != nil {
		return nil, err
	}
	lb.NicId = nic.NicId
	if err := LoadBalancers.Put(tx, lb); err != nil {
		return nil, err
	}
	return lb.show(tx), nil
}

// place says where a new load balancer is, and under which name it is found.
func (region Region) place(tx *resource.Tx, lb *LoadBalancer, req *CreateLoadBalancerRequest) error {
	switch {
	case len(req.Subnets) == 0 && len(req.SubregionNames) == 0:
		return apierror.MissingParameter.Errorf("Subnets or SubregionNames is required: the one in a Net, the other in the public Cloud.")
	case len(req.Subnets) > 0 && len(req.SubregionNames) > 0:
		return apierror.IncompatibleParameters.Errorf("Subnets and SubregionNames cannot be given together: a Subnet is in one Subregion.")
	case len(req.Subnets) > 1:
		return apierror.InvalidCount.Errorf("Subnets has %d elements: a load balancer is in one Subnet.", len(req.Subnets))
	case len(req.SubregionNames) > 1:
		return apierror.InvalidCount.Errorf("SubregionNames has %d elements: a load balancer is in one Subregion.", len(req.SubregionNames))
	case lb.LoadBalancerType == Internal && req.PublicIp != "":
		return apierror.InvalidParameterSet.Errorf("PublicIp is for internet-facing load balancers, and LoadBalancerType is %s.", Internal)
	}
	put := region.placeInCloud
	if len(req.Subnets) > 0 {
		put = placeInNet
	}
	if err := put(tx, lb, req); err != nil {
		return err
	}
	const digits = 9
	number := resource.Random(tx.Rand(), digits, resource.Decimal)
	lb.DnsName = string(lb.LoadBalancerName) + "-" + number
	if lb.LoadBalancerType == Internal {
		lb.DnsName = "internal-" + string(lb.LoadBalancerName) + "." + number
	}
	lb.DnsName += "." + region.Name + ".lbu." + region.Domain
	return nil
}

func placeInNet(tx *resource.Tx, lb *LoadBalancer, req *CreateLoadBalancerRequest) error {
	subnet := network.Subnets.Find(tx, req.Subnets[0])
	if subnet == nil {
		return apierror.SubnetNotFound.NotFound("SubnetId", string(req.Subnets[0]))
	}
	if len(lb.SecurityGroups) == 0 {
		return apierror.MissingParameter.Errorf("SecurityGroups is required for a load balancer in a Net.")
	}
	lb.Subnets, lb.NetId, lb.SubregionNames = req.Subnets, subnet.NetId, []string{subnet.SubregionName}
	return nil
}

func (region Region) placeInCloud(_ *resource.Tx, lb *LoadBalancer, req *CreateLoadBalancerRequest) error {
	subregion := req.SubregionNames[0]
	switch {
	case !slices.Contains(region.Subregions, subregion):
		all := strings.Join(region.Subregions, ", ")
		return apierror.SubregionNotFound.Errorf("The SubregionName '%.100s' is none of %s.", subregion, all)
	case lb.LoadBalancerType == Internal:
		return apierror.InvalidBalancerType.Errorf(
			"A load balancer in the public Cloud is %s, and not %s: name a Subnet.", InternetFacing, Internal)
	}
	lb.SubregionNames = []string{subregion}
	return nil
}

// newNic is the NIC of a load balancer in the making.
func (lb *LoadBalancer) newNic(publicIp string) network.NewBalancerNic {
	n := network.NewBalancerNic{
		LoadBalancer: lb.LoadBalancerName, SubregionName: lb.SubregionNames[0], SecurityGroups: lb.SecurityGroups,
		InternetFacing: lb.LoadBalancerType == InternetFacing, PublicIp: publicIp,
	}
	if len(lb.Subnets) > 0 {
		n.SubnetId = lb.Subnets[0]
	}
	return n
}

// once is a list without what is in it for a second time.
func once[T comparable](list []T) (different []T) {
	seen := map[T]bool{}
	for _, v := range list {
		if !seen[v] {
			seen[v], different = true, append(different, v)
		}
	}
	return different
}
