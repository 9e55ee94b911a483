package network

import (
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// wantServices are the services that routes, rules and access points name.
func (region Region) wantServices() (services []driver.Service) {
	for _, s := range region.services() {
		services = append(services, driver.Service{ID: s.ServiceId, Ranges: prefixes(s.IpRanges)})
	}
	return services
}

func wantNetAccessPoints(tx *resource.Tx, n *Net, want *driver.Net) error {
	for p := range NetAccessPoints.Of(tx, n.NetId) {
		want.AccessPoints = append(want.AccessPoints, driver.AccessPoint{ID: string(p.NetAccessPointId), Service: p.ServiceId})
	}
	return nil
}

func settleNetAccessPoints(tx *resource.Tx, done driver.Net) error {
	for _, applied := range done.AccessPoints {
		p := NetAccessPoints.Find(tx, id.NetAccessPoint(applied.ID))
		if p == nil {
			continue
		}
		if _, err := resource.Try(tx, NetAccessPoints, p, gatewayApplied); err != nil {
			return err
		}
	}
	return nil
}
