package network

import (
	"testing"
)

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range map[string]interface{ Check() error }{
		"Net": netLife, "Subnet": subnetLife, "NetPeering": peeringLife, "NetAccessPoint": netAccessPointLife, "link of a virtual gateway": gatewayLinkLife, "VpnConnection route": vpnRouteLife,
		"gateway": gatewayLife, "VpnConnection": vpnConnectionLife, "DirectLink": directLinkLife, "DirectLinkInterface": interfaceLife,
	} {
		if err := life.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
