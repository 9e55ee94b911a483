package network

import (
	"fmt"
	"hash/fnv"
	"net/netip"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
)

// Service is a service of the region that Nets can reach without the Internet.
// Routes and rules of security groups lead to its ranges by its ID.
type Service struct {
	IpRanges    []api.CIDR // The ranges of addresses of the service, in CIDR notation.
	ServiceId   string     // The ID of the service.
	ServiceName string     // The name of the service: `com.outscale.<region>.<service>`.
}

// serviceNames are the services of the real regions.
var serviceNames = []string{"api", "directlink", "eim", "fcu", "icu", "kms", "lbu", "oos", "osu"}

// serviceBlock is where services have their addresses: a range reserved for
// documentation (RFC 5737), which leads to nobody else and which no public IP
// comes from. Each service has a part of it.
var serviceBlock = netip.MustParsePrefix("203.0.113.0/24")

// serviceBits is the size of the range of a service.
const serviceBits = 28

// services are the services of the region, in the order of their names. They
// are the same whenever the region starts.
func (region Region) services() []Service {
	var all []Service
	for i, short := range serviceNames {
		name := "com.outscale." + region.Name + "." + short
		sum := fnv.New32a()
		sum.Write([]byte(name))
		ipRange := netip.PrefixFrom(nth(serviceBlock, i<<(32-serviceBits)), serviceBits)
		all = append(all, Service{
			ServiceId: fmt.Sprintf("pl-%08x", sum.Sum32()), ServiceName: name, IpRanges: []api.CIDR{api.CIDR(ipRange.String())},
		})
	}
	return all
}

// serviceNamed finds a service by its name.
func (region Region) serviceNamed(name string) (Service, error) {
	for _, s := range region.services() {
		if s.ServiceName == name {
			return s, nil
		}
	}
	return Service{}, apierror.ServiceNotFound.Errorf("The ServiceName '%s' doesn't exist.", name)
}

// checkService reports an ID that is that of no service.
func (region Region) checkService(serviceID string) error {
	for _, s := range region.services() {
		if s.ServiceId == serviceID {
			return nil
		}
	}
	return apierror.ServiceNotFound.Errorf("The ServiceId '%s' doesn't exist.", serviceID)
}

// readServices lists the services.
func (region Region) readServices() api.Action {
	return api.Read[ReadNetAccessPointServicesRequest](api.Fixed("NetAccessPoint", "Services", region.services())).WithAuth(api.Open)
}

// ReadNetAccessPointServicesRequest asks for the services that Nets can reach.
type ReadNetAccessPointServicesRequest struct {
	Filters *FiltersService // Which services to list; all of them if absent.
	api.Page
}

// FiltersService selects services.
type FiltersService struct {
	ServiceIds   []string // The IDs of the services.
	ServiceNames []string // The names of the services.
}
