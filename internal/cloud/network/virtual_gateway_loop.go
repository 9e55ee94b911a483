package network

import (
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func wantVirtualGateway(tx *resource.Tx, n *Net, want *driver.Net) error {
	for g := range VirtualGateways.Of(tx, n.NetId) {
		want.VirtualGateway = string(g.VirtualGatewayId)
	}
	return nil
}
