package catalog

import "github.com/bastide-cloud/bastide/internal/api"

// ReadPublicIpRangesRequest lists the ranges that the public IPs of the Region
// come from, in CIDR notation.
type ReadPublicIpRangesRequest struct{ api.Page }

func readPublicIpRanges(region Region) api.Action {
	return api.Read[ReadPublicIpRangesRequest](api.Fixed("PublicIp", "PublicIps", region.PublicIps)).WithAuth(api.Open)
}
